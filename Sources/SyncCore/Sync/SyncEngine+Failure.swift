// Handles calls without a usable answer. No failure of a whole request ever changes the state of a mutation: sent mutations stay in flight
// and are settled when the hub can be reached again.
extension SyncEngine {
    mutating func refused(
        _ refusal: HubReply.Refusal, sent: Instant, at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        if let facts = refusal.facts, facts.version != nil { note(facts, sent: sent, at: moment, &effects) }
        switch refusal.kind {
        case .regressed where !ablations.contains(.regressionIgnored):
            regressed(refusal.facts?.deviceSeq ?? 0, at: moment, &effects)
        case .gone:
            if let epoch = refusal.facts?.epoch, isOtherHistory(epoch) {
                epochChanged(to: epoch, at: moment, &effects)
            } else if case .pulling(let asked, _)? = cycle?.step, asked.contains(where: { $0.cursor != nil }) {
                // The whole request failed instead of one stream: none of its cursors can be used.
                let expired = asked.filter { $0.cursor != nil }.map(\.entity)
                if refusal.problem?.code == Problem.scopeChanged { readings.rescoped.formUnion(expired) }
                restart(startAgain(expired, at: moment, &effects), at: moment, &effects)
            } else if case .verifying(let position, _)? = cycle?.step {
                if refusal.problem?.code == Problem.scopeChanged { readings.rescoped.insert(position.entity) }
                restart([position.entity], at: moment, &effects)
            } else {
                failedToRead(refusal, at: moment, &effects)
            }
        default: failedToRead(refusal, at: moment, &effects)
        }
    }

    mutating func failed(_ refusal: HubReply.Refusal, at moment: Moment, _ effects: inout [SyncEffect]) {
        let asked = refusal.facts?.asked
        noteFailedRead(refusal.kind)
        noteFailure(refusal, at: moment, &effects)
        if let batch = batchUnderWay, blames(refusal) {
            let isAnswerTooLarge = refusal.kind == .transport(.tooLarge)
            if refusal.status == 408, settings.dialect.isOneRequest { sizes.recordSlowRequest() }
            // An answer beyond the limit may also come from a portal. It is certainly the hub's if the hub has answered in this cycle.
            // Otherwise the next cycle greets first to find out.
            let isCertain =
                refusal.kind == .malformed || refusal.kind == .tooLarge || refusal.status == 408
                || (isAnswerTooLarge && cycle?.wasAnswered == true)
            if isAnswerTooLarge, !isCertain { hub.requireHello() }
            if sizes.recordFailure(of: batch, isCertain: isCertain, isAnswerTooLarge: isAnswerTooLarge), asked == nil {
                return loadInFlight(at: moment, &effects)
            }
            if sizes.batches.isPoison(batch) {
                if refusal.kind != .transport(.timedOut) || cycle?.wasAnswered == true {
                    return setAside(batch, refusal, asked: asked, at: moment, &effects)
                }
                // Silence over one mutation: the next cycle greets first, to distinguish a hub that is gone from one that hangs on this
                // mutation.
                hub.requireHello()
            }
        }
        hubIs(reachability(after: refusal), cause: Printable.text(refusal.detail), HubFault(refusal), &effects)
        endInFailure(
            refusal.detail, kind: refusal.kind, cause: cause(of: refusal), retry: delay(after: refusal), asked: asked,
            ceiling: refusal.problem?.code == "maintenance" ? .seconds(24 * 3600) : .seconds(3600), at: moment, &effects)
    }

    /// Sets aside the one mutation, or the one atomic list, that the hub cannot process. If the hub says that it will never fit, that is
    /// its verdict. Otherwise it is tried again alone, later, a limited number of times.
    private mutating func setAside(
        _ batch: Batch, _ refusal: HubReply.Refusal, asked: Duration?, at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        guard let poison = batch.mutations.first else { return }
        effects.append(.report(.setAside(poison.key, detail: Printable.text(refusal.detail))))
        // Only the hub itself can say that a mutation will never fit. A proxy with a lower limit may be replaced tomorrow.
        let isHubs = refusal.facts?.version != nil
        if refusal.kind == .tooLarge, isHubs {
            let problem = refusal.problem ?? Problem("too-large", status: 413, detail: refusal.detail)
            let verdicts = batch.mutations.map { PushResult(key: $0.key, verdict: .rejected(problem, current: nil)) }
            advance(to: .recording(Recording(isSettled: true)))
            effects.append(.store(.applyResults(verdicts, next: nil)))
            return
        }
        let problem = refusal.problem ?? Problem("failed-alone", status: 0, detail: refusal.detail)
        // When the fault may be the hub's, every step of the search waits like any failure. Silence is never the mutation's fault: a tunnel
        // is silent, too.
        let isItsFault = sizes.setAside(poison.key)
        let failure = Failure(
            detail: refusal.detail, kind: refusal.kind, cause: cause(of: refusal), retry: delay(after: refusal), asked: asked)
        advance(to: .settingAside(isItsFault && asked == nil ? nil : failure))
        // Neither silence nor a request that did not arrive in time (408) says anything about the content.
        let isSlow = refusal.kind == .transport(.timedOut) || refusal.status == 408
        let counts = isItsFault && !isSlow && (refusal.kind != .tooLarge || isHubs)
        effects.append(.store(.setAside(poison.key, problem, counts: counts)))
    }

