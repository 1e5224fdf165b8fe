// Handles the answers of the hub.
extension SyncEngine {
    mutating func answered(
        _ call: UInt64, _ result: Result<HTTPResponse, TransportError>, sent: Instant, at moment: Moment,
        _ effects: inout [SyncEffect]
    ) {
        guard call == calls.lastID, let step = cycle?.step else { return }
        let expectsThisCall: Bool
        switch step {
        case .greeting(let id), .settling(_, let id), .pulling(_, let id), .pushing(_, let id), .listing(_, let id),
            .seeding(_, let id), .verifying(_, let id), .asking(_, _, let id):
            expectsThisCall = id == call
        default: expectsThisCall = false
        }
        guard expectsThisCall else { return }
        switch result {
        case .failure(let error):
            count(error.traffic)
            if !settings.isRest { sizes.recordBroken(error, isReading: step.isReading) }
            let refusal = HubReply.Refusal(.transport(error.code), error.description)
            if !readFailed(refusal, at: moment, &effects) { failed(refusal, at: moment, &effects) }
        case .success(let response):
            count(response.traffic)
            switch HubReply.read(response, now: moment.wall) {
            case .refused(let refusal): refused(refusal, sent: sent, at: moment, &effects)
            case .answered(let facts, let body):
                let hasForgotten = hasForgotten(facts, at: moment)
                note(facts, sent: sent, at: moment, &effects)
                pressure.recordRate(facts, at: moment.instant)
                if let report = hub.recordClones(facts) { effects.append(.report(report)) }
                hubIs(.online, cause: "the hub answered", nil, &effects)
                if isRegressed(facts.deviceSeq) { return regressed(facts.deviceSeq ?? 0, at: moment, &effects) }
                if let epoch = facts.epoch, isOtherHistory(epoch) { return epochChanged(to: epoch, at: moment, &effects) }
                if hasForgotten, hubForgot(facts, at: moment, &effects) { return }
                if facts.epoch != nil, facts.epoch == memory.epoch { durable.endOtherHealing() }
                cycle?.wasAnswered = true
                cycle?.facts = facts
                measure(step, read: body.count, in: sent.duration(to: moment.instant))
                do throws(ReplyError) {
                    try understand(body, step, sent: sent, at: moment, &effects)
                    pressure.hubAnswered()
                } catch {
                    let detail = "the hub's answer is not as agreed: \(error)"
                    let refusal = HubReply.Refusal(.nonsense, detail, facts: facts)
                    if !readFailed(refusal, at: moment, &effects) { failed(refusal, at: moment, &effects) }
                }
            }
        }
    }

    mutating func understand(
        _ body: [UInt8], _ step: Step, sent: Instant, at moment: Moment, _ effects: inout [SyncEffect]
    ) throws(ReplyError) {
        switch step {
        case .greeting:
            let hello = try HelloMessages.readResponse(body)
            if isOtherHistory(hello.epoch) { return epochChanged(to: hello.epoch, at: moment, &effects) }
            if isRegressed(hello.deviceSeq) { return regressed(hello.deviceSeq ?? 0, at: moment, &effects) }
            sizes.recordLimits(hello.limits)
            hub.recordHello(hello, at: moment.instant)
            if !hub.namesEntities { durable.forgetEntities() }
            durable.recordShare(hello)
            if memory.epoch == nil { return learnHistory(hello.epoch, &effects) }
            loadInFlight(at: moment, &effects)
        case .settling(let batch, _):
            let response = try results(body, of: batch)
            endTrial(&effects)
            sizes.recordSuccess(of: batch, after: sent.duration(to: moment.instant), growing: false)
            advance(to: .recordingSettled)
            effects.append(.store(.applyResults(response.results, next: nil, standing: stand(at: response.head))))
        case .pulling(let asked, _):
            let response = try PullMessages.readStreams(body)
            if let epoch = response.epoch, isOtherHistory(epoch) { return epochChanged(to: epoch, at: moment, &effects) }
            let (readable, gone) = try sortOut(response, against: asked, at: moment, &effects)
            var usable = readable
            noteEntities(response.entities)
            endTrial(&effects)
            if cycle?.pulledHead == nil { cycle?.pulledHead = response.head }
            if !usable.pages.isEmpty { cycle?.badReads = 0 }
            cycle?.asked.subtract(response.errors.map(\.entity))
            // Until these are read again, the head up to which everything is known is undefined.
            if !gone.isEmpty { hub.forgetReadHead() }
            advance(to: .applyingPull(next(usable), restart: gone))
            let standing = stand(at: response.head)
            // A page without news needs no write.
            if !usable.pages.isEmpty { usable.standing = standing }
            effects.append(.store(.applyPull(usable)))
        case .pushing(let batch, _):
            let response = try results(body, of: batch)
            endTrial(&effects)
            cycle?.pushedHead = response.head
            sizes.recordSuccess(of: batch, after: sent.duration(to: moment.instant), growing: true)
            // A mutation without a verdict is still in flight: the next cycle settles it.
            if response.results.count < batch.mutations.count { pressure.wish(.again(at: moment.instant), at: moment.instant) }
            let next = mustEnd(at: moment) || isHalted(at: moment) ? nil : limits(at: moment)
            advance(to: .recordingResults(next: next?.leastPriority))
            effects.append(.store(.applyResults(response.results, next: next, standing: stand(at: response.head))))
        case .listing(let asked, _): try listed(body, asked, at: moment, &effects)
        case .seeding(let asked, _): try seeded(body, asked, at: moment, &effects)
        case .verifying(let position, _): try compared(body, position, at: moment, &effects)
        case .asking(let keys, let seq, _): try told(body, about: keys, upTo: seq, at: moment, &effects)
        default: return
        }
    }

    /// Measures the link by an answer.
    private mutating func measure(_ step: Step, read: Int, in time: Duration) {
        switch step {
        case .pulling, .listing, .seeding: sizes.recordRead(read, in: time)
        case .settling, .pushing: sizes.recordSent(calls.bodyBytes, in: time)
        default: break
        }
    }

    /// Checks an answer to a push. The store ignores and counts results for keys that were not sent. An answer without a single verdict
    /// about the batch counts as no answer.
    func results(_ body: [UInt8], of batch: Batch) throws(ReplyError) -> PushResponse {
        let response = try PushMessages.readResponse(body)
        let sent = Set(batch.mutations.map(\.key))
        guard response.results.contains(where: { sent.contains($0.key) }) else {
            throw ReplyError("/results", "a result for at least one mutation that was sent")
        }
        return response
    }

    /// Records the entities that the hub names. New ones are pulled in the same cycle, so that a requested sync brings them.
    private mutating func noteEntities(_ entities: [EntityName]?) {
        guard let entities else { return }
        if durable.recordEntities(entities) { cycle?.hasFoundEntities = true }
    }

    /// The streams to ask next: those that did not fit into the request, and those with more pages.
    func next(_ response: PullResponse) -> [StreamPosition] {
        (cycle?.unasked ?? []) + response.pages.filter(\.hasMore).map { StreamPosition(entity: $0.entity, cursor: $0.cursor) }
    }
}
