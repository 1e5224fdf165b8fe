import Agent
import SyncStore
import Testing

@Suite("Readiness")
struct ReadinessTests {
    struct Case: Sendable {
        var mode: ServiceMode
        var held: Duration?
        var obstacle: String?
    }

    @Test("Apps are told to come again while nothing can be enqueued, and why", arguments: [
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
