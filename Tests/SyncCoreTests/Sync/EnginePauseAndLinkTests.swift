import SyncCore
import Testing

@Suite("Engine: pause and link")
struct EnginePauseAndLinkTests {
    typealias Rig = EngineRig

    private static func pause(until: Timestamp? = nil) -> EngineMemory.Pause {
        EngineMemory.Pause(until: until, reason: "maintenance", uid: 0)
    }

    // MARK: Pause

    @Test("A pause is stored at once and nothing is sent until a person resumes")
    func pause() {
        var rig = Rig.settled()
        rig.handle(.paused(Self.pause()))
        #expect(rig.remembered?.pause == Self.pause())
        rig.stored(.done)
        rig.handle(.enqueued(.critical))
        rig.handle(.requested(SyncRequest(isForced: true)))
        rig.pass(.seconds(100_000))
        #expect(rig.engine.cycle == nil)
        #expect(rig.sleeps)
        #expect(rig.engine.verdict(on: .critical, now: rig.wall) == .defer(Deferral(.paused)))
        rig.handle(.resumed)
        #expect(rig.remembered?.pause == nil)
        #expect(rig.engine.cycle == nil, "not before it is written")
        rig.stored(.done)
        #expect(rig.engine.cycle != nil)
    }

    @Test("A pause survives a restart")
    func restart() {
        var rig = Rig()
        var memory = EngineMemory(epoch: Rig.hub)
        memory.pause = Self.pause()
        rig.start(memory: memory)
        #expect(rig.sleeps)
        rig.pass(.seconds(100_000))
        #expect(rig.engine.cycle == nil)
    }

    @Test("A pause with an end ends by itself, with one wake-up and no more before")
    func ends() {
        var rig = Rig.settled()
        rig.handle(.paused(Self.pause(until: rig.wall.advanced(by: .seconds(300)))))
        rig.stored(.done)
        // The wake-up of the periodic pull is planned already; it finds the pause and plans the end of it.
        rig.wake()
        #expect(rig.engine.cycle == nil)
        #expect(rig.untilWake == .seconds(240))
        rig.wake()
        #expect(rig.engine.cycle != nil)
        rig.idleCycle()
        #expect(rig.engine.memory.pause == nil)
    }

    @Test("A pause that has ended before any work is due plans no wake-up before that")
    func endsIdle() {
        var settings = SyncEngine.Settings()
        settings.policy.pullInterval = .seconds(1_800)
        var rig = Rig.settled(settings: settings)
        rig.handle(.paused(Self.pause(until: rig.wall.advanced(by: .seconds(300)))))
        rig.stored(.done)
        #expect(rig.untilWake == .seconds(1_800))
        rig.advance(.seconds(400))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        #expect(rig.untilWake == .seconds(1_400))
        #expect(rig.engine.verdict(on: .pull, now: rig.wall) == .allow)
    }

    @Test("A pause of wall time follows a step of the wall clock")
    func clockStep() {
        var rig = Rig.settled()
        rig.handle(.paused(Self.pause(until: rig.wall.advanced(by: .seconds(86_400)))))
        rig.stored(.done)
        rig.wall = rig.wall.advanced(by: .seconds(90_000))
        rig.handle(.clockChanged)
        #expect(rig.untilWake == .seconds(1))
        rig.wake()
        #expect(rig.engine.cycle != nil)
    }

    @Test("A pause during a cycle ends it at its next step: the answer under way is recorded, nothing more is claimed")
    func pauseWhilePushing() {
        let batch = Rig.batch(1...2)
        var rig = Rig.pushing(batch)
        rig.handle(.paused(Self.pause()))
        #expect(rig.effects.isEmpty)
        rig.answer(Rig.push(Rig.accepted(batch)))
        guard case .applyResults(let results, let next, _, _)? = rig.command else {
            Issue.record("the verdicts were lost")
            return
        }
        #expect(results.count == 2)
        #expect(next == nil)
        rig.stored(.resultsApplied(Rig.summary(done: 2), next: nil))
        #expect(rig.remembered?.pause == Self.pause())
        rig.stored(.done)
        #expect(rig.engine.cycle == nil)
        #expect(rig.outcome?.error == "paused")
        #expect(rig.engine.memory.failures == 0, "nothing failed")
        rig.handle(.resumed)
        rig.stored(.done)
        #expect(rig.asked == "loadInFlight", "what was left goes on at once")
    }

    @Test("A pause during a cycle sends no further page, settles nothing more and claims nothing", arguments: 0..<4)
    func pauseBetweenSteps(_ step: Int) {
        var rig = Rig()
        rig.start(maxSentSeq: 9)
        rig.wake()
        if step == 0 { rig.handle(.paused(Self.pause())) }
        rig.answer(Rig.hello())
        if step > 0 {
            if step == 1 { rig.handle(.paused(Self.pause())) }
            rig.stored(.batch(step == 1 ? Rig.batch(1...1) : nil, retryAt: nil))
        }
        if step > 1 {
            rig.stored(.streams([Rig.position(Rig.works)]))
            if step == 2 { rig.handle(.paused(Self.pause())) }
            rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2", hasMore: step == 2)]))
            if step == 3 { rig.handle(.paused(Self.pause())) }
            rig.stored(.pullApplied(PullSummary()))
        }
        #expect(rig.asked == "remember")
        rig.stored(.done)
        #expect(rig.engine.cycle == nil)
        // The watchdog of the cycle is cleared, and no other wake-up is planned.
        #expect(rig.sleeps)
    }

