import SyncCore
import Testing

/// The pull that waits at the hub for news (PROTOCOL G5): when there is one, and what follows from each of its ends.
@Suite("Engine: waiting for news")
struct EngineNewsTests {
    typealias Rig = EngineRig

    private static let ethernet = Conditions(uplink: Uplink(name: "eth0"))

    private static var settings: SyncEngine.Settings {
        var settings = SyncEngine.Settings()
        settings.waitsForNews = true
        // Periodic pulls stay out of the way.
        settings.policy.pullInterval = .seconds(3_000)
        return settings
    }

    /// An engine after its first cycle, which asks the store for the cursors of a waiting pull.
    private static func settled(_ settings: SyncEngine.Settings = settings) -> Rig {
        var rig = Rig(settings: settings)
        rig.start(conditions: ethernet)
        rig.wake()
        rig.idleCycle()
        return rig
    }

    private static func waiting(_ settings: SyncEngine.Settings = settings) -> Rig {
        var rig = settled(settings)
        rig.beginWait()
        #expect(rig.waitingPull != nil)
        return rig
    }

    // MARK: When

    @Test("After a cycle without work a pull waits for 55 s, beside the cycles and their watchdog")
    func begins() throws {
        var rig = Self.waiting()
        let call = try #require(rig.waitingPull)
        #expect(call.kind == .pull && call.waitSeconds == 55 && call.timeLimit > .seconds(55))
        #expect(try PullMessages.readRequest(call.body).streams == [Rig.position(Rig.works)])
        #expect(rig.engine.isWaitingForNews && rig.underWay == nil && rig.engine.cycle == nil)
        rig.pass(.seconds(54))
        #expect(rig.engine.isWaitingForNews && rig.engine.watchdog.stalls == 0)
    }

    @Test("No pull waits unless the settings say so")
    func settings() {
        #expect(Self.settled(SyncEngine.Settings()).asked == nil)
    }

    private static func power(_ level: PowerLevel) -> Conditions {
        var conditions = ethernet
        conditions.power = level
        return conditions
    }

    private static var tightBudget: Conditions {
        var conditions = ethernet
        conditions.budgets = [Budget(limit: 1_000_000, used: 850_000)]
        return conditions
    }

    @Test(
        "Where links or power cost something no pull waits, and one that waits is given up",
        arguments: [
            Conditions(uplink: Uplink(name: "eth0", isMetered: true)), Conditions(uplink: Uplink(name: "eth0", isRoaming: true)),
            power(.saver), power(.low), tightBudget, .offline, Conditions(reachability: .captive, uplink: Uplink(name: "eth0")),
        ])
    func conditions(_ worse: Conditions) {
        var rig = Self.waiting()
        rig.handle(.conditions(worse))
        #expect(rig.waitingPull == nil && !rig.engine.isWaitingForNews)
        rig.pass(.seconds(20))
        #expect(rig.waitingPull == nil)
    }

    @Test("A pause ends the wait, and so do other settings, and a suspend")
    func interrupted() {
        for event in [SyncEvent.paused(.init(until: nil, reason: "", uid: 0)), .settings(Self.settings), .clockChanged] {
            var rig = Self.waiting()
            rig.handle(event)
            #expect(rig.waitingPull == nil, "\(event)")
        }
    }

    @Test("Streams that are listed, or are due for a comparison, need an ordinary cycle first")
    func listings() {
        var due = Rig.position(Rig.works)
        due.fullSync = .overdue
        for stream in [Rig.listing(Rig.works), Rig.position(Rig.works, nil), due] {
            var rig = Self.settled()
            rig.stored(.streams([stream]))
            #expect(rig.waitingPull == nil)
            rig.pass(.seconds(20))
            #expect(rig.waitingPull == nil && rig.asked == nil)
        }
    }

    // MARK: Answers

