import SyncCore
import Testing

/// The engine acts by the policy: what it asks the store and the hub for under each verdict, and when it looks again.
@Suite("Engine: traffic by policy")
struct EnginePolicyTests {
    typealias Rig = EngineRig

    static let ethernet = Conditions(uplink: Uplink(name: "eth0"))
    static let metered = Conditions(uplink: Uplink(name: "wwan0", isMetered: true))
    static let roaming = Conditions(uplink: Uplink(name: "wwan0", isMetered: true, isRoaming: true))

    static func battery(_ level: PowerLevel) -> Conditions {
        var conditions = ethernet
        conditions.power = level
        return conditions
    }

    private static func closedWindow(until: Timestamp) -> Conditions {
        var conditions = ethernet
        conditions.isWindowOpen = false
        conditions.windowOpensAt = until
        return conditions
    }

    private static func budget(_ conditions: Conditions, used: Int, of limit: Int, resetsAt: Timestamp) -> Conditions {
        var conditions = conditions
        conditions.budgets = [Budget(limit: limit, used: used, resetsAt: resetsAt)]
        return conditions
    }

    private static func batch(_ seq: Int64, _ priority: Priority) -> Batch {
        var mutation = Rig.mutation(seq)
        mutation.priority = priority
        return Batch(mutations: [mutation], ackedSeq: seq - 1, maxSentSeq: seq)
    }

    /// Settled, then under other conditions, with every wake-up of before used up.
    private static func settled(_ conditions: Conditions, settings: SyncEngine.Settings = SyncEngine.Settings()) -> Rig {
        var rig = Rig.settled(settings: settings)
        rig.handle(.conditions(conditions))
        rig.advance(.seconds(120))
        rig.handle(.timer)
        return rig
    }

    // MARK: Nothing allowed

    @Test("On a metered link nothing is sent and no wake-up is planned while nothing waits")
    func silence() {
        var rig = Self.settled(Self.metered)
        #expect(rig.engine.cycle == nil)
        #expect(rig.sleeps)
        rig.pass(.seconds(30 * 86_400))
        #expect(rig.engine.cycle == nil && rig.sleeps)
    }

    @Test("A start on a metered link with nothing to send makes no hello")
    func silentStart() {
        var rig = Rig()
        rig.start(conditions: Self.metered)
        rig.pass(.seconds(100_000))
        #expect(rig.engine.cycle == nil)
        #expect(rig.sleeps)
    }

    struct Deferred: Sendable {
        var priority: Priority
        var conditions: Conditions
        var reason: Deferral.Reason
    }

    @Test(
        "Deferred work begins no cycle, and status says why",
        arguments: [
            Deferred(priority: .normal, conditions: metered, reason: .metered),
            Deferred(priority: .bulk, conditions: metered, reason: .metered),
            Deferred(priority: .normal, conditions: roaming, reason: .roaming),
            Deferred(priority: .critical, conditions: battery(.low), reason: .lowBattery),
            Deferred(priority: .normal, conditions: battery(.exhausted), reason: .lowBattery),
            Deferred(priority: .bulk, conditions: closedWindow(until: Timestamp(milliseconds: .max)), reason: .window),
            Deferred(priority: .critical, conditions: .offline, reason: .offline),
            Deferred(priority: .critical, conditions: Conditions(reachability: .captive), reason: .captive),
            Deferred(priority: .critical, conditions: Conditions(reachability: .degraded), reason: .degraded),
        ])
    func deferred(_ example: Deferred) {
        var settings = SyncEngine.Settings()
        settings.policy.pullInterval = .seconds(1_000_000)
        var rig = Rig.settled(settings: settings)
        rig.handle(.conditions(example.conditions))
        rig.handle(.enqueued(example.priority))
        rig.advance(.seconds(600))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        guard case .defer(let why) = rig.engine.verdict(on: TrafficClass(example.priority), now: rig.wall) else {
            Issue.record("the verdict is to allow")
            return
        }
        #expect(why.reason == example.reason)
    }

