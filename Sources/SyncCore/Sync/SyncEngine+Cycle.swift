// The steps of a cycle, and the handling of the store's answers.
extension SyncEngine {
    mutating func beginCycle(at moment: Moment, _ effects: inout [SyncEffect]) {
        let session = UUIDv7.make(at: moment.wall, using: &random)
        let request = nextCycle.request
        cycle = Cycle(
            session: session, began: moment.instant, scope: request?.scope ?? .all, step: .loadingInFlight,
            outcome: CycleOutcome(session: session))
        cycle?.isRequested = nextCycle.isRequested
        cycle?.isAskedFor = request != nil
        cycle?.isForced = request?.isForced ?? false
        cycle?.isTrial = pressure.breaker.state == .halfOpen
        if share.isDue, cycle?.scope != .push {
            cycle?.pullsShare = true
            share.isDue = false
        }
        let allowed = allowed(at: moment)
        cycle?.pullIsDue = allowed.pull.flatMap { pressure.timer.pullAt($0.interval) }.map { $0 <= moment.instant } ?? false
        pressure.cycleBegan(request?.scope ?? .all, under: allowed, pulls: mayPull(under: allowed), at: moment.instant)
        nextCycle.cycleBegan()
        watchdog.tried(at: moment.instant)
        durable.allowSaving()
        effects.append(.report(.cycleBegan(session: session)))
        if let history = settings.dialect.fixedHistory { return begin(in: history, at: moment, &effects) }
        hub.isGreeted(at: moment.instant) ? loadInFlight(at: moment, &effects) : greet(at: moment, &effects)
    }

    /// Begins without a hello. Records that belong to another server's history are moved to this one first.
    private mutating func begin(in history: String, at moment: Moment, _ effects: inout [SyncEffect]) {
        switch memory.epoch {
        case history?: loadInFlight(at: moment, &effects)
        case nil: learnHistory(history, &effects)
        case _?: epochChanged(to: history, at: moment, &effects)
        }
    }

    mutating func greet(at moment: Moment, _ effects: inout [SyncEffect]) {
        let hello = HelloRequest(
            agent: settings.agent, platform: settings.platform, replica: marks.id, maxSentSeq: marks.maxSentSeq,
            highestAckedSeq: marks.ackedSeq, config: settings.configVersion, entities: settings.entities)
        send(.hello, CallContent(body: HelloMessages.request(hello)), at: moment, &effects) { .greeting(call: $0) }
    }

    // MARK: Answers of the store

