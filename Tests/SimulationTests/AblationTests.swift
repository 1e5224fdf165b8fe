import SimulationKit
import SyncCore
import Testing

/// A simulation that would not notice a missing rule says nothing about the rule (PROTOCOL 0.2).
@Suite("Ablations")
struct AblationTests {
    /// A rule that goes unnoticed for so many histories is not guarded.
    private static let seeds: Range<UInt64> = 1..<201

    /// About the medium, which a history has none of: the test of power cuts notices it. Requests about a database that returns unnoticed
    /// are repeated without harm, so no history breaks: a test of the hub notices it. ``ProgramTests`` compares joined edits with edits
    /// that go alone. The worked examples notice the rest.
    private static let elsewhere: Set<Ablation> = [
        .commitUnsynced, .returnIgnored, .joinedStampsLost, .takenBackUntold,
        .deadlinesJoined, .listsTorn, .deletedForgotten, .writtenAgainForgotten,
    ]

    /// Their moments come seldom, so the histories are led to them (``Scenario/toward``).
    private static let rare: [Ablation] = [
        .cursorAtEnd, .sentCoalesced, .conflictLosesBase, .mergeForgotten, .requeueAboveHighest, .markIgnored, .unofferedIsDeleted,
        .coalescedInDoubt, .storedReadAsInput, .removalBeatsAddition, .versionsAsPlaces, .membersByArrival, .membersByField,
        .newSchemasUnseen, .lostScopesKept, .toldScopesIgnored, .revokedBroughtBack, .hiddenParentsSeen,
        .offersUnheard,
    ]

    /// A seed in which the lack of the rule was noticed last. It is tried first, because the histories before it would take most of the
    /// time. When a seed becomes another history, the rest of them are tried, which takes minutes for them all: `SIMULATION_COUNTS` prints
    /// the seed that belongs here.
    private static let noticed: [Ablation: UInt64] = [
        .cursorBeforePage: 6, .sentPayloadRewritten: 3, .versionsAsPlaces: 18, .horizonIgnored: 27, .wakeLost: 21,
        .conflictLosesBase: 10, .conflictLosesLocal: 8, .mergeForgotten: 8, .removalBeatsAddition: 3, .unseenDeletionWins: 190,
        .membersByArrival: 3, .membersByField: 87, .lesserLetThrough: 3, .givingWayUntold: 8, .sentCoalesced: 11,
        .coalescedInDoubt: 5, .meteredIgnored: 4, .tiesIgnored: 8, .requeueAboveHighest: 6, .cursorAtEnd: 3, .unofferedIsDeleted: 16,
        .scopeChangesIgnored: 58, .gainedPastSkipped: 58, .lostScopesKept: 18, .verdictsUnfiltered: 19, .othersTold: 13,
        .digestsOfAll: 9, .revokedWorkDropped: 36, .changesUnlifted: 25, .openWorkUnlifted: 55, .basesUnlifted: 55,
        .firstFormForgotten: 55, .loweredForgotten: 97, .newSchemasUnseen: 34, .documentsUnlowered: 25, .appsShownStored: 10,
        .formsByNewest: 94, .formsUnjudged: 89, .keepIgnored: 18, .openWorkDropped: 104, .stubsUncounted: 18, .droppedForGood: 18,
        .olderBroughtBack: 136, .revokedBroughtBack: 17, .filesOfLeftShown: 318, .digestsGiveFiles: 12, .knownUploadsSkipped: 30,
        .filesOfOthersTold: 12, .arrivalsTold: 12, .uploadsCountAnywhere: 12, .offersUnheard: 3, .duplicateReplaysStored: 11,
        .laterEditsForgotten: 17,
        .leavingUntold: 13, .toldScopesIgnored: 152,
    ]

    /// Number of histories that are led to the moments of one rule.
    private static let led: UInt64 = Environment.text("EDGE_SYNC_LONG") == nil ? 12 : 400

    @Test("Histories that are led to the moments of a rule end well with it", arguments: rare)
    func holds(_ rule: Ablation) {
        for outcome in Campaign.run(seeds: 1..<1 + Self.led, toward: rule, stopsAfter: 1) where outcome.broken != nil {
            Issue.record("\(Campaign.report(outcome))")
        }
    }

    @Test("A rule that is switched off breaks a history", arguments: Ablation.allCases.filter { !elsewhere.contains($0) })
    func isNoticed(_ rule: Ablation) {
        let broken =
            Self.noticed[rule].flatMap { Self.firstBroken(without: rule, in: $0..<$0 + 1) }
            ?? Self.firstBroken(without: rule, in: Self.seeds)
        if Environment.text("SIMULATION_COUNTS") != nil, let broken {
            print("\(rule.rawValue): seed \(broken.scenario.seed), \(broken.broken?.promise ?? "")")
        }
        #expect(broken != nil, "\(rule.rawValue) is switched off, and no history breaks for want of it")
    }

    /// - Returns: The first history that breaks without the rule and does not with it.
    private static func firstBroken(without rule: Ablation, in seeds: Range<UInt64>) -> Campaign.Outcome? {
        let toward = rare.contains(rule) ? rule : nil
        var first = seeds.lowerBound
        while first < seeds.upperBound {
            let outcomes = Campaign.run(seeds: first..<seeds.upperBound, ablations: [rule], toward: toward, stopsAfter: 1)
            guard let found = outcomes.first(where: { $0.broken != nil }) else { return nil }
            first = found.scenario.seed + 1
            // One that breaks with the rule in force as well says nothing about it.
            let same = Campaign.run(seeds: found.scenario.seed..<first, toward: toward, stopsAfter: 1)
            if same.allSatisfy({ $0.broken == nil }) { return found }
        }
        return nil
    }
}
