// Sends batches and records the verdicts.
extension SyncEngine {
    mutating func push(
        _ batch: Batch, as kind: HubCall.Kind, at moment: Moment, _ effects: inout [SyncEffect], _ step: (UInt64) -> Step
    ) {
        send(kind, settings.dialect.push(batch, config: settings.configVersion), at: moment, &effects, step)
    }

    /// Handles the results of a batch. The store ignores and counts results for keys that were not sent.
    ///
    /// - Parameter refusal: The reason to send no more after it.
    mutating func heard(
        _ verdicts: Verdicts, of batch: Batch, _ refusal: HubReply.Refusal?, after trip: Duration, at moment: Moment,
        _ effects: inout [SyncEffect]
    ) throws(ReplyError) {
        let isSettled = calls.kind == .settle
        let known: Verdicts
        switch verdicts {
        case .hub(let response):
            try check(response, against: batch)
            endTrial(&effects)
            if !isSettled { cycle?.pushedHead = response.head }
            sizes.recordSuccess(of: batch, after: trip, growing: !isSettled)
            // A mutation without a verdict is still in flight: the next cycle settles it.
            if !isSettled, response.results.count < batch.mutations.count {
                pressure.wish(.again(at: moment.instant), at: moment.instant)
            }
            known = verdicts
        case .backend(let results):
            guard !results.isEmpty else {
                // One request is never too large a batch, so there is no search.
                advance(to: .settingAside(nil))
                let nothing = refusal ?? HubReply.Refusal(.nonsense, "nothing became known of what was sent")
                return failed(nothing, at: moment, &effects)
            }
            known = .backend(judge(results, of: batch))
        }
        let mayGoOn = refusal == nil && !isSettled && !mustEnd(at: moment) && !isHalted(at: moment)
        let next = mayGoOn ? limits(at: moment) : nil
        advance(to: .recording(Recording(isSettled: isSettled, next: next?.leastPriority, refusal: refusal)))
        switch known {
        case .hub(let response):
            effects.append(.store(.applyResults(response.results, next: next, standing: stand(at: response.head))))
        case .backend(let results): effects.append(.store(.applyRest(results, next: next)))
        }
    }

    /// An answer without a single verdict about the batch counts as no answer.
    private func check(_ response: PushResponse, against batch: Batch) throws(ReplyError) {
        let sent = Set(batch.mutations.map(\.key))
        guard response.results.contains(where: { sent.contains($0.key) }) else {
            throw ReplyError("/results", "a result for at least one mutation that was sent")
        }
    }

    /// A failure counts for a mutation only if the backend has accepted another one since the last failure: a backend that fails for
    /// everything must not use up the attempts of mutations.
    private mutating func judge(_ results: [RestResult], of batch: Batch) -> [RestResult] {
        for result in results {
            switch result.verdict {
            case .accepted, .moved, .rejected:
                let alone = batch.mutations.filter { $0.key == result.key }
                sizes.recordSuccess(of: Batch(mutations: alone, ackedSeq: 0, maxSentSeq: 0), after: .zero, growing: false)
            case .retry, .notSent, .unsure, .held: continue
            }
        }
        return results.map { result in
            guard case .unsure(let problem, let after, counts: true) = result.verdict else { return result }
            return RestResult(result.key, .unsure(problem, after: after, counts: sizes.setAside(result.key)))
        }
    }

    mutating func recorded(
        _ recording: Recording, _ summary: ResultsSummary, _ next: Batch?, at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        if !recording.isSettled, let head = cycle?.pushedHead { hub.recordOwnCommits(summary.commits, upTo: head) }
        record(summary, at: moment)
        if let refusal = recording.refusal { return failed(refusal, at: moment, &effects) }
        // Nothing was settled, so asking again would repeat the same question.
        if cycle?.verdicts == 0 { return unanswered(at: moment, &effects) }
        if recording.isSettled {
            // Nothing may be pulled or pushed before everything is settled; the next cycle continues with that.
            if mustEnd(at: moment) { return goOnLater(at: moment, &effects) }
            return loadInFlight(at: moment, &effects)
        }
        guard let least = recording.next else {
            if isHalted(at: moment) { return halt(at: moment, &effects) }
            return goOnLater(at: moment, &effects)
        }
        withheld.found(summary.withheld, downTo: least)
        if next == nil { watchdog.drained(downTo: least) }
        pushOrEnd(next, at: moment, &effects)
    }
}
