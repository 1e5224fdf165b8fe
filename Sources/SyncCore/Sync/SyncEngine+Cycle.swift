// The steps of a cycle: what follows from each answer of the store and of the hub.
extension SyncEngine {
    /// A hello is due this long after the last one.
    static let helloInterval: Duration = .seconds(24 * 3600)
    static let housekeepingInterval: Duration = .seconds(600)

    mutating func beginCycle(at moment: Moment, _ effects: inout [SyncEffect]) {
        let session = UUIDv7.make(at: moment.wall, using: &random)
        cycle = Cycle(
            session: session, began: moment.instant, scope: request?.scope ?? .all, step: .loadingInFlight,
            outcome: CycleOutcome(session: session))
        request = nil
        timer.began()
        retryAt = nil
        effects.append(.report(.cycleBegan(session: session)))
        let isGreeted = greetedAt.map { $0.duration(to: moment.instant) < Self.helloInterval } ?? false
        if isGreeted {
            loadInFlight(&effects)
        } else {
            let hello = HelloRequest(
                agent: settings.agent, platform: settings.platform, replica: replica, maxSentSeq: maxSentSeq,
                highestAckedSeq: ackedSeq, config: nil, entities: settings.entities)
            send(.hello, HelloMessages.request(hello), &effects) { .greeting(call: $0) }
        }
    }

    // MARK: Answers of the hub

    mutating func answered(
        _ call: UInt64, _ result: Result<HTTPResponse, TransportError>, sent: Instant, at moment: Moment,
        _ effects: inout [SyncEffect]
    ) {
        guard call == lastCallID, let step = cycle?.step else { return }
        let expectsThisCall: Bool
        switch step {
        case .greeting(let id), .settling(_, let id), .pulling(_, let id), .pushing(_, let id): expectsThisCall = id == call
        default: expectsThisCall = false
        }
        guard expectsThisCall else { return }
        switch result {
        case .failure(let error):
            count(error.traffic)
            failed(HubReply.Refusal(.transport(error.code), error.description), at: moment, &effects)
        case .success(let response):
            count(response.traffic)
            switch HubReply.read(response, now: moment.wall) {
            case .refused(let refusal): refused(refusal, sent: sent, at: moment, &effects)
            case .answered(let facts, let body):
                note(facts, sent: sent, at: moment)
                hubIs(.online, cause: "the hub answered", &effects)
                if isRegressed(facts) { return regressed(facts.deviceSeq ?? 0, at: moment, &effects) }
                if let epoch = facts.epoch, let known = memory.epoch, epoch != known {
                    return epochChanged(to: epoch, from: known, at: moment, &effects)
                }
                if memory.epoch == nil { memory.epoch = facts.epoch }
                do throws(ReplyError) {
                    try understand(body, step, sent: sent, at: moment, &effects)
                } catch {
                    failed(HubReply.Refusal(.nonsense, "the hub's answer is not as agreed: \(error)"), at: moment, &effects)
                }
            }
        }
    }

    private mutating func understand(
        _ body: [UInt8], _ step: Step, sent: Instant, at moment: Moment, _ effects: inout [SyncEffect]
    ) throws(ReplyError) {
        switch step {
        case .greeting:
            let hello = try HelloMessages.readResponse(body)
            sizer.limit(mutations: hello.limits.pushMutations, bytes: hello.limits.pushBytes)
            greetedAt = moment.instant
            loadInFlight(&effects)
        case .settling(let batch, _):
            let response = try results(body, of: batch)
            sizer.succeeded(after: sent.duration(to: moment.instant), isFull: false)
            advance(to: .recordingSettled)
            effects.append(.store(.applyResults(response.results, next: nil)))
        case .pulling(let asked, _):
            let response = try PullMessages.readResponse(body)
            try check(response, against: asked)
            if cycle?.pulledHead == nil { cycle?.pulledHead = response.head }
            let gone = response.errors.filter { $0.problem.status == 410 || $0.problem.code.hasSuffix("-expired") }.map(\.entity)
            advance(to: .applyingPull(next(response, asked), restart: gone))
            effects.append(.store(.applyPull(response)))
        case .pushing(let batch, _):
            let response = try results(body, of: batch)
            noteOwnCommits(response)
            sizer.succeeded(
                after: sent.duration(to: moment.instant), isFull: batch.mutations.count >= sizer.mutations)
            let goesOn = goesOn(at: moment)
            advance(to: .recordingResults(more: goesOn))
            effects.append(.store(.applyResults(response.results, next: goesOn ? sizer.limits() : nil)))
        default: return
        }
    }

