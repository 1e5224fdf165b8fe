import HubPostgres
import HubServer
import Logging
import PostgresStand
import SyncCore
import SyncLinux
import Synchronization
import Testing

/// Tokens that another replica gave out a moment ago, and callers who only say that they have one.
@Suite("Tokens that are not in the book yet", .needsPostgres)
struct SharedTokenTests {
    /// The book as one replica read it last.
    private final class Mirror: Sendable {
        private let book = Mutex(TokenBook())
        let reads = Atomic(0)

        func current() -> TokenBook { book.withLock { $0 } }

        func replace(_ book: TokenBook) {
            reads.add(1, ordering: .relaxed)
            self.book.withLock { $0 = book }
        }
    }

    private static func running(_ bench: ReplicaBench, _ body: (ServiceTests.Running, Mirror) async throws -> Void) async throws {
        let mirror = Mirror()
        var settings = Hub.Settings(compressor: ZlibCompressor())
        settings.keepsTokens = true
        settings.tokensRead = { mirror.replace($0) }
        let hub = try Hub(.shared(try PostgresPlace(bench.url)), settings: settings, random: SeededRandom(seed: 1))
        let environment = HubService.Environment(
            time: ServiceTests.FixedTime(), seed: 1, tokens: { mirror.current() }, compressor: nil,
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let service = try await HubService.start(hub, HubService.Options(host: "127.0.0.1", port: 0), environment)
        let transport = try CurlTransport()
        defer { transport.close() }
        do {
            try await body(ServiceTests.Running(service: service, transport: transport), mirror)
        } catch {
            await service.stop(within: .zero)
            throw error
        }
        await service.stop(within: .zero)
    }

    private static func head(_ path: String, _ token: String, _ fields: String) -> String {
        "POST \(path) HTTP/1.1\r\nHost: hub\r\nSync-Version: 1\r\nSync-Device: gw-1\r\nSync-Replica: r-1\r\nAuthorization: Bearer \(token)\r\n\(fields)\r\n"
    }

    @Test(
        "A token that another replica gave out is good at once, before its body is read; one that no replica knows gets 401, and no body read"
    )
    func lookedUp() async throws {
        let bench = try ReplicaBench()
        let other = try bench.hub(seed: 2, tokens: TokenBook())
        try await Self.running(bench) { running, _ in
            var random = SeededRandom(seed: 3)
            var (token, oneTime) = ("", "")
            try other.hub.changeTokens { book in
                token = book.add(.one, at: other.now, using: &random)
                oneTime = book.add(.two, .enrolment, life: .seconds(3_600), at: other.now, using: &random)
            }
            let client = try RawClient(port: running.service.port)
            try client.send(Self.head("/v1/sync/push", token, "Content-Length: 16\r\nExpect: 100-continue\r\n"))
            #expect(try client.read(to: "\r\n\r\n").hasPrefix("HTTP/1.1 100 "))
            try client.send(#"{"mutations":[]}"#)
            #expect(try client.read(to: "}").hasPrefix("HTTP/1.1 200 "))
            let enrolled = try await running.send(.post, "/v1/devices/enroll", body: JSON.object(["token": .string(oneTime)]).bytes)
            #expect(enrolled.status == 201)
            let stranger = try RawClient(port: running.service.port)
            try stranger.send(Self.head("/v1/sync/push", "est_unknown", "Content-Length: 4000000\r\nExpect: 100-continue\r\n"))
            #expect(try stranger.rest().hasPrefix("HTTP/1.1 401 "))
            #expect(try await running.send(.post, "/v1/devices/enroll", body: Array(#"{"token":"ese_unknown"}"#.utf8)).status == 401)
            try other.hub.changeTokens { _ = $0.revoke(.one, at: other.now) }
            #expect(try await running.send(.post, "/v1/sync/push", body: Array(#"{"mutations":[]}"#.utf8), token: token).status == 403)
        }
    }

    @Test("Many callers with unknown tokens share a look at the database, and hold up no device")
    func shared() async throws {
        let bench = try ReplicaBench()
        let other = try bench.hub(seed: 2, tokens: TokenBook())
        try await Self.running(bench) { running, mirror in
            var random = SeededRandom(seed: 3)
            var token = ""
            try other.hub.changeTokens { token = $0.add(.one, at: other.now, using: &random) }
            #expect(try await running.push([Sent("k-1", .create)], token: token).map(\.verdict.word) == ["accepted"])
            let reads = mirror.reads.load(ordering: .relaxed)
            var strangers: [RawClient] = []
            for number in 0..<100 {
                let stranger = try RawClient(port: running.service.port)
                try stranger.send(Self.head("/v1/sync/push", "est_\(number)", "Transfer-Encoding: chunked\r\n") + "1\r\n{\r\n")
                strangers.append(stranger)
            }
            #expect(try await running.push([Sent("k-2", seq: 2, .create, id: "a-2")], token: token).map(\.verdict.word) == ["accepted"])
            for stranger in strangers { #expect(try stranger.rest().hasPrefix("HTTP/1.1 401 ")) }
            // Rows that have not changed are not read again.
            #expect(mirror.reads.load(ordering: .relaxed) == reads)
        }
    }

    @Test("When the database does not say, an unknown token is told to come again, and is not refused for good")
    func unreachable() async throws {
        let server = try PostgresServer()
        let bench = try ReplicaBench(server)
        try await Self.running(bench) { running, _ in
            try server.stop(mode: "immediate")
            let answer = try await running.send(.post, "/v1/sync/push", body: Array(#"{"mutations":[]}"#.utf8), token: "est_unknown")
            #expect(answer.status == 503 && answer.headers["Retry-After"] != nil)
            let enrolment = try await running.send(.post, "/v1/devices/enroll", body: Array(#"{"token":"ese_unknown"}"#.utf8))
            #expect(enrolment.status == 503)
        }
    }
}
