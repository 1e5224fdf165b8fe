// The engine's part of the breaker: failures of the hub that count, and the probe that replaces a cycle (PROTOCOL G3).
extension SyncEngine {
    /// Time without an answer after which a probe has failed.
    static let probePatience: Duration = .seconds(60)

    /// Records a call without a usable answer.
    mutating func noteFailure(_ refusal: HubReply.Refusal, at moment: Moment, _ effects: inout [SyncEffect]) {
        switch refusal.kind {
        // These say nothing about the hub: our own credentials, a portal, an answer that made no sense.
        case .transport(.credentials), .transport(.clientCertificate), .transport(.cancelled), .foreign, .nonsense: return
        // A hub that fails over one batch may accept everything else: one mutation must not stop the others.
        case .failed where refusal.facts?.version != nil && batchUnderWay != nil: return
        // The hub has answered, but with too much: a smaller batch gets a shorter answer.
        case .transport(.tooLarge) where batchUnderWay != nil && cycle?.wasAnswered == true: return
        case .transport, .failed: breakerFailed(at: moment, &effects)
        case .overloaded where refusal.status.map { $0 >= 500 } ?? true: breakerFailed(at: moment, &effects)
        case .overloaded, .auth, .blocked, .misconfigured, .incompatible, .malformed, .tooLarge, .encoding, .regressed, .gone:
            // Only an answer of the hub itself proves that it works, not that of a proxy before it.
            if refusal.facts?.version != nil { closeBreaker(&effects) }
        }
    }

    private mutating func breakerFailed(at moment: Moment, _ effects: inout [SyncEffect]) {
        let before = breaker.state
        breaker.failed(at: moment.instant, isMetered: conditions.uplink?.isMetered ?? false, using: &random)
        breakerChanged(from: before, &effects)
    }

    mutating func closeBreaker(_ effects: inout [SyncEffect]) {
        let before = breaker.state
        breaker.close()
        breakerChanged(from: before, &effects)
    }

    /// Ends the trial after a successful push or pull.
    mutating func endTrial(_ effects: inout [SyncEffect]) {
        if breaker.state == .halfOpen { closeBreaker(&effects) }
    }

    private mutating func breakerChanged(from before: Breaker.State, _ effects: inout [SyncEffect]) {
        durable.recordBreaker(breaker.state)
        guard breaker.state != before else { return }
        effects.append(.report(.breaker(from: before, to: breaker.state)))
    }

    // MARK: Probes

    mutating func probeIfDue(at moment: Moment, _ effects: inout [SyncEffect]) {
        if let under = probe {
            guard under.sent.duration(to: moment.instant) >= Self.probePatience else { return }
            probe = nil
            breakerFailed(at: moment, &effects)
        }
        guard let due = probeDueAt(at: moment), due <= moment.instant else { return }
        lastCallID += 1
        probe = Probe(id: lastCallID, sent: moment.instant)
        effects.append(.probe(lastCallID))
    }

    mutating func probed(_ id: UInt64, isGood: Bool, at moment: Moment, _ effects: inout [SyncEffect]) {
        guard probe?.id == id else { return }
        probe = nil
        guard breaker.state == .open else { return }
        guard isGood else { return breakerFailed(at: moment, &effects) }
        breaker.probed()
        breakerChanged(from: .open, &effects)
        // The probes were spread already; a delay that the hub asked for still holds.
        timer.holdBack(retryAt: nil, notBefore: timer.notBefore)
        showHold(at: moment)
        timer.wish(.again(at: moment.instant), now: moment.instant)
    }

    func probeWakeAt(at moment: Moment, despitePause: Bool) -> Instant? {
        probe.map { $0.sent.advanced(by: Self.probePatience) } ?? probeDueAt(at: moment, despitePause: despitePause)
    }

    /// Where nothing could be sent afterwards, no probe is made.
    private func probeDueAt(at moment: Moment, despitePause: Bool = false) -> Instant? {
        guard let planned = breaker.probeAt else { return nil }
        guard !allowance(at: moment, despitePause: despitePause, despiteBreaker: true).isNothing else { return nil }
        return max(planned, timer.notBefore ?? planned)
    }

    struct Probe: Hashable, Sendable {
        var id: UInt64
        var sent: Instant
    }
}
