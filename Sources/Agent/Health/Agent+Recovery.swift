package import LocalAPI
import Logging
package import SyncCore
package import SyncStore

/// What the store can do at the moment, and so what the local API can.
package enum ServiceMode: Hashable {
    case serving
    /// The database is being put in order; nothing can be asked of it yet.
    case recovering
    /// A newer program has written the database: it can be looked at, and nothing else (PROTOCOL C2).
    case readOnly(String)
    /// The disk does not let it be opened: full, read-only or failing. It is tried again; what can be read of it can be asked.
    case unusable(Problem)

    /// - Throws: `starting` or `read-only`.
    func check(_ route: Route) throws(Problem) {
        switch (self, route) {
        case (.serving, _), (_, .health), (_, .ready), (_, .welcome), (_, .reference): return
        case (.recovering, _):
            throw LocalProblem.starting.problem("the database was damaged and is being put in order", retryAfter: 1)
        case (
            .readOnly, .mutations), (.readOnly, .mutation), (.readOnly, .record), (.readOnly, .records), (.readOnly, .query),
            (.readOnly, .entities), (.readOnly, .status), (.readOnly, .metrics), (.readOnly, .events), (.readOnly, .config),
            (.readOnly, .checkConfig), (.readOnly, .links), (.readOnly, .power), (.readOnly, .ledger), (.readOnly, .why),
            (.readOnly, .plan), (.readOnly, .checklist), (.readOnly, .diagnose):
            return
        case (.readOnly(let reason), _): throw LocalProblem.readOnly.problem(reason)
        case (.unusable, .mutations), (.unusable, .mutation), (.unusable, .record), (.unusable, .records), (.unusable, .query),
            (.unusable, .entities), (.unusable, .status), (.unusable, .metrics), (.unusable, .links), (.unusable, .power),
            (.unusable, .checklist):
            return
        case (.unusable(let problem), _): throw problem
        }
    }

    /// Why `GET /v1/readyz` says no; `nil` when it does not.
    ///
    /// - Parameter held: How long the thread that writes has been at the same job; `nil` while it waits for one. Meanwhile nothing
    ///   can be enqueued.
    package func obstacle(held: Duration?) -> String? {
        switch self {
        case .serving: held.map { $0 > StoreJobTimes.bound } == true ? "busy" : nil
        case .recovering: "recovering"
        case .readOnly, .unusable: "read-only"
        }
    }
}

// What was found when the database was opened, and what became of it.
extension Agent {
    /// Until ``note(_:)-(StoreOpening)``: the door is open, and everything is asked to come again.
    package func beginRecovery(_ reason: String) {
        mode = .recovering
        log.error("the database cannot be opened; what can be read of it goes into a new one", metadata: ["error": "\(reason)"])
    }

    package func endRecovery() {
        mode = .serving
    }

    /// The door is open before the database is; ``note(_:)-(StoreWriter.Incident)`` tells when it is.
    package func awaitStore(_ error: StoreError) {
        mode = .unusable(error.localProblem)
        note(.unusable(error))
        goOnWithWaiting()
    }

    /// Reads and status work, nothing is taken, nothing is sent, and the file stays as it is.
    package func refuseWork(_ error: StoreError) {
        let isForeign = error.code == .foreignFile
        let reason =
            isForeign
            ? "agent.db is a database of another program (\(error.detail)); move it out of the state folder, then restart agentd"
            : "the database was written by a newer agentd (\(error.detail)); install that one again, or a newer one"
        mode = .readOnly(reason)
        observed.storeIsReadOnly = true
        observed.attention[isForeign ? "foreign_database" : "newer_schema"] = reason
        log.critical("read-only", metadata: ["error": "\(error)"])
        goOnWithWaiting()
    }

    func note(_ rescue: StoreRescue) {
        var text = "the database was damaged (\(Printable.text(rescue.reason))); salvaged: \(rescue.mutations) mutations, "
        text += "\(rescue.open) of them open, and \(rescue.records) records"
        if rescue.damaged > 0 { text += "; \(rescue.damaged) rows were damaged" }
        if rescue.lost > 0 { text += "; \(rescue.lost) mutations are missing" }
        text += "; it is kept in \(rescue.folder)"
        log.error(
            "db_recovered",
            metadata: [
                "reason": "\(rescue.reason)", "mutations": "\(rescue.mutations)", "open": "\(rescue.open)",
                "records": "\(rescue.records)", "damaged": "\(rescue.damaged)", "lost": "\(rescue.lost)",
                "folder": "\(rescue.folder)",
            ])
        raise("recovered_from_corruption", text)
        journal(
            .sync,
            JSON.object([
                "phase": "db_recovered", "reason": .string(Printable.text(rescue.reason)), "mutations": .int(rescue.mutations),
                "open": .int(rescue.open), "records": .int(rescue.records), "damaged": .int(rescue.damaged),
                "lost": .int(rescue.lost),
            ]).bytes)
    }

