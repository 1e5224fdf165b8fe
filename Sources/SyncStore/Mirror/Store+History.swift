package import SyncCore
import SyncSQLite

// Handles a hub whose history is not the one that our versions and cursors belong to: it was restored from a backup or made anew (PROTOCOL
// A6). Mutations that the old history had answered are offered again with their old keys; then the mirror is listed again. The engine asks
// the hub in between, so each step is a transaction of its own and may be repeated.

extension Store {
    /// Largest number of keys in one question to the hub.
    static let keysAsked = KnownMessages.keysMax

    /// Mutations that the hub has answered with "accepted", by `seq`.
    ///
    /// - Parameter after: Only mutations after this `seq`.
    /// - Returns: Their keys, and the `seq` of the last one; no keys at the end.
    package func loadSettled(after: Int64) throws(StoreError) -> (keys: [MutationKey], upTo: Int64) {
        var keys: [MutationKey] = []
        var last = after
        try database.each(
            """
            SELECT m.seq, p.key FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.seq > ? AND m.state = 6 ORDER BY m.seq LIMIT ?
            """, .int(after), .int(Self.keysAsked)
        ) { row throws(StoreError) in
            last = row.int(0)
            keys.append(MutationKey(trusted: row.text(1)))
        }
        return (keys, last)
    }

