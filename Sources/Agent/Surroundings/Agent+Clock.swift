import LocalAPI
import Logging
import SyncCore
import SyncStore

// Determines the time (PROTOCOL A11) by the hub's answers, and before the first of them by the kernel.
extension Agent {
    /// Passes the engine's anchor to the store. This comes before the engine's effects, so that the content of an answer is stored by the
    /// time that the answer brings.
    func tellAnchor() {
        switch around.clock.handle(engine.anchor) {
        case .anchor(let anchor): learn(anchor)
        case .lost: lookAtClock()
        case nil: break
        }
    }

    /// Uses a synchronised system clock before the hub has answered.
    func lookAtClock() {
        guard around.clock.needsKernel else { return }
        let isRight = environment.wallIsSynchronised()
        guard around.clock.kernelFound(isSynchronised: isRight) else { return }
        fromStore { store, now throws(StoreError) in
            store.clockTrust = isRight ? .synced : .unsynced
            // Mutations that were made earlier in this boot can be dated as well.
            if isRight { try store.learn(ClockAnchor(wall: now, error: .milliseconds(500)), at: now) }
        } then: { agent, result in
            let found = isRight ? "the clock is synchronized" : "the clock is not synchronized yet"
            agent.log.notice("\(found)", metadata: ["trusted": "\(isRight)"])
            if case .failure(let error) = result {
                agent.log.warning("the time was not stored", metadata: ["error": "\(error)"])
            }
        }
    }

    private func learn(_ anchor: ClockAnchor) {
        fromStore { store, now throws(StoreError) in
            try store.learn(anchor, at: now)
        } then: { agent, result in
            guard case .failure(let error) = result else { return }
            agent.around.clock.forget()
            agent.log.warning("the time was not stored", metadata: ["error": "\(error)"])
        }
    }

    /// `true` when no source confirms that our clock is right.
    var isClockUnsynced: Bool { around.clock.needsKernel && !environment.wallIsSynchronised() }

    /// Reports that the hub's time is not believed, or is believed again (`ClockRule.swift`).
    func recordHubTime(_ verdict: ClockOffset.Verdict) {
        let code = AlarmCode.hubClock
        switch verdict {
        case .accepted:
            guard alarms.end(code) else { return }
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

    /// Reports a certificate that is invalid by an untrusted clock, which says nothing about the hub.
    func reportCertificateDate(_ answer: HubAnswer) {
        let code = AlarmCode.clockSuspect
        switch answer.result {
        case .failure(let error) where error.code == .untrustedDate && isClockUnsynced:
            guard alarms[code] == nil else { return }
            let wall = environment.time.now().wall
            raise(
                code,
                "the local clock is not synchronized, and the hub's certificate is not valid at \(wall): \(error.detail); "
                    + "check the clock: timedatectl")
        case .failure: return
        case .success: alarms.end(code)
        }
    }
}
