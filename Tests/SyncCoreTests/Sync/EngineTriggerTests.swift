import SyncCore
import Testing

/// The triggers of a cycle, and their times (PROTOCOL G1).
@Suite("Engine: triggers and wake-ups")
struct EngineTriggerTests {
    typealias Rig = EngineRig

    @Test("The first contact after a start is drawn from the spread", arguments: 0..<20)
    func start(_ seed: Int) throws {
        var rig = Rig(seed: UInt64(seed))
        rig.start()
        let wait = try #require(rig.untilWake)
        #expect(wait >= .zero && wait <= .seconds(5))
    }

    @Test("A fleet that starts as one does not call as one")
    func spread() {
        let waits = (0..<200).compactMap { seed -> Int64? in
            var rig = Rig(seed: UInt64(seed))
            rig.start()
            return rig.untilWake.map { $0.milliseconds / 500 }
        }
        #expect(Set(waits).count == 10)
    }

    @Test("Without a link nothing is planned and nothing is sent")
    func offlineStart() {
        var rig = Rig()
        rig.start(linkIsUp: false)
        #expect(rig.sleeps)
        #expect(rig.engine.reachability == .offline)
        rig.handle(.enqueued(.critical))
        rig.handle(.requested(SyncRequest(isForced: true)))
        rig.pass(.seconds(3600))
        #expect(rig.engine.cycle == nil)
        #expect(rig.sleeps)
    }

    @Test("Before the start nothing happens, and what came before it is not forgotten")
    func beforeStart() {
        var rig = Rig()
        rig.handle(.enqueued(.critical))
        rig.handle(.timer)
        #expect(rig.effects.isEmpty)
        rig.start()
        #expect((rig.untilWake ?? .seconds(9)) <= .milliseconds(200))
    }

    struct Urgency: Sendable {
        var priority: Priority
        var delay: Duration
    }

    @Test(
        "An enqueue wakes after its delay",
        arguments: [
            Urgency(priority: .critical, delay: .milliseconds(200)), Urgency(priority: .normal, delay: .seconds(2)),
        ])
    func enqueued(_ urgency: Urgency) {
        var rig = Rig.settled()
        rig.handle(.enqueued(urgency.priority))
        #expect(rig.untilWake == urgency.delay)
        rig.wake()
        #expect(rig.engine.cycle != nil)
    }

    @Test("Bulk work waits for the next cycle, a minute at most")
    func bulk() {
        var settings = SyncEngine.Settings()
        settings.policy.pullInterval = .seconds(1_800)
        var rig = Rig.settled(settings: settings)
        #expect(rig.untilWake == .seconds(1_800))
        rig.handle(.enqueued(.bulk))
        #expect(rig.untilWake == .seconds(60))
    }

    @Test("A later trigger does not move a planned wake-up: it fires, finds nothing due, and the next is planned")
    func laterWish() {
        var rig = Rig.settled()
        rig.handle(.enqueued(.normal))
        let planned = rig.wakeAt
        rig.advance(.seconds(1))
        rig.handle(.enqueued(.normal))
        #expect(rig.wakeAt == planned)
        rig.wake()
        #expect(rig.engine.cycle == nil)
        #expect(rig.untilWake == .seconds(1))
        rig.wake()
        #expect(rig.engine.cycle != nil)
    }

    @Test("A wake-up that comes late, twice or for nothing does no harm")
    func oddTimers() {
        var rig = Rig.settled()
        let planned = rig.wakeAt
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        #expect(rig.wakeAt == planned)
        rig.advance(.seconds(7_000))
        rig.handle(.timer)
        #expect(rig.asked == "loadInFlight")
        rig.handle(.timer)
        #expect(rig.effects.allSatisfy { if case .wake = $0 { true } else { false } })
    }

    @Test("Work that arrives during a cycle wakes the next one", arguments: Priority.allCases)
    func duringCycle(_ priority: Priority) throws {
        var settings = SyncEngine.Settings()
        settings.policy.pullInterval = .seconds(86_400)
        var rig = Rig.settled(settings: settings)
        rig.handle(.requested(SyncRequest()))
        rig.handle(.enqueued(priority))
        rig.idleCycle()
        #expect(try #require(rig.untilWake) <= .seconds(60))
        rig.wake()
        #expect(rig.engine.cycle != nil)
    }

    @Test("Work that arrives while the memory is being written wakes a cycle as well")
    func duringSave() {
        var rig = Rig.settled()
        rig.handle(.paused(EngineMemory.Pause(until: rig.wall.advanced(by: .seconds(10)), reason: "", uid: 0)))
        #expect(rig.asked == "remember")
        rig.handle(.enqueued(.critical))
        rig.stored(.done)
        #expect(rig.untilWake == .seconds(10))
        rig.wake()
        #expect(rig.engine.cycle != nil)
    }

