import Foundation
import HubPostgres
import HubServer
import PostgresStand
import SyncCore
import Synchronization
import Testing

/// Random writers on several replicas, some of them slow and some that break off, and devices that pull in small pages beside them. Counts
/// everything that must not happen, and proves with two planted mistakes that it would.
@Suite("Order of commits under load", .needsPostgres)
struct CommitOrderTests {
    /// The answers that devices got.
    private struct Told: Sendable {
        /// Acknowledged increments of each hot record, and its highest acknowledged version.
        var increments: [RecordID: Int] = [:]
        var versions: [RecordID: Int64] = [:]
        /// The acknowledged version of each record that was made by one push.
        var made: [RecordID: Int64] = [:]
        var aborts = 0

        mutating func take(_ other: Told) {
            increments.merge(other.increments) { $0 + $1 }
            versions.merge(other.versions) { max($0, $1) }
            made.merge(other.made) { first, _ in first }
            aborts += other.aborts
        }
    }

    private struct Found: CustomStringConvertible {
        var pushes = 0
        var aborts = 0
        /// Records that a device missed, versions of a record that went back, numbers that two pushes were told, and acknowledged changes
        /// that are not there.
        var missed = 0
        var back = 0
        var twice = 0
        var gone = 0

        var isGood: Bool { missed + back + twice + gone == 0 }
        var description: String {
            "\(pushes) pushes, \(aborts) broken off: missed \(missed), back \(back), twice \(twice), gone \(gone)"
        }
    }

    private static var rules: RuleBook {
        var rules = EntityRules()
        rules.fields = ["count": .counter]
        return RuleBook(["audits": rules])
    }

    private static func hub(_ bench: ReplicaBench, seed: UInt64, _ ablation: PostgresPlace.Ablation?) throws -> HubBench {
        var place = try PostgresPlace(bench.url)
        place.ablation = ablation
        return try HubBench(rules: rules, seed: seed, place: .shared(place))
    }

    private static func write(_ bench: ReplicaBench, _ index: Int, pushes: Int, _ ablation: PostgresPlace.Ablation?) throws -> Told {
        let hub = try hub(bench, seed: UInt64(index + 10), ablation)
        let device = DeviceID(trusted: "gw-\(index)")
        var random = SeededRandom(seed: UInt64(index))
        var told = Told()
        _ = hub.push([], device: device)
        // Slow ones are part of the case; nothing waits for the time to pass.
        hub.hub.beforeCommit = {
            if random.fraction() < 0.03 { usleep(2_000) }
            return random.fraction() >= 0.15
        }
        var next = 1
        for push in 0..<pushes {
            let hot = (0..<Int.random(in: 1...4, using: &random)).map { _ in "hot-\(Int.random(in: 0..<6, using: &random))" }
            let mutations =
                [Sent("k-\(push)", seq: Int64(next), .create, id: "made-\(index)-\(push)")]
                + hot.enumerated().map { place, id in
                    Sent(
                        "k-\(push)-\(place)", seq: Int64(next + place + 1), .update, id: id,
                        ops: [["field": "count", "op": "inc", "value": 1]], base: 1)
                }
            var response = hub.push(mutations, device: device)
            // A device repeats a push until it has an answer.
            while response.status == 503 {
                told.aborts += 1
                response = hub.push(mutations, device: device)
            }
            guard response.status == 200 else { throw HubBench.Unexpected(response) }
            next += mutations.count
            let results = try PushMessages.readResponse(response.body).results
            for (sent, result) in zip(mutations, results) {
                guard let version = result.verdict.version, let id = sent.json["record_id"]?.text.flatMap({ RecordID($0) }) else {
                    throw HubBench.Unexpected(response)
                }
                if id.text.hasPrefix("made") {
                    told.made[id] = version
                } else {
                    told.increments[id, default: 0] += 1
                    told.versions[id] = max(told.versions[id] ?? 0, version)
                }
            }
        }
        return told
    }

