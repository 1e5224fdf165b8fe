import NIOCore
import NIOPosix
import SyncHTTP
import Testing

private actor Counter {
    nonisolated let executor: LoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
    private var count = 0

    init(_ executor: LoopExecutor) {
        self.executor = executor
    }

    func increment() -> (count: Int, isOnLoop: Bool) {
        count += 1
        return (count, executor.loop.inEventLoop)
    }
}

struct LoopExecutorTests {
    @Test("An actor lives on the loop, and its callers elsewhere reach it there")
    func actorOnLoop() async throws {
        try await withLoop { group in
            let counter = Counter(LoopExecutor(group.next()))
            for expected in 1...3 {
                let (count, isOnLoop) = await counter.increment()
                #expect(count == expected)
                #expect(isOnLoop)
            }
        }
    }

    @Test("Code on the loop may enter the actor without a hop, and other code may not")
    func onlyCodeOnTheLoopEntersTheActor() async throws {
        try await withLoop { group in
            let executor = LoopExecutor(group.next())
            let counter = Counter(executor)
            let count = try await group.next().submit { counter.assumeIsolated { $0.increment().count } }.get()
            #expect(count == 1)
            #expect(executor.isIsolatingCurrentContext() == false)
            #expect(try await group.next().submit { executor.isIsolatingCurrentContext() == true }.get())
        }
    }

    @Test("A task that prefers the loop runs there, also after waiting")
    func taskOnLoop() async throws {
        try await withLoop { group in
            let executor = LoopExecutor(group.next())
            let counter = Counter(executor)
            let places = await Task(executorPreference: executor) {
                let before = executor.loop.inEventLoop
                _ = await counter.increment()
                await Task.yield()
                return [before, executor.loop.inEventLoop]
            }.value
            #expect(places == [true, true])
        }
    }

    @Test("A timer fires on the loop; a cancelled one does not")
    func timers() async throws {
        try await withLoop { group in
            let executor = LoopExecutor(group.next())
            let fired = Log<String>()
            // In one turn, so that the loop cannot fire it in between.
            try await executor.loop.submit {
                executor.schedule(after: .milliseconds(1)) { fired.append("cancelled") }.cancel()
                // Later than the cancelled one would have been.
                executor.schedule(after: .milliseconds(2)) {
                    fired.append(executor.loop.inEventLoop ? "on the loop" : "elsewhere")
                }
            }.get()
            #expect(await fired.wait() == ["on the loop"])
        }
    }

    @Test("A request can be answered by an actor on the same loop")
    func handlerAndActor() async throws {
        try await withDirectory { directory in
            try await withLoop { group in
                let counter = Counter(LoopExecutor(group.next()))
                let path = directory + "/a.sock"
                let configuration = HTTPServerConfiguration(endpoint: .unix(path: path), problemBody: { _ in [] })
                let handler = ClosureHandler { _ in
                    .collect(limit: 0) { exchange, _ in
                        let count = counter.assumeIsolated { $0.increment().count }
                        exchange.respond(status: 200, body: Array("\(count)".utf8))
                    }
                }
                let server = try await HTTPServer.start(configuration, on: group, handler: handler)
                let client = try Client(path: path)
                try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(try client.answer().body == "1")
                #expect(try client.answer().body == "2")
                await server.stop(within: .zero)
            }
        }
    }
}
