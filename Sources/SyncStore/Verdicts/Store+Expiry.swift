package import SyncCore
import SyncSQLite

// Time to live (PROTOCOL B2): a mutation that could not be sent in time is never sent. A critical mutation does not expire, and neither
// does one that was sent, because the hub decides its outcome.
//
// A deadline belongs to its own change, however urgent the change becomes because others wait for it. A change that is based on an expired
// one and has more time continues where it can. Where it cannot, it is reported to people as `parent-expired`, in the same list as refused
// changes, and can be retried. So an accepted change without a deadline never ends without a trace.

extension Store {
    /// Earliest end of a time to live among unsent mutations, on the boot's clock; in the past while one is overdue. `nil`: no mutation has
    /// one.
    package func nextExpiry(at now: Moment) throws(StoreError) -> Instant? {
        let known = try database.number(
            """
            SELECT ttl_age FROM mutation INDEXED BY mutation_ttl
            WHERE ttl_age IS NOT NULL AND state = 0 AND sent = 0 ORDER BY ttl_age LIMIT 1
            """)
        // New events have no narrow row yet.
        let new = try database.number("SELECT min(ttl_age) FROM payload WHERE seq > ?", .int(ledger[.absorbedSeq]))
        return [known, new].compactMap { $0 }.min().map { ages.instant(of: $0) }
    }

    /// Expires overdue mutations, the longest overdue first.
    ///
    /// - Parameter aid: Only mutations of this app.
    /// - Returns: Number of mutations found; when it is ``sliceRows``, there may be more.
    /// - Precondition: In a transaction that is prepared for changes.
    @discardableResult
    func expireOverdue(of aid: Int64? = nil) throws(StoreError) -> Int {
        let overdue = try database.all(
            """
            SELECT * FROM mutation INDEXED BY mutation_ttl
            WHERE ttl_age <= ? AND state = 0 AND sent = 0 AND aid = coalesce(?, aid) ORDER BY ttl_age LIMIT ?
            """, .int(age), .optional(aid), .int(Self.sliceRows)
        ) { row throws(StoreError) in OutboxRow(row) }
        try expire(overdue)
        return overdue.count
    }

    /// Expires those of these mutations, and of their atomic lists, that are overdue. An atomic list stays together: its other members are
    /// reported as `parent-expired`, also one in dispute, whose decision would go without the list. So are the mutations of a record that
    /// an expired one was to create. Mutations that depend on them follow with the ties. Each record is folded once.
    func expire(_ rows: [OutboxRow]) throws(StoreError) {
        var records = TouchedRecords()
        var work: [OutboxRow] = rows.reversed()
        while let next = work.popLast() {
            var waiting: [OutboxRow] = []
            for member in try next.group.map(groupMembers) ?? [next] {
                // Read again, because another mutation may have ended it already.
                guard let member = try outboxRow(member.seq), [.pending, .conflicted].contains(member.state) else { continue }
                waiting.append(member)
            }
            let over = waiting.filter { $0.isOverdue(at: age) }
            guard let first = over.first else { continue }
            for member in over {
                try finalize(member, as: .expired, keptFor: try keptFor(member))
                guard let rid = member.rid else { continue }
                try touch(rid, &records)
                records[rid]?.needsFold = true
            }
            let rest = waiting.filter { !$0.isOverdue(at: age) }
            if !rest.isEmpty {
                let parent = try payload(first.seq)?.key ?? "\(first.seq)"
                for member in rest { try rejectAlong(member, with: parent, .expired, &records) }
            }
            for member in over {
                let parent = try payload(member.seq)?.key ?? "\(member.seq)"
                for follower in try followers(of: member, in: records) {
                    if follower.isOverdue(at: age) {
                        work.append(follower)
                    } else if try action(of: follower.seq) != .delete {
                        try rejectAlong(follower, with: parent, .expired, &records)
                    }
                    // A deletion continues: an id that an app chose may be in use at the hub.
                }
            }
        }
        try finish(records)
    }

    /// Expires overdue mutations to make room, before anything is refused or dropped for want of it.
    ///
    /// It runs before the decision about the new mutations, because that may be about a record that this changes. It is complete in itself,
    /// so a later refusal need not undo it.
    ///
    /// - Parameter count: Number of mutations to enqueue.
    func expireIfFull(for requester: Requester, adding count: Int) throws(StoreError) {
        let aid = names.apps[requester.app]
        let own = aid.flatMap { ledger.openByApp[$0] } ?? 0
        let isAtLimit = requester.quotaMutations.map { own + Int64(count) > Int64($0) } ?? false
        let mutations = Int64(capacity.mutations)
        let isFull = ledger.open + Int64(count) > mutations - mutations / 10
        let isShort = try usedBytes() > capacity.bytes - capacity.bytes / 10
        guard isAtLimit || isFull || isShort else { return }
        try prepareForChange()
        var expired = 0
        if isAtLimit, let aid { expired += try expireOverdue(of: aid) }
        if isFull || isShort { expired += try expireOverdue() }
        guard expired > 0 else { return }
        try endTies()
        // The bytes are free only when the rows are removed.
        if isShort, try pruneSettled(limit: expired, dueOnly: false) > 0 { transaction?.usedBytes = nil }
    }
}
