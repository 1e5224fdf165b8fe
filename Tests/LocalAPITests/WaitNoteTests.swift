import LocalAPI
import SyncCore
import Testing

@Suite("Texts of --wait when the work has not ended") struct WaitNoteTests {
    private static let now = StatusSamples.now

    struct Enqueued: Sendable, CustomTestStringConvertible {
        var state: String
        var durability: EntityRules.Durability?
        var why: WhyAnswer?
        var says: String
        var testDescription: String { says }
    }

    @Test(
        "An enqueue says that nothing is lost, why it waits, and until when",
        arguments: [
            Enqueued(
                state: "pending", why: SurroundingsSamples.why,
                says: "it is safe on flash; normal mutations wait because the link wwan0 is metered; until "
                    + "2026-11-21 20:59Z (in 23 h 18 min)"),
            Enqueued(
                state: "pending", durability: .relaxed, why: why(sentence: "it waits\u{1B}[31m"),
                says: "it is on flash within a second; it waits?[31m"),
            Enqueued(
                state: "pending",
                why: why(sentence: "it goes at 2026-11-20T21:41:02.000Z", until: time("2026-11-20T21:41:02Z")),
                says: "it is safe on flash; it goes at 2026-11-20T21:41:02.000Z"),
            Enqueued(
                state: "in_flight", why: why(sentence: "the hub's answer is not there yet"),
                says: "it is safe on flash; the hub's answer is not there yet"),
            Enqueued(state: "pending", says: "it is safe on flash; agentctl mutations show k-1 shows its state"),
            Enqueued(
                state: "a_new_state", says: "it is safe on flash; agentctl mutations show k-1 shows its state"),
            Enqueued(
                state: "rejected", why: why(sentence: "the hub refused it: status must be one of open, closed"),
                says: "it is kept on flash; the hub refused it: status must be one of open, closed; see: agentctl rejected "
                    + "show k-1"),
            Enqueued(
                state: "held", says: "it is kept on flash; a person has to decide; see: agentctl rejected show k-1"),
            Enqueued(state: "expired", says: "it was not sent, and will not be: expired"),
        ])
    func enqueued(_ example: Enqueued) throws {
        let answer = try #require(
            EnqueueAnswer([
                "id": "k-1", "seq": 1, "state": .string(example.state),
                "durability": example.durability.map { .string($0.rawValue) } ?? .null,
            ]))
        #expect(WaitNote.enqueued(answer, why: example.why, now: Self.now) == example.says)
    }

    private static func why(sentence: String, until: Timestamp? = nil) -> WhyAnswer {
        WhyAnswer(id: "k-1", state: "pending", verdict: .defer, until: until, sentence: sentence)
    }

    struct Synced: Sendable, CustomTestStringConvertible {
        var says: String
        var advice: Bool
        var change: @Sendable (inout StatusDocument) -> Void
        var testDescription: String { says }

        init(_ says: String, advice: Bool = false, _ change: @escaping @Sendable (inout StatusDocument) -> Void) {
            (self.says, self.advice, self.change) = (says, advice, change)
        }
    }

    @Test(
        "A sync says what holds it back and until when, and names --force only where that helps",
        arguments: [
            Synced("the sync is paused until 2026-11-21 06:00Z (in 8 h 19 min) (satellite window): agentctl resume") {
                $0 = StatusSamples.paused
            },
            Synced("the sync is paused until it is resumed: agentctl resume") {
                $0.sync.pause = .init(until: nil, reason: "", uid: 0)
            },
            Synced("the cycle is still running (push); to follow it: agentctl status") { $0.sync.phase = "push" },
            Synced("the hub asked not to be called until 21:41:50Z (in 60 s), not even by a forced sync") {
                $0.sync.notBefore = now.advanced(by: .seconds(60))
                $0.sync.attempt = 1
            },
            Synced("no link has carrier, an address and a route to the hub; it goes when one is up") {
                $0.connectivity.state = "offline"
                $0.sync.attempt = 3
            },
            Synced(
                "the network answers in the hub's place (a captive portal or a proxy); log in at https://login.example.net/"
            ) {
                $0.connectivity.state = "captive"
                $0.connectivity.portalURL = "https://login.example.net/"
                $0.sync.nextAt = nil
            },
            Synced(Deferral.Reason.auth.sentence + "; next try at 21:41:02Z (in 12 s)") {
                $0 = StatusSamples.auth
            },
            Synced("the hub has failed for a long time; only a small probe is sent") {
                $0.sync.breaker = "open"
                $0.sync.nextAt = nil
            },
            Synced(
                "the last 6 attempts failed (push: connect to hub.example.org:443: Connection refused); next try at "
                    + "21:41:02Z (in 12 s)", advice: true
            ) { $0 = StatusSamples.offline },
            Synced("the last attempt failed", advice: true) {
                $0.sync.attempt = 1
                $0.sync.nextAt = nil
            },
            Synced(
                "the link is metered, until 2026-11-21 20:59Z (in 23 h 18 min) or when an unmetered link is up",
                advice: true
            ) { $0 = StatusSamples.metered },
            Synced("the battery is low and not charging; when the battery is at 18 % or charging", advice: true) {
                $0 = StatusSamples.lowBattery
            },
            Synced("the data budget of the link is used up") {
                $0.outbox.deferred = [.init(priority: .normal, count: 1, reason: "budget")]
            },
            Synced("bulk waits: it is outside the time window for this traffic", advice: true) {
                $0.verdicts = [.init("critical", .allow), .init("bulk", .deferred(reason: "window", until: nil))]
            },
            Synced("a_reason_of_tomorrow") {
                $0.outbox.deferred = [.init(priority: .normal, count: 1, reason: "a_reason_of_tomorrow")]
            },
            Synced(
                "the cycle has not ended yet; next try at 21:41:12Z (in 22 s); to follow it: agentctl status"
            ) { _ in },
        ])
    func synced(_ example: Synced) {
        var document = StatusSamples.settled
        example.change(&document)
        let advice = example.advice ? "; agentctl sync --force overrides that" : ""
        #expect(WaitNote.sync(document, isForced: false, now: Self.now) == example.says + advice)
        #expect(WaitNote.sync(document, isForced: true, now: Self.now) == example.says)
    }

    @Test("A forced sync ignores exactly the limits that the protocol names", arguments: Deferral.Reason.allCases)
    func force(_ reason: Deferral.Reason) {
        let past: Set<Deferral.Reason> = [.backoff, .lowBattery, .batterySaver, .metered, .roaming, .window]
        #expect(WaitNote.yieldsToForce(reason.rawValue) == past.contains(reason))
    }
}
