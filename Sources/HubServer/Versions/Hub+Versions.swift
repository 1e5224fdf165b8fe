import SyncCore

// The versions of schemas: stored documents have the present one of their entity (PROTOCOL D7).
extension Hub {
    /// Compares the versions of the stored documents with the rules when the hub starts, and converts where they differ.
    func convertOldVersions() throws(HubError) {
        if settings.scopesOfDatabase == .adopted { return }
        // Nothing was served by these rules yet, so a difference is no reason to stop.
        versionMark = state.versions
        let areCurrent: Bool
        do throws(DatabaseError) {
            let stored = try store.storedSchemas()
            areCurrent = Set(stored.keys).union(settings.versionedEntities).allSatisfy { entity in
                let rules = settings.rules[entity] ?? EntityRules()
                return (stored[entity] ?? StoredSchema()).isOf(rules.keptVersions)
            }
        } catch {
            throw HubError(error)
        }
        if !areCurrent { try transact { () throws(DatabaseError) in try makeVersions() } }
    }

    /// Converts the stored documents whose version is not that of the rules, within the present transaction. With many records of an entity
    /// this keeps all writers waiting for a while.
    ///
    /// - Throws: `.other` when there is no way from the stored version to that of the rules. Nothing is changed then.
    func makeVersions() throws(DatabaseError) {
        if settings.scopesOfDatabase == .adopted { return }
        let stored = try store.storedSchemas()
        for entity in Set(stored.keys).union(settings.versionedEntities).sorted() {
            let rules = settings.rules[entity] ?? EntityRules()
            let from = stored[entity] ?? StoredSchema()
            if from.number != rules.version {
                let steps = try steps(from, to: rules, of: entity)
                try store.convert(entity, by: steps)
                try makeScopes(of: entity, rules, after: steps)
                // No device receives events, and their commits tell which came first.
                if from.number > rules.version, rules.kind != .event { try sendAgain(entity) }
            }
            if !from.isOf(rules.keptVersions) { try store.keep(rules.versions, of: entity) }
        }
        versionMark = try store.versionMark()
    }

    private func steps(_ stored: StoredSchema, to rules: EntityRules, of entity: EntityName) throws(DatabaseError) -> SchemaSteps {
        if let steps = rules.versions?.steps(from: stored) { return steps }
        // Without documents there is nothing to convert.
        guard try store.hasDocuments(entity) else { return [] }
        throw DatabaseError(
            rulesOf: entity,
            "its records have version \(stored.number) of the schema, the rules have version \(rules.version), and no steps lead "
                + "from one to the other. Use an entities file whose key versions has both")
    }

    /// Gives each record a commit number of its own, and leaves everything else as it is: all devices receive the records again.
    ///
    /// On the way to a newer version and back, records lose what one of the two cannot say. A device that went the same way fetches its
    /// copies again. One that has missed both has copies of the same version of the schema and of the records, and would keep them.
    private func sendAgain(_ entity: EntityName) throws(DatabaseError) {
        var after: RecordID?
        while true {
            let ids = try store.listing(entity, after: after, limit: Hub.sentAgainPage).map(\.id)
            for id in ids {
                let name = RecordName(entity, id)
                guard let row = try store.record(name), let record = row.whole, let data = record.data else { continue }
                var stamp = record.stamp
                stamp.version = state.head + 1
                let again = VersionedRecord(data: data, stamp: stamp, exceptions: record.stamps, additions: record.additions)
                try store.put(
                    name, again, data: data.json, originKey: row.originKey, scopes: scopeChange(of: name, from: row, to: data),
                    at: Timestamp(milliseconds: Int64(clamping: stamp.hlc.milliseconds)))
                try advance(to: stamp.version, adding: HubCounters())
            }
            guard ids.count == Hub.sentAgainPage, let last = ids.last else { return }
            after = last
        }
    }

    private static let sentAgainPage = 500

    /// Makes the rows of scopes and grants anew that come from converted fields.
    private func makeScopes(of entity: EntityName, _ rules: EntityRules, after steps: SchemaSteps) throws(DatabaseError) {
        let changed = Set(steps.steps.flatMap(\.fields))
        let old = try store.scopeIndexes()[entity]?.fields ?? []
        if rules.isScoped, !changed.isDisjoint(with: old + rules.scope) {
            try store.buildScopes(of: entity, rules)
            try readScopeIndexes()
        }
        let sources = settings.access.sources
        if sources.contains(where: { $0.entity == entity }) { try store.buildGrants(of: sources) }
    }

    /// Compares the versions of the database with those of the rules, which another hub may have moved on.
    ///
    /// - Throws: `.other` when they differ: documents of another version must not be mistaken for ours.
    func checkVersions() throws(DatabaseError) {
        guard state.versions != versionMark, settings.scopesOfDatabase != .adopted else { return }
        let stored = try store.storedSchemas()
        for entity in Set(stored.keys).union(settings.versionedEntities).sorted() {
            let (there, here) = (stored[entity]?.number ?? 1, settings.rules[entity]?.version ?? 1)
            guard there != here else { continue }
            throw DatabaseError(
                rulesOf: entity,
                "the records of the database have version \(there) of its schema, and this hub serves version \(here). Start it again "
                    + "with the entities file of the other hubs")
        }
        versionMark = state.versions
    }
}

extension HubStore {
    /// A number that differs whenever a version differs.
    func versionMark() throws(DatabaseError) -> Int64 { try database.number(HubStore.versionMarkQuery) }

    static let versionMarkQuery = "SELECT coalesce(sum(version), 0) FROM entity_version"
}

extension EntityRules {
    /// The settings that the database keeps; those of an entity whose documents have version 1 are not kept.
    fileprivate var keptVersions: SchemaVersions? { version > 1 ? versions : nil }
}

extension Hub.Settings {
    fileprivate var versionedEntities: [EntityName] { rules.entities.filter { $1.version > 1 }.map(\.key) }
}