    mutating func stored(_ answer: StoreAnswer, at moment: Moment, _ effects: inout [SyncEffect]) {
        guard let step = cycle?.step else { return }
        switch (step, answer) {
        // A full disk or a damaged page: nothing was changed, so the cycle just ends; the store reports it in status.
        case (.remembering, _):
            durable.recordSaved(answer)
            finish(at: moment, &effects)
        case (.adoptingHistory, _): historyAdopted(answer, at: moment, &effects)
        case (_, .failed(let text)): endInFailure("the store could not: \(text)", retry: .seconds(30), at: moment, &effects)
        case (.loadingInFlight, .batch(let batch?, _, _)):
            marks.recordSent(batch)
            guard mayGo(batch, at: moment) else { return halt(at: moment, &effects) }
            push(batch, as: .settle, at: moment, &effects) { .settling(batch, call: $0) }
        case (.loadingInFlight, .batch(nil, let retryAt, _)):
            // A cycle that only pulls must not forget it; otherwise the claim has the newer value.
            if let retryAt { pressure.wish(.due(at: instant(of: retryAt, at: moment)), at: moment.instant) }
            pullOrPush(at: moment, &effects)
        case (.adoptingReplica(let adopted), .done):
            // Only now: if the store had refused, the hub would see a new replica while the mutations in flight stay unsettled.
            marks = ReplicaMarks(adopted)
            hub.requireHello()
            // The history of the coming verdicts has to be known before them.
            memory.epoch == nil && settings.dialect.fixedHistory == nil ? greet(at: moment, &effects) : loadInFlight(at: moment, &effects)
        case (.lookingForUnsettled, .batch(let unsettled, _, _)):
            if unsettled != nil { return push(at: moment, &effects) }
            loadStreams(&effects)
        case (.loadingStreams, .streams(let streams)):
            cycle?.asked = []
            if durable.keepLeftOut(only: Set(streams.map(\.entity))) { tellLeftOut(&effects) }
            let isSecondLook = cycle?.hasPulledForConflicts == true
            let wanted = streams.filter { stream in
                (!isSecondLook || cycle?.conflicted.contains(stream.entity) == true) && mayPull(stream.entity, at: moment)
                    && !isHeld(stream.entity, at: moment)
            }
            if cycle?.scope == .full {
                cycle?.scope = .all
                return restart(wanted.map(\.entity), at: moment, &effects)
            }
            cycle?.outcome.hadNoStreams = streams.isEmpty
            guard wanted.isEmpty else { return read(wanted, at: moment, &effects) }
            streams.isEmpty ? askForEntities(at: moment, &effects) : push(at: moment, &effects)
        case (.applyingPull(let next, let gone), .pullApplied(let summary)):
            applied(summary, next, gone, at: moment, &effects)
        case (.restartingStreams, .done): loadStreams(&effects)
        case (.applyingSnapshot, .snapshotApplied(let summary, let position)): listed(summary, position, at: moment, &effects)
        case (.applyingSeed, .snapshotApplied(let summary, _)): seeded(summary, at: moment, &effects)
        case (.digesting(let position), .digest(let digest)): compare(position, digest, at: moment, &effects)
        case (.recordingComparison, .done): compare(at: moment, &effects)
        case (.loadingSettled, .settled(let keys, let seq)): ask(about: keys, upTo: seq, at: moment, &effects)
        case (.requeuing(let seq), .requeued(let count)): requeued(count, upTo: seq, at: moment, &effects)
        case (.forgettingHistory, .historyForgotten(let more)): more ? forgetHistory(&effects) : adoptHistory(&effects)
        case (.claiming(let least), .batch(let batch, let retryAt, let withheld)):
            noteRetry(retryAt, at: moment)
            self.withheld.found(withheld, downTo: least)
            if batch == nil { watchdog.drained(downTo: least) }
            pushOrEnd(batch, at: moment, &effects)
        case (.recording(let recording), .resultsApplied(let summary, let next)):
            recorded(recording, summary, next, at: moment, &effects)
        case (.settingAside(let error?), .done):
            endInFailure(
                error.detail, kind: error.kind, cause: error.cause, retry: error.retry, asked: error.asked, at: moment, &effects)
        case (.settingAside(nil), .done): loadInFlight(at: moment, &effects)
        case (.housekeeping, .housekept(let more, let expiry)):
            housekept(more: more, expiry: expiry, at: moment)
            succeed(at: moment, &effects)
        default:
            // An answer of the wrong kind is a fault in this program; the cycle ends with an error and without harm.
            endInFailure("the store gave an answer of another kind", retry: .seconds(30), at: moment, &effects)
        }
    }

