import SimulationKit
import SyncCore
import Testing

@Suite("Replay")
struct ReplayTests {
    @Test(
        "The same seed is the same history, to the last event, also on databases that another history has used",
        arguments: [2, 3, 5, 8, 13, 21] as [UInt64])
    func isDeterministic(_ seed: UInt64) {
        let scenario = Scenario(seed: seed)
        let first = Campaign.run(scenario, reuses: false), other = Campaign.run(Scenario(seed: seed + 1))
        let second = Campaign.run(scenario)
        #expect(first.hash == second.hash)
        #expect(first.counts == second.counts)
        #expect(first.elapsed == second.elapsed)
        #expect(other.hash != first.hash)
    }

    @Test("The same short seed is the same history, also on databases that other histories have used")
    func shortIsDeterministic() {
        let seeds: Range<UInt64> = 1..<25
        let alone = seeds.map { Campaign.run(Scenario(short: $0), reuses: false) }
        // In this order each history gets databases of others, some of which have had more agents.
        for _ in 0..<2 {
            for outcome in alone.reversed() {
                let again = Campaign.run(outcome.scenario)
                #expect(again.broken == outcome.broken)
                #expect(again.hash == outcome.hash, "short seed \(outcome.scenario.seed)")
                #expect(again.counts == outcome.counts)
                #expect(again.elapsed == outcome.elapsed)
            }
        }
        #expect(Set(alone.map(\.hash)).count == alone.count)
    }

    @Test("A history that breaks is made smaller, breaks the same promise then, and its report replays it exactly")
    func isShrunk() throws {
        // A rule that most histories need.
        let outcomes = Campaign.run(seeds: 1..<100, ablations: [.keyPerAttempt], stopsAfter: 1)
        let found = try #require(outcomes.first { $0.broken != nil })
        let promise = try #require(found.broken?.promise)
        let small = Campaign.shrink(found.scenario, promise)
        #expect(small != found.scenario)
        #expect(small.faults.isSubset(of: found.scenario.faults))
        #expect(small.operations <= found.scenario.operations)
        let again = Campaign.run(small)
        #expect(again.broken?.promise == promise)

        let settings = Dictionary(uniqueKeysWithValues: small.settings.map { ($0.name, $0.value) })
        let read = try #require(Scenario(settings: { settings[$0] }))
        #expect(Campaign.run(read).hash == again.hash)
        let report = Campaign.report(found)
        #expect(report.contains("seed \(small.seed): \(promise)"))
        #expect(report.contains("again: \(small.replay)"))
        #expect(settings["SIMULATION_ABLATIONS"] == "keyPerAttempt")
    }

    @Test("Settings of a simulation are read back as given")
    func settingsAreWhole() throws {
        var scenario = Scenario(seed: 77, ablations: [.wakeLost, .sweepSkipped])
        scenario.faults = []
        scenario.agents = 1
        scenario.operations = 7
        scenario.records = 9
        scenario.faultsFor = .seconds(31)
        scenario.countsByRecord.toggle()
        scenario.sharesOut.toggle()
        scenario.changesSchemas.toggle()
        scenario.keeps.toggle()
        scenario.usesGroups.toggle()
        scenario.hasParents.toggle()
        scenario.hasFiles.toggle()
        let settings = Dictionary(uniqueKeysWithValues: scenario.settings.map { ($0.name, $0.value) })
        #expect(Scenario(settings: { settings[$0] }) == scenario)
        #expect(Scenario(settings: { _ in nil }) == nil)
    }

    @Test("Settings of a short history are read back as given")
    func settingsOfShortAreWhole() {
        for seed in 1..<UInt64(100) {
            var scenario = Scenario(short: seed)
            scenario.operations = 5
            scenario.keeps.toggle()
            let settings = Dictionary(uniqueKeysWithValues: scenario.settings.map { ($0.name, $0.value) })
            #expect(settings["SIMULATION_LENGTH"] == "short")
            #expect(Scenario(settings: { settings[$0] }) == scenario)
        }
        #expect(Scenario(short: 3).replay == "SIMULATION_SEED=3 SIMULATION_LENGTH=short swift test --filter oneSeed")
    }
}
