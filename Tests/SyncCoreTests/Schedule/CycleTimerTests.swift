import SyncCore
import Testing

@Suite("Cycle timer")
struct CycleTimerTests {
    private static func at(_ seconds: Double) -> Instant {
        Instant(nanoseconds: Int64(seconds * 1_000_000_000))
    }

    private var timer = CycleTimer()

    private mutating func trigger(_ trigger: CycleTimer.Trigger, at seconds: Double) {
        timer.trigger(trigger, now: Self.at(seconds))
    }

    @Test("Without a trigger nothing is planned")
    func nothing() {
        #expect(timer.dueAt == nil)
        #expect(!timer.isDue(now: Self.at(1_000_000)))
    }

    @Test("A critical mutation waits 0.2 s, a normal one 2 s, a bulk one 60 s")
    func delays() {
        for (priority, due) in [(Priority.critical, 100.2), (.normal, 102), (.bulk, 160)] {
            var timer = CycleTimer()
            timer.trigger(.enqueued(priority), now: Self.at(100))
            #expect(timer.dueAt == Self.at(due))
            #expect(!timer.isDue(now: Self.at(due - 0.001)))
            #expect(timer.isDue(now: Self.at(due)))
        }
    }

    @Test("Normal mutations that keep coming gather, for 10 s at most")
    mutating func debounce() {
        trigger(.enqueued(.normal), at: 0)
        trigger(.enqueued(.normal), at: 1.5)
        #expect(timer.dueAt == Self.at(3.5))
        for seconds in stride(from: 2.0, to: 30, by: 1) { trigger(.enqueued(.normal), at: seconds) }
        #expect(timer.dueAt == Self.at(10))
    }

    @Test("Further critical and bulk mutations do not put off the first")
    mutating func firstCounts() {
        trigger(.enqueued(.critical), at: 0)
        trigger(.enqueued(.critical), at: 0.15)
        #expect(timer.dueAt == Self.at(0.2))
        timer.began(now: Self.at(0.2))
        trigger(.enqueued(.bulk), at: 10)
        trigger(.enqueued(.bulk), at: 50)
        #expect(timer.dueAt == Self.at(70))
    }

    @Test("The earliest trigger decides")
    mutating func earliest() {
        trigger(.pullDue, at: 0)
        trigger(.again(at: Self.at(30)), at: 0)
        trigger(.due(at: Self.at(25)), at: 0)
        #expect(timer.dueAt == Self.at(25))
        trigger(.again(at: Self.at(20)), at: 1)
        #expect(timer.dueAt == Self.at(20))
        trigger(.enqueued(.normal), at: 10)
        #expect(timer.dueAt == Self.at(12))
    }

    @Test("A cycle serves every trigger that there is")
    mutating func served() {
        for priority in Priority.allCases { trigger(.enqueued(priority), at: 0) }
        trigger(.pullDue, at: 0)
        trigger(.again(at: Self.at(5)), at: 0)
        trigger(.spread(until: Self.at(5)), at: 0)
        trigger(.requested(isForced: false), at: 0)
        trigger(.requested(isForced: true), at: 0)
        timer.began(now: Self.at(5))
        #expect(timer.dueAt == nil)
    }

    @Test("A cycle does not serve a mutation that may only be tried again later")
    mutating func keepsWhatIsDueLater() {
        trigger(.due(at: Self.at(20)), at: 0)
        trigger(.due(at: Self.at(30)), at: 0)
        timer.began(now: Self.at(2))
        #expect(timer.dueAt == Self.at(20))
        timer.began(now: Self.at(20))
        #expect(timer.dueAt == nil)
    }

    @Test("The store's next due time replaces the known one")
    mutating func storeKnows() {
        trigger(.due(at: Self.at(20)), at: 0)
        timer.workIsDue(at: Self.at(40))
        #expect(timer.dueAt == Self.at(40))
        timer.workIsDue(at: nil)
        #expect(timer.dueAt == nil)
    }

    @Test("A cycle that only pulls leaves what waits to be pushed, one that only pushes leaves the pull")
    mutating func scopes() {
        trigger(.enqueued(.normal), at: 0)
        trigger(.pullDue, at: 0)
        trigger(.requested(isForced: false), at: 1)
        timer.began(.pull, now: Self.at(1))
        #expect(timer.dueAt == Self.at(2))
        timer.began(.push, now: Self.at(2))
        #expect(timer.dueAt == nil)
        trigger(.pullDue, at: 2)
        trigger(.enqueued(.critical), at: 3)
        timer.began(.push, now: Self.at(3.2))
        #expect(timer.dueAt == Self.at(62))
        trigger(.again(at: Self.at(10)), at: 4)
        timer.began(.push, now: Self.at(10))
        timer.began(.pull, now: Self.at(10))
        #expect(timer.dueAt == Self.at(10))
    }

    @Test("Backoff holds every trigger back, but not one that is forced")
    mutating func backoff() {
        timer.holdBack(retryAt: Self.at(50), notBefore: nil)
        #expect(timer.dueAt == nil)
        trigger(.enqueued(.critical), at: 0)
        trigger(.requested(isForced: false), at: 0)
        #expect(timer.dueAt == Self.at(50))
        trigger(.requested(isForced: true), at: 10)
        #expect(timer.dueAt == Self.at(10))
    }

    @Test("A request goes ten seconds after the failure at the latest, and what else waits does not go with it")
    mutating func requestsAreHeldBackBriefly() {
        timer.holdBack(retryAt: Self.at(900), notBefore: nil, failedAt: Self.at(100))
        trigger(.enqueued(.critical), at: 100)
        #expect(timer.dueAt == Self.at(900))
        trigger(.requested(isForced: false), at: 101)
        #expect(timer.dueAt == Self.at(110))
        timer.began(now: Self.at(110))
        // The next failure begins it anew, so a caller that asks all the time causes one attempt in ten seconds.
        timer.holdBack(retryAt: Self.at(112), notBefore: nil, failedAt: Self.at(111))
        trigger(.requested(isForced: false), at: 111)
        #expect(timer.dueAt == Self.at(112))
    }

