import Foundation
import HubPostgres
import HubServer
import NIOCore
import PostgresStand
import SyncCore
import SyncHTTP
import Testing

/// A session that is not the hub's keeps the database from being written to.
@Suite("Writes that another session holds up")
struct WriteHoldTests {
    private static func at(_ milliseconds: Int64) -> NIODeadline { .uptimeNanoseconds(UInt64(milliseconds) * 1_000_000) }

    @Test("After each try there is a pause; what has waited for five seconds is refused, and what comes after it at once")
    func decides() {
        let first = WriteHold(after: nil, triedFrom: Self.at(1_000), to: Self.at(1_500))
        #expect(first.next == Self.at(1_750) && !first.isOver)
        #expect(!first.isDue(at: Self.at(1_749)) && first.isDue(at: Self.at(1_750)))
        let last = WriteHold(after: first, triedFrom: Self.at(5_499), to: Self.at(5_999))
        #expect(last.since == Self.at(1_000) && !last.isOver)
        let over = WriteHold(after: last, triedFrom: Self.at(5_500), to: Self.at(6_000))
        #expect(over.isOver && over.next == Self.at(6_250))
        #expect(WriteHold(after: over, triedFrom: Self.at(6_250), to: Self.at(6_750)).isOver)
        #expect(!WriteHold(after: nil, triedFrom: Self.at(7_000), to: Self.at(7_500)).isOver)
    }

    @Test(
        "While another session writes, a push is put off without a report, and a pull is answered; then the push goes through once",
        .eachEngine)
    func putOff() throws {
        let (place, remove) = try Self.newPlace()
        defer { remove() }
        let bench = try HubBench(place: place)
        _ = try bench.verdict(Sent("k-1", .create, id: "a-1"))
        let other = try HubBench(seed: 2, place: place)
        other.hub.locksFirst = true
        var reported = 0
        bench.hub.report = { _ in reported += 1 }
        let push = Self.push("k-2", "a-2")
        var seen: Result<Void, any Error>?
        // From its beginning to its end, which is no commit, the other one is the only writer.
        other.hub.beforeCommit = {
            seen = Result {
                #expect(bench.hub.handleIfFree([push], at: bench.now) == nil)
                let pages = try bench.pull([("audits", nil)]).pages
                #expect(pages.flatMap(\.records).map(\.id.text) == ["a-1"])
                #expect(reported == 0)
                #expect(bench.hub.refuseHeld([push], at: bench.now).map(\.status) == [503] && reported == 1)
            }
            return false
        }
        #expect(other.push([Sent("k-3", .create, id: "a-3")], device: .two).status == 503)
        try #require(seen).get()
        let answers = try #require(bench.hub.handleIfFree([push], at: bench.now))
        #expect(try PushMessages.readResponse(answers[0].body).results.map(\.verdict.word) == ["accepted"])
        #expect(try bench.follow("audits").pages.flatMap(\.records).map(\.id.text) == ["a-1", "a-2"])
    }

    @Test("A lock on the hub's row holds up pushes and no pull; the push that waits goes through when it is gone", .needsPostgres)
    func service() async throws {
        let bench = try ReplicaBench()
        try await ServiceTests.running(place: .shared(try PostgresPlace(bench.url))) { running in
            _ = try await running.push([Sent("k-1", .create, id: "a-1")])
            let other = try bench.session(.writing)
            try other.waitForWrites()
            async let late = Self.repeated(running, Sent("k-2", seq: 2, .create, id: "a-2"))
            // The hub waits for the row, as the server sees it.
            while try Self.waiting() == 0 { await Task.yield() }
            let request = PullRequest(
                streams: [StreamPosition(entity: "audits", cursor: nil)], limit: 500, maxBytes: 1 << 20, maxSentSeq: 0)
            let pulled = try await running.send(.post, "/v1/sync/pull", body: PullMessages.request(request), device: .two)
            // The lock was not released yet, so this pull did not wait for the push.
            #expect(pulled.status == 200)
            try other.rollback()
            let results = try await late
            #expect(results.map(\.verdict.word) == ["accepted"])
        }
    }

    /// Repeats a push as a device does: the hub holds it up for five seconds of the clock, and refuses it then.
    private static func repeated(_ running: ServiceTests.Running, _ sent: Sent) async throws -> [PushResult] {
        while true {
            do {
                return try await running.push([sent])
            } catch let refused as HubBench.Unexpected where refused.description.hasPrefix("503 ") {}
        }
    }

    private static func waiting() throws -> Int {
        try PostgresServer.shared.get().query("SELECT pid FROM pg_locks WHERE NOT granted").count
    }

    private static func push(_ key: String, _ id: String) -> HubRequest {
        var headers: HTTPHeaders = [:]
        HubRequestHeaders(device: .one, replica: "r-1").write(to: &headers)
        let body: JSON = ["mutations": .array([.object(Sent(key, seq: 2, .create, id: id).json)])]
        return HubRequest("POST", "/v1/sync/push", headers: headers, body: body.bytes)
    }

    /// Returns the place of a new database that two connections can share, and a function that removes it.
    private static func newPlace() throws -> (Hub.Place, remove: () -> Void) {
        guard Engine.current == .sqlite else { return (try Engine.current.newPlace(), {}) }
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("hold-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return (.file(folder.appendingPathComponent("hub.db").path), { try? FileManager.default.removeItem(at: folder) })
    }
}
