import SyncCore
import SyncStore

// Processes of agents. They start, get events and carry out effects. They may die between two effects and around each commit.
extension Simulation {
    func start(_ agent: SimAgent) throws(Broken) {
        guard agent.store == nil else { return }
        (agent.rules, agent.config) = (ownRules, SimAgent.Config())
        let opened = try open(agent)
        if opened.opening.lostTail > 0 { count("lost tails noticed") }
        agent.store = opened
        agent.life += 1
        agent.job = .none
        try takeUpConfig(agent)
        guard let store = agent.store else { return }
        say("agent \(agent.index) starts, boot \(agent.bootID), replica \(store.replica)")
        // A database without a past holds nothing.
        if !scenario.isShort || agent.life > 1 || agent.identity != agent.index { try verify(agent) }
        agent.engine = SyncEngine(
            settings: settings(of: agent), replica: store.replica, random: SeededRandom(seed: random.next()), ablations: ablations)
        let moment = agent.moment(at: now)
        let facts = try Broken.none { try store.reads.facts(at: moment) }
        // These are the numbers that people see.
        let sum = facts.counts.values.reduce(0) { $0 + $1.values.reduce(0, +) }
        guard facts.enqueued == sum else {
            throw Broken("counters add up", "agent \(agent.index): \(facts.enqueued) enqueued, \(sum) in all states")
        }
        let memory = try Broken.none { try store.memory() }
        try feed(
            .started(
                EngineStart(
                    memory: memory, replica: facts.replica, maxSentSeq: facts.maxSentSeq, ackedSeq: facts.ackedSeq,
                    waiting: facts.waitingPriorities, conditions: agent.conditions,
                    expiry: try Broken.none { try store.nextExpiry(at: moment) })), to: agent)
        if isHealed { try feed(.resumed, to: agent) }
        extendDrain(for: agent)
        try sweepFiles(agent)
    }

    func settings(of agent: SimAgent) -> SyncEngine.Settings {
        var settings = SyncEngine.Settings()
        settings.policy.pullInterval = scenario.pullInterval
        settings.spread = scenario.spread
        settings.agent = "simulated"
        settings.entities = Entities.mirrored(scenario.extras)
        (settings.configVersion, settings.refusedConfig) = (agent.config.inForce, agent.config.refused)
        settings.schemas = agent.documentSchemas
        return settings
    }

    private func open(_ agent: SimAgent) throws(Broken) -> Store {
        let moment = agent.moment(at: now)
        var options = StoreOptions(
            device: agent.device, bootID: agent.bootID, rules: agent.rules,
            seed: random.next(), marker: agent.marker, ablations: ablations)
        options.fullSync.interval = scenario.fullSync
        options.massDelete.free = scenario.deletesFreely
        let store = try Broken.none { try Store(agent.database, options, at: moment) }
        try Broken.none { while try store.tendIndexes(at: moment) {} }
        store.clockTrust = .unsynced
        store.gatesBlobs = gatesFiles(agent)
        (agent.toldAnchor, agent.learnedSeq) = (nil, 0)
        store.gate = { [unowned self, unowned agent] (stage) throws(StoreError) in try self.commits(agent, stage) }
        return store
    }

    /// Reopens the store after a failed sync. The process and its engine go on, and the content is read from the disk again.
    func reopenIfNeeded(_ agent: SimAgent) throws(Broken) {
        guard agent.mustReopen, agent.store != nil else { return }
        agent.mustReopen = false
        agent.store = nil
        let store = try open(agent)
        agent.store = store
        say("agent \(agent.index) reads what is on its disk")
        try useRules(agent)
        guard agent.store != nil else { return }
        try verify(agent)
        plan(.reopened(agent: agent.index, life: agent.life), in: .zero)
    }

    /// Passes an event to the engine and carries out its effects, one after the other.
    func feed(_ event: SyncEvent, to agent: SimAgent) throws(Broken) {
        let moment = agent.moment(at: now)
        // In its place: a copy of it would copy everything that it changes.
        guard let effects = agent.engine?.handle(event, at: moment) else { return }
        if let anchor = agent.engine?.anchor, anchor.isNews(after: agent.toldAnchor) { try learn(anchor, agent) }
        if agent.store == nil { return }
        for effect in effects {
            if strikes(.crash, 0.004) {
                say("agent \(agent.index) dies between two effects")
                return die(agent)
            }
            try perform(effect, agent)
        }
    }

    /// Learns an anchor of time before any effect of the engine, as the agent's shell does.
    private func learn(_ anchor: ClockAnchor, _ agent: SimAgent) throws(Broken) {
        committing = .memory
        do throws(StoreError) {
            try agent.store?.learn(anchor, at: agent.moment(at: now))
            agent.toldAnchor = anchor
        } catch {
            if dying == agent.index { die(agent) }
            try reopenIfNeeded(agent)
        }
    }