    @Test("A pause that comes while the cycle's memory is being written is written, too")
    func pauseWhileRemembering() {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([]))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.housekept(more: false))
        #expect(rig.asked == "remember")
        rig.handle(.paused(Self.pause()))
        #expect(rig.effects.isEmpty)
        rig.stored(.done)
        #expect(rig.remembered?.pause == Self.pause())
        rig.stored(.done)
        #expect(rig.asked == nil && rig.sleeps)
    }

    @Test("Pausing and resuming in one breath writes one thing after the other, and the last word stands")
    func quickChange() {
        var rig = Rig.settled()
        rig.handle(.paused(Self.pause()))
        #expect(rig.asked == "remember")
        rig.handle(.resumed)
        rig.handle(.paused(Self.pause(until: rig.wall)))
        rig.handle(.resumed)
        #expect(rig.effects.isEmpty, "one command at a time")
        rig.stored(.done)
        #expect(rig.remembered != nil)
        #expect(rig.remembered?.pause == nil)
        rig.stored(.done)
        #expect(rig.engine.cycle != nil)
    }

    @Test("A pause that could not be written holds all the same, and is written with the next change")
    func pauseNotWritten() {
        var rig = Rig.settled()
        rig.handle(.paused(Self.pause()))
        rig.stored(.failed("disk full"))
        #expect(rig.effects.isEmpty, "no hot loop over a full disk")
        rig.handle(.enqueued(.critical))
        rig.advance(.seconds(1_000))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        rig.handle(.paused(Self.pause()))
        #expect(rig.remembered?.pause == Self.pause())
    }

    @Test("Resuming what is not paused changes nothing")
    func resumeIdle() {
        var rig = Rig.settled()
        rig.handle(.resumed)
        #expect(rig.effects.isEmpty)
    }

    // MARK: Link

    @Test("A link that comes back is greeted within the spread, and its failures no longer hold anything back", arguments: 0..<10)
    func linkUp(_ seed: Int) throws {
        var rig = Rig.settled(seed: UInt64(seed))
        for _ in 0..<9 {
            rig.handle(.requested(SyncRequest(isForced: true)))
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.fail()
            rig.keepHouse()
        }
        #expect(rig.engine.memory.failures == 9)
        rig.handle(.link(up: false))
        #expect(rig.engine.reachability == .offline)
        rig.handle(.link(up: true))
        #expect(rig.engine.reachability == .connecting)
        #expect(rig.engine.memory.failures == 1)
        #expect(rig.engine.retryAt == nil)
        #expect(try #require(rig.untilWake) <= .seconds(5))
        let before = rig.instant
        rig.begin()
        #expect(before.duration(to: rig.instant) <= .seconds(5))
    }

    @Test("The wait that the hub asked for survives a change of the link")
    func retryAfterSurvivesLink() {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest()))
        rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
        rig.answer(Rig.problem(503, "overloaded", retryAfter: "600"))
        rig.keepHouse()
        rig.handle(.link(up: false))
        rig.handle(.link(up: true))
        rig.handle(.requested(SyncRequest(isForced: true)))
        #expect(rig.engine.cycle == nil)
        #expect(rig.engine.verdict(on: .pull, now: rig.wall) != .allow)
        rig.advance(.seconds(599))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
    }

    @Test("A refusal of the hub itself stays with another link")
    func authSurvivesLink() {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest()))
        rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
        rig.answer(Rig.problem(401, "auth"))
        rig.keepHouse()
        rig.handle(.link(up: false))
        rig.handle(.link(up: true))
        rig.advance(.seconds(40))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
    }

    @Test("A late answer over a lost link neither raises reachability nor begins anything")
    func answerAfterLinkDown() {
        let batch = Rig.batch(1...2)
        var rig = Rig.pushing(batch)
        rig.handle(.link(up: false))
        rig.answer(Rig.push(Rig.accepted(batch)))
        #expect(rig.engine.reachability == .offline)
        #expect(rig.asked == "applyResults", "what is known is recorded")
        rig.stored(.resultsApplied(Rig.summary(done: 2), next: nil))
        rig.keepHouse()
        #expect(rig.outcome?.error == "the link went down")
        rig.advance(.seconds(1_000))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        rig.handle(.link(up: true))
        #expect(rig.engine.cycle == nil, "not before its turn, which was drawn")
        rig.begin()
    }

    @Test("A call that fails because the link is gone leaves us offline, and the link's return is noticed")
    func failureAfterLinkDown() throws {
        var rig = Rig.pushing(Rig.batch(1...2))
        rig.handle(.link(up: false))
        rig.fail(.broken)
        rig.keepHouse()
        #expect(rig.engine.reachability == .offline)
        rig.advance(.seconds(500))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        rig.handle(.link(up: true))
        #expect(try #require(rig.untilWake) <= .seconds(5))
    }

    @Test("Critical work that came while there was no link goes out the moment there is one")
    func criticalFirst() {
        var rig = Rig.settled()
        rig.handle(.link(up: false))
        rig.handle(.enqueued(.critical))
        rig.handle(.enqueued(.normal))
        rig.advance(.seconds(100))
        rig.handle(.timer)
        rig.handle(.link(up: true))
        #expect(rig.engine.cycle != nil)
    }

    @Test("The same news about the link twice is no news")
    func sameLink() {
        var rig = Rig.settled()
        let planned = rig.wakeAt
        rig.handle(.link(up: true))
        #expect(rig.effects.isEmpty)
        #expect(rig.wakeAt == planned)
        rig.handle(.link(up: false))
        rig.handle(.link(up: false))
        #expect(rig.effects.isEmpty)
    }
}
