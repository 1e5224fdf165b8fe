import HubPostgres
import PostgresStand
import SyncCore
import Synchronization
import Testing

@testable import HubServer

/// Old deletions go beside the pushes of other hubs over the same server.
@Suite("Retention of deletions: replicas", .needsPostgres)
struct DeletionRetentionReplicaTests {
    private static func hub(_ bench: ReplicaBench, seed: UInt64 = 1) throws -> HubBench {
        try HubBench(rules: RuleBook(["audits": EntityRules()]), seed: seed, place: .shared(try PostgresPlace.unhurried(bench.url)))
    }

    /// Makes records and deletes them, and adds what a hub with scopes would have kept of them.
    private static func fill(_ hub: HubBench, _ bench: ReplicaBench, _ count: Int) throws {
        for start in stride(from: 0, to: count, by: 50) {
            let numbers = start..<min(count, start + 50)
            let made = try hub.verdicts(numbers.map { Sent("c-\($0)", seq: Int64($0 + 1), .create, id: "a-\($0)") })
            let deleted = zip(numbers, made).map { number, result in
                Sent("d-\(number)", seq: Int64(count + number + 1), .delete, id: "a-\(number)", base: result.verdict.version ?? 0)
            }
            #expect(try hub.verdicts(deleted).allSatisfy { $0.verdict.word == "accepted" })
        }
        try bench.server.query(
            """
            INSERT INTO record_scope(entity, scope, id, since, version, state, at_ms)
            SELECT entity, 7, id, version, version, 1, updated_at_ms FROM record;
            INSERT INTO refused_create(device, entity, id, version, at_ms) SELECT 'gw-9', entity, id, version, updated_at_ms FROM record
            """, schema: bench.schema)
    }

    private static func counts(_ bench: ReplicaBench) throws -> [String?] {
        try bench.server.query(
            """
            SELECT (SELECT count(*) FROM record), (SELECT count(*) FROM record_scope), (SELECT count(*) FROM refused_create),
            (SELECT coalesce(sum(forgotten), 0) FROM horizon)
            """, schema: bench.schema)[0]
    }

    private static func remove(_ hub: HubBench, before now: Timestamp) throws {
        var run = HousekeepingRun(at: now, HousekeepingRun.deletions(before: now))
        run.rowsMax = 7
        while !run.isOver { try hub.hub.housekeep(&run) }
    }

    @Test("Old deletions go while another hub holds the lock of the writers")
    func besideWriters() throws {
        let bench = try ReplicaBench()
        let hub = try Self.hub(bench)
        try Self.fill(hub, bench, 20)
        #expect(try Self.counts(bench) == ["20", "20", "20", "0"])
        let writer = try bench.session(.writing)
        try Self.remove(hub, before: hub.now.advanced(by: .seconds(1)))
        try writer.rollback()
        #expect(try Self.counts(bench) == ["0", "0", "0", "20"])
    }

    @Test("Rows that a push is about to change are left, and nothing waits for it")
    func leavesLocked() throws {
        let bench = try ReplicaBench()
        let hub = try Self.hub(bench)
        try Self.fill(hub, bench, 20)
        let writer = try bench.session(.writing)
        try writer.execute("UPDATE record SET data = '{}', version = 100 WHERE id = 'a-3'")
        try writer.execute("UPDATE record_scope SET state = 0 WHERE id IN ('a-3', 'a-4')")
        try writer.execute("DELETE FROM refused_create WHERE id = 'a-5'")
        try writer.waitForWrites()
        try Self.remove(hub, before: hub.now.advanced(by: .seconds(1)))
        try writer.commit()
        #expect(try Self.counts(bench) == ["1", "2", "0", "19"])
        #expect(try bench.server.query("SELECT id, version FROM record", schema: bench.schema) == [["a-3", "100"]])
    }

