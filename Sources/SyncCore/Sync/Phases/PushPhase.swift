/// Claims a batch (a commit), sends it, and records the verdicts (a commit, which claims the next one too).
package struct PushPhase: Hashable, Sendable {
    private enum Step: Hashable, Sendable {
        /// The value is the least urgent priority that is allowed.
        case claiming(Priority)
        case pushing(Batch, call: UInt64)
        /// `next` is the least priority of the batch that is claimed in the same transaction, if there is one, and `head` that of the hub.
        /// The refusal ends the cycle afterwards.
        case recording(next: Priority?, head: Int64?, HubReply.Refusal?)
    }

    private var step = Step.claiming(.bulk)

    var call: UInt64? { if case .pushing(_, let call) = step { call } else { nil } }
    var batch: Batch? { if case .pushing(let batch, _) = step { batch } else { nil } }

    mutating func begin(_ state: inout SyncState) -> NextPhase {
        guard state.cycle?.scope != .pull else {
            guard state.cycle?.owesPull == true else { return .keepHouse }
            state.cycle?.owesPull = false
            return .pullOrPush
        }
        // Before the claim, because a claimed mutation counts as sent.
        if state.isHalted { return state.halt() }
        if state.pressure.hasNoRequestsLeft {
            state.nextCycle.pushFirst()
            return state.goOnLater()
        }
        guard let limits = state.limits else { return .keepHouse }
        step = .claiming(limits.leastPriority)
        state.ask(.claim(limits))
        return .wait
    }

    mutating func handle(_ answer: StoreAnswer, _ state: inout SyncState) -> NextPhase {
        switch step {
        case .claiming(let least):
            guard case .batch(let batch, let retryAt, let withheld) = answer else { return state.fail(answer) }
            state.recordRetry(retryAt)
            return claimed(batch, withheld, downTo: least, &state)
        case .recording(let least, let head, let refusal):
            guard case .resultsApplied(let summary, let next) = answer else { return state.fail(answer) }
            if let head { state.hub.recordOwnCommits(summary.commits, upTo: head) }
            let verdicts = state.record(summary)
            if let refusal { return state.fail(refusal) }
            if verdicts == 0 { return state.failUnanswered() }
            guard let least else { return state.isHalted ? state.halt() : state.goOnLater() }
            return claimed(next, summary.withheld, downTo: least, &state)
        case .pushing: return state.fail(answer)
        }
    }

    private mutating func claimed(
        _ batch: Batch?, _ withheld: WithheldWork, downTo least: Priority, _ state: inout SyncState
    ) -> NextPhase {
        state.withheld.found(withheld, downTo: least)
        guard let batch else {
            state.watchdog.drained(downTo: least)
            return Self.end(&state)
        }
        state.marks.recordSent(batch)
        // The verdict may have changed while the store claimed the batch. The batch counts as sent; the next allowed cycle settles it.
        guard state.mayGo(batch), let call = state.push(batch, as: .push) else { return state.halt() }
        step = .pushing(batch, call: call)
        return .wait
    }

    /// Nothing is left to push.
    private static func end(_ state: inout SyncState) -> NextPhase {
        guard let cycle = state.cycle else { return .wait }
        if cycle.isTrial, cycle.scope != .push {
            // Without anything to push, a pull is the trial.
            state.cycle?.isTrial = false
            return .pullOrPush
        }
        if cycle.owesPull {
            state.cycle?.owesPull = false
            return .pullOrPush
        }
        if !cycle.conflicted.isEmpty, !cycle.hasPulledForConflicts, state.allowed.pull != nil {
            state.cycle?.hasPulledForConflicts = true
            return .pull
        }
        return .keepHouse
    }

    /// Handles the results of a batch. The store ignores and counts results for keys that were not sent.
    ///
    /// - Parameter refusal: The reason to send no more after it.
    mutating func handle(
        _ verdicts: Verdicts, _ refusal: HubReply.Refusal?, after trip: Duration, _ state: inout SyncState
    ) throws(ReplyError) -> NextPhase {
        guard let batch else { return .wait }
        let next: BatchLimits?
        var head: Int64?
        switch verdicts {
        case .hub(let response):
            try response.check(against: batch)
            state.endTrial()
            head = response.head
            state.sizes.recordSuccess(of: batch, after: trip, growing: true)
            // A mutation without a verdict is still in flight: the next cycle settles it.
            if !response.covers(batch) { state.trigger(.again(at: state.now.instant)) }
            next = Self.limits(after: refusal, state)
            state.ask(
                .applyResults(
                    state.marked(response.results), next: next, standing: state.stand(at: response.head),
                    writtenUnder: state.durable.recordVerdicts(response.results)))
        case .backend(let results):
            guard !results.isEmpty else { return state.failWithoutResults(refusal) }
            let counted = state.judge(results, of: batch)
            next = Self.limits(after: refusal, state)
            state.ask(.applyRest(counted, next: next))
        }
        step = .recording(next: next?.leastPriority, head: head, refusal)
        return .wait
    }

    /// Limits of the batch that is claimed together with the results; `nil` when none is.
    private static func limits(after refusal: HubReply.Refusal?, _ state: SyncState) -> BatchLimits? {
        refusal != nil || state.mustEnd || state.isHalted ? nil : state.limits
    }
}

extension PushResponse {
    /// Returns whether each mutation of the batch has a verdict. An answer may have as many for others instead.
    func covers(_ batch: Batch) -> Bool {
        let answered = Set(results.map(\.key))
        return batch.mutations.allSatisfy { answered.contains($0.key) }
    }

    /// An answer without a single verdict about the batch counts as no answer.
    func check(against batch: Batch) throws(ReplyError) {
        let sent = Set(batch.mutations.map(\.key))
        guard results.contains(where: { sent.contains($0.key) }) else {
            throw ReplyError("/results", "a result for at least one mutation that was sent")
        }
    }
}

extension SyncState {
    /// A failure counts for a mutation only if the backend has accepted another one since the last failure: a backend that fails for
    /// everything must not use up the attempts of mutations.
    mutating func judge(_ results: [RestResult], of batch: Batch) -> [RestResult] {
        for result in results {
            switch result.verdict {
            case .accepted, .moved, .rejected:
                let alone = batch.mutations.filter { $0.key == result.key }
                sizes.recordSuccess(of: Batch(mutations: alone, ackedSeq: 0, maxSentSeq: 0), after: .zero, growing: false)
            case .retry, .notSent, .unsure, .held: continue
            }
        }
        var judged: [RestResult] = []
        for result in results {
            if case .unsure(let problem, let after, counts: true) = result.verdict {
                judged.append(RestResult(result.key, .unsure(problem, after: after, counts: sizes.setAside(result.key))))
            } else {
                judged.append(result)
            }
        }
        return judged
    }
}
