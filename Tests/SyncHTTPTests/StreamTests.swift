import NIOCore
import SyncHTTP
import Synchronization
import Testing

/// Bodies and answers that come in pieces.
struct StreamTests {
    @Test(
        "A body comes piece by piece, each asked for, and then its end",
        arguments: [
            "Content-Length: 6\r\n\r\nabcdef", "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n4\r\ncdef\r\n0\r\n\r\n",
        ])
    func readsBody(_ rest: String) async throws {
        try await withServer(admit: { _ in .stream(limit: nil) { EchoBack(exchange: $0).run() } }) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\n\(rest)GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.answer().body == "abcdef")
            #expect(try client.answer().body == "")
        }
    }

    @Test("An answer can stream while the request's body still arrives")
    func bothWays() async throws {
        try await withServer(admit: { _ in .stream(limit: nil) { EchoBack(exchange: $0).run() } }) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            #expect(try client.head().headers["transfer-encoding"] == "chunked")
            for index in 10..<60 {
                // The line's answer is here before the next line is sent.
                try client.send("2\r\n\(index)\r\n")
                #expect(try client.chunk() == "\(index)")
            }
            try client.send("0\r\n\r\n")
            #expect(try client.chunk() == nil)
            // The connection is as good as new.
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy")
            #expect(try client.answer().body == "xy")
        }
    }

    @Test("A consumer that does not ask stops the sender", arguments: [Listening.unix, .tcp])
    func bodyBackpressure(_ listening: Listening) async throws {
        let exchanges = Log<HTTPExchange>()
        let parts = Log<Int>()
        try await withServer(
            on: listening,
            admit: { _ in
                .stream(limit: nil) { exchanges.append($0) }
            }
        ) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n")
            let exchange = await exchanges.wait()[0]
            let bytes = [UInt8](repeating: 0x78, count: 100_000)
            func fill() async throws -> Int {
                var total = 0
                var idle = 0
                while idle < 20 {
                    let count = client.sendUntilFull(bytes)
                    total += count
                    idle = count == 0 ? idle + 1 : 0
                    try await surroundings.turn()
                }
                return total
            }
            // Only the part of the 50 MB that fits the kernel's buffers and one read of the server.
            #expect(try await fill() < 8_000_000)
            // Each piece that is asked for makes room, and no more is read for it than one more piece.
            for count in 1...5 {
                exchange.readBody { part in
                    if case .bytes(let bytes) = part { parts.append(bytes.count) }
                }
                #expect(await parts.wait(for: count).last.map { $0 <= 64 << 10 } == true)
                #expect(try await fill() < 1_000_000)
            }
            exchange.abort()
        }
    }

    @Test("The limit of a streamed body holds for what arrives, too")
    func streamLimit() async throws {
        let failures = Log<HTTPExchange.BodyFailure>()
        let firsts = Log<Int>()
        try await withServer(admit: { _ in
            .stream(limit: 5) { exchange in
                exchange.readBody { part in
                    // A body that is declared as too large never brings a piece.
                    guard case .bytes(let bytes) = part else { return }
                    firsts.append(bytes.count)
                    exchange.readBody { part in
                        if case .failed(let failure) = part { failures.append(failure) }
                        // Too late: the server has answered. Not an error.
                        exchange.respond(status: 200)
                    }
                }
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n")
            // Only when the first piece has been taken is the next one too much.
            #expect(await firsts.wait(for: 1) == [5])
            try client.send("1\r\nf\r\n")
            #expect(try client.answer().status == 413)
            #expect(await failures.wait(for: 1) == [.tooLarge])

            let declared = try surroundings.client()
            try declared.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabcdef")
            #expect(try declared.answer().status == 413)
        }
    }

    @Test(
        "A handler that has begun to answer is told how the body failed, and ends its answer itself",
        arguments: [
            ("zz\r\n", HTTPExchange.BodyFailure.malformed), ("2\r\nef\r\n", .tooLarge), ("", .timedOut),
        ])
    func failureWithinAnswer(bytes: String, failure: HTTPExchange.BodyFailure) async throws {
        try await withServer(
            limits: {
                if failure == .timedOut { $0.bodyIdleTime = .milliseconds(50) }
            },
            admit: { _ in
                .stream(limit: 5) { EchoBack(exchange: $0).run() }
            }
        ) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n")
            _ = try client.head()
            #expect(try client.chunk() == "abcd")
            try client.send(bytes)
            #expect(try client.chunk() == "\(failure)")
            #expect(try client.chunk() == nil)
            #expect(try client.isClosed())
        }
    }

    @Test("A client that leaves in the middle of its body is a failure of the body")
    func leavesWithinBody() async throws {
        let failures = Log<HTTPExchange.BodyFailure>()
        let ready = Log<Void>()
        try await withServer(admit: { _ in
            .stream(limit: nil) { exchange in
                exchange.readBody { part in
                    if case .failed(let failure) = part { failures.append(failure) }
                    // A second call fails in the same way.
                    exchange.readBody { part in
                        if case .failed(let failure) = part { failures.append(failure) }
                    }
                }
                ready.append(())
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
            _ = await ready.wait()
            client.leave()
            #expect(await failures.wait(for: 2) == [.closed, .closed])
        }
    }

    @Test("An answer before the end of a large body closes the connection, of a small one it does not")
    func earlyAnswer() async throws {
        try await withServer(admit: { _ in .stream(limit: nil) { $0.respond(status: 200) } }) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
            #expect(try client.answer().headers["connection"] == nil)
            try client.send("abcPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\nabc")
            #expect(try client.answer().headers["connection"] == "close")
            try client.send([UInt8](repeating: 0x78, count: 1_000_000))
            client.endSending()
            #expect(try client.isClosed())
        }
    }

    // MARK: Streamed answers

    @Test("The bytes that wait for a slow reader are counted, and fall as it reads")
    func unsentBytes() async throws {
        let exchanges = Log<HTTPExchange>()
        try await withServer(admit: { _ in
            .stream(limit: nil) { exchange in
                exchange.begin(status: 200)
                exchanges.append(exchange)
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            let exchange = await exchanges.wait()[0]
            _ = try client.head()
            #expect(exchange.unsentBytes == 0)
            let piece = [UInt8](repeating: 0x78, count: 10_000)
            // The rule for slow readers, from another thread: more than 1 MiB behind is too much.
            var written = 0
            while exchange.unsentBytes <= 1 << 20 {
                exchange.write(piece)
                written += piece.count
                #expect(exchange.unsentBytes <= written + written / 100)
                try await surroundings.turn()
                try #require(written < 10_000_000)
            }
            // 64 KiB at most are not seen here, and the kernel has some.
            #expect(written < (1 << 20) + 1_000_000)
            let writable = Log<Int>()
            exchange.whenWritable { writable.append(exchange.unsentBytes) }
            try await surroundings.turn()
            #expect(writable.entries.isEmpty)
            for _ in 0..<(written / piece.count) { _ = try client.chunk() }
            #expect(await writable.wait()[0] <= 64 << 10)
            exchange.end()
            #expect(try client.chunk() == nil)
            try await surroundings.turn()
            #expect(exchange.unsentBytes == 0)
        }
    }

    @Test("A producer that waits until the client has room never holds more than a piece and 64 KiB")
    func waitsForRoom() async throws {
        let most = Mutex(0)
        try await withServer(admit: { _ in
            .stream(limit: nil) { exchange in
                exchange.begin(status: 200)
                produce(into: exchange, pieces: 500) { unsent in most.withLock { $0 = max($0, unsent) } }
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.answer().body.utf8.count == 5_000_000)
            #expect(most.withLock { $0 } <= 64 << 10 + 10_100)
        }
    }

    @Test("Pieces written in one turn leave together")
    func oneTurnOneFlush() async throws {
        try await withServer(admit: { _ in
            .stream(limit: nil) { exchange in
                exchange.begin(status: 200, length: 300)
                for _ in 0..<100 { exchange.write([0x61, 0x62, 0x63]) }
                // Nothing was sent yet: all of it still is here, the head too.
                exchange.write([])
                #expect(exchange.unsentBytes > 300)
                exchange.end()
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.answer().body == String(repeating: "abc", count: 100))
        }
    }

    @Test("An event stream whose reader goes away is told so")
    func eventStream() async throws {
        let exchanges = Log<HTTPExchange>()
        let closed = Log<Void>()
        try await withServer(admit: { _ in
            .stream(limit: nil) { exchange in
                exchange.onClose { closed.append(()) }
                exchange.begin(status: 200, headers: [("Content-Type", "text/event-stream")])
                exchanges.append(exchange)
            }
        }) { surroundings in
            var client: Client? = try surroundings.client()
            try client?.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
            let exchange = await exchanges.wait()[0]
            #expect(try client?.head().headers["content-type"] == "text/event-stream")
            for index in 1...3 {
                exchange.write(Array("id: \(index)\n\n".utf8))
                #expect(try client?.chunk() == "id: \(index)\n\n")
            }
            client = nil
            _ = await closed.wait()
            #expect(!exchange.isOpen)
            exchange.write(Array("id: 4\n\n".utf8))
            exchange.end()
            try await surroundings.turn()
            #expect(exchange.unsentBytes == 0)
            #expect(try await surroundings.isLeft())
        }
    }

    @Test("An answer of known length has no chunks; one that ends too early cuts the connection")
    func counted() async throws {
        try await withServer(admit: { request in
            .stream(limit: nil) { exchange in
                exchange.begin(status: 206, length: 6)
                exchange.write(Array("abc".utf8))
                if request.path == "/whole" { exchange.write(Array("def".utf8)) }
                exchange.end()
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("GET /whole HTTP/1.1\r\nHost: a\r\n\r\nHEAD /whole HTTP/1.1\r\nHost: a\r\n\r\n")
            try client.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.answer().body == "abcdef")
            #expect(try client.answer(toHEAD: true).headers["content-length"] == "6")
            #expect(throws: Client.Failure.self) { try client.answer() }
        }
    }

    @Test("For HTTP/1.0 a stream ends with the connection")
    func http10Stream() async throws {
        try await withServer(admit: { _ in
            .stream(limit: nil) { exchange in
                exchange.begin(status: 200)
                exchange.write(Array("abc".utf8))
                exchange.end()
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.0\r\n\r\n")
            let head = try client.head()
            #expect(head.headers["transfer-encoding"] == nil)
            #expect(head.headers["connection"] == "close")
            #expect(try client.rest() == "abc")
        }
    }
}

/// Sends a request's body back as it comes; a failure by its name.
private struct EchoBack: Sendable {
    let exchange: HTTPExchange

    func run() {
        exchange.begin(status: 200)
        next()
    }

    private func next() {
        exchange.readBody { part in
            switch part {
            case .bytes(let bytes):
                exchange.write(bytes)
                next()
            case .end:
                exchange.end()
            case .failed(let failure):
                exchange.write(Array("\(failure)".utf8))
                exchange.end()
            }
        }
    }
}

private func produce(into exchange: HTTPExchange, pieces: Int, _ look: @escaping @Sendable (Int) -> Void) {
    guard pieces > 0 else { return exchange.end() }
    exchange.whenWritable {
        exchange.write([UInt8](repeating: 0x78, count: 10_000))
        look(exchange.unsentBytes)
        produce(into: exchange, pieces: pieces - 1, look)
    }
}
