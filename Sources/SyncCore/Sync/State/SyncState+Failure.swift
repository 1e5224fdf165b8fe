// Handles calls without a usable answer. No failure of a whole request ever changes the state of a mutation: sent mutations stay in flight
// and are settled when the hub can be reached again.
extension SyncState {
    /// Handles a call without a usable answer that nothing but a later attempt can help.
    ///
    /// - Parameter batch: The mutations that were sent, if one of them may be the reason.
    mutating func fail(_ refusal: HubReply.Refusal, over batch: Batch? = nil) -> NextPhase {
        count(refusal, hasBatch: batch != nil)
        if let batch, refusal.mayLieInBatch, let next = search(batch, refusal) { return next }
        hubIs(reachability(after: refusal), cause: Printable.text(refusal.detail), HubFault(refusal))
        return fail(
            refusal.detail, kind: refusal.kind, cause: cause(of: refusal), retry: delay(after: refusal), asked: refusal.facts?.asked,
            ceiling: refusal.problem?.code == "maintenance" ? .seconds(24 * 3600) : .seconds(3600))
    }

    /// Searches for the one mutation that makes a batch fail.
    ///
    /// - Returns: `nil` when the usual backoff comes first.
    private mutating func search(_ batch: Batch, _ refusal: HubReply.Refusal) -> NextPhase? {
        let isAnswerTooLarge = refusal.kind == .transport(.tooLarge)
        if refusal.status == 408, settings.dialect.isOneRequest { sizes.recordSlowRequest() }
        // An answer beyond the limit may also come from a portal. It is certainly the hub's if the hub has answered in this cycle.
        // Otherwise the next cycle greets first to find out.
        let wasAnswered = cycle?.wasAnswered == true
        let isCertain =
            refusal.kind == .malformed || refusal.kind == .tooLarge || refusal.status == 408 || (isAnswerTooLarge && wasAnswered)
        if isAnswerTooLarge, !isCertain { hub.requireHello() }
        let isSmaller = sizes.recordFailure(of: batch, isCertain: isCertain, isAnswerTooLarge: isAnswerTooLarge)
        if isSmaller, refusal.facts?.asked == nil { return .settle }
        guard sizes.batches.isPoison(batch) else { return nil }
        if refusal.kind != .transport(.timedOut) || wasAnswered { return .setAside(batch, refusal) }
        // Silence over one mutation: the next cycle greets first, to distinguish a hub that is gone from one that hangs on this mutation.
        hub.requireHello()
        return nil
    }

    /// The hub accepted the request and left mutations without a verdict: their outcome is unknown, so they stay in flight.
    mutating func failUnanswered() -> NextPhase {
        fail(HubReply.Refusal(.nonsense, "the hub's answer settled none of the sent mutations"))
    }

    /// A backend's answer without results. One request is never too large a batch, so there is no search.
    mutating func failWithoutResults(_ refusal: HubReply.Refusal?) -> NextPhase {
        fail(refusal ?? HubReply.Refusal(.nonsense, "the outcome of the sent mutations is still unknown"))
    }

    /// The store failed: a full disk or a damaged page. Nothing was changed, so the cycle just ends; the store reports it in status. An
    /// answer of the wrong kind is a fault in this program, which the cycle survives without harm.
    mutating func fail(_ answer: StoreAnswer) -> NextPhase {
        if case .failed(let text) = answer { return fail("the store could not: \(text)", retry: .seconds(30)) }
        return fail("the store gave an answer of another kind", retry: .seconds(30))
    }

    mutating func fail(
        _ detail: String, kind: HubReply.Kind? = nil, cause: FailureCause = .none, retry: Duration, asked: Duration? = nil,
        ceiling: Duration = .seconds(3600)
    ) -> NextPhase {
        nextCycle.cycleFailed(isAskedFor: cycle?.isAskedFor ?? false)
        durable.recordFailure(detail, at: now.wall)
        let error = memory.lastError
        cycle?.outcome.error = error
        cycle?.outcome.errorKind = kind
        let delay = asked.map { Backoff.honouring($0, over: retry, ceiling: ceiling, using: &random) } ?? retry
        // A delay that a device in between asked for is like any other: only the server itself can forbid a requested attempt.
        let isAskedByServer = asked != nil && cause != .between
        pressure.recordFailure(cause, until: now.instant.advanced(by: delay), isAskedByServer: isAskedByServer, at: now)
        durable.holdUntil(isAskedByServer ? pressure.retryAt : nil)
        return .close
    }

    // MARK: Causes and delays

