package import SyncCore
import SyncSQLite

// Actions of people and apps on single mutations. Retries are in `Store+Retry.swift`.

extension Store {
    /// Cancels a mutation that was never sent, with its whole atomic list, and with the mutations of a record that it was to create.
    /// Invariant: a mutation that the hub may have is never cancelled.
    ///
    /// - Returns: All cancelled mutations, oldest first, with the edits that were merged into any of them.
    /// - Throws: `.refused` with `not-found` or `already-sent`.
    package func cancel(_ key: MutationKey, at now: Moment) throws(StoreError) -> [MutationKey] {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let row = try known(key)
            if row.state == .cancelled { return [key] }
            guard row.state == .pending else { throw StoreProblem.alreadySent(key, row.state) }
            if let sent = try sentMember(with: row) {
                throw StoreProblem.sentBefore(sent.seq == row.seq ? key.text : try self.key(ofSeq: sent.seq) ?? "", of: key, sent.state)
            }
            let withdrawn = try withdraw(row)
            // A decision of a conflict may be among them.
            try closeAnswered()
            return try keys(ofCancelled: withdrawn)
        }
    }

    /// The mutation that the hub may have, if it has this one or a part of its atomic list: a decision that joined a list is new, and the
    /// rest of the list may have left before.
    func sentMember(with row: OutboxRow) throws(StoreError) -> OutboxRow? {
        if row.isSent { return row }
        return try (row.group.map(groupMembers) ?? []).first { $0.isSent && !$0.state.isTerminal }
    }

    /// The keys of these mutations and, recursively, of the receipts that were merged into them.
    private func keys(ofCancelled seqs: [Int64]) throws(StoreError) -> [MutationKey] {
        var found = Set(seqs)
        var work = ledger.count(.coalesced) > 0 ? seqs : []
        while let next = work.popLast() {
            try database.each("SELECT seq FROM mutation WHERE into_seq = ? AND state = 9", .int(next)) { row throws(StoreError) in
                if found.insert(row.int(0)).inserted { work.append(row.int(0)) }
            }
        }
        var keys: [MutationKey] = []
        for seq in found.sorted() {
            if let key = try key(ofSeq: seq) { keys.append(MutationKey(trusted: key)) }
        }
        return keys
    }

    /// Gives up a rejected, failed, held or conflicted mutation. Invariant: it leaves the view, and the mutations behind it can go.
    ///
    /// - Throws: `.refused` with `not-found` or `already-sent`.
    package func discard(_ key: MutationKey, reason: String, uid: UInt32, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let row = try known(key)
            switch row.state {
            case .rejected, .failed, .held, .conflicted: try finalize(row, as: .discarded, keptFor: try keptFor(row))
            case .pending, .inFlight, .done, .resolved, .discarded, .coalesced, .cancelled, .superseded, .expired:
                throw StoreProblem.alreadySent(key, row.state)
            }
            try closeConflict(ofSeq: row.seq, "discarded", uid: uid)
            if let rid = row.rid { try restatus(rid, foldAgain: true) }
            if let group = row.group { try refreshReadiness(ofGroup: group) }
            try closeAnswered()
            try audit("discard", key.text, uid: uid, ["reason": .string(reason)])
        }
    }

    /// Adds an event of another part of the agent to the journal.
    package func addNote(type: String, json: String, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            journal.addNote(type: type, json: json)
        }
    }

    /// Records a decision and its author in the audit trail.
    package func audit(
        _ verb: String, _ target: String, uid: UInt32, _ json: JSONObject, at now: Moment
    ) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in try audit(verb, target, uid: uid, json) }
    }

    func audit(_ verb: String, _ target: String, uid: UInt32, _ json: JSONObject) throws(StoreError) {
        try database.run(
            "INSERT INTO audit (age, at_ms, uid, verb, target, json) VALUES (?, ?, ?, ?, ?, ?)", .int(age),
            .int(now.wall.milliseconds), .int(Int64(uid)), .text(verb), .text(target), .text(json.json))
    }

    func known(_ key: MutationKey) throws(StoreError) -> OutboxRow {
        guard let seq = try seq(of: key), let row = try outboxRow(seq) else {
            throw StoreProblem.notFound("mutation \(key)", list: "agentctl mutations list")
        }
        return row
    }

    /// The key of a mutation whose payload still exists, also if the payload is damaged.
    func key(ofSeq seq: Int64) throws(StoreError) -> String? {
        try database.first("SELECT key FROM payload WHERE seq = ?", .int(seq)) { row throws(StoreError) in row.text(0) }
    }

    // MARK: - Cancelling

    /// Cancels a mutation with those that depend on it, and with members of its atomic list that are in dispute: they would go without the
    /// list. Each record is folded once.
    ///
    /// - Precondition: It was never sent.
    /// - Returns: The cancelled mutations.
    private func withdraw(_ row: OutboxRow) throws(StoreError) -> [Int64] {
        var records = TouchedRecords()
        var withdrawn: [Int64] = []
        var work = [row]
        while let next = work.popLast() {
            for member in try next.group.map(groupMembers) ?? [next] {
                // Read again, because another mutation may have ended it already.
                guard let member = try outboxRow(member.seq), [.pending, .conflicted].contains(member.state) else { continue }
                if member.state == .conflicted { try closeConflict(ofSeq: member.seq, MutationState.cancelled.name) }
                try finalize(member, as: .cancelled, keptFor: try keptFor(member))
                withdrawn.append(member.seq)
                guard let rid = member.rid else { continue }
                try touch(rid, &records)
                records[rid]?.needsFold = true
                work += try followers(of: member, in: records)
            }
        }
        try finish(records)
        return withdrawn
    }

    /// The waiting and disputed mutations of a record that will not be created now, up to its next create.
    ///
    /// - Parameter isGone: The hub has deleted the record, although the mirror may still have it.
    func followers(of row: OutboxRow, in records: TouchedRecords, isGone: Bool = false) throws(StoreError) -> [OutboxRow] {
        guard let rid = row.rid, try action(of: row.seq) == .create else { return [] }
        // A record that the hub has exists without the create, unless this device is about to delete it first.
        if !isGone, records[rid]?.row.isAtHub == true, try !isDeleted(rid, before: row.seq) { return [] }
        var followers: [OutboxRow] = []
        let waiting = try database.all(
            "SELECT * FROM mutation WHERE rid = ? AND seq > ? AND state < 6 AND state IN (0, 2) ORDER BY seq", .int(rid),
            .int(row.seq)
        ) { row throws(StoreError) in OutboxRow(row) }
        // A decision that has joined an older list goes before the create.
        for follower in waiting where follower.unit >= row.unit {
            if try action(of: follower.seq) == .create {
                if follower.state == .pending { break }
                // A creation in dispute is for people to decide.
                continue
            }
            followers.append(follower)
        }
        return followers
    }

    /// Returns whether an open deletion is the last create or delete of the record before this mutation.
    func isDeleted(_ rid: Int64, before seq: Int64) throws(StoreError) -> Bool {
        try database.number(
            """
            SELECT p.action FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.seq < ? AND m.state < 6 AND m.state <> 3 AND p.action <> ? ORDER BY m.seq DESC LIMIT 1
            """, .int(rid), .int(seq), .int(Int64(MutationAction.update.number))
        ).map { MutationAction(number: $0) } == .delete
    }

    func action(of seq: Int64) throws(StoreError) -> MutationAction? {
        try database.number("SELECT action FROM payload WHERE seq = ?", .int(seq)).map { MutationAction(number: $0) }
    }

    /// Retention of the row of a mutation that ends in a state other than `done`.
    ///
    /// The answer comes from the row as long as the app may repeat the request; only `done` needs no row.
    func keptFor(_ row: OutboxRow) throws(StoreError) -> Duration {
        let kept = rules[names.entity(row.eid)]?.retention ?? Self.retention
        let hasKey = try database.number("SELECT app_key IS NOT NULL FROM payload WHERE seq = ?", .int(row.seq)) == 1
        return hasKey ? max(kept, Self.appKeysKeptFor) : kept
    }

    /// The record's id, from the mirror where there is one: that does not depend on a row that may be damaged.
    func recordID(of row: OutboxRow) throws(StoreError) -> RecordID {
        if let rid = row.rid,
            let id = try database.first(
                "SELECT id FROM record WHERE rid = ?", .int(rid), read: { row throws(StoreError) in row.text(0) })
        {
            return RecordID(trusted: id)
        }
        let id = try database.first("SELECT coalesce(id, key) FROM payload WHERE seq = ?", .int(row.seq)) {
            row throws(StoreError) in row.text(0)
        }
        return RecordID(trusted: id ?? "?")
    }
}
