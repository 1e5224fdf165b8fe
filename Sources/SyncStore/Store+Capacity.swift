import SyncCore

extension Store {
    /// Finds room for one mutation more.
    ///
    /// - Returns: Waiting events of the same entity that must go for it; empty when there is room.
    /// - Throws: `.refused` with `queue-full` or `disk-full`. Nothing was written.
    func makeRoom(for intent: EnqueueIntent, eid: Int64?) throws(StoreError) -> [Int64] {
        let isCritical = intent.priority == .critical
        // The last tenth of everything is kept for critical mutations.
        func share(_ whole: Int64) -> Int64 { isCritical ? whole : whole - whole / 10 }
        let free = isCritical ? capacity.minFree : capacity.minFree + capacity.minFree / 10
        if let freeBytes, freeBytes < free { throw Refusal.diskFull(free: freeBytes, kept: free) }

        var excess = ledger.open + 1 - share(Int64(capacity.mutations))
        var reason = "\(ledger.open) mutations are open"
        if let quota = intent.requester.quotaMutations, let aid = names.apps[intent.requester.app] {
            let own = ledger.openByApp[aid] ?? 0
            if own + 1 - Int64(quota) > excess {
                excess = own + 1 - Int64(quota)
                reason = "\(own) mutations of \(intent.requester.app) are open, its limit is \(quota)"
            }
        } else if let quota = intent.requester.quotaMutations, quota < 1 {
            throw Refusal.queueFull("the limit of \(intent.requester.app) is \(quota)")
        }
        let used = try usedBytes()
        if used + intent.payload.bytes > share(capacity.bytes) {
            excess = max(excess, 1)
            reason = "the store has \(used) bytes"
        }
        guard excess > 0 else { return [] }
        guard intent.isEvent, intent.rules.whenFull == .dropOldest, let eid else { throw Refusal.queueFull(reason) }
        // A limit that was lowered is approached in steps: one event does not pay for all that are too many.
        let wanted = min(excess, Int64(Self.sliceRows))
        let victims = try oldestWaiting(of: eid, count: Int(wanted))
        guard victims.count == wanted else { throw Refusal.queueFull(reason) }
        return victims
    }

    /// Bytes of the database and its WAL in use; measured once in a transaction.
    func usedBytes() throws(StoreError) -> Int64 {
        if let known = transaction?.usedBytes { return known }
        let pages = try database.number("PRAGMA page_count") ?? 0
        let free = try database.number("PRAGMA freelist_count") ?? 0
        let used = (pages - free + Int64(database.walPages)) * 4096
        transaction?.usedBytes = used
        return used
    }

    /// Events that were never sent, oldest first.
    private func oldestWaiting(of eid: Int64, count: Int) throws(StoreError) -> [Int64] {
        // Rows before the hint are settled or sent, and neither comes back.
        let hint = max(sweep.oldestWaiting[eid] ?? 0, ledger[.ackedSeq])
        let found = try database.all(
            """
            SELECT p.seq FROM payload p LEFT JOIN mutation m ON m.seq = p.seq
            WHERE p.seq > ? AND p.eid = ? AND coalesce(m.state, 0) = 0 AND coalesce(m.sent, 0) = 0
                AND m.first_seq IS NULL
            ORDER BY p.seq LIMIT ?
            """, .int(hint), .int(eid), .int(count)
        ) { row throws(StoreError) in row.int(0) }
        if let first = found.first { sweep.oldestWaiting[eid] = first - 1 }
        return found
    }

    /// Makes room: expires waiting events. Where bytes are short their rows go as well, the oldest first.
    func drop(_ victims: [Int64]) throws(StoreError) {
        for seq in victims {
            guard var row = try outboxRow(seq) else { continue }
            row.problem = Problem("queue-full", status: 507, detail: "it made room for a newer one of its entity, unsent").stored
            try settle(row, as: .expired, keptFor: try keptFor(row))
        }
        if !victims.isEmpty, try usedBytes() > capacity.bytes / 5 * 4 {
            try pruneSettled(limit: victims.count, dueOnly: false)
        }
    }
}