    mutating func applied(
        _ summary: PullSummary, _ next: [StreamPosition], _ gone: [EntityName], at moment: Moment,
        _ effects: inout [SyncEffect]
    ) {
        cycle?.outcome.pulled += summary.upserts + summary.deletions
        cycle?.pages += 1
        if !summary.massDeletes.isEmpty { effects.append(.report(.massDelete(summary.massDeletes))) }
        guard !next.isEmpty || !gone.isEmpty else {
            if cycle?.hasFoundEntities == true {
                cycle?.hasFoundEntities = false
                return loadStreams(&effects)
            }
            notePulled(at: moment)
            if cycle?.readsReferences == true { return referencesRead(at: moment, &effects) }
            // A second read of a few entities, or a read that missed some, does not bring everything up to that head.
            (readings.width, readings.failures) = (nil, 0)
            if let cycle, !cycle.hasPulledForConflicts, !cycle.missedStreams { hub.recordWholeRead(upTo: cycle.pulledHead) }
            return compare(at: moment, &effects)
        }
        if pressure.isQuiet { return goOnLater(at: moment, &effects) }
        if hasReadEnough(at: moment) {
            // Streams whose cursor the hub no longer knows would be asked again then, and refused again.
            return push(at: moment, &effects)
        }
        // The others continue with the cursors that were committed with their pages.
        if !gone.isEmpty { return restart(gone, at: moment, &effects) }
        pull(next, at: moment, &effects)
    }

    /// Records that everything asked for was read to its end. Only a complete read is stored: it takes few bytes, and the pages themselves
    /// hold the rest.
    private mutating func notePulled(at moment: Moment) {
        guard let cycle else { return }
        hub.recordPulled(cycle.asked, at: moment.wall)
        let isWhole = !cycle.readsReferences && !cycle.hasPulledForConflicts && !cycle.missedStreams
        if isWhole, readings.held.isEmpty { durable.recordWholePull(at: moment.wall) }
    }

    mutating func record(_ summary: ResultsSummary, at moment: Moment) {
        let verdicts = summary.done + summary.rejected + summary.retried + summary.conflicted.count
        cycle?.verdicts = verdicts
        cycle?.outcome.pushed += summary.done
        cycle?.outcome.rejected += summary.rejected
        cycle?.conflicted.formUnion(summary.conflicted)
        noteRetry(summary.retryAt, at: moment)
    }

    /// The store's value for all waiting mutations replaces the known one. A time in the past belongs to a mutation that waits for
    /// something else by now, which has its own timer.
    mutating func noteRetry(_ time: Timestamp?, at moment: Moment) {
        pressure.workIsDue(at: time.flatMap { $0 > moment.wall ? instant(of: $0, at: moment) : nil })
    }

    /// The boot time at which the wall clock will show `time` if it does not step. The store is asked again then.
    func instant(of time: Timestamp, at moment: Moment) -> Instant {
        moment.instant.advanced(by: max(.zero, moment.wall.duration(to: time)))
    }

    // MARK: Steps

    mutating func loadInFlight(at moment: Moment, _ effects: inout [SyncEffect]) {
        if isHalted(at: moment) { return halt(at: moment, &effects) }
        if pressure.hasNoRequestsLeft { return goOnLater(at: moment, &effects) }
        guard let limits = limits(at: moment), !ablations.contains(.settleSkipped) else { return pullOrPush(at: moment, &effects) }
        advance(to: .loadingInFlight)
        effects.append(.store(.loadInFlight(limits)))
    }

    mutating func pullOrPush(at moment: Moment, _ effects: inout [SyncEffect]) {
        if nextCycle.pushesFirst || pushesBeforeReading() {
            nextCycle.hasPushedFirst()
            return push(at: moment, &effects)
        }
        let allowed = allowed(at: moment)
        // A trial is a push if there is anything to push.
        guard cycle?.scope != .push, cycle?.isTrial != true, mayPull(under: allowed), needsPull(at: moment) else {
            return push(at: moment, &effects)
        }
        if allowed.push == .bulk, allowed.sizes.isUnlimited { return loadStreams(&effects) }
        // Mutations that cannot be settled now must not be part of a pulled base either.
        advance(to: .lookingForUnsettled)
        effects.append(.store(.loadInFlight(BatchLimits(mutations: 1, bytes: 1))))
    }

    mutating func loadStreams(_ effects: inout [SyncEffect]) {
        advance(to: .loadingStreams)
        effects.append(.store(.loadStreams(also: settings.pullsAll ? memory.hubEntities ?? [] : [])))
    }

