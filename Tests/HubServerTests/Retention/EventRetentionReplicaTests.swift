import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// Several hubs over one server: each does the housekeeping.
@Suite("Retention of events: replicas", .needsPostgres)
struct EventRetentionReplicaTests {
    private static func hub(_ bench: ReplicaBench, seed: UInt64 = 1, at now: Timestamp? = nil) throws -> HubBench {
        let hub = try HubBench(rules: EventRetentionTests.rules(), seed: seed, place: .shared(try PostgresPlace(bench.url)))
        if let now { hub.now = now }
        return hub
    }

    /// Events of a hub, and 36 days later.
    private static func filled(_ bench: ReplicaBench, _ count: Int) throws -> Timestamp {
        let hub = try hub(bench)
        for start in stride(from: 0, to: count, by: 50) {
            let events = (start..<min(count, start + 50)).map { EventRetentionTests.event("old-\($0)", seq: Int64($0 + 1)) }
            #expect(try hub.verdicts(events).allSatisfy { $0.verdict.word == "accepted" })
        }
        for _ in 0..<6 {
            _ = try hub.hub.beginHousekeeping(at: hub.now)
            hub.now = hub.now.advanced(by: EventRetentionTests.day * 6)
        }
        return hub.now
    }

    private static func removesEvents(_ run: HousekeepingRun) -> Bool {
        if case .events? = run.task { true } else { false }
    }

    @Test("Old events go while another hub holds the lock of the writers")
    func besideWriters() throws {
        let bench = try ReplicaBench()
        let hub = try Self.hub(bench, seed: 2, at: try Self.filled(bench, 20))
        var run = try hub.hub.beginHousekeeping(at: hub.now)
        run.eventsMax = 7
        while !run.isOver, !Self.removesEvents(run) { try hub.hub.housekeep(&run) }
        let writer = try bench.session(.writing)
        while !run.isOver { try hub.hub.housekeep(&run) }
        try writer.rollback()
        #expect(hub.hub.housekept.events == 20)
        #expect(try hub.hub.stats().entities.isEmpty)
    }

    @Test("Hubs that remove the same events at the same time, beside pushes, remove each old one once and no young one")
    func together() throws {
        let bench = try ReplicaBench()
        let now = try Self.filled(bench, 300)
        let removers = (0..<2).map { index in
            Worker { () throws -> Int64 in
                let hub = try Self.hub(bench, seed: UInt64(10 + index), at: now)
                var run = try hub.hub.beginHousekeeping(at: now)
                run.eventsMax = 7
                var failures = 0
                while !run.isOver {
                    // A slice that has lost against the other hub five times in a row is tried again.
                    do { try hub.hub.housekeep(&run) } catch {
                        failures += 1
                        if failures > 100 { throw error }
                    }
                }
                return hub.hub.housekept.events
            }
        }
        let pusher = Worker { () throws -> Bool in
            let hub = try Self.hub(bench, seed: 20, at: now)
            return try (0..<60).allSatisfy {
                try hub.verdict(EventRetentionTests.event("young-\($0)", seq: Int64(1_000 + $0))).word == "accepted"
            }
        }
        #expect(try pusher.join())
        #expect(try removers.map { try $0.join() }.reduce(0, +) == 300)
        let hub = try Self.hub(bench, seed: 30, at: now)
        #expect(try (0..<300).allSatisfy { try !EventRetentionTests.isThere(hub.hub, "old-\($0)") })
        #expect(try (0..<60).allSatisfy { try EventRetentionTests.isThere(hub.hub, "young-\($0)") })
        #expect(try hub.hub.stats().events["log"]?.total == 300)
        #expect(try bench.server.query("SELECT forgotten FROM horizon WHERE entity = 'log'", schema: bench.schema) == [["300"]])
        #expect(try hub.verdict(EventRetentionTests.event("old-7", seq: 8)).word == "duplicate")
    }
}
