import SyncCore

// New events are taken in by one append to `payload`, nothing else: no narrow row, no index, no counter, no journal. That
// is a third of the pages that a small transaction would write otherwise, and telemetry at ten a second lives on it. All of
// it follows from the rows themselves, so it can be made up later, many rows at once: with the next transaction that writes
// anything else, after `unabsorbedMax` rows, or when the database is opened again. Until then a missing narrow row means
// "pending", and the journal does not tell of it yet.

extension Store {
    /// Rows that a start has to absorb at most; milliseconds of work.
    static let unabsorbedMax: Int64 = 1_024

    /// Must come before any write but the append of a new event. Invariant: whatever else is written, everything before
    /// it has its narrow row, its place in the counters and in the journal.
    func prepareForChange() throws(StoreError) {
        transaction?.hasChanges = true
        try absorb()
    }

    func absorb() throws(StoreError) {
        guard ledger.unabsorbed > 0 else { return }
        let first = ledger[.absorbedSeq] + 1
        try database.run(
            """
            INSERT INTO mutation (seq, state, priority, eid, aid, bytes, ready, ttl_age)
            SELECT seq, 0, priority, eid, aid, bytes, 1, ttl_age FROM payload WHERE seq >= ? ORDER BY seq
            """, .int(first))
        journal.add(.mutation(.pending), first...(ledger[.nextSeq] - 1))
        ledger[.absorbedSeq] = ledger[.nextSeq] - 1
    }
}
