package import SyncCore
import SyncSQLite

/// The version of the documents of an entity in this database.
private struct DocumentVersion {
    var schema = StoredSchema()
    /// The hub had a newer version when documents were taken from it.
    var isLowered = false
}

/// Rules that could not be used yet, because the conversion failed, with the settings of the hub that they are from.
struct RulesToUse {
    var rules: RuleBook
    var server: String?
}

// All documents of an entity, and all changes that wait or may be offered again, have one version of its schema: that of the rules
// (PROTOCOL D7). New rules convert them, in one transaction.

extension Store {
    /// Uses new rules from now on, and converts what is stored under other versions of the schemas.
    ///
    /// - Parameter server: The settings of the hub that the rules are from; `nil`: there are none. A conversion stores them in its own
    ///   transaction (``keepServerConfiguration(_:at:)``). A start with the former ones would convert waiting changes back, and lose what
    ///   their older version cannot say.
    /// - Throws: The rules in use stay as they were. The conversion is tried again before the next command of the engine.
    package func use(_ rules: RuleBook, keeping server: String? = nil, at now: Moment) throws(StoreError) {
        let before = self.rules
        if try needsConversion(to: rules) {
            do throws(StoreError) {
                try transact(at: now) { () throws(StoreError) in
                    try prepareForChange()
                    self.rules = rules
                    try convert(to: rules)
                    if let server { try MetaTable(database).set("server_config", server) }
                }
            } catch {
                (self.rules, rulesToUse) = (before, RulesToUse(rules: rules, server: server))
                throw error
            }
        }
        (self.rules, rulesToUse) = (rules, nil)
    }

    /// Tries again what failed in ``use(_:keeping:at:)``: the engine sends and reads in the new versions already.
    func useWaitingRules(at now: Moment) throws(StoreError) {
        if let waiting = rulesToUse { try use(waiting.rules, keeping: waiting.server, at: now) }
    }

    /// Tries the conversion again before a change, in a store that was opened with the new rules: it would take the change in a version
    /// that its documents do not have.
    ///
    /// A store that has kept its former rules takes changes in their version, and must not refuse them because the conversion fails.
    func convertBeforeChange(at now: Moment) throws(StoreError) {
        guard rulesToUse != nil, try needsConversion(to: rules) else { return }
        try useWaitingRules(at: now)
    }

    /// The versions of the documents of this database.
    package func documentSchemas() throws(StoreError) -> SchemaNumbers {
        SchemaNumbers(try documentVersions().mapValues(\.schema.number))
    }

    private func needsConversion(to rules: RuleBook) throws(StoreError) -> Bool {
        let stored = try documentVersions()
        return rules.entities.contains { entity, rules in
            guard let versions = rules.versions else { return false }
            return !(stored[entity]?.schema ?? StoredSchema()).isOf(versions)
        }
    }

    private func documentVersions() throws(StoreError) -> [EntityName: DocumentVersion] {
        var found: [EntityName: DocumentVersion] = [:]
        try database.each("SELECT e.name, v.version, v.versions, v.is_lowered FROM entity_version v JOIN entity e ON e.eid = v.eid") {
            row in
            let schema = StoredSchema(Int(row.int(1)), settings: row.optionalText(2))
            found[EntityName(trusted: row.text(0))] = DocumentVersion(schema: schema, isLowered: row.bool(3))
        }
        return found
    }

    /// - Precondition: In a transaction that is prepared for changes.
    private func convert(to rules: RuleBook) throws(StoreError) {
        let stored = try documentVersions()
        // Rules that say nothing of versions leave the documents as they are: the hub's settings may be missing for a while.
        for (entity, versions) in rules.entities.compactMapValues(\.versions).sorted(by: { $0.key < $1.key }) {
            let from = stored[entity] ?? DocumentVersion()
            guard !from.schema.isOf(versions), names.hasRoomForEntity || names.entities[entity] != nil else { continue }
            let eid = try names.entity(entity, in: database)
            var isLowered = from.isLowered
            if from.schema.number != versions.present {
                let steps = versions.steps(from: from.schema)
                // On the way back, what an older version does not have is lost here, and the hub has it.
                let mustFetch = from.isLowered || from.schema.number > versions.present || steps == nil
                let conversion = DocumentConversion(eid: eid, entity: entity, steps: steps ?? [], isRefetched: mustFetch)
                try conversion.run(in: self)
                if mustFetch, isPulled(entity) { try restartStream(eid) }
                isLowered = false
            }
            try database.run(
                """
                INSERT INTO entity_version (eid, version, versions, is_lowered) VALUES (?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET version = excluded.version, versions = excluded.versions, is_lowered = excluded.is_lowered
                """, .int(eid), .int(Int64(versions.present)), .text(versions.json.json), .bool(isLowered))
        }
    }

    /// Marks that documents were taken while the hub had a newer version of their schema.
    ///
    /// - Precondition: In a transaction that is prepared for changes.
    func markLowered(_ entity: EntityName, by newer: SchemaNumbers?) throws(StoreError) {
        guard let newer, newer[entity] > rules[entity]?.version ?? 1, !options.ablations.contains(.loweredForgotten) else { return }
        try database.run(
            """
            INSERT INTO entity_version (eid, version, is_lowered) VALUES (?, 1, 1)
            ON CONFLICT DO UPDATE SET is_lowered = 1
            """, .int(try names.entity(entity, in: database)))
    }

    /// Marks the same of a document that comes with a verdict.
    func markLowered(by result: PushResult) throws(StoreError) {
        guard result.showsRecord, let newer = result.notes.newerSchemas, let seq = try seq(of: result.key),
            let row = try outboxRow(seq)
        else { return }
        try markLowered(names.entity(row.eid), by: newer)
    }
}

extension StoreReads {
    /// The version of an entity's documents, as this read sees them.
    package func documentSchema(of entity: EntityName) throws(StoreError) -> StoredSchema {
        try database.first(
            """
            SELECT v.version, v.versions FROM entity_version v JOIN entity e ON e.eid = v.eid
            WHERE e.name = ?
            """, .text(entity.text)
        ) { row throws(StoreError) in StoredSchema(Int(row.int(0)), settings: row.optionalText(1)) } ?? StoredSchema()
    }
}
