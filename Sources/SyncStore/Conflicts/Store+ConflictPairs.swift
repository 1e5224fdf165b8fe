import SyncCore
import SyncSQLite

// Pairs disputed mutations with open conflicts: each has one, and no other mutation has any. Two causes may have broken this: versions
// before 5 stored only the mutation, and a rescued database has only the readable rows of both.

extension Store {
    /// Invariant: afterwards, every mutation that waits for a person is listed.
    func pairConflicts() throws(StoreError) {
        let stray = try database.all(
            """
            SELECT c.* FROM conflict c LEFT JOIN mutation m ON m.seq = c.seq
            WHERE c.state < 2 AND (m.seq IS NULL OR m.state <> 2 OR m.rid IS NOT c.rid)
            """
        ) { row throws(StoreError) in ConflictRow(row) }
        for found in stray {
            var conflict = found
            conflict.state = .moot
            conflict.closedAge = age
            conflict.addEvent("moot", at: now.wall)
            try conflict.update(in: database)
        }
        guard ledger.count(.conflicted) > 0 else { return }
        let bare = try database.all(
            """
            SELECT * FROM mutation m WHERE m.state = 2 AND m.rid IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM conflict c WHERE c.seq = m.seq AND c.state < 2) ORDER BY m.seq
            """
        ) { row throws(StoreError) in OutboxRow(row) }
        for row in bare { try listConflict(of: row) }
    }

    /// The hub's side is its newest document here. The base of both sides is lost.
    private func listConflict(of row: OutboxRow) throws(StoreError) {
        guard let rid = row.rid, let record = try MirrorRow.find(database, rid: rid), let payload = try payload(row.seq),
            let content = payload.content(under: rules[names.entity(row.eid)])
        else { return }
        let version = record.shownVersion
        let data = record.base.flatMap { StoredJSON.read($0)?.object }
        let remote = data.map { RemoteSide(HubRecord(version: version, data: $0)) } ?? RemoteSide(deletedIn: version)
        let said = (Problem.read(stored: row.problem)?.members["fields"]?.array ?? []).compactMap(\.text)
        let kind: ConflictKind = data == nil ? .updateDelete : content.action == .delete ? .deleteUpdate : .field
        var fields = said.filter { $0 != HubMerge.wholeRecord }
        if fields.isEmpty { fields = kind == .deleteUpdate ? data?.names ?? [] : content.fields }
        let sides = sides(kind, fields, payload, content, known: data, remote, isKnown: false)
        try openConflict(row, kind, sides, remoteVersion: version, seen: payload.baseVersion)
    }
}
