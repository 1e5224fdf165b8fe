import SyncHTTP
import Testing

struct LimitTests {
    // MARK: Heads

    @Test("A head of exactly the limit is answered, one byte more is 431", arguments: [(0, 200), (1, 431)])
    func headBytes(more: Int, status: Int) async throws {
        try await withServer(limits: { $0.headBytes = 500 }, admit: echo) { surroundings in
            let client = try surroundings.client()
            let frame = "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n"
            let filler = String(repeating: "x", count: 500 + more - frame.utf8.count)
            try client.send("GET / HTTP/1.1\r\nHost: a\r\nX: \(filler)\r\n\r\n")
            #expect(try client.answer().status == status)
        }
    }

    @Test(
        "A head without end is refused when it reaches the limit, whatever it consists of",
        arguments: [
            "GET /" + String(repeating: "a", count: 20_000),
            "GET / HTTP/1.1\r\nHost: a\r\nX:" + String(repeating: " ", count: 20_000),
            "GET / HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: 20_000),
            "GET / HTTP/1.1\r\nHost: a\r\n" + String(repeating: "x", count: 20_000),
            String(repeating: "\r\n", count: 10_000),
        ])
    func endlessHead(_ head: String) async throws {
        try await withServer(admit: echo) { surroundings in
            let client = try surroundings.client()
            try client.send(head)
            #expect(try client.answer().status == 431)
            #expect(try client.isClosed())
        }
    }

    @Test("The limit of header fields is exact", arguments: [(64, 200), (65, 431)])
    func headFields(count: Int, status: Int) async throws {
        try await withServer(admit: echo) { surroundings in
            let client = try surroundings.client()
            let fields = (1..<count).map { "X\($0): y\r\n" }.joined()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n")
            #expect(try client.answer().status == status)
        }
    }

    // MARK: Bodies

