import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// A hub that stops, or whose network stops, in the middle of what it sends.
@Suite("Hubs that stop in the middle of a burst", .needsPostgres)
struct StoppedHubTests {
    private static func group(_ name: String, pushes: Int, mutations: Int, bytes: Int = 200) -> [HubRequest] {
        (0..<pushes).map { index in
            var headers: HTTPHeaders = [:]
            HubRequestHeaders(device: DeviceID(trusted: "d-\(index)"), replica: "r").write(to: &headers)
            let sent = (0..<mutations).map { number in
                Sent(
                    "\(name)-\(index)-\(number)", seq: Int64(number + 1), .create, id: "\(name)-\(index)-\(number)",
                    data: ["text": .string(String(repeating: "x", count: bytes))])
            }
            let body: JSON = ["mutations": .array(sent.map { .object($0.json) })]
            return HubRequest("POST", "/v1/sync/push", headers: headers, body: body.bytes)
        }
    }

    @Test(
        "The hub sends all that follows its lock in one piece without texts of statements, also the first time",
        arguments: [(64, 20, 200), (100, 20, 200), (4, 20, 50_000), (1, 1, 1)])
    func hubSendsAllAfterItsLockInOnePiece(_ pushes: Int, _ mutations: Int, _ bytes: Int) throws {
        let bench = try ReplicaBench()
        let wire = try ServerWire(to: bench.server)
        defer { wire.close() }
        let hub = try HubBench(place: .shared(try PostgresPlace(wire.url(of: bench.url))))
        // The first push opens the database, with the lock.
        _ = hub.push([], device: "gw-0")
        for round in 0..<2 {
            let answers = hub.hub.handle(Self.group("g\(round)", pushes: pushes, mutations: mutations, bytes: bytes), at: hub.now)
            #expect(answers.allSatisfy { $0.status == 200 })
            let tail = try #require(wire.tail)
            // libpq writes when 8 KB have gathered.
            #expect(tail.texts == 0 && tail.bytes < 4_096, "round \(round): \(tail)")
            #expect(tail.whole > pushes * mutations * bytes)
        }
    }

    /// A session has the lock, and waits for more.
    private static func isHeld(_ schema: String) -> String {
        """
        SELECT count(*) > 0 FROM pg_stat_activity a JOIN pg_locks l USING (pid)
        WHERE l.relation = '\(schema).hub'::regclass AND l.mode = 'RowShareLock' AND a.state = 'active' AND a.wait_event = 'ClientRead'
        """
    }

    @Test("A hub whose burst stops at any byte delays another one by no more than one attempt to write, and its push counts once")
    func stops() throws {
        let bench = try ReplicaBench()
        let wire = try ServerWire(to: bench.server)
        defer { wire.close() }
        let hub = try HubBench(place: .shared(try PostgresPlace(wire.url(of: bench.url))))
        let other = try HubBench(seed: 2, place: .shared(try PostgresPlace(bench.url)))
        for hub in [hub, other] { _ = hub.push([], device: "gw-0") }
        _ = try hub.verdict(Sent("k-0", .create, id: "a-0"))
        let tail = try #require(wire.tail).bytes
        // Within the Sync, behind COMMIT; within COMMIT; right behind the lock; before it; the first byte.
        let bytes = [(-1, false), (-20, true), (90 - tail, true), (-tail, false), (1, false)]
        for (round, (byte, holds)) in bytes.enumerated() {
            let push = Self.group("s\(round)", pushes: 1, mutations: 1)
            wire.fail(after: 1, .stop(byte))
            // Used by one thread at a time: this one joins the other.
            nonisolated(unsafe) let stopped = hub.hub
            let now = hub.now
            let pushing = Worker { stopped.handle(push, at: now).map(\.status) }
            wire.waitForStop()
            if holds { try bench.server.wait(Self.isHeld(bench.schema), schema: bench.schema) }
            var attempts = 1
            let theirs = Self.group("o\(round)", pushes: 1, mutations: 1)
            var answers = other.hub.handleIfFree(theirs, at: other.now)
            while answers == nil, attempts < 10 {
                attempts += 1
                answers = other.hub.handleIfFree(theirs, at: other.now)
            }
            #expect(answers?.map(\.status) == [200])
            #expect(attempts == (holds ? 2 : 1), "byte \(byte)")
            wire.release()
            let status = try pushing.join()
            #expect(status == [holds ? 503 : 200], "byte \(byte)")
            hub.now = hub.now.advanced(by: .seconds(10))
            // The next round would wait for a stop of a hub that has no connection.
            let answer = hub.hub.handle(push, at: hub.now).first
            try #require(answer?.status == 200, "byte \(byte): \(answer.map { String(decoding: $0.body, as: UTF8.self) } ?? "")")
        }
        #expect(try bench.server.query("SELECT count(*) FROM record", schema: bench.schema) == [["11"]])
        #expect(try other.hub.stats().counters.applied == 11)
    }
}
