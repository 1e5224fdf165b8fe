/// Decides when to contact the hub, with which request, and how to handle an answer. It performs nothing: events and the time go in,
/// effects come out. So every decision can be replayed, and a simulation can stop between any two effects.
///
/// One cycle runs at a time: settle, pull, push, housekeeping (PROTOCOL G0).
///
/// - *Settle* comes first. Mutations in flight have an unknown outcome. They are sent again unchanged, and only an answer may end that
///   state. Before this, a pulled base may already contain our own operations.
/// - *Pull* brings the hub's changes, page by page, each with its cursor in one transaction.
/// - *Push* claims a batch (a commit), sends it, and records the verdicts (a commit, which claims the next one too).
///
/// One store command or one call runs at a time, so an answer always finds the step that waits for it. A late answer to a call that was
/// given up is recognised by its number and dropped; its mutations are still in flight and will be settled.
package struct SyncEngine: Sendable {
    package struct Settings: Hashable, Sendable {
        package var timer = CycleTimer.Settings()
        package var backoff = Backoff()
        package var breaker = Breaker.Settings()
        package var policy = PolicySettings()
        /// The first contact after a start or a gap is at a random moment within this time, so that a fleet does not come back all at once.
        package var spread: Duration = .seconds(5)
        /// Entities that are pulled over every link; the others wait for an unmetered one.
        package var criticalEntities: Set<EntityName> = []
        /// Name of the agent for the hello.
        package var agent = ""
        package var platform = ""
        package var entities: [EntityName] = []
        /// Version of the hub's configuration that is in force here, for the hello and each push; `nil`: none.
        package var configVersion: Int64?
        /// The configuration names no entities to pull: all entities of the hub are pulled.
        package var pullsAll = false
        /// The server is an existing backend (PROTOCOL A13): no hello, one request for each mutation, lists instead of a feed.
        package var isRest = false
        /// Name of the server: refusals and delays of another one do not apply to it. Empty: unknown.
        package var server = ""

        package init() {}
    }

    // MARK: State

    package var settings: Settings
    package let ablations: Ablations
    var random: SeededRandom
    var pressure: Pressure
    var conditions = Conditions.plain
    var hub = HubView()
    package internal(set) var withheld = WithheldWork()
    /// The last known allowance by links, power and budgets alone.
    var termsBefore: Allowance?
    package internal(set) var watchdog = Watchdog()
    /// Start of the running job; `nil` while there is none.
    var jobBegan: Instant?
    var marks: ReplicaMarks
    var durable = DurableMemory()
    package internal(set) var cycle: Cycle?
    var nextCycle = NextCycle()
    var calls = CallLog()
    var hasStarted = false
    var sizes = RequestSizes()
    /// The kernel reports that the wall clock is synchronised; may change at any time.
    package var wallIsSynchronised = false
    var house = House()
    var share = Share()
    var readings = ReadingMemory()
    var armedWake: Instant?
    var armedForWatchdog = false

    package init(settings: Settings, replica: ReplicaID, random: SeededRandom, ablations: Ablations = .none) {
        self.settings = settings
        marks = ReplicaMarks(replica)
        self.random = random
        self.ablations = ablations
        pressure = Pressure(settings)
    }

    /// One run through the steps.
    package struct Cycle: Hashable, Sendable {
        package var session: String
        package var began: Instant
        package var scope: SyncRequest.Scope
        package var step: Step
        package var outcome: CycleOutcome
        /// An operator or an app requested it, or requested the one before, which failed.
        package internal(set) var isRequested = false
        /// An operator or an app requested this one.
        var isAskedFor = false
        /// An operator ordered to ignore cost, battery and windows.
        package internal(set) var isForced = false
        /// The periodic pull was due. A metered link is used for a pull only then.
        var pullIsDue = false
        /// It finds out whether the hub works again: one push of a few mutations.
        var isTrial = false
        var pages = 0
        var unasked: [StreamPosition] = []
        /// The head of the newest answer to a push.
        var pushedHead: Int64?
        /// The head of the cycle's first pull answer: everything up to it has been read when the last page is in.
        var pulledHead: Int64?
        /// A stream answered with an error of its own, so the pull is incomplete.
        var missedStreams = false
        /// Entities that its pulls asked for, except the refused ones.
        var asked: Set<EntityName> = []
        /// Number of answers whose cursor stood still although more was to come.
        var stuckPages = 0
        /// Streams that failed in this cycle: none of them is asked for twice.
        var failedStreams: Set<EntityName> = []
        /// Number of failed reads in a row.
        var badReads = 0
        /// Number of records and deletions of all pages.
        var received = 0
        /// It has pushed first, and reads when nothing is left to push.
        var owesPull = false
        /// Entities whose conflicts need one more pull in this cycle; there is never a third round.
        var conflicted: Set<EntityName> = []
        var hasPulledForConflicts = false
        /// Number of verdicts in the latest answer; a batch without any ends the pushing.
        var verdicts = 0
        /// The hub has answered in this cycle.
        var wasAnswered = false
        var hasAdoptedReplica = false
        /// The reads that are still to do.
        var reading = Reading()
        /// Reference data is read alone, because the records that a new device needs first come after it.
        var readsReferences = false
        var hasReadReferences = false
        /// The hub has named entities that were not known before, or has been asked in vain: once a cycle is enough.
        var hasAskedForEntities = false
        var hasFoundEntities = false
        /// It pulls because the scopes of this device have changed.
        var pullsShare = false
        /// Streams were started again in this cycle because it was due.
        var hasRestarted = false
        /// This database is being moved to a new history of the hub.
        var isHealing = false
        var healed = 0
        /// The hub was behind its former state, and was greeted with its receipt.
        var hasShownReceipt = false
        /// The headers of the latest good answer.
        var facts = HubHeaders()
    }

    package struct Failure: Hashable, Sendable {
        var detail: String
        var kind: HubReply.Kind
        var cause: FailureCause
        var retry: Duration
        /// The delay that the server asked for.
        var asked: Duration?
    }

    /// Results that the store is recording.
    package struct Recording: Hashable, Sendable {
        /// They are of a batch whose outcome was unknown.
        var isSettled: Bool
        /// Least priority of the batch that is claimed in the same transaction; `nil`: none is.
        var next: Priority?
        /// The refusal that ends the cycle afterwards.
        var refusal: HubReply.Refusal?
    }

    /// The event that the cycle waits for. The step of a call holds the request.
    package enum Step: Hashable, Sendable {
        case greeting(call: UInt64)
        case loadingInFlight
        case settling(Batch, call: UInt64)
        case adoptingReplica(ReplicaID)
        /// Before a pull, when not everything may be settled: mutations in flight prevent the pull.
        case lookingForUnsettled
        case loadingStreams
        case pulling([StreamPosition], call: UInt64)
        case applyingPull([StreamPosition], restart: [EntityName])
        case restartingStreams
        case listing(StreamPosition, call: UInt64)
        case applyingSnapshot
        case seeding(StreamPosition, call: UInt64)
        case applyingSeed
        case digesting(StreamPosition)
        case verifying(StreamPosition, call: UInt64)
        case recordingComparison
        case loadingSettled
        case asking([MutationKey], upTo: Int64, call: UInt64)
        case requeuing(upTo: Int64)
        case forgettingHistory
        case adoptingHistory
        /// The value is the least urgent priority that is allowed.
        case claiming(Priority)
        case pushing(Batch, call: UInt64)
        case recording(Recording)
        /// The value is the failure that ends the cycle afterwards, unless it is known that other work succeeds.
        case settingAside(Failure?)
        case housekeeping
        case remembering
    }

    // MARK: Events

    package mutating func handle(_ event: SyncEvent, at moment: Moment) -> [SyncEffect] {
        var effects: [SyncEffect] = []
        switch event {
        case .started(let start):
            begin(with: start, at: moment)
            if !memory.leftOut.isEmpty { tellLeftOut(&effects) }
        case .enqueued(let priority, let expiry):
            house.expires(at: expiry)
            if !(ablations.contains(.wakeLost) && cycle != nil) {
                pressure.wish(.enqueued(priority), at: moment.instant)
                watchdog.enqueued(priority, at: moment.instant)
            }
        case .requested(let wanted):
            nextCycle.add(wanted)
            pressure.wish(.requested(isForced: wanted.isForced), at: moment.instant)
            if wanted.isForced { pressure.probeSoon(at: moment.instant) }
        case .paused(let pause):
            durable.pause(pause)
        case .resumed:
            guard memory.pause != nil else { break }
            durable.endPause()
            pressure.wish(.again(at: moment.instant), at: moment.instant)
        case .conditions(let now): conditionsChanged(to: now, at: moment, &effects)
        case .settings(let settings):
            self.settings = settings
            pressure.apply(settings)
            hub.requireHello()
            settingsChanged(at: moment, &effects)
        case .credentialsChanged: if pressure.failureCause == .credentials { tryAgain(at: moment) }
        case .clockChanged:
            armedWake = nil
            pressure.wish(.again(at: moment.instant.advanced(by: .seconds(1))), at: moment.instant)
            pressure.showHold(at: moment)
            durable.moveHold(to: pressure.retryAt)
        case .timer: armedWake = nil
        case .stored(let answer):
            if cycle != nil {
                stored(answer, at: moment, &effects)
            } else if house.isUnderWay {
                housekept(answer, at: moment)
            } else {
                durable.recordSaved(answer)
            }
        case .answered(let call, let result, let sent):
            answered(call, HubDialect.read(result, to: calls.kind, now: moment.wall), sent: sent, at: moment, &effects)
        case .backendAnswered(let call, let reply, let sent): answered(call, RestDialect.read(reply), sent: sent, at: moment, &effects)
        case .probed(let id, let isGood): probed(id, isGood: isGood, at: moment, &effects)
        }
        if hasStarted {
            noticeVerdict(at: moment)
            noticeStall(at: moment, &effects)
            if cycle == nil {
                if durable.mustSavePause { saveMemory(&effects) }
                probeIfDue(at: moment, &effects)
                if isFree { beginCycleIfDue(at: moment, &effects) }
                if isFree { keepHouseIfDue(at: moment, &effects) }
            }
        }
        if effects.contains(where: \.isJob) { jobBegan = moment.instant } else if isFree { jobBegan = nil }
        arm(&effects, at: moment)
        return effects
    }

    /// Time of the next planned cycle, by the present state.
    package func nextCycleAt(at moment: Moment) -> Instant? {
        pressure.timer.dueAt(allowance(at: moment), forced: allowance(at: moment, isForced: true))
    }

    /// Time of the planned housekeeping, if no cycle does it before; `nil` before the start.
    package var housekeepingAt: Instant? { house.dueAt }

    /// `true` when the last pull read every stream to its end and nothing newer is known.
    package var isCaughtUp: Bool { hub.isReadToHead && readings.held.isEmpty }

    /// Time of the last complete pull of the entity. `nil`: neither this run nor an earlier one has a record of it.
    package func pulledAt(_ entity: EntityName) -> Timestamp? {
        [hub.pulledAt(entity), memory.pulledAt].compactMap { $0 }.max()
    }

    /// State that survives a restart, as it is now.
    package var memory: EngineMemory { durable.memory }

    package var replica: ReplicaID { marks.id }

    /// Highest `seq` that this replica has ever handed to the network.
    package var maxSentSeq: Int64 { marks.maxSentSeq }

    /// Sizes of pages and batches on the present link.
    package var pace: LinkPace { sizes.pace }

    package var breaker: Breaker { pressure.breaker }

    /// Wall time of the next possible attempt, for status.
    package var retryAt: Timestamp? { pressure.retryAt }

    /// Newest commit number that the hub has named.
    package var seenHead: Int64? { hub.head }

    /// Number of databases that use our name in turns, as the hub last said; 1 is only this one.
    package var twins: Int64 { hub.clones }

    package var clock: ClockOffset { hub.clock }

    /// The verdict about the time in the hub's latest answer.
    package var hubTime: ClockOffset.Verdict { hub.time }

    // MARK: Between cycles

    private mutating func begin(with start: EngineStart, at moment: Moment) {
        hasStarted = true
        house.began = moment.instant
        house.expires(at: start.expiry)
        durable = DurableMemory(start.memory)
        durable.recordServer(settings.server)
        marks = ReplicaMarks(start.replica, maxSentSeq: start.maxSentSeq, ackedSeq: start.ackedSeq)
        conditions = start.conditions
        hub = HubView(prior: start.anchor)
        for priority in start.waiting {
            pressure.wish(.enqueued(priority), at: moment.instant)
            watchdog.enqueued(priority, at: moment.instant)
        }
        let first = firstContact(within: settings.spread, at: moment)
        if memory.isBreakerOpen { pressure.reopenBreaker(probeAt: first) }
        // A delay that the server asked for survives a restart. The wall clock may be wrong by now, so it holds for an hour at most.
        if let notBefore = memory.notBefore, notBefore > moment.wall {
            let rest = min(moment.wall.duration(to: notBefore), .seconds(3600))
            pressure.hold(until: moment.instant.advanced(by: rest), at: moment)
        }
    }

    private mutating func beginCycleIfDue(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard let due = nextCycleAt(at: moment), due <= moment.instant else { return }
        durable.endPause()
        beginCycle(at: moment, &effects)
    }

    func isPaused(at moment: Moment) -> Bool {
        guard let pause = memory.pause else { return false }
        return pause.until.map { $0 > moment.wall } ?? true
    }

    /// Asks for a wake-up when one is needed earlier than planned. A later one needs no new timer at each enqueue: the earlier one fires,
    /// finds nothing due, and the next is planned then. During a cycle and a save it serves only the watchdog, because their answers are
    /// events.
    private mutating func arm(_ effects: inout [SyncEffect], at moment: Moment) {
        guard hasStarted, let wanted = wakeWanted(at: moment) else { return }
        // A wake-up for the watchdog of a job is not needed when the job is done.
        let isStale = armedForWatchdog && jobBegan == nil
        // After a suspend the planned wake-up is overdue by this clock and may be late: timers stood still meanwhile.
        if let armedWake, armedWake <= wanted, armedWake > moment.instant, !isStale { return }
        armedForWatchdog = jobBegan != nil
        armedWake = wanted
        effects.append(.wake(at: wanted))
    }

    package var reachability: Reachability {
        conditions.hasLink && !conditions.isBlocked ? hub.reachability : conditions.reachability
    }

    mutating func hubIs(_ next: Reachability, cause: String, _ fault: HubFault?, _ effects: inout [SyncEffect]) {
        let before = reachability
        hub.isNow(next)
        guard reachability != before else {
            // When the probe holds back attempts, its result is the reason.
            let isOwn = conditions.hasLink && !conditions.isBlocked
            if isOwn, let fault { effects.append(.report(.fault(fault))) }
            return
        }
        effects.append(.report(.reachability(from: before, to: reachability, cause: cause, fault)))
    }

    mutating func saveMemory(_ effects: inout [SyncEffect]) {
        guard !house.isUnderWay, let command = durable.save() else { return }
        effects.append(.store(command))
    }
}
