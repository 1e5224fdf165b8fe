import CSyncLinux
import Foundation
import Glibc
import NIOCore
import SyncHTTP
import Testing

/// The file of a Unix socket is removed while the server runs.
struct SocketFileLossTests {
    private static let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    private func ask(_ client: Client) throws -> Int {
        try client.send(Self.get)
        return try client.answer().status
    }

    @Test("A removed file is noticed, told by the kernel, and made anew; who is connected stays connected")
    func madeAnew() async throws {
        try await withServer(admit: echo) { surroundings in
            let server = surroundings.server
            let events = Log<Bool>()
            let watch = try await server.watchFile { if !server.isFound { events.append(true) } }
            let before = try surroundings.client()
            #expect(try ask(before) == 200 && server.isFound)
            for round in 1...3 {
                #expect(unlink(surroundings.path) == 0)
                _ = await events.wait(for: round)
                #expect(!server.isFound)
                try await server.listenAgain(mode: 0o600, group: nil)
                #expect(server.isFound)
                let after = try surroundings.client()
                #expect(try ask(after) == 200 && ask(before) == 200)
                var facts = stat()
                #expect(lstat(surroundings.path, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
            }
            try await watch?.close().get()
        }
    }

    @Test("A keeper makes the file anew each time, tells it, and does nothing more once it has stopped")
    func kept() async throws {
        try await withServer(admit: echo) { surroundings in
            let news = Log<String>()
            let keeper = SocketFileKeeper(surroundings.server, mode: 0o600, group: nil, on: LoopExecutor(surroundings.loop)) { told in
                switch told {
                case .isBack: news.append("back")
                case .isGone: news.append("gone")
                }
            }
            keeper.check()
            for round in 1...3 {
                // Before the watch exists the first check finds the loss.
                #expect(unlink(surroundings.path) == 0)
                let told = await news.wait(for: round)
                #expect(told.suffix(1) == ["back"] && surroundings.server.isFound)
                #expect(try ask(try surroundings.client()) == 200)
            }
            await keeper.stop()
            #expect(unlink(surroundings.path) == 0)
            keeper.check()
            try await surroundings.turn()
            #expect(access(surroundings.path, F_OK) != 0)
        }
    }

    @Test("It does nothing while the file is in place, and leaves a file of another program alone", arguments: [true, false])
    func leftAlone(isForeign: Bool) async throws {
        try await withServer(admit: echo) { surroundings in
            let server = surroundings.server
            if isForeign {
                #expect(unlink(surroundings.path) == 0)
                #expect(FileManager.default.createFile(atPath: surroundings.path, contents: Data("mine".utf8)))
                #expect(!server.isFound)
                await #expect(throws: HTTPServerError.self) { try await server.listenAgain(mode: 0o600, group: nil) }
                #expect(FileManager.default.contents(atPath: surroundings.path) == Data("mine".utf8))
            } else {
                try await server.listenAgain(mode: 0o600, group: nil)
                var facts = stat()
                #expect(lstat(surroundings.path, &facts) == 0 && facts.st_mode & 0o777 == 0o660)
            }
        }
    }

    @Test("Connections over both files count against one limit, and a stop ends them all and removes the new file")
    func limits() async throws {
        try await withServer(limits: { $0.connections = 2 }, admit: echo) { surroundings in
            let first = try surroundings.client()
            #expect(try ask(first) == 200)
            #expect(unlink(surroundings.path) == 0)
            try await surroundings.server.listenAgain(mode: 0o600, group: nil)
            let second = try surroundings.client()
            #expect(try ask(second) == 200)
            let third = try surroundings.client()
            #expect(try ask(third) == 503)
            await surroundings.server.stop(within: .zero)
            #expect(try first.isClosed() && second.isClosed())
            #expect(access(surroundings.path, F_OK) != 0)
            // A connection that is asked for after the stop is not made.
            try await surroundings.server.listenAgain(mode: 0o600, group: nil)
            #expect(access(surroundings.path, F_OK) != 0)
        }
    }

    @Test(
        "An inherited socket whose file is gone at the start, or is that of a run that died, is not found, and gets a file",
        arguments: [false, true])
    func lostBefore(isStale: Bool) async throws {
        try await withDirectory { directory in
            let path = directory + "/api.sock"
            let descriptor = sync_unix_listen(path, 0o600, 8)
            #expect(unlink(path) == 0)
            if isStale { close(sync_unix_listen(path, 0o600, 8)) }
            try await withLoop { group in
                let configuration = HTTPServerConfiguration(endpoint: .inherited(descriptor: descriptor)) { Array($0.detail.utf8) }
                let server = try await HTTPServer.start(configuration, on: group, handler: ClosureHandler(closure: echo))
                #expect(!server.isFound)
                try await server.listenAgain(mode: 0o600, group: nil)
                #expect(server.isFound)
                #expect(try ask(Client(path: path)) == 200)
                await server.stop(within: .zero)
            }
        }
    }

    @Test("An inherited socket that lost its file is found again under its name")
    func inherited() async throws {
        try await withDirectory { directory in
            let path = directory + "/api.sock"
            let descriptor = sync_unix_listen(path, 0o600, 8)
            try await withLoop { group in
                let configuration = HTTPServerConfiguration(endpoint: .inherited(descriptor: descriptor)) { Array($0.detail.utf8) }
                let server = try await HTTPServer.start(configuration, on: group, handler: ClosureHandler(closure: echo))
                #expect(server.isFound)
                #expect(unlink(path) == 0)
                #expect(!server.isFound)
                try await server.listenAgain(mode: 0o600, group: nil)
                #expect(server.isFound)
                #expect(try ask(Client(path: path)) == 200)
                await server.stop(within: .zero)
                #expect(access(path, F_OK) != 0)
            }
        }
    }
}