    /// The hub hears another database under our name.
    func noteTwins(_ count: Int64) {
        guard count > 1 else {
            observed.attention["cloned_device"] = nil
            log.notice("nobody else uses this device's name any more")
            return
        }
        raise(
            "cloned_device",
            "\(count) databases use the name \(device) at the hub in turns: a card or an image was copied. Give one of the "
                + "devices a name and a token of its own")
    }

    package func noteIdentityDamage(_ reason: String) {
        raise(
            "identity_damaged",
            "identity.json could not be read (\(Printable.text(reason))) and was written anew from the database; look at the disk")
    }

    func noteLostTail(_ count: Int64) {
        raise("lost_tail", "\(count) acknowledged mutations at the end of the database are missing")
    }

    /// An operator has looked at what a listing or the feed would have removed.
    func acceptDeletions(uid: UInt32) {
        store.run { store, now throws(StoreError) in
            try store.acceptDeletions(uid: uid, at: now)
        } completion: { [self] result in
            assumeIsolated { agent in
                switch result {
                case .success(let count):
                    agent.observed.attention["mass_delete"] = nil
                    agent.log.notice("deletions accepted", metadata: ["records": "\(count)", "uid": "\(uid)"])
                    agent.events.poke()
                case .failure(let error): agent.log.error("the deletions were not done", metadata: ["error": "\(error)"])
                }
            }
        }
    }

    /// Ready when the store works and what records refer to is here (PROTOCOL A8, "first-sync seeding").
    func showReadiness(_ call: LocalCall) {
        if let obstacle = mode.obstacle(held: store.heldFor) { return call.answer(ControlAnswer.ready(reason: obstacle, firstSync: nil)) }
        reader.read { reads, now throws(StoreError) in
            (entities: try reads.entities(), facts: try reads.facts(at: now))
        } completion: { [self] result in
            assumeIsolated { agent in
                switch result {
                case .success(let found):
                    let state = agent.firstSync(found.entities, isSeeded: found.facts.isSeeded)
                    let isReady = state.phase == "seeded" || state.phase == "done"
                    let cause = agent.presentCause(
                        in: agent.presentSituation, waiting: found.facts.waitingPriorities, now: agent.environment.time.now().wall)
                    call.answer(
                        ControlAnswer.ready(reason: isReady ? nil : state.phase, firstSync: state, cause: isReady ? nil : cause))
                case .failure(let error): agent.refuse(call, error)
                }
            }
        }
    }

    /// How far the device has come in learning everything for the first time.
    func firstSync(_ entities: [EntityOverview], isSeeded: Bool) -> StatusDocument.FirstSync {
        let mapping = loaded.configuration.restMapping
        let memory = engine.memory
        return Self.firstSync(
            entities, of: loaded.configuration.rules, mapping, announced: engine.settings.pullsAll ? memory.hubEntities ?? [] : [],
            isSeeded: isSeeded, hasMetServer: (mapping == nil ? memory.epoch : memory.lastSuccess.map { "\($0)" }) != nil)
    }

    /// - Parameters:
    ///   - announced: Entities that only the hub has named so far.
    ///   - hasMetServer: The hub or backend has answered once. Before that nothing is known of what there is, and to have all of nothing
    ///     would be to be ready.
    package static func firstSync(
        _ entities: [EntityOverview], of rules: RuleBook, _ mapping: RestMapping? = nil, announced: [EntityName] = [], isSeeded: Bool,
        hasMetServer: Bool
    ) -> StatusDocument.FirstSync {
        let found = Dictionary(entities.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        let names = Set(rules.entities.keys).union(found.keys).union(announced).filter { name in
            (rules[name]?.kind ?? .event) != .event && (mapping.map { $0.entities[name]?.list != nil } ?? true)
        }
        func isRead(_ name: EntityName) -> Bool { found[name]?.lastFullAt != nil }
        let done = names.reduce(Int64(0)) { $0.saturatingAdd(found[$1]?.records ?? 0) }
        let total = names.reduce(Int64(0)) { $0.saturatingAdd(max(found[$1]?.seedTotal ?? 0, found[$1]?.records ?? 0)) }
        let references = names.filter { rules[$0]?.kind == .reference }
        // An existing backend knows no filters.
        func hasItsSeed(_ name: EntityName) -> Bool {
            mapping != nil || rules[name]?.seedFilter.isEmpty ?? true || found[name]?.isSeeded == true
        }
        let phase: String
        if isSeeded || (hasMetServer && names.allSatisfy(isRead)) {
            phase = "done"
        } else if hasMetServer, references.allSatisfy(isRead), names.allSatisfy(hasItsSeed) {
            phase = "seeded"
        } else {
            phase = names.contains { found[$0]?.lastPullAt != nil } ? "seeding" : "waiting"
        }
        return StatusDocument.FirstSync(phase: phase, done: done, total: total)
    }
}