    /// Results for keys that were not sent are left to the store, which ignores and counts them; a batch without a single
    /// verdict of its own is no answer at all.
    private func results(_ body: [UInt8], of batch: Batch) throws(ReplyError) -> PushResponse {
        let response = try PushMessages.readResponse(body)
        let sent = Set(batch.mutations.map(\.key))
        guard response.results.contains(where: { sent.contains($0.key) }) else {
            throw ReplyError("/results", "a result for at least one mutation that was sent")
        }
        return response
    }

    private mutating func check(_ response: PullResponse, against asked: [StreamPosition]) throws(ReplyError) {
        let entities = Set(asked.map(\.entity))
        for (index, page) in response.pages.enumerated() {
            guard entities.contains(page.entity) else {
                throw ReplyError("/streams/\(index)/entity", "an entity that was asked for")
            }
            guard page.records.count + page.deletions.count <= Limits.pullRecordsMax * 2 else {
                throw ReplyError("/streams/\(index)", "at most \(Limits.pullRecordsMax * 2) records in a page")
            }
        }
        // The same cursor with more to come is a loop: nobody would ever leave it.
        let stuck = response.pages.contains { page in
            page.hasMore && page.records.isEmpty && page.deletions.isEmpty
                && asked.contains { $0.entity == page.entity && $0.cursor == page.cursor }
        }
        let empty = stuck ? (cycle?.emptyPages ?? 0) + 1 : 0
        cycle?.emptyPages = empty
        if empty >= 3 { throw ReplyError("/streams", "a cursor that moves when more is to come") }
    }

    /// The streams to ask again at once: those with more to come.
    private func next(_ response: PullResponse, _ asked: [StreamPosition]) -> [StreamPosition] {
        response.pages.filter(\.hasMore).map { StreamPosition(entity: $0.entity, cursor: $0.cursor) }
    }

    // MARK: Answers of the store

    mutating func stored(_ answer: StoreAnswer, at moment: Moment, _ effects: inout [SyncEffect]) {
        guard let step = cycle?.step else {
            isSaving = false
            // More may have changed while that was written.
            return saveMemory(&effects)
        }
        switch (step, answer) {
        // A refused disk or a damaged page: nothing was changed, so the cycle just ends; the store says it in status.
        case (.remembering, _): finish(at: moment, &effects)
        case (_, .failed(let text)): endInFailure("the store could not: \(text)", retry: .seconds(30), at: moment, &effects)
        case (.loadingInFlight, .batch(let batch?, _)):
            noteSent(batch)
            send(.settle, PushMessages.request(batch, config: nil), &effects) { .settling(batch, call: $0) }
        case (.loadingInFlight, .batch(nil, let retryAt)):
            wishRetry(retryAt, at: moment)
            pullOrPush(at: moment, &effects)
        case (.recordingSettled, .resultsApplied(let summary, _)):
            record(summary, at: moment)
            // Nothing settled: asking again would be the same question.
            if cycle?.verdicts == 0 { return unanswered(at: moment, &effects) }
            loadInFlight(&effects)
        case (.adoptingReplica, .done): loadInFlight(&effects)
        case (.loadingStreams, .streams(let streams)):
            let wanted = cycle?.hasPulledForConflicts == true ? streams.filter { cycle?.conflicted.contains($0.entity) == true } : streams
            if cycle?.scope == .full {
                cycle?.scope = .all
                return restart(wanted.map(\.entity), then: wanted.map { StreamPosition(entity: $0.entity, cursor: nil) }, &effects)
            }
            wanted.isEmpty ? push(at: moment, &effects) : pull(wanted, &effects)
        case (.applyingPull(let next, let gone), .pullApplied(let summary)):
            applied(summary, next, gone, at: moment, &effects)
        case (.restartingStreams(let next), .done): pull(next, &effects)
        case (.claiming, .batch(let batch, let retryAt)):
            wishRetry(retryAt, at: moment)
            pushOrEnd(batch, at: moment, &effects)
        case (.recordingResults(let goesOn), .resultsApplied(let summary, let next)):
            record(summary, at: moment)
            if cycle?.verdicts == 0 { return unanswered(at: moment, &effects) }
            if !goesOn {
                timer.wish(.again(at: moment.instant), now: moment.instant)
                return keepHouse(at: moment, &effects)
            }
            pushOrEnd(next, at: moment, &effects)
        case (.settingAside(let error?), .done): endInFailure(error.detail, kind: error.kind, retry: error.retry, at: moment, &effects)
        case (.settingAside(nil), .done): loadInFlight(&effects)
        case (.housekeeping, .housekept(let more)):
            if more { timer.wish(.again(at: moment.instant.advanced(by: .seconds(5))), now: moment.instant) }
            succeed(at: moment, &effects)
        default:
            // An answer of the wrong kind is a mistake of ours; the cycle ends unharmed and says so.
            endInFailure("the store gave an answer of another kind", retry: .seconds(30), at: moment, &effects)
        }
    }