    func cause(of refusal: HubReply.Refusal) -> FailureCause {
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
        case .foreign: refusal.isProxyError ? .degraded : .captive
        case .auth, .blocked: .auth
        case .overloaded, .failed, .malformed, .tooLarge, .encoding:
            // Without the hub's own headers a proxy has answered: the hub itself is not reachable.
            refusal.facts?.version == nil ? .degraded : .online
        case .nonsense, .incompatible, .regressed, .gone: .online
        }
    }

    mutating func delay(after refusal: HubReply.Refusal) -> Duration {
        let failures = memory.failures + 1
        switch refusal.kind {
        // A proxy without a server behind it, as during an update; handled like 502.
        case .foreign where refusal.isProxyError: return settings.backoff.delay(afterFailures: failures, using: &random)
        // A portal is checked every half minute at first and every five minutes later; credentials are not sent to it.
        case .foreign: return spread(.seconds(30), doublings: failures - 1, cap: .seconds(300))
        case .auth, .transport(.credentials), .transport(.clientCertificate):
            return spread(.seconds(60), doublings: failures - 1, cap: .seconds(900))
        case .blocked, .misconfigured, .incompatible: return spread(.seconds(900), doublings: 0, cap: .seconds(900))
        case .transport, .nonsense, .malformed, .tooLarge, .encoding, .regressed, .gone, .overloaded, .failed:
            return settings.backoff.delay(afterFailures: failures, using: &random)
        }
    }

    private mutating func spread(_ first: Duration, doublings: Int, cap: Duration) -> Duration {
        let whole = min(cap, first * (1 << min(max(doublings, 0), 10)))
        return random.duration(from: whole * 3 / 4, to: whole)
    }

    // MARK: Ends without failure

    /// Nothing may be sent any more: sync was paused, the link went down, or it costs too much now. That is no failure; the next cycle
    /// continues.
    mutating func halt() -> NextPhase {
        if !conditions.hasLink {
            cycle?.outcome.error = "the link went down"
        } else if isPaused {
            cycle?.outcome.error = "paused"
        } else {
            let reason = allowed.deferral?.reason.sentence
            cycle?.outcome.error = reason.map { "not now: " + $0 } ?? "not now"
        }
        trigger(.again(at: now.instant))
        return .close
    }

    /// Ends the cycle with work left, because it has no time or requests left, or was only a trial.
    mutating func goOnLater() -> NextPhase {
        var next = pressure.nextRequestAt(now.instant)
        // The whole fleet notices at the same time that the hub works again.
        if cycle?.isTrial == true {
            next = max(next, now.instant.advanced(by: random.duration(from: .zero, to: hub.spread)))
            trigger(.spread(until: next))
        }
        trigger(.again(at: next))
        if cycle?.owesPull == true, let request = cycle?.outcome.request {
            // Its callers are to see what others wrote before they asked.
            handOn(request, because: .readOwed)
        }
        return .keepHouse
    }

    /// Leaves a part of the work of this cycle to the next one, with the request that it serves. The callers of the request wait for that
    /// one.
    ///
    /// The caller says when the next cycle begins.
    mutating func handOn(_ request: SyncRequest?, because reason: CycleOutcome.Interruption) {
        cycle?.outcome.interruption = reason
        if let request { nextCycle.add(request) }
    }

    // MARK: Another attempt

    /// Allows an attempt because the cause of the failure was changed. A delay that the server itself asked for still holds.
    mutating func tryAgain() {
        durable.forgiveFailures()
        pressure.tryAgain(keepsServersDelay: memory.notBefore != nil, at: now)
    }

    /// Applies a configuration that was read again, with an immediate attempt.
    mutating func apply(_ settings: SyncEngine.Settings) {
        self.settings = settings
        pressure.apply(settings)
        hub.requireHello()
        endWait()
        if durable.recordServer(settings.server) {
            news.serverIsNew()
            pressure.endDelays()
            closeBreaker()
        }
        guard pressure.failureCause != .none || memory.failures > 0 else {
            return trigger(.again(at: now.instant.advanced(by: .seconds(1))))
        }
        tryAgain()
    }
}

extension HubReply.Refusal {
    /// The request itself may be the reason, so that a smaller one should be tried.
    fileprivate var mayLieInBatch: Bool {
        switch kind {
        case .malformed, .tooLarge, .failed, .nonsense, .transport(.timedOut), .transport(.tooLarge): true
        // The request did not arrive in time; a smaller one may.
        case .overloaded: status == 408
        case .transport, .foreign, .auth, .blocked, .misconfigured, .incompatible, .encoding, .regressed, .gone: false
        }
    }

    /// An error of a device in between, not a portal's page.
    fileprivate var isProxyError: Bool {
        status.map { (400...499).contains($0) } ?? false
    }
}
