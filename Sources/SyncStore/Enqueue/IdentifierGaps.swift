import SyncCore
import SyncSQLite

/// Gaps that keep ids unique. Every id of the store is used once in the life of a database, or is random.
///
/// | id | comes from |
/// |---|---|
/// | mutation (key, `seq`) | counter `next_seq`; the key also holds 62 random bits |
/// | event | counter `next_event` |
/// | file `b-31` | counter `next_blob` |
/// | conflict `c-12` | counter `next_conflict` |
/// | entry of the audit trail | above the newest row, which is never pruned |
/// | row of a record (in its etag) | counter `next_record` |
/// | replica | random |
///
/// Counters rise in the transaction that uses them. An older copy of the database, or one that was salvaged without its newest pages, has
/// lower counters than ids that callers know. In that case the counters skip these distances.
enum IdentifierGaps {
    /// Distance for files and conflicts: more than a device makes between two copies, and still short to read.
    static let named: Int64 = 1_000
    static let records: Int64 = 1_000_000
    static let events: Int64 = 1_000_000
    static let audits: Int64 = 1_000
}

extension Store {
    /// Skips ids after the database went back in time. Invariant: no id is used again. Readers of events are told to read everything again,
    /// because events that they have seen may not have happened in this history.
    ///
    /// - Precondition: In a transaction that is prepared for changes.
    func stepOverIdentifiers() throws(StoreError) {
        ledger[.nextBlob] = ledger[.nextBlob].saturatingAdd(IdentifierGaps.named)
        ledger[.nextConflict] = ledger[.nextConflict].saturatingAdd(IdentifierGaps.named)
        ledger[.nextRecord] = ledger[.nextRecord].saturatingAdd(IdentifierGaps.records)
        ledger[.nextEvent] = ledger[.nextEvent].saturatingAdd(IdentifierGaps.events)
        try database.run("DELETE FROM event")
        try stepOverAudits("older copy of the database")
    }

    /// Numbers of the audit trail follow the newest row, so an entry creates the distance.
    private func stepOverAudits(_ reason: String) throws(StoreError) {
        try database.run(
            """
            INSERT INTO audit (n, age, at_ms, uid, verb, target, json)
            SELECT coalesce(max(n), 0) + ?, ?, ?, 0, 'recover', 'database', ? FROM audit
            """, .int(IdentifierGaps.audits), .int(age), .int(now.wall.milliseconds),
            .text(JSON.object(["reason": .string(reason)]).json))
    }

    /// Does the same after a rescue, whose counters ``SalvagedRows`` has set.
    func markSalvaged() throws(StoreError) {
        try MetaTable(database).set(MetaTable.salvagedSeq, String(ledger[.nextSeq] - 1))
        try stepOverAudits("rescued from a damaged file")
    }
}