    // MARK: Limits of a batch

    struct Limited: Sendable {
        var conditions: Conditions
        var allowsCritical = false
        var least: Priority
        var bytes: Int
        var sizes: [Priority: Int] = [:]
    }

    @Test(
        "A claim asks for what may go: priority, bytes of the batch, bytes of one mutation",
        arguments: [
            Limited(conditions: ethernet, least: .bulk, bytes: TransferSizer.first),
            Limited(conditions: metered, least: .critical, bytes: Limits.batchBytesMetered),
            Limited(conditions: roaming, least: .critical, bytes: 32 << 10, sizes: [.critical: 32 << 10]),
            Limited(conditions: battery(.saver), least: .bulk, bytes: TransferSizer.first),
            Limited(conditions: battery(.low), allowsCritical: true, least: .critical, bytes: 32 << 10, sizes: [.critical: 32 << 10]),
            Limited(
                conditions: closedWindow(until: Timestamp(milliseconds: .max)), least: .normal, bytes: TransferSizer.first),
            Limited(
                conditions: budget(metered, used: 19_000_000, of: 20_000_000, resetsAt: Timestamp(milliseconds: .max)),
                least: .critical, bytes: Limits.batchBytesMetered, sizes: [.critical: 1_000_000]),
        ])
    func claims(_ example: Limited) {
        var settings = SyncEngine.Settings()
        settings.policy.allowsCritical = example.allowsCritical
        var rig = Rig.settled(settings: settings)
        rig.handle(.conditions(example.conditions))
        rig.handle(.enqueued(.critical))
        rig.begin()
        guard case .loadInFlight(let settled)? = rig.command else {
            Issue.record("nothing is settled")
            return
        }
        #expect(settled.leastPriority == example.least)
        rig.stored(.batch(nil, retryAt: nil))
        guard case .claim(let limits)? = rig.command else {
            Issue.record("no claim but \(rig.asked ?? "nothing")")
            return
        }
        #expect(limits.leastPriority == example.least)
        #expect(limits.bytes == example.bytes)
        #expect(limits.sizes == MutationSizes(example.sizes))
    }

    // MARK: Work that does not fit

    /// An engine whose claim left a mutation of that priority where it was, and the moment at which the budget begins anew.
    private static func withholding(_ priority: Priority, bytes: Int, used: Int, of limit: Int) -> (rig: Rig, resetsAt: Timestamp) {
        var rig = Rig.settled()
        let resetsAt = rig.wall.advanced(by: .seconds(20 * 3600))
        rig.handle(.conditions(Self.budget(Self.ethernet, used: used, of: limit, resetsAt: resetsAt)))
        rig.handle(.enqueued(priority))
        rig.begin()
        endCycle(of: &rig, withholding: priority, bytes)
        #expect(rig.engine.cycle == nil)
        return (rig, resetsAt)
    }

    /// Answers what a cycle asks the store for, until it ends: nothing but one mutation is there, which is too large.
    private static func endCycle(of rig: inout Rig, withholding priority: Priority, _ bytes: Int) {
        for _ in 0..<20 where rig.engine.cycle != nil {
            switch rig.asked {
            case "claim":
                var withheld = WithheldWork()
                withheld.add(priority, bytes: bytes)
                rig.stored(.batch(nil, retryAt: nil, withheld: withheld))
            case "loadInFlight": rig.stored(.batch(nil, retryAt: nil))
            case "loadStreams": rig.stored(.streams([]))
            case "housekeep": rig.stored(.housekept(more: false))
            default: rig.stored(.done)
            }
        }
    }

