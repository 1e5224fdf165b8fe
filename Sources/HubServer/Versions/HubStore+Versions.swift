import SyncCore

extension HubStore {
    func storedSchemas() throws(DatabaseError) -> [EntityName: StoredSchema] {
        var found: [EntityName: StoredSchema] = [:]
        try database.read("SELECT entity, version, versions FROM entity_version", []) { row in
            found[EntityName(trusted: row.text(0))] = StoredSchema(Int(row.int(1)), settings: row.text(2))
            return true
        }
        return found
    }

    func keep(_ versions: SchemaVersions?, of entity: EntityName) throws(DatabaseError) {
        guard let versions, versions.present > 1 else {
            return try database.run("DELETE FROM entity_version WHERE entity = ?", .text(entity.text))
        }
        try database.require(.versions)
        try database.run(
            """
            INSERT INTO entity_version(entity, version, versions) VALUES(?1, ?2, ?3)
            ON CONFLICT(entity) DO UPDATE SET version = excluded.version, versions = excluded.versions
            """, .text(entity.text), .int(Int64(versions.present)), .text(versions.json.json))
    }

    /// Returns whether the entity has a document.
    func hasDocuments(_ entity: EntityName) throws(DatabaseError) -> Bool {
        try database.first(
            "SELECT 1 FROM record WHERE entity = ? AND (data IS NOT NULL OR kept IS NOT NULL) LIMIT 1", .text(entity.text)
        ) { _ in true } ?? false
    }

    /// Converts all documents of an entity, with those that its tombstones keep. The versions of the records stay, so no device receives
    /// them again: each converts its own copies. A damaged row stays as it is.
    ///
    /// A deleted record without a document loses its last scopes in the fields that the steps change, because they have the former values.
    func convert(_ entity: EntityName, by steps: SchemaSteps) throws(DatabaseError) {
        if steps.isEmpty { return }
        let changed = Set(steps.steps.flatMap(\.fields))
        var after = ""
        while true {
            let page = try database.all(
                "SELECT \(HubStore.recordColumns) FROM record WHERE entity = ? AND id > ? ORDER BY id LIMIT ?", .text(entity.text),
                .text(after), .int(Int64(HubStore.convertedPage))
            ) { (row: recordRow($0, of: entity, hasKept: true), scopes: $0.optionalText(11)) }
            for (row, scopes) in page {
                guard let record = row.whole, record.data != nil || record.kept != nil else {
                    // A damaged text names no scope.
                    if let scopes = scopes.flatMap({ try? ScopesColumn(reading: $0) }) {
                        try database.run(
                            "UPDATE record SET scopes = ? WHERE entity = ? AND id = ?", DatabaseValue(scopes.without(changed).text),
                            .text(entity.text), .text(row.id.text))
                    }
                    continue
                }
                let converted = steps.convert(record)
                let (data, kept) = (converted.data?.json, converted.kept?.data.json)
                try database.run(
                    "UPDATE record SET data = ?, exceptions = ?, additions = ?, kept = ? WHERE entity = ? AND id = ?",
                    DatabaseValue(data),
                    DatabaseValue(StampColumn.text(converted.kept?.stamps ?? converted.exceptions)),
                    DatabaseValue(StampColumn.text(converted.kept?.additions ?? converted.additions)),
                    DatabaseValue(kept), .text(entity.text), .text(row.id.text))
                var layer = WriteGroup.Layer()
                let mayName = [data, kept].contains { $0.map { Placeholder.mayBe(in: $0) } ?? false }
                addLinkChanges(of: RecordName(entity, row.id), from: row, to: converted, mayName: mayName, in: &layer)
                try write(links: layer.writes.links)
            }
            guard page.count == HubStore.convertedPage, let last = page.last else { break }
            after = last.row.id.text
        }
    }

    private static let convertedPage = 500
}
