import Foundation
import NIOCore
import NIOPosix
import ProcessStand
import SyncHTTP
import Synchronization
import Testing

/// A server in a directory of its own, on a loop of its own.
struct Surroundings {
    let server: HTTPServer
    let path: String
    let directory: String
    let loop: any EventLoop
    let refusals: Log<String>

    /// Returns whether the last connection closes. That takes a few turns of the loop after the exchange has ended.
    func isLeft() async throws -> Bool {
        for _ in 0..<10_000 where server.connectionCount > 0 { try await turn() }
        return server.connectionCount == 0
    }

    /// Waits until the loop has done what it had to do when this was called.
    func turn() async throws {
        try await loop.submit {}.get()
    }

    /// - Parameter source: The last byte of its address, on TCP.
    func client(source: UInt32 = 1) throws -> Client {
        switch server.address {
        case .unix(let path): try Client(path: path)
        case .tcp(_, let port): try Client(port: port, source: source)
        }
    }

    /// A client that the server has accepted, so that those that are made one after the other have waited for that long.
    func acceptedClient(source: UInt32 = 1) async throws -> Client {
        let before = server.counts
        let client = try client(source: source)
        while server.counts == before { try await turn() }
        return client
    }
}

enum Listening {
    case unix
    case tcp
}

/// Starts a server, hands it to `body`, and takes everything away again. Afterwards the process must hold as many descriptors of each kind
/// as before.
func withServer(
    on listening: Listening = .unix, limits: (inout HTTPServerLimits) -> Void = { _ in },
    configure: (inout HTTPServerConfiguration) -> Void = { _ in },
    admit: @escaping @Sendable (RequestHead) -> HTTPAdmission,
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: (Surroundings) async throws -> Void
) async throws {
    let before = try ProcessResources.descriptors()
    try await withUncheckedServer(on: listening, limits: limits, configure: configure, admit: admit, body)
    let left = ProcessResources.leftOver(try ProcessResources.descriptors(), since: before)
    #expect(left.isEmpty, "left open: \(left)", sourceLocation: sourceLocation)
}

private func withUncheckedServer(
    on listening: Listening, limits: (inout HTTPServerLimits) -> Void, configure: (inout HTTPServerConfiguration) -> Void,
    admit: @escaping @Sendable (RequestHead) -> HTTPAdmission, _ body: (Surroundings) async throws -> Void
) async throws {
    try await withDirectory { directory in
        try await withLoop { group in
            let path = directory + "/api.sock"
            let refusals = Log<String>()
            var configuration = HTTPServerConfiguration(
                endpoint: listening == .unix ? .unix(path: path) : .tcp(host: "127.0.0.1", port: 0),
                problemBody: { Array("\($0.code): \($0.detail)".utf8) })
            limits(&configuration.limits)
            configuration.refused = { problem, _ in refusals.append(problem.code) }
            configure(&configuration)
            let server = try await HTTPServer.start(configuration, on: group, handler: ClosureHandler(closure: admit))
            let surroundings = Surroundings(
                server: server, path: path, directory: directory, loop: group.next(), refusals: refusals)
            do {
                try await body(surroundings)
            } catch {
                await server.stop(within: .zero)
                throw error
            }
            await server.stop(within: .zero)
        }
    }
}

func withLoop(_ body: (MultiThreadedEventLoopGroup) async throws -> Void) async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    do {
        try await body(group)
    } catch {
        try await group.shutdownGracefully()
        throw error
    }
    try await group.shutdownGracefully()
}

func withDirectory(_ body: (String) async throws -> Void) async throws {
    // Short, because a socket path is.
    let directory = "/tmp/http-\(UInt32.random(in: 0 ... .max))"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    try await body(directory)
}

struct ClosureHandler: HTTPHandler {
    let closure: @Sendable (RequestHead) -> HTTPAdmission

    func admit(_ request: RequestHead) -> HTTPAdmission { closure(request) }
}

/// Answers every request with its method, path and body.
@Sendable func echo(_ request: RequestHead) -> HTTPAdmission {
    .collect(limit: 1_000) { exchange, body in
        exchange.respond(
            status: 200, headers: [("Content-Type", "text/plain")],
            body: Array("\(request.method.rawValue) \(request.path) ".utf8) + body)
    }
}

/// A log of events from any thread, in order, and a way to wait for them.
final class Log<Entry: Sendable>: Sendable {
    private struct State {
        var entries: [Entry] = []
        var waiting: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    var entries: [Entry] { state.withLock { $0.entries } }

    func append(_ entry: Entry) {
        let ready = state.withLock { state in
            state.entries.append(entry)
            let count = state.entries.count
            let ready = state.waiting.filter { $0.count <= count }
            state.waiting.removeAll { $0.count <= count }
            return ready
        }
        for waiting in ready { waiting.continuation.resume() }
    }

    /// Waits until there are `count` entries, and returns all.
    func wait(for count: Int = 1) async -> [Entry] {
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                if state.entries.count >= count { return true }
                state.waiting.append((count, continuation))
                return false
            }
            if isReady { continuation.resume() }
        }
        return entries
    }
}
