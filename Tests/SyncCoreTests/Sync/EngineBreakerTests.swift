import SyncCore
import Testing

/// The engine with a hub that is away for long (PROTOCOL G3), and with one that has few requests left for this device (G2).
@Suite("Engine: breaker and rate")
struct EngineBreakerTests {
    typealias Rig = EngineRig

    /// Fails whatever cycle comes until the breaker opens.
    private static func open(_ conditions: Conditions = EnginePolicyTests.ethernet) -> Rig {
        var rig = Rig.settled()
        rig.handle(.conditions(conditions))
        rig.handle(.enqueued(.critical))
        for _ in 0..<100 where rig.engine.breaker.state == .closed {
            rig.begin()
            rig.stored(.batch(Rig.batch(1...1, .critical), retryAt: nil))
            rig.fail()
            rig.keepHouse()
        }
        #expect(rig.engine.breaker.state == .open)
        return rig
    }

    private static func opened(_ reports: [SyncReport]) -> Bool {
        reports.contains(.breaker(from: .closed, to: .open))
    }

    @Test("After ten minutes of silence only probes go, and status says so")
    func opens() throws {
        var rig = Self.open()
        #expect(Self.opened(rig.reports))
        #expect(rig.engine.memory.isBreakerOpen)
        guard case .defer(let why) = rig.engine.verdict(on: .critical, now: rig.wall) else {
            Issue.record("the verdict is to allow")
            return
        }
        #expect(why.reason == .breaker || why.reason == .degraded)
        for _ in 0..<20 {
            rig.handle(.enqueued(.critical))
            rig.handle(.requested(SyncRequest()))
            #expect(rig.engine.cycle == nil)
            let before = rig.instant
            for _ in 0..<4 where rig.probe == nil { rig.wake() }
            let probe = try #require(rig.probe)
            #expect(before.duration(to: rig.instant) <= .seconds(300))
            rig.handle(.probed(probe, isGood: false))
        }
    }

