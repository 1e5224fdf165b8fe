package import SyncCore
import SyncSQLite

extension Store {
    /// Writes a record and its index keys. Invariant: a complete index has exactly one key for each record that is shown, and that key
    /// matches its present state.
    func save(_ row: inout MirrorRow) throws(StoreError) {
        let before = row.indexed
        try row.save(to: database)
        guard !indexes.isEmpty, let kept = indexes.kept[names.entity(row.eid)] else { return }
        let after = row.indexed
        // Most often only the status changes, which is in no index.
        if sameBytes(before?.document, after?.document), !kept.contains(where: { $0.index.columns.contains(.updatedAt) }) { return }
        let (old, new) = (StoredJSON.Document(before?.document), StoredJSON.Document(after?.document))
        for entry in kept {
            let oldKey = before.map { IndexKey(entry.index, $0, old) }, newKey = after.map { IndexKey(entry.index, $0, new) }
            if oldKey == newKey { continue }
            if let oldKey {
                try database.run("DELETE FROM index_entry WHERE xid = ? AND key = ?", .int(entry.xid), .blob(oldKey.bytes))
            }
            if let newKey { try put(newKey, of: row.rid, into: entry) }
        }
    }

    private func put(_ key: IndexKey, of rid: Int64, into entry: RecordIndexes.Entry) throws(StoreError) {
        try database.run(
            "INSERT INTO index_entry (xid, key, rid) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET rid = excluded.rid",
            .int(entry.xid), .blob(key.bytes), .int(rid))
    }

    /// Does one slice of the work that brings the indexes to what the rules declare. It starts new ones, continues those that are being
    /// built, and removes those that are no longer declared.
    ///
    /// - Returns: `true` when there is more to do.
    package func tendIndexes(at now: Moment) throws(StoreError) -> Bool {
        let wanted = rules.entities.flatMap { name, rules in rules.indexes.map { (name, $0) } }
        // Without indexes nothing is written, not even an empty transaction.
        if wanted.isEmpty, indexes.entries.isEmpty { return false }
        let isAsWanted = indexes.entries.allSatisfy { $0.state == .complete && isWanted($0) } && indexes.entries.count == wanted.count
        if isAsWanted { return false }
        return try transact(at: now) { () throws(StoreError) in
            try declareIndexes()
            if try removeKeys() { return true }
            return try build()
        }
    }

    private func isWanted(_ entry: RecordIndexes.Entry) -> Bool { rules[entry.entity]?.indexes.contains(entry.index) == true }

    private func declareIndexes() throws(StoreError) {
        for entry in indexes.entries where entry.state != .leaving && !isWanted(entry) {
            try database.run("UPDATE record_index SET state = 2 WHERE xid = ?", .int(entry.xid))
            indexes.change(entry.xid) { $0.state = .leaving }
        }
        for (entity, rules) in rules.entities.sorted(by: { $0.key < $1.key }) {
            for index in rules.indexes where indexes.kept[entity]?.contains(where: { $0.index == index }) != true {
                // The number of an index with remaining keys must not be used again.
                let xid = (indexes.entries.map(\.xid).max() ?? 0) + 1
                try database.run(
                    "INSERT INTO record_index (xid, entity, columns, state) VALUES (?, ?, ?, 0)", .int(xid), .text(entity.text),
                    .text(index.description))
                indexes.add(RecordIndexes.Entry(xid: xid, entity: entity, index: index, state: .building, builtRID: 0))
            }
        }
    }

    /// - Returns: `true` when the slice was used up by this.
    private func removeKeys() throws(StoreError) -> Bool {
        guard let entry = indexes.entries.first(where: { $0.state == .leaving }) else { return false }
        let removed = try database.run(
            "DELETE FROM index_entry WHERE xid = ? AND key IN (SELECT key FROM index_entry WHERE xid = ? ORDER BY key LIMIT ?)",
            .int(entry.xid), .int(entry.xid), .int(Self.sliceRows))
        if removed < Self.sliceRows {
            try database.run("DELETE FROM record_index WHERE xid = ?", .int(entry.xid))
            indexes.remove(entry.xid)
        }
        return true
    }

