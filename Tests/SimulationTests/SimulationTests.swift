import SimulationKit
import SyncCore
import Testing

/// PROTOCOL 0.2, on the product itself: agents and a hub under faults that each seed draws anew.
///
/// | variable | means |
/// |---|---|
/// | `SIMULATION_SEEDS` | how many histories, 2,000 if not said; `EDGE_SYNC_LONG` makes it 20,000 |
/// | `SIMULATION_FIRST` | the first seed, 1 if not said |
/// | `SIMULATION_ALL` | do not stop at the third history that breaks |
/// | `SIMULATION_COUNTS` | print what has happened, and how often |
/// | `SIMULATION_SEED` | one history with its whole trace; the report of a broken one names what else to set |
/// | `SIMULATION_VERIFY` | with it, every store is verified after every event of that history: the first moment when one is wrong |
@Suite("Simulation")
struct SimulationTests {
    @Test("Every history ends well: all agents and the hub agree, each mutation took effect once, nothing is missing")
    func seeds() {
        let first = Environment.number("SIMULATION_FIRST") ?? 1
        let outcomes = Campaign.run(
            seeds: first..<first + Environment.seeds, stopsAfter: Environment.text("SIMULATION_ALL") == nil ? 3 : .max)
        let broken = outcomes.filter { $0.broken != nil }
        for outcome in broken { Issue.record("\(Campaign.report(outcome))") }
        let counts = Self.counts(of: outcomes)
        if Environment.text("SIMULATION_COUNTS") != nil { Self.show(counts) }
        guard outcomes.count >= 300, broken.isEmpty else { return }
        for event in Self.rareEvents { #expect(counts[event] ?? 0 > 0, "\(event): never in \(outcomes.count) histories") }
    }

    @Test("One seed, as asked for", .enabled(if: Environment.scenario != nil))
    func oneSeed() throws {
        let scenario = try #require(Environment.scenario)
        let outcome = Campaign.run(scenario, keeps: 100_000, verifiesAlways: Environment.text("SIMULATION_VERIFY") != nil)
        print(outcome.tail.joined(separator: "\n"))
        print("seed \(scenario.seed), trace \(String(outcome.hash, radix: 16)), \(outcome.elapsed.milliseconds / 1_000) s")
        #expect(outcome.broken == nil)
    }

    /// Events that must have happened now and then, or the histories prove nothing about them.
    private static let rareEvents: [String] =
        [
            "lost requests", "lost answers", "delayed requests", "late answers", "duplicates delivered", "cuts",
            "requests of the dead", "duplicates answered", "settles",
            "portals", "busy answers", "failures after the commit", "nonsense", "missing results", "requests too large",
            "bad credentials", "poison", "set aside", "parked",
            "conflicts", "conflicts discarded", "conflicts resolved by local", "conflicts resolved by remote",
            "conflicts resolved by value", "conflicts of field", "conflicts of delete_update", "conflicts of update_delete",
            "superseded", "rejections", "retries", "groups rejected", "groups sent back",
            "listed as rejected", "listed as discarded", "listed as cancelled", "repeated answers", "refused",
            "crashes", "full disks", "failed syncs, commit lost", "failed syncs, commit kept", "restores", "lost tails noticed",
            "regressions", "link losses", "metered links", "clock jumps", "pauses", "coalesced", "coalesced into done", "quotas used up",
            "listed as expired",
            "power cuts", "hub restores", "hubs made anew", "epoch changes", "histories adopted", "clones", "clones noticed",
            "mass deletions",
            "deletions accepted", "coalesced into rejected", "refused ones repeated", "reboots at a wrong time",
            "hub crashes", "tombstones collected", "expired cursors", "restarted streams",
            "listings", "pages of listings", "comparisons",
            "hub files replaced", "hub folders replaced", "older files noticed by the mark", "histories begun by cursor",
            "histories begun by receipt", "waits for what is missing",
            "lost values told", "histories with versions by record",
            "histories with scopes", "scopes granted", "scopes revoked", "grants by records changed", "records moved by the office",
            "records taken back", "changes forbidden", "shares to be listed anew", "listings of shares", "comparisons of shares",
            "older cursors shown", "cursors of others shown", "listed as revoked", "revoked work retried",
            "revoked work accepted after a new grant",
            "restores with scopes", "clones with scopes", "hub restores with scopes", "hubs made anew with scopes",
            "hub files replaced with scopes", "hub folders replaced with scopes",
            "histories with groups", "scopes granted by groups", "scopes revoked by groups",
            "histories with keep", "documents dropped", "dropped documents back", "work on dropped documents refused",
            "documents asked for", "documents fetched", "documents that came too late", "records of others asked for in vain",
            "histories with parents", "children of parents of others refused", "lists with a forbidden member refused",
            "histories with files", "files added", "files uploaded", "files known to the hub", "files brought again by another device",
            "files cut", "files arrived in records", "files wanted", "files fetched", "own files read", "files of records read",
            "files of others refused", "files refused whose digest a record names",
            "files brought that a record of another device names", "files published by the office", "deaths of the hub with a file",
            "parked work with its file",
            "histories with schemas", "schemas changed", "schemas taken back", "schemas not accepted", "changes of older versions accepted",
            "writes in older versions", "devices converted", "devices converted back", "settings of the hub refused",
            "settings of the hub taken during a cycle", "contradictions to a schema",
            "forms published", "holes refused by the agent", "holes refused by the hub",
        ]
        + Commit.allCases.filter { ![.look, .requeue, .history].contains($0) }.flatMap {
            ["deaths before the commit of \($0.rawValue)", "deaths after the commit of \($0.rawValue)"]
        }

    private static func counts(of outcomes: [Campaign.Outcome]) -> [String: Int] {
        outcomes.reduce(into: [:]) { sums, outcome in sums.merge(outcome.counts, uniquingKeysWith: +) }
    }

    private static func show(_ counts: [String: Int]) {
        for (event, count) in counts.sorted(by: { $0.key < $1.key }) { print("\(count)\t\(event)") }
    }
}
