// Failures of the hub that count for the breaker, and the probe that replaces a cycle (PROTOCOL G3).
extension SyncState {
    /// Records a call without a usable answer.
    mutating func count(_ refusal: HubReply.Refusal, hasBatch: Bool) {
        switch refusal.kind {
        // These say nothing about the hub: our own credentials, a portal, an answer that made no sense.
        case .transport(.credentials), .transport(.clientCertificate), .transport(.cancelled), .foreign, .nonsense: return
        // A hub that fails over one batch may accept everything else: one mutation must not stop the others.
        case .failed where refusal.facts?.version != nil && hasBatch: return
        // The hub has answered, but with too much: a smaller batch gets a shorter answer.
        case .transport(.tooLarge) where hasBatch && cycle?.wasAnswered == true: return
        case .transport, .failed: breakerFailed()
        case .overloaded where refusal.status.map { $0 >= 500 } ?? true: breakerFailed()
        case .overloaded, .auth, .blocked, .misconfigured, .incompatible, .malformed, .tooLarge, .encoding, .regressed, .gone:
            // Only an answer of the hub itself proves that it works, not that of a proxy before it.
            if refusal.facts?.version != nil { closeBreaker() }
        }
    }

    private mutating func breakerFailed() {
        let isMetered = conditions.uplink?.isMetered ?? false
        breakerChanged(pressure.breakerFailed(at: now.instant, isMetered: isMetered, using: &random))
    }

    mutating func closeBreaker() {
        breakerChanged(pressure.closeBreaker())
    }

    /// Ends the trial after a successful push or pull.
    mutating func endTrial() {
        if pressure.breaker.state == .halfOpen { closeBreaker() }
    }

    private mutating func breakerChanged(_ change: SyncReport?) {
        durable.recordBreaker(pressure.breaker.state)
        report(change)
    }

    // MARK: Probes

    mutating func probeIfDue() {
        if let end = pressure.probeEndsAt {
            guard end <= now.instant else { return }
            pressure.giveUpProbe()
            breakerFailed()
        }
        guard let due = probeDueAt(now), due <= now.instant else { return }
        let id = calls.next()
        pressure.beginProbe(id, at: now.instant)
        append(.probe(id))
    }

    mutating func probed(_ id: UInt64, isGood: Bool) {
        guard pressure.endProbe(id) else { return }
        guard isGood else { return breakerFailed() }
        breakerChanged(pressure.recordGoodProbe(at: now))
    }

    /// Time of the next wake-up for a probe, as if there were no pause.
    func probeWakeAt(_ moment: Moment) -> Instant? {
        pressure.probeEndsAt ?? probeDueAt(moment, despitePause: true)
    }

    /// Where nothing could be sent afterwards, no probe is made.
    private func probeDueAt(_ moment: Moment, despitePause: Bool = false) -> Instant? {
        guard let planned = pressure.probeAt else { return nil }
        return allowance(at: moment, despitePause: despitePause, despiteBreaker: true).isNothing ? nil : planned
    }
}
