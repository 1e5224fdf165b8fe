// Decides what may be sent now, and reacts to changes of that. Nothing is ever sent by a remembered verdict: it is asked before each batch,
// each page and each cycle.
extension SyncState {
    /// All inputs of the verdicts, as status shows them.
    var situation: Situation {
        var situation = terms
        situation.reachability = reachability
        situation.pause = memory.pause
        situation.retryAt = pressure.retryAt
        situation.isBreakerOpen = pressure.breaker.state == .open
        return situation
    }

    /// Links, power and budgets alone, as if nothing else prevented traffic.
    private var terms: Situation {
        var situation = Situation(reachability: .online)
        situation.settings = settings.policy
        situation.uplink = conditions.uplink
        if ablations.contains(.meteredIgnored) { situation.uplink?.isMetered = false }
        situation.power = conditions.power
        situation.budgets = conditions.budgets
        situation.unmeteredSeenAt = conditions.unmeteredSeenAt
        situation.oldestNormalAt = conditions.oldestNormalAt
        situation.isActive = conditions.isActive
        situation.isWindowOpen = conditions.isWindowOpen
        situation.windowOpensAt = conditions.windowOpensAt
        return situation
    }

    /// Decides what may be sent at that moment. A failure of the hub delays traffic only by its own timer. Otherwise the agent would never
    /// find out that the hub works again.
    func allowance(
        at moment: Moment, isForced: Bool = false, despitePause: Bool = false, despiteBreaker: Bool = false
    ) -> Allowance {
        var situation = terms
        situation.isForced = isForced
        situation.pause = despitePause ? nil : memory.pause
        situation.isBreakerOpen = !despiteBreaker && pressure.breaker.state == .open
        if !conditions.hasLink || conditions.isBlocked { situation.reachability = conditions.reachability }
        return allowance(in: situation, now: moment.wall)
    }

    private func allowance(in situation: Situation, now: Timestamp) -> Allowance {
        var allowed = Allowance(in: situation, now: now)
        // A pull without entities is none.
        if allowed.pull?.entities == .critical, settings.criticalEntities.isEmpty { allowed.pull = nil }
        return allowed
    }

    // MARK: The running cycle

    /// Decides what the running cycle may send.
    var allowed: Allowance { allowance(at: now, isForced: cycle?.isForced ?? false) }

    /// Limits of the next batch; `nil` when none is allowed.
    var limits: BatchLimits? {
        let allowed = allowed
        guard let least = allowed.push else { return nil }
        var limits = settings.dialect.limit(sizes.limits(under: allowed, leastPriority: least), by: sizes.pace)
        if cycle?.isTrial == true { limits.mutations = min(limits.mutations, pressure.breaker.settings.trialMutations) }
        return limits
    }

    /// Returns whether all of a batch that was just chosen may still be sent.
    func mayGo(_ batch: Batch) -> Bool {
        let allowed = allowed
        return batch.mutations.allSatisfy { allowed.allows($0.priority) }
    }

    /// Nothing may be sent any more.
    var isHalted: Bool { allowed.isNothing }

    var isPaused: Bool { isPaused(at: now) }

    private func isPaused(at moment: Moment) -> Bool {
        guard let pause = memory.pause else { return false }
        return pause.until.map { $0 > moment.wall } ?? true
    }

    var mustEnd: Bool { isOverBudget || pressure.isQuiet || cycle?.isTrial == true }

    var isOverBudget: Bool {
        cycle.map { $0.began.duration(to: now.instant) >= Limits.cycleBudget } ?? true
    }

    /// The hub can be asked which entities it has.
    var namesEntities: Bool { settings.pullsAll && hub.namesEntities && settings.dialect.fixedHistory == nil }

    /// A metered link is used for a pull only when the pull is due or requested.
    func mayPull(under allowed: Allowance) -> Bool {
        guard let terms = allowed.pull else { return false }
        return terms.entities == .all || cycle?.pullIsDue == true || cycle?.isRequested == true
    }

    /// Returns whether a pull is needed. It is skipped when the hub said within the last minute that it has nothing newer, and no sync was
    /// requested: a caller that requests a sync wants to see what others wrote just now.
    var needsPull: Bool {
        if cycle?.isRequested == true || cycle?.pullsShare == true || cycle?.scope == .pull || cycle?.scope == .full { return true }
        // The waiting pull brings the news.
        if news.isWaiting { return false }
        // After a failure only an answer shows that the hub works, and what it has by now.
        if memory.failures > 0 { return true }
        guard let quiet = hub.timeWithoutNews(at: now.instant) else { return true }
        // A stream that was left out is asked again.
        if let next = readings.held.nextAt, next <= now.instant { return true }
        let interval = allowed.pull?.interval ?? settings.policy.pullInterval
        // The periodic pull is due one interval after the last one began, which is less than one interval after its answer.
        let isFresh = cycle?.pullIsDue == true ? interval / 2 : interval
        return quiet >= min(isFresh, .seconds(60))
    }

