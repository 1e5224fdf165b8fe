import SimulationKit
import SyncCore
import Testing

/// Small programs of two devices on the real stores and the real hub: what must come to the same comes to the same.
///
/// `SIMULATION_PROGRAMS` says how many of each kind; if not said, 150 of joined edits, 1,000 of orders and 40 on all ways. `EDGE_SYNC_LONG`
/// makes it 10,000.
/// `SIMULATION_FIRST` is the first seed, 1 if not said.
@Suite("Programs")
struct ProgramTests {
    private static func seeds(_ count: UInt64) -> Range<UInt64> {
        let first = Environment.number("SIMULATION_FIRST") ?? 1
        return first..<first + (Environment.number("SIMULATION_PROGRAMS") ?? (Environment.text("EDGE_SYNC_LONG") == nil ? count : 10_000))
    }

    @Test("Edits that become one end in the same record as edits that go alone")
    func coalescing() throws {
        var broken = 0
        for seed in Self.seeds(150) {
            let program = Program(seed: seed, for: .coalescing)
            for first in 0...1 {
                let alone = try ProgramWorld(program, coalesces: false).run(first: first)
                let made = try ProgramWorld(program, coalesces: true).run(first: first)
                guard alone.document != made.document, !(made.document == nil && program.deletesOnBothSides) else { continue }
                broken += 1
                Issue.record("seed \(seed), \(first) first: \(program)\nalone:  \(alone.text)\nas one: \(made.text)")
            }
            if broken >= 3 { return }
        }
    }

    @Test("A rule of joining that is switched off lets programs end otherwise", arguments: [Ablation.joinedStampsLost, .takenBackUntold])
    func joiningWithout(_ rule: Ablation) throws {
        let differs = try Self.seeds(1_000).contains { seed in
            let program = Program(seed: seed, for: .coalescing)
            return try (0...1).contains { first in
                let alone = try ProgramWorld(program, coalesces: false).run(first: first)
                return try alone.document != ProgramWorld(program, coalesces: true, ablations: [rule]).run(first: first).document
            }
        }
        #expect(differs, "\(rule.rawValue) is switched off, and no program ends otherwise for want of it")
    }

    @Test("Two devices that come back in either order end in the same record, where the rules say so")
    func order() throws {
        var broken = 0
        var counts: [String: Int] = [:]
        for seed in Self.seeds(1_000) {
            let program = Program(seed: seed, for: .order)
            let outcomes = try (0...1).map { try ProgramWorld(program, coalesces: false).run(first: $0) }
            let faults = OrderRules(program, outcomes).faults(&counts)
            if faults.isEmpty { continue }
            broken += 1
            Issue.record(
                "seed \(seed): \(program)\n\(faults.joined(separator: "\n"))\n0 first: \(outcomes[0].text)\n1 first: \(outcomes[1].text)")
            if broken >= 3 { return }
        }
        if Environment.text("SIMULATION_COUNTS") != nil { print(counts.sorted { $0.key < $1.key }) }
        for rule in ["lww", "server", "client", "counter", "set", "max", "min", "merge", "text", "list", "manual", "gone", "back"] {
            #expect(counts[rule, default: 0] > 0, "\(rule): never contested")
        }
    }

    @Test("The order makes no difference either, if the clock of one device is not trusted")
    func orderWithoutTime() throws {
        var counts: [String: Int] = [:]
        for seed in Self.seeds(400) {
            var program = Program(seed: seed, for: .order)
            program.untrusted = Int(seed % 2)
            let outcomes = try (0...1).map { try ProgramWorld(program, coalesces: false).run(first: $0) }
            let faults = OrderRules(program, outcomes).faults(&counts)
            #expect(faults.isEmpty, "seed \(seed): \(program)\n0 first: \(outcomes[0].text)\n1 first: \(outcomes[1].text)")
        }
        #expect(counts["lww", default: 0] > 0 && counts["merge", default: 0] > 0)
    }

