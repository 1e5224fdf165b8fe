import Foundation
import SyncCore
import SyncLinux
import Synchronization
import Testing

/// The promises of every transport: requests go out as they are, and answers come in whole or as an error.
@Suite("Any HTTP transport")
struct HTTPTransportContract {
    // MARK: - Requests

    struct Sent: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var method: HTTPRequest.Method
        var body: HTTPRequest.Body
        var length: String?
        var received: String
    }

    @Test(
        "A request arrives with its method, its path untouched, its fields, and a length exactly when it has one",
        arguments: TransportCase.all,
        [
            Sent(testDescription: "GET", method: .get, body: .none, length: nil, received: ""),
            Sent(testDescription: "DELETE", method: .delete, body: .none, length: nil, received: ""),
            Sent(testDescription: "OPTIONS", method: .options, body: .none, length: nil, received: ""),
            Sent(testDescription: "POST, nothing", method: .post, body: .none, length: "0", received: ""),
            Sent(testDescription: "PUT, nothing", method: .put, body: .none, length: "0", received: ""),
            Sent(testDescription: "PATCH, nothing", method: .patch, body: .none, length: "0", received: ""),
            Sent(testDescription: "POST, empty", method: .post, body: .bytes([]), length: "0", received: ""),
            Sent(testDescription: "POST", method: .post, body: .bytes("a\0b".bytes), length: "3", received: "a\0b"),
            Sent(testDescription: "PUT", method: .put, body: .bytes("xy".bytes), length: "2", received: "xy"),
            Sent(testDescription: "PATCH", method: .patch, body: .bytes("xy".bytes), length: "2", received: "xy"),
            Sent(testDescription: "DELETE with a body", method: .delete, body: .bytes("xy".bytes), length: "2", received: "xy"),
        ])
    func requestArrives(_ transport: TransportCase, _ sent: Sent) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer("207 Fine", ["X-One: 1", "x-two:  b c "], "body".bytes)
        }
        defer { server.stop() }
        let request = server.request(sent.method, "/v1/records/a/..?q=1%2F", body: sent.body) {
            $0.headers = ["Sync-Version": "1", "Content-Type": "text/plain", "X-Empty": ""]
        }
        let response = try await transport.make().send(request)

        let seen = try #require(server.allRequests.first)
        #expect(seen.line == "\(sent.method.rawValue) /v1/records/a/..?q=1%2F HTTP/1.1")
        #expect(seen.value("Sync-Version") == "1")
        #expect(seen.value("Content-Type") == "text/plain")
        #expect(seen.value("X-Empty") == "")
        #expect(seen.value("Host") == String(server.url.dropFirst("http://".count)))
        #expect(seen.value("Content-Length") == sent.length)
        #expect(seen.value("Transfer-Encoding") == nil)
        for unasked in ["Expect", "Accept", "Accept-Encoding", "User-Agent", "Cookie"] {
            #expect(seen.value(unasked) == nil, "\(unasked) was sent")
        }
        #expect(seen.body == sent.received.bytes)
        #expect(response.status == 207)
        #expect(response.headers["X-ONE"] == "1")
        #expect(response.headers["X-Two"] == "b c")
        #expect(response.body == "body".bytes)
    }

    @Test(
        "A field that would end its line early is refused before anything is sent", arguments: TransportCase.all,
        [
            ("X-A", "1\r\nX-B: 2"), ("X-A", "1\n2"), ("X-A", "a\0b"), ("X A", "1"), ("X-A:", "1"), ("", "1"), ("X\r\nY", "1"),
        ])
    func injectedField(_ transport: TransportCase, _ field: (name: String, value: String)) async throws {
        let server = try CannedServer { $0.answer() }
        defer { server.stop() }
        let error = try await transport.make().failure(server.request { $0.headers = [(field.name, field.value)] })
        #expect(error.code == .malformed)
        #expect(server.connectionCount == 0)
    }

    @Test(
        "A URL that is none, of another scheme or with a password is refused, and the password is not repeated",
        arguments: TransportCase.all,
        [
            "", "not a url", "ftp://127.0.0.1/", "file:///etc/passwd", "http://", "http://user:hunter2@127.0.0.1/",
            "http://127.0.0.1:70000/", "http://127.0.0.1/\0",
        ])
    func badURL(_ transport: TransportCase, _ url: String) async throws {
        let error = try await transport.make().failure(HTTPRequest(.get, url))
        #expect(error.code == .malformed)
        #expect(!error.description.contains("hunter2"))
    }

    @Test(
        "A body of pieces is sent in chunks, each byte once and in order, also when a piece is larger than asked for",
        arguments: TransportCase.all)
    func pieces(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer()
        }
        defer { server.stop() }
        let whole = (0..<700_000).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 7) }
        let cuts = [0, 1, 3, 100_000, 100_001, 500_000, 700_000]
        let next = Mutex(0)
        let response = try await transport.make().send(
            server.request(
                .post,
                body: .pieces { _ in
                    let index = next.withLock { index in
                        defer { index += 1 }
                        return index
                    }
                    return index + 1 < cuts.count ? Array(whole[cuts[index]..<cuts[index + 1]]) : nil
                }))
        let seen = try #require(server.allRequests.first)
        #expect(response.status == 200)
        #expect(seen.value("Transfer-Encoding") == "chunked")
        #expect(seen.value("Content-Length") == nil)
        #expect(seen.body == whole)
    }

    @Test("A source that gives an empty piece does not make half of a body look whole", arguments: TransportCase.all)
    func emptyPiece(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer()
        }
        defer { server.stop() }
        let calls = Mutex(0)
        let error = try await transport.make().failure(
            server.request(
                .post,
                body: .pieces { _ in
                    calls.withLock { calls in
                        calls += 1
                        return calls == 1 ? [1, 2, 3] : []
                    }
                }))
        #expect(error.code == .broken)
        #expect(server.allRequests.isEmpty)
    }

    // MARK: - Answers

    @Test("A large answer comes in whole", arguments: TransportCase.all)
    func largeAnswer(_ transport: TransportCase) async throws {
        let whole = (0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 7) }
        let server = try CannedServer { connection in
            while connection.readRequest() != nil { connection.answer("200 OK", [], whole) }
        }
        defer { server.stop() }
        let response = try await transport.make().send(server.request())
        #expect(response.body == whole)
    }

    @Test("The first bytes of the body of a good answer are told while the rest is on its way, and once", arguments: TransportCase.all)
    func bodyBegan(_ transport: TransportCase) async throws {
        let gate = Gate(), count = Mutex(0)
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
            gate.passBlocking()
            connection.send("world")
        }
        defer { server.stop() }
        let response = try await transport.make().send(
            server.request {
                $0.bodyBegan = {
                    count.withLock { $0 += 1 }
                    gate.open()
                }
            })
        #expect(response.body == "helloworld".bytes && count.withLock { $0 } == 1)
    }

    @Test("The body of a refusal is not told", arguments: TransportCase.all, ["401 No", "503 Later"])
    func bodyOfRefusal(_ transport: TransportCase, _ status: String) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer(status, [], "reason".bytes)
        }
        defer { server.stop() }
        let count = Mutex(0)
        let response = try await transport.make().send(server.request { $0.bodyBegan = { count.withLock { $0 += 1 } } })
        #expect(response.body == "reason".bytes && count.withLock { $0 } == 0)
    }

    @Test("A redirect is an answer like any other and is not followed", arguments: TransportCase.all, [301, 302, 303, 307, 308])
    func redirect(_ transport: TransportCase, _ status: Int) async throws {
        let server = try CannedServer { connection in
            while connection.readRequest() != nil { connection.answer("\(status) Go", ["Location: /elsewhere"]) }
        }
        defer { server.stop() }
        let response = try await transport.make().send(server.request())
        #expect(response.status == status)
        #expect(response.headers["location"] == "/elsewhere")
        #expect(server.allRequests.count == 1)
    }

    @Test(
        "An answer that has no body by definition is whole without one, and the connection goes on", arguments: TransportCase.all,
        [
            (HTTPRequest.Method.head, "200 OK\r\nContent-Length: 5000000000\r\nContent-Encoding: gzip"),
            (.get, "204 No Content"), (.get, "304 Not Modified\r\nContent-Length: 12\r\nContent-Encoding: gzip"),
        ])
    func bodiless(_ transport: TransportCase, _ row: (method: HTTPRequest.Method, head: String)) async throws {
        let server = try CannedServer { connection in
            while connection.readRequest() != nil { connection.send("HTTP/1.1 \(row.head)\r\n\r\n") }
        }
        defer { server.stop() }
        let transport = try transport.make()
        for _ in 1...2 {
            let response = try await transport.send(server.request(row.method) { $0.acceptsGzip = true })
            #expect(response.status == Int(row.head.prefix(3)))
            #expect(response.body.isEmpty)
        }
        #expect(server.connectionCount == 1)
    }

    @Test(
        "An answer that ends with its connection, and one in chunks with trailers, come in whole", arguments: TransportCase.all,
        [
            "HTTP/1.0 200 OK\r\n\r\nhello", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX-Late: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
            "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200\r\nContent-Length: 5\r\nX-Folded: a\r\n  b\r\n\r\nhello",
        ])
    func framing(_ transport: TransportCase, _ answer: String) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send(answer)
        }
        defer { server.stop() }
        let response = try await transport.make().send(server.request())
        #expect(response.status == 200)
        #expect(response.body == "hello".bytes)
        #expect(response.headers["Link"] == nil)
        if answer.contains("Folded") { #expect(response.headers["X-Folded"] == "a b") }
    }

    // MARK: - Answers that are refused

    struct Refused: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var answer: String
        var code: TransportError.Code
    }

    @Test(
        "An answer that is not valid, not whole or too much of something is an error", arguments: TransportCase.all,
        [
            Refused(
                testDescription: "body shorter than its length", answer: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", code: .broken
            ),
            Refused(testDescription: "chunks cut", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", code: .broken),
            Refused(
                testDescription: "no last chunk", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                code: .broken),
            Refused(
                testDescription: "chunk size not a number", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
                code: .malformed),
            Refused(testDescription: "closed in the head", answer: "HTTP/1.1 200 OK\r\nContent-", code: .broken),
            Refused(testDescription: "closed after an interim head", answer: "HTTP/1.1 100 Continue\r\n\r\n", code: .broken),
            Refused(testDescription: "closed without an answer", answer: "", code: .broken),
            Refused(
                testDescription: "lengths that differ", answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
                code: .malformed),
            Refused(
                testDescription: "lengths that differ in one field", answer: "HTTP/1.1 200 OK\r\nContent-Length: 5, 4\r\n\r\nhello",
                code: .malformed),
            Refused(
                testDescription: "length not a number", answer: "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello", code: .malformed),
            Refused(testDescription: "negative length", answer: "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", code: .malformed),
            Refused(
                testDescription: "length beyond all numbers",
                answer: "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello", code: .malformed),
            Refused(testDescription: "no status line (HTTP/0.9)", answer: "<html>hello</html>", code: .malformed),
            Refused(testDescription: "another protocol", answer: "SSH-2.0-OpenSSH_9.2p1\r\n", code: .malformed),
            Refused(testDescription: "status not a number", answer: "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n", code: .malformed),
            Refused(testDescription: "status of no class", answer: "HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n", code: .malformed),
            Refused(testDescription: "switch of protocols", answer: "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", code: .malformed),
            Refused(
                testDescription: "field without a colon", answer: "HTTP/1.1 200 OK\r\nhello\r\nContent-Length: 0\r\n\r\n", code: .malformed),
            Refused(testDescription: "space before the colon", answer: "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", code: .malformed),
            Refused(
                testDescription: "escape sequence in a field", answer: "HTTP/1.1 200 OK\r\nX-A: \u{1B}[31m\r\nContent-Length: 0\r\n\r\n",
                code: .malformed),
            Refused(
                testDescription: "bare CR in a field", answer: "HTTP/1.1 200 OK\r\nX-A: a\rX-B: b\r\nContent-Length: 0\r\n\r\n",
                code: .malformed),
            Refused(
                testDescription: "NUL in a field", answer: "HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 0\r\n\r\n", code: .malformed),
            Refused(
                testDescription: "101 fields", answer: "HTTP/1.1 200 OK\r\n\(String(repeating: "X: y\r\n", count: 101))\r\n",
                code: .tooLarge),
            Refused(
                testDescription: "head of 66 KB", answer: "HTTP/1.1 200 OK\r\nX: \(String(repeating: "y", count: 66_000))\r\n\r\n",
                code: .tooLarge),
            Refused(
                testDescription: "line of 1 MB", answer: "HTTP/1.1 200 OK\r\nX: \(String(repeating: "y", count: 1_000_000))",
                code: .tooLarge),
            Refused(
                testDescription: "flood of interim heads", answer: String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 10_000),
                code: .tooLarge),
            Refused(
                testDescription: "101 trailers",
                answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\(String(repeating: "X: y\r\n", count: 101))\r\n",
                code: .tooLarge),
        ])
    func refused(_ transport: TransportCase, _ row: Refused) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send(row.answer)
        }
        defer { server.stop() }
        let error = try await transport.make().failure(server.request())
        #expect(error.code == row.code, "\(error)")
    }

    @Test(
        "A body may be as large as its limit and no byte larger, announced or not", arguments: TransportCase.all,
        [
            "Content-Length: 100000\r\n\r\n", "Connection: close\r\n\r\n",
        ])
    func bodyLimit(_ transport: TransportCase, _ framing: String) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\n" + framing)
            connection.send([UInt8](repeating: 7, count: 100_000))
        }
        defer { server.stop() }
        let transport = try transport.make()
        // Not kept: this server closes each connection, which the next request could meet in the middle of that.
        let whole = try await transport.send(
            server.request {
                $0.maxResponseBytes = 100_000
                $0.keepsConnection = false
            })
        #expect(whole.body.count == 100_000)
        let error = try await transport.failure(server.request { $0.maxResponseBytes = 99_999 })
        #expect(error.code == .tooLarge)
    }

    @Test("A body without end is given up at its limit", arguments: TransportCase.all)
    func endless(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while connection.send("1000\r\n" + String(repeating: "x", count: 4096) + "\r\n") {}
        }
        defer { server.stop() }
        let error = try await transport.make().failure(server.request { $0.maxResponseBytes = 1 << 20 })
        #expect(error.code == .tooLarge)
        #expect(error.traffic.down < 16 << 20)
    }

    @Test("A connection reset in the middle of a body is broken", arguments: TransportCase.all)
    func reset(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello")
            connection.reset()
        }
        defer { server.stop() }
        let error = try await transport.make().failure(server.request())
        #expect(error.code == .broken)
    }

    @Test("Bytes after the announced length never answer the next request", arguments: TransportCase.all, [true, false])
    func excess(_ transport: TransportCase, comesLater: Bool) async throws {
        let stray = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
        let isSent = Gate(), isAnswered = Gate()
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            let honest = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhonest"
            if connection.number > 1 {
                connection.send(honest)
            } else if comesLater {
                connection.send(honest)
                isAnswered.passBlocking()
                connection.send(stray)
                isSent.open()
            } else {
                connection.send(honest + stray)
                isSent.open()
            }
            connection.waitForPeerToClose()
        }
        defer { server.stop() }
        let transport = try transport.make()
        let first = try await transport.send(server.request())
        #expect(first.body == "honest".bytes)
        isAnswered.open()
        await isSent.pass()
        do throws(TransportError) {
            let second = try await transport.send(server.request())
            #expect(second.body == "honest".bytes)
        } catch {
            #expect(error.code == .broken)
        }
    }

    // MARK: - Places

    @Test("A Unix socket is connected to instead of the URL's host, which only names it", arguments: TransportCase.all)
    func unixSocket(_ transport: TransportCase) async throws {
        try await withTemporaryDirectory { directory in
            let server = try CannedServer(socketPath: directory + "/s") { connection in
                while connection.readRequest() != nil { connection.answer("200 OK", [], "unix".bytes) }
            }
            defer { server.stop() }
            let transport = try transport.make()
            for _ in 1...2 {
                let response = try await transport.send(HTTPRequest(.get, "http://agent/v1/status", socketPath: server.socketPath))
                #expect(response.body == "unix".bytes)
            }
            #expect(server.allRequests.first?.value("Host") == "agent")
            #expect(server.connectionCount == 1)
        }
    }

    @Test("Without a listener nothing is reached, and the error names the place", arguments: TransportCase.all)
    func unreachable(_ transport: TransportCase) async throws {
        let server = try CannedServer(nil)
        // A bound port that does not listen refuses connections, and no other process can take it.
        let url = server.url
        shutdown(server.listener, Int32(SHUT_RDWR))
        let transport = try transport.make()
        let error = try await transport.failure(HTTPRequest(.get, url))
        #expect(error.code == .unreachable)
        #expect(error.doing == "connect to \(url.dropFirst("http://".count))")
        #expect(error.detail.contains("Connection refused"))

        let missing = try await transport.failure(HTTPRequest(.get, "http://x/", socketPath: "/nonexistent/agent.sock"))
        #expect(missing.code == .unreachable)
        #expect(missing.doing == "connect to /nonexistent/agent.sock")
        #expect(missing.detail.contains("No such file or directory"))

        let long = "/tmp/" + String(repeating: "x", count: 200)
        #expect(try await transport.failure(HTTPRequest(.get, "http://x/", socketPath: long)).code == .unreachable)
    }

    @Test("A name that cannot exist is not resolved", arguments: TransportCase.all)
    func unresolved(_ transport: TransportCase) async throws {
        // A label of more than 63 bytes is refused without asking the network.
        let name = String(repeating: "x", count: 64) + ".test"
        let error = try await transport.make().failure(HTTPRequest(.get, "http://\(name)/"))
        #expect(error.code == .unresolved)
        #expect(error.doing == "resolve \(name)")
    }

    @Test("The interface that is named is used, and one that does not exist leads nowhere", arguments: TransportCase.all)
    func interface(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            while connection.readRequest() != nil { connection.answer() }
        }
        defer { server.stop() }
        let transport = try transport.make()
        #expect(try await transport.send(server.request { $0.interface = "lo" }).status == 200)
        let error = try await transport.failure(server.request { $0.interface = "nonesuch0" })
        #expect(error.code == .unreachable)
    }

    // MARK: - Connections

    @Test("A kept connection serves the next request, and one that is not to be kept serves only its own", arguments: TransportCase.all)
    func reuse(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            while connection.readRequest() != nil { connection.answer("200 OK", [], "\(connection.number)".bytes) }
        }
        defer { server.stop() }
        let transport = try transport.make()
        let kept = [true, true, true, false, false, true]
        var served: [String] = []
        var new: [Bool] = []
        for keeps in kept {
            let response = try await transport.send(server.request { $0.keepsConnection = keeps })
            served.append(String(decoding: response.body, as: UTF8.self))
            new.append(response.traffic.newConnection)
        }
        #expect(served == ["1", "1", "1", "2", "3", "1"])
        #expect(new == [true, false, false, true, true, false])
    }

    @Test("A kept connection that the peer has closed meanwhile does not cost a request", arguments: TransportCase.all)
    func keptAndClosed(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer()
        }
        defer { server.stop() }
        let transport = try transport.make()
        for number in 1...3 {
            #expect(try await transport.send(server.request(.post, body: .bytes([1]))).status == 200)
            // Not in the middle of it: what is sent then is swallowed, and may not be sent twice.
            await server.waitForClosed(number)
        }
        #expect(server.allRequests.count == 3)
    }

    @Test("A request that a kept connection swallowed is not sent again by the transport", arguments: TransportCase.all)
    func swallowed(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.answer()
            _ = connection.readRequest()
        }
        defer { server.stop() }
        let transport = try transport.make()
        _ = try await transport.send(server.request(.post, body: .bytes([1])))
        let error = try await transport.failure(server.request(.post, body: .bytes([2])))
        #expect(error.code == .broken)
        #expect(server.allRequests.map(\.body) == [[1], [2]])
    }

    @Test("Many requests at once all get their own answers", arguments: TransportCase.all)
    func parallel(_ transport: TransportCase) async throws {
        let server = try CannedServer { connection in
            while let request = connection.readRequest() {
                connection.answer("200 OK", [], "\(request.line) \(request.body.count)".bytes)
            }
        }
        defer { server.stop() }
        let transport = try transport.make()
        let answers = try await withThrowingTaskGroup(of: (Int, String).self) { group in
            for number in 0..<100 {
                group.addTask {
                    let body = [UInt8](repeating: 1, count: number * 1000)
                    let response = try await transport.send(server.request(.post, "/\(number)", body: .bytes(body)))
                    return (number, String(decoding: response.body, as: UTF8.self))
                }
            }
            return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        #expect(answers.count == 100)
        for number in 0..<100 { #expect(answers[number] == "POST /\(number) HTTP/1.1 \(number * 1000)") }
    }

    // MARK: - Traffic

    @Test("The bytes of a request and of its answer are counted as they crossed the socket", arguments: TransportCase.all, [false, true])
    func traffic(_ transport: TransportCase, isUnix: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let sent = Mutex<[Int]>([])
            let server = try CannedServer(socketPath: isUnix ? directory + "/s" : nil) { connection in
                while connection.readRequest() != nil {
                    let before = connection.sentCount
                    connection.answer("200 OK", ["X-A: b"], [UInt8](repeating: 1, count: 3000))
                    sent.withLock { $0.append(connection.sentCount - before) }
                }
            }
            defer { server.stop() }
            let transport = try transport.make()
            var traffic: [Traffic] = []
            var tries = 0
            // Repeated segments count, too, and on a busy machine the kernel repeats some even without a loss.
            repeat {
                tries += 1
                traffic = []
                for size in [0, 1, 50_000, 200_000] {
                    let body = [UInt8](repeating: 2, count: size)
                    traffic.append(try await transport.send(server.request(.post, body: .bytes(body))).traffic)
                }
                let sizes = server.allRequests.suffix(4).map(\.byteCount)
                #expect(zip(traffic, sizes).allSatisfy { $0.up >= $1 })
            } while !isUnix && tries < 20 && traffic.map(\.up) != server.allRequests.suffix(4).map(\.byteCount)
            #expect(traffic.map(\.up) == server.allRequests.suffix(4).map(\.byteCount))
            let error = try await transport.failure(server.request(.post) { $0.maxResponseBytes = 10 })
            #expect(traffic.map(\.down) == Array(sent.withLock { $0 }.dropFirst(4 * (tries - 1)).prefix(4)))
            #expect(error.traffic.up == server.allRequests.last?.byteCount)
            #expect(traffic.allSatisfy { $0.roundTrip.map { $0 >= .zero } ?? false })
        }
    }
}