    @Test("News begin a cycle at once, whose pull has this answer already; then the next pull waits")
    func news() throws {
        var rig = Self.waiting()
        rig.waited(Rig.pull([Rig.page(Rig.works, cursor: "c2", records: [Rig.record("w-1", version: 11)])], head: 11), after: .seconds(7))
        #expect(rig.engine.cycle != nil && rig.asked == "applyPull")
        guard case .applyPull(let applied)? = rig.command else { return }
        #expect(applied.pages.map(\.cursor) == ["c2"])
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "claim")
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        #expect(rig.outcome?.error == nil && rig.engine.isCaughtUp)
        rig.beginWait("c2")
        #expect(rig.waitingPull?.waitSeconds == 55)
    }

    @Test("The answer without news after the whole wait counts as a pull, measures no link and no clock, and the next pull waits")
    func noNews() {
        var rig = Self.waiting()
        let pace = rig.engine.pace
        rig.waited(Rig.pull(), after: .seconds(55))
        #expect(rig.asked == "applyPull")
        rig.idleEnd()
        #expect(rig.outcome?.error == nil && rig.engine.pace == pace)
        rig.beginWait()
        #expect(rig.waitingPull?.waitSeconds == 55)
    }

    @Test("News in a row are at least half a second apart")
    func spacing() {
        var rig = Self.waiting()
        rig.waited(Rig.pull([Rig.page(Rig.works, cursor: "c2")], head: 11), after: .milliseconds(100))
        rig.idleEnd()
        #expect(rig.asked == nil)
        rig.pass(.milliseconds(400))
        #expect(rig.asked == "loadStreams")
    }

    @Test(
        "After an early answer without news, as a hub gives it that stops, the next pull waits soon; after a second one, an interval later")
    func early() {
        var rig = Self.waiting()
        rig.waited(Rig.pull(), after: .seconds(3))
        rig.idleEnd()
        rig.pass(.seconds(31))
        rig.beginWait()
        #expect(rig.waitingPull != nil)
        rig.waited(Rig.pull(), after: .seconds(3))
        rig.idleEnd()
        rig.pass(.seconds(1_400))
        #expect(rig.waitingPull == nil && rig.asked == nil)
    }

    @Test("A hub that stops, is away for a while and comes back has its waiting pulls again, without an interval between them")
    func restarted() {
        var rig = Self.waiting()
        rig.waited(Rig.pull(), after: .seconds(3))
        rig.idleEnd()
        rig.pass(.seconds(31))
        rig.beginWait()
        rig.cutWait(after: .milliseconds(5))
        rig.pass(.seconds(31))
        #expect(rig.engine.cycle != nil, "An ordinary cycle finds out whether the hub is there.")
        rig.idleCycle()
        rig.pass(.seconds(31))
        rig.beginWait()
        #expect(rig.waitingPull != nil)
    }

    @Test("A hub that answers without waiting is not asked to wait for an hour, and its answer counts")
    func notApplied() {
        var rig = Self.waiting()
        rig.waited(Rig.pull(), after: .milliseconds(40), isApplied: false)
        #expect(rig.asked == "applyPull")
        rig.idleEnd()
        rig.pass(.seconds(60))
        #expect(rig.asked == nil)
        for _ in 0..<2 {
            rig.advance(.seconds(1_750))
            rig.handle(.timer)
            if rig.engine.cycle != nil { rig.idleCycle() }
        }
        rig.advance(.seconds(60))
        rig.handle(.timer)
        if rig.engine.cycle != nil { rig.idleCycle() }
        #expect(rig.asked == "loadStreams")
    }

    @Test("A refusal of the hub begins an ordinary cycle, which hears it again and acts on it")
    func refused() {
        var rig = Self.waiting()
        rig.waited(Rig.problem(401, "unauthorized"), after: .seconds(9), isApplied: false)
        #expect(rig.engine.cycle == nil && rig.engine.memory.failures == 0 && rig.engine.reachability == .online)
        rig.advance(.seconds(31))
        rig.handle(.timer)
        #expect(rig.engine.cycle != nil)
    }

    @Test("The answer to a pull that was given up is dropped")
    func late() throws {
        var rig = Self.waiting()
        let call = try #require(rig.waitingPull)
        rig.handle(.conditions(Self.power(.saver)))
        rig.handle(.waited(call.id, .success(Rig.pull()), sent: rig.instant))
        #expect(rig.engine.cycle == nil && rig.asked == nil)
    }

    // MARK: Cuts

    @Test("A pull that is cut off is no failure: no cycle, no backoff, no other state; the next one waits half as long")
    func cut() {
        var rig = Self.waiting()
        for seconds in [27, 13, 10] {
            rig.cutWait(after: .seconds(30))
            #expect(rig.engine.memory.failures == 0 && rig.engine.reachability == .online && rig.engine.breaker.state == .closed)
            #expect(rig.engine.cycle == nil && rig.engine.retryAt == nil)
            rig.pass(.seconds(31))
            rig.beginWait()
            #expect(rig.waitingPull?.waitSeconds == seconds)
        }
    }

    @Test("A proxy's error after half a minute is such a cut, too")
    func proxyError() {
        var rig = Self.waiting()
        rig.waited(HTTPResponse(status: 504, headers: ["Content-Type": "text/html"], body: []), after: .seconds(30), isApplied: false)
        #expect(rig.engine.memory.failures == 0 && rig.engine.reachability == .online && rig.engine.cycle == nil)
        rig.pass(.seconds(31))
        rig.beginWait()
        #expect(rig.waitingPull?.waitSeconds == 27)
    }

    @Test("Pulls that end before they have waited are given up after three, although the hub can be reached; another link begins anew")
    func givenUp() {
        var rig = Self.waiting()
        for round in 1...3 {
            rig.cutWait(after: .seconds(5))
            #expect(rig.engine.memory.failures == 0)
            // An ordinary cycle finds out whether the hub can be reached.
            rig.advance(.seconds(31))
            rig.handle(.timer)
            #expect(rig.engine.cycle != nil)
            rig.idleCycle()
            if round < 3 { rig.beginWait() }
        }
        #expect(rig.asked == nil)
        rig.pass(.seconds(600))
        #expect(rig.waitingPull == nil && rig.asked == nil)
        rig.handle(.conditions(Conditions(uplink: Uplink(name: "wlan0"))))
        rig.begin()
        rig.idleCycle()
        rig.beginWait()
        #expect(rig.waitingPull?.waitSeconds == 55)
    }

    @Test("A pull that this device has ended itself says nothing about the way: the next one waits as long")
    func cancelled() {
        var rig = Self.waiting()
        rig.cutWait(.cancelled, after: .seconds(4))
        #expect(rig.engine.cycle == nil && rig.engine.memory.failures == 0)
        rig.pass(.seconds(13))
        rig.beginWait()
        #expect(rig.waitingPull?.waitSeconds == 55)
    }

    @Test("A pause that comes while the cursors are read is saved after that")
    func pausedMeanwhile() {
        var rig = Self.settled()
        #expect(rig.asked == "loadStreams")
        rig.handle(.paused(.init(until: nil, reason: "", uid: 0)))
        rig.stored(.streams([Rig.position(Rig.works)]))
        #expect(rig.waitingPull == nil && rig.remembered?.pause != nil)
    }

    @Test("An answer that never comes is given up, and is no failure either")
    func lost() {
        var rig = Self.waiting()
        rig.advance(.seconds(1_200))
        rig.handle(.timer)
        #expect(rig.waitingPull == nil && rig.engine.memory.failures == 0 && rig.engine.watchdog.stalls == 0)
    }

    // MARK: Beside cycles

    @Test("A change is pushed while the pull waits; news that come meanwhile are asked for again after it")
    func pushing() {
        var rig = Self.waiting()
        rig.handle(.enqueued(.normal))
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "claim" && rig.waitingPull != nil, "the waiting pull reads for this cycle")
        let batch = Rig.batch(1...1)
        rig.stored(.batch(batch, retryAt: nil))
        #expect(rig.asked == "push")
        rig.waited(Rig.pull([Rig.page(Rig.works, cursor: "c2")], head: 11), after: .seconds(1))
        #expect(rig.asked == "push")
        rig.answer(Rig.push(Rig.accepted(batch)))
        rig.stored(.resultsApplied(Rig.summary(), next: nil))
        rig.keepHouse()
        rig.begin()
        #expect(rig.engine.cycle != nil)
    }

    @Test("A cycle that reads ends the wait, because its cursors are about to be old")
    func reading() {
        var rig = Self.waiting()
        rig.handle(.requested(SyncRequest()))
        #expect(rig.engine.cycle != nil && rig.waitingPull != nil)
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadStreams" && rig.waitingPull == nil)
    }

    // MARK: An answer on its way

    private static let news = EngineRig.pull(
        [EngineRig.page(EngineRig.works, cursor: "c2", records: [EngineRig.record("w-1", version: 11)])], head: 11)

    /// An engine to which the answer of the waiting pull is on its way.
    private static func arriving() -> Rig {
        var rig = waiting()
        rig.newsBegin()
        return rig
    }

    /// An engine that pushes one change while a pull waits.
    private static func pushing(because event: SyncEvent = .enqueued(.normal)) -> (rig: Rig, batch: Batch) {
        var rig = waiting()
        rig.handle(event)
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        let batch = Rig.batch(1...1)
        rig.stored(.batch(batch, retryAt: nil))
        return (rig, batch)
    }

    @Test(
        "A sync waits for the answer that is on its way, counts it as its own, and then reads what came after it",
        arguments: [SyncRequest(), SyncRequest(isForced: true), SyncRequest(scope: .pull)])
    func syncWhileArriving(_ request: SyncRequest) throws {
        var rig = Self.arriving()
        rig.handle(.requested(request))
        #expect(rig.asked == nil && rig.waitingPull != nil && rig.engine.cycle == nil)
        #expect(try #require(rig.wakeAt) > rig.instant, "the engine would be woken all the time")
        rig.pass(.seconds(10))
        #expect(rig.asked == nil && rig.waitingPull != nil)
        rig.waited(Self.news, after: .seconds(1))
        #expect(rig.asked == "applyPull")
        var summary = PullSummary()
        summary.upserts = 1
        rig.stored(.pullApplied(summary))
        if request.scope != .pull {
            #expect(rig.asked == "claim")
            rig.stored(.batch(nil, retryAt: nil))
        }
        rig.readOn("c2")
        if request.scope != .pull { rig.stored(.batch(nil, retryAt: nil)) }
        rig.keepHouse()
        #expect(rig.outcome?.request == request && rig.outcome?.error == nil && rig.outcome?.pulled == 1)
        #expect(rig.engine.isCaughtUp)
    }

    @Test("Where the push after the answer takes all of the cycle's time, the next cycle reads what the sync asked for")
    func longPushAfterAnswer() {
        var rig = Self.arriving()
        rig.handle(.requested(SyncRequest()))
        rig.waited(Self.news, after: .seconds(1))
        rig.stored(.pullApplied(PullSummary()))
        let batch = Rig.batch(1...1)
        rig.stored(.batch(batch, retryAt: nil))
        rig.answer(Rig.push(Rig.accepted(batch, from: 12), head: 12), after: .seconds(26))
        rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil))
        if rig.asked == "housekeep" { rig.stored(.housekept(more: false)) }
        if rig.asked == "remember" { rig.stored(.done) }
        #expect(rig.outcome?.interruption == .readOwed && rig.engine.cycle != nil)
        for _ in 0..<2 where rig.asked == "loadInFlight" { rig.stored(.batch(nil, retryAt: nil)) }
        #expect(rig.asked == "loadStreams")
    }

    @Test("A sync that only sends does not wait for the answer that is on its way, nor does a change of an app")
    func pushWhileArriving() {
        for event in [SyncEvent.requested(SyncRequest(scope: .push)), .enqueued(.critical)] {
            var rig = Self.arriving()
            rig.handle(event)
            rig.begin()
            rig.stored(.batch(nil, retryAt: nil))
            #expect(rig.asked == "claim" && rig.waitingPull != nil, "\(event)")
        }
    }

    @Test("A sync begun before the first byte of the answer leaves its read to the cycle of that answer")
    func answerBeginsInCycle() {
        var rig = Self.waiting()
        rig.handle(.requested(SyncRequest()))
        #expect(rig.asked == "loadInFlight")
        rig.newsBegin()
        for _ in 0..<2 where rig.asked == "loadInFlight" { rig.stored(.batch(nil, retryAt: nil)) }
        #expect(rig.asked == "claim" && rig.waitingPull != nil)
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        #expect(rig.outcome?.interruption == .newsArriving && rig.outcome?.error == nil)
        #expect(rig.asked == nil && rig.waitingPull != nil)
        rig.waited(Self.news, after: .seconds(12))
        rig.stored(.pullApplied(PullSummary()))
        rig.stored(.batch(nil, retryAt: nil))
        rig.readOn("c2")
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        #expect(rig.outcome?.request == SyncRequest() && rig.outcome?.interruption == nil)
    }

    @Test(
        "A pause, and conditions under which no pull would wait, let an answer arrive that is on its way; the loss of the link ends it",
        arguments: [
            SyncEvent.paused(.init(until: nil, reason: "", uid: 0)), .conditions(power(.saver)), .conditions(tightBudget),
            .conditions(Conditions(uplink: Uplink(name: "eth0", isMetered: true))),
        ])
    func worseWhileArriving(_ event: SyncEvent) {
        var rig = Self.arriving()
        rig.handle(event)
        if rig.asked == "remember" { rig.stored(.done) }
        #expect(rig.waitingPull != nil)
        rig.waited(Self.news, after: .seconds(12))
        #expect(rig.asked == "applyPull")
        for conditions in [Conditions.offline, Conditions(uplink: Uplink(name: "wlan0"))] {
            var other = Self.arriving()
            other.handle(.conditions(conditions))
            #expect(other.waitingPull == nil)
        }
    }

    @Test("An answer that was overtaken by that of a push is used, and is no hub that went back")
    func overtaken() {
        var (rig, batch) = Self.pushing()
        rig.newsBegin()
        rig.answer(Rig.push(Rig.accepted(batch, from: 12), head: 12))
        rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil))
        if rig.asked == "claim" { rig.stored(.batch(nil, retryAt: nil)) }
        rig.keepHouse()
        rig.waited(Self.news, after: .seconds(12))
        #expect(rig.asked == "applyPull")
        #expect(!rig.reports.contains { if case .hubWentBack = $0 { true } else { false } })
    }

    @Test("A conflict beside an answer that is on its way is read with it, and then the changes that it held back are pushed")
    func conflictWhileArriving() {
        for request in [nil, SyncRequest(scope: .push)] {
            var (rig, batch) = Self.pushing(because: request.map { .requested($0) } ?? .enqueued(.normal))
            rig.newsBegin()
            rig.answer(Rig.push([PushResult(key: batch.mutations[0].key, verdict: .conflict(fields: ["a"], current: .absent))]))
            rig.stored(.resultsApplied(Rig.summary(conflicted: [Rig.works]), next: nil))
            #expect(rig.asked == "claim")
            rig.stored(.batch(nil, retryAt: nil))
            rig.keepHouse()
            #expect(rig.outcome?.interruption == .newsArriving)
            rig.waited(Self.news, after: .seconds(12))
            rig.stored(.pullApplied(PullSummary()))
            #expect(rig.asked == "claim")
            rig.stored(.batch(nil, retryAt: nil))
            rig.readOn("c2")
            #expect(rig.asked == "claim")
        }
    }

    @Test("An answer that comes after that to a push, and is newer, tells how far the hub is")
    func overtakenButNewer() {
        var (rig, batch) = Self.pushing()
        rig.answer(Rig.push(Rig.accepted(batch), head: 11))
        rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil))
        rig.keepHouse()
        rig.waited(Rig.pull([Rig.page(Rig.works, cursor: "c2", records: [Rig.record("w-2", version: 12)])], head: 12), after: .seconds(30))
        rig.idleEnd()
        #expect(rig.engine.isCaughtUp)
    }

    @Test(
        "An answer on its way is given up after a push without a verdict: it may contain what was pushed, and the hub may want no request",
        arguments: [true, false])
    func unsettled(_ isBroken: Bool) {
        var (rig, _) = Self.pushing()
        #expect(rig.asked == "push")
        rig.newsBegin()
        if isBroken { rig.fail(.broken) } else { rig.answer(Rig.problem(503, "overloaded", retryAfter: "600")) }
        if rig.asked == "remember" { rig.stored(.done) }
        #expect(rig.engine.cycle == nil && rig.waitingPull == nil && !rig.engine.isWaitingForNews)
        if isBroken {
            rig.begin()
            #expect(rig.asked == "loadInFlight")
        } else {
            rig.pass(.seconds(500))
            #expect(rig.asked == nil)
        }
    }

    @Test("After a push that has used the last request of this device, an answer on its way begins no cycle that sends more")
    func noneLeft() {
        var (rig, batch) = Self.pushing()
        rig.newsBegin()
        var response = Rig.push(Rig.accepted(batch))
        response.headers["RateLimit"] = "r=0;t=40"
        rig.answer(response)
        rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil))
        rig.keepHouse()
        #expect(rig.waitingPull == nil)
        rig.pass(.seconds(30))
        #expect(rig.asked == nil)
    }

    @Test("When the answer breaks off, the sync that awaits it begins")
    func arrivalBreaks() {
        var rig = Self.arriving()
        rig.handle(.requested(SyncRequest()))
        rig.cutWait(after: .seconds(20))
        #expect(rig.engine.cycle != nil && rig.engine.memory.failures == 0)
    }

    @Test("An answer that stops in its middle delays a sync no longer than its time limit")
    func arrivalStops() throws {
        var rig = Self.arriving()
        let limit = try #require(rig.waitingPull).timeLimit
        rig.handle(.requested(SyncRequest()))
        rig.advance(limit + .seconds(31))
        rig.handle(.timer)
        #expect(rig.waitingPull == nil && rig.engine.cycle != nil && rig.engine.watchdog.stalls == 0)
    }

    @Test("The first byte of an answer that was given up says nothing about the next one")
    func lateBeginning() throws {
        var rig = Self.waiting()
        let old = try #require(rig.waitingPull)
        rig.cutWait(after: .seconds(30))
        rig.pass(.seconds(31))
        rig.beginWait()
        rig.handle(.newsBegan(old.id))
        rig.handle(.requested(SyncRequest()))
        #expect(rig.engine.cycle != nil)
    }

    @Test("After a pause a cycle reads at once, so that a sync that follows finds a read under way and no pull that it would end")
    func resumed() {
        var rig = Self.waiting()
        rig.handle(.paused(.init(until: nil, reason: "", uid: 0)))
        rig.stored(.done)
        rig.handle(.resumed)
        if rig.asked == "remember" { rig.stored(.done) }
        for _ in 0..<2 where rig.asked == "loadInFlight" { rig.stored(.batch(nil, retryAt: nil)) }
        rig.stored(.streams([Rig.position(Rig.works)]))
        #expect(rig.asked == "pull")
        for event in [SyncEvent.requested(SyncRequest()), .resumed] {
            rig.handle(event)
            #expect(rig.asked == "pull", "\(event)")
        }
    }

    @Test("While a pull waits no periodic pull is due")
    func periodic() throws {
        var settings = Self.settings
        settings.policy.pullInterval = .seconds(20)
        var rig = Self.waiting(settings)
        rig.pass(.seconds(50))
        #expect(rig.engine.cycle == nil && rig.engine.isWaitingForNews)
        #expect(rig.engine.nextCycleAt(at: rig.moment) == nil)
    }
}

