import Glibc
import NIOCore
import NIOPosix
import SyncHTTP
import Synchronization
import Testing

/// Answers: when, from where, in which order.
struct AnswerTests {
    @Test("Pipelined requests are handled one at a time and answered in order, however late each answer is")
    func pipelining() async throws {
        let exchanges = Log<HTTPExchange>()
        try await withServer(admit: { _ in .collect(limit: 10) { exchange, _ in exchanges.append(exchange) } }) {
            let client = try $0.client()
            try client.send((1...50).map { "POST /\($0) HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab" }.joined())
            for index in 1...50 {
                let seen = await exchanges.wait(for: index)
                #expect(seen.count == index, "the next request was begun before this one was answered")
                seen[index - 1].respond(status: 200, body: Array(seen[index - 1].request.path.utf8))
                #expect(try client.answer().body == "/\(index)")
            }
        }
    }

    @Test("Only the pipelined requests of one read are held; the rest waits in the kernel")
    func pipeliningIsBounded() async throws {
        let exchanges = Log<HTTPExchange>()
        try await withServer(admit: { _ in .collect(limit: 10) { exchange, _ in exchanges.append(exchange) } }) {
            let client = try $0.client()
            let requests = Array(String(repeating: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", count: 1_000).utf8)
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            let exchange = await exchanges.wait()[0]
            // The server takes one read of it, and then no more, until the kernel is full.
            var taken = client.sendUntilFull(requests)
            for _ in 0..<20 {
                try await $0.turn()
                taken += client.sendUntilFull(requests)
            }
            #expect(taken < 1_000_000)
            #expect(exchanges.entries.count == 1)
            exchange.respond(status: 200)
            _ = await exchanges.wait(for: 2)
        }
    }

    @Test("A client that asks on and on without reading the answers is held back")
    func unreadAnswersAreBounded() async throws {
        let count = Mutex(0)
        let answer = [UInt8](repeating: 0x78, count: 10_000)
        try await withServer(admit: { _ in
            .collect(limit: 0) { exchange, _ in
                count.withLock { $0 += 1 }
                exchange.respond(status: 200, body: answer)
            }
        }) { surroundings in
            let client = try surroundings.client()
            let requests = Array(String(repeating: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", count: 100).utf8)
            var idle = 0
            while idle < 20 {
                idle = client.sendUntilFull(requests) == 0 ? idle + 1 : 0
                try await surroundings.turn()
            }
            // The kernel's buffers, ours of 64 KiB, and no more, though thousands were asked for.
            #expect(count.withLock { $0 } < 200)
            #expect(try client.answer().body.utf8.count == 10_000)
        }
    }

    @Test("An answer may come from another thread")
    func otherThread() async throws {
        let other = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        try await withServer(admit: { request in
            .collect(limit: 10) { exchange, body in
                other.next().execute { exchange.respond(status: 200, body: body) }
            }
        }) { surroundings in
            let client = try surroundings.client()
            for index in 0..<100 {
                try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n\(index % 90 + 10)")
                #expect(try client.answer().body == "\(index % 90 + 10)")
            }
        }
        try await other.shutdownGracefully()
    }

    @Test("An exchange that is dropped is answered 500, and the connection goes on")
    func dropped() async throws {
        try await withServer(admit: {
            $0.path == "/drop" ? .collect(limit: 0) { _, _ in } : echo($0)
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("GET /drop HTTP/1.1\r\nHost: a\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.answer().status == 500)
            #expect(try client.answer().body == "GET /a ")
            #expect(surroundings.refusals.entries == ["internal"])
        }
    }

    @Test("An exchange that is dropped within its answer cuts the connection")
    func droppedWithin() async throws {
        try await withServer(admit: { _ in
            .stream(limit: nil) { exchange in
                exchange.begin(status: 200)
                exchange.write(Array("half".utf8))
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(throws: Client.Failure.self) { try client.answer() }
        }
    }

    @Test("An answer for a client that left does nothing, and the leaving is told", arguments: [Listening.unix, .tcp])
    func clientLeft(_ listening: Listening) async throws {
        let exchanges = Log<HTTPExchange>()
        let closed = Log<Bool>()
        try await withServer(
            on: listening,
            admit: { _ in
                .collect(limit: 0) { exchange, _ in
                    exchange.onClose { [weak exchange] in closed.append(exchange?.isOpen ?? true) }
                    exchanges.append(exchange)
                }
            }
        ) { surroundings in
            var client: Client? = try surroundings.client()
            try client?.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            let exchange = await exchanges.wait()[0]
            #expect(exchange.isOpen)
            // An answer that the client has not read makes the kernel send a reset, which is what tells TCP apart
            // from a client that only has nothing more to say.
            if listening == .tcp {
                var reset = linger(l_onoff: 1, l_linger: 0)
                let size = socklen_t(MemoryLayout<linger>.size)
                setsockopt(client?.descriptor ?? -1, SOL_SOCKET, SO_LINGER, &reset, size)
            }
            client = nil
            #expect(await closed.wait() == [false])
            exchange.respond(status: 200)
            try await surroundings.turn()
            #expect(!exchange.isOpen)
            // Asked later, it is told at once.
            exchange.onClose { closed.append(true) }
            #expect(await closed.wait(for: 2) == [false, true])
        }
    }

    @Test("A client that closes its side after the request gets its answer", arguments: [Listening.unix, .tcp])
    func halfClosed(_ listening: Listening) async throws {
        let exchanges = Log<HTTPExchange>()
        try await withServer(
            on: listening,
            admit: { request in
                request.path == "/late" ? .collect(limit: 10) { exchange, _ in exchanges.append(exchange) } : echo(request)
            }
        ) { surroundings in
            let quick = try surroundings.client()
            try quick.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n")
            quick.endSending()
            #expect(try quick.answer().body == "GET /a ")
            #expect(try quick.answer().body == "GET /b ")
            #expect(try quick.isClosed())

            let late = try surroundings.client()
            try late.send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab")
            late.endSending()
            let exchange = await exchanges.wait()[0]
            exchange.respond(status: 200)
            #expect(try late.answer().status == 200)
            #expect(try late.isClosed())
        }
    }

    @Test("A request that ends within its body is not handled")
    func truncated() async throws {
        try await withServer(admit: { _ in
            .collect(limit: 10) { _, _ in Issue.record("the handler saw half a body") }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabc")
            client.endSending()
            #expect(try client.answer().status == 400)
            #expect(try client.isClosed())
        }
    }

    @Test("Half a request line and a goodbye cost nothing but the connection")
    func truncatedHead() async throws {
        try await withServer(admit: echo) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HT")
            client.endSending()
            #expect(try client.isClosed())
        }
    }
}
