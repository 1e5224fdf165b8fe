// The engine for an existing backend (PROTOCOL A13). The cycle is the same: settle, pull, push, housekeeping. It differs in three points:
// each mutation is a request of its own, a pull is a list of each entity, and answers are values made by ``RestExchange`` and
// ``RestListing``.
extension SyncEngine {
    /// Begins without a hello. Records that belong to another server's history are moved to this one first.
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
        guard call == calls.lastID, let step = cycle?.step else { return }
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
        pressure.hubAnswered()
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

    /// One request is never too large a batch, so there is no search.
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
        // There is no number of the newest change: a list that was just read to its end counts as complete.
        if cycle?.pulledHead == nil { cycle?.pulledHead = 0 }
        hub.recordHead(0, at: moment.instant)
        cycle?.asked.subtract(response.errors.map(\.entity))
        if !gone.isEmpty { cycle?.missedStreams = true }
        advance(to: .applyingPull(next(usable), restart: gone))
        effects.append(.store(.applyPull(usable)))
    }
}
