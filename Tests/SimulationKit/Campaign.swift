package import SyncCore
import Synchronization

/// Runs many histories.
package enum Campaign {
    package struct Outcome: Sendable {
        package var scenario: Scenario
        package var broken: Broken?
        /// Tells two histories apart (``Trace``).
        package var hash: UInt64
        package var counts: [String: Int]
        /// Simulated time that passed.
        package var elapsed: Duration
        /// The last lines of the trace, if they were asked for.
        package var tail: [String]
    }

    /// - Parameters:
    ///   - keeps: Lines of the trace to keep.
    ///   - verifiesAlways: Verifies every store after each event, which is slow, to find the first moment of a disagreement. Changes
    ///     nothing else.
    ///   - reuses: A history takes and leaves databases (``DatabasePool``). Changes nothing else.
    package static func run(
        _ scenario: Scenario, keeps: Int = 0, verifiesAlways: Bool = false, reuses: Bool = true
    ) -> Outcome {
        var outcome = Outcome(scenario: scenario, broken: nil, hash: 0, counts: [:], elapsed: .zero, tail: [])
        do throws(Broken) {
            let simulation = try Simulation(scenario, keeps: keeps, reuses: reuses)
            simulation.verifiesAlways = verifiesAlways
            do throws(Broken) { try simulation.run() } catch { outcome.broken = error }
            outcome.hash = simulation.traceHash
            outcome.counts = simulation.counts
            outcome.elapsed = simulation.elapsed
            outcome.tail = simulation.traceTail
            if reuses, outcome.broken == nil { simulation.leaveDatabases() }
        } catch {
            outcome.broken = error
        }
        return outcome
    }

    /// Runs the histories of these seeds.
    ///
    /// - Parameters:
    ///   - toward: See ``Scenario/toward``.
    ///   - lanes: Number of histories that run at the same time.
    ///   - stopsAfter: Number of broken histories after which no new one begins.
    /// - Returns: The outcomes, by seed.
    package static func run(
        seeds: Range<UInt64>, ablations: Set<Ablation> = [], toward: Ablation? = nil, lanes: Int = Lanes.available,
        stopsAfter enough: Int
    ) -> [Outcome] {
        let outcomes = Collected<[Outcome]>([])
        Lanes.run(seeds, lanes: lanes) { seed in
            let outcome = run(Scenario(seed: seed, ablations: ablations, toward: toward))
            return outcomes.add {
                $0.append(outcome)
                return $0.count { $0.broken != nil }
            } < enough
        }
        return outcomes.value.sorted { $0.scenario.seed < $1.scenario.seed }
    }

    /// The outcome of many histories, of which only the broken ones are kept.
    package struct Sum: Sendable {
        package var histories = 0
        /// The broken histories, by seed.
        package var broken: [Outcome] = []
        package var counts: [String: Int] = [:]

        fileprivate mutating func add(_ outcome: Outcome) {
            histories += 1
            counts.merge(outcome.counts, uniquingKeysWith: +)
            if outcome.broken != nil { broken.append(outcome) }
        }
    }

    /// Runs the short histories of these seeds (``Scenario/init(short:ablations:)``).
    ///
    /// - Parameter stopsAfter: See ``run(seeds:ablations:toward:lanes:stopsAfter:)``.
    package static func runShort(
        seeds: Range<UInt64>, ablations: Set<Ablation> = [], lanes: Int = Lanes.available, stopsAfter enough: Int
    ) -> Sum {
        let sum = Collected(Sum())
        Lanes.run(seeds, lanes: lanes) { seed in
            let outcome = run(Scenario(short: seed, ablations: ablations))
            return sum.add {
                $0.add(outcome)
                return $0.broken.count
            } < enough
        }
        var sorted = sum.value
        sorted.broken.sort { $0.scenario.seed < $1.scenario.seed }
        return sorted
    }

    /// What the lanes have found so far.
    private final class Collected<Value: Sendable>: Sendable {
        private let found: Mutex<Value>

        init(_ value: Value) { found = Mutex(value) }

        var value: Value { found.withLock { $0 } }

        /// - Parameter body: Returns the number of broken histories so far.
        func add(_ body: @Sendable (inout Value) -> Int) -> Int { found.withLock { body(&$0) } }
    }
}
