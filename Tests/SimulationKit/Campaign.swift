package import SyncCore

/// Many histories, and what to say about the one that broke.
package enum Campaign {
    package struct Outcome: Sendable {
        package var scenario: Scenario
        package var broken: Broken?
        package var hash: UInt64
        package var counts: [String: Int]
        package var elapsed: Duration
        /// The last lines of the trace, if they were asked for.
        package var tail: [String]
    }

    package static func run(_ scenario: Scenario, keeps: Int = 0) -> Outcome {
        var outcome = Outcome(scenario: scenario, broken: nil, hash: 0, counts: [:], elapsed: .zero, tail: [])
        do throws(Broken) {
            let simulation = try Simulation(scenario, keeps: keeps)
            do throws(Broken) { try simulation.run() } catch { outcome.broken = error }
            outcome.hash = simulation.traceHash
            outcome.counts = simulation.counts
            outcome.elapsed = simulation.elapsed
            outcome.tail = simulation.traceTail
        } catch {
            outcome.broken = error
        }
        return outcome
    }

    /// Runs these seeds, a few at a time, until one breaks or all are through.
    ///
    /// - Returns: What each brought, by seed.
    package static func run(
        seeds: Range<UInt64>, ablations: Set<Ablation> = [], lanes: Int = 2
    ) async -> [Outcome] {
        await withTaskGroup(of: Outcome.self) { group in
            var outcomes: [Outcome] = []
            var next = seeds.lowerBound
            var isBroken = false
            for _ in 0..<lanes where next < seeds.upperBound {
                let scenario = Scenario(seed: next, ablations: ablations)
                group.addTask { run(scenario) }
                next += 1
            }
            for await outcome in group {
                outcomes.append(outcome)
                isBroken = isBroken || outcome.broken != nil
                guard !isBroken, next < seeds.upperBound else { continue }
                let scenario = Scenario(seed: next, ablations: ablations)
                group.addTask { run(scenario) }
                next += 1
            }
            return outcomes.sorted { $0.scenario.seed < $1.scenario.seed }
        }
    }

    /// What a person needs: the seed, what was promised, as few faults and operations as still break it, the last events,
    /// and the command that shows it again.
    package static func report(_ outcome: Outcome) -> String {
        guard let broken = outcome.broken else { return "seed \(outcome.scenario.seed): all is well" }
        let small = shrink(outcome.scenario, broken.promise)
        let again = run(small, keeps: 60)
        var lines = ["seed \(small.seed): \(again.broken ?? broken)"]
        let faults = small.faults.map(\.rawValue).sorted().joined(separator: " ")
        lines.append("faults: \(faults.isEmpty ? "none" : faults); \(small.agents) agents, \(small.operations) operations")
        lines += again.tail.map { "  " + $0 }
        lines.append("again: \(small.replay)")
        return lines.joined(separator: "\n")
    }

    /// Leaves out what the same promise breaks without.
    package static func shrink(_ scenario: Scenario, _ promise: String) -> Scenario {
        var small = scenario
        for fault in scenario.faults.sorted(by: { $0.rawValue < $1.rawValue }) {
            var smaller = small
            smaller.faults.remove(fault)
            if run(smaller).broken?.promise == promise { small = smaller }
        }
        for operations in [2, 3, 5, 8, 13, 21, 34] where operations < small.operations {
            var smaller = small
            smaller.operations = operations
            if run(smaller).broken?.promise == promise {
                small = smaller
                break
            }
        }
        return small
    }
}
