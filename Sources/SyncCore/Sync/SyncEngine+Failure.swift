// What follows when a call brings no usable answer. No failure of a whole request ever changes the state of a mutation:
// what was sent stays in flight, and is settled when the hub can be reached again.
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
                // The whole request instead of one stream: then none of its cursors is of use.
                let expired = asked.filter { $0.cursor != nil }.map(\.entity)
                restart(startAgain(expired, at: moment, &effects), at: moment, &effects)
            } else if case .verifying(let position, _)? = cycle?.step {
                restart([position.entity], at: moment, &effects)
            } else if !readFailed(refusal, at: moment, &effects) {
                failed(refusal, at: moment, &effects)
            }
        default: if !readFailed(refusal, at: moment, &effects) { failed(refusal, at: moment, &effects) }
        }
    }

    mutating func failed(_ refusal: HubReply.Refusal, at moment: Moment, _ effects: inout [SyncEffect]) {
        let asked = refusal.facts?.asked
        noteFailedRead(refusal.kind)
        noteFailure(refusal, at: moment, &effects)
        if let batch = batchUnderWay, blames(refusal) {
            let isAnswerTooLarge = refusal.kind == .transport(.tooLarge)
            if refusal.status == 408, !settings.isRest { pace.up.broke() }
            // An answer beyond the limit may be a portal's as well, whatever was asked: certain is it of a hub that has answered in
            // this cycle. Otherwise the next one greets first, to know.
            let isCertain =
                refusal.kind == .malformed || refusal.kind == .tooLarge || refusal.status == 408
                || (isAnswerTooLarge && cycle?.wasAnswered == true)
            if isAnswerTooLarge, !isCertain { greetedAt = nil }
            if sizer.failed(batch, isCertain: isCertain, isAnswerTooLarge: isAnswerTooLarge), asked == nil {
                return loadInFlight(at: moment, &effects)
            }
            if sizer.isPoison(batch) {
                if refusal.kind != .transport(.timedOut) || cycle?.wasAnswered == true {
                    return setAside(batch, refusal, asked: asked, at: moment, &effects)
                }
                // Silence over one mutation: greet first next time, to tell a hub that is gone from one that hangs on this.
                greetedAt = nil
            }
        }
        hubIs(reachability(after: refusal), cause: Printable.text(refusal.detail), HubFault(refusal), &effects)
        endInFailure(
            refusal.detail, kind: refusal.kind, cause: cause(of: refusal), retry: delay(after: refusal), asked: asked,
            ceiling: refusal.problem?.code == "maintenance" ? .seconds(24 * 3600) : .seconds(3600), at: moment, &effects)
    }

    /// The one mutation that the hub cannot digest leaves the way of the others, or the one atomic list. If the hub says that
    /// it will never fit, that is its verdict; otherwise it is tried again alone, later, a limited number of times.
    private mutating func setAside(
        _ batch: Batch, _ refusal: HubReply.Refusal, asked: Duration?, at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        guard let poison = batch.mutations.first else { return }
        effects.append(.report(.setAside(poison.key, detail: Printable.text(refusal.detail))))
        // Only the hub itself can say that something will never fit. A proxy with a lower limit may be replaced tomorrow.
        let isHubs = refusal.facts?.version != nil
        if refusal.kind == .tooLarge, isHubs {
            let problem = refusal.problem ?? Problem("too-large", status: 413, detail: refusal.detail)
            let verdicts = batch.mutations.map { PushResult(key: $0.key, verdict: .rejected(problem, current: nil)) }
            advance(to: .recordingSettled)
            effects.append(.store(.applyResults(verdicts, next: nil)))
            return
        }
        let problem = refusal.problem ?? Problem("failed-alone", status: 0, detail: refusal.detail)
        // When the fault may be the hub's, every step of the search waits its turn like any failure. Silence is never the
        // mutation's fault: a tunnel is silent, too.
        let isItsFault = sizer.setAside(poison.key)
        let failure = Failure(
            detail: refusal.detail, kind: refusal.kind, cause: cause(of: refusal), retry: delay(after: refusal), asked: asked)
        advance(to: .settingAside(isItsFault && asked == nil ? nil : failure))
        // Neither silence nor a request that did not arrive in time (408) says anything about what was in it.
        let isSlow = refusal.kind == .transport(.timedOut) || refusal.status == 408
        let counts = isItsFault && !isSlow && (refusal.kind != .tooLarge || isHubs)
        effects.append(.store(.setAside(poison.key, problem, counts: counts)))
    }

    /// The hub took the request and left mutations without a verdict: their outcome is unknown, they stay in flight.
    mutating func unanswered(at moment: Moment, _ effects: inout [SyncEffect]) {
        failed(HubReply.Refusal(.nonsense, "the hub's answer settled nothing of what was sent"), at: moment, &effects)
    }

    mutating func endInFailure(
        _ detail: String, kind: HubReply.Kind? = nil, cause: FailureCause = .none, retry: Duration, asked: Duration? = nil,
        ceiling: Duration = .seconds(3600), at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        memory.failures += 1
        // One more attempt, and not one after each failure of a long outage.
        owesRequest = cycle?.isAskedFor ?? false
        failureCause = cause
        memory.lastError = Printable.text(detail)
        memory.lastErrorAt = moment.wall
        cycle?.outcome.error = memory.lastError
        cycle?.outcome.errorKind = kind
        let delay = asked.map { Backoff.honouring($0, over: retry, ceiling: ceiling, using: &random) } ?? retry
        let until = moment.instant.advanced(by: delay)
        // Nobody gets in by force with credentials that were refused (PROTOCOL B6); other ones may. What something between asked
        // for is a wait like any other: only the server itself can forbid an attempt that somebody wants.
        let isServersWish = asked != nil && cause != .between
        timer.holdBack(
            retryAt: until, notBefore: isServersWish || cause == .credentials ? until : nil, failedAt: moment.instant)
        showHold(at: moment)
        memory.notBefore = isServersWish ? retryAt : nil
        timer.wish(.again(at: until), now: moment.instant)
        saveOrFinish(at: moment, &effects)
    }

    /// What has failed may succeed now: somebody has changed what it failed over. What the server itself asked for still holds.
    mutating func tryAgain(at moment: Moment) {
        failureCause = .none
        memory.failures = 0
        timer.holdBack(retryAt: nil, notBefore: memory.notBefore == nil ? nil : timer.notBefore)
        timer.wish(.again(at: moment.instant), now: moment.instant)
        showHold(at: moment)
    }

    /// Somebody has read the configuration again, and wants to see what comes of it.
    mutating func settingsChanged(at moment: Moment, _ effects: inout [SyncEffect]) {
        if serverIs(settings.server) {
            timer.holdBack(retryAt: nil, notBefore: nil)
            closeBreaker(&effects)
        }
        guard failureCause != .none || memory.failures > 0 else {
            return timer.wish(.again(at: moment.instant.advanced(by: .seconds(1))), now: moment.instant)
        }
        tryAgain(at: moment)
    }

    /// What was learned of one server says nothing about another: neither its failures nor what it asked for.
    ///
    /// - Returns: Whether it is another one than before.
    @discardableResult
    mutating func serverIs(_ server: String) -> Bool {
        defer { if !server.isEmpty { memory.server = server } }
        guard !server.isEmpty, let before = memory.server, before != server else { return false }
        (memory.failures, memory.notBefore, memory.isBreakerOpen) = (0, nil, false)
        (memory.lastError, memory.lastErrorAt) = (nil, nil)
        return true
    }

    var batchUnderWay: Batch? {
        switch cycle?.step {
        case .settling(let batch, _), .pushing(let batch, _): batch
        default: nil
        }
    }

    /// Whether the request itself may be the reason, so that a smaller one is worth a try.
    private func blames(_ refusal: HubReply.Refusal) -> Bool {
        switch refusal.kind {
        case .malformed, .tooLarge, .failed, .nonsense, .transport(.timedOut), .transport(.tooLarge): true
        // It did not arrive in time: a smaller one may.
        case .overloaded: refusal.status == 408
        default: false
        }
    }

    private func cause(of refusal: HubReply.Refusal) -> FailureCause {
        switch refusal.kind {
        case .auth, .blocked, .transport(.credentials), .transport(.clientCertificate): .credentials
        case .transport, .foreign: .between
        case .nonsense, .misconfigured, .incompatible, .malformed, .tooLarge, .encoding, .regressed, .gone, .overloaded, .failed:
            // An existing backend has no header by which its answers could be told from a proxy's.
            settings.isRest || refusal.facts?.version != nil ? .server : .between
        }
    }

    private func reachability(after refusal: HubReply.Refusal) -> Reachability {
        switch refusal.kind {
        case .transport(.cancelled): hub
        case .transport(.credentials), .transport(.clientCertificate): .auth
        case .transport, .misconfigured: .degraded
        // A portal answers with a page or sends elsewhere; an error status is a proxy's, or a wrong server's.
        case .foreign: refusal.status.map { (400...499).contains($0) } ?? false ? .degraded : .captive
        case .auth, .blocked: .auth
        case .overloaded, .failed, .malformed, .tooLarge, .encoding:
            // Without the hub's own headers it was a proxy that spoke: the hub itself is not there.
            refusal.facts?.version == nil ? .degraded : .online
        case .nonsense, .incompatible, .regressed, .gone: .online
        }
    }

    private mutating func delay(after refusal: HubReply.Refusal) -> Duration {
        let failures = memory.failures + 1
        switch refusal.kind {
        // A proxy without a server behind it, as during an update: as 502 would be.
        case .foreign where refusal.status.map { (400...499).contains($0) } ?? false:
            return settings.backoff.delay(afterFailures: failures, using: &random)
        // A portal is looked at every half minute at first, every five minutes later; credentials are not offered to it.
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