extension EngineRig {
    /// The first bytes of the answer to the waiting pull are here.
    fileprivate mutating func newsBegin(_ place: SourceLocation = #_sourceLocation) {
        guard let call = waitingPull else {
            Issue.record("no pull waits", sourceLocation: place)
            return
        }
        handle(.newsBegan(call.id), place)
    }

    /// One more read of the cycle, from this cursor on, which finds nothing.
    fileprivate mutating func readOn(_ cursor: String, _ place: SourceLocation = #_sourceLocation) {
        for _ in 0..<2 where asked == "loadInFlight" { stored(.batch(nil, retryAt: nil), place) }
        #expect(asked == "loadStreams", sourceLocation: place)
        stored(.streams([Self.position(Self.works, cursor)]), place)
        #expect(asked == "pull", sourceLocation: place)
        answer(Self.pull(head: 11), place)
        #expect(asked == "applyPull", sourceLocation: place)
        stored(.pullApplied(PullSummary()), place)
    }

    /// The store tells the cursors of the waiting pull.
    fileprivate mutating func beginWait(_ cursor: String = "c1", _ place: SourceLocation = #_sourceLocation) {
        #expect(asked == "loadStreams", "no wait begins", sourceLocation: place)
        if asked == "loadStreams" { stored(.streams([Self.position(Self.works, cursor)]), place) }
    }

