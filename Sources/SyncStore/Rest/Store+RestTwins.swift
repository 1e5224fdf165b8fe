import SyncCore
import SyncSQLite

// An existing backend can list a record before this device learns that it was its own creation: the answer to the creation was lost, and
// the list does not show our id. The record then comes under the backend's id, and is one with ours only when the repeated creation is
// answered (PROTOCOL A13).
extension Store {
    /// The other existing record that has the id in the backend's answer; `nil` if there is none.
    func otherRecord(named serverID: JSON?, than row: OutboxRow) throws(StoreError) -> MirrorRow? {
        guard row.rid != nil, let text = serverID?.idText else { return nil }
        let id = try recordID(of: row).text
        guard let other = try localID(of: text, row.eid), other != id,
            let known = try MirrorRow.find(database, eid: row.eid, id: other), known.isDamaged || !known.isDeleted || known.isAtHub
        else { return nil }
        return known
    }

    /// Returns whether the record is the outcome of this creation, which a list has brought: it became known after the creation was made
    /// here, the creation was sent more than once, and nothing waits for the record. Otherwise the backend gave one id to two records.
    func isTwin(_ other: MirrorRow, _ serverID: JSON?, ofCreation row: OutboxRow) throws(StoreError) -> Bool {
        guard let rid = row.rid, other.rid > rid, other.status == .synced, !other.isDamaged, let serverID else { return false }
        let mark = RestMark(serverID: serverID)
        guard [mark.plainID.text, mark.otherID.text].contains(other.id), try action(of: row.seq) == .create else { return false }
        return try database.number("SELECT last_age > first_age FROM attempt WHERE seq = ?", .int(row.seq)) == 1
    }

    /// Ends the record that a list has brought for this creation. What referred to it refers to ours.
    ///
    /// - Returns: The backend's document. It is not older than the answer, which may show the record as it was created.
    func join(_ twin: MirrorRow, to row: OutboxRow, _ records: inout TouchedRecords) throws(StoreError) -> JSONObject? {
        try touch(twin.rid, &records)
        try applyRemote(RemoteSide(deletedIn: nextVersion(after: twin.baseVersion)), of: twin.rid, &records)
        let parent = names.entity(row.eid)
        let ours = try recordID(of: row)
        for (entity, rules) in rules.entities {
            guard let eid = names.entities[entity] else { continue }
            for (field, target) in rules.refs where target == parent {
                try rename(field, from: twin.id, to: ours, in: eid, &records)
            }
        }
        return twin.parsedBase.known
    }

    /// Writes our id where the backend's documents name the twin. An app's change of the field stays on top.
    private func rename(
        _ field: String, from twin: String, to ours: RecordID, in eid: Int64, _ records: inout TouchedRecords
    ) throws(StoreError) {
        // Documents are stored without spaces. The text may also be the beginning of a longer id.
        let spellings = [JSON.string(JSONString(twin)).json, twin].map { JSON.string(JSONString(field)).json + ":" + $0 }
        let stored = try database.all(
            "SELECT rid FROM record WHERE eid = ? AND (instr(base, ?) > 0 OR instr(base, ?) > 0)", .int(eid), .text(spellings[0]),
            .text(spellings[1])
        ) { row throws(StoreError) in row.int(0) }
        // Documents of the same answers are not stored yet.
        let changed = records.inOrder.filter { $0.row.eid == eid }.map(\.row.rid)
        for rid in stored + changed {
            var touched = records[rid]
            if touched == nil { touched = try MirrorRow.find(database, rid: rid).map { TouchedRecords.Touched(row: $0) } }
            // A damaged document comes again, with our id in it.
            guard var touched, !touched.row.isDamaged, var document = touched.row.parsedBase.known, document[field]?.idText == twin
            else { continue }
            document[field] = .string(JSONString(ours.text))
            touched.row.rewriteBase(document.json)
            touched.needsFold = true
            touched.source = .remote
            records[rid] = touched
        }
    }
}
