import LocalAPI
import Logging
import SyncCore
import SyncHTTP
import SyncStore

// Passes events to the engine, and performs its effects.
extension Agent {
    /// Starts the traffic: loads the engine's memory from the store and starts the engine with it.
    package func start() {
        guard !hasBegun, !hasStopped else { return }
        let told = around.told
        lookAtClock()
        if let reason = environment.linksUnwatched { reportUnwatchedLinks(reason) }
        fromStore { store, now throws(StoreError) in
            let facts = try store.reads.facts(at: now)
            let start = EngineStart(
                memory: try store.memory(), replica: facts.replica, maxSentSeq: facts.maxSentSeq, ackedSeq: facts.ackedSeq,
                waiting: facts.waitingPriorities, conditions: told, expiry: try store.nextExpiry(at: now),
                anchor: store.anchor)
            return Remembered(
                start: start, book: try store.budgetBook(), reserved: try store.usageReservation(),
                unmeteredSeenAt: try store.reads.unmeteredSeenAt(),
                oldestNormalAt: try store.reads.oldestNormalAt(), server: try store.serverConfiguration(),
                schemas: try store.documentSchemas(),
                alarms: try store.kept(.alarms),
                hints: try store.kept(.linkHints))
        } then: { agent, result in
            switch result {
            case .success(let remembered): agent.begin(with: remembered)
            case .failure(let error): agent.startLater(error)
            }
        }
    }

    /// Brings the documents to the versions of the rules in force, where no settings of the hub have done it.
    private func takeUpSchemas() {
        let configuration = loaded.configuration
        documentSchemas = documentSchemas.taking(configuration.rules)
        guard engine.settings.schemas != documentSchemas || configuration.rules.entities.contains(where: { $1.versions != nil }) else {
            return
        }
        useRules(configuration.rules)
        handle(.settings(engineSettings(configuration)))
    }

    /// The state that the store returns at the start.
    private struct Remembered: Sendable {
        var start: EngineStart
        var book: BudgetBook.Saved?
        var reserved: UsageReservation.Stored?
        var unmeteredSeenAt: Timestamp
        var oldestNormalAt: Timestamp?
        /// The settings that the hub has sent.
        var server: String?
        /// The versions of the schemas of the stored documents.
        var schemas: SchemaNumbers
        var alarms: String?
        var hints: String?
    }

    /// `true` when the engine is about to get its memory from the store. If the store cannot be used, it gets none.
    var isHearingStore: Bool { mode == .serving && !hasHeardStore }

    /// Starts later, because the obstacle may pass, and nothing would ever be sent without an engine.
    private func startLater(_ error: StoreError) {
        log.critical("the state of the sync engine cannot be read from the database; agentd retries", metadata: ["error": "\(error)"])
        hasHeardStore = true
        goOnWithWaiting()
        schedule(after: environment.diskRetryAfter) { $0.start() }
    }

    private func begin(with remembered: Remembered) {
        guard !hasBegun, !hasStopped else { return }
        around.book = BudgetBook(remembered.book, at: environment.time.now())
        around.unmeteredSeenAt = remembered.unmeteredSeenAt
        around.oldestNormalAt = remembered.oldestNormalAt
        var start = remembered.start
        if let safeMode = environment.safeMode { enter(safeMode, &start) }
        documentSchemas = remembered.schemas
        restore(remembered.server)
        takeUpSchemas()
        // A request that came before is sent at once, and its answer counts.
        if environment.trials != nil { trials.use(loaded.configuration.wayToHub) }
        handle(.started(start))
        considerTrial(isAsked: false)
        countWaiting()
        (hasBegun, hasHeardStore) = (true, true)
        restoreAlarms(remembered.alarms)
        restoreHints(remembered.hints)
        goOnWithWaiting()
        if let reserved = remembered.reserved { countReserved(reserved) }
        startWatching()
        startBlobs()
        watchQueue()
        tendIndexes()
    }

    /// Stores a text for the next start. Nothing is written before this start has read the stored texts.
    ///
    /// - Parameter loss: The message that the agent logs when the store cannot write it.
    func keep(_ text: String, as name: KeptText, loss: Logger.Message) {
        guard hasBegun else { return }
        fromStore { store, now throws(StoreError) in
            try store.keep(text, as: name, at: now)
        } then: { agent, result in
            guard case .failure(let error) = result else { return }
            agent.log.warning(loss, metadata: ["error": "\(error)"])
        }
    }

