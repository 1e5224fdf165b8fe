import SyncCore
import Testing

/// One row for each cell of the table that says something of its own.
@Suite("Policy table")
struct PolicyTableTests {
    static let now = Timestamp(milliseconds: 1_795_276_800_000)  // 2026-11-21T16:00:00Z

    static func online(_ change: (inout Situation) -> Void = { _ in }) -> Situation {
        var situation = Situation(reachability: .online)
        situation.uplink = Uplink(name: "eth0")
        change(&situation)
        return situation
    }

    static func metered(_ change: (inout Situation) -> Void = { _ in }) -> Situation {
        online {
            $0.uplink = Uplink(name: "wwan0", isMetered: true)
            change(&$0)
        }
    }

    static func roaming(_ change: (inout Situation) -> Void = { _ in }) -> Situation {
        online {
            $0.uplink = Uplink(name: "wwan0", isMetered: true, isRoaming: true)
            change(&$0)
        }
    }

    private func reason(
        _ traffic: TrafficClass, _ situation: Situation, bytes: Int = 0, since: Timestamp? = nil
    ) -> Deferral.Reason? {
        Policy.explain(traffic, in: situation, now: Self.now, bytes: bytes, since: since).deferral?.reason
    }

    private func reasons(_ situation: Situation) -> [TrafficClass: Deferral.Reason] {
        var reasons: [TrafficClass: Deferral.Reason] = [:]
        for traffic in TrafficClass.allCases { reasons[traffic] = reason(traffic, situation) }
        return reasons
    }

    private func all(_ reason: Deferral.Reason, except: Set<TrafficClass> = []) -> [TrafficClass: Deferral.Reason] {
        Dictionary(uniqueKeysWithValues: TrafficClass.allCases.filter { !except.contains($0) }.map { ($0, reason) })
    }

    @Test("With nothing in the way everything goes")
    func otherwise() {
        #expect(reasons(Self.online()).isEmpty)
        #expect(Policy.pullTerms(in: Self.online(), now: Self.now) == PullTerms(entities: .all, interval: .seconds(60)))
        #expect(Policy.explain(.bulk, in: Self.online(), now: Self.now).rule.row == 8)
    }

    @Test("Row 1: nothing goes while the hub cannot or may not be asked, and the nearest reason is named")
    func readiness() {
        let later = Self.now.advanced(by: .seconds(60))
        let rows: [(Deferral.Reason, Situation)] = [
            (.paused, Self.online { $0.pause = .init(until: nil, reason: "", uid: 0) }),
            (.paused, Self.online { $0.pause = .init(until: later, reason: "", uid: 0) }),
            (.offline, Self.online { $0.reachability = .offline }), (.captive, Self.online { $0.reachability = .captive }),
            (.auth, Self.online { $0.reachability = .auth }), (.degraded, Self.online { $0.reachability = .degraded }),
            (.breaker, Self.online { $0.isBreakerOpen = true }), (.backoff, Self.online { $0.retryAt = later }),
        ]
        for (reason, var situation) in rows {
            #expect(reasons(situation) == all(reason))
            situation.isForced = true
            #expect(reasons(situation) == all(reason), "force never beats row 1")
        }
        let over = Self.online {
            $0.pause = .init(until: Self.now, reason: "", uid: 0)
            $0.retryAt = Self.now
        }
        #expect(reasons(over).isEmpty, "what has ended does not hold anything back")
    }