    /// No entity to pull is known: a pull without streams asks which ones the hub has.
    private mutating func askForEntities(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard namesEntities, cycle?.hasAskedForEntities == false, allowed(at: moment).pull?.entities == .all else {
            return push(at: moment, &effects)
        }
        cycle?.unasked = []
        request([], at: moment, &effects)
    }

    private var namesEntities: Bool { settings.pullsAll && hub.namesEntities && settings.dialect.fixedHistory == nil }

    /// Returns whether a pull is needed. It is skipped when the hub said within the last minute that it has nothing newer, and no sync was
    /// requested: a caller that requests a sync wants to see what others wrote just now.
    func needsPull(at moment: Moment) -> Bool {
        if cycle?.isRequested == true || cycle?.pullsShare == true || cycle?.scope == .pull || cycle?.scope == .full { return true }
        // After a failure only an answer shows that the hub works, and what it has by now.
        if memory.failures > 0 { return true }
        guard let quiet = hub.timeWithoutNews(at: moment.instant) else { return true }
        // A stream that was left out is asked again.
        if let next = readings.held.nextAt, next <= moment.instant { return true }
        let interval = allowed(at: moment).pull?.interval ?? settings.policy.pullInterval
        // The periodic pull is due one interval after the last one began, which is less than one interval after its answer.
        let isFresh = cycle?.pullIsDue == true ? interval / 2 : interval
        return quiet >= min(isFresh, .seconds(60))
    }

    /// A metered link is used for a pull only when the pull is due or requested.
    func mayPull(under allowed: Allowance) -> Bool {
        guard let terms = allowed.pull else { return false }
        return terms.entities == .all || cycle?.pullIsDue == true || cycle?.isRequested == true
    }

    mutating func pull(_ streams: [StreamPosition], at moment: Moment, _ effects: inout [SyncEffect]) {
        // The hub limits the streams of one request; the others are asked for with the next page.
        let streams = streams.filter { mayPull($0.entity, at: moment) }
        guard !streams.isEmpty else { return push(at: moment, &effects) }
        // A stream that failed before is asked alone, after the others, so that it does not make their answer fail again.
        let (sound, doubtful) = settings.dialect.isOneRequest ? readings.held.split(streams) : (streams, [])
        let asked = Array(sound.isEmpty ? doubtful.prefix(1) : sound.prefix(readings.width ?? PullMessages.streamsMax))
        cycle?.unasked = Array((sound + doubtful).dropFirst(asked.count))
        cycle?.asked.formUnion(asked.map(\.entity))
        request(asked, at: moment, &effects)
    }

    private mutating func request(_ asked: [StreamPosition], at moment: Moment, _ effects: inout [SyncEffect]) {
        var request = PullRequest(
            streams: asked, limit: hub.pullRecords, maxBytes: pace.down.bytes, maxSentSeq: marks.maxSentSeq,
            namesUnreadable: hub.namesUnreadable)
        request.namesEntities = namesEntities && cycle?.hasAskedForEntities == false
        if request.namesEntities { cycle?.hasAskedForEntities = true }
        send(.pull, settings.dialect.pull(request), at: moment, &effects) { .pulling(asked, call: $0) }
    }

    /// Asked before each page. An entity that is left out does not count as read up to the hub's head.
    mutating func mayPull(_ entity: EntityName, at moment: Moment) -> Bool {
        switch allowed(at: moment).pull?.entities {
        case .all: return true
        // A caller that may push may also read the results.
        case .critical where settings.criticalEntities.contains(entity) || cycle?.conflicted.contains(entity) == true: return true
        case .critical, nil:
            cycle?.missedStreams = true
            cycle?.asked.remove(entity)
            return false
        }
    }