    @Test("The same edits end in the same record, whatever way they take")
    func ways() throws {
        var broken = 0
        var compared: [Way: Int] = [:]
        for seed in Self.seeds(40) {
            for way in Way.allCases where way != .straight {
                guard let found = try Self.compare(way, seed, ablations: []) else { continue }
                compared[way, default: 0] += 1
                if found.isEmpty { continue }
                broken += 1
                Issue.record("\(found)")
            }
            if broken >= 3 { return }
        }
        for way in Way.allCases where way != .straight { #expect(compared[way, default: 0] > 0, "\(way): never compared") }
    }

    @Test(
        "A rule that is switched off lets ways end otherwise",
        arguments: [
            (Ablation.keyPerAttempt, [.unanswered, .pulledUnanswered]),
            (.countsAsValues, [.single, .otherSideDecides, .underWay, .underWayUnanswered]),
        ] as [(Ablation, [Way])])
    func waysWithout(_ rule: Ablation, _ ways: [Way]) throws {
        for way in ways {
            let differs = try Self.seeds(200).contains { try Self.compare(way, $0, ablations: [rule])?.isEmpty == false }
            #expect(differs, "\(rule.rawValue) is switched off, and no program ends otherwise on the way \(way)")
        }
    }

    /// - Returns: What differs, for people; `nil` for a program whose ends may differ.
    private static func compare(_ way: Way, _ seed: UInt64, ablations: Set<Ablation>) throws -> String? {
        let drawn = Program(seed: seed, for: .ways)
        // The members of a list are made at one moment.
        let program = way == .list ? drawn.atOnce : drawn
        let first = Int(seed % 2)
        let straight = try ProgramWorld(program, coalesces: false, ablations: ablations).run(first: first)
        let other = try ProgramWorld(program, coalesces: false, way: way, ablations: ablations).run(first: first)
        guard let faults = WayRules(program, way).faults(straight, other) else { return nil }
        if faults.isEmpty { return "" }
        return
            "seed \(seed), \(first) first: \(program)\n\(faults.joined(separator: "; "))\nstraight: \(straight.text)\n\(way): \(other.text)"
    }

    /// The hub refuses A's create, because B has deleted the record. A's edit of a field that people decide falls with the create, also
    /// where the two go in different requests: a decision about the edit alone would bring back a record without the rest of its content.
    @Test("An edit of a refused create asks people nothing, whatever way it takes", arguments: Way.allCases)
    func refusedCreate(_ way: Way) throws {
        for pullsFirst in [false, true] {
            let outcome = try ProgramWorld(Program.refusedCreate(pullsFirst: pullsFirst), coalesces: false, way: way).run(first: 1)
            #expect(outcome.disputes == [[], []] && outcome.document == nil && outcome.decided == nil, "\(outcome.text)")
            #expect(outcome.refusals == [["deleted", "parent-rejected"], []], "\(outcome.text)")
        }
    }

    /// B's people are asked about the field and about the deletion. Both questions come at once where B pulls first. Otherwise the second
    /// one comes after the decision about the first one.
    @Test("A deletion behind a change in dispute is asked about at once or later, and ends alike", arguments: Way.allCases)
    func disputedBeforeDeletion(_ way: Way) throws {
        for pullsFirst in [false, true] {
            let program = Program.disputedBeforeDeletion(pullsFirst: pullsFirst)
            let outcome = try ProgramWorld(program, coalesces: false, way: way).run(first: 0)
            #expect(outcome.disputes[0].isEmpty && outcome.disputes[1].contains("m"), "\(outcome.text)")
            #expect(outcome.document?["m"] == "0-0" && outcome.decided == nil, "\(outcome.text)")
        }
    }

    /// With `update_wins`: B writes a field; A, which has not seen it, writes over it with a later time and then deletes the record.
    /// A has still not seen B's change, so the deletion gives way, as it does when A is first.
    @Test("A deletion gives way to a change that its author wrote over without having seen it")
    func overwritten() throws {
        for pullsFirst in [false, true] {
            let program = Program.overwritten(pullsFirst: pullsFirst)
            for first in 0...1 {
                let outcome = try ProgramWorld(program, coalesces: false).run(first: first)
                #expect(outcome.document?["s"] == "0-0", "\(first) first: \(outcome.text)")
                #expect(outcome.lost.contains("$delete"))
            }
        }
    }
}