    @Test("A request begins a cycle at once; one during a cycle begins the next as soon as that has ended")
    func requested() {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest()))
        #expect(rig.asked == "loadInFlight")
        rig.handle(.requested(SyncRequest()))
        #expect(rig.effects.isEmpty)
        // A request for a sync asks for news as well, so each of the two cycles looks for streams to pull.
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([]))
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadInFlight", "the second cycle")
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([]))
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.engine.cycle == nil)
    }

    /// Events that come while a call is under way, and change nothing about its way to the hub.
    private static let interjections: [SyncEvent] = [
        .requested(SyncRequest()), .requested(SyncRequest(scope: .full, isForced: true)), .resumed, .conditions(.plain),
        .probed(99, isGood: true), .probed(99, isGood: false), .newsBegan(99), .enqueued(.critical), .timer,
        .paused(.init(until: nil, reason: "", uid: 0)),
    ]

    @Test("A page on its way is received once, whatever is asked for meanwhile", arguments: interjections)
    func pageUnderWay(_ event: SyncEvent) throws {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest()))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        let call = try #require(rig.call)
        #expect(call.kind == .pull)
        for _ in 0..<2 {
            rig.handle(event)
            #expect(rig.call?.id == call.id)
        }
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2")], head: 11), after: .seconds(15))
        guard case .applyPull(let applied)? = rig.command else {
            Issue.record("the page is not applied")
            return
        }
        #expect(applied.pages.map(\.cursor) == ["c2"])
    }

    @Test("A batch on its way is sent once, whatever is asked for meanwhile", arguments: interjections)
    func batchUnderWay(_ event: SyncEvent) throws {
        let batch = Rig.batch(1...2)
        var rig = Rig.pushing(batch)
        let call = try #require(rig.call)
        for _ in 0..<2 {
            rig.handle(event)
            #expect(rig.call?.id == call.id)
        }
        rig.answer(Rig.push(Rig.accepted(batch)), after: .seconds(15))
        #expect(rig.asked == "applyResults")
    }

    @Test("A request for a pull pulls although nothing is known to be newer, and pushes nothing")
    func pullScope() {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest(scope: .pull)))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Rig.pull())
        rig.stored(.pullApplied(PullSummary()))
        rig.keepHouse()
    }

    @Test("A cycle that only pulls leaves the enqueued work its wake-up")
    func pullScopeKeepsWork() throws {
        var settings = SyncEngine.Settings()
        settings.policy.pullInterval = .seconds(1_800)
        var rig = Rig.settled(settings: settings)
        rig.handle(.enqueued(.normal))
        rig.handle(.requested(SyncRequest(scope: .pull)))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Rig.pull())
        rig.stored(.pullApplied(PullSummary()))
        rig.keepHouse()
        #expect(try #require(rig.untilWake) <= .seconds(2))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "claim")
    }

    @Test("A request for a push settles and pushes, and pulls nothing")
    func pushScope() {
        var rig = Rig.settled()
        rig.advance(.seconds(50))
        rig.handle(.requested(SyncRequest(scope: .push)))
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "claim")
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        #expect((rig.untilWake ?? .zero) <= .seconds(10), "the periodic pull stays where it was")
    }

    @Test("A full sync restarts every stream, and everything is pulled afresh")
    func fullScope() {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest(scope: .full)))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.sites), Rig.position(Rig.works)]))
        if case .restartStreams(let entities)? = rig.command {
            #expect(entities == [Rig.sites, Rig.works])
        } else {
            Issue.record("a restart was expected")
        }
        rig.stored(.done)
        #expect(rig.asked == "loadStreams")
        rig.stored(.streams([Rig.listing(Rig.sites), Rig.listing(Rig.works)]))
        #expect(rig.asked == "snapshot")
    }

    struct Merged: Sendable {
        var first: SyncRequest.Scope
        var second: SyncRequest.Scope
        var both: SyncRequest.Scope
    }

    @Test(
        "Two requests become one that covers both",
        arguments: [
            Merged(first: .push, second: .push, both: .push), Merged(first: .push, second: .pull, both: .all),
            Merged(first: .all, second: .push, both: .all), Merged(first: .pull, second: .full, both: .full),
            Merged(first: .full, second: .all, both: .full),
        ])
    func merged(_ example: Merged) {
        var rig = Rig.settled()
        rig.handle(.link(up: false))
        rig.handle(.requested(SyncRequest(scope: example.first)))
        rig.handle(.requested(SyncRequest(scope: example.second)))
        rig.handle(.link(up: true))
        #expect(rig.engine.cycle?.scope == example.both)
    }

    @Test("The periodic pull follows the settings, also when they change")
    func interval() {
        var settings = SyncEngine.Settings()
        settings.policy.pullInterval = .seconds(1_800)
        var rig = Rig.settled(settings: settings)
        #expect(rig.untilWake == .seconds(1_800))
        settings.policy.pullInterval = .seconds(30)
        rig.handle(.settings(settings))
        #expect(rig.untilWake == .seconds(1))
        rig.wake()
        rig.idleCycle()
        #expect(rig.untilWake == .seconds(30))
    }

    @Test("After a suspend or a step of the clock there is a cycle within a second")
    func clockChanged() {
        var rig = Rig.settled()
        rig.handle(.clockChanged)
        #expect(rig.untilWake == .seconds(1))
    }

    @Test("Timers stand still while the machine sleeps: the next wake-up is planned anew, and not left to one from before")
    func overdueWake() throws {
        var rig = Rig.settled()
        rig.advance(.seconds(864_000))
        // The engine was not told of the suspend. The pull is overdue, so there is a cycle with the first event.
        rig.handle(.enqueued(.normal))
        rig.idleCycle()
        #expect(try #require(rig.wakeAt) > rig.instant)
        rig.handle(.enqueued(.critical))
        #expect(rig.untilWake == .milliseconds(200))
    }

    @Test("A mutation that may be tried again later gets its own wake-up, which no earlier cycle uses up")
    func retryTime() throws {
        var settings = SyncEngine.Settings()
        settings.policy.pullInterval = .seconds(1_800)
        let batch = Rig.batch(1...1)
        var rig = Rig.settled(settings: settings)
        rig.handle(.enqueued(.critical))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.batch(batch, retryAt: nil))
        rig.answer(Rig.push([PushResult(key: batch.mutations[0].key, verdict: .retry(nil, after: .seconds(20)))]))
        var summary = Rig.summary(retried: 1)
        summary.retryAt = rig.wall.advanced(by: .seconds(20))
        rig.stored(.resultsApplied(summary, next: nil))
        rig.keepHouse()
        #expect(rig.untilWake == .seconds(20))
        // Something else begins a cycle in between; the store says again what it waits for.
        rig.advance(.seconds(5))
        rig.handle(.requested(SyncRequest()))
        rig.stored(.batch(nil, retryAt: summary.retryAt))
        if rig.asked == "loadStreams" {
            rig.stored(.streams([]))
        }
        rig.stored(.batch(nil, retryAt: summary.retryAt))
        rig.keepHouse()
        #expect(rig.untilWake == .seconds(15))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.engine.cycle != nil)
    }

    @Test("A cycle that only pulls does not use up the wake-up of a retry")
    func retryOutlivesPull() {
        var rig = Rig.settled()
        let at = rig.wall.advanced(by: .seconds(20))
        rig.handle(.requested(SyncRequest(scope: .pull)))
        rig.stored(.batch(nil, retryAt: at))
        rig.stored(.streams([]))
        rig.keepHouse()
        #expect((rig.untilWake ?? .zero) == .seconds(20))
    }

    @Test("A retry whose time has passed but which cannot be claimed makes no hot loop")
    func pastRetry() {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest()))
        let past = rig.wall.advanced(by: .seconds(-5))
        rig.stored(.batch(nil, retryAt: past))
        rig.stored(.batch(nil, retryAt: past))
        rig.keepHouse()
        #expect((rig.untilWake ?? .zero) > .seconds(1))
    }

    @Test("While an app follows the events, news are asked for twice as often", arguments: [false, true])
    func active(_ isActive: Bool) {
        var rig = Rig.settled()
        var conditions = Conditions.plain
        conditions.isActive = isActive
        rig.handle(.conditions(conditions))
        for _ in 0..<3 {
            let before = rig.instant
            rig.begin()
            #expect(before.duration(to: rig.instant) == .seconds(isActive ? 30 : 60))
            rig.stored(.batch(nil, retryAt: nil))
            #expect(rig.asked == "loadStreams", "and the hub is asked although its head was seen a moment ago")
            rig.stored(.streams([Rig.position(Rig.works)]))
            rig.answer(Rig.pull(), after: .zero)
            rig.stored(.pullApplied(PullSummary()))
            rig.stored(.batch(nil, retryAt: nil))
            rig.keepHouse()
        }
    }

    @Test("Every way in which a cycle can end leaves a wake-up planned", arguments: 0..<8)
    func alwaysPlanned(_ way: Int) {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest()))
        switch way {
        case 0: rig.stored(.failed("disk full"))
        case 1:
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.fail()
        case 2:
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.answer(Rig.portal)
        case 3:
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.answer(Rig.problem(401, "auth"))
        case 4:
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.answer(Rig.ok(Array("[".utf8)))
        case 5: rig.stored(.done)
        case 6:
            rig.stored(.batch(nil, retryAt: nil))
            rig.stored(.failed("disk full"))
        default:
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.answer(Rig.ok([], epoch: "another"))
            rig.stored(.failed("disk full"))
        }
        rig.keepHouse()
        #expect(rig.outcome?.error != nil)
        #expect(rig.wakeAt != nil)
        rig.begin()
    }
}
