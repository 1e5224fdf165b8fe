import SyncCore

// The settings of entities as rows of the database: the newest generation counts, for all hubs and readers over it.
extension Hub {
    /// Makes entity settings count for all hubs over the database.
    ///
    /// - Parameters:
    ///   - over: The number of the generation with which they were compared, 0 for none; `nil`: whatever counts.
    ///   - droppingScopes: Entities without a scope go to all devices as a whole, though the database shares them out.
    package func apply(
        _ wanted: EntityText, over expected: Int64? = nil, droppingScopes: Bool = false
    ) throws(EntityFailure) -> EntityOutcome {
        try compareAndApply(wanted, droppingScopes: droppingScopes, isFile: false) { newest in
            let present = newest?.number ?? 0
            if let expected, expected != present { return .failure(.superseded(by: present)) }
            return .success(newest?.digest == wanted.digest ? .unchanged(generation: present) : nil)
        }
    }

    /// The same for the file of a hub's start or reload. It counts only if it has changed since it was read last: otherwise a restart would
    /// take back what was applied after that. Where this version objects to it, the settings that count stay; without any, it is refused.
    package func offer(_ file: EntityText) throws(EntityFailure) -> EntityOutcome {
        try compareAndApply(file, droppingScopes: settings.scopesOfDatabase == .dropped, isFile: true) { newest in
            guard let newest else { return .success(nil) }
            if newest.digest == file.digest { return .success(.unchanged(generation: newest.number)) }
            return .success(newest.fileDigest == file.digest ? .outranked(by: newest) : nil)
        }
    }

    /// Receives the generation that counts. Returns `nil` for settings that are to count in its place.
    private typealias Decide = (EntityGeneration?) -> Result<EntityOutcome?, EntityFailure>

    /// Settings that are offered, as they were read.
    private struct Offer {
        var text: EntityText
        var entities: HubEntities
        var droppingScopes: Bool
        var isFile: Bool
    }

    /// Compares settings with the generation that counts, and makes them count in its place unless `decide` has an outcome already.
    private func compareAndApply(
        _ text: EntityText, droppingScopes: Bool, isFile: Bool, _ decide: Decide
    ) throws(EntityFailure) -> EntityOutcome {
        guard let read = settings.readEntities else { throw .settings(EntityFault("this hub reads no entity settings")) }
        let entities: HubEntities
        do throws(EntityFault) { entities = try read(text.text, text.name).get() } catch { throw .settings(error) }
        if isDown { reopen(at: text.at) }
        let offer = Offer(text: text, entities: entities, droppingScopes: droppingScopes, isFile: isFile)
        // Mostly a file has not changed, and a start writes nothing.
        if let outcome = try attempt(.reading, { () throws(DatabaseError) in try look(at: offer, decide) }) { return outcome }
        return try attempt(.writing) { () throws(DatabaseError) in try write(offer, decide) }
    }

    /// Runs `body` in a transaction. A refusal ends it, and is no failure of the database.
    private func attempt<Value>(
        _ purpose: TransactionPurpose, _ body: () throws(DatabaseError) -> Result<Value, EntityFailure>
    ) throws(EntityFailure) -> Value {
        var refusal: EntityFailure?
        do throws(HubError) {
            return try transact(purpose, isReported: { refusal == nil }) { () throws(DatabaseError) in
                switch try body() {
                case .success(let value): return value
                case .failure(let failure):
                    refusal = failure
                    throw DatabaseError(.other, doing: "apply entity settings", detail: failure.detail)
                }
            }
        } catch {
            throw refusal ?? .hub(error)
        }
    }

    /// - Returns: The outcome for settings that need no write; `nil` for others.
    private func look(at offer: Offer, _ decide: Decide) throws(DatabaseError) -> Result<EntityOutcome?, EntityFailure> {
        let newest = try store.newestEntities()
        let decided = decide(newest)
        guard case .success(_?) = decided else { return decided }
        if offer.isFile, newest?.fileDigest != offer.text.digest { return .success(nil) }
        try readEntities()
        return decided
    }

    private func write(_ offer: Offer, _ decide: Decide) throws(DatabaseError) -> Result<EntityOutcome, EntityFailure> {
        try openIfNeeded(at: offer.text.at)
        let newest = try store.newestEntities()
        switch decide(newest) {
        case .failure(let failure): return .failure(failure)
        case .success(let outcome?):
            if offer.isFile, let newest { try store.keepFileDigest(offer.text.digest, under: newest.number) }
            try readEntities()
            return .success(outcome)
        case .success(nil): break
        }
        if let objection = offer.entities.objection {
            // A file that came from a backup must not keep the hub from starting, as long as there are settings to work by.
            guard offer.isFile, let newest else { return .failure(.settings(objection)) }
            try readEntities()
            return .success(.refused(objection, generation: newest.number))
        }
        let generation = EntityGeneration(
            number: (newest?.number ?? 0) + 1, appliedAt: offer.text.at, appliedBy: offer.text.by, digest: offer.text.digest,
            fileDigest: offer.isFile ? offer.text.digest : newest?.fileDigest, text: offer.text.text)
        try store.put(generation)
        // A command that a person has given: an older program would go on under other rules.
        if !offer.isFile { try store.database.require(.entitySettings) }
        state.entities = generation.mark
        do throws(DatabaseError) {
            try adopt(offer.entities, droppingScopes: offer.droppingScopes)
        } catch {
            guard error.isOfRules else { throw error }
            return .failure(.settings(EntityFault(error.description)))
        }
        return .success(.applied(generation: generation.number))
    }

    // MARK: Adoption

