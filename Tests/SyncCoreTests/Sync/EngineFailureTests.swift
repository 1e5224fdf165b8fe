import SyncCore
import Testing

/// The consequence of each way in which a call can go wrong (PROTOCOL A5, G2).
@Suite("Engine: failures and backoff")
struct EngineFailureTests {
    typealias Rig = EngineRig

    struct Refused: Sendable {
        var response: HTTPResponse
        var kind: HubReply.Kind
        var reachability: Reachability
        var wait: ClosedRange<Duration>
    }

    @Test(
        "Each refusal of a whole request has its kind, its place in status and its wait; no mutation changes its state",
        arguments: [
            Refused(
                response: Rig.portal, kind: .foreign, reachability: .captive, wait: .milliseconds(22_500) ... .seconds(30)),
            Refused(
                response: HTTPResponse(status: 302, headers: ["Location": "http://portal/"]), kind: .foreign,
                reachability: .captive, wait: .milliseconds(22_500) ... .seconds(30)),
            Refused(
                response: HTTPResponse(status: 511), kind: .foreign, reachability: .captive,
                wait: .milliseconds(22_500) ... .seconds(30)),
            Refused(
                response: Rig.problem(401, "auth"), kind: .auth, reachability: .auth, wait: .seconds(45) ... .seconds(60)),
            Refused(
                response: Rig.problem(403, "forbidden"), kind: .auth, reachability: .auth,
                wait: .seconds(45) ... .seconds(60)),
            Refused(
                response: Rig.problem(403, "device-blocked"), kind: .blocked, reachability: .auth,
                wait: .seconds(675) ... .seconds(900)),
            Refused(
                response: Rig.problem(404, "unknown"), kind: .misconfigured, reachability: .degraded,
                wait: .seconds(675) ... .seconds(900)),
            Refused(
                response: Rig.problem(426, "upgrade"), kind: .misconfigured, reachability: .degraded,
                wait: .seconds(675) ... .seconds(900)),
            Refused(
                response: Rig.problem(400, "unsupported-sync-version"), kind: .incompatible, reachability: .online,
                wait: .seconds(675) ... .seconds(900)),
            Refused(
                response: Rig.problem(503, "overloaded"), kind: .overloaded, reachability: .online,
                wait: .milliseconds(250) ... .seconds(1)),
            Refused(
                response: HTTPResponse(status: 502), kind: .overloaded, reachability: .degraded,
                wait: .milliseconds(250) ... .seconds(1)),
            Refused(
                response: Rig.problem(500, "internal"), kind: .failed, reachability: .online,
                wait: .milliseconds(250) ... .seconds(1)),
            Refused(
                response: Rig.problem(415, "encoding-unsupported"), kind: .encoding, reachability: .online,
                wait: .milliseconds(250) ... .seconds(1)),
            Refused(
                response: Rig.ok(Array("{}".utf8)), kind: .nonsense, reachability: .online,
                wait: .milliseconds(250) ... .seconds(1)),
            Refused(
                response: Rig.ok(Array(#"{"head":1,"results":["#.utf8)), kind: .nonsense, reachability: .online,
                wait: .milliseconds(250) ... .seconds(1)),
            Refused(
                response: Rig.ok(Array(#"{"head":1,"results":[]}"#.utf8)), kind: .nonsense, reachability: .online,
                wait: .milliseconds(250) ... .seconds(1)),
        ])
    func refused(_ example: Refused) {
        var rig = Rig.pushing(Rig.batch(1...3))
        rig.answer(example.response)
        #expect(rig.asked == "remember" || rig.asked == nil, "nothing but the engine's own memory is written")
        rig.keepHouse()
        #expect(rig.outcome?.errorKind == example.kind)
        #expect(rig.outcome?.error?.isEmpty == false)
        #expect(rig.engine.memory.failures == 1)
        #expect(rig.engine.memory.lastError == rig.outcome?.error)
        #expect(rig.engine.reachability == example.reachability)
        let before = rig.instant
        rig.begin()
        #expect(example.wait.contains(before.duration(to: rig.instant)))
        #expect(rig.asked == "loadInFlight", "what was sent is settled before anything else")
    }

    @Test(
        "Silence and broken connections are the network's, and are backed off",
        arguments: [TransportError.Code.unresolved, .unreachable, .timedOut, .broken, .untrusted, .untrustedDate, .tooLarge, .malformed])
    func silence(_ code: TransportError.Code) {
        var rig = Rig.pushing(Rig.batch(1...3))
        rig.fail(code)
        rig.keepHouse()
        #expect(rig.outcome?.errorKind == .transport(code))
        #expect(rig.engine.reachability == .degraded)
        let before = rig.instant
        rig.begin()
        #expect(before.duration(to: rig.instant) <= .seconds(1))
    }

    @Test("Credentials that cannot be read are an auth failure, retried slowly")
    func credentials() {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.fail(.credentials)
        rig.keepHouse()
        #expect(rig.engine.reachability == .auth)
        rig.handle(.link(up: false))
        rig.handle(.link(up: true))
        let before = rig.instant
        rig.begin()
        #expect(before.duration(to: rig.instant) >= .seconds(44), "another link does not bring credentials")
    }

    @Test("Failures in a row wait longer and longer, up to a minute", arguments: 0..<5)
    func growing(_ seed: Int) {
        var rig = Rig.settled(seed: UInt64(seed))
        rig.handle(.requested(SyncRequest()))
        for failures in 1...9 {
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.fail()
            rig.keepHouse()
            #expect(rig.engine.memory.failures == failures)
            let before = rig.instant
            rig.handle(.enqueued(.critical))
            rig.begin()
            let waited = before.duration(to: rig.instant)
            #expect(waited >= Backoff.floor)
            #expect(waited <= Backoff().ceiling(afterFailures: failures))
            if failures > 6 { #expect(waited >= .seconds(30)) }
        }
    }

    @Test("A good answer alone is no success: backoff ends with a cycle that reached its end")
    func luckyProbe() {
        var rig = Rig.settled()
        for _ in 0..<3 {
            rig.handle(.requested(SyncRequest(isForced: true)))
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.fail()
            rig.keepHouse()
        }
        rig.begin()
        rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
        rig.answer(Rig.push(Rig.accepted(Rig.batch(1...1))))
        #expect(rig.engine.memory.failures == 3)
        rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([]))
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        #expect(rig.engine.memory.failures == 0)
        #expect(rig.engine.memory.lastError == nil)
    }

    @Test("Backoff holds enqueued work and plain requests back, a forced request goes at once")
    func forced() {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.answer(Rig.portal)
        rig.keepHouse()
        rig.handle(.enqueued(.critical))
        rig.handle(.requested(SyncRequest()))
        #expect(rig.engine.cycle == nil)
        #expect(rig.engine.verdict(on: .critical, now: rig.wall) == .defer(Deferral(.captive, until: rig.engine.retryAt)))
        rig.handle(.requested(SyncRequest(isForced: true)))
        #expect(rig.engine.cycle != nil)
    }

    @Test(
        "Force does not send refused credentials again; other ones, or another configuration, are tried at once",
        arguments: [401, 403, nil])
    func refusedCredentials(_ status: Int?) throws {
        var rig = Rig.pushing(Rig.batch(1...1))
        if let status { rig.answer(Rig.problem(status, "auth")) } else { rig.fail(.credentials) }
        rig.keepHouse()
        rig.handle(.requested(SyncRequest(isForced: true)))
        #expect(rig.engine.cycle == nil)
        let held = rig
        rig.handle(.credentialsChanged)
        #expect(rig.engine.cycle != nil)
        rig = held
        rig.handle(.settings(SyncEngine.Settings()))
        rig.begin()
        #expect(held.instant.duration(to: rig.instant) <= .seconds(1))
        rig = held
        let planned = try #require(rig.untilWake)
        #expect(planned >= .seconds(44), "and without either they are tried again later")
        rig.begin()
    }

    @Test("New credentials do not undo what the hub asked for")
    func credentialsAndRetryAfter() {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.answer(Rig.problem(401, "auth", retryAfter: "600"))
        rig.keepHouse()
        rig.handle(.credentialsChanged)
        rig.handle(.requested(SyncRequest(isForced: true)))
        #expect(rig.engine.cycle == nil)
        rig.advance(.seconds(599))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
    }

    struct Held: Sendable {
        var name: String
        var response: HTTPResponse?
        /// A new link, another configuration of the same server, and a request after ten seconds end the wait.
        var link: Bool
        var reload = true
        var request = true
    }

    @Test(
        "The cause of a failure decides what ends the wait: a new link, a reload, a request",
        arguments: [
            Held(name: "silence", response: nil, link: true),
            Held(name: "portal", response: Rig.portal, link: true),
            Held(name: "proxy's 404", response: HTTPResponse(status: 404), link: true),
            Held(name: "proxy's 407", response: HTTPResponse(status: 407), link: true),
            Held(name: "proxy's 431", response: HTTPResponse(status: 431), link: true),
            Held(name: "proxy's 502", response: HTTPResponse(status: 502), link: true),
            Held(name: "proxy's 401", response: HTTPResponse(status: 401), link: true),
            Held(name: "proxy's hour", response: HTTPResponse(status: 503, headers: ["Retry-After": "3600"]), link: true),
            Held(name: "hub's 404", response: Rig.problem(404, "unknown"), link: false),
            Held(name: "hub's 500", response: Rig.problem(500, "internal"), link: false),
            Held(name: "hub's 401", response: Rig.problem(401, "auth"), link: false, request: false),
            Held(
                name: "hub's hour", response: Rig.problem(503, "overloaded", retryAfter: "3600"), link: false, reload: false, request: false
            ),
        ])
    func causes(_ example: Held) {
        /// The wait that a server asks for is longer than a few wake-ups of the periodic pull.
        func begin(_ rig: inout Rig) {
            for _ in 0..<200 where rig.engine.cycle == nil {
                rig.wake()
                if rig.asked == "housekeep", rig.engine.cycle == nil { rig.stored(.housekept(more: false)) }
            }
        }
        var rig = Rig.pushing(Rig.batch(1...1))
        let asksForTime = example.response?.headers["Retry-After"] != nil
        for attempt in 0..<(asksForTime ? 1 : 8) {
            if attempt > 0 {
                begin(&rig)
                rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            }
            if let response = example.response { rig.answer(response) } else { rig.fail() }
            for _ in 0..<4 where rig.engine.cycle != nil {
                if rig.asked == "remember" { rig.stored(.done) }
                if rig.asked == "setAside" { rig.stored(.done) }
                if rig.asked == "loadInFlight" { rig.stored(.batch(nil, retryAt: nil)) }
            }
            rig.keepHouse()
        }
        rig.handle(.enqueued(.critical))
        let began = rig.instant
        func waits(_ rig: Rig) -> Duration {
            var rig = rig
            begin(&rig)
            return began.duration(to: rig.instant)
        }
        #expect(waits(rig) >= .seconds(20), "\(example.name): eight failures are a reason to wait")
        var linked = rig
        linked.handle(.link(up: false))
        linked.handle(.link(up: true))
        #expect((waits(linked) <= .seconds(6)) == example.link, "\(example.name): a new link")
        var reloaded = rig
        reloaded.handle(.settings(SyncEngine.Settings()))
        #expect((waits(reloaded) <= .seconds(1)) == example.reload, "\(example.name): a reload")
        var asked = rig
        asked.handle(.requested(SyncRequest()))
        #expect((waits(asked) <= .seconds(10)) == example.request, "\(example.name): a request")
    }

    @Test("Another server begins without the failures of the one before, also over a restart", arguments: [true, false])
    func anotherServer(_ restarts: Bool) {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.answer(Rig.problem(503, "overloaded", retryAfter: "3600"))
        rig.keepHouse()
        var settings = rig.engine.settings
        settings.server = "https://two.example"
        if restarts {
            var memory = rig.engine.memory
            memory.server = "https://one.example"
            memory.failures = 7
            memory.isBreakerOpen = true
            rig = Rig(settings: settings)
            rig.start(memory: memory)
        } else {
            var first = settings
            first.server = "https://one.example"
            rig.handle(.settings(first))
            #expect(rig.engine.memory.notBefore != nil, "no answer had named the server")
            rig.handle(.settings(settings))
        }
        #expect(rig.engine.memory.failures == 0 && rig.engine.memory.notBefore == nil && rig.engine.memory.lastError == nil)
        #expect(rig.engine.breaker.state == .closed)
        let before = rig.instant
        rig.handle(.enqueued(.critical))
        rig.begin()
        #expect(before.duration(to: rig.instant) <= .seconds(6))
    }

    @Test("A request that did not arrive in time is made smaller, down to one, which counts no attempt", arguments: [true, false])
    func tooSlow(_ isHubs: Bool) {
        var rig = Rig.pushing(Rig.batch(1...4))
        let answer = Rig.problem(408, "timeout", isHubs: isHubs)
        rig.answer(answer)
        #expect(rig.asked == "loadInFlight", "at once")
        rig.stored(.batch(Rig.batch(1...2), retryAt: nil))
        rig.answer(answer)
        rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
        rig.answer(answer)
        guard case .setAside(let key, _, let counts)? = rig.command else {
            Issue.record("\(String(describing: rig.asked))")
            return
        }
        #expect(key == Rig.mutation(1).key && !counts)
    }

    // MARK: Retry-After

    struct Asked: Sendable {
        var value: String
        var wait: ClosedRange<Duration>
    }

    @Test(
        "The wait that the hub asks for is kept, and garbage is ignored",
        arguments: [
            Asked(value: "10", wait: .seconds(10) ... .seconds(12)),
            Asked(value: "0", wait: .seconds(1) ... .milliseconds(1_200)),
            Asked(value: "600", wait: .seconds(600) ... .seconds(630)),
            Asked(value: "99999999999999999999", wait: .seconds(3_600) ... .seconds(3_630)),
            Asked(value: "-5", wait: .milliseconds(250) ... .seconds(1)),
            Asked(value: "soon", wait: .milliseconds(250) ... .seconds(1)),
        ])
    func retryAfter(_ example: Asked) {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.answer(Rig.problem(429, "overloaded", retryAfter: example.value))
        rig.keepHouse()
        let before = rig.instant
        rig.handle(.enqueued(.critical))
        rig.begin()
        #expect(example.wait.contains(before.duration(to: rig.instant)))
    }

    @Test("Maintenance may ask for a day")
    func maintenance() {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.answer(Rig.problem(503, "maintenance", retryAfter: "40000"))
        rig.keepHouse()
        rig.handle(.requested(SyncRequest(isForced: true)))
        rig.advance(.seconds(39_990))
        rig.handle(.timer)
        #expect(rig.engine.cycle == nil)
        rig.advance(.seconds(50))
        rig.handle(.timer)
        #expect(rig.engine.cycle != nil)
    }

    @Test("A Retry-After of a proxy counts as well, but not against a request for a sync")
    func proxy() {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.answer(HTTPResponse(status: 503, headers: ["Retry-After": "120"]))
        rig.keepHouse()
        #expect(rig.engine.memory.notBefore == nil, "and a restart does not know of it")
        var asked = rig
        asked.handle(.requested(SyncRequest(isForced: true)))
        #expect(asked.engine.cycle != nil)
        rig.handle(.enqueued(.critical))
        #expect(rig.engine.cycle == nil)
        let before = rig.instant
        rig.begin()
        #expect(before.duration(to: rig.instant) >= .seconds(120))
    }

    @Test("A date is taken against the hub's own clock: ours may be in 1970")
    func date() {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.wall = Timestamp(milliseconds: 5_000)
        var response = Rig.problem(503, "overloaded", retryAfter: "Fri, 20 Nov 2026 21:14:05 GMT")
        response.headers["Sync-Time"] = "1795209145000"
        rig.answer(response)
        rig.keepHouse()
        let before = rig.instant
        rig.begin()
        let waited = before.duration(to: rig.instant)
        #expect(waited >= .seconds(100) && waited <= .seconds(120))
    }

    @Test("It is written down, and holds after a restart, but an hour at most: the clock may be wrong by then")
    func persisted() {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.answer(Rig.problem(503, "overloaded", retryAfter: "600"))
        guard let memory = rig.remembered, let notBefore = memory.notBefore else {
            Issue.record("the delay that the hub asked for was not written")
            return
        }
        #expect(rig.wall.duration(to: notBefore) >= .seconds(600))
        var next = Rig()
        next.wall = rig.wall
        next.start(memory: memory)
        next.handle(.requested(SyncRequest(isForced: true)))
        #expect(next.engine.cycle == nil)
        #expect(next.engine.verdict(on: .pull, now: next.wall) == .defer(Deferral(.backoff, until: notBefore)))
        let before = next.instant
        next.begin()
        #expect(before.duration(to: next.instant) >= .seconds(600))

        var old = Rig()
        old.wall = Timestamp(milliseconds: 0)
        old.start(memory: memory)
        let first = old.instant
        old.begin()
        #expect(first.duration(to: old.instant) <= .seconds(3_600))
    }

    @Test("A success forgets what was asked for, also on flash")
    func forgotten() {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.answer(Rig.problem(503, "overloaded", retryAfter: "5"))
        rig.keepHouse()
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        if rig.asked == "loadStreams" { rig.stored(.streams([])) }
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.remembered != nil)
        #expect(rig.remembered?.notBefore == nil)
    }

    @Test("A step of the wall clock changes what is shown, not how long is waited")
    func clockStep() {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.answer(Rig.problem(503, "overloaded", retryAfter: "600"))
        rig.keepHouse()
        let before = rig.instant
        rig.wall = Timestamp(milliseconds: 86_400_000)
        rig.handle(.clockChanged)
        let shown = rig.engine.retryAt.map { rig.wall.duration(to: $0) } ?? .zero
        #expect(shown >= .seconds(600) && shown <= .seconds(630))
        rig.begin()
        let waited = before.duration(to: rig.instant)
        #expect(waited >= .seconds(600) && waited <= .seconds(630))
    }

    // MARK: The store

    @Test("With any refusal of the store the cycle ends unharmed, is reported, and is tried again in half a minute", arguments: 0..<7)
    func storeFails(_ step: Int) {
        var rig = Rig()
        rig.start(maxSentSeq: 9)
        rig.wake()
        rig.answer(Rig.hello(deviceSeq: step == 6 ? 99 : nil))
        switch step {
        case 0, 6: break
        case 1:
            rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
            rig.answer(Rig.push(Rig.accepted(Rig.batch(1...1))))
        case 2: rig.stored(.batch(nil, retryAt: nil))
        default:
            rig.stored(.batch(nil, retryAt: nil))
            rig.stored(.streams([Rig.position(Rig.works)]))
            rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2")]))
            if step > 3 { rig.stored(.pullApplied(PullSummary())) }
            if step > 4 {
                rig.stored(.batch(Rig.batch(10...10), retryAt: nil))
                rig.answer(Rig.push(Rig.accepted(Rig.batch(10...10))))
            }
        }
        #expect(rig.asked == ["loadInFlight", "applyResults", "loadStreams", "applyPull", "claim", "applyResults", "adoptReplica"][step])
        rig.stored(.failed("disk full"))
        #expect(rig.engine.replica == Rig.replica)
        rig.keepHouse()
        #expect(rig.outcome?.error == "the store could not: disk full")
        #expect(rig.engine.reachability == .online, "the hub has nothing to do with it")
        let before = rig.instant
        rig.begin()
        #expect(before.duration(to: rig.instant) == .seconds(30))
    }

    @Test("A memory that cannot be written ends no cycle in failure, and is written with the next one")
    func rememberFails() {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([]))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.housekept(more: false))
        #expect(rig.asked == "remember")
        rig.stored(.failed("disk full"))
        #expect(rig.engine.cycle == nil)
        #expect(rig.outcome?.error == nil)
        #expect(rig.asked == nil)
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        if rig.asked == "loadStreams" { rig.stored(.streams([])) }
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "remember", "the first success is still not on flash")
    }

