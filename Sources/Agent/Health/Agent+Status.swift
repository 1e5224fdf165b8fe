import LocalAPI
import SyncCore
import SyncStore

// `GET /v1/status`: assembled from present facts at each request; nothing is stored for it.
extension Agent {
    func showStatus(_ call: LocalCall) {
        readForStatus { agent, result in
            agent.goOn(call, agent.orUnread(result)) { agent, view in call.answer(agent.status(view).answer) }
        }
    }

    func readForStatus(_ done: @escaping @Sendable (isolated Agent, Result<StoreView, StoreError>) -> Void) {
        let today = around.book.clock.day
        fromReader({ reads, now throws(StoreError) in try StoreView(reads, today: today, at: now) }, then: done)
    }

    /// Where the database cannot be read, the rest is shown together with that fact, because a reader needs it most then.
    func orUnread(_ result: Result<StoreView, StoreError>) -> Result<StoreView, StoreError> {
        guard case .failure(let error) = result, error.code != .closed else { return result }
        do throws(StoreError) {
            var view = try StoreView(
                StoreReads(database: .empty()), today: around.book.clock.day, at: environment.time.now())
            view.obstacle = storeHealth.obstacle(error)
            return .success(view)
        } catch {
            return result
        }
    }

    /// The facts of the store.
    struct StoreView: Sendable {
        var facts: StoreFacts
        var blobs: BlobCounts
        var nextBlob: UploadJob?
        var entities: [EntityOverview]
        var attention: [MutationSnapshot]
        /// The newest conflicts that wait for a decision.
        var conflicts: [ConflictSnapshot]
        var openConflicts: Int64
        /// Bytes of today over all links, without those of the last seconds.
        var usage: StatusDocument.Usage
        /// The reason why none of this could be read; `nil`: it could.
        var obstacle: String?
    }

    func status(_ view: StoreView) -> StatusDocument {
        let now = environment.time.now()
        let configuration = loaded.configuration
        let facts = view.facts
        var document = StatusDocument(
            agent: .init(
                version: AgentVersion.current, device: device.text, replica: facts.replica.text,
                hub: configuration.hub.url.text, uptime: startedAt.duration(to: now.instant)),
            database: database(facts),
            configuration: .init(
                version: configurationState.version,
                source: configurationState.isLastGood ? "last_good" : trials.reverted.isEmpty ? "file" : "reverted",
                error: configurationState.error, trial: trialSentence),
            connectivity: connectivity())
        let situation = presentSituation
        document.verdicts = TrafficClass.allCases.map { traffic in
            let priority = Priority.allCases.first { TrafficClass($0) == traffic && facts.waitingPriorities.contains($0) }
            guard let priority else { return .init(Policy.explain(traffic, in: situation, now: now.wall)) }
            return .init(explanation(of: priority, in: situation, now: now.wall).0)
        }
        document.cause = presentCause(in: situation, waiting: facts.waitingPriorities, now: now.wall)
        document.sync = syncState(now)
        document.sync.firstSync = firstSync(view.entities, isSeeded: facts.isSeeded)
        document.usage = view.usage
        if environment.power != nil { document.power = powerState }
        document.outbox = outbox(facts, in: situation, now)
        let queue = queue.history
        if let until = queue.lastAt { document.outbox.history = .init(step: QueueHistory.step, until: until, open: queue.open) }
        document.blobs = blobStatus(view, now)
        document.conflicts = view.openConflicts
        document.attention = view.conflicts.map { conflict in
            let item = ConflictItem(conflict, withHistory: false)
            let problem = item.fields.first.map { Problem("conflict", status: 409, detail: ConflictScreen.line($0)) }
            return .init(state: .conflicted, id: item.id.description, record: item.record, problem: problem)
        }
        document.attention += view.attention.map { mutation in
            .init(state: mutation.state, id: mutation.key.text, record: mutation.record, problem: mutation.problem)
        }
        document.attention = Array(document.attention.prefix(StatusDocument.attentionMax))
        document.entities = view.entities.map { entity in
            .init(
                name: entity.name.text, kind: (configuration.rules[entity.name]?.kind ?? .record).rawValue,
                records: entity.records, notKept: entity.notKept, pending: entity.open,
                cursorAge: entity.age(pulledAt: engine.pulledAt(entity.name), now: now.wall))
        }
        document.alarms = alarms.present.filter(\.key.isInStatus).map { .init(code: $0.key.rawValue, detail: $0.value) }
            .sorted { $0.code < $1.code }
        document.pastAlarms = pastAlarms
        if let obstacle = view.obstacle {
            document.alarms.append(.init(code: AlarmCode.databaseUnreadable.rawValue, detail: Printable.text(obstacle)))
        }
        document.checklist = StatusDocument.Checklist(checklist(view))
        document.apps = facts.openByApp.sorted { $0.key < $1.key }.map { app, open in
            .init(app: app.text, uid: AppUser.uid(of: app), connections: 0, open: open)
        }
        return document
    }