    /// Decides the order of a cycle. If the one before ended over a read, this one pushes first and reads when nothing is left to push.
    ///
    /// - Returns: `true` when it begins with the push.
    mutating func pushesBeforeReading() -> Bool {
        guard readings.owesPush, cycle?.scope != .pull, cycle?.isTrial != true else { return false }
        readings.owesPush = false
        cycle?.owesPull = true
        return true
    }

    // MARK: Changes

    mutating func conditionsChanged(to new: Conditions, hasStarted: Bool) {
        let (before, reached) = (conditions, reachability)
        conditions = new
        guard hasStarted else { return }
        var cause = new.hasLink ? "link up" : "link down"
        if new.hasLink {
            let hasMoved = before.uplink != nil && new.uplink != nil && before.uplink?.name != new.uplink?.name
            if !before.hasLink || hasMoved {
                if hasMoved, let uplink = new.uplink { cause = "the uplink is \(uplink.name) now" }
                linkIsNew()
            } else if before.isBlocked, !new.isBlocked {
                // The hub was unreachable for the whole fleet, which finds it again at the same time.
                cause = "the hub can be reached again"
                firstContact(within: hub.spread)
            } else if new.isBlocked {
                cause = "the probe found \(new.reachability == .captive ? "something else in the hub's place" : "no hub")"
            }
            if new.reachability == .online, before.reachability != .online, hub.reachability != .auth { hub.isNow(.online) }
        }
        guard reachability != reached else { return }
        report(.reachability(from: reached, to: reachability, cause: cause, nil))
    }

    /// Starts again on a new link. Silence and portals of the old link say little about it; the hub's own answers still hold.
    private mutating func linkIsNew() {
        hub.isNow(.connecting)
        endWait()
        news.linkIsNew()
        sizes.linkIsNow(conditions.uplink?.name)
        if pressure.failureCause == .between {
            durable.forgiveFailuresOfOldLink()
            pressure.endBackoff(at: now)
            closeBreaker()
        }
        firstContact(within: settings.spread)
    }

    /// Draws a moment before which nothing ordinary is sent. A cycle begins then if it is useful: when news cost nothing, or work waits. On
    /// a metered link the periodic pull keeps its own schedule.
    @discardableResult
    mutating func firstContact(within spread: Duration) -> Instant {
        let first = now.instant.advanced(by: random.duration(from: .zero, to: spread))
        trigger(.spread(until: first))
        let allowed = allowance(in: terms, now: now.wall)
        if allowed.pull?.entities == .critical {
            pressure.trigger(.pullDue, at: lastSuccessAt ?? first.advanced(by: .zero - (allowed.pull?.interval ?? .zero)))
        }
        if allowed.pull?.entities == .all || watchdog.waiting.keys.contains(where: allowed.allows) { trigger(.again(at: first)) }
        return first
    }

    /// Time of the last success by the wall clock. That clock may be wrong, so the result is never in the future.
    private var lastSuccessAt: Instant? {
        memory.lastSuccess.map { now.instant.advanced(by: min(.zero, now.wall.duration(to: $0))) }
    }

    /// Starts a cycle at a random moment when a verdict has turned to "yes", because a time window opens for a whole fleet at once.
    /// Critical work goes at once.
    mutating func noticeVerdict() {
        let present = allowance(in: terms, now: now.wall)
        defer { termsBefore = present }
        guard let before = termsBefore else { return }
        let fits = withheld.fitting(before) == nil ? withheld.fitting(present) : nil
        guard fits != nil || present.isWider(than: before) else { return }
        let isUrgent = fits == .critical || watchdog.waiting[.critical] != nil && present.allows(.critical) && !before.allows(.critical)
        let wait = isUrgent ? .zero : random.duration(from: .zero, to: .seconds(10))
        trigger(.again(at: now.instant.advanced(by: wait)))
    }

    // MARK: Wake-ups

    /// Time at which a cycle, a probe or a change of the verdicts is due next.
    var wakeWanted: Instant? {
        var pauseEnds: Instant?
        if isPaused {
            // A pause ends by the wall clock, which may step; the shell reports a step (``SyncEvent/clockChanged``).
            guard let until = memory.pause?.until else { return nil }
            pauseEnds = now.instant.advanced(by: now.wall.duration(to: until))
        }
        let allowed = allowance(at: now, despitePause: true)
        let forced = allowance(at: now, isForced: true, despitePause: true)
        // While a cycle awaits the answer that is on its way, the answer is the event.
        let cycleAt = awaitsNews ? nil : pressure.timer.dueAt(allowed, forced: forced, pulls: !news.isWaiting)
        let moments = [
            cycleAt, news.wakeAt(after: now.instant), probeWakeAt(now),
            watchdog.endsAt,
            allowed.changesAt.map { now.instant.advanced(by: now.wall.duration(to: $0)) },
            roomAt,
        ]
        return moments.compactMap { $0 }.min().map { max($0, pauseEnds ?? $0) }
    }

    /// Time at which a budget starts again, when work is too large for the rest of it.
    private var roomAt: Instant? {
        guard !withheld.isEmpty else { return nil }
        let resets = conditions.budgets.compactMap(\.resetsAt).filter { $0 > now.wall }.min()
        return resets.map { now.instant.advanced(by: now.wall.duration(to: $0)) }
    }
}
