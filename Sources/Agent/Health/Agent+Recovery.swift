package import LocalAPI
import Logging
package import SyncCore
package import SyncStore

/// The present abilities of the store, and so of the local API.
package enum ServiceMode: Hashable {
    case serving
    /// The database is being repaired; it cannot be queried yet.
    case recovering
    /// A newer program has written the database: it can only be read (PROTOCOL C2).
    case readOnly(String)
    /// The disk does not allow opening it: full, read-only or failing. It is tried again; readable parts can be queried.
    case unusable(Problem)

    /// - Throws: `starting` or `read-only`.
    func check(_ route: Route) throws(Problem) {
        switch (self, route) {
        case (.serving, _), (_, .health), (_, .ready), (_, .welcome), (_, .reference): return
        case (.recovering, _):
            throw LocalProblem.starting.problem("the database is damaged and is being repaired", retryAfter: 1)
        case (
            .readOnly, .mutations
        ), (.readOnly, .mutation), (.readOnly, .record), (.readOnly, .records), (.readOnly, .query),
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

    /// The reason of a negative answer to `GET /v1/readyz`; `nil` for a positive one.
    ///
    /// - Parameter held: Time that the writing thread has spent on the present job; `nil` while it waits for one. No mutation can be
    ///   enqueued during a job.
    package func obstacle(held: Duration?) -> String? {
        switch self {
        case .serving: held.map { $0 > StoreJobTimes.bound } == true ? "busy" : nil
        case .recovering: "recovering"
        case .readOnly, .unusable: "read-only"
        }
    }
}

// Handles the findings of the database's opening, and their consequences.
extension Agent {
    /// Starts the state until ``publish(_:)-(StoreOpening)``: the API is open, and every caller is asked to come again.
    package func beginRecovery(_ reason: String) {
        mode = .recovering
        log.error("the database cannot be opened; its readable rows go into a new one", metadata: ["error": "\(reason)"])
    }

    package func endRecovery() {
        mode = .serving
    }

    /// The API is open before the database is; ``handle(_:)-(StoreWriter.Incident)`` reports when it is.
    package func awaitStore(_ error: StoreError) {
        mode = .unusable(error.localProblem)
        handle(.unusable(error))
        goOnWithWaiting()
    }

    /// Starts the read-only state: reads and status work, no work is accepted or sent, and the file is unchanged.
    package func refuseWork(_ error: StoreError) {
        let isForeign = error.code == .foreignFile
        let reason =
            isForeign
            ? "agent.db is a database of another program (\(error.detail)); move it out of the state folder, then restart agentd"
            : "the database was written by a newer agentd (\(error.detail)); install that one again, or a newer one"
        mode = .readOnly(reason)
        storeHealth.refused()
        alarms.show(isForeign ? .foreignDatabase : .newerSchema, reason)
        log.critical("read-only", metadata: ["error": "\(error)"])
        goOnWithWaiting()
    }

    func publish(_ rescue: StoreRescue) {
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
        raise(.recoveredFromCorruption, text)
        journal(
            .sync,
            JSON.object([
                "phase": "db_recovered", "reason": .string(Printable.text(rescue.reason)), "mutations": .int(rescue.mutations),
                "open": .int(rescue.open), "records": .int(rescue.records), "damaged": .int(rescue.damaged),
                "lost": .int(rescue.lost),
            ]).bytes)
    }

    /// Reports that the hub sees another database with our name.
    func reportClones(_ count: Int64) {
        guard count > 1 else {
            alarms.end(.clonedDevice)
            log.notice("no other database uses this device's name any more")
            return
        }
        raise(
            .clonedDevice,
            "\(count) databases use the name \(device) at the hub in turns: a card or an image was copied. Give one of the "
                + "devices a name and a token of its own")
    }

    package func reportIdentityDamage(_ reason: String) {
        raise(
            .identityDamaged,
            "identity.json could not be read (\(Printable.text(reason))) and was written again from the database; check the disk")
    }

    func reportLostTail(_ count: Int64) {
        raise(.lostTail, "\(count) acknowledged mutations at the end of the database are missing")
    }

    /// Accepts the deletions that were held back, after an operator has checked them.
    func acceptDeletions(uid: UInt32) {
        fromStore { store, now throws(StoreError) in
            try store.acceptDeletions(uid: uid, at: now)
        } then: { agent, result in
            switch result {
            case .success(let count):
                agent.alarms.end(.massDelete)
                agent.log.notice("deletions accepted", metadata: ["records": "\(count)", "uid": "\(uid)"])
                agent.events.sendNew()
            case .failure(let error): agent.log.error("the deletions failed", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Ready means that the store works and the reference records are here (PROTOCOL A8, "first-sync seeding").
    func showReadiness(_ call: LocalCall) {
        if let obstacle = mode.obstacle(held: store.heldFor) { return call.answer(ControlAnswer.ready(reason: obstacle, firstSync: nil)) }
        fromReader(for: call) { reads, now throws(StoreError) in
            (entities: try reads.entities(), facts: try reads.facts(at: now))
        } then: { agent, found in
            let state = agent.firstSync(found.entities, isSeeded: found.facts.isSeeded)
            let isReady = state.phase == "seeded" || state.phase == "done"
            let cause = agent.presentCause(
                in: agent.presentSituation, waiting: found.facts.waitingPriorities, now: agent.environment.time.now().wall)
            call.answer(ControlAnswer.ready(reason: isReady ? nil : state.phase, firstSync: state, cause: isReady ? nil : cause))
        }
    }

    /// Progress of the first complete download.
    func firstSync(_ entities: [EntityOverview], isSeeded: Bool) -> StatusDocument.FirstSync {
        let mapping = loaded.configuration.restMapping
        let memory = engine.memory
        return Self.firstSync(
            entities, of: loaded.configuration.rules, mapping, announced: engine.settings.pullsAll ? memory.hubEntities ?? [] : [],
            isSeeded: isSeeded, hasMetServer: (mapping == nil ? memory.epoch : memory.lastSuccess.map { "\($0)" }) != nil)
    }

    /// - Parameters:
    ///   - announced: Entities that only the hub has named so far.
    ///   - hasMetServer: The hub or backend has answered once. Before that the entities are not known, and an empty set would count as
    ///     complete.
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
        // An existing backend has no filters.
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