    @Test("Row 2: on a low battery nothing goes, but for small critical work where that is allowed, down to 5 %")
    func lowBattery() {
        let low = Self.online { $0.power = .low }
        #expect(reasons(low) == all(.lowBattery))
        var allowed = low
        allowed.settings.allowsCritical = true
        #expect(reasons(allowed) == all(.lowBattery, except: [.critical]))
        #expect(reason(.critical, allowed, bytes: 32 << 10) == nil)
        #expect(reason(.critical, allowed, bytes: (32 << 10) + 1) == .lowBattery)
        allowed.power = .exhausted
        #expect(reasons(allowed) == all(.lowBattery))
        let explained = Policy.explain(.normal, in: low, now: Self.now)
        #expect(explained.reliefs == [.charge(percent: 18), .force])
        #expect(
            explained.sentence == """
                normal mutations wait because the battery is low and not charging; they go when the battery is at 18 % or \
                charging or with `agentctl sync --force`
                """)
    }

    @Test("All rows that object are told, and the latest end that is known of them")
    func others() {
        let evening = Self.now.advanced(by: .seconds(3_600)), tomorrow = Timestamp(milliseconds: 1_795_305_600_000)
        var situation = Self.online {
            $0.uplink = Uplink(name: "wwan0", isMetered: true)
            $0.budgets = [Budget(limit: 1_000, used: 950, resetsAt: tomorrow)]
            ($0.isWindowOpen, $0.windowOpensAt) = (false, evening)
        }
        situation.retryAt = Self.now.advanced(by: .seconds(60))
        let bulk = Policy.explain(.bulk, in: situation, now: Self.now)
        #expect(bulk.rule == .readiness && bulk.deferral?.until == situation.retryAt)
        #expect(bulk.others.map(\.rule) == [.budget, .metered, .window])
        #expect(bulk.end == max(evening, tomorrow))
        #expect(bulk.also.count == 3 && bulk.also[0] == "the data budget of wwan0 does not allow it (until \(tomorrow))")
        // Without another reason to wait, the decision is as before.
        situation.budgets = []
        let critical = Policy.explain(.critical, in: situation, now: Self.now)
        #expect(critical.others.isEmpty && critical.end == situation.retryAt)
        // Force passes the rows that it beats.
        situation.isForced = true
        #expect(Policy.explain(.bulk, in: situation, now: Self.now).others.isEmpty)
    }

    @Test("Row 3: the last tenth of a budget is for critical work, and a spent budget stops that too")
    func budget() {
        let tomorrow = Timestamp(milliseconds: 1_795_305_600_000)
        func used(_ bytes: Int) -> Situation {
            Self.online { $0.budgets = [Budget(limit: 1_000, used: bytes, resetsAt: tomorrow)] }
        }
        #expect(reasons(used(899)).isEmpty)
        #expect(reasons(used(900)) == all(.budget, except: [.critical, .pull]))
        #expect(reasons(used(1_000)) == all(.budget))
        #expect(Policy.pullTerms(in: used(900), now: Self.now) == PullTerms(entities: .critical, interval: .seconds(120)))
        // A transfer that does not fit is not begun, and force does not change that.
        for isForced in [false, true] {
            var nearly = used(890)
            nearly.isForced = isForced
            #expect(reason(.normal, nearly, bytes: 10) == nil)
            #expect(reason(.normal, nearly, bytes: 11) == .budget)
            #expect(reason(.critical, nearly, bytes: 110) == nil)
            #expect(reason(.critical, nearly, bytes: 111) == .budget)
        }
        #expect(Policy.explain(.bulk, in: used(900), now: Self.now).deferral?.until == tomorrow)
    }

    @Test("Row 3: of two used-up periods the later end counts, and one without an end leaves it open")
    func budgetEnds() {
        let tomorrow = Timestamp(milliseconds: 1_795_305_600_000), nextMonth = tomorrow.advanced(by: .seconds(9 * 86_400))
        var situation = Self.online {
            $0.budgets = [
                Budget(limit: 10, used: 10, resetsAt: tomorrow), Budget(limit: 100, used: 95, resetsAt: nextMonth),
            ]
        }
        #expect(Policy.explain(.normal, in: situation, now: Self.now).deferral?.until == nextMonth)
        #expect(Policy.explain(.critical, in: situation, now: Self.now).deferral?.until == tomorrow)
        situation.budgets[1].resetsAt = nil
        #expect(Policy.explain(.normal, in: situation, now: Self.now).deferral == Deferral(.budget))
    }

    @Test("Row 4: roaming lets small critical work and rare pulls of critical entities through")
    func roaming() {
        #expect(reasons(Self.roaming()) == all(.roaming, except: [.critical, .pull]))
        #expect(reason(.critical, Self.roaming(), bytes: 40_000) == .roaming)
        #expect(
            Policy.pullTerms(in: Self.roaming(), now: Self.now) == PullTerms(entities: .critical, interval: .seconds(3_600)))
    }

    @Test("Row 5: on a metered link only critical work goes, pulls are rare, diagnostics few")
    func metered() {
        #expect(reasons(Self.metered()) == all(.metered, except: [.critical, .pull, .diagnostics]))
        #expect(reason(.critical, Self.metered(), bytes: 128 << 10) == nil)
        #expect(reason(.diagnostics, Self.metered(), bytes: 16 << 10) == nil)
        #expect(reason(.diagnostics, Self.metered { $0.diagnosticsSentToday = 1 }, bytes: 16 << 10) == .metered)
        let full = Policy.explain(.diagnostics, in: Self.metered { $0.diagnosticsSentToday = 16 << 10 }, now: Self.now)
        #expect(full.deferral?.until?.description == "2026-11-22T00:00:00.000Z")
        #expect(
            Policy.pullTerms(in: Self.metered(), now: Self.now) == PullTerms(entities: .critical, interval: .seconds(1_800)))
    }

    @Test("Starvation: normal work waits a day for an unmetered link, then goes, unless the budget is soft")
    func starvation() {
        let dayAgo = Self.now.advanced(by: .seconds(-86_400)), justUnder = dayAgo.advanced(by: .milliseconds(1))
        for path in [\Situation.unmeteredSeenAt, \Situation.oldestNormalAt] {
            var waiting = Self.metered()
            waiting[keyPath: path] = justUnder
            let until = Self.now.advanced(by: .milliseconds(1))
            #expect(Policy.decide(.normal, in: waiting, now: Self.now) == .defer(Deferral(.metered, until: until)))
            waiting[keyPath: path] = dayAgo
            #expect(reasons(waiting) == all(.metered, except: [.critical, .normal, .pull, .diagnostics]))
            #expect(
                Policy.pullTerms(in: waiting, now: Self.now) == PullTerms(entities: .all, interval: .seconds(1_800)))
            let tomorrow = Self.now.advanced(by: .seconds(8 * 3_600))
            waiting.budgets = [Budget(limit: 100, used: 80, resetsAt: tomorrow)]
            #expect(Policy.decide(.normal, in: waiting, now: Self.now) == .defer(Deferral(.metered, until: tomorrow)))
            #expect(
                Policy.pullTerms(in: waiting, now: Self.now) == PullTerms(entities: .critical, interval: .seconds(3_600)))
        }
        // A stamp from a clock that was ahead counts from now on, so it ends.
        let future = Self.metered { $0.unmeteredSeenAt = Self.now.advanced(by: .seconds(1_000_000_000)) }
        #expect(
            Policy.decide(.normal, in: future, now: Self.now)
                == .defer(Deferral(.metered, until: Self.now.advanced(by: .seconds(86_400)))))
    }

    @Test("Files wait seven days for an unmetered link, each by itself")
    func media() {
        let weekAgo = Self.now.advanced(by: .seconds(-7 * 86_400))
        for traffic in [TrafficClass.media, .largeMedia] {
            #expect(reason(traffic, Self.metered(), since: weekAgo) == nil)
            #expect(reason(traffic, Self.metered(), since: weekAgo.advanced(by: .milliseconds(1))) == .metered)
            #expect(reason(traffic, Self.metered { $0.unmeteredSeenAt = weekAgo }) == .metered)
            #expect(reason(traffic, Self.roaming(), since: weekAgo) == .roaming)
        }
        // A later row still objects to what an earlier one lets through.
        #expect(reason(.largeMedia, Self.metered { $0.power = .saver }, since: weekAgo) == .batterySaver)
    }

    @Test("Row 6: the battery saver stops large files and diagnostics only")
    func saver() {
        #expect(reasons(Self.online { $0.power = .saver }) == [.largeMedia: .batterySaver, .diagnostics: .batterySaver])
    }

    @Test("Row 7: outside the time window bulk work, files and diagnostics wait for it to open")
    func window() {
        let opens = Self.now.advanced(by: .seconds(6 * 3_600))
        let closed = Self.online {
            $0.isWindowOpen = false
            $0.windowOpensAt = opens
        }
        #expect(reasons(closed) == all(.window, except: [.critical, .normal, .pull]))
        #expect(Policy.decide(.bulk, in: closed, now: Self.now) == .defer(Deferral(.window, until: opens)))
        // Satellite hours: at other times there is no link, or only one that is too expensive.
        var satellite = closed
        satellite.settings.windowsHoldAll = true
        #expect(reasons(satellite) == all(.window))
        #expect(Policy.decide(.critical, in: satellite, now: Self.now) == .defer(Deferral(.window, until: opens)))
        #expect(Policy.pullTerms(in: satellite, now: Self.now) == nil)
        satellite.isForced = true
        #expect(reasons(satellite).isEmpty)
    }

    @Test("Force beats battery, roaming, metered link, saver and window, and makes a pull whole")
    func force() {
        var situation = Self.roaming {
            $0.power = .exhausted
            $0.isWindowOpen = false
            $0.isForced = true
        }
        #expect(reasons(situation).isEmpty)
        #expect(reason(.critical, situation, bytes: 1 << 20) == nil)
        #expect(Policy.pullTerms(in: situation, now: Self.now)?.entities == .all)
        situation.budgets = [Budget(limit: 10, used: 9)]
        #expect(reasons(situation) == all(.budget, except: [.critical, .pull]), "but never a hard budget")
    }

    @Test("The sentence names the link and everything that would end the waiting")
    func sentence() {
        let waiting = Self.metered { $0.unmeteredSeenAt = Self.now.advanced(by: .seconds(-3_600)) }
        let explained = Policy.explain(.normal, in: waiting, now: Self.now)
        #expect(explained.rule == .metered)
        #expect(
            explained.sentence == """
                normal mutations wait because the link wwan0 is metered; they go when an unmetered link is up, at \
                2026-11-22T15:00:00.000Z, or with `agentctl sync --force`
                """)
    }

    @Test(
        "The sentence of a pause names who paused, an operator or the agent itself, and the command names the way on",
        arguments: [
            (EngineMemory.Pause(until: nil, reason: "", uid: 0), "an operator paused the sync", "agentctl resume"),
            (EngineMemory.Pause(until: nil, reason: "window", uid: 0), "an operator paused the sync (window)", "agentctl resume"),
            // Only the agent itself pauses as root with these words.
            (
                EngineMemory.Pause(until: nil, reason: "safe mode: the agent died 5 times in a row", uid: 1_001),
                "an operator paused the sync (safe mode: the agent died 5 times in a row)", "agentctl resume"
            ),
            (
                EngineMemory.Pause.safeMode(deaths: 5, until: Self.now.advanced(by: .seconds(600))),
                "the agent itself paused the sync (safe mode: the agent died 5 times in a row)",
                "journalctl -u agentd -p err -n 50, then: agentctl resume"
            ),
        ])
    func pauses(pause: EngineMemory.Pause, sentence: String, command: String) throws {
        let explained = Policy.explain(.normal, in: Self.online { $0.pause = pause }, now: Self.now)
        let end = pause.until.map { " or at \($0)" } ?? ""
        #expect(explained.sentence == "normal mutations wait because \(sentence); they go when the sync is resumed\(end)")
        let cause = try #require(PresentCause(explained, at: HubPlace()))
        #expect(cause == PresentCause(code: "paused", sentence: sentence, until: pause.until, command: command))
    }
}