    private mutating func applied(
        _ summary: PullSummary, _ next: [StreamPosition], _ gone: [EntityName], at moment: Moment,
        _ effects: inout [SyncEffect]
    ) {
        cycle?.outcome.pulled += summary.upserts + summary.deletions
        cycle?.pages += 1
        if !summary.massDeletes.isEmpty { effects.append(.report(.massDelete(summary.massDeletes))) }
        guard !next.isEmpty || !gone.isEmpty else {
            knownHead = cycle?.pulledHead ?? knownHead
            return push(at: moment, &effects)
        }
        if (cycle?.pages ?? 0) >= Limits.pullPagesPerCycle || !goesOn(at: moment) {
            // Local changes must not wait for ever behind a huge backlog: push, and go on with the pages in the next cycle.
            timer.wish(.again(at: moment.instant), now: moment.instant)
            return push(at: moment, &effects)
        }
        if !gone.isEmpty {
            let fresh = gone.map { StreamPosition(entity: $0, cursor: nil) }
            return restart(gone, then: next + fresh, &effects)
        }
        pull(next, &effects)
    }

    /// Whether this cycle may begin another round trip: its time is not up, and nobody has paused the sync.
    private func goesOn(at moment: Moment) -> Bool {
        guard let cycle, memory.pause == nil else { return false }
        return cycle.began.duration(to: moment.instant) < Limits.cycleBudget
    }

    private mutating func record(_ summary: ResultsSummary, at moment: Moment) {
        let verdicts = summary.done + summary.rejected + summary.retried + summary.conflicted.count
        cycle?.verdicts = verdicts
        cycle?.outcome.pushed += summary.done
        cycle?.outcome.rejected += summary.rejected
        cycle?.conflicted.formUnion(summary.conflicted)
        wishRetry(summary.retryAt, at: moment)
    }

    private mutating func wishRetry(_ retryAt: Timestamp?, at moment: Moment) {
        guard let retryAt else { return }
        let delay = max(.zero, moment.wall.duration(to: retryAt))
        timer.wish(.again(at: moment.instant.advanced(by: delay)), now: moment.instant)
    }

    /// Committed as sent before this point, so the hub can never have seen more of this replica than this says.
    private mutating func noteSent(_ batch: Batch) {
        maxSentSeq = max(maxSentSeq, batch.maxSentSeq)
        ackedSeq = max(ackedSeq, batch.ackedSeq)
    }

    // MARK: Steps

    mutating func loadInFlight(_ effects: inout [SyncEffect]) {
        advance(to: .loadingInFlight)
        effects.append(.store(.loadInFlight(sizer.limits())))
    }

    private mutating func pullOrPush(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard cycle?.scope != .push, needsPull(at: moment) else { return push(at: moment, &effects) }
        advance(to: .loadingStreams)
        effects.append(.store(.loadStreams))
    }

    /// A pull is spared when the hub said within the last minute that it has nothing newer than we do.
    private func needsPull(at moment: Moment) -> Bool {
        if cycle?.scope == .pull || cycle?.scope == .full { return true }
        guard let knownHead, knownHead == seenHead, let headSeenAt else { return true }
        return headSeenAt.duration(to: moment.instant) >= min(settings.timer.pullInterval, .seconds(60))
    }

    private mutating func pull(_ streams: [StreamPosition], _ effects: inout [SyncEffect]) {
        let request = PullRequest(
            streams: streams, limit: Limits.pullRecords, maxBytes: Limits.pullBytes, maxSentSeq: maxSentSeq)
        send(.pull, PullMessages.request(request), &effects) { .pulling(streams, call: $0) }
    }

    private mutating func restart(_ entities: [EntityName], then next: [StreamPosition], _ effects: inout [SyncEffect]) {
        guard !entities.isEmpty else { return advanceToClaim(&effects) }
        effects.append(.report(.streamsRestarted(entities)))
        advance(to: .restartingStreams(then: next))
        effects.append(.store(.restartStreams(entities)))
    }