    func goOnWithWaiting() {
        let waiting = whenHeard
        whenHeard = []
        for call in waiting { answer(call) }
    }

    /// Starts in safe mode, because the synced data may be the cause of the crashes. A pause by an operator stays as it is.
    private func enter(_ safeMode: AgentEnvironment.SafeMode, _ start: inout EngineStart) {
        let now = environment.time.now().wall
        let pause = EngineMemory.Pause.safeMode(deaths: safeMode.deaths, until: now.advanced(by: safeMode.holds))
        raise(.safeMode, pause.reason)
        guard start.memory.pause.map({ $0.until.map { $0 <= now } ?? false }) ?? true else { return }
        start.memory.pause = pause
    }

    func handle(_ event: SyncEvent) {
        guard !hasStopped else { return }
        let effects = engine.handle(event, at: environment.time.now())
        tellAnchor()
        perform(effects)
        updateFileTerms()
        watchToken()
    }

    /// Performs effects in the order decided. Results of a store command or a call come back as events later; the engine never has two of
    /// them running.
    private func perform(_ effects: [SyncEffect]) {
        for effect in effects {
            switch effect {
            case .report(let report): publish(report)
            case .wake(let at): plan(at)
            case .send(let request): send(request)
            case .wait(let request): wait(with: request)
            case .endWait: endWait()
            case .probe(let id): probe(id)
            case .store(let command): ask(command)
            }
        }
    }

    func stopEngine() {
        hasStopped = true
        stopBlobs()
        wake?.cancel()
        call?.cancel()
        endWait()
    }

    private func plan(_ at: Instant) {
        wake?.cancel()
        let delay = max(.zero, environment.time.now().instant.duration(to: at))
        wake = schedule(after: delay) { $0.handle(.timer) }
    }

    private func send(_ request: HubCall) {
        if let question = request.rest, let backend { return ask(backend, question, request) }
        let sent = environment.time.now().instant
        let (hub, replica, uplink, way) = (hub, engine.replica, around.connectivity.uplink, trials.way)
        call = Task(executorPreference: executor) { [weak self] in
            let result = await hub.send(request, replica: replica, over: uplink)
            await self?.answered(request, result, sent: sent, over: uplink, way)
        }
    }

    private func answered(
        _ request: HubCall, _ result: Result<HTTPResponse, TransportError>, sent: Instant, over uplink: Uplink?,
        _ way: ConfigurationTrial.Name?
    ) {
        let now = environment.time.now()
        observe(HubAnswer(.sync(request.kind, took: sent.duration(to: now.instant)), result, over: uplink, way, at: now))
        engine.wallIsSynchronised = environment.wallIsSynchronised()
        handle(.answered(request.id, result, sent: sent))
    }

    private func probe(_ id: UInt64) {
        let (hub, backend, uplink) = (hub, backend, around.connectivity.uplink)
        let nonce = String(UInt64.random(in: .min ... .max, using: &nonces), radix: 36)
        call = Task(executorPreference: executor) { [weak self] in
            let result = if let backend { await backend.probe(over: uplink) } else { await hub.probe(nonce: nonce, over: uplink) }
            await self?.probed(id, isGood: result.isGood, result.traffic, over: uplink)
        }
    }

    private func probed(_ id: UInt64, isGood: Bool, _ traffic: Traffic, over uplink: Uplink?) {
        count(traffic, for: .probe, over: uplink)
        handle(.probed(id, isGood: isGood))
    }

    private func ask(_ command: StoreCommand) {
        store.perform(command) { [self] answer in
            assumeIsolated { $0.stored(answer) }
        }
    }

    private func stored(_ answer: StoreAnswer) {
        handle(.stored(answer))
        if case .resultsApplied(let summary, _) = answer { offer(summary.offers) }
        if case .pullApplied(let summary) = answer { updateFiles(after: summary) }
        if case .snapshotApplied(let summary, _) = answer { updateFiles(after: summary) }
        switch answer {
        case .resultsApplied, .pullApplied, .housekept, .snapshotApplied, .requeued, .historyForgotten:
            events.sendNew()
            serveMutationWaiters()
            lookForOldestNormal()
            countWaiting()
        case .batch, .streams, .done, .failed, .settled, .digest: break
        }
    }
}
