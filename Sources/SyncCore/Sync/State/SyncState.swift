/// State that the phases of a cycle share: the owners of what is known, the running cycle, and the time and the effects of the event that
/// is being handled.
struct SyncState: Sendable {
    var settings: SyncEngine.Settings
    let ablations: Ablations
    var random: SeededRandom

    // MARK: Owners

    var hub = HubView()
    var durable = DurableMemory()
    var pressure: Pressure
    var marks: ReplicaMarks
    var sizes = RequestSizes()
    var calls = CallLog()
    var nextCycle = NextCycle()
    var readings = ReadingMemory()
    var house = Housekeeping()
    var share = ShareWatch()
    var news = NewsWait()
    var watchdog = Watchdog()

    // MARK: Conditions

    var conditions = Conditions.plain
    var withheld = WithheldWork()
    /// The last known allowance by links, power and budgets alone.
    var termsBefore: Allowance?
    /// The kernel reports that the wall clock is synchronised.
    var wallIsSynchronised = false

    /// The running cycle.
    var cycle: SyncCycle?

    // MARK: The present event

    var now = Moment(instant: Instant(nanoseconds: 0), wall: Timestamp(milliseconds: 0))
    private(set) var effects: [SyncEffect] = []

    init(settings: SyncEngine.Settings, replica: ReplicaID, random: SeededRandom, ablations: Ablations) {
        self.settings = settings
        marks = ReplicaMarks(replica)
        self.random = random
        self.ablations = ablations
        pressure = Pressure(settings)
    }

    var memory: EngineMemory { durable.memory }

    mutating func ask(_ command: StoreCommand) {
        effects.append(.store(command))
    }

    mutating func report(_ report: SyncReport?) {
        if let report { effects.append(.report(report)) }
    }

    mutating func append(_ effect: SyncEffect) {
        effects.append(effect)
    }

    /// Hands over the effects of the event, which is over then.
    mutating func takeEffects() -> [SyncEffect] {
        defer { effects = [] }
        return effects
    }

    mutating func trigger(_ trigger: CycleTimer.Trigger) {
        pressure.trigger(trigger, at: now.instant)
    }

    // MARK: Calls

    /// Sends a call. It is asked before every call whether anything may be sent, so that a cycle ends at its next step.
    ///
    /// - Returns: The number of the call; `nil` when nothing may be sent any more.
    mutating func send(_ kind: HubCall.Kind, _ content: CallContent) -> UInt64? {
        if isHalted { return nil }
        watchdog.tried(at: now.instant)
        var call = HubCall(id: calls.next(), kind: kind, session: cycle?.session ?? "", body: content.body, query: content.query)
        call.rest = content.rest
        call.schemas = settings.schemas
        if kind.isReading { call.answerBytes = sizes.pace.down.bytes }
        call.timeLimit = timeLimit(for: content.body.count, isReading: kind.isReading)
        if kind == .push || kind == .settle, !ablations.contains(.epochIgnored) { call.epoch = memory.epoch }
        call.receipt = durable.receipt(for: kind)
        calls.record(call)
        append(.send(call))
        return call.id
    }

    /// Longest total time of a call with a body of so many bytes.
    func timeLimit(for body: Int, isReading: Bool) -> Duration {
        let pace = sizes.pace
        // A page may be twice as large as asked, when a commit is that large, and may hold one record of any size.
        let answer = isReading ? 2 * pace.down.bytes + Limits.documentBytes : 0
        return LinkPace.timeLimit(for: body + answer, rate: isReading ? pace.down.rate : pace.up.rate)
    }

    mutating func push(_ batch: Batch, as kind: HubCall.Kind) -> UInt64? {
        send(kind, settings.dialect.push(batch, config: settings.configVersion))
    }

    // MARK: The store

    mutating func saveMemory() {
        guard !house.isUnderWay, !news.isLoading, let command = durable.save() else { return }
        ask(command)
    }