    private func database(_ facts: StoreFacts) -> StatusDocument.Database {
        let free = environment.freeBytes()
        var state: StatusDocument.Database.State =
            switch loaded.configuration.storeCapacity.limit(open: facts.open, bytes: facts.bytes, free: free) {
            case .queue: .queueFull
            case .disk: .diskFull
            case nil: diskSpace.isQuotaUsedUp ? .diskFull : .ok
            }
        if storeHealth.isReadOnly { state = storeHealth.fault?.code == .diskFull ? .diskFull : .readOnly }
        return .init(
            state: state, bytes: facts.bytes, walBytes: facts.walBytes, freeBytes: free, schema: facts.schema,
            sqlite: facts.sqlite, durability: "full",
            integrity: storeHealth.integrity,
            recovery: storeHealth.recoveryNews(isFull: state == .diskFull, at: environment.time.now().instant))
    }

    private func connectivity() -> StatusDocument.Connectivity {
        .init(
            state: engine.reachability.rawValue, since: around.reachability.since, cause: around.reachability.cause,
            detail: engine.reachability == .online ? nil : around.reachability.fault?.detail ?? around.reachability.cause,
            portalURL: around.connectivity.portalURL.map { Printable.text($0, max: 200) },
            uplink: around.connectivity.uplink?.name, links: linkItems)
    }

    private func syncState(_ now: Moment) -> StatusDocument.Sync {
        let memory = engine.memory
        var sync = StatusDocument.Sync(
            phase: engine.phase?.text ?? "idle", lastSuccess: memory.lastSuccess, lastError: memory.lastError,
            lastErrorAt: memory.lastErrorAt, attempt: Int64(memory.failures),
            notBefore: memory.notBefore.flatMap { $0 > now.wall ? $0 : nil }, pause: memory.pause,
            isCaughtUp: engine.isCaughtUp, badReplies: metrics.badReplies)
        if engine.cycle == nil, memory.pause == nil, let next = engine.nextCycleAt(at: now) {
            sync.nextAt = now.wall.advanced(by: max(.zero, now.instant.duration(to: next)))
        }
        sync.breaker = engine.breaker.state.rawValue
        sync.stalls = metrics.stalls
        sync.isWaitingForNews = engine.isWaitingForNews
        if let clock = engine.clock.offset(at: now) {
            // Stamps tolerate five minutes; beyond that one of the two clocks is wrong.
            let isSuspect = engine.clock.isDoubted || clock.offset.magnitude > HybridClock.aheadMax
            sync.clock = .init(offset: clock.offset, error: clock.error, state: isSuspect ? "suspect" : "synced")
        } else if isClockUnsynced {
            sync.clock = .init(offset: .zero, error: .zero, state: alarms[.clockSuspect] == nil ? "unsynced" : "suspect")
        }
        if let epoch = memory.epoch { sync.server = .init(epoch: epoch, head: engine.seenHead, syncVersion: 1, share: memory.share) }
        sync.server?.isShareOld = engine.isShareOld
        return sync
    }

    private func outbox(_ facts: StoreFacts, in situation: Situation, _ now: Moment) -> StatusDocument.Outbox {
        var outbox = StatusDocument.Outbox(
            counts: facts.counts.mapValues { $0.values.reduce(0, +) }, pending: facts.counts[.pending] ?? [:],
            enqueued: facts.enqueued, oldest: facts.oldestWaiting.map { max(.zero, $0.duration(to: now.wall)) },
            bytes: facts.waitingBytes, limit: Int64(loaded.configuration.store.maxMutations))
        for (priority, count) in outbox.pending.sorted(by: { $0.key < $1.key }) where count > 0 {
            let (why, some) = explanation(of: priority, in: situation, now: now.wall)
            let held = some.map { min(count, Int64($0)) } ?? count
            if let deferral = StatusDocument.Deferral(priority, count: held, why) { outbox.deferred.append(deferral) }
        }
        return outbox
    }
}

extension CyclePhase {
    /// The text for people.
    var text: String {
        switch self {
        case .greeting: "hello"
        case .adopting, .settling, .healing: "settle"
        case .pulling: "pull"
        case .pushing, .settingAside: "push"
        case .closing: "housekeeping"
        }
    }
}

private enum AppUser {
    /// The user id of an app without a rule, which is named after its user; -1 for other apps.
    static func uid(of app: AppName) -> Int64 {
        app.text.hasPrefix("uid:") ? Int64(app.text.dropFirst(4)) ?? -1 : -1
    }
}

extension Agent.StoreView {
    init(_ reads: StoreReads, today: UTCDay, at now: Moment) throws(StoreError) {
        var usage = UsageQuery()
        (usage.from, usage.to) = (today, today)
        let moved = try reads.usage(usage)
        var attention = MutationQuery()
        attention.states = [.rejected, .failed, .held]
        attention.limit = 1_000
        var conflicts = ConflictQuery()
        conflicts.limit = 1_000
        self.init(
            facts: try reads.facts(at: now), blobs: try reads.blobCounts(), nextBlob: try reads.waitingBlobs(limit: 1).first,
            entities: try reads.entities(),
            attention: try reads.mutations(attention, at: now).items.suffix(StatusDocument.attentionMax).reversed(),
            conflicts: try reads.conflicts(conflicts).items.suffix(StatusDocument.attentionMax).reversed(),
            openConflicts: try reads.openConflicts(),
            usage: .init(up: moved.reduce(0) { $0.saturatingAdd($1.up) }, down: moved.reduce(0) { $0.saturatingAdd($1.down) }))
    }
}
