import SyncCore
import SyncSQLite

// Accepts a new event with one append to `payload` and nothing else: no narrow row, index, counter or journal. That is a third of the pages
// that a small transaction would write otherwise, and telemetry at ten events a second needs it. All of the rest follows from the rows
// themselves, so it can be added later for many rows at once: with the next transaction that writes anything else, after `unabsorbedMax`
// rows, or when the database is opened again. Until then a missing narrow row means "pending", and the journal does not have the event yet.

extension Store {
    /// Largest number of rows that a start has to absorb; milliseconds of work.
    static let unabsorbedMax: Int64 = 1_024

    /// Must come before any write except the append of a new event. Invariant: before anything else is written, every earlier mutation has
    /// its narrow row and is in the counters and the journal.
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
