package import SyncCore

// Time to live (PROTOCOL B2): what could not be sent in time is not sent at all. Never a critical mutation, and never one that
// was sent: its outcome is the hub's to tell.

extension Store {
    /// When the first time to live of all that waits unsent is over, on the boot's clock; in the past while something is
    /// overdue. `nil`: nothing has one.
    package func nextExpiry(at now: Moment) throws(StoreError) -> Instant? {
        let known = try database.number(
            """
            SELECT ttl_age FROM mutation INDEXED BY mutation_ttl
            WHERE ttl_age IS NOT NULL AND state = 0 AND sent = 0 AND priority > 0 ORDER BY ttl_age LIMIT 1
            """)
        // New events have no narrow row yet.
        let new = try database.number("SELECT min(ttl_age) FROM payload WHERE seq > ?", .int(ledger[.absorbedSeq]))
        return [known, new].compactMap { $0 }.min().map { ages.instant(of: $0) }
    }

    /// Gives up what is overdue, the longest overdue first: with a mutation goes its atomic list, and what was to be done with
    /// a record that it was to create.
    ///
    /// - Parameter aid: Only what this app has enqueued.
    /// - Returns: How many were found; ``sliceRows`` of them: there may be more.
    /// - Precondition: In a transaction that is prepared for changes.
    @discardableResult
    func expireOverdue(of aid: Int64? = nil) throws(StoreError) -> Int {
        let overdue = try database.all(
            """
            SELECT * FROM mutation INDEXED BY mutation_ttl
            WHERE ttl_age <= ? AND state = 0 AND sent = 0 AND priority > 0 AND aid = coalesce(?, aid) ORDER BY ttl_age LIMIT ?
            """, .int(age), .optional(aid), .int(Self.sliceRows)
        ) { row throws(StoreError) in OutboxRow(row) }
        try withdraw(overdue, as: .expired)
        return overdue.count
    }

    /// What is over anyway makes room, before anything is refused or dropped for want of it.
    ///
    /// It comes before the decision about what is enqueued, which may be about a record that this changes, and is whole in
    /// itself: a refusal that follows need not undo it.
    ///
    /// - Parameter count: Mutations that are to be enqueued.
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
        try settleTies()
        // The bytes are free only when the rows are gone.
        if isShort, try pruneSettled(limit: expired, dueOnly: false) > 0 { transaction?.usedBytes = nil }
    }
}