    fileprivate mutating func waited(
        _ response: HTTPResponse, after: Duration, isApplied: Bool = true, _ place: SourceLocation = #_sourceLocation
    ) {
        guard let call = waitingPull else {
            Issue.record("no pull waits", sourceLocation: place)
            return
        }
        var response = response
        if isApplied { response.headers["Preference-Applied"] = "wait=\(call.waitSeconds ?? 0)" }
        let sent = instant
        advance(after)
        handle(.waited(call.id, .success(response), sent: sent), place)
    }

    fileprivate mutating func cutWait(
        _ code: TransportError.Code = .broken, after: Duration, _ place: SourceLocation = #_sourceLocation
    ) {
        guard let call = waitingPull else {
            Issue.record("no pull waits", sourceLocation: place)
            return
        }
        let sent = instant
        advance(after)
        let error = TransportError(code, doing: "wait for the answer", detail: "closed", traffic: Traffic())
        handle(.waited(call.id, .failure(error), sent: sent), place)
    }

    /// Answers all calls from the pages of the waiting pull to the end of the cycle.
    fileprivate mutating func idleEnd(_ place: SourceLocation = #_sourceLocation) {
        if asked == "applyPull" { stored(.pullApplied(PullSummary()), place) }
        #expect(asked == "claim", sourceLocation: place)
        stored(.batch(nil, retryAt: nil), place)
        keepHouse(place)
    }
}
