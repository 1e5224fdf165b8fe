// The engine's part of the breaker: failures of the hub that count, and the probe that replaces a cycle (PROTOCOL G3).
extension SyncEngine {
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
        breakerChanged(
            pressure.breakerFailed(at: moment.instant, isMetered: conditions.uplink?.isMetered ?? false, using: &random), &effects)
    }

    mutating func closeBreaker(_ effects: inout [SyncEffect]) {
        breakerChanged(pressure.closeBreaker(), &effects)
    }

    /// Ends the trial after a successful push or pull.
    mutating func endTrial(_ effects: inout [SyncEffect]) {
        if breaker.state == .halfOpen { closeBreaker(&effects) }
    }

    private mutating func breakerChanged(_ report: SyncReport?, _ effects: inout [SyncEffect]) {
        durable.recordBreaker(breaker.state)
        if let report { effects.append(.report(report)) }
    }

    // MARK: Probes

    mutating func probeIfDue(at moment: Moment, _ effects: inout [SyncEffect]) {
        if let end = pressure.probeEndsAt {
            guard end <= moment.instant else { return }
            pressure.giveUpProbe()
            breakerFailed(at: moment, &effects)
        }
        guard let due = probeDueAt(at: moment), due <= moment.instant else { return }
        let id = calls.next()
        pressure.beginProbe(id, at: moment.instant)
        effects.append(.probe(id))
    }

    mutating func probed(_ id: UInt64, isGood: Bool, at moment: Moment, _ effects: inout [SyncEffect]) {
        guard pressure.endProbe(id) else { return }
        guard isGood else { return breakerFailed(at: moment, &effects) }
        breakerChanged(pressure.recordGoodProbe(at: moment), &effects)
    }

    func probeWakeAt(at moment: Moment, despitePause: Bool) -> Instant? {
        pressure.probeEndsAt ?? probeDueAt(at: moment, despitePause: despitePause)
    }

    /// Where nothing could be sent afterwards, no probe is made.
    private func probeDueAt(at moment: Moment, despitePause: Bool = false) -> Instant? {
        guard let planned = pressure.probeAt else { return nil }
        return allowance(at: moment, despitePause: despitePause, despiteBreaker: true).isNothing ? nil : planned
    }
}
