// Decides what may be sent now, and reacts to changes of that. The engine never sends by a remembered verdict: it asks before each batch,
// each page and each cycle.
extension SyncEngine {
    /// The policy's present decision about a class of traffic.
    package func verdict(on traffic: TrafficClass, now: Timestamp) -> Verdict {
        Policy.decide(traffic, in: situation, now: now)
    }

    /// All inputs of the verdicts, as status shows them.
    package var situation: Situation {
        var situation = terms
        situation.reachability = reachability
        situation.pause = memory.pause
        situation.retryAt = retryAt
        situation.isBreakerOpen = breaker.state == .open
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

    /// Decides what may be sent now. A failure of the hub delays traffic only by its own timer. Otherwise the agent would never find out
    /// that the hub works again.
    func allowance(
        at moment: Moment, isForced: Bool = false, despitePause: Bool = false, despiteBreaker: Bool = false
    ) -> Allowance {
        var situation = terms
        situation.isForced = isForced
        situation.pause = despitePause ? nil : memory.pause
        situation.isBreakerOpen = !despiteBreaker && breaker.state == .open
        if !conditions.hasLink || conditions.isBlocked { situation.reachability = conditions.reachability }
        return allowance(in: situation, now: moment.wall)
    }

    /// Decides what the running cycle may send.
    func allowed(at moment: Moment) -> Allowance {
        allowance(at: moment, isForced: cycle?.isForced ?? false)
    }

    private func allowance(in situation: Situation, now: Timestamp) -> Allowance {
        var allowed = Allowance(in: situation, now: now)
        // A pull without entities is none.
        if allowed.pull?.entities == .critical, settings.criticalEntities.isEmpty { allowed.pull = nil }
        return allowed
    }

    /// Limits of the next batch; `nil` when none is allowed.
    func limits(at moment: Moment) -> BatchLimits? {
        let allowed = allowed(at: moment)
        guard let least = allowed.push else { return nil }
        var limits = settings.dialect.limit(sizes.limits(under: allowed, leastPriority: least), by: pace)
        if cycle?.isTrial == true { limits.mutations = min(limits.mutations, breaker.settings.trialMutations) }
        return limits
    }

    /// Returns whether all of a batch that was just chosen may still be sent.
    func mayGo(_ batch: Batch, at moment: Moment) -> Bool {
        let allowed = allowed(at: moment)
        return batch.mutations.allSatisfy { allowed.allows($0.priority) }
    }

    // MARK: Changes

    mutating func conditionsChanged(to now: Conditions, at moment: Moment, _ effects: inout [SyncEffect]) {
        let (before, reached) = (conditions, reachability)
        conditions = now
        guard hasStarted else { return }
        var cause = now.hasLink ? "link up" : "link down"
        if now.hasLink {
            let hasMoved = before.uplink != nil && now.uplink != nil && before.uplink?.name != now.uplink?.name
            if !before.hasLink || hasMoved {
                if hasMoved, let uplink = now.uplink { cause = "the uplink is \(uplink.name) now" }
                linkIsNew(at: moment, &effects)
            } else if before.isBlocked, !now.isBlocked {
                // The hub was unreachable for the whole fleet, which finds it again at the same time.
                cause = "the hub can be reached again"
                firstContact(within: hub.spread, at: moment)
            } else if now.isBlocked {
                cause = "the probe found \(now.reachability == .captive ? "something else in the hub's place" : "no hub")"
            }
            if now.reachability == .online, before.reachability != .online, hub.reachability != .auth { hub.isNow(.online) }
        }
        guard reachability != reached else { return }
        effects.append(.report(.reachability(from: reached, to: reachability, cause: cause, nil)))
    }

    /// Starts again on a new link. Silence and portals of the old link say little about it; the hub's own answers still hold.
    private mutating func linkIsNew(at moment: Moment, _ effects: inout [SyncEffect]) {
        hub.isNow(.connecting)
        sizes.linkIsNow(conditions.uplink?.name)
        if pressure.failureCause == .between {
            durable.forgiveFailuresOfOldLink()
            pressure.endBackoff(at: moment)
            closeBreaker(&effects)
        }
        firstContact(within: settings.spread, at: moment)
    }

    /// Draws a moment before which nothing ordinary is sent. A cycle begins then if it is useful: when news cost nothing, or work waits. On
    /// a metered link the periodic pull keeps its own schedule.
    @discardableResult
    mutating func firstContact(within spread: Duration, at moment: Moment) -> Instant {
        let first = moment.instant.advanced(by: random.duration(from: .zero, to: spread))
        pressure.wish(.spread(until: first), at: moment.instant)
        let allowed = allowance(in: terms, now: moment.wall)
        if allowed.pull?.entities == .critical {
            let pulledAt = lastSuccess(at: moment) ?? first.advanced(by: .zero - (allowed.pull?.interval ?? .zero))
            pressure.wish(.pullDue, at: pulledAt)
        }
        if allowed.pull?.entities == .all || watchdog.waiting.keys.contains(where: allowed.allows) {
            pressure.wish(.again(at: first), at: moment.instant)
        }
        return first
    }

    /// Time of the last success by the wall clock. That clock may be wrong, so the result is never in the future.
    private func lastSuccess(at moment: Moment) -> Instant? {
        memory.lastSuccess.map { moment.instant.advanced(by: min(.zero, moment.wall.duration(to: $0))) }
    }

    /// Starts a cycle at a random moment when a verdict has turned to "yes", because a time window opens for a whole fleet at once.
    /// Critical work goes at once.
    mutating func noticeVerdict(at moment: Moment) {
        let now = allowance(in: terms, now: moment.wall)
        defer { termsBefore = now }
        guard let before = termsBefore else { return }
        let fits = withheld.fitting(before) == nil ? withheld.fitting(now) : nil
        guard fits != nil || now.isWider(than: before) else { return }
        let isUrgent = fits == .critical || watchdog.waiting[.critical] != nil && now.allows(.critical) && !before.allows(.critical)
        let wait = isUrgent ? .zero : random.duration(from: .zero, to: .seconds(10))
        pressure.wish(.again(at: moment.instant.advanced(by: wait)), at: moment.instant)
    }

    // MARK: Wake-ups

    /// Time at which the engine must be called again, by its present state.
    func wakeWanted(at moment: Moment) -> Instant? {
        if let jobBegan { return jobBegan.advanced(by: jobPatience) }
        return [syncWanted(at: moment), house.dueAt].compactMap { $0 }.min()
    }

    private func syncWanted(at moment: Moment) -> Instant? {
        var pauseEnds: Instant?
        if isPaused(at: moment) {
            // A pause ends by the wall clock, which may step; the shell reports a step (``SyncEvent/clockChanged``).
            guard let until = memory.pause?.until else { return nil }
            pauseEnds = moment.instant.advanced(by: moment.wall.duration(to: until))
        }
        let allowed = allowance(at: moment, despitePause: true)
        let forced = allowance(at: moment, isForced: true, despitePause: true)
        let moments = [
            pressure.timer.dueAt(allowed, forced: forced), probeWakeAt(at: moment, despitePause: true), watchdog.endsAt,
            allowed.changesAt.map { moment.instant.advanced(by: moment.wall.duration(to: $0)) },
            roomAt(moment),
        ]
        return moments.compactMap { $0 }.min().map { max($0, pauseEnds ?? $0) }
    }

    /// Time at which a budget starts again, when work is too large for the rest of it.
    private func roomAt(_ moment: Moment) -> Instant? {
        guard !withheld.isEmpty else { return nil }
        let resets = conditions.budgets.compactMap(\.resetsAt).filter { $0 > moment.wall }.min()
        return resets.map { moment.instant.advanced(by: moment.wall.duration(to: $0)) }
    }

    // MARK: Stalls

    /// Time after which the answer of a job counts as lost: for a call, longer than the transport's limit.
    private var jobPatience: Duration {
        guard cycle?.step.call != nil, settings.dialect.isOneRequest else { return Watchdog.patience }
        return max(Watchdog.patience, calls.timeLimit + .seconds(60))
    }

    mutating func noticeStall(at moment: Moment, _ effects: inout [SyncEffect]) {
        if let began = jobBegan {
            watchdog.look(allowed: nil, at: moment.instant)
            let patience = jobPatience
            guard began.duration(to: moment.instant) >= patience else { return }
            jobBegan = moment.instant
            guard !Watchdog.wasAsleep(dueAt: began.advanced(by: patience), now: moment.instant) else { return }
            watchdog.hung()
            let step = cycle.map { "\($0.step.word)" } ?? (house.isUnderWay ? "the store" : "remember")
            effects.append(.report(.stalled("no answer for \(patience.milliseconds / 1_000) s: \(step)")))
            // A call without an answer has an unknown outcome, like any that timed out. A store command cannot be given up: it may still be
            // running.
            guard cycle?.step.call != nil else { return }
            return failed(HubReply.Refusal(.transport(.timedOut), "the call was lost"), at: moment, &effects)
        }
        watchdog.look(allowed: pressure.isHeld(at: moment.instant) ? nil : allowance(at: moment).push, at: moment.instant)
        guard watchdog.hasStalled(at: moment.instant) else { return }
        effects.append(.report(.stalled("work waits, nothing forbids it, and nothing was tried")))
        pressure.wish(.again(at: moment.instant), at: moment.instant)
    }
}

extension SyncEngine.Step {
    /// `true` when the content of the call is in its answer.
    var isReading: Bool {
        switch self {
        case .pulling, .listing, .seeding: true
        default: false
        }
    }

    /// Number of the call that is under way; `nil` when it is a store command.
    var call: UInt64? {
        switch self {
        case .greeting(let id), .settling(_, let id), .pulling(_, let id), .pushing(_, let id), .listing(_, let id),
            .seeding(_, let id), .verifying(_, let id), .asking(_, _, let id):
            id
        case .loadingInFlight, .recording, .adoptingReplica, .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams,
            .claiming, .settingAside, .housekeeping, .remembering, .applyingSnapshot, .applyingSeed, .digesting, .recordingComparison,
            .loadingSettled, .requeuing, .forgettingHistory, .adoptingHistory:
            nil
        }
    }

    /// The awaited answer, for people.
    var word: String {
        switch self {
        case .greeting: "hello"
        case .settling: "settle"
        case .pulling: "pull"
        case .pushing: "push"
        case .listing: "listing"
        case .verifying: "comparison"
        case .asking: "question what it knows"
        default: "the store"
        }
    }
}
