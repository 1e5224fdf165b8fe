import SyncHTTP
import Testing

private let post = "POST /a HTTP/1.1\r\nHost: a\r\n"
private let chunked = post + "Transfer-Encoding: chunked\r\n\r\n"
private let next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"

/// Valid and invalid requests (RFC 9112), sent byte for byte over a real socket.
struct FramingTests {
    struct Case: CustomTestStringConvertible {
        var testDescription: String
        var bytes: String
        var status: Int

        init(_ name: String, _ bytes: String, _ status: Int) {
            testDescription = name
            self.bytes = bytes
            self.status = status
        }
    }

    @Test(
        "A request that breaks the framing is refused and the connection closed",
        arguments: [
            Case("NUL in a field", "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 400),
            Case("NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            Case("bare CR in a field", "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400),
            Case("bare LF after a field", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
            Case("bare LF after the request line, taken for a part of the version", "GET / HTTP/1.1\nHost: a\r\n\r\n", 505),
            Case("bare LF at the head's end", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
            Case("folded line", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400),
            Case("space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            Case("space before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
            Case("field without a name", "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400),
            Case("field name that is no token", "GET / HTTP/1.1\r\nHost: a\r\nX(y): b\r\n\r\n", 400),
            Case("line without a colon", "GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n", 400),
            Case("length and chunked", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            Case("chunked and length", post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
            Case("two different lengths", post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", 400),
            Case("the same length twice", post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde", 400),
            Case("list of lengths", post + "Content-Length: 5, 5\r\n\r\nabcde", 400),
            Case("length +5", post + "Content-Length: +5\r\n\r\nabcde", 400),
            Case("length -1", post + "Content-Length: -1\r\n\r\n", 400),
            Case("length 0x5", post + "Content-Length: 0x5\r\n\r\nabcde", 400),
            Case("length 2^64", post + "Content-Length: 18446744073709551616\r\n\r\n", 400),
            Case("length 2^63", post + "Content-Length: 9223372036854775808\r\n\r\n", 400),
            Case("empty length", post + "Content-Length: \r\n\r\n", 400),
            Case("chunk size that is no number", chunked + "xyz\r\nabc\r\n", 400),
            Case("negative chunk size", chunked + "-1\r\n", 400),
            Case("chunk size past 2^64", chunked + "1FFFFFFFFFFFFFFFF\r\nabc", 400),
            Case("chunk longer than its size", chunked + "3\r\nabcde\r\n0\r\n\r\n", 400),
            Case("chunk ended by bare LF", chunked + "3\nabc\r\n0\r\n\r\n", 400),
            Case("trailer with a bad name", chunked + "0\r\nX y: b\r\n\r\n", 400),
            Case("chunked twice", post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
            Case("chunked in two fields", chunked.dropLast() + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            Case("unknown coding", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
            Case("coding that is not last chunked", post + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
            Case("coding in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            Case("no Host", "GET / HTTP/1.1\r\n\r\n", 400),
            Case("two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            Case("absolute-form target", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            Case("target without a slash", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            Case("star for anything but OPTIONS", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            Case("fragment in the target", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            Case("space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            Case("letters beyond ASCII in the target", "GET /ä HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            Case("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            Case("CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            Case("TRACE", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            Case("PROPFIND", "PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            Case("unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            Case("method in small letters", "get / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            Case("upgrade", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400),
            Case("upgrade to HTTP/2", post + "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n", 400),
            Case("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
            Case("HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            Case("HTTP/0.9", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505),
            Case("HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
            Case("HTTP/1.", "GET / HTTP/1.\r\nHost: a\r\n\r\n", 505),
            Case("not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", 400),
            Case("TLS", "\u{16}\u{03}\u{01}\u{02}\0", 400),
            Case("unknown expectation", post + "Expect: 200-ok\r\nContent-Length: 1\r\n\r\na", 417),
        ])
    func refusesBrokenFraming(_ example: Case) async throws {
        try await withServer(admit: echo) { surroundings in
            let client = try surroundings.client()
            // The bytes after it must not be taken for another request.
            try client.send(example.bytes + next)
            let answer = try client.answer()
            #expect(answer.status == example.status, "\(answer)")
            #expect(answer.headers["content-type"] == "application/problem+json")
            #expect(answer.headers["connection"] == "close")
            #expect(try client.isClosed())
            #expect(surroundings.refusals.entries.count == 1)
            #expect(answer.body.hasPrefix(surroundings.refusals.entries.first ?? "none"))
        }
    }

    @Test(
        "An unusual but valid request is answered",
        arguments: [
            Case("blank lines before the request", "\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            Case("blanks around a length", post + "Content-Length:   3  \r\n\r\nabc", 200),
            Case("blanks after a coding", post + "Transfer-Encoding: chunked \r\n\r\n0\r\n\r\n", 200),
            Case("no value", "GET /a HTTP/1.1\r\nHost:\r\n\r\n", 200),
            Case("Latin-1 in a field", "GET /a HTTP/1.1\r\nHost: a\r\nX: \u{E9}\r\n\r\n", 200),
            Case("star for OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            Case("percent-encoding", "GET /%2e%2e/%00?a=%zz HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            Case("chunks", post + "Transfer-Encoding: Chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 200),
            Case("chunk extensions and trailers", chunked + "3;x=y\r\nabc\r\n0\r\nX: y\r\n\r\n", 200),
            Case("empty line within a chunk", chunked + "8\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n", 200),
        ])
    func acceptsTheUnusual(_ example: Case) async throws {
        try await withServer(admit: echo) { surroundings in
            let client = try surroundings.client()
            try client.send(example.bytes + next)
            #expect(try client.answer().status == example.status)
            #expect(try client.answer().body == "GET /next ")
        }
    }

    @Test("A request means the same however its bytes are cut")
    func anyCut() async throws {
        let request = chunked + "3\r\nabc\r\n4\r\n\r\n\r\n\r\n0\r\nX: y\r\n\r\n"
        let both = Array(
            (request + "PUT /b HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n\r\n\r\n").utf8)
        try await withServer(admit: echo) { surroundings in
            for cut in 1..<both.count {
                let client = try surroundings.client()
                try client.send(Array(both[..<cut]))
                try client.send(Array(both[cut...]))
                #expect(try client.answer().body == "POST /a abc\r\n\r\n", "cut at \(cut)")
                #expect(try client.answer().body == "PUT /b \r\n\r\n", "cut at \(cut)")
            }
            let client = try surroundings.client()
            for byte in both { try client.send([byte]) }
            #expect(try client.answer().body == "POST /a abc\r\n\r\n")
            #expect(try client.answer().body == "PUT /b \r\n\r\n")
        }
    }

    @Test("HTTP/1.0 is answered and the connection closed")
    func http10() async throws {
        try await withServer(admit: echo) { surroundings in
            let client = try surroundings.client()
            try client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            let answer = try client.answer()
            #expect(answer.status == 200)
            #expect(answer.headers["connection"] == "close")
            #expect(try client.isClosed())
        }
    }

    @Test("Connection: close is obeyed")
    func connectionClose() async throws {
        try await withServer(admit: echo) { surroundings in
            let client = try surroundings.client()
            try client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            #expect(try client.answer().headers["connection"] == "close")
            #expect(try client.isClosed())
        }
    }

    @Test("HEAD gets the head of the answer and no body; 204 has no length")
    func bodyless() async throws {
        try await withServer(admit: { request in
            .collect(limit: 0) { exchange, _ in
                if request.path == "/none" { return exchange.respond(status: 204) }
                exchange.respond(status: 200, body: Array("hello".utf8))
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n" + next)
            let head = try client.answer(toHEAD: true)
            #expect(head.headers["content-length"] == "5")
            let none = try client.answer()
            #expect(none.status == 204)
            #expect(none.headers["content-length"] == nil)
            #expect(try client.answer().body == "hello")
        }
    }

    @Test("The head says what was sent, undecoded")
    func headFields() async throws {
        let heads = Log<RequestHead>()
        try await withServer(admit: { head in
            heads.append(head)
            return .refuse(status: 404, code: "not-found", detail: "Nothing here.")
        }) { surroundings in
            let client = try surroundings.client()
            let fields = "Host: a\r\nX-One:  1 \r\nx-one: 2\r\nContent-Length: 3\r\n"
            try client.send("PATCH /a%20b?c=d?e HTTP/1.1\r\n\(fields)\r\nabc" + next)
            #expect(try client.answer().body == "not-found: Nothing here.")
            #expect(try client.answer().status == 404)
            let head = try #require(heads.entries.first)
            #expect(head.method == .patch)
            #expect(head.target == "/a%20b?c=d?e")
            #expect(head.path == "/a%20b")
            #expect(head.query == "c=d?e")
            #expect(head.contentLength == 3)
            #expect(head.header("x-ONE") == "1")
            #expect(head.headers("X-One") == ["1", "2"])
            #expect(head.header("absent") == nil)
            #expect(heads.entries.last?.query == nil)
            // Refusals of the handler are not the server's to count.
            #expect(surroundings.refusals.entries.isEmpty)
        }
    }

    @Test("A value cannot begin another line of the answer's head")
    func injection() async throws {
        try await withServer(admit: { _ in
            .collect(limit: 0) { exchange, _ in
                exchange.respond(status: 200, headers: [("Location", "/a\r\nSet-Cookie: b\0")])
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            let answer = try client.answer()
            #expect(answer.headers["location"] == "/a  Set-Cookie: b ")
            #expect(answer.headers["set-cookie"] == nil)
        }
    }
}
