/// Sends mutations in flight again, unchanged, until their outcome is known.
package struct SettlePhase: Hashable, Sendable {
    private enum Step: Hashable, Sendable {
        case loading
        case settling(Batch, call: UInt64)
        /// The value is the refusal that ends the cycle afterwards.
        case recording(HubReply.Refusal?)
    }

    private var step = Step.loading

    var call: UInt64? { if case .settling(_, let call) = step { call } else { nil } }
    var batch: Batch? { if case .settling(let batch, _) = step { batch } else { nil } }

    mutating func begin(_ state: inout SyncState) -> NextPhase {
        if state.isHalted { return state.halt() }
        if state.pressure.hasNoRequestsLeft { return state.goOnLater() }
        guard let limits = state.limits, !state.ablations.contains(.settleSkipped) else { return .pullOrPush }
        state.ask(.loadInFlight(limits))
        return .wait
    }

    mutating func handle(_ answer: StoreAnswer, _ state: inout SyncState) -> NextPhase {
        switch step {
        case .loading:
            guard case .batch(let batch, let retryAt, _) = answer else { return state.fail(answer) }
            if let batch { return settle(batch, &state) }
            // A cycle that only pulls must not forget it; otherwise the claim has the newer value.
            if let retryAt { state.trigger(.due(at: state.instant(of: retryAt))) }
            return .pullOrPush
        case .recording(let refusal):
            guard case .resultsApplied(let summary, _) = answer else { return state.fail(answer) }
            let verdicts = state.record(summary)
            if let refusal { return state.fail(refusal) }
            return state.settled(verdicts)
        case .settling: return state.fail(answer)
        }
    }

    private mutating func settle(_ batch: Batch, _ state: inout SyncState) -> NextPhase {
        state.marks.recordSent(batch)
        guard state.mayGo(batch), let call = state.push(batch, as: .settle) else { return state.halt() }
        step = .settling(batch, call: call)
        return .wait
    }

    mutating func handle(
        _ verdicts: Verdicts, _ refusal: HubReply.Refusal?, after trip: Duration, _ state: inout SyncState
    ) throws(ReplyError) -> NextPhase {
        guard let batch else { return .wait }
        switch verdicts {
        case .hub(let response):
            try response.check(against: batch)
            state.endTrial()
            state.sizes.recordSuccess(of: batch, after: trip, growing: false)
            state.ask(
                .applyResults(
                    state.marked(response.results), next: nil, standing: state.stand(at: response.head),
                    writtenUnder: state.durable.recordVerdicts(response.results)))
        case .backend(let results):
            guard !results.isEmpty else { return state.failWithoutResults(refusal) }
            state.ask(.applyRest(state.judge(results, of: batch), next: nil))
        }
        step = .recording(refusal)
        return .wait
    }
}

extension SyncState {
    /// Goes on after results of mutations whose outcome was unknown.
    mutating func settled(_ verdicts: Int) -> NextPhase {
        // Nothing was settled, so asking again would repeat the same question.
        if verdicts == 0 { return failUnanswered() }
        // Nothing may be pulled or pushed before everything is settled; the next cycle continues with that.
        return mustEnd ? goOnLater() : .settle
    }
}