    private func build() throws(StoreError) -> Bool {
        let open = indexes.entries.filter { $0.state == .building }
        guard let from = open.map(\.builtRID).min() else { return false }
        // Indexes at the same position read each record together, once.
        let batch = Dictionary(grouping: open.filter { $0.builtRID == from }, by: \.entity)
        var last = from, count = 0, bytes = 0
        var keys: [(entry: RecordIndexes.Entry, key: IndexKey, rid: Int64)] = []
        try database.each(
            "SELECT * FROM record WHERE rid > ? ORDER BY rid", .int(from), while: { count < Self.sliceRows && bytes < Self.sliceBytes }
        ) { statement throws(StoreError) in
            (last, count) = (statement.int(0), count + 1)
            guard let entries = batch[names.entity(statement.int(1))] else { return }
            let row = MirrorRow(statement)
            bytes += row.documentBytes
            guard let record = row.indexed else { return }
            let document = StoredJSON.Document(record.document)
            for entry in entries { keys.append((entry, IndexKey(entry.index, record, document), row.rid)) }
        }
        // Neighbouring keys are on one page.
        keys.sort { ($0.entry.xid, $0.key) < ($1.entry.xid, $1.key) }
        for item in keys { try put(item.key, of: item.rid, into: item.entry) }
        let isDone = count < Self.sliceRows && bytes < Self.sliceBytes
        let state: RecordIndexes.State = isDone ? .complete : .building
        for entry in batch.values.joined() {
            try database.run(
                "UPDATE record_index SET state = ?, built_rid = ? WHERE xid = ?", .int(state.rawValue), .int(last), .int(entry.xid))
            indexes.change(entry.xid) { ($0.state, $0.builtRID) = (state, last) }
        }
        return !isDone || indexes.entries.contains { $0.state != .complete }
    }

    /// Largest size of the documents that one slice reads, bytes.
    private static let sliceBytes = 1 << 20

    /// Checks the count of records of each entity and every key of every index, for ``verify()``.
    func verifyIndexes() throws(StoreError) -> [String] {
        var found: [String] = []
        for overview in try reads.entities() {
            let there =
                try database.number(
                    "SELECT count(*) FROM record r JOIN entity e ON e.eid = r.eid WHERE e.name = ? AND r.deleted = 0",
                    .text(overview.name.text)) ?? 0
            let stubs =
                try database.number(
                    "SELECT count(*) FROM record r JOIN entity e ON e.eid = r.eid WHERE e.name = ? AND r.stub >= 0 AND r.deleted = 1",
                    .text(overview.name.text)) ?? 0
            if stubs != overview.notKept { found.append("\(overview.notKept) stubs are counted of \(overview.name), \(stubs) are there") }
            if there != overview.records { found.append("\(overview.records) records are counted of \(overview.name), \(there) are there") }
        }
        for entry in indexes.entries where entry.state != .leaving {
            var keys: [IndexKey: Int64] = [:]
            try database.each("SELECT key, rid FROM index_entry WHERE xid = ?", .int(entry.xid)) { row in
                keys[IndexKey(bytes: row.blob(0))] = row.int(1)
            }
            try database.each(
                "SELECT r.* FROM record r JOIN entity e ON e.eid = r.eid WHERE e.name = ?", .text(entry.entity.text)
            ) { statement throws(StoreError) in
                let row = MirrorRow(statement)
                guard let record = row.indexed else { return }
                let rid = keys.removeValue(forKey: IndexKey(entry.index, record, StoredJSON.Document(record.document)))
                let isDue = entry.state == .complete || row.rid <= entry.builtRID
                if rid != row.rid, isDue || rid != nil { found.append("record \(row.id) has other values in the index \(entry.index)") }
            }
            if !keys.isEmpty { found.append("\(keys.count) keys of the index \(entry.index) are of no record") }
        }
        return found
    }
}