    /// The hub accepted the request and left mutations without a verdict: their outcome is unknown, so they stay in flight.
    mutating func unanswered(at moment: Moment, _ effects: inout [SyncEffect]) {
        failed(HubReply.Refusal(.nonsense, "the hub's answer settled nothing of what was sent"), at: moment, &effects)
    }

    mutating func endInFailure(
        _ detail: String, kind: HubReply.Kind? = nil, cause: FailureCause = .none, retry: Duration, asked: Duration? = nil,
        ceiling: Duration = .seconds(3600), at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        nextCycle.cycleFailed(isAskedFor: cycle?.isAskedFor ?? false)
        durable.recordFailure(detail, at: moment.wall)
        cycle?.outcome.error = durable.memory.lastError
        cycle?.outcome.errorKind = kind
        let delay = asked.map { Backoff.honouring($0, over: retry, ceiling: ceiling, using: &random) } ?? retry
        let until = moment.instant.advanced(by: delay)
        // A delay that a device in between asked for is like any other: only the server itself can forbid a requested attempt.
        let isServersWish = asked != nil && cause != .between
        pressure.recordFailure(cause, until: until, isServersWish: isServersWish, at: moment)
        durable.holdUntil(isServersWish ? pressure.retryAt : nil)
        saveOrFinish(at: moment, &effects)
    }

    /// Allows an attempt because the cause of the failure was changed. A delay that the server itself asked for still holds.
    mutating func tryAgain(at moment: Moment) {
        durable.forgiveFailures()
        pressure.tryAgain(keepsServersDelay: memory.notBefore != nil, at: moment)
    }

    /// Applies a configuration that was read again, with an immediate attempt.
    mutating func settingsChanged(at moment: Moment, _ effects: inout [SyncEffect]) {
        if durable.recordServer(settings.server) {
            pressure.endDelays()
            closeBreaker(&effects)
        }
        guard pressure.failureCause != .none || memory.failures > 0 else {
            return pressure.wish(.again(at: moment.instant.advanced(by: .seconds(1))), at: moment.instant)
        }
        tryAgain(at: moment)
    }

    var batchUnderWay: Batch? {
        switch cycle?.step {
        case .settling(let batch, _), .pushing(let batch, _): batch
        default: nil
        }
    }

    /// Returns whether the request itself may be the reason, so that a smaller one should be tried.
    private func blames(_ refusal: HubReply.Refusal) -> Bool {
        switch refusal.kind {
        case .malformed, .tooLarge, .failed, .nonsense, .transport(.timedOut), .transport(.tooLarge): true
        // The request did not arrive in time; a smaller one may.
        case .overloaded: refusal.status == 408
        default: false
        }
    }

    private func cause(of refusal: HubReply.Refusal) -> FailureCause {
        switch refusal.kind {
        case .auth, .blocked, .transport(.credentials), .transport(.clientCertificate): .credentials
        case .transport, .foreign: .between
        case .nonsense, .misconfigured, .incompatible, .malformed, .tooLarge, .encoding, .regressed, .gone, .overloaded, .failed:
            settings.dialect.isServers(refusal) ? .server : .between
        }
    }

    private func reachability(after refusal: HubReply.Refusal) -> Reachability {
        switch refusal.kind {
        case .transport(.cancelled): hub.reachability
        case .transport(.credentials), .transport(.clientCertificate): .auth
        case .transport, .misconfigured: .degraded
        // A portal answers with a page or a redirect; an error status comes from a proxy, or a wrong server.
        case .foreign: refusal.status.map { (400...499).contains($0) } ?? false ? .degraded : .captive
        case .auth, .blocked: .auth
        case .overloaded, .failed, .malformed, .tooLarge, .encoding:
            // Without the hub's own headers a proxy has answered: the hub itself is not reachable.
            refusal.facts?.version == nil ? .degraded : .online
        case .nonsense, .incompatible, .regressed, .gone: .online
        }
    }

    private mutating func delay(after refusal: HubReply.Refusal) -> Duration {
        let failures = memory.failures + 1
        switch refusal.kind {
        // A proxy without a server behind it, as during an update; handled like 502.
        case .foreign where refusal.status.map { (400...499).contains($0) } ?? false:
            return settings.backoff.delay(afterFailures: failures, using: &random)
        // A portal is checked every half minute at first and every five minutes later; credentials are not sent to it.
        case .foreign: return spread(.seconds(30), doublings: failures - 1, cap: .seconds(300))
        case .auth, .transport(.credentials), .transport(.clientCertificate):
            return spread(.seconds(60), doublings: failures - 1, cap: .seconds(900))
        case .blocked, .misconfigured, .incompatible: return spread(.seconds(900), doublings: 0, cap: .seconds(900))
        default: return settings.backoff.delay(afterFailures: failures, using: &random)
        }
    }

    private mutating func spread(_ first: Duration, doublings: Int, cap: Duration) -> Duration {
        let whole = min(cap, first * (1 << min(max(doublings, 0), 10)))
        return random.duration(from: whole * 3 / 4, to: whole)
    }
}
