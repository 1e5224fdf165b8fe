import SimulationKit
import SyncCore
import Testing

/// Rules about shares, in so many short histories that rare orders of events occur too (``Scenario/init(short:ablations:)``).
///
/// | variable | means |
/// |---|---|
/// | `SIMULATION_SHORT` | how many short histories, 2,000 if not said; `EDGE_SYNC_LONG` makes it 50,000 |
/// | `SIMULATION_FIRST` | the first seed, 1 if not said: several machines can share a million |
/// | `SIMULATION_ALL`, `SIMULATION_COUNTS` | see ``SimulationTests`` |
/// | `SIMULATION_SHORT_ABLATIONS` | how many short histories may pass until each rule about shares is missed; not run if not said |
@Suite("Short histories of shares")
struct ShortHistoryTests {
    private static var count: UInt64 {
        Environment.number("SIMULATION_SHORT") ?? (Environment.text("EDGE_SYNC_LONG") == nil ? 2_000 : 50_000)
    }

    @Test("Every short history ends well: each device holds its share and nothing else, and no work is lost")
    func seeds() {
        let first = Environment.number("SIMULATION_FIRST") ?? 1
        let sum = Campaign.runShort(
            seeds: first..<first + Self.count, stopsAfter: Environment.text("SIMULATION_ALL") == nil ? 3 : .max)
        for outcome in sum.broken { Issue.record("\(Campaign.report(outcome))") }
        if Environment.text("SIMULATION_COUNTS") != nil {
            for (event, count) in sum.counts.sorted(by: { $0.key < $1.key }) { print("\(count)\t\(event)") }
        }
        guard sum.histories >= 2_000, sum.broken.isEmpty else { return }
        for (rule, events) in Self.moments {
            for event in events {
                #expect(sum.counts[event] ?? 0 > 0, "\(rule): \(event): never in \(sum.histories) short histories")
            }
        }
    }

    /// The moments of each rule. Histories without them prove nothing about it.
    private static let moments: [(rule: String, events: [String])] = [
        (
            "a device receives its share and nothing else",
            ["listings of shares", "comparisons of shares", "records moved by the office", "duplicates answered"]
        ),
        ("a change is decided on the old and the new state", ["changes forbidden", "rejections", "listed as rejected"]),
        (
            "what leaves the share is forgotten, and no unsent work is lost",
            ["records taken back", "listed as revoked", "revoked work retried", "revoked work accepted after a new grant"]
        ),
        (
            "a gained scope brings its past",
            [
                "scopes granted", "scopes revoked", "shares to be listed anew", "grants by records changed", "histories with groups",
                "scopes granted by groups", "scopes revoked by groups",
            ]
        ),
        ("grants and data of an answer are of one moment", ["lost answers", "delayed requests", "duplicates delivered", "crashes"]),
        (
            "older copies and foreign cursors widen nothing",
            [
                "restores with scopes", "clones with scopes", "hub restores with scopes", "hubs made anew with scopes",
                "hub files replaced with scopes", "hub folders replaced with scopes", "older cursors shown", "cursors of others shown",
                "expired cursors", "hub crashes",
            ]
        ),
        ("dropped documents are fetched from the share", ["histories with keep", "documents dropped", "documents asked for"]),
        (
            "parents, lists and files tell nothing of others",
            [
                "histories with parents", "children of parents of others refused", "lists with a forbidden member refused",
                "histories with files", "files added", "files uploaded", "files of others refused",
            ]
        ),
    ]

    // MARK: Ablations

    /// Rules that the present short histories miss for certain within some dozens.
    private static let certain: [Ablation] = [.scopesIgnored, .rightsIgnored]

    /// All rules about shares.
    private static let all: [Ablation] = [
        .scopesIgnored, .rightsIgnored, .scopeChangesIgnored, .gainedPastSkipped, .lostScopesKept, .leavingUntold, .cursorsBelieved,
        .grantsReadBefore, .grantsOfRecordsIgnored, .newStateUnchecked, .verdictsUnfiltered, .othersTold, .digestsOfAll,
        .revokedWorkDropped, .groupsIgnored, .keepIgnored, .openWorkDropped, .stubsUncounted, .droppedForGood, .olderBroughtBack,
        .revokedBroughtBack, .hiddenParentsSeen, .forbiddenMembersSkipped, .filesOfLeftShown, .digestsGiveFiles, .knownUploadsSkipped,
        .filesOfOthersTold, .arrivalsTold, .uploadsCountAnywhere,
    ]

    @Test("A rule about shares that is switched off breaks a short history", arguments: certain)
    func isNoticed(_ rule: Ablation) {
        #expect(Self.firstBroken(without: rule, among: 400) != nil, "\(rule.rawValue) is switched off, and no short history breaks")
    }

    @Test(
        "Each rule about shares that is switched off breaks a short history, as asked for",
        .enabled(if: Environment.number("SIMULATION_SHORT_ABLATIONS") != nil), arguments: all)
    func isNoticedAsAsked(_ rule: Ablation) throws {
        let most = try #require(Environment.number("SIMULATION_SHORT_ABLATIONS"))
        let broken = Self.firstBroken(without: rule, among: most)
        if let broken {
            print("\(rule.rawValue): short seed \(broken.scenario.seed), \(broken.broken?.promise ?? "")")
        }
        #expect(broken != nil, "\(rule.rawValue) is switched off, and none of \(most) short histories breaks")
    }

    /// - Returns: The first short history that breaks without the rule and does not with it.
    private static func firstBroken(without rule: Ablation, among most: UInt64) -> Campaign.Outcome? {
        var first: UInt64 = 1
        while first <= most {
            let sum = Campaign.runShort(seeds: first..<most + 1, ablations: [rule], stopsAfter: 1)
            guard let found = sum.broken.first else { return nil }
            first = found.scenario.seed + 1
            if Campaign.run(Scenario(short: found.scenario.seed)).broken == nil { return found }
        }
        return nil
    }
}