    @Test("The memory is written for what must survive, not for each cycle")
    func rememberSparingly() {
        var rig = Rig.settled()
        for _ in 0..<5 {
            rig.wake()
            rig.stored(.batch(nil, retryAt: nil))
            rig.stored(.streams([]))
            rig.stored(.batch(nil, retryAt: nil))
            #expect(rig.asked != "remember")
            rig.keepHouse()
        }
        rig.advance(.seconds(600))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([]))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.housekept(more: false))
        #expect(rig.asked == "remember", "the time of the last success, every ten minutes")
    }

    // MARK: Answers that are late, or belong to another call

    @Test("An answer to a call that has ended is dropped")
    func lateAnswer() {
        var rig = Rig.pushing(Rig.batch(1...1))
        let id = rig.call?.id ?? 0
        rig.fail(.timedOut)
        rig.keepHouse()
        let before = rig.engine
        rig.handle(.answered(id, .success(Rig.push(Rig.accepted(Rig.batch(1...1)))), sent: rig.instant))
        #expect(rig.effects.isEmpty)
        #expect(rig.engine.memory == before.memory)
        rig.begin()
        #expect(rig.asked == "loadInFlight")
        rig.handle(.answered(id, .success(Rig.push(Rig.accepted(Rig.batch(1...1)))), sent: rig.instant))
        #expect(rig.effects.isEmpty)
        rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
        rig.handle(.answered(id, .success(Rig.push(Rig.accepted(Rig.batch(1...1)))), sent: rig.instant))
        #expect(rig.effects.isEmpty)
        rig.handle(.answered(id + 100, .success(Rig.push([])), sent: rig.instant))
        #expect(rig.effects.isEmpty)
        #expect(rig.call?.kind == .settle)
    }

    @Test("Verdicts that are missing leave their mutations in flight, and the next cycle settles them at once")
    func missingResults() {
        let batch = Rig.batch(1...3)
        var rig = Rig.pushing(batch)
        rig.answer(Rig.push(Array(Rig.accepted(batch).prefix(2))))
        rig.stored(.resultsApplied(Rig.summary(done: 2), next: nil))
        #expect(rig.asked == "loadInFlight")
    }

    @Test("A verdict about another mutation stands for none that is missing")
    func otherResults() {
        let batch = Rig.batch(1...2)
        var rig = Rig.pushing(batch)
        rig.answer(Rig.push(Array(Rig.accepted(batch).prefix(1)) + Rig.accepted(Rig.batch(77...77))))
        rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil))
        #expect(rig.asked == "loadInFlight")
    }

    @Test("Results for keys that were not sent are handed on, for the store to ignore and count")
    func unknownResults() {
        let batch = Rig.batch(1...1)
        var rig = Rig.pushing(batch)
        rig.answer(Rig.push(Rig.accepted(batch) + Rig.accepted(Rig.batch(77...77))))
        if case .applyResults(let results, _, _, _)? = rig.command {
            #expect(results.count == 2)
        } else {
            Issue.record("the verdict was lost")
        }
    }

    @Test("A store that knows none of the answered keys ends the cycle: asking again would be the same question")
    func nothingSettled() {
        var rig = Rig()
        rig.start(maxSentSeq: 9)
        rig.wake()
        rig.greet()
        rig.stored(.batch(Rig.batch(1...1), retryAt: nil))
        rig.answer(Rig.push(Rig.accepted(Rig.batch(1...1))))
        var summary = Rig.summary()
        summary.unknown = 1
        rig.stored(.resultsApplied(summary, next: nil))
        rig.keepHouse()
        #expect(rig.outcome?.errorKind == .nonsense)
    }

    @Test("A pull that is not as agreed changes nothing", arguments: 0..<6)
    func badPull(_ case: Int) {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        switch `case` {
        case 0: rig.answer(Rig.pull([Rig.page(Rig.sites, cursor: "x")]))
        case 1: rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2"), Rig.page(Rig.works, cursor: "c3")]))
        case 2: rig.answer(Rig.pull(errors: [Rig.expired(Rig.sites)]))
        case 3: rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2")], errors: [Rig.expired(Rig.works)]))
        case 4: rig.answer(Rig.pull([Rig.page(Rig.works, cursor: String(repeating: "c", count: 513))]))
        default:
            let records = (0..<2_001).map { Rig.record("w-\($0)", version: Int64($0)) }
            rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2", records: records)]))
        }
        rig.goOnWithoutIt()
        #expect(rig.outcome?.errorKind == .nonsense && rig.engine.heldStreams[Rig.works] != nil)
    }

    @Test("A cursor that stands still although more is to come is left after three pages, with or without records")
    func stuckCursor() {
        for records in [[], [Rig.record("w-1", version: 3)]] {
            var rig = Rig()
            rig.start()
            rig.wake()
            rig.greet()
            rig.stored(.batch(nil, retryAt: nil))
            rig.stored(.streams([Rig.position(Rig.works, "c1")]))
            for _ in 0..<2 {
                rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c1", hasMore: true, records: records)]))
                rig.stored(.pullApplied(PullSummary()))
                #expect(rig.asked == "pull")
            }
            rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c1", hasMore: true, records: records)]))
            rig.goOnWithoutIt()
            #expect(rig.outcome?.errorKind == .nonsense && rig.engine.heldStreams[Rig.works] != nil)
        }
    }

    @Test("A stream that waits while another one fills the answers is not stuck")
    func waitingStream() {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet(head: 100)
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.sites, nil), Rig.position(Rig.works, "w1")]))
        for page in 1...9 {
            #expect(rig.asked == "pull")
            let sites = Rig.page(Rig.sites, cursor: "s\(page)", hasMore: page < 9, records: [Rig.record("s-\(page)", version: Int64(page))])
            rig.answer(Rig.pull([sites, Rig.page(Rig.works, cursor: "w1", hasMore: true)], head: 100))
            rig.stored(.pullApplied(PullSummary()))
        }
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "w2")], head: 100))
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "claim")
    }

    @Test("The text of a stranger is shown without characters that could forge a line")
    func shown() {
        var rig = Rig.pushing(Rig.batch(1...1))
        rig.answer(HTTPResponse(status: 302, headers: ["Location": "http://evil/\u{1B}[2J\nroot: ok"]))
        rig.keepHouse()
        let error = rig.outcome?.error ?? ""
        #expect(error.contains("evil"))
        #expect(!error.unicodeScalars.contains { $0.value < 0x20 })
    }
}