    @Test("A declared body past the limit is 413 at once, even if not a byte of it comes")
    func declaredTooLarge() async throws {
        try await withServer(admit: echo) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n")
            let answer = try client.answer()
            #expect(answer.status == 413)
            #expect(answer.headers["connection"] == "close")
            #expect(surroundings.refusals.entries == ["too-large"])
        }
    }

    @Test("A body that passes the limit on its way is 413, and the handler never sees it")
    func discoveredTooLarge() async throws {
        try await withServer(admit: { _ in
            .collect(limit: 1_000) { _, _ in Issue.record("the handler saw a body past its limit") }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            try client.send("3E8\r\n\(String(repeating: "x", count: 1_000))\r\n1\r\ny\r\n")
            #expect(try client.answer().status == 413)
            #expect(try client.isClosed())
        }
    }

    @Test("A body of exactly the limit is taken", arguments: ["Content-Length: 1000", "Transfer-Encoding: chunked"])
    func exactBody(_ field: String) async throws {
        try await withServer(admit: echo) { surroundings in
            let client = try surroundings.client()
            let body = String(repeating: "x", count: 1_000)
            let sent = field.hasPrefix("C") ? body : "3e8\r\n\(body)\r\n0\r\n\r\n"
            try client.send("POST / HTTP/1.1\r\nHost: a\r\n\(field)\r\n\r\n\(sent)")
            #expect(try client.answer().body == "POST / \(body)")
        }
    }

    @Test("The sender of a large body that is refused sees the answer although it never stops sending")
    func refusalReachesSender() async throws {
        try await withServer(admit: refuseNo) { surroundings in
            let client = try surroundings.client()
            try client.send("POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n")
            // The body is far larger than the kernel's buffers, so it only goes through if the server reads it.
            try client.send([UInt8](repeating: 0x78, count: 4_000_000))
            let answer = try client.answer()
            #expect(answer.status == 403)
            #expect(answer.headers["connection"] == "close")
            client.endSending()
            #expect(try client.isClosed())
        }
    }

    @Test("A refused request with a small body costs no connection")
    func refusalKeepsConnection() async throws {
        try await withServer(admit: refuseNo) { surroundings in
            let client = try surroundings.client()
            try client.send("POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
            let answer = try client.answer()
            #expect(answer.status == 403)
            #expect(answer.headers["connection"] == nil)
            try client.send("abcGET /yes HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.answer().body == "GET /yes ")
        }
    }

    @Test(
        "Chunk extensions and trailers without end are refused",
        arguments: [
            "1;" + String(repeating: "x", count: 100_000), "0\r\nX:" + String(repeating: " ", count: 100_000),
        ])
    func endlessChunkFrame(_ chunk: String) async throws {
        try await withServer(admit: echo) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\(chunk)")
            let status = try client.answer().status
            #expect(status == 400 || status == 431)
            #expect(try client.isClosed())
        }
    }

    // MARK: Expect: 100-continue

    @Test("100 Continue is sent for a body that is wanted")
    func continueForWanted() async throws {
        try await withServer(admit: echo) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n")
            #expect(try client.answer().status == 100)
            try client.send("abc")
            #expect(try client.answer().body == "POST / abc")
        }
    }

    @Test("A body that is too large or refused is answered without 100 Continue", arguments: [("/", 413), ("/no", 403)])
    func noContinueForUnwanted(path: String, status: Int) async throws {
        try await withServer(admit: refuseNo) { surroundings in
            let client = try surroundings.client()
            let length = status == 413 ? 5_000 : 5
            let fields = "Host: a\r\nExpect: 100-continue\r\nContent-Length: \(length)\r\n"
            try client.send("POST \(path) HTTP/1.1\r\n\(fields)\r\n")
            let answer = try client.answer()
            #expect(answer.status == status)
            // The rest of the body may still come, so the connection cannot be used again.
            #expect(answer.headers["connection"] == "close")
            #expect(try client.isClosed())
        }
    }

    @Test("A streaming handler gets 100 Continue sent by asking for the body, not before")
    func continueOnDemand() async throws {
        let exchanges = Log<HTTPExchange>()
        try await withServer(admit: { _ in .stream(limit: nil) { exchanges.append($0) } }) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            let exchange = try #require(await exchanges.wait().first)
            exchange.readBody { part in
                guard case .bytes(let bytes) = part else { return }
                exchange.respond(status: 200, body: bytes)
            }
            #expect(try client.answer().status == 100)
            try client.send("abc")
            #expect(try client.answer().body == "abc")
        }
    }

    @Test(
        "An answer that begins before the body has come is preceded by 100 Continue if it is no refusal",
        arguments: [
            (200, [100, 200]), (403, [403]),
        ])
    func continueBeforeAnswer(status: Int, expected: [Int]) async throws {
        try await withServer(admit: { _ in
            .stream(limit: nil) { exchange in
                exchange.begin(status: status, length: 0)
                exchange.readBody { _ in exchange.end() }
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
            for status in expected { #expect(try client.answer().status == status) }
            try client.send("a")
            client.endSending()
            #expect(try client.isClosed())
        }
    }

    // MARK: Time
    //
    // The times are short where only the server waits, and long where the test itself must be in time.

    @Test("A head that does not arrive in time is 408; a connection without a byte is closed without a word")
    func slowHead() async throws {
        try await withServer(limits: { $0.headTime = .milliseconds(500) }, admit: echo) { surroundings in
            let slow = try surroundings.client()
            try slow.send("GET / HT")
            #expect(try slow.answer().status == 408)
            #expect(try slow.isClosed())
            let silent = try surroundings.client()
            #expect(try silent.rest() == "")
        }
    }

    @Test("One byte now and then does not prolong the time for a head")
    func slowLoris() async throws {
        try await withServer(
            limits: {
                $0.headTime = .milliseconds(500)
                $0.headBytes = 1 << 30
            }, admit: echo
        ) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n")
            // A byte whenever the server's loop has turned, for far longer than the limit.
            var bytes = 0
            while surroundings.refusals.entries.isEmpty, bytes < 1_000_000 {
                try client.send("x")
                try await surroundings.turn()
                bytes += 1
            }
            try #require(surroundings.refusals.entries == ["timeout"])
            #expect(try client.answer().status == 408)
        }
    }

    @Test("The time for a later head begins with its first byte")
    func slowSecondHead() async throws {
        try await withServer(limits: { $0.headTime = .milliseconds(500) }, admit: echo) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.answer().status == 200)
            try client.send("GET")
            #expect(try client.answer().status == 408)
        }
    }

    @Test("An idle connection is closed without a word")
    func idle() async throws {
        try await withServer(limits: { $0.idleTime = .milliseconds(50) }, admit: echo) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.answer().status == 200)
            #expect(try client.rest() == "")
            #expect(surroundings.refusals.entries.isEmpty)
        }
    }

    @Test("A body that stops coming is 408")
    func slowBody() async throws {
        try await withServer(limits: { $0.bodyIdleTime = .milliseconds(50) }, admit: echo) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab")
            #expect(try client.answer().status == 408)
            #expect(try client.isClosed())
        }
    }

    @Test("No time runs while a handler takes its time")
    func slowHandler() async throws {
        let exchanges = Log<HTTPExchange>()
        try await withServer(
            limits: {
                $0.headTime = .milliseconds(500)
                $0.idleTime = .milliseconds(50)
                $0.bodyIdleTime = .milliseconds(50)
                $0.writeStallTime = .milliseconds(50)
            },
            admit: { _ in .stream(limit: nil) { exchanges.append($0) } }
        ) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
            let exchange = try #require(await exchanges.wait().first)
            // A later connection reaches the longest of these limits.
            #expect(try surroundings.client().isClosed())
            #expect(exchange.isOpen)
            exchange.respond(status: 200)
            #expect(try client.answer().status == 200)
        }
    }

    /// An answer of so many bytes, and whether it was still open when the connection ended.
    private static func long(_ bytes: Int, _ closed: Log<Bool>) -> HTTPAdmission {
        .stream(limit: nil) { exchange in
            exchange.onClose { closed.append(exchange.isOpen) }
            exchange.begin(status: 200)
            exchange.write([UInt8](repeating: 0x78, count: bytes))
        }
    }

    @Test("A client that never reads its answer is cut off")
    func writeStall() async throws {
        let closed = Log<Bool>()
        try await withServer(
            limits: { $0.writeStallTime = .milliseconds(50) },
            admit: { _ in Self.long(2_000_000, closed) }
        ) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(await closed.wait() == [false])
            #expect(try await surroundings.isLeft())
            // Some of it had come, but not the end.
            _ = try client.head()
            #expect(throws: Client.Failure.self) { while try client.chunk() != nil {} }
        }
    }

    /// Repeats a test with longer times when its client is cut off: a busy machine may be slower with one step than the limit leaves.
    private func withLongerTimes(_ body: (_ factor: Int) async throws -> Void) async throws {
        for factor in [1, 4] {
            do { return try await body(factor) } catch is Client.Failure {}
        }
        try await body(16)
    }

    @Test("A slow reader that reads is not cut off")
    func slowReader() async throws {
        try await withLongerTimes { factor in
            try await withServer(
                limits: {
                    $0.writeStallTime = .milliseconds(800) * factor
                    $0.headTime = .milliseconds(300) * factor
                },
                admit: { _ in
                    .collect(limit: 0) { exchange, _ in
                        exchange.respond(status: 200, body: [UInt8](repeating: 0x78, count: 3_000_000))
                    }
                }
            ) { surroundings in
                let client = try surroundings.client()
                try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(try client.head().headers["content-length"] == "3000000")
                for _ in 0..<10 {
                    _ = try client.text(300_000)
                    // As long as another connection's time for a head, so that all together is many times the limit.
                    #expect(try surroundings.client().isClosed())
                }
                try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(try client.head().status == 200)
            }
        }
    }

    @Test("A TCP client that reads while our own send buffer takes nothing is not cut off")
    func slowLine() async throws {
        let size = 6_000_000
        try await withLongerTimes { factor in
            try await withServer(
                on: .tcp,
                limits: {
                    $0.writeStallTime = .seconds(1) * factor
                    $0.headTime = .milliseconds(300) * factor
                },
                admit: { _ in
                    .collect(limit: 0) { exchange, _ in exchange.respond(status: 200, body: [UInt8](repeating: 0x78, count: size)) }
                }
            ) { surroundings in
                let client = try surroundings.client()
                try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(try client.head().headers["content-length"] == String(size))
                // Linux takes more for a socket only when a third of its send buffer is free, here some 800 KB: that takes six of these
                // steps, and each of them is as long as another connection's time for a head.
                let step = 128 << 10, steps = 10
                for _ in 0..<steps {
                    _ = try client.text(step)
                    #expect(try surroundings.client(source: 2).isClosed())
                }
                _ = try client.text(size - steps * step)
                try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(try client.head().status == 200)
            }
        }
    }

    @Test("A TCP client that never reads its answer is cut off, however much its kernel has taken")
    func writeStallOverTCP() async throws {
        let closed = Log<Bool>()
        try await withServer(
            on: .tcp, limits: { $0.writeStallTime = .milliseconds(200) },
            admit: { _ in Self.long(30_000_000, closed) }
        ) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(await closed.wait() == [false])
            #expect(try await surroundings.isLeft())
            _ = try client.head()
        }
    }

    // MARK: Connections

    @Test("A connection too many is told so and closed; the others are not affected", arguments: [(3, 8), (64, 3)])
    func tooManyConnections(_ connections: Int, _ perUser: Int) async throws {
        try await withServer(
            limits: {
                $0.connections = connections
                $0.connectionsPerUser = perUser
            },
            admit: echo
        ) { surroundings in
            let clients = try (0..<3).map { _ in try surroundings.client() }
            for client in clients {
                try client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(try client.answer().status == 200)
            }
            #expect(surroundings.server.connectionCount == 3)
            for _ in 0..<5 {
                let tooMany = try surroundings.client()
                try tooMany.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
                let answer = try tooMany.answer()
                #expect(answer.status == 503)
                #expect(answer.headers["retry-after"] == "1")
                #expect(answer.body.hasPrefix("busy: "))
                #expect(try tooMany.isClosed())
            }
            for client in clients {
                try client.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(try client.answer().body == "GET /b ")
            }
            #expect(surroundings.server.connectionCount == 3)

            // A place that is given back can be taken.
            clients[0].leave()
            #expect(try clients[0].isClosed())
            while surroundings.server.connectionCount == 3 { try await surroundings.turn() }
            let next = try surroundings.client()
            try next.send("GET /c HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try next.answer().status == 200)
        }
    }

    @Test("A flood of connections without a byte leaves the others their answers")
    func flood() async throws {
        try await withServer(on: .tcp, limits: { $0.connections = 4 }, admit: { .known(echo($0)) }) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.answer().status == 200)
            let flood = try (0..<300).map { _ in try surroundings.client() }
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.answer().status == 200)
            #expect(surroundings.server.connectionCount <= 4)
            withExtendedLifetime(flood) {}
        }
    }
}

@Sendable private func refuseNo(_ request: RequestHead) -> HTTPAdmission {
    request.path == "/no" ? .refuse(status: 403, code: "forbidden", detail: "Not you.") : echo(request)
}
