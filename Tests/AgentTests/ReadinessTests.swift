import Agent
import LocalAPI
import SyncCore
import SyncStore
import Testing

@Suite("Readiness")
struct ReadinessTests {
    struct Case: Sendable {
        var mode: ServiceMode
        var held: Duration?
        var obstacle: String?
    }

    @Test("A device that has never heard its hub is not ready, however little there is to read")
    func firstSync() {
        let works = EntityName(trusted: "works")
        func phase(_ entities: [EntityOverview], announced: [EntityName] = [], hasMet: Bool, isSeeded: Bool = false) -> String {
            Agent.firstSync(entities, of: RuleBook(), announced: announced, isSeeded: isSeeded, hasMetServer: hasMet).phase
        }
        func overview(readAt: Timestamp?) -> EntityOverview {
            EntityOverview(
                name: works, records: 0, open: 0, lastPullAt: readAt, lastFullAt: readAt, isListing: false, sweepHeld: 0, seedTotal: nil,
                isSeeded: false)
        }
        let now = Timestamp(milliseconds: 1)
        #expect(phase([], hasMet: false) == "waiting")
        #expect(phase([], hasMet: true) == "done")
        #expect(phase([], announced: [works], hasMet: true) == "seeded", "nothing refers to it, and it is not here yet")
        #expect(phase([overview(readAt: now)], announced: [works], hasMet: true) == "done")
        // A restart without a link: what is here is here.
        #expect(phase([overview(readAt: now)], hasMet: false, isSeeded: true) == "done")
    }

    @Test(
        "Apps are told to come again while nothing can be enqueued, and why",
        arguments: [
            Case(mode: .serving, held: nil, obstacle: nil),
            Case(mode: .serving, held: StoreJobTimes.bound, obstacle: nil),
            Case(mode: .serving, held: StoreJobTimes.bound + .milliseconds(1), obstacle: "busy"),
            Case(mode: .recovering, held: .seconds(60), obstacle: "recovering"),
            Case(mode: .readOnly("why"), held: nil, obstacle: "read-only"),
        ])
    func obstacles(_ example: Case) {
        #expect(example.mode.obstacle(held: example.held) == example.obstacle)
    }
}
