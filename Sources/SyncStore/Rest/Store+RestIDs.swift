import SyncCore
import SyncSQLite

// Ids and versions of an existing backend (PROTOCOL A13), in the table `idmap`. Locally and for apps, a record keeps the id that it was
// made with. Its id and the references to it are rewritten in requests and answers.
extension Store {
    /// The backend's id of a record, and its version of it.
    func backendName(of id: String, _ eid: Int64) throws(StoreError) -> (id: JSON, etag: String?)? {
        try database.first(
            "SELECT server_id, is_number, etag FROM idmap WHERE eid = ? AND local_id = ?", .int(eid), .text(id)
        ) { row throws(StoreError) in (Self.id(row.text(0), isNumber: row.bool(1)), row.optionalText(2)) }
    }

    func localID(of serverID: String, _ eid: Int64) throws(StoreError) -> String? {
        try database.first("SELECT local_id FROM idmap WHERE eid = ? AND server_id = ?", .int(eid), .text(serverID)) {
            row throws(StoreError) in row.text(0)
        }
    }

    private static func id(_ text: String, isNumber: Bool) -> JSON {
        isNumber ? Int64(text).map { .int($0) } ?? .string(text) : .string(text)
    }

    /// The record that an answer of the backend is about: the one with that backend id, the one that was made here under the id in the
    /// answer, or a new one.
    func recordID(of mark: RestMark, _ entity: EntityName, _ eid: Int64) throws(StoreError) -> RecordID {
        if let known = try localID(of: mark.serverID.idText ?? "", eid) { return RecordID(trusted: known) }
        if let ours = mark.ours, try backendName(of: ours.text, eid) == nil, try MirrorRow.find(database, eid: eid, id: ours.text) != nil {
            return ours
        }
        let plain = mark.plainID
        if rest?.entities[entity]?.isClientNamed == true { return plain }
        if try backendName(of: plain.text, eid) != nil { return mark.otherID }
        // An app has made another record under that id, and the backend has not named it yet.
        if let row = try MirrorRow.find(database, eid: eid, id: plain.text), row.base == nil, row.baseVersion == 0, row.status != .synced {
            return mark.otherID
        }
        return plain
    }

    /// Stores the backend's id of a record. A version that the backend does not state becomes unknown.
    func name(_ id: String, _ eid: Int64, _ serverID: JSON, etag: String?) throws(StoreError) {
        guard let text = serverID.idText else { return }
        // The backend has given the id to another record: the older record does not exist there any more.
        try database.run(
            "DELETE FROM idmap WHERE eid = ? AND server_id = ? AND local_id <> ?", .int(eid), .text(text), .text(id))
        var isNumber = false
        if case .number = serverID { isNumber = true }
        try database.run(
            """
            INSERT INTO idmap (eid, local_id, server_id, is_number, etag) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT DO UPDATE SET server_id = excluded.server_id, is_number = excluded.is_number, etag = excluded.etag
            """, .int(eid), .text(id), .text(text), .bool(isNumber), .optional(etag))
    }

    // MARK: - References

    /// The document with the backend's ids in the place of ours.
    func toBackend(_ document: JSONObject, _ rules: EntityRules) throws(StoreError) -> JSONObject {
        var result = document
        for (field, parent) in rules.refs {
            guard let id = document[field]?.idText, let eid = names.entities[parent], let name = try backendName(of: id, eid) else {
                continue
            }
            result[field] = name.id
        }
        return result
    }

    func toBackend(_ content: MutationContent, _ rules: EntityRules) throws(StoreError) -> MutationContent {
        guard !rules.refs.isEmpty else { return content }
        var result = content
        result.data = try toBackend(content.data, rules)
        result.base = try toBackend(content.base, rules)
        return result
    }

    /// The document with our ids in the place of the backend's, where they differ.
    func fromBackend(_ document: JSONObject, _ rules: EntityRules) throws(StoreError) -> JSONObject {
        var result = document
        for (field, parent) in rules.refs {
            guard let id = document[field]?.idText, let eid = names.entities[parent], let local = try localID(of: id, eid),
                local != id
            else { continue }
            result[field] = .string(local)
        }
        return result
    }

    // MARK: - Versions

    /// The next local version of a document. The backend's versions can only be compared for equality, so a changed document gets the next
    /// number of ours.
    func nextVersion(after version: Int64) -> Int64 {
        let next = max(ledger[.restVersion], version, 0) + 1
        ledger[.restVersion] = next
        return next
    }

    /// Starts a complete listing where a backend cannot list by time of change: records that the list does not show are removed.
    func beginWholeList(of entity: EntityName) throws(StoreError) {
        guard let list = rest?.entities[entity]?.list, list.cursorFrom == nil else { return }
        try database.run(
            """
            UPDATE stream SET gen = gen + 1, listing = 1, listing_head = NULL, snapshot = 0 WHERE eid = ? AND listing = 0
            """, .int(try names.entity(entity, in: database)))
    }

    /// Converts a page of the backend's list to a page of a hub's feed.
    func localised(_ page: StreamPage) throws(StoreError) -> StreamPage {
        guard rest != nil else { return page }
        let rules = rules[page.entity] ?? EntityRules()
        let eid = try names.entity(page.entity, in: database)
        var result = page
        for index in page.records.indices {
            guard let mark = page.records[index].mark else { continue }
            let id = try recordID(of: mark, page.entity, eid)
            let document = try fromBackend(page.records[index].record.data, rules)
            let row = try MirrorRow.find(database, eid: eid, id: id.text)
            let known = row.flatMap { $0.isDamaged ? nil : $0.base }.flatMap { StoredJSON.read($0)?.object }
            let isSame = known == document && (row?.baseVersion ?? 0) > 0
            var etag = mark.etag
            // The list does not state the version, and the record is unchanged.
            if etag == nil, isSame { etag = try backendName(of: id.text, eid)?.etag }
            try name(id.text, eid, mark.serverID, etag: etag)
            let version = row?.baseVersion ?? 0
            result.records[index].id = id
            result.records[index].record.data = document
            result.records[index].record.version = isSame ? version : nextVersion(after: version)
        }
        for (index, mark) in page.marks.enumerated() where page.deletions.indices.contains(index) {
            let id = try recordID(of: mark, page.entity, eid)
            let version = try MirrorRow.find(database, eid: eid, id: id.text)?.baseVersion ?? 0
            result.deletions[index].id = id
            result.deletions[index].version = nextVersion(after: version)
        }
        return result
    }
}
