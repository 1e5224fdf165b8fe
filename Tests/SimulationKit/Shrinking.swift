import SyncCore

// Makes a broken history small enough to be read.
extension Campaign {
    /// Largest number of runs of one search. A history takes some tenths of a second.
    private static let shrinkRuns = 150

    /// A report for people: the seed, the broken promise, the fewest faults, agents and operations that still break it, the last events,
    /// and the command that repeats the history.
    package static func report(_ outcome: Outcome) -> String {
        guard let broken = outcome.broken else { return "seed \(outcome.scenario.seed): all is well" }
        let small = shrink(outcome.scenario, broken.promise)
        let again = run(small, keeps: 60)
        var lines = ["seed \(small.seed): \(again.broken ?? broken)"]
        let faults = small.faults.map(\.rawValue).sorted().joined(separator: " ")
        lines.append(
            "faults: \(faults.isEmpty ? "none" : faults); \(small.agents) agents, \(small.operations) operations in \(small.faultsFor.milliseconds / 1_000) s"
        )
        lines += again.tail.map { "  " + $0 }
        lines.append("again: \(small.replay)")
        return lines.joined(separator: "\n")
    }

    /// Removes parts of the scenario as long as the same promise still breaks.
    package static func shrink(_ scenario: Scenario, _ promise: String) -> Scenario {
        var small = scenario
        var runs = 0
        var isSmaller = true
        while isSmaller {
            isSmaller = false
            for change in changes(of: small) {
                var candidate = small
                change(&candidate)
                guard candidate != small else { continue }
                runs += 1
                guard runs <= shrinkRuns else { return small }
                if run(candidate).broken?.promise == promise {
                    small = candidate
                    isSmaller = true
                }
            }
        }
        return small
    }

    /// Changes to try, large ones first.
    private static func changes(of scenario: Scenario) -> [(inout Scenario) -> Void] {
        var changes: [(inout Scenario) -> Void] = [{ $0.faults = [] }]
        for operations in [3, 8, 20] { changes.append { $0.operations = min($0.operations, operations) } }
        for seconds in [30, 90, 240] { changes.append { $0.faultsFor = min($0.faultsFor, .seconds(seconds)) } }
        for fault in scenario.faults.sorted(by: { $0.rawValue < $1.rawValue }) { changes.append { $0.faults.remove(fault) } }
        changes.append { $0.countsByRecord = false }
        if !scenario.isShort { changes.append { $0.sharesOut = false } }
        changes.append { $0.changesSchemas = false }
        changes.append { $0.keeps = false }
        changes.append { $0.usesGroups = false }
        changes.append { $0.hasParents = false }
        changes.append { $0.agents = max(1, $0.agents - 1) }
        changes.append { $0.records = max(1, $0.records / 2) }
        changes.append { $0.operations = $0.operations * 3 / 4 }
        return changes
    }
}
