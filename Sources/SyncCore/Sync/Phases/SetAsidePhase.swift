/// Sets aside the one mutation, or the one atomic list, that the hub cannot process. If the hub says that it will never fit, that is its
/// verdict. Otherwise it is tried again alone, later, a limited number of times.
package struct SetAsidePhase: Hashable, Sendable {
    private enum Step: Hashable, Sendable {
        /// The hub's verdict is recorded.
        case rejecting
        /// The value is the failure that ends the cycle afterwards, unless it is known that other work succeeds.
        case returning(Failure?)
    }

    private struct Failure: Hashable, Sendable {
        var refusal: HubReply.Refusal
        var cause: FailureCause
        var retry: Duration
    }

    private var step = Step.returning(nil)

    mutating func begin(_ batch: Batch, _ refusal: HubReply.Refusal, _ state: inout SyncState) -> NextPhase {
        guard let poison = batch.mutations.first else { return .wait }
        state.report(.setAside(poison.key, detail: Printable.text(refusal.detail)))
        // Only the hub itself can say that a mutation will never fit. A proxy with a lower limit may be replaced tomorrow.
        let isHubs = refusal.facts?.version != nil
        if refusal.kind == .tooLarge, isHubs {
            let problem = refusal.problem ?? Problem("too-large", status: 413, detail: refusal.detail)
            step = .rejecting
            state.ask(.applyResults(batch.mutations.map { PushResult(key: $0.key, verdict: .rejected(problem, current: nil)) }, next: nil))
            return .wait
        }
        let problem = refusal.problem ?? Problem("failed-alone", status: 0, detail: refusal.detail)
        // When the fault may be the hub's, every step of the search waits like any failure. Silence is never the mutation's fault: a tunnel
        // is silent, too.
        let isItsFault = state.sizes.setAside(poison.key)
        let failure = Failure(refusal: refusal, cause: state.cause(of: refusal), retry: state.delay(after: refusal))
        step = .returning(isItsFault && refusal.facts?.asked == nil ? nil : failure)
        // Neither silence nor a request that did not arrive in time (408) says anything about the content.
        let isSlow = refusal.kind == .transport(.timedOut) || refusal.status == 408
        state.ask(.setAside(poison.key, problem, counts: isItsFault && !isSlow && (refusal.kind != .tooLarge || isHubs)))
        return .wait
    }

    func handle(_ answer: StoreAnswer, _ state: inout SyncState) -> NextPhase {
        switch step {
        case .rejecting:
            guard case .resultsApplied(let summary, _) = answer else { return state.fail(answer) }
            return state.settled(state.record(summary))
        case .returning(let failure):
            guard case .done = answer else { return state.fail(answer) }
            guard let failure else { return .settle }
            return state.fail(
                failure.refusal.detail, kind: failure.refusal.kind, cause: failure.cause, retry: failure.retry,
                asked: failure.refusal.facts?.asked)
        }
    }
}