    /// Lists these entities again; the others continue.
    mutating func restart(_ entities: [EntityName], at moment: Moment, _ effects: inout [SyncEffect]) {
        guard !entities.isEmpty else { return push(at: moment, &effects) }
        hub.forgetReadHead()
        effects.append(.report(.streamsRestarted(entities)))
        advance(to: .restartingStreams)
        // Where some cursors were made under other scopes, the others of the same answer were, too.
        let isOfShare = !readings.rescoped.isDisjoint(with: entities)
        readings.rescoped.subtract(entities)
        effects.append(.store(isOfShare ? .restartShares(entities) : .restartStreams(entities)))
    }

    mutating func push(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard cycle?.scope != .pull else { return keepHouse(at: moment, &effects) }
        // Before the claim, because a claimed mutation counts as sent.
        if isHalted(at: moment) { return halt(at: moment, &effects) }
        if pressure.hasNoRequestsLeft {
            nextCycle.pushFirst()
            return goOnLater(at: moment, &effects)
        }
        guard let limits = limits(at: moment) else { return keepHouse(at: moment, &effects) }
        advance(to: .claiming(limits.leastPriority))
        effects.append(.store(.claim(limits)))
    }

    mutating func pushOrEnd(_ batch: Batch?, at moment: Moment, _ effects: inout [SyncEffect]) {
        if let batch {
            marks.recordSent(batch)
            // The verdict may have changed while the store claimed the batch. The batch counts as sent; the next allowed cycle settles it.
            guard mayGo(batch, at: moment) else { return halt(at: moment, &effects) }
            return push(batch, as: .push, at: moment, &effects) { .pushing(batch, call: $0) }
        }
        if cycle?.isTrial == true, cycle?.scope != .push {
            // Without anything to push, a pull is the trial.
            cycle?.isTrial = false
            return pullOrPush(at: moment, &effects)
        }
        if cycle?.owesPull == true {
            cycle?.owesPull = false
            return pullOrPush(at: moment, &effects)
        }
        if let cycle, !cycle.conflicted.isEmpty, !cycle.hasPulledForConflicts, allowed(at: moment).pull != nil {
            self.cycle?.hasPulledForConflicts = true
            return loadStreams(&effects)
        }
        keepHouse(at: moment, &effects)
    }

    /// Returns whether nothing may be sent any more: sync was paused, the link went down, or it costs too much now. It is checked before
    /// every call, so that a cycle ends at its next step. That is no failure; the next cycle continues.
    func isHalted(at moment: Moment) -> Bool {
        allowed(at: moment).isNothing
    }

    mutating func halt(at moment: Moment, _ effects: inout [SyncEffect]) {
        if !conditions.hasLink {
            cycle?.outcome.error = "the link went down"
        } else if isPaused(at: moment) {
            cycle?.outcome.error = "paused"
        } else {
            let reason = allowed(at: moment).deferral?.reason.sentence
            cycle?.outcome.error = reason.map { "not now: " + $0 } ?? "not now"
        }
        pressure.wish(.again(at: moment.instant), at: moment.instant)
        saveOrFinish(at: moment, &effects)
    }

    /// Ends the cycle with work left, because it has no time or requests left, or was only a trial.
    mutating func goOnLater(at moment: Moment, _ effects: inout [SyncEffect]) {
        var next = pressure.nextRequestAt(moment.instant)
        // The whole fleet notices at the same time that the hub works again.
        if cycle?.isTrial == true {
            next = max(next, moment.instant.advanced(by: random.duration(from: .zero, to: hub.spread)))
            pressure.wish(.spread(until: next), at: moment.instant)
        }
        pressure.wish(.again(at: next), at: moment.instant)
        keepHouse(at: moment, &effects)
    }

    func mustEnd(at moment: Moment) -> Bool {
        isOverBudget(at: moment) || pressure.isQuiet || cycle?.isTrial == true
    }

    func isOverBudget(at moment: Moment) -> Bool {
        cycle.map { $0.began.duration(to: moment.instant) >= Limits.cycleBudget } ?? true
    }