    @Test("The wait that the server asked for also holds forced requests, until the time has come")
    mutating func serverWish() {
        timer.holdBack(retryAt: Self.at(50), notBefore: Self.at(90))
        trigger(.requested(isForced: true), at: 10)
        #expect(timer.dueAt == Self.at(90))
        #expect(timer.heldUntil == Self.at(90))
        // The cycle that begins then ends the backoff, not the wait that the server asked for: only success or another failure does.
        timer.began(now: Self.at(90))
        #expect(timer.retryAt == nil)
        #expect(timer.notBefore == Self.at(90))
    }

    @Test("A hold that ends before the trigger is due does not put it off")
    mutating func pastHold() {
        timer.holdBack(retryAt: Self.at(5), notBefore: Self.at(6))
        trigger(.again(at: Self.at(30)), at: 7)
        #expect(timer.dueAt == Self.at(30))
    }

    @Test("After a gap nothing goes before its turn was drawn, however long it has been due, but critical work and requests do")
    mutating func spread() {
        trigger(.pullDue, at: 0)
        trigger(.enqueued(.normal), at: 0)
        trigger(.again(at: Self.at(10)), at: 0)
        trigger(.spread(until: Self.at(104)), at: 100)
        #expect(timer.dueAt == Self.at(104))
        trigger(.requested(isForced: false), at: 103)
        #expect(timer.dueAt == Self.at(103))
        timer.began(now: Self.at(103))
        trigger(.enqueued(.normal), at: 103)
        #expect(timer.dueAt == Self.at(105), "the first contact ends the spread")
        trigger(.enqueued(.critical), at: 110)
        trigger(.spread(until: Self.at(204)), at: 200)
        #expect(timer.dueAt == Self.at(110.2))
    }

    @Test("A trigger that is not allowed is not due, and a cycle that may not serve it leaves it")
    mutating func notAllowed() {
        var criticalOnly = Allowance(pullInterval: .seconds(60))
        (criticalOnly.push, criticalOnly.pull) = (.critical, nil)
        var nothing = criticalOnly
        nothing.push = nil
        for priority in Priority.allCases { trigger(.enqueued(priority), at: 0) }
        trigger(.pullDue, at: 0)
        trigger(.again(at: Self.at(1)), at: 0)
        trigger(.requested(isForced: true), at: 0)
        #expect(timer.dueAt(nothing, forced: nothing) == nil)
        #expect(timer.dueAt(nothing, forced: criticalOnly) == Self.at(0), "an operator forces it")
        timer.began(under: criticalOnly, pulls: false, now: Self.at(1))
        #expect(timer.dueAt(criticalOnly, forced: criticalOnly) == nil)
        #expect(timer.dueAt == Self.at(2), "the normal one is still there")
    }

    @Test("The pull is due once an interval after the first trigger for it")
    mutating func periodic() {
        trigger(.pullDue, at: 0)
        trigger(.pullDue, at: 50)
        #expect(timer.dueAt == Self.at(60))
        timer.began(now: Self.at(60))
        trigger(.pullDue, at: 61)
        let seldom = Allowance(pullInterval: .seconds(1_800))
        #expect(timer.dueAt(seldom, forced: seldom) == Self.at(1_861))
    }
}

@Suite("Cycle timer: periodic pulls keep their place")
struct PullPhaseTests {
    @Test("A device pulls at its own place in the interval, half to one and a half intervals after anything else")
    func place() throws {
        for seed in 0..<200 {
            var random = SeededRandom(seed: UInt64(seed))
            var timer = CycleTimer()
            timer.settings.phase = random.next()
            let since = Instant(nanoseconds: Int64.random(in: 0..<1_000_000_000_000, using: &random))
            timer.trigger(.pullDue, now: since)
            for seconds in [30, 60, 1_800, 3_600] as [Int64] {
                let interval = Duration.seconds(seconds)
                let first = try #require(timer.pullAt(interval))
                #expect(since.duration(to: first) >= interval / 2)
                #expect(since.duration(to: first) < interval * 3 / 2)
                var next = CycleTimer(settings: timer.settings)
                next.trigger(.pullDue, now: first.advanced(by: .milliseconds(300)))
                #expect(next.pullAt(interval) == first.advanced(by: interval), "the place is stable")
            }
        }
    }

    @Test("A fleet that was switched on at one moment pulls evenly spread")
    func evenly() {
        var places = [Int](repeating: 0, count: 6)
        for index in 0..<600 {
            var timer = CycleTimer()
            timer.settings.phase = CycleTimer.phase(of: DeviceID(trusted: "pump-\(index)"))
            timer.trigger(.pullDue, now: Instant(nanoseconds: 5_000_000_000))
            let at = timer.pullAt(.seconds(60))?.nanoseconds ?? 0
            places[Int(at / 10_000_000_000) % 6] += 1
        }
        #expect(places.allSatisfy { (60...140).contains($0) })
    }
}

/// The timer while everything is allowed.
extension CycleTimer {
    private static let everything = Allowance(pullInterval: .seconds(60))

    fileprivate var dueAt: Instant? { dueAt(Self.everything, forced: Self.everything) }

    fileprivate func isDue(now: Instant) -> Bool { dueAt.map { $0 <= now } ?? false }

    fileprivate mutating func began(_ scope: SyncRequest.Scope = .all, now: Instant) {
        began(scope, under: Self.everything, pulls: true, now: now)
    }
}
