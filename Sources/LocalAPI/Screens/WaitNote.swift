package import SyncCore

/// The message of `--wait` when the wait has ended and the work has not: nothing is lost, the reason of the wait, and its end.
package enum WaitNote {
    /// - Parameter why: The explanation; `nil` when there is none, because the agent is older or the peer may not ask.
    /// - Returns: One line.
    package static func enqueued(
        _ answer: EnqueueAnswer, why: WhyAnswer?, now: Timestamp, offset: Duration = .zero
    ) -> String {
        let safe = answer.durability == .relaxed ? "it is on flash within a second" : "it is safe on flash"
        let text: String
        switch MutationState(name: answer.state) {
        case .rejected?, .failed?, .held?:
            text = "it is kept on flash; \(why?.sentence ?? "a person has to decide"); see: agentctl rejected show \(answer.id)"
        case .cancelled?, .discarded?, .expired?: text = "it was not sent, and will not be: \(answer.state)"
        case .done?, .resolved?, .coalesced?, .superseded?: text = "it is settled: \(answer.state)"
        case .pending?, .inFlight?, .conflicted?, nil:
            let reason = why.map { $0.sentence + until($0, now, offset) }
            text = safe + "; " + (reason ?? "agentctl mutations show \(answer.id) shows its state")
        }
        return PlainText.safe(text)
    }

    private static func until(_ why: WhyAnswer, _ now: Timestamp, _ offset: Duration) -> String {
        guard let until = why.until else { return "" }
        // The agent's sentence may contain the end itself.
        let clock = PlainText.clock(until, now: now, offset: offset)
        if why.sentence.contains(until.description) || why.sentence.contains(clock) { return "" }
        return "; until " + clock + left(until, now)
    }

    /// The reason why a requested cycle has not run, from the status right after the request.
    ///
    /// - Parameter isForced: It was requested with `--force`, so the message does not suggest that.
    /// - Returns: One line.
    package static func sync(
        _ document: StatusDocument, isForced: Bool, now: Timestamp, offset: Duration = .zero
    ) -> String {
        let hold = hold(document, now, offset)
        let advice = hold.yieldsToForce && !isForced ? "; \(force) overrides that" : ""
        return PlainText.safe(hold.text + advice)
    }

    private static let force = "agentctl sync --force"

    private struct Hold {
        var text: String
        var yieldsToForce = false
    }

    /// The present obstacle, in the order in which the agent itself asks: first what stops everything, last the policy.
    private static func hold(_ document: StatusDocument, _ now: Timestamp, _ offset: Duration) -> Hold {
        func clock(_ time: Timestamp) -> String { PlainText.clock(time, now: now, offset: offset) }
        let sync = document.sync
        if let pause = sync.pause {
            let end = pause.until.map { "until " + clock($0) + left($0, now) } ?? "until it is resumed"
            let reason = pause.reason.isEmpty ? "" : " (\(pause.reason))"
            return Hold(text: "the sync is paused \(end)\(reason): agentctl resume")
        }
        if !["idle", "waiting", "unknown"].contains(sync.phase) {
            return Hold(text: "the cycle is still running (\(sync.phase)); to follow it: agentctl status")
        }
        if let notBefore = sync.notBefore, notBefore > now {
            return Hold(
                text: "the hub asked not to be called until \(clock(notBefore))\(left(notBefore, now)), not even by a forced sync")
        }
        if let cause = document.cause {
            let end = cause.until.map { "; until \(clock($0))\(left($0, now))" } ?? ""
            let yields = cause.command == Self.force
            return Hold(text: cause.sentence + end + (yields ? "" : "; \(cause.command)"), yieldsToForce: yields)
        }
        // An older agent names no cause.
        let next = sync.nextAt.flatMap { $0 > now ? "; next try at \(clock($0))\(left($0, now))" : nil } ?? ""
        switch Reachability(rawValue: document.connectivity.state) {
        case .offline?: return Hold(text: sentence("offline") + "; it goes when one is up")
        case .captive?:
            let portal = document.connectivity.portalURL.map { "; log in at " + $0 } ?? ""
            return Hold(text: sentence("captive") + portal + next)
        case .auth?: return Hold(text: sentence("auth") + next)
        case .connecting?, .degraded?, .online?, nil: break
        }
        if sync.breaker == "open" { return Hold(text: sentence("breaker") + next) }
        if sync.attempt > 0 {
            let error = sync.lastError.map { " (\($0))" } ?? ""
            let tries = sync.attempt == 1 ? "the last attempt failed" : "the last \(sync.attempt) attempts failed"
            return Hold(text: tries + error + next, yieldsToForce: true)
        }
        // Waiting work of the outbox first; without any, the policy's verdict on any class.
        if let wait = document.outbox.deferred.first {
            let end = wait.until.map { ", until " + clock($0) + left($0, now) } ?? ""
            let event = wait.event.map { (wait.until == nil ? "; " : " or ") + $0 } ?? ""
            return Hold(text: sentence(wait.reason) + end + event, yieldsToForce: yieldsToForce(wait.reason))
        }
        for verdict in document.verdicts {
            guard case .deferred(let reason, let until) = verdict.verdict else { continue }
            let end = until.map { ", until " + clock($0) + left($0, now) } ?? ""
            return Hold(text: "\(verdict.name) waits: " + sentence(reason) + end, yieldsToForce: yieldsToForce(reason))
        }
        return Hold(text: "the cycle has not ended yet\(next); to follow it: agentctl status")
    }

    /// Returns whether `--force` overrides this reason (PROTOCOL B6, F): never a delay of the hub, credentials or a hard budget.
    package static func yieldsToForce(_ reason: String) -> Bool {
        switch Deferral.Reason(rawValue: reason) {
        case .backoff?, .lowBattery?, .batterySaver?, .metered?, .roaming?, .window?: true
        case .offline?, .captive?, .degraded?, .auth?, .paused?, .breaker?, .budget?, .order?, .dependency?, .conflict?,
            .blobWait?, nil:
            false
        }
    }

    /// A code of a newer agent is shown unchanged.
    private static func sentence(_ reason: String) -> String {
        Deferral.Reason(rawValue: reason)?.sentence ?? reason
    }

    private static func left(_ time: Timestamp, _ now: Timestamp) -> String {
        time > now ? " (in \(DurationText.readable(now.duration(to: time))))" : ""
    }
}