    @Test(
        "Work that did not fit into the rest of a budget is sent within seconds of its end", arguments: [Priority.critical, .normal, .bulk])
    func goesAtMidnight(_ priority: Priority) throws {
        // The last tenth is kept for critical work: the others have 20,000 bytes left.
        let used = priority == .critical ? 950_000 : 880_000
        var (rig, resetsAt) = Self.withholding(priority, bytes: 60_000, used: used, of: 1_000_000)
        let began = rig.wall
        // Only wake-ups that the engine itself asks for; the count begins anew when the time has come.
        for _ in 0..<5_000 where rig.engine.cycle == nil {
            let left = rig.wall.duration(to: resetsAt)
            rig.wake()
            if rig.asked == "housekeep", rig.engine.cycle == nil { rig.stored(.housekept(more: false)) }
            if left > .zero, rig.wall >= resetsAt {
                rig.handle(
                    .conditions(Self.budget(Self.ethernet, used: 0, of: 1_000_000, resetsAt: resetsAt.advanced(by: .seconds(86_400)))))
            }
            // Pulls that are due in between claim again what still does not fit.
            if rig.wall < resetsAt { Self.endCycle(of: &rig, withholding: priority, 60_000) }
        }
        #expect(rig.engine.cycle != nil)
        #expect(began.duration(to: rig.wall) <= .seconds(20 * 3600 + 10))
        #expect(rig.wall >= resetsAt)
    }

    @Test("A larger budget makes room at once for critical work, and what still does not fit begins nothing")
    func moreRoom() {
        var (rig, resetsAt) = Self.withholding(.critical, bytes: 60_000, used: 950_000, of: 1_000_000)
        rig.handle(.conditions(Self.budget(Self.ethernet, used: 950_000, of: 1_005_000, resetsAt: resetsAt)))
        #expect(rig.engine.cycle == nil)
        rig.handle(.conditions(Self.budget(Self.ethernet, used: 950_000, of: 1_010_000, resetsAt: resetsAt)))
        #expect(rig.engine.cycle != nil)
    }

