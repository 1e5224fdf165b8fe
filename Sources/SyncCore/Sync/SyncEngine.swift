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
/// Each phase is a value with its own steps (``CyclePhase``). It gets an answer, asks for the next thing, or names the phase that comes
/// after it (``NextPhase``). State that the phases share is in ``SyncState``, by owner.
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
        /// Version of the hub's configuration that was refused here; `nil`: none.
        package var refusedConfig: Int64?
        /// The versions of the schemas of this device's documents.
        package var schemas = SchemaNumbers()
        /// The configuration names no entities to pull: all entities of the hub are pulled.
        package var pullsAll = false
        /// A pull may wait at the hub for news, where links and power cost nothing (``NewsWait``).
        package var waitsForNews = false
        /// The server is an existing backend (PROTOCOL A13): no hello, one request for each mutation, lists instead of a feed.
        package var isRest = false
        /// Name of the server: refusals and delays of another one do not apply to it. Empty: unknown.
        package var server = ""

        package init() {}
    }

    var state: SyncState
    /// The phase of the running cycle; `nil` between cycles.
    package internal(set) var phase: CyclePhase?
    /// The reads of the running cycle.
    package internal(set) var pull = PullPhase()
    private var hasStarted = false
    /// Start of the running job; `nil` while there is none.
    private var jobBegan: Instant?
    private var armedWake: Instant?
    private var armedForWatchdog = false

    package init(settings: Settings, replica: ReplicaID, random: SeededRandom, ablations: Ablations = .none) {
        state = SyncState(settings: settings, replica: replica, random: random, ablations: ablations)
    }

    // MARK: Events

    package mutating func handle(_ event: SyncEvent, at moment: Moment) -> [SyncEffect] {
        state.now = moment
        switch event {
        case .started(let start):
            begin(with: start)
            if !state.memory.leftOut.isEmpty { state.reportLeftOut() }
        case .enqueued(let priority, let expiry):
            state.house.expires(at: expiry)
            if !(state.ablations.contains(.wakeLost) && state.cycle != nil) { enqueued(priority) }
        case .requested(let wanted):
            state.nextCycle.add(wanted)
            state.trigger(.requested(isForced: wanted.isForced))
            if wanted.isForced { state.pressure.probeSoon(at: moment.instant) }
        case .paused(let pause): state.durable.pause(pause)
        case .resumed:
            guard state.memory.pause != nil else { break }
            state.durable.endPause()
            // Otherwise a pull that waits would bring what is new, and a request that comes now would end it.
            // No pull waits at a backend.
            if state.settings.waitsForNews, state.settings.dialect.fixedHistory == nil { state.hub.forgetReadHead() }
            state.trigger(.again(at: moment.instant))
        case .conditions(let now): state.conditionsChanged(to: now, hasStarted: hasStarted)
        case .settings(let settings): state.apply(settings)
        case .credentialsChanged: if state.pressure.failureCause == .credentials { state.tryAgain() }
        case .clockChanged:
            armedWake = nil
            // A connection seldom survives a suspend.
            state.endWait()
            state.trigger(.again(at: moment.instant.advanced(by: .seconds(1))))
            state.pressure.showHold(at: moment)
            state.durable.moveHold(to: state.pressure.retryAt)
        case .timer: armedWake = nil
        case .stored(let answer): stored(answer)
        case .answered(let call, let result, let sent):
            answered(call, HubDialect.read(result, to: state.calls.kind, now: moment.wall), sent: sent)
        case .backendAnswered(let call, let reply, let sent): answered(call, RestDialect.read(reply), sent: sent)
        case .newsBegan(let call): state.news.answerBegan(call)
        case .waited(let call, let result, let sent): waited(call, result, sent: sent)
        case .probed(let id, let isGood): state.probed(id, isGood: isGood)
        }
        if hasStarted { goOn() }
        if state.effects.contains(where: \.isJob) { jobBegan = moment.instant } else if isFree { jobBegan = nil }
        arm()
        return state.takeEffects()
    }

    /// Does what is due by now, whatever the event was.
    private mutating func goOn() {
        state.noticeVerdict()
        noticeStall()
        state.checkWait()
        guard phase == nil else { return }
        if state.durable.mustSavePause { state.saveMemory() }
        state.probeIfDue()
        if isFree { beginCycleIfDue() }
        if isFree { keepHouseIfDue() }
        if isFree { state.waitIfDue(before: nextCycleAt(at: state.now)) }
    }

    private mutating func begin(with start: EngineStart) {
        hasStarted = true
        let now = state.now
        state.house.start(at: now.instant)
        state.house.expires(at: start.expiry)
        state.durable = DurableMemory(start.memory)
        state.durable.recordServer(state.settings.server)
        state.marks = ReplicaMarks(start.replica, maxSentSeq: start.maxSentSeq, ackedSeq: start.ackedSeq)
        state.conditions = start.conditions
        state.hub = HubView(prior: start.anchor)
        for priority in start.waiting { enqueued(priority) }
        let first = state.firstContact(within: state.settings.spread)
        if state.memory.isBreakerOpen { state.pressure.reopenBreaker(probeAt: first) }
        // A delay that the server asked for survives a restart. The wall clock may be wrong by now, so it holds for an hour at most.
        if let notBefore = state.memory.notBefore, notBefore > now.wall {
            let rest = min(now.wall.duration(to: notBefore), .seconds(3600))
            state.pressure.hold(until: now.instant.advanced(by: rest), at: now)
        }
    }

    private mutating func enqueued(_ priority: Priority) {
        state.trigger(.enqueued(priority))
        state.watchdog.enqueued(priority, at: state.now.instant)
    }

    /// `true` when no store command and no call is running, also outside of a cycle.
    var isFree: Bool { phase == nil && !state.durable.isSaving && !state.house.isUnderWay && !state.news.isLoading }

    private mutating func keepHouseIfDue() {
        guard state.house.isDue(at: state.now.instant) else { return }
        state.house.beginAlone(at: state.now.instant)
        state.ask(.housekeep)
    }

    // MARK: Cycles

    private mutating func beginCycleIfDue() {
        guard !state.awaitsNews, let due = nextCycleAt(at: state.now), due <= state.now.instant else { return }
        state.durable.endPause()
        beginCycle(UUIDv7.make(at: state.now.wall, using: &state.random))
        go(on: first)
    }

    /// Makes the state of a new cycle, which has no phase yet.
    mutating func beginCycle(_ session: String) {
        let now = state.now.instant
        let cycle = SyncCycle(
            session: session, began: now, state.nextCycle, isTrial: state.pressure.breaker.state == .halfOpen,
            schemas: state.settings.schemas)
        state.cycle = cycle
        pull = PullPhase()
        if state.share.isDue, cycle.scope != .push {
            state.cycle?.pullsShare = true
            state.share.cyclePulls()
        }
        let allowed = state.allowed
        state.cycle?.pullIsDue = allowed.pull.flatMap { state.pressure.timer.pullAt($0.interval) }.map { $0 <= now } ?? false
        state.pressure.cycleBegan(cycle.scope, under: allowed, pulls: state.mayPull(under: allowed), at: now)
        state.nextCycle.cycleBegan()
        state.watchdog.tried(at: now)
        state.news.cycleBegan()
        state.durable.allowSaving()
        state.report(.cycleBegan(session: session))
    }

    private var first: NextPhase {
        guard let history = state.settings.dialect.fixedHistory else {
            return state.hub.isGreeted(at: state.now.instant) ? .settle : .greet
        }
        // Records that belong to another server's history are moved to this one first.
        switch state.memory.epoch {
        case history?: return .settle
        case nil: return .learnHistory(history)
        case _?: return .heal(to: history)
        }
    }

    /// Enters phases until one waits for an answer, or the cycle is over.
    private mutating func go(on next: NextPhase) {
        var next = next
        while true {
            let (entered, then) = enter(next)
            if case .wait = then {
                if let entered { phase = entered }
                return
            }
            if case .done = then { return phase = nil }
            next = then
        }
    }

    private mutating func enter(_ next: NextPhase) -> (CyclePhase?, NextPhase) {
        switch next {
        case .wait, .done: return (nil, next)
        case .greet:
            var greet = GreetPhase()
            let then = greet.begin(&state)
            return (.greeting(greet), then)
        case .settle:
            var settle = SettlePhase()
            let then = settle.begin(&state)
            return (.settling(settle), then)
        case .pullOrPush: return pullOrPush()
        case .pull: return (.pulling, pull.loadStreams(&state))
        case .push:
            var push = PushPhase()
            let then = push.begin(&state)
            return (.pushing(push), then)
        case .heal(let epoch):
            var heal = HealPhase()
            let then = heal.begin(epoch, &state)
            return (.healing(heal), then)
        case .adoptReplica(let seen): return adoptReplica(seen)
        case .learnHistory(let epoch):
            var adopt = AdoptPhase()
            let then = adopt.beginFirstHistory(epoch, &state)
            return (.adopting(adopt), then)
        case .adoptHistory:
            var adopt = AdoptPhase()
            let then = adopt.beginNewHistory(&state)
            return (.adopting(adopt), then)
        case .setAside(let batch, let refusal):
            var setAside = SetAsidePhase()
            let then = setAside.begin(batch, refusal, &state)
            return (.settingAside(setAside), then)
        case .keepHouse:
            var close = ClosePhase()
            let then = close.keepHouse(&state)
            return (.closing(close), then)
        case .close:
            var close = ClosePhase()
            let then = close.save(&state)
            return (.closing(close), then)
        }
    }

    private mutating func pullOrPush() -> (CyclePhase?, NextPhase) {
        // A cycle that only pulls has nothing to push first: that is left to the next one.
        if state.cycle?.scope != .pull, state.nextCycle.pushesFirst || state.pushesBeforeReading() {
            state.nextCycle.hasPushedFirst()
            return (nil, .push)
        }
        let allowed = state.allowed
        // A trial is a push if there is anything to push.
        guard state.cycle?.scope != .push, state.cycle?.isTrial != true, state.mayPull(under: allowed), state.needsPull else {
            return (nil, .push)
        }
        pull.beginWholeRead()
        if allowed.push == .bulk, allowed.sizes.isUnlimited { return (nil, .pull) }
        return (.pulling, pull.lookForUnsettled(&state))
    }

    private mutating func adoptReplica(_ seen: Int64) -> (CyclePhase?, NextPhase) {
        // A new replica has no past. A hub that keeps reporting one would make the agent write new ids for ever.
        if state.cycle?.hasAdoptedReplica == true {
            return (nil, fail(HubReply.Refusal(.nonsense, "the hub says that it has seen mutations of a replica that is new")))
        }
        var adopt = AdoptPhase()
        let then = adopt.beginReplica(seen, &state)
        return (.adopting(adopt), then)
    }

    // MARK: Answers of the store

    private mutating func stored(_ answer: StoreAnswer) {
        guard let phase else {
            if state.house.isUnderWay { return state.house.endedAlone(answer, at: state.now.instant) }
            if state.news.isLoading { return state.wait(from: answer) }
            return state.durable.recordSaved(answer)
        }
        if state.isOutOfDate, phase.holdsDocuments { return go(on: state.beginAnew()) }
        switch phase {
        case .greeting: go(on: state.fail(answer))
        case .adopting(let adopt): go(on: adopt.handle(answer, &state))
        case .settling(var settle): goOn(with: settle.handle(answer, &state), .settling(settle))
        case .healing(var heal): goOn(with: heal.handle(answer, &state), .healing(heal))
        case .pulling: go(on: pull.handle(answer, &state))
        case .pushing(var push): goOn(with: push.handle(answer, &state), .pushing(push))
        case .settingAside(let setAside): go(on: setAside.handle(answer, &state))
        case .closing(var close): goOn(with: close.handle(answer, &state), .closing(close))
        }
    }

    /// Goes on after an answer to a phase, which is kept with its new step if it waits for another answer.
    private mutating func goOn(with next: NextPhase, _ phase: CyclePhase) {
        if case .wait = next { self.phase = phase } else { go(on: next) }
    }

    // MARK: Answers of the server

    mutating func answered(_ call: UInt64, _ answer: ServerAnswer, sent: Instant) {
        guard self.call == call, answer.message?.answers(state.calls.kind) ?? true else { return }
        if state.isOutOfDate { return go(on: state.beginAnew()) }
        go(on: next(after: answer, sent: sent))
    }

    private mutating func next(after answer: ServerAnswer, sent: Instant) -> NextPhase {
        let trip = sent.duration(to: state.now.instant)
        state.count(answer, isReading: isReading)
        if let facts = answer.facts {
            if let next = state.believe(facts, sent: sent) { return next }
            measure(answer.size, in: trip)
        }
        guard let message = answer.message else {
            guard let refusal = answer.refusal else { return .wait }
            return answer.facts == nil ? refused(refusal, sent: sent) : failRead(refusal)
        }
        do throws(ReplyError) {
            let next = try next(after: message, of: answer, trip)
            if answer.facts != nil { state.pressure.hubAnswered() }
            return next
        } catch {
            if let facts = answer.facts { return failRead(.notAsAgreed(error, facts)) }
            return fail(HubReply.Refusal(.nonsense, "the backend's list is not as agreed: \(error)"))
        }
    }

    private mutating func next(after message: ServerMessage, of answer: ServerAnswer, _ trip: Duration) throws(ReplyError) -> NextPhase {
        switch message {
        case .hello(let hello):
            guard case .greeting(let greet) = phase else { return .wait }
            return greet.handle(hello, &state)
        case .verdicts(let verdicts):
            if case .settling(var settle) = phase {
                let next = try settle.handle(verdicts, answer.refusal, after: trip, &state)
                phase = .settling(settle)
                return next
            }
            guard case .pushing(var push) = phase else { return .wait }
            let next = try push.handle(verdicts, answer.refusal, after: trip, &state)
            phase = .pushing(push)
            return next
        case .pages(let response):
            if let refusal = answer.refusal { return fail(refusal) }
            return try pull.handle(response, isHubs: answer.facts != nil, &state)
        case .listing(let page): return try pull.handle(page, &state)
        case .comparison(let comparison): return pull.handle(comparison, &state)
        case .unknown(let unknown):
            guard case .healing(var heal) = phase else { return .wait }
            let next = heal.handle(unknown, &state)
            phase = .healing(heal)
            return next
        }
    }

    /// Measures the link by an answer.
    private mutating func measure(_ read: Int, in time: Duration) {
        switch phase {
        case .pulling: if pull.isReading, !state.calls.hasWaited { state.sizes.recordRead(read, in: time) }
        case .settling, .pushing: state.sizes.recordSent(state.calls.bodyBytes, in: time)
        case .greeting, .adopting, .healing, .settingAside, .closing, nil: break
        }
    }

    private mutating func refused(_ refusal: HubReply.Refusal, sent: Instant) -> NextPhase {
        if let facts = refusal.facts, facts.version != nil { state.record(facts, sent: sent) }
        switch refusal.kind {
        case .regressed where !state.ablations.contains(.regressionIgnored): return .adoptReplica(seen: refusal.facts?.deviceSeq ?? 0)
        case .gone:
            if let epoch = refusal.facts?.epoch, state.isOtherHistory(epoch) { return .heal(to: epoch) }
            if case .pulling = phase { return pull.gone(refusal, &state) }
            return failRead(refusal)
        case .transport, .foreign, .nonsense, .auth, .blocked, .misconfigured, .incompatible, .malformed, .tooLarge, .encoding, .regressed,
            .overloaded, .failed:
            return failRead(refusal)
        }
    }

    /// Handles a bad answer. Where a stream is the reason it is left out, and the cycle goes on.
    private mutating func failRead(_ refusal: HubReply.Refusal) -> NextPhase {
        if case .pulling = phase { return pull.failed(refusal, &state) }
        pull.recordFailureElsewhere(refusal, state)
        return fail(refusal)
    }

    /// Handles a call without a usable answer.
    private mutating func fail(_ refusal: HubReply.Refusal) -> NextPhase {
        switch phase {
        case .settling(let settle): state.fail(refusal, over: settle.batch)
        case .pushing(let push): state.fail(refusal, over: push.batch)
        case .pulling: pull.end(refusal, &state)
        case .greeting, .adopting, .healing, .settingAside, .closing, nil: state.fail(refusal)
        }
    }

    // MARK: Wake-ups

    /// Number of the call that is under way; `nil` when it is a store command.
    private var call: UInt64? {
        switch phase {
        case .greeting(let greet): greet.call
        case .settling(let settle): settle.call
        case .healing(let heal): heal.call
        case .pulling: pull.call
        case .pushing(let push): push.call
        case .adopting, .settingAside, .closing, nil: nil
        }
    }

    /// `true` when the content of the call is in its answer.
    private var isReading: Bool {
        if case .pulling = phase { pull.isReading } else { false }
    }

    /// Asks for a wake-up when one is needed earlier than planned. A later one needs no new timer at each enqueue: the earlier one fires,
    /// finds nothing due, and the next is planned then. During a cycle and a save it serves only the watchdog, because their answers are
    /// events.
    private mutating func arm() {
        guard hasStarted, let wanted = wakeWanted else { return }
        // A wake-up for the watchdog of a job is not needed when the job is done.
        let isStale = armedForWatchdog && jobBegan == nil
        // After a suspend the planned wake-up is overdue by this clock and may be late: timers stood still meanwhile.
        if let armedWake, armedWake <= wanted, armedWake > state.now.instant, !isStale { return }
        armedForWatchdog = jobBegan != nil
        armedWake = wanted
        state.append(.wake(at: wanted))
    }

    /// Time at which the engine must be called again, by its present state.
    private var wakeWanted: Instant? {
        if let jobBegan { return jobBegan.advanced(by: jobPatience) }
        return [state.wakeWanted, state.house.dueAt].compactMap { $0 }.min()
    }

    /// Time after which the answer of a job counts as lost: for a call, longer than the transport's limit.
    private var jobPatience: Duration {
        guard call != nil, state.settings.dialect.isOneRequest else { return Watchdog.patience }
        return max(Watchdog.patience, state.calls.timeLimit + .seconds(60))
    }

    private mutating func noticeStall() {
        let now = state.now.instant
        guard let began = jobBegan else {
            let isHeld = state.pressure.isHeld(at: now) || state.awaitsNews
            state.watchdog.look(allowed: isHeld ? nil : state.allowance(at: state.now).push, at: now)
            guard state.watchdog.hasStalled(at: now) else { return }
            state.report(.stalled("work waits, nothing forbids it, and nothing was tried"))
            return state.trigger(.again(at: now))
        }
        state.watchdog.look(allowed: nil, at: now)
        let patience = jobPatience
        guard began.duration(to: now) >= patience else { return }
        jobBegan = now
        guard !Watchdog.wasAsleep(dueAt: began.advanced(by: patience), now: now) else { return }
        state.watchdog.hung()
        state.report(.stalled("no answer for \(patience.milliseconds / 1_000) s: \(awaited)"))
        // A call without an answer has an unknown outcome, like any that timed out. A store command cannot be given up: it may still be
        // running.
        guard call != nil else { return }
        go(on: fail(HubReply.Refusal(.transport(.timedOut), "the call was lost")))
    }

    /// The awaited answer, for people.
    private var awaited: String {
        guard let phase else { return state.house.isUnderWay ? "the store" : "remember" }
        guard call != nil else { return "the store" }
        switch phase {
        case .greeting: return "hello"
        case .settling: return "settle"
        case .pushing: return "push"
        case .healing: return "question what it knows"
        case .pulling: return pull.awaited
        case .adopting, .settingAside, .closing: return "the store"
        }
    }
}
