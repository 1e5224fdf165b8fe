// Handles the answers of the server, whichever dialect it speaks.
extension SyncEngine {
    mutating func answered(
        _ call: UInt64, _ answer: ServerAnswer, sent: Instant, at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        guard let step = cycle?.step, step.call == call, answer.message?.answers(calls.kind) ?? true else { return }
        count(answer.traffic)
        if let error = answer.broken, settings.dialect.isOneRequest { sizes.recordBroken(error, isReading: step.isReading) }
        if answer.isBackends { heardBackend(refusing: answer.refusal != nil, &effects) }
        if let facts = answer.facts {
            guard believe(facts, sent: sent, at: moment, &effects) else { return }
            measure(step, read: answer.size, in: sent.duration(to: moment.instant))
        }
        guard let message = answer.message else {
            guard let refusal = answer.refusal else { return }
            if answer.facts == nil { return refused(refusal, sent: sent, at: moment, &effects) }
            return failedToRead(refusal, at: moment, &effects)
        }
        do throws(ReplyError) {
            try understand(message, of: answer, step, sent: sent, at: moment, &effects)
            if answer.facts != nil { pressure.hubAnswered() }
        } catch {
            guard let facts = answer.facts else {
                return failed(HubReply.Refusal(.nonsense, "the backend's list is not as agreed: \(error)"), at: moment, &effects)
            }
            failedToRead(.notAsAgreed(error, facts), at: moment, &effects)
        }
    }

    /// Records what the headers of a hub's good answer show.
    ///
    /// - Returns: `false` when the content must not be used, because it belongs to another history of the hub or of this database.
    private mutating func believe(_ facts: HubHeaders, sent: Instant, at moment: Moment, _ effects: inout [SyncEffect]) -> Bool {
        let hasForgotten = hasForgotten(facts, at: moment)
        note(facts, sent: sent, at: moment, &effects)
        pressure.recordRate(facts, at: moment.instant)
        if let report = hub.recordClones(facts) { effects.append(.report(report)) }
        hubIs(.online, cause: "the hub answered", nil, &effects)
        if isRegressed(facts.deviceSeq) {
            regressed(facts.deviceSeq ?? 0, at: moment, &effects)
            return false
        }
        if let epoch = facts.epoch, isOtherHistory(epoch) {
            epochChanged(to: epoch, at: moment, &effects)
            return false
        }
        if hasForgotten, hubForgot(facts, at: moment, &effects) { return false }
        if facts.epoch != nil, facts.epoch == memory.epoch { durable.endOtherHealing() }
        cycle?.wasAnswered = true
        cycle?.facts = facts
        return true
    }

    private mutating func heardBackend(refusing: Bool, _ effects: inout [SyncEffect]) {
        cycle?.wasAnswered = true
        guard !refusing else { return }
        hubIs(.online, cause: "the backend answered", nil, &effects)
        endTrial(&effects)
        pressure.hubAnswered()
    }

    /// Handles a call without a usable answer: its stream is left out, or the cycle ends.
    mutating func failedToRead(_ refusal: HubReply.Refusal, at moment: Moment, _ effects: inout [SyncEffect]) {
        if !readFailed(refusal, at: moment, &effects) { failed(refusal, at: moment, &effects) }
    }

    private mutating func understand(
        _ message: ServerMessage, of answer: ServerAnswer, _ step: Step, sent: Instant, at moment: Moment,
        _ effects: inout [SyncEffect]
    ) throws(ReplyError) {
        switch message {
        case .hello(let hello): greeted(hello, at: moment, &effects)
        case .verdicts(let verdicts):
            guard let batch = batchUnderWay else { return }
            let trip = sent.duration(to: moment.instant)
            try heard(verdicts, of: batch, answer.refusal, after: trip, at: moment, &effects)
        case .pages(let response):
            guard case .pulling(let asked, _) = step else { return }
            if let refusal = answer.refusal { return failed(refusal, at: moment, &effects) }
            try pulled(response, asked, isHubs: answer.facts != nil, at: moment, &effects)
        case .listing(let page):
            if case .listing(let asked, _) = step { try listed(page, asked, at: moment, &effects) }
            if case .seeding(let asked, _) = step { try seeded(page, asked, at: moment, &effects) }
        case .comparison(let comparison):
            guard case .verifying(let position, _) = step else { return }
            compared(comparison, position, at: moment, &effects)
        case .unknown(let unknown):
            guard case .asking(let keys, let seq, _) = step else { return }
            told(unknown, about: keys, upTo: seq, at: moment, &effects)
        }
    }

    private mutating func greeted(_ hello: HelloResponse, at moment: Moment, _ effects: inout [SyncEffect]) {
        if isOtherHistory(hello.epoch) { return epochChanged(to: hello.epoch, at: moment, &effects) }
        if isRegressed(hello.deviceSeq) { return regressed(hello.deviceSeq ?? 0, at: moment, &effects) }
        sizes.recordLimits(hello.limits)
        hub.recordHello(hello, at: moment.instant)
        if !hub.namesEntities { durable.forgetEntities() }
        durable.recordShare(hello)
        if memory.epoch == nil { return learnHistory(hello.epoch, &effects) }
        loadInFlight(at: moment, &effects)
    }

    private mutating func pulled(
        _ response: PullResponse, _ asked: [StreamPosition], isHubs: Bool, at moment: Moment, _ effects: inout [SyncEffect]
    ) throws(ReplyError) {
        if let epoch = response.epoch, isOtherHistory(epoch) { return epochChanged(to: epoch, at: moment, &effects) }
        var (usable, gone) = try sortOut(response, against: asked, at: moment, &effects)
        noteEntities(response.entities)
        if cycle?.pulledHead == nil { cycle?.pulledHead = response.head }
        if !usable.pages.isEmpty { cycle?.badReads = 0 }
        cycle?.asked.subtract(response.errors.map(\.entity))
        if isHubs {
            endTrial(&effects)
            // Until these are read again, the head up to which everything is known is undefined.
            if !gone.isEmpty { hub.forgetReadHead() }
        } else {
            // There is no number of the newest change: a list that was just read to its end counts as complete.
            hub.recordHead(response.head, at: moment.instant)
            if !gone.isEmpty { cycle?.missedStreams = true }
        }
        advance(to: .applyingPull(next(usable), restart: gone))
        let standing = stand(at: response.head)
        // A page without news needs no write.
        if !usable.pages.isEmpty { usable.standing = standing }
        effects.append(.store(.applyPull(usable)))
    }

    /// Measures the link by an answer.
    private mutating func measure(_ step: Step, read: Int, in time: Duration) {
        switch step {
        case .pulling, .listing, .seeding: sizes.recordRead(read, in: time)
        case .settling, .pushing: sizes.recordSent(calls.bodyBytes, in: time)
        case .greeting, .verifying, .asking, .loadingInFlight, .recording, .adoptingReplica, .lookingForUnsettled, .loadingStreams,
            .applyingPull, .restartingStreams, .claiming, .settingAside, .housekeeping, .remembering, .applyingSnapshot, .applyingSeed,
            .digesting, .recordingComparison, .loadingSettled, .requeuing, .forgettingHistory, .adoptingHistory:
            break
        }
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
