import SimulationKit
import SyncCore
import Testing

/// A simulation that would not notice a missing rule says nothing about the rule (PROTOCOL 0.2).
@Suite("Ablations")
struct AblationTests {
    /// A rule that goes unnoticed for so many histories is not guarded.
    private static let seeds: Range<UInt64> = 1..<201

    /// Not noticed in so many histories as they are drawn now; their own tests guard them. It is a debt, not an exception.
    private static let unnoticed: Set<Ablation> = [.sentCoalesced, .cursorAtEnd]

    /// About the medium, which a history has none of: the test of power cuts notices it.
    private static let elsewhere: Set<Ablation> = [.commitUnsynced]

    @Test("A rule that is switched off breaks a history", arguments: Ablation.allCases.filter { !unnoticed.union(elsewhere).contains($0) })
    func isNoticed(_ rule: Ablation) {
        let outcomes = Campaign.run(seeds: Self.seeds, ablations: [rule], stopsAfter: 1)
        let broken = outcomes.first { $0.broken != nil }
        if Environment.text("SIMULATION_COUNTS") != nil, let broken {
            print("\(rule.rawValue): seed \(broken.scenario.seed), \(broken.broken?.promise ?? "")")
        }
        #expect(broken != nil, "\(rule.rawValue) is switched off, and \(outcomes.count) histories end well all the same")
    }
}