    private mutating func push(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard cycle?.scope != .pull, memory.pause == nil else { return keepHouse(at: moment, &effects) }
        advanceToClaim(&effects)
    }

    private mutating func advanceToClaim(_ effects: inout [SyncEffect]) {
        advance(to: .claiming)
        effects.append(.store(.claim(sizer.limits())))
    }

    private mutating func pushOrEnd(_ batch: Batch?, at moment: Moment, _ effects: inout [SyncEffect]) {
        if let batch {
            noteSent(batch)
            return send(.push, PushMessages.request(batch, config: nil), &effects) { .pushing(batch, call: $0) }
        }
        if let cycle, !cycle.conflicted.isEmpty, !cycle.hasPulledForConflicts, goesOn(at: moment) {
            self.cycle?.hasPulledForConflicts = true
            advance(to: .loadingStreams)
            effects.append(.store(.loadStreams))
            return
        }
        keepHouse(at: moment, &effects)
    }

    private mutating func keepHouse(at moment: Moment, _ effects: inout [SyncEffect]) {
        if let housekeptAt, housekeptAt.duration(to: moment.instant) < Self.housekeepingInterval {
            return succeed(at: moment, &effects)
        }
        housekeptAt = moment.instant
        advance(to: .housekeeping)
        effects.append(.store(.housekeep))
    }

    private mutating func succeed(at moment: Moment, _ effects: inout [SyncEffect]) {
        memory.failures = 0
        memory.notBefore = nil
        memory.lastSuccess = moment.wall
        memory.lastError = nil
        memory.lastErrorAt = nil
        timer.holdBack(retryAt: nil, notBefore: nil)
        saveOrFinish(at: moment, &effects)
    }

    mutating func saveOrFinish(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard memoryIsWorthSaving else { return finish(at: moment, &effects) }
        remembered = memory
        advance(to: .remembering)
        effects.append(.store(.remember(memory)))
    }

    private mutating func finish(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard var outcome = cycle?.outcome, let began = cycle?.began else { return }
        outcome.duration = began.duration(to: moment.instant)
        cycle = nil
        timer.wish(.pullDue, now: moment.instant)
        effects.append(.report(.cycleEnded(outcome)))
    }

    // MARK: Small parts

    mutating func advance(to step: Step) {
        cycle?.step = step
    }

    private mutating func send(
        _ kind: HubCall.Kind, _ body: [UInt8], _ effects: inout [SyncEffect], _ step: (UInt64) -> Step
    ) {
        lastCallID += 1
        let call = HubCall(id: lastCallID, kind: kind, session: cycle?.session ?? "", body: body)
        advance(to: step(call.id))
        effects.append(.send(call))
    }

    private mutating func count(_ traffic: Traffic) {
        cycle?.outcome.bytesUp += traffic.up
        cycle?.outcome.bytesDown += traffic.down
    }

    mutating func note(_ facts: HubHeaders, sent: Instant, at moment: Moment) {
        if let time = facts.time { clock.add(hubTime: time, sent: sent, received: moment.instant) }
        if let head = facts.head {
            seenHead = head
            headSeenAt = moment.instant
        }
    }

    /// When every commit since the head we know is one of our own, we still know everything: the echoes may wait for the
    /// next periodic pull.
    private mutating func noteOwnCommits(_ response: PushResponse) {
        guard let known = knownHead else { return }
        seenHead = max(seenHead ?? 0, response.head)
        var own: Set<Int64> = []
        for result in response.results {
            if case .accepted(let version, _, nil, _) = result.verdict, version > known { own.insert(version) }
        }
        if response.head - known == Int64(own.count) { knownHead = response.head }
    }

    private func isRegressed(_ facts: HubHeaders) -> Bool {
        guard let hub = facts.deviceSeq, !ablations.contains(.regressionIgnored) else { return false }
        return hub > maxSentSeq
    }

    mutating func regressed(_ hubSeq: Int64, at moment: Moment, _ effects: inout [SyncEffect]) {
        effects.append(.report(.regressed(hubSeq: hubSeq, ours: maxSentSeq)))
        replica = ReplicaID(trusted: UUIDv7.make(at: moment.wall, using: &random))
        greetedAt = nil
        advance(to: .adoptingReplica)
        effects.append(.store(.adoptReplica(replica)))
    }
}
