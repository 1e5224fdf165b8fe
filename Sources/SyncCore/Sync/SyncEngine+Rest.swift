// Where the server is an existing backend (PROTOCOL A13). The cycle is the same: settle, pull, push, housekeeping. What
// differs is that each mutation is a request of its own, that a pull is a list of each entity, and that answers come as
// values, made by the exchanges of ``RestExchange`` and ``RestListing``.
extension SyncEngine {
    /// There is nobody to greet. Where the records here are of another server's history, they are moved to this one first.
    mutating func beginWithBackend(at moment: Moment, _ effects: inout [SyncEffect]) {
        switch memory.epoch {
        case RestMapping.epoch?: loadInFlight(at: moment, &effects)
        case nil: learnHistory(RestMapping.epoch, &effects)
        case _?: epochChanged(to: RestMapping.epoch, at: moment, &effects)
        }
    }

    mutating func push(
        _ batch: Batch, as kind: HubCall.Kind, at moment: Moment, _ effects: inout [SyncEffect], _ step: (UInt64) -> Step
    ) {
        if settings.isRest { return send(kind, [], asking: .push(batch), at: moment, &effects, step) }
        send(kind, PushMessages.request(batch, config: settings.configVersion), at: moment, &effects, step)
    }

    mutating func answered(
        _ call: UInt64, _ reply: RestReply, sent: Instant, at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        guard call == lastCallID, let step = cycle?.step else { return }
        switch (step, reply.content) {
        case (.settling(let batch, call), .pushed(let results)):
            heard(reply, &effects)
            pushed(results, of: batch, reply, isSettled: true, at: moment, &effects)
        case (.pushing(let batch, call), .pushed(let results)):
            heard(reply, &effects)
            pushed(results, of: batch, reply, isSettled: false, at: moment, &effects)
        case (.pulling(let asked, call), .pulled(let response)):
            heard(reply, &effects)
            pulled(response, asked, reply, at: moment, &effects)
        default: return
        }
    }

    private mutating func heard(_ reply: RestReply, _ effects: inout [SyncEffect]) {
        count(reply.traffic)
        guard reply.wasAnswered else { return }
        cycle?.wasAnswered = true
        guard reply.refusal == nil else { return }
        hubIs(.online, cause: "the backend answered", nil, &effects)
        endTrial(&effects)
        breaker.answered()
    }

    private mutating func pushed(
        _ results: [RestResult], of batch: Batch, _ reply: RestReply, isSettled: Bool, at moment: Moment,
        _ effects: inout [SyncEffect]
    ) {
        guard !results.isEmpty else {
            let refusal = reply.refusal ?? HubReply.Refusal(.nonsense, "nothing became known of what was sent")
            return failedAtBackend(refusal, at: moment, &effects)
        }
        let counted = judge(results, of: batch)
        var next: BatchLimits?
        if reply.refusal == nil, !isSettled, !mustEnd(at: moment), !isHalted(at: moment) { next = limits(at: moment) }
        advance(to: .recordingRest(next: next?.leastPriority, reply.refusal, isSettled: isSettled))
        effects.append(.store(.applyRest(counted, next: next)))
    }

    /// A failure counts for a mutation only when the backend has taken another one since it failed last: a backend that fails
    /// over everything must not use up anybody's attempts.
    private mutating func judge(_ results: [RestResult], of batch: Batch) -> [RestResult] {
        for result in results {
            switch result.verdict {
            case .accepted, .moved, .rejected:
                let alone = batch.mutations.filter { $0.key == result.key }
                sizer.succeeded(Batch(mutations: alone, ackedSeq: 0, maxSentSeq: 0), after: .zero, growing: false)
            case .retry, .notSent, .unsure, .held: continue
            }
        }
        return results.map { result in
            guard case .unsure(let problem, let after, counts: true) = result.verdict else { return result }
            return RestResult(result.key, .unsure(problem, after: after, counts: sizer.setAside(result.key)))
        }
    }

    mutating func recorded(
        _ summary: ResultsSummary, _ next: Batch?, downTo least: Priority?, _ refusal: HubReply.Refusal?, isSettled: Bool,
        at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        record(summary, at: moment)
        if let refusal { return failedAtBackend(refusal, at: moment, &effects) }
        if cycle?.verdicts == 0 { return unanswered(at: moment, &effects) }
        if isSettled {
            if mustEnd(at: moment) { return goOnLater(at: moment, &effects) }
            return loadInFlight(at: moment, &effects)
        }
        guard let least else {
            if isHalted(at: moment) { return halt(at: moment, &effects) }
            return goOnLater(at: moment, &effects)
        }
        withheld.found(summary.withheld, downTo: least)
        if next == nil { watchdog.drained(downTo: least) }
        pushOrEnd(next, at: moment, &effects)
    }

    /// One request is never too large a batch, so nothing is searched for.
    private mutating func failedAtBackend(_ refusal: HubReply.Refusal, at moment: Moment, _ effects: inout [SyncEffect]) {
        advance(to: .settingAside(nil))
        failed(refusal, at: moment, &effects)
    }

    private mutating func pulled(
        _ response: PullResponse, _ asked: [StreamPosition], _ reply: RestReply, at moment: Moment,
        _ effects: inout [SyncEffect]
    ) {
        if let refusal = reply.refusal { return failed(refusal, at: moment, &effects) }
        let usable: PullResponse
        let gone: [EntityName]
        do throws(ReplyError) {
            (usable, gone) = try sortOut(response, against: asked, at: moment, &effects)
        } catch {
            return failed(HubReply.Refusal(.nonsense, "the backend's list is not as agreed: \(error)"), at: moment, &effects)
        }
        // There is no number for the newest change: what was listed to its end a moment ago is taken for all there is.
        if cycle?.pulledHead == nil { cycle?.pulledHead = 0 }
        (seenHead, headSeenAt) = (0, moment.instant)
        cycle?.asked.subtract(response.errors.map(\.entity))
        if !gone.isEmpty { cycle?.missedStreams = true }
        advance(to: .applyingPull(next(usable), restart: gone))
        effects.append(.store(.applyPull(usable)))
    }
}