    @Test("The push of a critical mutation on a metered link leaves the normal ones waiting, with their reason")
    func criticalOnly() {
        var rig = Self.settled(Self.metered)
        rig.handle(.enqueued(.normal))
        rig.handle(.enqueued(.critical))
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.batch(Self.batch(1, .critical), retryAt: nil))
        #expect(rig.asked == "push")
        rig.answer(Rig.push(Rig.accepted(Self.batch(1, .critical))))
        rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil))
        rig.keepHouse()
        #expect(rig.outcome?.error == nil)
        rig.advance(.seconds(3_600))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        rig.handle(.conditions(Self.ethernet))
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        if rig.asked == "loadStreams" { rig.stored(.streams([])) }
        guard case .claim(let limits)? = rig.command else {
            Issue.record("nothing is claimed")
            return
        }
        #expect(limits.leastPriority == .bulk)
    }

    // MARK: A verdict that changes

    @Test("A link that begins to cost stops the traffic after the batch under way")
    func stopsWithinABatch() {
        let batch = Rig.batch(1...2)
        var rig = Rig.pushing(batch)
        rig.handle(.conditions(Self.metered))
        #expect(rig.effects.allSatisfy { if case .send = $0 { false } else { true } })
        rig.answer(Rig.push(Rig.accepted(batch)))
        guard case .applyResults(_, let next?, _, _)? = rig.command else {
            Issue.record("critical work may still be claimed")
            return
        }
        #expect(next.leastPriority == .critical)
        rig.stored(.resultsApplied(Rig.summary(done: 2), next: nil))
        rig.keepHouse()
    }

    @Test("A batch that was claimed when it was allowed is not sent when it is no longer")
    func notSentAfterClaim() {
        var rig = Rig.settled()
        rig.handle(.enqueued(.normal))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "claim")
        rig.handle(.conditions(Self.metered))
        rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
        #expect(rig.outcome?.error?.hasPrefix("not now") == true)
        // The next cycle looks for critical work; there is none, and nothing was sent.
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "claim")
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.call == nil)
        rig.keepHouse()
        #expect(rig.engine.memory.failures == 0, "nothing failed")
    }

    @Test("No further page is pulled once the link costs something")
    func stopsWithinAPage() {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest(scope: .pull)))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.handle(.conditions(Self.metered))
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2", hasMore: true)], head: 12))
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.call == nil)
        rig.keepHouse()
        #expect(!rig.engine.isCaughtUp)
    }

    @Test("A verdict that turns to allow begins a cycle within ten seconds, at a drawn moment", arguments: 0..<20)
    func turns(_ seed: Int) throws {
        var rig = Rig.settled(seed: UInt64(seed))
        rig.handle(.conditions(Self.battery(.low)))
        rig.handle(.enqueued(.normal))
        rig.advance(.seconds(500))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        let before = rig.instant
        rig.handle(.conditions(Self.ethernet))
        rig.begin()
        #expect(before.duration(to: rig.instant) <= .seconds(10))
    }

    @Test("Critical work goes at once when it may")
    func turnsCritical() {
        var rig = Rig.settled()
        rig.handle(.conditions(Self.battery(.low)))
        rig.handle(.enqueued(.critical))
        rig.advance(.seconds(500))
        rig.handle(.timer)
        rig.handle(.conditions(Self.ethernet))
        #expect(rig.engine.cycle != nil)
    }

    @Test("A verdict that turns to defer begins nothing")
    func turnsBack() {
        var rig = Rig.settled()
        rig.handle(.conditions(Self.metered))
        #expect(rig.effects.isEmpty)
    }

    struct Timed: Sendable {
        var name: String
        var conditions: @Sendable (Timestamp) -> Conditions
        var priority: Priority
    }

    @Test(
        "Each end of a deferral by the clock has its own wake-up: windows, budgets, starvation",
        arguments: [
            Timed(name: "window", conditions: { closedWindow(until: $0) }, priority: .bulk),
            Timed(
                name: "budget",
                conditions: { budget(ethernet, used: 20_000_000, of: 20_000_000, resetsAt: $0) }, priority: .critical),
            Timed(
                name: "starvation",
                conditions: { end in
                    var conditions = metered
                    conditions.oldestNormalAt = end.advanced(by: .seconds(-86_400))
                    return conditions
                }, priority: .normal),
            Timed(
                name: "no unmetered link",
                conditions: { end in
                    var conditions = metered
                    conditions.unmeteredSeenAt = end.advanced(by: .seconds(-86_400))
                    return conditions
                }, priority: .normal),
        ])
    func timed(_ example: Timed) throws {
        var settings = SyncEngine.Settings()
        settings.policy.pullInterval = .seconds(1_000_000)
        var rig = Rig.settled(settings: settings)
        let end = rig.wall.advanced(by: .seconds(7_000))
        rig.handle(.conditions(example.conditions(end)))
        rig.handle(.enqueued(example.priority))
        rig.advance(.seconds(61))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        #expect(rig.wakeAt.map { rig.wall.advanced(by: rig.instant.duration(to: $0)) } == end)
        guard example.name != "window", example.name != "budget" else {
            // Another part reports a change of these; the wake-up is for the moment itself.
            rig.wake()
            rig.handle(.conditions(Self.ethernet))
            rig.begin()
            return
        }
        rig.wake()
        rig.begin()
    }

    // MARK: Pulls

    private static var withCriticalSites: SyncEngine.Settings {
        var settings = SyncEngine.Settings()
        settings.criticalEntities = [Rig.sites]
        return settings
    }

    struct Pace: Sendable {
        var conditions: Conditions
        var interval: Duration
    }

    @Test(
        "Over a link that costs something only critical entities are pulled, and seldom",
        arguments: [
            Pace(conditions: metered, interval: .seconds(1_800)), Pace(conditions: roaming, interval: .seconds(3_600)),
            Pace(
                conditions: budget(metered, used: 17_000_000, of: 20_000_000, resetsAt: Timestamp(milliseconds: .max)),
                interval: .seconds(3_600)),
        ])
    func seldom(_ example: Pace) {
        var rig = Rig.settled(settings: Self.withCriticalSites)
        let pulled = rig.instant
        rig.handle(.conditions(example.conditions))
        rig.advance(.seconds(61))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        rig.begin()
        #expect(pulled.duration(to: rig.instant) == example.interval)
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadInFlight", "whether anything is in flight that may not be settled now")
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.sites), Rig.position(Rig.works)]))
        guard let body = rig.call?.body, rig.asked == "pull" else {
            Issue.record("no pull")
            return
        }
        let text = String(decoding: body, as: UTF8.self)
        #expect(text.contains("sites"))
        #expect(!text.contains("works"))
    }

    @Test("Critical work between two pulls over a metered link pulls nothing")
    func pushOnly() {
        var rig = Rig.settled(settings: Self.withCriticalSites)
        rig.handle(.conditions(Self.metered))
        rig.advance(.seconds(200))
        rig.handle(.enqueued(.critical))
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "claim")
    }

    @Test("Mutations in flight that may not be settled now forbid a pull")
    func unsettled() {
        var rig = Rig.settled(settings: Self.withCriticalSites)
        rig.handle(.conditions(Self.metered))
        rig.handle(.requested(SyncRequest()))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
        #expect(rig.asked == "claim")
    }

    // MARK: Force

    @Test(
        "A forced request beats the cost of the link, the battery and the window",
        arguments: [metered, roaming, battery(.low), battery(.exhausted), closedWindow(until: Timestamp(milliseconds: .max))])
    func forced(_ conditions: Conditions) {
        var rig = Self.settled(conditions)
        if rig.engine.cycle != nil { rig.idleCycle() }
        rig.handle(.requested(SyncRequest(isForced: true)))
        guard case .loadInFlight(let limits)? = rig.command else {
            Issue.record("no cycle began")
            return
        }
        #expect(limits.leastPriority == .bulk)
    }

    @Test("A forced request does not beat a budget that is used up, nor a portal, nor a hub that the probes miss")
    func notForced() {
        let end = Timestamp(milliseconds: .max)
        for conditions in [
            Self.budget(Self.metered, used: 20_000_000, of: 20_000_000, resetsAt: end), Conditions(reachability: .captive),
            Conditions(reachability: .degraded), .offline,
        ] {
            var rig = Self.settled(conditions)
            rig.handle(.requested(SyncRequest(isForced: true)))
            #expect(rig.engine.cycle == nil)
        }
    }

    // MARK: Links

    @Test("Another uplink lowers the count of failures that the old one caused, and is greeted within the spread")
    func moved() throws {
        var rig = Rig.settled()
        rig.handle(.conditions(Self.metered))
        for _ in 0..<9 {
            rig.handle(.requested(SyncRequest(isForced: true)))
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.fail()
            rig.keepHouse()
        }
        rig.handle(.conditions(Self.ethernet))
        #expect(rig.engine.memory.failures == 1)
        #expect(try #require(rig.untilWake) <= .seconds(5))
    }

    @Test("A hub that the probes find again is greeted within the hub's own spread", arguments: 0..<20)
    func afterDegraded(_ seed: Int) throws {
        var rig = Rig(seed: UInt64(seed))
        rig.start()
        rig.wake()
        rig.answer(Rig.ok(Array(#"{"device_id":"gw","epoch":"7f3a","head":10,"device_seq":0,"spread_s":300}"#.utf8)))
        rig.idleCycle()
        rig.handle(.conditions(Conditions(reachability: .degraded)))
        #expect(rig.engine.reachability == .degraded)
        rig.advance(.seconds(600))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        let back = rig.instant
        rig.handle(.conditions(Conditions(reachability: .online)))
        #expect(rig.engine.reachability == .online)
        rig.handle(.enqueued(.normal))
        rig.begin()
        let waited = back.duration(to: rig.instant)
        #expect(waited <= .seconds(300))
        if seed == 1 { #expect(waited > .seconds(5)) }
    }
}