    /// Returns the records of a device that follows the feed in small pages until the writers are through. The first device asks a hub that
    /// writes, the others the readers of two replicas, as in service.
    private static func follow(_ bench: ReplicaBench, _ index: Int, _ over: Over) throws -> Followed {
        let hub = try HubBench(rules: rules, seed: UInt64(index + 50), place: .shared(try PostgresPlace(bench.url)))
        if index > 0 { hub.reader = try hub.hub.reader() }
        var random = SeededRandom(seed: UInt64(index))
        var held: [RecordID: Int64] = [:]
        var (cursor, back) = (String?.none, 0)
        while true {
            let isLast = over.value
            while let page = try hub.pull([("audits", cursor)], limit: Int.random(in: 1...20, using: &random)).pages.first {
                for record in page.records {
                    if let before = held[record.id], before > record.record.version { back += 1 }
                    held[record.id] = record.record.version
                }
                cursor = page.cursor
                if !page.hasMore { break }
            }
            guard isLast else { continue }
            guard index == 0 || hub.readerAnswers > 0 else { throw PostgresServer.Failure(description: "the reader has answered nothing") }
            return Followed(held: held, back: back)
        }
    }

    private static func run(writers: Int, pushes: Int, _ ablation: PostgresPlace.Ablation? = nil) throws -> Found {
        let bench = try ReplicaBench()
        let hot = (0..<6).map { Sent("hot-\($0)", seq: Int64($0 + 1), .create, id: "hot-\($0)") }
        _ = try hub(bench, seed: 1, nil).verdicts(hot, device: "gw-hot")
        let running = (0..<writers).map { index in Worker { try write(bench, index, pushes: pushes, ablation) } }
        let over = Over()
        let readers = (0..<3).map { index in Worker { try follow(bench, index, over) } }
        var told = Told()
        let outcome = Result { for writer in running { told.take(try writer.join()) } }
        over.end()
        let followed = try readers.map { try $0.join() }
        try outcome.get()
        return try compare(bench, told, followed, pushes: writers * pushes)
    }

    /// Runs with a planted mistake. It shows where two writers meet, and on a busy machine they may not do so in one run.
    private static func run(_ ablation: PostgresPlace.Ablation, until isNoticed: (Found) -> Bool) throws -> Found {
        var found = Found()
        for _ in 0..<10 where !isNoticed(found) { found = try run(writers: 5, pushes: 25, ablation) }
        return found
    }

    private final class Over: Sendable {
        private let isOver = Atomic<Bool>(false)
        var value: Bool { isOver.load(ordering: .acquiring) }
        func end() { isOver.store(true, ordering: .releasing) }
    }

    private struct Followed: Sendable {
        var held: [RecordID: Int64]
        var back: Int
    }

    private static func compare(_ bench: ReplicaBench, _ told: Told, _ followed: [Followed], pushes: Int) throws -> Found {
        var found = Found(pushes: pushes, aborts: told.aborts)
        var stored: [RecordID: (version: Int64, count: Int)] = [:]
        for record in try hub(bench, seed: 2, nil).follow("audits").pages.flatMap(\.records) {
            stored[record.id] = (record.record.version, record.record.data["count"]?.int.map { Int($0) } ?? 0)
        }
        for device in followed {
            found.back += device.back
            found.missed += stored.count { device.held[$0.key] != $0.value.version }
        }
        found.twice = told.made.count - Set(told.made.values).count
        for (id, version) in told.made where stored[id]?.version != version { found.gone += 1 }
        for (id, count) in told.increments where (stored[id]?.count ?? 0) != count { found.gone += 1 }
        for (id, version) in told.versions where (stored[id]?.version ?? 0) < version { found.back += 1 }
        return found
    }

    @Test("Nothing is missed, nothing goes back, no number is given out twice, and what was acknowledged is there")
    func holds() throws {
        let found = try Self.run(writers: 5, pushes: 40)
        #expect(found.isGood && found.aborts > 5, "\(found)")
    }

    @Test("Numbers that are taken before the lock are noticed")
    func numbersBeforeLock() throws {
        let found = try Self.run(.numbersBeforeLock) { $0.twice > 0 && $0.missed + $0.back > 0 }
        #expect(found.twice > 0 && found.missed + found.back > 0, "\(found)")
    }

    @Test("Decisions that are not compared with what other hubs have written are noticed")
    func nothingCompared() throws {
        let found = try Self.run(.nothingCompared) { $0.gone > 0 }
        #expect(found.gone > 0, "\(found)")
    }
}
