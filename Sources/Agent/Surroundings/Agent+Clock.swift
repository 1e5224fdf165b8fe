import LocalAPI
import Logging
import SyncCore
import SyncStore

// What time it is (PROTOCOL A11): the hub's answers say it, and before the first of them the kernel may.
extension Agent {
    /// Tells the store what the engine has learned of the time. Before the engine's own wishes, so that what an answer brings
    /// is stored by the clock that it brings.
    func tellAnchor() {
        if engine.anchor == nil, observed.anchor != nil {
            // Its few answers disagreed with a clock that the kernel keeps right since.
            observed.anchor = nil
            observed.wallIsSynchronised = nil
            lookAtClock()
        }
        guard let anchor = engine.anchor, anchor.isNews(after: observed.anchor) else { return }
        observed.anchor = anchor
        learn(anchor)
    }

    /// Before the hub has said anything, a clock that somebody has put right meanwhile is good enough.
    func lookAtClock() {
        guard observed.anchor == nil else { return }
        let isRight = environment.wallIsSynchronised()
        guard isRight != observed.wallIsSynchronised else { return }
        observed.wallIsSynchronised = isRight
        store.run { store, now throws(StoreError) in
            store.clockTrust = isRight ? .synced : .unsynced
            // What was made before in this boot can be dated as well.
            if isRight { try store.learn(ClockAnchor(wall: now, error: .milliseconds(500)), at: now) }
        } completion: { [self] result in
            assumeIsolated { agent in
                agent.log.notice("the wall clock", metadata: ["trusted": "\(isRight)"])
                if case .failure(let error) = result {
                    agent.log.warning("what the time is was not written down", metadata: ["error": "\(error)"])
                }
            }
        }
    }

    private func learn(_ anchor: ClockAnchor) {
        store.run { store, now throws(StoreError) in
            try store.learn(anchor, at: now)
        } completion: { [self] result in
            guard case .failure(let error) = result else { return }
            assumeIsolated { agent in
                // Told again with the next answer.
                agent.observed.anchor = nil
                agent.log.warning("what the time is was not written down", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Nobody says that our clock is right.
    var isClockUnsynced: Bool { observed.anchor == nil && !environment.wallIsSynchronised() }

    /// The hub's time is not believed, or is again (`ClockRule.swift`).
    func noteHubTime(_ verdict: ClockOffset.Verdict) {
        let code = StatusDocument.Alarm.hubClock
        switch verdict {
        case .accepted:
            guard observed.attention.removeValue(forKey: code) != nil else { return }
            log.notice("the hub's time is used again")
        case .implausible(let time):
            raise(
                code,
                "the hub's clock shows \(time) (\(time.milliseconds) ms), which is not between \(Timestamp.plausible.lowerBound) and "
                    + "\(Timestamp.plausible.upperBound): its time is not used; check the clock of the hub: timedatectl")
        case .doubted(let time, let ahead):
            let side = ahead < .zero ? "behind" : "ahead of"
            raise(
                code,
                "the hub's clock shows \(time), \(ahead.magnitude.milliseconds / 1_000) s \(side) what is known: its time is not used "
                    + "before more answers agree with it; check the clocks of the hub and of this machine: timedatectl")
        }
    }

    /// A certificate that is out of date by a clock which nobody trusts says nothing about the hub.
    func noteCertificateDate(_ result: Result<HTTPResponse, TransportError>) {
        let code = "clock_suspect"
        switch result {
        case .failure(let error) where error.code == .untrustedDate && isClockUnsynced:
            guard observed.attention[code] == nil else { return }
            let wall = environment.time.now().wall
            raise(code, "the hub's certificate is not valid at \(wall), which is what our clock shows, and nobody vouches for it: \(error.detail)")
        case .failure: return
        case .success: observed.attention[code] = nil
        }
    }
}
