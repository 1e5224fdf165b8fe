/// Decides when to talk to the hub, about what, and what an answer means. It performs nothing: events and the time go
/// in, effects come out, so that every decision can be replayed and a simulation can stop between any two effects.
///
/// One cycle runs at a time: settle, pull, push, housekeeping (PROTOCOL G0).
///
/// - *Settle* comes first. What is in flight has an unknown outcome; it is sent again unchanged, and only its answer may
///   end that. Before this, no pulled base can be trusted not to contain our own operations already.
/// - *Pull* brings what the hub has, page by page, each with its cursor in one transaction.
/// - *Push* claims a batch (a commit), sends it, records the verdicts (a commit, which claims the next one too).
///
/// One store command or one call is under way at a time, so an answer always finds the step that waits for it. A late
/// answer to a call that was given up is recognised by its number and dropped; its mutations are still in flight and
/// will be settled.
package struct SyncEngine: Sendable {
    package struct Settings: Hashable, Sendable {
        package var timer = CycleTimer.Settings()
        package var backoff = Backoff()
        package var breaker = Breaker.Settings()
        package var policy = PolicySettings()
        /// First contact after a start or a gap is drawn from this long, so that a fleet does not come back as one.
        package var spread: Duration = .seconds(5)
        /// Pulled over every link; the others wait for one that costs nothing.
        package var criticalEntities: Set<EntityName> = []
        /// For the hello.
        package var agent = ""
        package var platform = ""
        package var entities: [EntityName] = []
        /// Version of the hub's configuration that is in force here, for the hello and each push; `nil`: none.
        package var configVersion: Int64?
        /// Nobody has said what to pull: then it is all that the hub has.
        package var pullsAll = false
        /// The server is an existing backend (PROTOCOL A13): no hello, one request for a mutation, lists instead of a feed.
        package var isRest = false
        /// Names the server: what another one has refused or asked for does not bind this one. Empty: nobody says.
        package var server = ""

        package init() {}
    }

    // MARK: State

    package var settings: Settings
    package let ablations: Ablations
    var random: SeededRandom
    var timer: CycleTimer
    var conditions = Conditions.plain
    /// What is known of the hub over the present link; never `offline`.
    var hub = Reachability.connecting
    package internal(set) var withheld = WithheldWork()
    /// What links, power and budgets allowed when we looked last, whatever held us back besides.
    var termsBefore: Allowance?
    package internal(set) var breaker: Breaker
    /// The probe under way, and when it left.
    var probe: Probe?
    package internal(set) var watchdog = Watchdog()
    /// A fleet that finds its hub again is drawn from this long; the hub says it in its hello (`spread_s`).
    var hubSpread: Duration = .seconds(30)
    /// The hub has few requests left for us: no further batch before this, and with none left no request at all.
    var quietUntil: Instant?
    var hasNoRequestsLeft = false
    /// Somebody asked for the cycle that failed last: the next one is theirs.
    var owesRequest = false
    /// The last cycle had to end between its pull and its push.
    var pushesFirst = false
    /// When the job under way was begun; `nil` while there is none.
    var jobBegan: Instant?
    package internal(set) var replica: ReplicaID
    /// Highest `seq` that was ever handed to the network by this replica.
    package internal(set) var maxSentSeq: Int64 = 0
    var ackedSeq: Int64 = 0
    package internal(set) var memory = EngineMemory()
    /// What of `memory` is on flash, and what is being written.
    var remembered = EngineMemory()
    var saving: EngineMemory?
    /// The store refused the last attempt: the next one comes with the next cycle or pause, not at once.
    var couldNotSave = false
    package internal(set) var cycle: Cycle?
    var request: SyncRequest?
    var lastCallID: UInt64 = 0
    var hasStarted = false
    var sizer = BatchSizer()
    /// How large pages and batches are on the present link.
    package internal(set) var pace = LinkPace()
    /// The link that it was measured on.
    var paceLink: String?
    /// Bytes of the body of the latest call, and how long it may take.
    var lastBody = 0
    var lastTimeLimit: Duration = .zero
    /// Records and deletions that we ask for in one page.
    var pullRecords = Limits.pullRecords
    package internal(set) var clock = ClockOffset()
    /// The kernel says that the wall clock is synchronised; may change at any time.
    package var wallIsSynchronised = false
    /// What became of the time in the hub's latest answer.
    package internal(set) var hubTime = ClockOffset.Verdict.accepted
    /// Newest commit number that the hub told us of, and the one up to which we have everything but our own echoes.
    package internal(set) var seenHead: Int64?
    var knownHead: Int64?
    /// When this database healed alone from a hub that had gone back.
    var forgottenAt: Instant?
    /// The hub went back again too soon after that: this database heals once more when the time has come.
    var owesHealing = false
    var headSeenAt: Instant?
    /// When a pull that asked for the entity was last read to its end. The hub leaves out what has no news, so no page tells.
    var pulledAt: [EntityName: Timestamp] = [:]
    var greetedAt: Instant?
    /// The hub compares from afar (``VerifyMessages``).
    var hubHasDigests = false
    /// It can leave a damaged record out and say so (``UnreadableRecords``).
    var hubNamesUnreadable = false
    var hubNamesEntities = false
    /// The highest `seq` of ours that the hub knows of, by its latest answer.
    var hubSeq: Int64 = 0
    /// Databases that speak in turns under our name, as the hub last said; 1 is only us.
    package internal(set) var twins: Int64 = 1
    var house = House()
    var readings = ReadingMemory()
    /// When the next attempt may be made, for status: wall time of the hold.
    package internal(set) var retryAt: Timestamp?
    var armedWake: Instant?
    var armedForWatchdog = false
    /// Who is behind the last failure.
    var failureCause = FailureCause.none

    package init(settings: Settings, replica: ReplicaID, random: SeededRandom, ablations: Ablations = .none) {
        self.settings = settings
        self.replica = replica
        self.random = random
        self.ablations = ablations
        timer = CycleTimer(settings: settings.timer)
        breaker = Breaker(settings: settings.breaker)
    }

    /// One run through the steps.
    package struct Cycle: Hashable, Sendable {
        package var session: String
        package var began: Instant
        package var scope: SyncRequest.Scope
        package var step: Step
        package var outcome: CycleOutcome
        /// An operator or an app wanted it, or wanted the one before, which failed.
        package internal(set) var isRequested = false
        /// An operator or an app wanted this one.
        var isAskedFor = false
        /// An operator said that cost, battery and windows do not matter.
        package internal(set) var isForced = false
        /// Whether the periodic pull was due. A link that costs something is pulled over then only.
        var pullIsDue = false
        /// It finds out whether the hub is back: one push of a few mutations.
        var isTrial = false
        var pages = 0
        var unasked: [StreamPosition] = []
        /// The head of the cycle's first pull answer: everything up to it has been read when the last page is in.
        var pulledHead: Int64?
        /// A stream answered with an error of its own: the pull is not the whole news.
        var missedStreams = false
        /// Entities that its pulls asked for, but for those that were refused.
        var asked: Set<EntityName> = []
        /// Answers whose cursor stood still although more was to come.
        var stuckPages = 0
        /// Streams that failed in this cycle: none of them is asked for twice.
        var failedStreams: Set<EntityName> = []
        /// Failed reads in a row.
        var badReads = 0
        /// Records and deletions of all pages.
        var received = 0
        /// It has pushed first, and reads when nothing is left to push.
        var owesPull = false
        /// Entities whose conflicts call for one more pull in this cycle; never a third round.
        var conflicted: Set<EntityName> = []
        var hasPulledForConflicts = false
        /// Verdicts recorded by the latest answer; a batch without any ends the pushing.
        var verdicts = 0
        /// The hub has answered in this cycle.
        var wasAnswered = false
        var hasAdoptedReplica = false
        /// What is still to be read.
        var reading = Reading()
        /// Reference data is read alone, because what a new device needs first comes after it.
        var readsReferences = false
        var hasReadReferences = false
        /// The hub has named entities that were not known before, or has been asked in vain: once a cycle is enough.
        var hasAskedForEntities = false
        var hasFoundEntities = false
        /// Streams were started again in this cycle because it was time.
        var hasRestarted = false
        /// This database is being moved to a new history of the hub.
        var isHealing = false
        var healed = 0
        /// The hub was behind what it had said, and was greeted with its receipt.
        var hasShownReceipt = false
        /// The headers of the latest good answer.
        var facts = HubHeaders()
    }

    package struct Failure: Hashable, Sendable {
        var detail: String
        var kind: HubReply.Kind
        var cause: FailureCause
        var retry: Duration
        /// What the server asked for.
        var asked: Duration?
    }

    /// What the cycle waits for. A call's step holds what it sent.
    package enum Step: Hashable, Sendable {
        case greeting(call: UInt64)
        case loadingInFlight
        case settling(Batch, call: UInt64)
        case recordingSettled
        case adoptingReplica(ReplicaID)
        /// Before a pull, when not everything may be settled: what is in flight forbids it.
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
        /// Down to that priority.
        case claiming(Priority)
        case pushing(Batch, call: UInt64)
        /// With the least priority of the batch that is claimed along, if one is.
        case recordingResults(next: Priority?)
        /// What became of mutations at an existing backend; with the refusal that ends the cycle then.
        case recordingRest(next: Priority?, HubReply.Refusal?, isSettled: Bool)
        /// With the failure that ends the cycle then, if it is not known yet that anything else works.
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
                timer.wish(.enqueued(priority), now: moment.instant)
                watchdog.enqueued(priority, at: moment.instant)
            }
        case .requested(let wanted):
            request = merge(request, wanted)
            timer.wish(.requested(isForced: wanted.isForced), now: moment.instant)
            if wanted.isForced { breaker.probeSoon(at: moment.instant) }
        case .paused(let pause):
            memory.pause = pause
            couldNotSave = false
        case .resumed:
            guard memory.pause != nil else { break }
            memory.pause = nil
            couldNotSave = false
            timer.wish(.again(at: moment.instant), now: moment.instant)
        case .conditions(let now): conditionsChanged(to: now, at: moment, &effects)
        case .settings(let settings):
            self.settings = settings
            timer.settings = settings.timer
            breaker.settings = settings.breaker
            greetedAt = nil
            settingsChanged(at: moment, &effects)
        case .credentialsChanged: if failureCause == .credentials { tryAgain(at: moment) }
        case .clockChanged:
            armedWake = nil
            timer.wish(.again(at: moment.instant.advanced(by: .seconds(1))), now: moment.instant)
            showHold(at: moment)
            if memory.notBefore != nil { memory.notBefore = retryAt }
        case .timer: armedWake = nil
        case .stored(let answer):
            if cycle != nil {
                stored(answer, at: moment, &effects)
            } else if house.isUnderWay {
                housekept(answer, at: moment)
            } else {
                saved(answer)
            }
        case .answered(let call, let result, let sent): answered(call, result, sent: sent, at: moment, &effects)
        case .backendAnswered(let call, let reply, let sent): answered(call, reply, sent: sent, at: moment, &effects)
        case .probed(let id, let isGood): probed(id, isGood: isGood, at: moment, &effects)
        }
        if hasStarted {
            noticeVerdict(at: moment)
            noticeStall(at: moment, &effects)
            if cycle == nil {
                // A pause must be on flash before anybody relies on it; everything else can wait for a cycle to end.
                if memory.pause != remembered.pause, !couldNotSave { saveMemory(&effects) }
                probeIfDue(at: moment, &effects)
                if isFree { beginCycleIfDue(at: moment, &effects) }
                if isFree { keepHouseIfDue(at: moment, &effects) }
            }
        }
        if effects.contains(where: \.isJob) { jobBegan = moment.instant } else if isFree { jobBegan = nil }
        arm(&effects, at: moment)
        return effects
    }

    /// When the next cycle is planned, as things are now.
    package func nextCycleAt(at moment: Moment) -> Instant? {
        timer.dueAt(allowance(at: moment), forced: allowance(at: moment, isForced: true))
    }

    /// When housekeeping is planned, if no cycle does it before; `nil` before the start.
    package var housekeepingAt: Instant? { house.dueAt }

    /// Whether the last pull went to the end of every stream and nothing is known to be newer.
    package var isCaughtUp: Bool { knownHead != nil && knownHead == seenHead && readings.held.isEmpty }

    /// The mirror shows the entity as the hub had it then, or newer. `nil`: no pull of this or an earlier run tells.
    package func pulledAt(_ entity: EntityName) -> Timestamp? {
        [pulledAt[entity], memory.pulledAt].compactMap { $0 }.max()
    }

    // MARK: Between cycles

    private mutating func begin(with start: EngineStart, at moment: Moment) {
        hasStarted = true
        house.began = moment.instant
        house.expires(at: start.expiry)
        memory = start.memory
        remembered = start.memory
        serverIs(settings.server)
        replica = start.replica
        maxSentSeq = start.maxSentSeq
        ackedSeq = start.ackedSeq
        conditions = start.conditions
        clock = ClockOffset(prior: start.anchor)
        for priority in start.waiting {
            timer.wish(.enqueued(priority), now: moment.instant)
            watchdog.enqueued(priority, at: moment.instant)
        }
        let first = firstContact(within: settings.spread, at: moment)
        if memory.isBreakerOpen { breaker.reopen(probeAt: first) }
        // A server's wish outlives a restart. The wall clock may be wrong by now, so it binds for an hour at most.
        if let notBefore = memory.notBefore, notBefore > moment.wall {
            let rest = min(moment.wall.duration(to: notBefore), .seconds(3600))
            timer.holdBack(retryAt: nil, notBefore: moment.instant.advanced(by: rest))
            showHold(at: moment)
        }
    }

    private mutating func beginCycleIfDue(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard let due = nextCycleAt(at: moment), due <= moment.instant else { return }
        memory.pause = nil
        beginCycle(at: moment, &effects)
    }

    func isPaused(at moment: Moment) -> Bool {
        guard let pause = memory.pause else { return false }
        return pause.until.map { $0 > moment.wall } ?? true
    }

    /// Asks for a wake-up when one is needed earlier than the one that is planned. A later one is not worth a timer for each
    /// enqueue: the earlier fires, finds nothing due, and the next is planned then. During a cycle and a save it is only for
    /// the watchdog: their answer is an event.
    private mutating func arm(_ effects: inout [SyncEffect], at moment: Moment) {
        guard hasStarted, let wanted = wakeWanted(at: moment) else { return }
        // One that only watched over a job is of no use when that is done.
        let isStale = armedForWatchdog && jobBegan == nil
        // After a suspend the one that is planned is overdue by this clock, and may be long in coming: timers stood still meanwhile.
        if let armedWake, armedWake <= wanted, armedWake > moment.instant, !isStale { return }
        armedForWatchdog = jobBegan != nil
        armedWake = wanted
        effects.append(.wake(at: wanted))
    }

    /// Shows a hold of the timer as wall time.
    mutating func showHold(at moment: Moment) {
        retryAt = timer.heldUntil.flatMap { held in
            held > moment.instant ? moment.wall.advanced(by: moment.instant.duration(to: held)) : nil
        }
    }

    package var reachability: Reachability {
        conditions.hasLink && !conditions.isBlocked ? hub : conditions.reachability
    }

    mutating func hubIs(_ next: Reachability, cause: String, _ fault: HubFault?, _ effects: inout [SyncEffect]) {
        let before = reachability
        hub = next
        guard reachability != before else {
            // Where the probe keeps attempts back, its word is the reason.
            let isOwn = conditions.hasLink && !conditions.isBlocked
            if isOwn, let fault { effects.append(.report(.fault(fault))) }
            return
        }
        effects.append(.report(.reachability(from: before, to: reachability, cause: cause, fault)))
    }

    private func merge(_ old: SyncRequest?, _ new: SyncRequest) -> SyncRequest {
        guard let old else { return new }
        let scope: SyncRequest.Scope =
            old.scope == new.scope ? old.scope : (old.scope == .full || new.scope == .full ? .full : .all)
        return SyncRequest(scope: scope, isForced: old.isForced || new.isForced)
    }

    /// One save at a time: what changes meanwhile is seen when its answer is in.
    mutating func saveMemory(_ effects: inout [SyncEffect]) {
        guard saving == nil, !house.isUnderWay else { return }
        saving = memory
        effects.append(.store(.remember(memory)))
    }

    mutating func saved(_ answer: StoreAnswer) {
        if case .failed = answer { couldNotSave = true } else if let saving { remembered = saving }
        saving = nil
    }

    /// Whether writing the memory is worth an fsync: a server's wish and a pause always, the count of failures now and
    /// then, the time of the last success every ten minutes.
    var memoryIsWorthSaving: Bool {
        if memory.healing != remembered.healing { return true }
        if (memory.standing == nil) != (remembered.standing == nil) { return true }
        if memory.epoch != remembered.epoch || memory.notBefore != remembered.notBefore { return true }
        if memory.pause != remembered.pause || memory.isBreakerOpen != remembered.isBreakerOpen { return true }
        if (memory.failures == 0) != (remembered.failures == 0) { return true }
        if memory.failures >= remembered.failures + 3 { return true }
        guard let success = memory.lastSuccess else { return false }
        return remembered.lastSuccess.map { $0.duration(to: success) >= .seconds(600) } ?? true
    }
}