    mutating func succeed(at moment: Moment, _ effects: inout [SyncEffect]) {
        // An entity that could not be read does not hold back the others, but must be visible.
        durable.recordSuccess(
            at: moment.wall, error: cycle?.outcome.error ?? (readings.held.isEmpty ? nil : readings.held.sentence))
        // A whole cycle without a call brings no news, but the hub's answer to the probe is valid.
        if breaker.state == .halfOpen { closeBreaker(&effects) }
        pressure.recordSuccess(at: moment)
        durable.holdUntil(pressure.retryAt)
        saveOrFinish(at: moment, &effects)
    }

    mutating func saveOrFinish(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard durable.isWorthSaving else { return finish(at: moment, &effects) }
        advance(to: .remembering)
        saveMemory(&effects)
    }

    mutating func finish(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard var outcome = cycle?.outcome, let began = cycle?.began else { return }
        outcome.duration = began.duration(to: moment.instant)
        planHeldStreams(at: moment)
        cycle = nil
        pressure.wish(.pullDue, at: moment.instant)
        effects.append(.report(.cycleEnded(outcome)))
    }

    // MARK: Small parts

    mutating func advance(to step: Step) {
        cycle?.step = step
    }

    mutating func send(
        _ kind: HubCall.Kind, _ content: CallContent, at moment: Moment, _ effects: inout [SyncEffect], _ step: (UInt64) -> Step
    ) {
        if isHalted(at: moment) { return halt(at: moment, &effects) }
        watchdog.tried(at: moment.instant)
        var call = HubCall(id: calls.next(), kind: kind, session: cycle?.session ?? "", body: content.body, query: content.query)
        call.rest = content.rest
        if kind.isReading { call.answerBytes = pace.down.bytes }
        // A page may be twice as large as asked, when a commit is that large, and may hold one record of any size.
        let answer = kind.isReading ? 2 * pace.down.bytes + Limits.documentBytes : 0
        call.timeLimit = LinkPace.timeLimit(for: content.body.count + answer, rate: kind.isReading ? pace.down.rate : pace.up.rate)
        if kind == .push || kind == .settle, !ablations.contains(.epochIgnored) { call.epoch = memory.epoch }
        if kind == .push || kind == .settle || kind == .hello { call.receipt = durable.receipt }
        calls.record(call)
        advance(to: step(call.id))
        effects.append(.send(call))
    }

    mutating func count(_ traffic: Traffic) {
        cycle?.outcome.bytesUp += traffic.up
        cycle?.outcome.bytesDown += traffic.down
    }

    mutating func note(_ facts: HubHeaders, sent: Instant, at moment: Moment, _ effects: inout [SyncEffect]) {
        if let time = facts.time {
            let systemTime = wallIsSynchronised ? moment.wall : nil
            let report = hub.recordTime(time, sent: sent, received: moment.instant, systemTime: systemTime)
            if let report { effects.append(.report(report)) }
        }
        hub.record(facts, at: moment.instant)
        if let mark = facts.shareMark { noteShare(mark, at: moment) }
    }

    func isRegressed(_ hubSeq: Int64?) -> Bool {
        guard let hubSeq, !ablations.contains(.regressionIgnored) else { return false }
        return hubSeq > marks.maxSentSeq
    }

    mutating func regressed(_ hubSeq: Int64, at moment: Moment, _ effects: inout [SyncEffect]) {
        // A new replica has no past. A hub that keeps reporting one would make the agent write new ids for ever.
        if cycle?.hasAdoptedReplica == true {
            let detail = "the hub says that it has seen mutations of a replica that is new"
            return failed(HubReply.Refusal(.nonsense, detail), at: moment, &effects)
        }
        cycle?.hasAdoptedReplica = true
        effects.append(.report(.regressed(hubSeq: hubSeq, ours: marks.maxSentSeq)))
        let adopted = ReplicaID(trusted: UUIDv7.make(at: moment.wall, using: &random))
        advance(to: .adoptingReplica(adopted))
        effects.append(.store(.adoptReplica(adopted)))
    }
}
