import SyncCore
import Testing

@testable import HubServer

@Suite("Retention of events: any history", .eachEngine)
struct EventRetentionPropertyTests {
    /// A hub whose events come and go at random, beside a list of what was accepted when.
    private final class History {
        var bench: HubBench
        private let rows: HubRows
        private var random: SeededRandom
        private var starts: UInt64 = 0
        /// Time of acceptance by key, in the order of acceptance.
        private var accepted: [(key: String, at: Timestamp)] = []
        private var daysSinceRun = 0

        init(seed: UInt64) throws {
            rows = try HubRows()
            random = SeededRandom(seed: seed)
            bench = try HubBench(rules: EventRetentionTests.rules(10), place: rows.place)
            try bench.hub.housekeep(at: bench.now)
        }

        private func number(_ end: Int) -> Int { Int(random.next() % UInt64(end)) }

        /// - Returns: The mistake; `nil`: there is none.
        func step(_ step: Int) throws -> String? {
            switch number(10) {
            case 0...3: try push(step)
            case 4: return try pushAgain()
            case 5, 6:
                bench.now = bench.now.advanced(by: .seconds(Int64(number(2 * 86_400))))
                daysSinceRun += 2
                if daysSinceRun > 5 { return try wholeRun() }
            case 7: return try partOfRun()
            case 8: try restart()
            default: return try wholeRun()
            }
            return nil
        }

        private func push(_ step: Int) throws {
            let count = number(5) + 1
            let sent = (0..<count).map { EventRetentionTests.event("\(step)-\($0)", seq: Int64(step * 10 + $0)) }
            guard try bench.verdicts(sent).allSatisfy({ $0.verdict.word == "accepted" }) else {
                throw HubBench.Unexpected(HubResponse(status: 0))
            }
            accepted += (0..<count).map { ("\(step)-\($0)", bench.now) }
        }

        private func pushAgain() throws -> String? {
            guard !accepted.isEmpty else { return nil }
            let key = accepted[number(accepted.count)].key
            let wasThere = try EventRetentionTests.isThere(bench.hub, key)
            let (head, counted) = (bench.hub.head, try bench.hub.stats().counters.applied)
            let word = try bench.verdict(EventRetentionTests.event(key)).word
            let isSame = try EventRetentionTests.isThere(bench.hub, key) == wasThere && bench.hub.stats().counters.applied == counted
            return word == "duplicate" && bench.hub.head == head && isSame ? nil : "\(key) was applied again: \(word)"
        }

        private func wholeRun() throws -> String? {
            daysSinceRun = 0
            var run = try bench.hub.beginHousekeeping(at: bench.now)
            run.eventsMax = number(4) + 1
            while !run.isOver { try bench.hub.housekeep(&run) }
            let end = bench.now.advanced(by: .zero - EventRetentionTests.day * 10)
            let (left, young) = (try left(), accepted.filter { $0.at >= end }.map(\.key))
            return left == young ? nil : "\(left) are left, and \(young) are young"
        }

        /// A run that a stop of the hub ends.
        private func partOfRun() throws -> String? {
            daysSinceRun = 0
            var run = try bench.hub.beginHousekeeping(at: bench.now)
            run.eventsMax = number(3) + 1
            for _ in 0..<number(8) where !run.isOver { try bench.hub.housekeep(&run) }
            let end = bench.now.advanced(by: .zero - EventRetentionTests.day * 10)
            let (left, all) = (try left(), accepted.map(\.key))
            let young = accepted.filter { $0.at >= end }.count
            // The oldest went first, and no young one did.
            return left == Array(all.suffix(left.count)) && left.count >= young ? nil : "\(left) are left of \(all)"
        }

        private func restart() throws {
            starts += 1
            let now = bench.now
            bench = try HubBench(rules: EventRetentionTests.rules(10), seed: 100 + starts, place: rows.place)
            bench.now = now
        }

        private func left() throws -> [String] {
            try accepted.map(\.key).filter { try EventRetentionTests.isThere(bench.hub, $0) }
        }
    }

    @Test(
        "After any events at any times exactly those younger than the rule are left, and no key is applied twice",
        arguments: 1...6)
    func histories(seed: Int) throws {
        let history = try History(seed: UInt64(seed))
        for step in 1...120 {
            let fault = try history.step(step)
            #expect(fault == nil, "seed \(seed), step \(step): \(fault ?? "")")
            if fault != nil { return }
        }
    }
}
