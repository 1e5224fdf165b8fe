import SyncCore
import Testing

@Suite("Engine: stalls")
struct EngineWatchdogTests {
    typealias Rig = EngineRig

    private static func stalls(_ rig: Rig) -> Int {
        rig.reports.reduce(0) { count, report in if case .stalled = report { count + 1 } else { count } }
    }

    @Test("A call without an answer is given up after five minutes, reported and counted, and its batch is settled")
    func lostCall() {
        var rig = Rig.pushing(Rig.batch(1...2))
        let lost = rig.call
        rig.advance(.seconds(299))
        rig.handle(.timer)
        #expect(Self.stalls(rig) == 0)
        rig.advance(.seconds(1))
        rig.abandon()
        rig.handle(.timer)
        #expect(Self.stalls(rig) == 1)
        #expect(rig.engine.watchdog.stalls == 1)
        rig.keepHouse()
        #expect(rig.outcome?.errorKind == .transport(.timedOut))
        rig.handle(.answered(lost?.id ?? 0, .success(Rig.push(Rig.accepted(Rig.batch(1...2)))), sent: rig.instant))
        #expect(rig.effects.isEmpty, "too late")
        rig.begin()
        #expect(rig.asked == "loadInFlight")
    }

    @Test("While a call is under way a wake-up is planned to check it")
    func watched() {
        var rig = Rig.pushing(Rig.batch(1...2))
        for _ in 0..<3 where Self.stalls(rig) == 0 {
            guard let at = rig.wakeAt else { break }
            rig.advance(rig.instant.duration(to: at))
            rig.abandon()
            rig.handle(.timer)
        }
        #expect(Self.stalls(rig) == 1)
    }

    @Test("A store that does not answer is reported, and never asked for a second thing")
    func lostStore() {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest()))
        #expect(rig.asked == "loadInFlight")
        rig.advance(.seconds(301))
        rig.handle(.timer)
        #expect(Self.stalls(rig) == 1)
        #expect(rig.asked == "loadInFlight")
    }

    @Test(
        "After a suspend nothing has stood still: patience begins anew, and a call is given up only then", arguments: [3_600, 30 * 86_400])
    func suspended(_ seconds: Int) {
        var rig = Rig.pushing(Rig.batch(1...2))
        rig.advance(.seconds(seconds))
        rig.handle(.timer)
        #expect(Self.stalls(rig) == 0 && rig.engine.watchdog.stalls == 0)
        rig.advance(Watchdog.patience)
        rig.abandon()
        rig.handle(.timer)
        #expect(Self.stalls(rig) == 1)

        var watchdog = Watchdog()
        let at = { (seconds: Int64) in Instant(nanoseconds: seconds * 1_000_000_000) }
        watchdog.enqueued(.normal, at: at(0))
        watchdog.look(allowed: .bulk, at: at(0))
        let slept = watchdog.hasStalled(at: at(Int64(seconds)))
        #expect(!slept && watchdog.stalls == 0 && watchdog.endsAt == at(Int64(seconds) + 300))
        let again = watchdog.hasStalled(at: at(Int64(seconds) + 300))
        #expect(again)
    }

    @Test("Work that waits without a reason and without a try is noticed")
    func idle() {
        var watchdog = Watchdog()
        let at = { (seconds: Int64) in Instant(nanoseconds: seconds * 1_000_000_000) }
        watchdog.enqueued(.normal, at: at(0))
        watchdog.look(allowed: .critical, at: at(10))
        #expect(watchdog.endsAt == nil, "the policy keeps it")
        watchdog.look(allowed: .bulk, at: at(1_000))
        #expect(watchdog.endsAt == at(1_300))
        watchdog.tried(at: at(1_100))
        #expect(watchdog.endsAt == at(1_400))
        let early = watchdog.hasStalled(at: at(1_399)), late = watchdog.hasStalled(at: at(1_400))
        #expect(!early)
        #expect(late)
        #expect(watchdog.stalls == 1)
        #expect(watchdog.endsAt == at(1_700))
        watchdog.drained(downTo: .bulk)
        watchdog.look(allowed: .bulk, at: at(1_500))
        #expect(watchdog.endsAt == nil)
    }

    @Test("A claim that finds nothing down to a priority says nothing about less urgent work")
    func partlyDrained() {
        var watchdog = Watchdog()
        let now = Instant(nanoseconds: 0)
        for priority in Priority.allCases { watchdog.enqueued(priority, at: now) }
        watchdog.drained(downTo: .critical)
        #expect(watchdog.waiting.keys.sorted() == [.normal, .bulk])
    }

    @Test("No ordinary day is a stall: retries, pauses, backoff, metered links, an empty outbox")
    func ordinaryDays() {
        var rig = Rig.settled()
        rig.handle(.enqueued(.normal))
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
        rig.answer(Rig.push(Rig.accepted(Rig.batch(1...1))))
        rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil))
        rig.keepHouse()
        rig.handle(.conditions(EnginePolicyTests.metered))
        rig.handle(.enqueued(.normal))
        rig.advance(.seconds(1_000))
        rig.handle(.timer)
        rig.handle(.paused(EngineMemory.Pause(until: nil, reason: "", uid: 0)))
        rig.stored(.done)
        rig.handle(.conditions(EnginePolicyTests.ethernet))
        rig.advance(.seconds(1_000))
        rig.handle(.timer)
        #expect(Self.stalls(rig) == 0)
        rig.handle(.resumed)
        rig.stored(.done)
        rig.stored(.batch(Rig.batch(2...2), retryAt: nil))
        rig.answer(Rig.problem(503, "overloaded", retryAfter: "3000"))
        rig.keepHouse()
        rig.advance(.seconds(2_000))
        rig.handle(.timer)
        #expect(Self.stalls(rig) == 0)
    }
}
