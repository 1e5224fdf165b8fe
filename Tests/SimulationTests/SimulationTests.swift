import SimulationKit
import SyncCore
import Testing

@Suite("Simulation")
struct SimulationTests {
    @Test("Every history ends well: all agents and the hub agree, each mutation took effect once, nothing is missing")
    func seeds() async {
        let count = Environment.number("SIMULATION_SEEDS") ?? 100
        let first = Environment.number("SIMULATION_FIRST") ?? 1
        let outcomes = await Campaign.run(seeds: first..<first + count)
        for outcome in outcomes where outcome.broken != nil {
            Issue.record("\(Campaign.report(outcome))")
        }
        #expect(UInt64(outcomes.count) == count)
        if Environment.text("SIMULATION_COUNTS") != nil { print(Self.table(of: outcomes)) }
    }

    @Test("One seed, as asked for", .enabled(if: Environment.number("SIMULATION_SEED") != nil))
    func oneSeed() {
        let scenario = Environment.scenario(seed: Environment.number("SIMULATION_SEED") ?? 1)
        let outcome = Campaign.run(scenario, keeps: 100_000)
        print(outcome.tail.joined(separator: "\n"))
        print("seed \(scenario.seed), trace \(String(outcome.hash, radix: 16)), \(outcome.elapsed.milliseconds / 1_000) s: \(outcome.broken.map { "\($0)" } ?? "all is well")")
        #expect(outcome.broken == nil)
    }

    static func table(of outcomes: [Campaign.Outcome]) -> String {
        var sums: [String: Int] = [:]
        for outcome in outcomes { sums.merge(outcome.counts, uniquingKeysWith: +) }
        return sums.sorted { $0.key < $1.key }.map { "\($0.value)\t\($0.key)" }.joined(separator: "\n")
    }
}
