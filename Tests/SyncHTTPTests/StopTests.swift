import Glibc
import NIOCore
import SyncHTTP
import Testing

struct StopTests {
    @Test("A server that stops lets running requests end, closes idle connections, and accepts no new ones")
    func graceful() async throws {
        let exchanges = Log<HTTPExchange>()
        try await withServer(admit: { request in
            request.path == "/run" ? .collect(limit: 10) { exchange, _ in exchanges.append(exchange) } : echo(request)
        }) { surroundings in
            let idle = try surroundings.client()
            try idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try idle.answer().status == 200)
            let silent = try surroundings.client()
            let busy = try surroundings.client()
            try busy.send("GET /run HTTP/1.1\r\nHost: a\r\n\r\nGET /never HTTP/1.1\r\nHost: a\r\n\r\n")
            let exchange = await exchanges.wait()[0]

            let stopped = Log<Void>()
            async let stop: Void = {
                await surroundings.server.stop(within: .seconds(3_600))
                stopped.append(())
            }()
            #expect(try idle.rest() == "")
            #expect(try silent.rest() == "")
            #expect(access(surroundings.path, F_OK) != 0)
            #expect(throws: Client.Failure.self) { try surroundings.client() }
            #expect(stopped.entries.isEmpty)

            exchange.respond(status: 200)
            let answer = try busy.answer()
            #expect(answer.status == 200)
            #expect(answer.headers["connection"] == "close")
            busy.endSending()
            #expect(try busy.isClosed())
            await stop
            #expect(try await surroundings.isLeft())
            // A second stop is harmless.
            await surroundings.server.stop(within: .zero)
        }
    }

    @Test("A request that does not end in time is cut off")
    func cutOff() async throws {
        let exchanges = Log<HTTPExchange>()
        let closed = Log<Void>()
        try await withServer(admit: { _ in
            .stream(limit: nil) { exchange in
                exchange.onClose { closed.append(()) }
                exchange.begin(status: 200)
                exchanges.append(exchange)
            }
        }) { surroundings in
            let client = try surroundings.client()
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = await exchanges.wait()
            _ = try client.head()
            await surroundings.server.stop(within: .milliseconds(20))
            #expect(closed.entries.count == 1)
            #expect(try client.isClosed())
            #expect(!exchanges.entries[0].isOpen)
        }
    }
}