    /// Makes entity settings those of this hub, within the present transaction, which must be one that writes and may still fail. Other
    /// hubs and readers follow with ``readEntities()`` once it is committed.
    ///
    /// Records are converted to the versions of the schemas, and their shares are made anew, where the settings ask for that.
    func adopt(_ entities: HubEntities, droppingScopes: Bool) throws(DatabaseError) {
        if adoption == nil { adoption = EntityAdoption(of: self) }
        use(entities)
        let fate = settings.scopesOfDatabase
        settings.scopesOfDatabase = droppingScopes ? .dropped : .kept
        defer { settings.scopesOfDatabase = fate }
        try makeVersions()
        try makeScopes()
        (entityMark, state.versions) = (state.entities, versionMark)
    }

    /// Keeps adopted settings when their transaction was committed, and takes them back otherwise.
    func endAdoption(committed: Bool) {
        if !committed { adoption?.takeBack(in: self) }
        adoption = nil
    }

    /// Uses the settings that count for the present transaction, if another hub has applied them.
    ///
    /// - Throws: When this program cannot read them, such as those of a newer version: under other rules it would spoil records. A command
    ///   goes on by the scopes of the database, because one of them applies settings that can be read.
    func readEntities() throws(DatabaseError) {
        guard let read = settings.readEntities, state.entities != entityMark, let newest = try store.newestEntities() else { return }
        switch read(newest.text, "generation \(newest.number)") {
        case .success(let entities):
            use(entities)
            try readScopeIndexes()
        case .failure(let fault):
            guard settings.scopesOfDatabase == .adopted else {
                throw DatabaseError(
                    .other, doing: "use generation \(newest.number) of the entity settings",
                    detail: "this program cannot read it: \(fault.detail). Update this hub, or go back with agenthub entities rollback")
            }
        }
        entityMark = newest.mark
    }

    private func use(_ entities: HubEntities) {
        (settings.rules, settings.access, settings.config) = (entities.rules, entities.access, entities.config)
    }

    // MARK: The start

    /// Uses the settings of the database, or those of the file of this start, and makes records and the rows of scopes fit.
    func applyRulesAtStart() throws(HubError) {
        // Nothing was served by any rules yet, so other versions of records are no reason to stop.
        versionMark = state.versions
        // From now on a transaction notices when another hub changes scopes, and not that this hub did not know them.
        do throws(DatabaseError) { try readScopeIndexes() } catch { throw HubError(error) }
        if settings.readEntities != nil { try useEntitiesAtStart() }
        try convertOldVersions()
        try renewOldScopes()
        if state.linked < state.head { try transact { () throws(DatabaseError) in try renewOldLinks() } }
    }

    /// Offers the entities file of this start, or uses the settings of the database.
    private func useEntitiesAtStart() throws(HubError) {
        guard let file = settings.entityFile else {
            return try transact(.reading) { () throws(DatabaseError) in try readEntities() }
        }
        do throws(EntityFailure) {
            fileOutcome = try offer(file)
        } catch {
            switch error {
            case .settings(let fault): throw HubError(.badEntities, doing: "use the entities file", detail: fault.detail)
            case .superseded: preconditionFailure("a file is compared with no generation")
            case .hub(let error): throw error
            }
        }
    }

    // MARK: The past

    /// The number of the generation that this hub works by; 0: the database has none.
    var entityGeneration: Int64 { entityMark.split(separator: " ").first.flatMap { Int64($0) } ?? 0 }

    /// The generation that counts; `nil`: none was ever applied.
    package func newestEntities() throws(HubError) -> EntityGeneration? {
        do throws(DatabaseError) { return try store.newestEntities() } catch { throw HubError(error) }
    }
}

/// The settings before an adoption whose transaction is not committed yet.
struct EntityAdoption {
    private let rules: RuleBook
    private let access: AccessBook
    private let config: HubConfiguration?
    private let scopeIndexes: [EntityName: ScopeIndex]
    private let scopeGeneration: Int64
    private let mark: String
    private let versionMark: Int64

    init(of hub: Hub) {
        (rules, access, config) = (hub.settings.rules, hub.settings.access, hub.settings.config)
        (scopeIndexes, scopeGeneration, mark) = (hub.scopeIndexes, hub.scopeGeneration, hub.entityMark)
        versionMark = hub.versionMark
    }

    func takeBack(in hub: Hub) {
        (hub.settings.rules, hub.settings.access, hub.settings.config) = (rules, access, config)
        (hub.scopeIndexes, hub.scopeGeneration, hub.entityMark) = (scopeIndexes, scopeGeneration, mark)
        hub.versionMark = versionMark
    }
}

extension HubInspector {
    /// All kept generations, the newest first, without their texts.
    package func entityHistory() throws(HubError) -> [EntityGeneration] {
        try reading { (_) throws(DatabaseError) in try store.entityHistory() }
    }

    /// - Parameter number: `nil`: the one that counts.
    package func entities(_ number: Int64? = nil) throws(HubError) -> EntityGeneration? {
        try reading { (_) throws(DatabaseError) in
            guard let number else { return try store.newestEntities() }
            return try store.entities(number)
        }
    }
}

extension DatabaseError {
    private static let useRules = "use the rules of "

    /// The records of the database do not allow the rules of an entity.
    init(rulesOf entity: EntityName, _ detail: String) {
        self.init(.other, doing: DatabaseError.useRules + entity.text, detail: detail)
    }

    /// The operator has to change the rules, and the database is not at fault.
    var isOfRules: Bool { kind == .other && doing.hasPrefix(DatabaseError.useRules) }
}