    private func perform(_ effect: SyncEffect, _ agent: SimAgent) throws(Broken) {
        switch effect {
        case .store(let command):
            try begin(.store, agent)
            let latency = chance(0.03) ? chance(upTo: .milliseconds(800)) : chance(from: .milliseconds(1), upTo: .milliseconds(20))
            plan(.command(agent: agent.index, life: agent.life, command), in: latency)
            if agent.owesWord, agent.engine?.cycle != nil, Commit(command) == .memory || Commit(command) == .house {
                agent.owesWord = false
                plan(.appSays(agent: agent.index), in: latency / 2)
            }
        case .send(let call):
            try begin(.call(call.id), agent)
            try checkSent(call, agent)
            send(call, agent)
        case .wait, .endWait: throw Broken("no wait", "agent \(agent.index) lets a pull wait, which the simulated hub does not")
        case .probe(let id): plan(.probed(agent: agent.index, life: agent.life, id), in: chance(upTo: .milliseconds(300)))
        case .wake(let at):
            agent.wakeID += 1
            queue.plan(.wake(agent: agent.index, life: agent.life, id: agent.wakeID), at: max(now, agent.world(at)))
        case .report(let report): recordReport(report, agent)
        }
    }

    private func begin(_ job: SimAgent.Job, _ agent: SimAgent) throws(Broken) {
        guard agent.job == .none else {
            throw Broken("one job at a time", "agent \(agent.index): \(job) while \(agent.job) is under way")
        }
        agent.job = job
    }

    func perform(_ command: StoreCommand, _ agent: SimAgent, life: Int) throws(Broken) {
        guard agent.life == life, let store = agent.store else { return }
        hasRefusedCommit = false
        hasCommitted = false
        committing = Commit(command)
        let held = try documents(of: agent, before: command)
        let answer = store.perform(command, at: agent.moment(at: now))
        say("agent \(agent.index) \(Self.word(for: command)): \(Self.word(for: answer))")
        switch command {
        case .restartStreams(let entities), .restartShares(let entities):
            if hasCommitted { for entity in entities { agent.places[entity] = nil } }
        default: break
        }
        if case .forgetHistory = command, hasCommitted { agent.places = [:] }
        if dying == agent.index { return die(agent) }
        try reopenIfNeeded(agent)
        agent.job = .none
        if case .failed(let text) = answer, !hasRefusedCommit {
            throw Broken("the store fails only with its disk", "agent \(agent.index): \(text)")
        }
        try checkDropped(agent, since: held)
        try check(agent, after: command, answer)
        switch answer {
        case .pullApplied(let summary), .snapshotApplied(let summary, _):
            for digest in summary.droppedFiles { agent.files.whole[digest] = nil }
        default: break
        }
        try feed(.stored(answer), to: agent)
    }

    func deliver(
        _ result: Result<HTTPResponse, TransportError>, of call: UInt64, sent: Instant, to agent: SimAgent, life: Int
    ) throws(Broken) {
        guard agent.life == life else { return }
        switch result {
        // An answer over a dead link does not arrive.
        case .success where !agent.linkIsUp: return
        case .success(let response):
            say("agent \(agent.index) call \(call): \(response.status)")
            hearOffer(response, agent)
            try checkPatience(agent, response)
        case .failure(let error):
            // The call was answered before its deadline.
            if agent.job != .call(call) { return }
            say("agent \(agent.index) call \(call): \(error.code.rawValue)")
        }
        if agent.job == .call(call) { agent.job = .none } else { count("late answers") }
        try feed(.answered(call, result, sent: sent), to: agent)
    }

    // MARK: Death

    /// A store calls this before and after each commit.
    private func commits(_ agent: SimAgent, _ stage: CommitStage) throws(StoreError) {
        switch stage {
        case .before:
            if strikes(.diskFull, 0.02) {
                count("full disks")
                hasRefusedCommit = true
                throw StoreError(.diskFull, doing: "commit", detail: "no space left")
            }
            if strikes(.failedSync, 0.01) { throw failedSync(agent, "lost") }
            if strikes(.crash, committing.risk / 2) { throw killed(agent, "before the commit of \(committing.rawValue)") }
        case .after:
            hasCommitted = true
            if strikes(.failedSync, 0.01) { throw failedSync(agent, "kept") }
            if strikes(.crash, committing.risk) { throw killed(agent, "after the commit of \(committing.rawValue)") }
        }
    }

    /// The error EIO of fsync: the store does not know if its commit is there.
    private func failedSync(_ agent: SimAgent, _ what: String) -> StoreError {
        count("failed syncs, commit \(what)")
        hasRefusedCommit = true
        agent.mustReopen = true
        return StoreError(.unknownOutcome, doing: "commit", detail: "input/output error")
    }

    private func killed(_ agent: SimAgent, _ place: String) -> StoreError {
        dying = agent.index
        say("agent \(agent.index) dies \(place)")
        count("deaths \(place)")
        return StoreError(.closed, doing: "commit", detail: "the process is gone")
    }