    /// Offers mutations again that the hub does not know although it had accepted them. Invariant: they are in flight again, unchanged,
    /// before everything else and in the order in which they were made. The view of apps does not change.
    ///
    /// - Returns: Number of mutations.
    @discardableResult
    package func requeue(_ keys: [MutationKey], at now: Moment) throws(StoreError) -> Int {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try forgetRequeued()
            var records = TouchedRecords()
            var groups: Set<ClosedRange<Int64>> = []
            var count = 0
            let asked = Set(keys.map(\.text))
            for seq in keys.compactMap({ UUIDv7.carried(in: $0.text) }).sorted() {
                guard var row = try outboxRow(seq), row.state == .done,
                    let payload = try payload(seq), asked.contains(payload.key)
                else { continue }
                row.isSent = true
                row.pruneAge = nil
                row.problem = nil
                // Claims count up from 1; these come before all of them, by `seq`.
                row.claim = row.unit - Self.requeuedClaims
                try move(row, to: .inFlight)
                try database.run("INSERT INTO requeued (seq) VALUES (?) ON CONFLICT DO NOTHING", .int(seq))
                ledger[.ackedSeq] = min(ledger[.ackedSeq], seq - 1)
                count += 1
                if let group = row.group { groups.insert(group) }
                guard let rid = row.rid else { continue }
                try bringBack(rid, payload, &records)
            }
            // A mutation without a verdict may be older than one that had a verdict, and must not come after it.
            if count > 0 {
                try database.run("UPDATE mutation SET claim = coalesce(first_seq, seq) - ? WHERE state = 1", .int(Self.requeuedClaims))
            }
            try finish(records)
            for rid in records.inOrder.map(\.row.rid) {
                try levelPriorities(of: rid)
                try holdBack(rid)
                try putBehindOlder(of: rid)
            }
            // The rest of a list waits until the hub has answered for the members that are in flight again.
            for group in groups { try refreshReadiness(ofGroup: group) }
            return count
        }
    }

    /// Makes the waiting mutations of the record wait again that were ready.
    private func holdBack(_ rid: Int64) throws(StoreError) {
        let waiting = try database.all(
            "SELECT * FROM mutation WHERE rid = ? AND state < 6 AND state = 0 ORDER BY seq", .int(rid)
        ) { row throws(StoreError) in OutboxRow(row) }
        for row in waiting {
            if let group = row.group {
                try refreshReadiness(ofGroup: group)
            } else if row.isReady {
                try database.run("UPDATE mutation SET ready = 0 WHERE seq = ?", .int(row.seq))
            }
        }
    }

    /// Restores the order on a record. The hub may have answered for a mutation and left an older one on the record unanswered, which still
    /// waits. Now that the hub knows neither of them, they go in their order.
    private func putBehindOlder(of rid: Int64) throws(StoreError) {
        let older = try database.number(
            "SELECT min(seq) FROM mutation WHERE rid = ? AND state < 6 AND state NOT IN (1, 3)", .int(rid))
        guard let older else { return }
        try returnLater(of: rid, after: older)
        try refreshReadiness(ofRecord: rid)
    }

    private static let requeuedClaims: Int64 = 1 << 53

    /// Restores the record of a mutation that is open again. Its tombstone may be forgotten by now.
    private func bringBack(_ rid: Int64, _ payload: Payload, _ records: inout TouchedRecords) throws(StoreError) {
        if try MirrorRow.find(database, rid: rid) == nil {
            var row = MirrorRow(rid: rid, eid: payload.eid, id: payload.recordID.text, at: now.wall, edit: payload.seq)
            row.dropBase()
            try save(&row)
        }
        try touch(rid, &records)
        // Its base belongs to the old history and contains this mutation already.
        records[rid]?.row.forgetHistory()
        records[rid]?.needsFold = true
        if records[rid]?.row.status == .synced { records[rid]?.row.status = .pending }
        try forgetBases(of: rid)
    }

    /// Drops the base version of open mutations. Those that were sent go unchanged except for that: the new history may have reached the
    /// same number with other changes, and the hub would take those for seen. The others get the version of the new history with its
    /// record. If it has no such record, they go without a version as well.
    private func forgetBases(of rid: Int64) throws(StoreError) {
        try eachOpenMutation(of: rid) { open throws(StoreError) in
            guard var payload = open.payload, payload.baseVersion > 0 else { return true }
            payload.baseVersion = 0
            try rewrite(payload)
            return true
        }
    }

    /// Marks every known version as one of an older history (-1), in slices. After the last one, every mirrored entity is listed again.
    ///
    /// - Returns: `true` when there is more.
    package func forgetHistory(at now: Moment) throws(StoreError) -> Bool {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            // A base of the history that ends now may or may not contain them.
            try forgetRequeued()
            let known = try database.all(
                "SELECT rid FROM record WHERE rid > ? AND base_version > 0 ORDER BY rid LIMIT ?", .int(sweep.history),
                .int(Self.sliceRows)
            ) { row throws(StoreError) in row.int(0) }
            for rid in known {
                guard var row = try MirrorRow.find(database, rid: rid) else { continue }
                // A damaged row keeps its wrong checksum, so that it is found and fetched again.
                if row.isDamaged { continue }
                row.forgetHistory()
                try save(&row)
                if row.status != .synced { try forgetBases(of: rid) }
            }
            if known.count == Self.sliceRows, let last = known.last {
                sweep.history = last
                return true
            }
            sweep.history = 0
            for stream in try loadStreams(at: now) {
                let eid = try names.entity(stream.entity, in: database)
                try restartStream(eid)
                // The deletions of another history have no meaning for this one.
                try database.run("UPDATE stream SET deleted = NULL WHERE eid = ?", .int(eid))
            }
            return false
        }
    }

    /// Returns whether the old base of its record contains the mutation already.
    func isRequeued(_ seq: Int64) throws(StoreError) -> Bool {
        guard let found = try database.number("SELECT 1 FROM requeued WHERE seq = ?", .int(seq)) else { return false }
        return found == 1
    }

    /// The base of an older history without the changes that are offered again, which is what these are based on.
    ///
    /// - Parameter seq: Mutations older than this stay in the base.
    func withoutRequeued(
        _ record: MirrorRow, _ base: JSONObject, from seq: Int64, _ rules: EntityRules
    ) throws(StoreError) -> JSONObject {
        guard record.baseVersion < 0 else { return base }
        var document = base
        for open in try openMutations(of: record.rid, after: seq - 1).reversed() where try isRequeued(open.row.seq) {
            if let content = open.payload?.content(under: rules) { document = Fold.undo(content, in: document) }
        }
        return document
    }

    /// Removes the mark from settled mutations whose record belongs to the present history by now.
    func forgetRequeued() throws(StoreError) {
        try database.run(
            """
            DELETE FROM requeued WHERE NOT EXISTS (
                SELECT 1 FROM mutation m LEFT JOIN record r ON r.rid = m.rid
                WHERE m.seq = requeued.seq AND m.state < 6 AND coalesce(r.base_version, 0) < 0)
            """)
    }
}
