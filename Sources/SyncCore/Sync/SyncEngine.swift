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
        /// First contact after a start or a gap is drawn from this long, so that a fleet does not come back as one.
        package var spread: Duration = .seconds(5)
        /// For the hello.
        package var agent = ""
        package var platform = ""
        package var entities: [EntityName] = []

        package init() {}
    }

    // MARK: State

    package var settings: Settings
    package let ablations: Ablations
    var random: SeededRandom
    var timer: CycleTimer
    var linkIsUp = true
    /// What is known of the hub over the present link; never `offline`.
    var hub = Reachability.connecting
    package internal(set) var replica: ReplicaID
    /// Highest `seq` that was ever handed to the network by this replica.
    package internal(set) var maxSentSeq: Int64 = 0
    var ackedSeq: Int64 = 0
    package internal(set) var memory = EngineMemory()
    /// What of `memory` is on flash.
    var remembered = EngineMemory()
    package internal(set) var cycle: Cycle?
    var request: SyncRequest?
    var lastCallID: UInt64 = 0
    var hasStarted = false
    var sizer = BatchSizer()
    package internal(set) var clock = ClockOffset()
    /// Newest commit number that the hub told us of, and the one up to which we have everything but our own echoes.
    package internal(set) var seenHead: Int64?
    var knownHead: Int64?
    var headSeenAt: Instant?
    var greetedAt: Instant?
    var housekeptAt: Instant?
    /// When the next attempt may be made, for status: wall time of the hold.
    package internal(set) var retryAt: Timestamp?
    var armedWake: Instant?

    package init(settings: Settings, replica: ReplicaID, random: SeededRandom, ablations: Ablations = .none) {
        self.settings = settings
        self.replica = replica
        self.random = random
        self.ablations = ablations
        timer = CycleTimer(settings: settings.timer)
    }

    /// One run through the steps.
    package struct Cycle: Hashable, Sendable {
        package var session: String
        package var began: Instant
        package var scope: SyncRequest.Scope
        package var step: Step
        package var outcome: CycleOutcome
        var pages = 0
        /// The head of the cycle's first pull answer: everything up to it has been read when the last page is in.
        var pulledHead: Int64?
        var emptyPages = 0
        /// Entities whose conflicts call for one more pull in this cycle; never a third round.
        var conflicted: Set<EntityName> = []
        var hasPulledForConflicts = false
        /// Verdicts recorded by the latest answer; a batch without any ends the pushing.
        var verdicts = 0
        var sawFirstAnswer = false
        var nextBatch: Batch?
    }

    package struct Failure: Hashable, Sendable {
        var detail: String
        var kind: HubReply.Kind
        var retry: Duration
    }

    /// What the cycle waits for. A call's step holds what it sent.
    package enum Step: Hashable, Sendable {
        case greeting(call: UInt64)
        case loadingInFlight
        case settling(Batch, call: UInt64)
        case recordingSettled
        case adoptingReplica
        case loadingStreams
        case pulling([StreamPosition], call: UInt64)
        case applyingPull([StreamPosition], restart: [EntityName])
        case restartingStreams(then: [StreamPosition])
        case claiming
        case pushing(Batch, call: UInt64)
        case recordingResults(more: Bool)
        /// With the failure that ends the cycle then, if it is not known yet that anything else works.
        case settingAside(Failure?)
        case housekeeping
        case remembering
    }

    // MARK: Events

    package mutating func handle(_ event: SyncEvent, at moment: Moment) -> [SyncEffect] {
        var effects: [SyncEffect] = []
        switch event {
        case .started(let start): begin(with: start, at: moment)
        case .enqueued(let priority):
            if !(ablations.contains(.wakeLost) && cycle != nil) { timer.wish(.enqueued(priority), now: moment.instant) }
        case .requested(let wanted):
            request = merge(request, wanted)
            if wanted.isForced { timer.holdBack(retryAt: nil, notBefore: timer.notBefore) }
            timer.wish(.requested, now: moment.instant)
        case .paused(let pause):
            memory.pause = pause
            if cycle == nil { saveMemory(&effects) }
        case .resumed:
            memory.pause = nil
            timer.wish(.again(at: moment.instant), now: moment.instant)
            if cycle == nil { saveMemory(&effects) }
        case .link(let up): linkChanged(up: up, at: moment, &effects)
        case .settings(let settings):
            self.settings = settings
            timer.settings = settings.timer
            greetedAt = nil
        case .clockChanged: timer.wish(.again(at: moment.instant.advanced(by: .seconds(1))), now: moment.instant)
        case .timer: armedWake = nil
        case .stored(let answer): stored(answer, at: moment, &effects)
        case .answered(let call, let result, let sent): answered(call, result, sent: sent, at: moment, &effects)
        }
        if cycle == nil, !isSaving, hasStarted { beginCycleIfDue(at: moment, &effects) }
        arm(&effects, at: moment)
        return effects
    }

    /// Whether a `remember` outside a cycle is under way.
    var isSaving = false

    /// What the policy decides about a class of traffic now.
    package func verdict(on traffic: TrafficClass, now: Timestamp) -> Verdict {
        Policy.decide(traffic, in: situation, now: now)
    }

    package var situation: Situation {
        Situation(reachability: reachability, pause: memory.pause, retryAt: retryAt)
    }

    /// When the next cycle is planned.
    package var nextCycleAt: Instant? { timer.dueAt }

    /// Whether the last pull went to the end of every stream and nothing is known to be newer.
    package var isCaughtUp: Bool { knownHead != nil && knownHead == seenHead }

    // MARK: Between cycles

    private mutating func begin(with start: EngineStart, at moment: Moment) {
        hasStarted = true
        memory = start.memory
        remembered = start.memory
        replica = start.replica
        maxSentSeq = start.maxSentSeq
        ackedSeq = start.ackedSeq
        linkIsUp = start.linkIsUp
        let first = moment.instant.advanced(by: random.duration(from: .zero, to: settings.spread))
        timer.wish(.reconnected(at: first), now: moment.instant)
        // A server's wish outlives a restart. The wall clock may be wrong by now, so it binds for an hour at most.
        if let notBefore = memory.notBefore, notBefore > moment.wall {
            let rest = min(moment.wall.duration(to: notBefore), .seconds(3600))
            timer.holdBack(retryAt: nil, notBefore: moment.instant.advanced(by: rest))
            retryAt = moment.wall.advanced(by: rest)
        }
    }

    private mutating func linkChanged(up: Bool, at moment: Moment, _ effects: inout [SyncEffect]) {
        guard up != linkIsUp else { return }
        let before = reachability
        linkIsUp = up
        if up {
            hub = .connecting
            // Failures of the old link say little about this one; what a server asked for still holds.
            memory.failures = min(memory.failures, 1)
            timer.holdBack(retryAt: nil, notBefore: timer.notBefore)
            let first = moment.instant.advanced(by: random.duration(from: .zero, to: settings.spread))
            timer.wish(.reconnected(at: first), now: moment.instant)
        }
        effects.append(.report(.reachability(from: before, to: reachability, cause: up ? "link up" : "link down")))
    }

    private mutating func beginCycleIfDue(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard timer.isDue(now: moment.instant), linkIsUp else { return }
        if let pause = memory.pause {
            guard let until = pause.until, until <= moment.wall else { return }
            memory.pause = nil
        }
        beginCycle(at: moment, &effects)
    }

    /// Asks for a wake-up when one is needed earlier than the one that is planned. A later one is not worth a timer for each
    /// enqueue: the earlier fires, finds nothing due, and the next is planned then.
    private mutating func arm(_ effects: inout [SyncEffect], at moment: Moment) {
        var wanted = cycle == nil && hasStarted && linkIsUp ? timer.dueAt : nil
        if cycle == nil, let pause = memory.pause {
            // A pause ends by the wall clock, which may step: whoever steps it says so (``SyncEvent/clockChanged``).
            wanted = pause.until.map { moment.instant.advanced(by: max(.seconds(1), moment.wall.duration(to: $0))) }
        }
        guard let wanted else { return }
        if let armedWake, armedWake <= wanted { return }
        armedWake = wanted
        effects.append(.wake(at: wanted))
    }

    package var reachability: Reachability { linkIsUp ? hub : .offline }

    mutating func hubIs(_ next: Reachability, cause: String, _ effects: inout [SyncEffect]) {
        let before = reachability
        hub = next
        guard reachability != before else { return }
        effects.append(.report(.reachability(from: before, to: reachability, cause: cause)))
    }

    private func merge(_ old: SyncRequest?, _ new: SyncRequest) -> SyncRequest {
        guard let old else { return new }
        let scope: SyncRequest.Scope =
            old.scope == new.scope ? old.scope : (old.scope == .full || new.scope == .full ? .full : .all)
        return SyncRequest(scope: scope, isForced: old.isForced || new.isForced)
    }

    /// Writes the memory if that is worth an fsync: a server's wish and a pause always, the count of failures now and
    /// then, the time of the last success every ten minutes.
    mutating func saveMemory(_ effects: inout [SyncEffect]) {
        guard memoryIsWorthSaving, !isSaving, hasStarted else { return }
        remembered = memory
        isSaving = true
        effects.append(.store(.remember(memory)))
    }

    var memoryIsWorthSaving: Bool {
        if memory.epoch != remembered.epoch || memory.notBefore != remembered.notBefore { return true }
        if memory.pause != remembered.pause { return true }
        if (memory.failures == 0) != (remembered.failures == 0) { return true }
        if memory.failures >= remembered.failures + 3 { return true }
        guard let success = memory.lastSuccess else { return false }
        return remembered.lastSuccess.map { $0.duration(to: success) >= .seconds(600) } ?? true
    }
}