    @Test("A push whose record is forgotten between its decision and its commit writes what it decided")
    func betweenDecisionAndCommit() throws {
        let bench = try ReplicaBench()
        let (hub, other) = (try Self.hub(bench), try Self.hub(bench, seed: 2))
        try Self.fill(hub, bench, 3)
        let later = hub.now.advanced(by: .seconds(1))
        // Before the last round trip, when the decision has read the deletion.
        var removals = 0
        hub.hub.beforeCommit = {
            guard removals == 0 else { return true }
            removals += 1
            return (try? Self.remove(other, before: later)) != nil
        }
        let again = Sent("k-1", seq: 100, .create, id: "a-1", data: ["title": "valve"], base: 5)
        #expect(try hub.verdict(again).word == "accepted")
        #expect(removals == 1)
        #expect(try Self.counts(bench) == ["1", "0", "0", "3"])
        #expect(try hub.data("audits", "a-1") == ["title": "valve"])
        #expect(try hub.verdict(again).word == "duplicate")
    }

    @Test("Devices that pull in small pages beside removals and pushes have each record, and no deleted one")
    func together() throws {
        let bench = try ReplicaBench()
        let device = try Self.hub(bench, seed: 30)
        let running = Running()
        let remover = Worker { () throws -> Int64 in
            let hub = try Self.hub(bench, seed: 2)
            var isLast = false
            while !isLast {
                isLast = running.isOver
                try Self.remove(hub, before: hub.now.advanced(by: .seconds(1)))
            }
            return hub.hub.housekept.deletions
        }
        let pushers = (0..<2).map { index in
            Worker { () throws -> [RecordID: Int64] in
                defer { running.end() }
                return try Self.push(bench, index)
            }
        }
        var held: [RecordID: Int64] = [:]
        var cursor = String?.none
        var isLast = false
        while !isLast {
            isLast = running.isOver
            cursor = try Self.follow(device, from: cursor, &held)
        }
        var made: [RecordID: Int64] = [:]
        for pusher in pushers { made.merge(try pusher.join()) { $1 } }
        #expect(held == made)
        let removed = try remover.join()
        #expect(removed > 0)
        let forgotten = try bench.server.query("SELECT forgotten FROM horizon WHERE entity = 'audits'", schema: bench.schema)
        #expect(forgotten == [["\(removed)"]])
    }

    /// The two that push.
    private final class Running: Sendable {
        private let left = Atomic<Int>(2)
        var isOver: Bool { left.load(ordering: .acquiring) == 0 }
        func end() { left.subtract(1, ordering: .acquiringAndReleasing) }
    }

    /// Makes and deletes records of its own, and returns those that are left, with their versions.
    private static func push(_ bench: ReplicaBench, _ index: Int) throws -> [RecordID: Int64] {
        let hub = try hub(bench, seed: UInt64(10 + index))
        var random = SeededRandom(seed: UInt64(index))
        var versions: [RecordID: Int64] = [:]
        for push in 1...150 {
            let id = RecordID(trusted: "r-\(index)-\(Int.random(in: 0..<40, using: &random))")
            let known = versions[id]
            let sent = Sent("k-\(push)", seq: Int64(push), known == nil ? .create : .delete, id: id.text, base: known ?? 0)
            let results = try hub.verdicts([sent], device: DeviceID(trusted: "gw-\(index)"))
            guard let version = results.first?.verdict.version else {
                throw PostgresServer.Failure(description: "push \(push): \(results)")
            }
            versions[id] = known == nil ? version : nil
        }
        return versions
    }

    /// Brings what a device holds up to the newest commit, and lists anew where deletions are forgotten that it has not seen.
    private static func follow(_ hub: HubBench, from start: String?, _ held: inout [RecordID: Int64]) throws -> String? {
        var cursor = start
        while true {
            let pull = try hub.pull([("audits", cursor)], limit: 7)
            if let error = pull.errors.first {
                guard error.problem.code == "cursor-expired" else { throw PostgresServer.Failure(description: error.problem.code) }
                let pages = try hub.list(SnapshotRequest(entity: "audits", after: nil, limit: 9))
                held = Dictionary(uniqueKeysWithValues: pages.flatMap(\.records).map { ($0.id, $0.record.version) })
                cursor = pages.first?.startCursor
                continue
            }
            guard let page = pull.pages.first else { return cursor }
            for deletion in page.deletions { held[deletion.id] = nil }
            for record in page.records { held[record.id] = record.record.version }
            cursor = page.cursor
            if !page.hasMore { return cursor }
        }
    }
}