    @Test("A good probe is followed by one push of at most five mutations, and that closes it")
    func closes() throws {
        var rig = Self.open()
        for _ in 0..<4 where rig.probe == nil { rig.wake() }
        rig.handle(.probed(try #require(rig.probe), isGood: true))
        #expect(rig.engine.breaker.state == .halfOpen)
        guard case .loadInFlight(let limits)? = rig.command else {
            Issue.record("no cycle began")
            return
        }
        #expect(limits.mutations == 5)
        rig.stored(.batch(nil, retryAt: nil))
        guard case .claim(let claim)? = rig.command else {
            Issue.record("the push comes first")
            return
        }
        #expect(claim.mutations == 5)
        rig.stored(.batch(Rig.batch(2...6, .critical), retryAt: nil))
        rig.answer(Rig.push(Rig.accepted(Rig.batch(2...6, .critical))))
        #expect(rig.engine.breaker.state == .closed)
        guard case .applyResults(_, nil, _, _)? = rig.command else {
            Issue.record("a second batch is claimed")
            return
        }
        rig.stored(.resultsApplied(Rig.summary(done: 5), next: nil))
        rig.keepHouse()
        #expect(!rig.engine.memory.isBreakerOpen)
        let closed = rig.instant
        rig.begin()
        #expect(closed.duration(to: rig.instant) <= .seconds(30), "the rest follows within the hub's spread")
    }

    @Test("A push that fails after a good probe opens it again")
    func opensAgain() throws {
        var rig = Self.open()
        for _ in 0..<4 where rig.probe == nil { rig.wake() }
        rig.handle(.probed(try #require(rig.probe), isGood: true))
        rig.stored(.batch(Rig.batch(1...1, .critical), retryAt: nil))
        rig.answer(Rig.problem(503, "overloaded"))
        rig.keepHouse()
        #expect(rig.engine.breaker.state == .open)
        #expect(rig.engine.cycle == nil)
    }

    @Test("With nothing to push a pull is the trial")
    func pullAsTrial() throws {
        var rig = Self.open()
        for _ in 0..<4 where rig.probe == nil { rig.wake() }
        rig.handle(.probed(try #require(rig.probe), isGood: true))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Rig.pull())
        #expect(rig.engine.breaker.state == .closed)
    }

    @Test("A probe without an answer, a late one and a foreign one change nothing but the time of the next")
    func oddProbes() throws {
        var rig = Self.open()
        for _ in 0..<4 where rig.probe == nil { rig.wake() }
        let first = try #require(rig.probe)
        rig.handle(.probed(first &+ 100, isGood: true))
        #expect(rig.engine.breaker.state == .open)
        rig.advance(.seconds(61))
        rig.handle(.timer)
        rig.handle(.probed(first, isGood: true))
        #expect(rig.engine.breaker.state == .open)
        #expect(rig.engine.cycle == nil)
        #expect(rig.wakeAt != nil)
    }

    @Test("A forced request is answered by a probe at once")
    func forced() {
        var rig = Self.open()
        #expect(rig.probe == nil)
        rig.handle(.requested(SyncRequest(isForced: true)))
        #expect(rig.probe != nil)
        #expect(rig.engine.cycle == nil)
    }

    @Test("An open breaker survives a restart; its first probe comes with the first contact")
    func restart() {
        let before = Self.open()
        var rig = Rig()
        rig.start(memory: before.engine.memory)
        for _ in 0..<4 where rig.probe == nil { rig.wake() }
        #expect(rig.engine.cycle == nil)
        #expect(rig.engine.breaker.state == .open)
        #expect(Instant(nanoseconds: 1_000_000_000_000).duration(to: rig.instant) <= .seconds(5))
    }

    @Test("No probe is made in a pause, without a link or on an empty battery")
    func noProbes() {
        for event in [
            SyncEvent.paused(EngineMemory.Pause(until: nil, reason: "", uid: 0)), .conditions(.offline),
            .conditions(EnginePolicyTests.battery(.exhausted)),
        ] {
            var rig = Self.open()
            rig.handle(event)
            if rig.asked == "remember" { rig.stored(.done) }
            for _ in 0..<5 {
                rig.advance(.seconds(1_000))
                rig.handle(.timer)
            }
            #expect(rig.probe == nil)
        }
    }

    @Test("A new link is a new chance: what was silent was the old one")
    func newLink() {
        var rig = Self.open()
        rig.handle(.conditions(EnginePolicyTests.metered))
        #expect(rig.engine.breaker.state == .closed)
        rig.begin()
    }

    @Test("Refusals of credentials and of requests never open it", arguments: [401, 403, 404, 429, 413])
    func refusals(_ status: Int) {
        var rig = Rig.settled()
        for _ in 0..<30 {
            rig.handle(.requested(SyncRequest(isForced: true)))
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.answer(Rig.problem(status, "refused"))
            if rig.asked == "applyResults" { rig.stored(.resultsApplied(Rig.summary(rejected: 1), next: nil)) }
            if rig.asked == "loadInFlight" { rig.stored(.batch(nil, retryAt: nil)) }
            if rig.asked == "loadStreams" { rig.stored(.streams([])) }
            if rig.asked == "claim" { rig.stored(.batch(nil, retryAt: nil)) }
            rig.keepHouse()
            // Not even force gets in before the longest wait after refused credentials is over.
            rig.advance(.seconds(901))
        }
        #expect(rig.engine.breaker.state == .closed)
        #expect(!Self.opened(rig.reports))
    }

    // MARK: RateLimit

    private static func limited(_ batch: Batch, _ field: String) -> HTTPResponse {
        var response = Rig.push(Rig.accepted(batch))
        response.headers["RateLimit"] = field
        return response
    }

    @Test("No requests left counts as a Retry-After of that long, if there is none")
    func rateAsRetryAfter() {
        for (retryAfter, expected) in [(nil, Duration.seconds(30) ... .seconds(36)), ("5", .seconds(5) ... .seconds(6))] {
            var rig = Rig.pushing(Rig.batch(1...1))
            var response = Rig.problem(429, "overloaded", retryAfter: retryAfter)
            response.headers["RateLimit"] = #""default";r=0;t=30"#
            rig.answer(response)
            rig.keepHouse()
            let before = rig.instant
            rig.handle(.requested(SyncRequest(isForced: true)))
            rig.begin()
            #expect(expected.contains(before.duration(to: rig.instant)))
        }
    }

    @Test("A good answer that leaves no requests is the last of its cycle, and the silence is kept over a restart")
    func noneLeft() {
        let batch = Rig.batch(1...2)
        var rig = Rig.pushing(batch)
        rig.answer(Self.limited(batch, "r=0;t=40"))
        rig.stored(.resultsApplied(Rig.summary(done: 2), next: nil))
        #expect(rig.remembered?.notBefore == rig.wall.advanced(by: .seconds(40)))
        rig.keepHouse()
        #expect(rig.outcome?.error == nil)
        let before = rig.instant
        rig.handle(.requested(SyncRequest(isForced: true)))
        #expect(rig.engine.cycle == nil)
        rig.begin()
        #expect(before.duration(to: rig.instant) == .seconds(40))
    }

    @Test("Few requests left are spread over the time that they must last for")
    func fewLeft() {
        let batch = Rig.batch(1...2)
        var rig = Rig.pushing(batch)
        rig.answer(Self.limited(batch, "r=4;t=20"))
        guard case .applyResults(_, nil, _, _)? = rig.command else {
            Issue.record("the next batch is claimed at once")
            return
        }
        rig.stored(.resultsApplied(Rig.summary(done: 2), next: nil))
        rig.keepHouse()
        let before = rig.instant
        rig.begin()
        #expect(before.duration(to: rig.instant) == .seconds(4))
    }

    @Test("Where the pull has used the last request, the push is next, but a request for a pull alone pulls")
    func pullAlone() {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest()))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        var response = Rig.pull()
        response.headers["RateLimit"] = "r=0;t=60"
        rig.answer(response)
        rig.stored(.pullApplied(PullSummary()))
        rig.keepHouse()
        rig.handle(.requested(SyncRequest(scope: .pull)))
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadStreams")
    }

    @Test("A hub that allows one request a minute gets pulls and pushes in turn")
    func inTurn() {
        var rig = Rig.settled()
        var asked: [String] = []
        for _ in 0..<6 {
            rig.handle(.requested(SyncRequest()))
            if rig.engine.cycle == nil { rig.begin() }
            rig.stored(.batch(nil, retryAt: nil))
            if rig.asked == "loadStreams" { rig.stored(.streams([Rig.position(Rig.works)])) }
            if rig.asked == "claim" { rig.stored(.batch(Rig.batch(1...1), retryAt: nil)) }
            asked.append(rig.asked ?? "nothing")
            var response = rig.asked == "pull" ? Rig.pull() : Rig.push(Rig.accepted(Rig.batch(1...1)))
            response.headers["RateLimit"] = "r=0;t=60"
            rig.answer(response)
            if rig.asked == "applyPull" { rig.stored(.pullApplied(PullSummary())) }
            if rig.asked == "applyResults" { rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil)) }
            rig.keepHouse()
        }
        #expect(asked == ["pull", "push", "pull", "push", "pull", "push"])
    }
}

extension EngineRig {
    static func batch(_ seqs: ClosedRange<Int64>, _ priority: Priority) -> Batch {
        var batch = batch(seqs)
        for index in batch.mutations.indices { batch.mutations[index].priority = priority }
        return batch
    }
}
