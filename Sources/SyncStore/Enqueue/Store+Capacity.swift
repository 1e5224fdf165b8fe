import SyncCore
import SyncSQLite

extension Store {
    /// Finds room for one more mutation.
    ///
    /// At an app's own limit, only its own events make room: events of other apps were accepted and stay. When the store is full, the app's
    /// own events go first, then those of others.
    ///
    /// - Returns: Waiting events of the same entity that must be dropped for it; empty when there is room.
    /// - Throws: `.refused` with `queue-full` or `disk-full`. Nothing was written.
    func makeRoom(for intent: EnqueueIntent, eid: Int64?) throws(StoreError) -> [Int64] {
        let isCritical = intent.priority == .critical
        func share(_ whole: Int64) -> Int64 { isCritical ? whole : StoreCapacity.ordinary(whole) }
        let free = isCritical ? capacity.minFree : capacity.minFreeForOrdinary
        if let freeBytes, freeBytes < free { throw StoreProblem.diskFull(free: freeBytes, kept: free) }

        let aid = names.apps[intent.requester.app]
        let used = try usedBytes()
        let surplus = ledger.open + 1 - share(Int64(capacity.mutations))
        let excess = used + intent.payload.bytes > share(capacity.bytes) ? max(surplus, 1) : surplus
        let open = aid.flatMap { ledger.openByApp[$0] } ?? 0
        let ownExcess = intent.requester.quotaMutations.map { open + 1 - Int64($0) } ?? 0
        guard excess > 0 || ownExcess > 0 else { return [] }
        let rest = isCritical ? "" : ", and its last tenth is for critical mutations"
        let refusal =
            if let quota = intent.requester.quotaMutations, ownExcess > 0 {
                StoreProblem.queueFull(
                    "\(open) mutations of \(intent.requester.app) are open, its limit is \(quota)", raise: "access[].quota_mutations")
            } else if surplus > 0 {
                StoreProblem.queueFull(
                    "\(ledger.open) mutations are open, the limit is \(capacity.mutations)\(rest)", raise: "store.max_mutations")
            } else {
                StoreProblem.queueFull(
                    "the store has \(used) bytes, the limit is \(capacity.bytes)\(rest)", raise: "store.max_size")
            }
        guard intent.isEvent, intent.rules.whenFull == .dropOldest, let eid else { throw refusal }
        // A lowered limit is approached in steps: one new event does not drop all surplus ones.
        let wanted = Int(min(max(excess, ownExcess), Int64(Self.sliceRows)))
        // When too few wait, they are not searched: a refused list would forget the result.
        let waiting = aid.map { ledger.pending(eid: eid, aid: $0) } ?? 0
        guard waiting >= min(ownExcess, Int64(wanted)) else { throw refusal }
        var victims: [Int64] = []
        if let aid, waiting > 0 { victims = try oldestWaiting(of: eid, app: aid, count: min(wanted, Int(waiting))) }
        guard victims.count < wanted else { return victims }
        let own = Set(victims)
        guard Int64(own.count) >= ownExcess else { throw refusal }
        victims += try oldestWaiting(of: eid, app: nil, count: wanted).filter { !own.contains($0) }.prefix(wanted - own.count)
        guard victims.count == wanted else { throw refusal }
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

    /// Makes room by expiring waiting events. When bytes are short, their rows are removed as well, the oldest first.
    func drop(_ victims: [Int64]) throws(StoreError) {
        for seq in victims {
            guard var row = try outboxRow(seq) else { continue }
            row.problem = Problem("queue-full", status: 507, detail: "dropped unsent to make room for a newer one of its entity").stored
            try finalize(row, as: .expired, keptFor: try keptFor(row))
        }
        if !victims.isEmpty, try usedBytes() > capacity.bytes / 5 * 4 {
            try pruneSettled(limit: victims.count, dueOnly: false)
        }
    }
}

// MARK: - The oldest events

/// Events of one entity that could make room. There is no index of them, because it would be written with every event and read only when
/// everything is full. They are searched in the order of `seq`, and the result is remembered: between two starts, no row is passed twice.
///
/// Invariant: an event up to ``lookedUpTo`` that waits unsent is in ``known``. An event that was sent or settled never becomes unsent
/// again, so none is missing when entries have become outdated.
struct WaitingEvents {
    struct Owner: Hashable {
        var eid: Int64
        /// The app; `nil`: any.
        var aid: Int64?
    }

    /// Numbers of events that waited when they were found, oldest first.
    var known: [Int64] = []
    var lookedUpTo: Int64
}

extension Store {
    /// Events that were never sent, oldest first: of one app, or of any.
    private func oldestWaiting(of eid: Int64, app aid: Int64?, count: Int) throws(StoreError) -> [Int64] {
        let owner = WaitingEvents.Owner(eid: eid, aid: aid)
        // All rows up to the acknowledged one are settled.
        var events = sweep.waiting[owner] ?? WaitingEvents(lookedUpTo: ledger[.ackedSeq])
        var found: [Int64] = []
        var passed = 0
        while found.count < count, passed < events.known.count {
            let seq = events.known[passed]
            if try isWaiting(seq) { found.append(seq) }
            passed += 1
        }
        events.known.replaceSubrange(..<passed, with: found)
        if found.count < count {
            let more = try nextWaiting(owner, after: events.lookedUpTo, count: count - found.count)
            found += more
            events.known += more
            // If fewer than needed were found, all rows were searched.
            events.lookedUpTo = found.count == count ? more.last ?? events.lookedUpTo : ledger[.nextSeq] - 1
        }
        sweep.waiting[owner] = events
        return found
    }

    private func isWaiting(_ seq: Int64) throws(StoreError) -> Bool {
        // A new one has no narrow row yet.
        if seq > ledger[.absorbedSeq] { return true }
        return try database.number("SELECT 1 FROM mutation WHERE seq = ? AND state = 0 AND sent = 0", .int(seq)) != nil
    }

    private func nextWaiting(
        _ owner: WaitingEvents.Owner, after seq: Int64, count: Int
    ) throws(StoreError) -> [Int64] {
        let absorbed = ledger[.absorbedSeq]
        var found: [Int64] = []
        if seq < absorbed {
            // Members of an atomic list stay together.
            found = try database.all(
                """
                SELECT seq FROM mutation
                WHERE seq > ? AND seq <= ? AND eid = ? AND aid = coalesce(?, aid) AND state = 0 AND sent = 0 AND rid IS NULL
                    AND first_seq IS NULL
                ORDER BY seq LIMIT ?
                """, .int(seq), .int(absorbed), .int(owner.eid), .optional(owner.aid), .int(count)
            ) { row throws(StoreError) in row.int(0) }
        }
        if found.count < count {
            found += try database.all(
                "SELECT seq FROM payload WHERE seq > ? AND eid = ? AND aid = coalesce(?, aid) ORDER BY seq LIMIT ?",
                .int(max(seq, absorbed)), .int(owner.eid), .optional(owner.aid), .int(count - found.count)
            ) { row throws(StoreError) in row.int(0) }
        }
        return found
    }
}
