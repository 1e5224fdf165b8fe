/// The policy table of PROTOCOL F. The first row with an objection decides; traffic without an objection goes.
///
///     row            critical     normal    bulk   media    large    pull              diagnostics
///     1 readiness    wait         wait      wait   wait     wait     wait              wait
///     2 low battery  wait (a)     wait      wait   wait     wait     wait              wait
///     3 budget       reserve      wait      wait   wait     wait     reserve, critical wait
///     4 roaming      <= 32 KiB    wait      wait   wait     wait     critical, 60 min  wait
///     5 metered      go           wait (b)  wait   wait (c) wait (c) critical, 30 min  <= 16 KiB a day
///     6 saver        go           go        go     go       wait     go                wait
///     7 window       go (d)       go (d)    wait   wait     wait     go (d)            wait
///
/// (a) With `power.allow_critical` at most 32 KiB go, down to 5 %. (b) Starvation: a device that only has a metered link would never send
/// normal work. So that goes once no unmetered link was seen, or the oldest of it has waited, for `metered.max_age`, but not while the
/// budget is soft. (c) Like (b), after `metered.files_max_age`, counted for each file separately. (d) Waits too with `sync.windows_hold:
/// all`.
///
/// `--force` overrides rows 2 and 4 to 7. Each row is asked only for an objection, which keeps the table monotone: a row that lets traffic
/// through (b) does not hide the objection of a later one.
package enum Policy {
    /// Largest single critical request on a low battery or while roaming, bytes.
    package static let smallRequestBytes = 32 << 10
    /// Largest amount of diagnostics over metered links, bytes per day.
    package static let diagnosticsBytesPerDay = 16 << 10

    /// - Parameters:
    ///   - bytes: Size of the traffic that is to be sent now: of a batch, or a piece of a file. 0: not known yet; ask
    ///     ``largestRequest(_:in:now:)`` for the limit.
    ///   - since: Time at which it was enqueued; used only for files.
    package static func decide(
        _ traffic: TrafficClass, in situation: Situation, now: Timestamp, bytes: Int = 0, since: Timestamp? = nil
    ) -> Verdict {
        explain(traffic, in: situation, now: now, bytes: bytes, since: since).verdict
    }

    /// Decides like ``decide(_:in:now:bytes:since:)``, and explains the deciding row and the possible changes.
    package static func explain(
        _ traffic: TrafficClass, in situation: Situation, now: Timestamp, bytes: Int = 0, since: Timestamp? = nil
    ) -> Explanation {
        let question = Question(traffic: traffic, bytes: max(0, bytes), since: since, now: now)
        let rows: [(PolicyRule, (Question, Situation) -> Objection?)] = [
            (.readiness, readiness), (.lowBattery, lowBattery), (.budget, budget), (.roaming, roaming),
            (.metered, metered), (.batterySaver, batterySaver), (.window, window),
        ]
        var first: Explanation?
        for (rule, ask) in rows {
            let yieldsToForce = rule != .readiness && rule != .budget
            if yieldsToForce && situation.isForced { continue }
            guard let objection = ask(question, situation) else { continue }
            // An end in the past ends nothing: its source reported it late.
            let until = objection.until.flatMap { $0 > now ? $0 : nil }
            guard first == nil else {
                first?.others.append(.init(rule: rule, deferral: Deferral(objection.reason, until: until)))
                continue
            }
            var reliefs = objection.reliefs
            if let until { reliefs.append(.time(until)) }
            if yieldsToForce { reliefs.append(.force) }
            first = Explanation(
                traffic: traffic, verdict: .defer(Deferral(objection.reason, until: until)), rule: rule,
                reliefs: reliefs, link: situation.uplink?.name, fault: situation.fault, pause: situation.pause)
        }
        return first ?? Explanation(traffic: traffic, verdict: .allow, rule: .otherwise, reliefs: [])
    }

    /// Largest request of this class, bytes; `nil`: no limit. It has no meaning while the class is deferred.
    package static func largestRequest(_ traffic: TrafficClass, in situation: Situation) -> Int? {
        var limits = situation.budgets.map { $0.left(forCritical: traffic.usesReserve) }
        if !situation.isForced {
            let isSmall = situation.power >= .low || (situation.uplink?.isRoaming ?? false)
            if traffic == .critical && isSmall { limits.append(smallRequestBytes) }
            if traffic == .diagnostics && situation.uplink?.isMetered ?? false {
                limits.append(max(0, diagnosticsBytesPerDay - max(0, situation.diagnosticsSentToday)))
            }
        }
        return limits.min()
    }

    private struct Question {
        var traffic: TrafficClass
        var bytes: Int
        var since: Timestamp?
        var now: Timestamp
    }

    private struct Objection {
        var reason: Deferral.Reason
        var until: Timestamp?
        var reliefs: [Relief] = []

        init(_ reason: Deferral.Reason, until: Timestamp? = nil, _ reliefs: Relief...) {
            self.reason = reason
            self.until = until
            self.reliefs = reliefs
        }
    }

    // MARK: Rows

    private static func readiness(_ question: Question, _ situation: Situation) -> Objection? {
        let now = question.now
        if let pause = situation.pause, pause.until.map({ $0 > now }) ?? true {
            return Objection(.paused, until: pause.until, .resume)
        }
        let retryAt = situation.retryAt.flatMap { $0 > now ? $0 : nil }
        switch situation.reachability {
        case .offline: return Objection(.offline, .link)
        case .captive: return Objection(.captive, until: retryAt, .login)
        case .auth: return Objection(.auth, until: retryAt, .credentials)
        case .connecting, .online, .degraded:
            if situation.isBreakerOpen { return Objection(.breaker, until: retryAt, .answer) }
            if situation.reachability == .degraded { return Objection(.degraded, until: retryAt, .answer) }
            return retryAt.map { Objection(.backoff, until: $0) }
        }
    }

    private static func lowBattery(_ question: Question, _ situation: Situation) -> Objection? {
        guard situation.power >= .low else { return nil }
        let charge = Relief.charge(percent: situation.settings.lowEndsAtPercent)
        if question.traffic == .critical, situation.settings.allowsCritical, situation.power == .low {
            if question.bytes <= smallRequestBytes { return nil }
            return Objection(.lowBattery, charge, .fewerBytes(smallRequestBytes))
        }
        return Objection(.lowBattery, charge)
    }

    private static func budget(_ question: Question, _ situation: Situation) -> Objection? {
        let usesReserve = question.traffic.usesReserve
        if situation.budget >= (usesReserve ? .spent : .reserve) {
            return Objection(.budget, until: situation.budgetResets(from: usesReserve ? .spent : .reserve), .budget)
        }
        // A budget is a hard limit: traffic that does not fit any more is not begun.
        let tight = situation.budgets.filter { question.bytes > $0.left(forCritical: usesReserve) }
        guard let left = tight.map({ $0.left(forCritical: usesReserve) }).min() else { return nil }
        // If even a whole budget is too small, only a larger one helps: the next day does not.
        let resets = tight.compactMap { question.bytes > $0.capacity(forCritical: usesReserve) ? nil : $0.resetsAt }
        return Objection(.budget, until: resets.count == tight.count ? resets.max() : nil, .fewerBytes(left), .budget)
    }

    private static func roaming(_ question: Question, _ situation: Situation) -> Objection? {
        guard let uplink = situation.uplink, uplink.isRoaming else { return nil }
        switch question.traffic {
        case .pull: return nil
        case .critical:
            if question.bytes <= smallRequestBytes { return nil }
            return Objection(.roaming, .home, .unmeteredLink, .fewerBytes(smallRequestBytes))
        case .normal, .bulk, .media, .largeMedia, .diagnostics: return Objection(.roaming, .home, .unmeteredLink)
        }
    }

    private static func metered(_ question: Question, _ situation: Situation) -> Objection? {
        guard let uplink = situation.uplink, uplink.isMetered else { return nil }
        let now = question.now
        switch question.traffic {
        case .critical, .pull: return nil
        case .bulk: return Objection(.metered, .unmeteredLink)
        case .normal:
            return patience(starvation(of: situation, now), situation, now)
        case .media, .largeMedia:
            return patience(question.since.map { min($0, now).advanced(by: situation.settings.mediaMaxAge) }, situation, now)
        case .diagnostics:
            let sent = max(0, situation.diagnosticsSentToday)
            let left = max(0, diagnosticsBytesPerDay - sent)
            if left > 0 && question.bytes <= left { return nil }
            if question.bytes > diagnosticsBytesPerDay {
                return Objection(.metered, .unmeteredLink, .fewerBytes(diagnosticsBytesPerDay))
            }
            return Objection(.metered, until: UTCDay(now).next.start, .unmeteredLink)
        }
    }

    /// Waits for an unmetered link until `end`, which does not count while the budget is soft.
    private static func patience(_ end: Timestamp?, _ situation: Situation, _ now: Timestamp) -> Objection? {
        guard situation.budget >= .soft else {
            if let end, end <= now { return nil }
            return Objection(.metered, until: end, .unmeteredLink)
        }
        let resets = situation.budgetResets(from: .soft)
        let until = end.flatMap { end in resets.map { max($0, end) } }
        return Objection(.metered, until: until, .unmeteredLink)
    }

    private static func batterySaver(_ question: Question, _ situation: Situation) -> Objection? {
        guard situation.power >= .saver else { return nil }
        switch question.traffic {
        case .critical, .normal, .bulk, .media, .pull: return nil
        case .largeMedia, .diagnostics:
            return Objection(.batterySaver, .charge(percent: situation.settings.saverEndsAtPercent))
        }
    }

    private static func window(_ question: Question, _ situation: Situation) -> Objection? {
        guard !situation.isWindowOpen else { return nil }
        switch question.traffic {
        case .critical, .normal, .pull: if !situation.settings.windowsHoldAll { return nil }
        case .bulk, .media, .largeMedia, .diagnostics: break
        }
        return Objection(.window, until: situation.windowOpensAt)
    }

    // MARK: Starvation

    /// Time from which normal work need not wait for an unmetered link any longer; `nil` if no deadline is known.
    private static func starvation(of situation: Situation, _ now: Timestamp) -> Timestamp? {
        // A time in the future was written by a wrong clock; counted from now, the wait ends.
        [situation.unmeteredSeenAt, situation.oldestNormalAt].compactMap { $0 }
            .map { min($0, now).advanced(by: situation.settings.meteredMaxAge) }.min()
    }

    static func isStarved(_ situation: Situation, _ now: Timestamp) -> Bool {
        starvation(of: situation, now).map { $0 <= now } ?? false
    }
}

extension TrafficClass {
    /// `true` when the class may use the reserved tenth of a budget.
    fileprivate var usesReserve: Bool { self == .critical || self == .pull }
}