    /// The store's value for all waiting mutations replaces the known one. A time in the past belongs to a mutation that waits for
    /// something else by now, which has its own timer.
    mutating func recordRetry(_ time: Timestamp?) {
        pressure.workIsDue(at: time.flatMap { $0 > now.wall ? instant(of: $0) : nil })
    }

    /// The boot time at which the wall clock will show `time` if it does not step. The store is asked again then.
    func instant(of time: Timestamp) -> Instant {
        now.instant.advanced(by: max(.zero, now.wall.duration(to: time)))
    }

    /// Records what the store made of results.
    ///
    /// - Returns: Number of verdicts.
    mutating func record(_ summary: ResultsSummary) -> Int {
        cycle?.outcome.pushed += summary.done
        cycle?.outcome.rejected += summary.rejected
        cycle?.conflicted.formUnion(summary.conflicted)
        recordRetry(summary.retryAt)
        return summary.done + summary.rejected + summary.retried + summary.conflicted.count
    }

    // MARK: The hub's answers

    /// Records what the headers of an answer show, good or bad.
    mutating func record(_ facts: HubHeaders, sent: Instant) {
        // The round trip of a call that has waited is its wait, and shows nothing about the clock.
        if let time = facts.time, !calls.hasWaited {
            let systemTime = wallIsSynchronised ? now.wall : nil
            report(hub.recordTime(time, sent: sent, received: now.instant, systemTime: systemTime))
        }
        hub.record(facts, isOvertaken: calls.isOvertaken, at: now.instant)
        if let mark = facts.shareMark { recordShare(mark) }
    }

    /// Counts the bytes of an answer, and what it says about the way to the server.
    mutating func count(_ answer: ServerAnswer, isReading: Bool) {
        cycle?.outcome.bytesUp += answer.traffic.up
        cycle?.outcome.bytesDown += answer.traffic.down
        if let error = answer.broken, settings.dialect.isOneRequest { sizes.recordBroken(error, isReading: isReading) }
        guard answer.isBackends else { return }
        cycle?.wasAnswered = true
        guard answer.refusal == nil else { return }
        hubIs(.online, cause: "the backend answered", nil)
        endTrial()
        pressure.hubAnswered()
    }

    /// Records what the headers of a hub's good answer show.
    ///
    /// - Returns: The phase that follows instead of the use of the content, when the content belongs to another history of the hub or
    ///   of this database; `nil` when the content counts.
    mutating func believe(_ facts: HubHeaders, sent: Instant) -> NextPhase? {
        let hasForgotten = hasForgotten(facts)
        record(facts, sent: sent)
        pressure.recordRate(facts, at: now.instant)
        report(hub.recordClones(facts))
        hubIs(.online, cause: "the hub answered", nil)
        if let seen = regression(facts.deviceSeq) { return .adoptReplica(seen: seen) }
        if let epoch = facts.epoch, isOtherHistory(epoch) { return .heal(to: epoch) }
        if hasForgotten, let next = hubForgot(facts) { return next }
        if facts.epoch != nil, facts.epoch == memory.epoch { durable.endOtherHealing() }
        cycle?.wasAnswered = true
        cycle?.facts = facts
        if let receipt = calls.receipt { durable.recordShown(receipt) }
        news.overtake()
        return nil
    }

    var reachability: Reachability {
        conditions.hasLink && !conditions.isBlocked ? hub.reachability : conditions.reachability
    }

    mutating func hubIs(_ next: Reachability, cause: String, _ fault: HubFault?) {
        let before = reachability
        hub.isNow(next)
        guard reachability != before else {
            // When the probe holds back attempts, its result is the reason.
            let isOwn = conditions.hasLink && !conditions.isBlocked
            if isOwn, let fault { report(.fault(fault)) }
            return
        }
        report(.reachability(from: before, to: reachability, cause: cause, fault))
    }

    /// Reports records that the hub has and cannot read. They stay here unchanged, and a person should know.
    mutating func reportLeftOut() {
        report(.recordsLeftOut(memory.leftOut))
    }
}