    func die(_ agent: SimAgent, reboots: Bool = false) {
        dying = nil
        agent.store = nil
        agent.mustReopen = false
        agent.engine = nil
        agent.life += 1
        agent.job = .none
        agent.files.endProcess()
        agent.heldUnder = nil
        count("crashes")
        if reboots { agent.reboot(at: now) }
        plan(.starts(agent: agent.index), in: spell(from: .milliseconds(100), upTo: .seconds(20)))
    }

    // MARK: Words

    private func recordReport(_ report: SyncReport, _ agent: SimAgent) {
        switch report {
        case .cycleBegan: agent.failuresInCycle = 0
        case .cycleEnded(let outcome):
            count(outcome.error == nil ? "cycles" : "failed cycles")
            say("agent \(agent.index) cycle: \(outcome.error ?? "ok"), pushed \(outcome.pushed), pulled \(outcome.pulled)")
            return fetchConfigIfOffered(agent)
        case .reachability(_, let to, _, _): say("agent \(agent.index) is \(to.rawValue)")
        case .fault: break
        case .regressed(let hub, let ours):
            count("regressions")
            say("agent \(agent.index) has gone back: the hub saw \(hub), we know \(ours)")
        case .epochChanged: count("epoch changes")
        case .hubWentBack(let said, let now, let isHealing):
            count(isHealing ? "healed alone" : "hubs caught behind their word")
            say("agent \(agent.index): the hub was at \(said) and is at \(now)")
        case .recordsLeftOut: count("records left out by the hub")
        case .historyAdopted(_, let requeued):
            count("histories adopted")
            if requeued > 0 { count("offered again") }
            say("agent \(agent.index) adopts the new history, \(requeued) offered again")
        case .compared(_, let differing): count(differing == 0 ? "comparisons" : "differences found")
        case .twins(let twins): if twins > 1 { count("clones noticed") }
        case .streamsRestarted(let entities):
            count("restarted streams")
            say("agent \(agent.index) lists anew: \(entities.map(\.text))")
        case .massDelete: count("mass deletions")
        case .streamHeld(let entity, let detail, _):
            count("streams held")
            say("agent \(agent.index) leaves \(entity) out: \(detail)")
        case .streamResumed: count("streams resumed")
        case .breaker(_, let to):
            count("breaker \(to.rawValue)")
            say("agent \(agent.index) breaker \(to.rawValue)")
        case .hubTime(let verdict): if verdict != .accepted { count("times of the hub doubted") }
        case .stalled(let detail):
            count("stalls")
            say("agent \(agent.index) stalled: \(detail)")
        case .setAside(let key, let detail):
            count("set aside")
            say("agent \(agent.index) sets \(name(of: key)) aside: \(detail)")
        }
    }

    /// The operation of a key, for the trace.
    func name(of key: MutationKey) -> String { byKey[key].map { Operation.token($0) } ?? key.text }

    private static func word(for command: StoreCommand) -> String {
        switch command {
        case .loadInFlight: "loads what is in flight"
        case .claim: "claims"
        case .applyResults(let results, _, _, _): "records \(results.count) results"
        case .applyRest(let results, _): "records \(results.count) results of a backend"
        case .loadStreams: "loads its streams"
        case .applyPull(let response):
            "applies a pull of \(response.pages.map { "\($0.entity) \($0.records.count)+\($0.deletions.count)" })"
        case .restartStreams: "restarts streams"
        case .restartShares: "restarts its share"
        case .applySnapshot(let page): "lists \(page.entity), \(page.records.count)\(page.hasMore ? " and more" : "")"
        case .loadSettled(let seq): "loads what is settled after \(seq)"
        case .requeue(let keys): "requeues \(keys.count)"
        case .forgetHistory: "forgets its history"
        case .digest(let entity): "digests \(entity)"
        case .recordComparison(let entity, let differs, _): "notes \(differs.count) differences of \(entity)"
        case .adoptReplica(let replica): "adopts \(replica)"
        case .setAside: "sets aside"
        case .remember: "remembers"
        case .housekeep: "keeps house"
        }
    }

    private static func word(for answer: StoreAnswer) -> String {
        switch answer {
        case .batch(let batch, _, _): batch.map { "\($0.mutations.map(\.seq))" } ?? "nothing"
        case .resultsApplied(let summary, let next):
            "\(summary.done) done, \(summary.rejected) rejected, \(summary.retried) later, \(summary.unknown) unknown, next \(next?.mutations.map(\.seq) ?? [])"
        case .streams(let streams): "\(streams.count)"
        case .pullApplied(let summary): "\(summary.upserts) new, \(summary.deletions) gone, \(summary.unchanged) known"
        case .snapshotApplied(let summary, let position):
            "\(summary.upserts) new, \(summary.deletions) gone, \(summary.unchanged) known, \(position.listing == nil ? "complete" : "more")"
        case .settled(let keys, _): "\(keys.count) keys"
        case .requeued(let count): "\(count)"
        case .historyForgotten(let more): more ? "more" : "done"
        case .digest: "done"
        case .done: "done"
        case .housekept: "done"
        case .failed(let text): "failed, \(text)"
        }
    }
}
