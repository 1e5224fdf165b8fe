import SyncCore
import SyncSQLite

// Records that leave the share of this device (PROTOCOL A7, C7). Nothing of the hub's is left of them here: neither the document nor values
// that were kept beside it. Apps find no such record. Work that was never sent is set aside with its content, and a person can retry it
// when the device has the record again. Work that may have reached the hub stays as it is, because only the hub knows its outcome.

extension Store {
    static let revoked = Problem(
        Problem.revoked, status: 403, detail: "the record left the share of this device before the change was sent")

    /// Forgets a record that the hub no longer shows to this device.
    ///
    /// Invariant: record, work that is set aside, and all traces of the hub's content change in the transaction that removes the record.
    func revoke(_ row: MirrorRow, _ records: inout TouchedRecords) throws(StoreError) {
        // A damaged row needs no repair now, so it is not touched like other records.
        var touched = records[row.rid] ?? TouchedRecords.Touched(row: row)
        touched.row.revoke()
        touched.needsFold = true
        touched.source = .remote
        touched.isRevoked = true
        records[row.rid] = touched
        records.revoked.append(row.rid)
        damagedRecords.remove(row.rid)
        if touched.row.status != .synced { try park(row.rid, &records) }
    }

    /// Sets the mutations of a record aside that were never sent, and those in dispute: the hub has applied neither.
    private func park(_ rid: Int64, _ records: inout TouchedRecords) throws(StoreError) {
        var lists: Set<ClosedRange<Int64>> = []
        var last: Int64 = 0
        while true {
            let slice = try database.all(
                "SELECT * FROM mutation WHERE rid = ? AND seq > ? AND state < 6 AND state IN (0, 2) ORDER BY seq LIMIT ?", .int(rid),
                .int(last), .int(Self.sliceRows)
            ) { row throws(StoreError) in OutboxRow(row) }
            for var row in slice where row.state == .conflicted || !row.isSent {
                if row.state == .conflicted { try endDispute(of: row.seq, Problem.revoked) }
                if options.ablations.contains(.revokedWorkDropped) {
                    try finalize(row, as: .superseded)
                    continue
                }
                row.problem = Self.revoked.stored
                try move(row, to: .rejected)
                if let group = row.group { lists.insert(group) }
            }
            guard slice.count == Self.sliceRows, let end = slice.last else { break }
            last = end.seq
        }
        for list in lists.sorted(by: { $0.lowerBound < $1.lowerBound }) { try rejectRest(of: list, &records) }
    }

    /// Closes the conflict of a mutation that cannot go on. The mutation rests on what its author had seen again, because no person has
    /// decided: a retry is to find the dispute once more.
    func endDispute(of seq: Int64, _ event: String) throws(StoreError) {
        guard var conflict = try openConflict(ofSeq: seq) else { return }
        conflict.state = .moot
        conflict.closedAge = age
        conflict.addEvent(event, at: now.wall)
        try conflict.update(in: database)
        addToJournal(conflict)
        guard let seen = conflict.seenVersion, var payload = try payload(seq), payload.baseVersion > seen else { return }
        payload.baseVersion = seen
        try rewrite(payload)
    }

    // MARK: - Traces

    /// Runs statements whose removed content SQLite overwrites with zeros, whatever that writes. `FAST`, the setting for all other
    /// statements, overwrites only inside of pages that are written anyway. So earlier versions of a document may be in free pages, if they
    /// were larger than a page or SQLite has moved rows between pages since. After the commit ``tidy()`` gives these pages back and cuts
    /// the log, which has the old pages as well.
    func erasing(_ body: () throws(StoreError) -> Void) throws(StoreError) {
        try database.execute("PRAGMA secure_delete = ON")
        do throws(StoreError) {
            try body()
            // If the process dies before the pages are given back, the next one does it.
            try MetaTable(database).set(MetaTable.traces, "1")
        } catch {
            // The error of the body is the one to report. If the setting stays, later statements write a little more.
            try? database.execute("PRAGMA secure_delete = FAST")
            throw error
        }
        try database.execute("PRAGMA secure_delete = FAST")
        sweep.leavesTraces = true
    }

    /// Erases the hub's values of these records outside of the mirror: those of conflicts, lost values, and values kept for an undo. Each
    /// table is read once, however many records have left. What the apps of this device wrote themselves stays in their mutations.
    func eraseTraces(of left: [Int64]) throws(StoreError) {
        let rids = Set(left)
        try eraseSides(of: rids)
        try eraseBroughtBack(by: rids)
        try eraseEarlierValues(of: rids)
        try eraseLostValues(of: rids)
    }

    private func eraseSides(of rids: Set<Int64>) throws(StoreError) {
        for cid in try rows("SELECT cid, rid FROM conflict", of: rids) {
            guard var conflict = try conflict(cid) else { continue }
            conflict.forgetRemote()
            try conflict.update(in: database)
        }
    }

    /// Takes the rest of the record out of changes that were to bring it back after a deletion. The change is left as its author made it.
    private func eraseBroughtBack(by rids: Set<Int64>) throws(StoreError) {
        for seq in try rows("SELECT seq, rid FROM mutation WHERE state = 3 AND rid IS NOT NULL", of: rids) {
            guard let payload = try payload(seq) else { continue }
            let rules = rules[names.entity(payload.eid)] ?? EntityRules()
            guard let content = payload.content(under: rules), content.action == .create, !content.base.isEmpty else { continue }
            var change = MutationContent(.update, operations: content.operations, stamps: content.stamps)
            for member in content.data.members where content.base[member.name.text] != member.value {
                change.data[member.name.text] = member.value
                if rules.mergesMembers(of: member.name.text) { change.base[member.name.text] = content.base[member.name.text] }
            }
            change.unset = content.base.names.filter { content.data[$0] == nil }
            try rewrite(payload, change, restingOn: payload.baseVersion)
        }
    }

    private func eraseEarlierValues(of rids: Set<Int64>) throws(StoreError) {
        let kept: StaticString = "SELECT u.seq, m.rid FROM undo_value u JOIN mutation m ON m.seq = u.seq WHERE u.before IS NOT NULL"
        for seq in try rows(kept, of: rids) { try database.run("UPDATE undo_value SET before = NULL WHERE seq = ?", .int(seq)) }
    }

    /// The numbers in the first column of a statement whose second column is the record, for the rows of some records.
    private func rows(_ statement: StaticString, of rids: Set<Int64>) throws(StoreError) -> [Int64] {
        var found: [Int64] = []
        try database.each(statement) { row throws(StoreError) in
            if rids.contains(row.int(1)) { found.append(row.int(0)) }
        }
        return found
    }

    private func eraseLostValues(of rids: Set<Int64>) throws(StoreError) {
        var targets: Set<String> = []
        for rid in rids {
            guard let row = try MirrorRow.find(database, rid: rid) else { continue }
            targets.insert("\(names.entity(row.eid))/\(row.id)")
        }
        var found: [(n: Int64, json: String)] = []
        try database.each("SELECT n, target, json FROM audit WHERE verb = 'lost'") { row throws(StoreError) in
            if targets.contains(row.text(1)) { found.append((row.int(0), row.text(2))) }
        }
        for (n, json) in found {
            // The entry still tells that a value was lost, and by which rule. An unreadable one tells nothing.
            var entry = StoredJSON.read(json)?.object ?? [:]
            entry["value"] = nil
            try database.run("UPDATE audit SET json = ? WHERE n = ?", .text(entry.json), .int(n))
        }
    }
}
