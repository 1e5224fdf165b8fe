package import SyncCore
import SyncSQLite

/// Positions of the slow sweeps. They are in memory only: after a restart the sweeps begin again, which costs only time.
struct HousekeepingSweep {
    /// Events that could be dropped to make room.
    var waiting: [WaitingEvents.Owner: WaitingEvents] = [:]
    /// Records up to this `rid` have lost their version to a new history of the hub.
    var history: Int64 = 0
    var documents = DocumentSweep()
    /// Files up to this `bid` were checked in this round.
    var blobs: Int64 = 0
    var fetchedBlobs: Int64 = 0
    /// Returning free pages to the file system works.
    var vacuums = true
    /// Content that was erased (``Store/erasing(_:)``) may still be in free pages, or in the log.
    var leavesTraces = false
}

/// Work that the last slice of housekeeping left for after its transaction.
enum Tidiness {
    case done
    /// More slices follow.
    case busy
    /// Nothing else is to be done, so this is the time for expensive work.
    case idle
}

extension Store {
    static let sliceRows = 1_000
    static let journalEvents: Int64 = 50_000
    static let journalKeptFor: Duration = .seconds(30 * 86_400)
    static let tombstonesKeptFor: Duration = .seconds(90 * 86_400)
    static let auditKeptFor: Duration = .seconds(400 * 86_400)
    /// Pages after which the WAL is moved into the database: 4 MiB.
    static let checkpointPages = 1_000
    static let vacuumPages = 500

    /// Does one bounded slice of the work that keeps the store small: expire, prune, trim, vacuum, checkpoint. It never touches rejected,
    /// failed, held or conflicted mutations. All ages are on the database's own clock, so a jump of the wall clock purges nothing.
    ///
    /// - Returns: `true` when another slice is useful.
    package func housekeep(at now: Moment) throws(StoreError) -> Bool {
        let more = try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try keepTime()
            if !sweep.leavesTraces { try forgetTraces() }
            try wakeDue()
            var more = isFalling
            if try expireOverdue() == Self.sliceRows { more = true }
            if try pruneSettled(limit: Self.sliceRows, dueOnly: !isSpaceShort()) == Self.sliceRows { more = true }
            if try trimJournal() == Self.sliceRows { more = true }
            if try forget() == Self.sliceRows { more = true }
            if rest != nil { try pruneRest() }
            // Last, so that no settled mutation of a record outlives its document.
            if !more, try dropDocuments() { more = true }
            if try isVacuumDue() { more = true }
            return more
        }
        tidiness = more ? .busy : .idle
        if transaction == nil { try tidy() }
        return more
    }

    /// Something is left to do after a transaction.
    var isUntidy: Bool { database.path != nil && (tidiness != .done || sweep.leavesTraces) }

    /// Does the work that cannot be done inside a transaction: return free pages to the file system, and move the WAL into the database.
    /// The caller that opened the transaction calls it after the commit.
    package func tidy() throws(StoreError) {
        precondition(transaction == nil, "tidying is not part of a transaction")
        defer { tidiness = .done }
        guard isUntidy else { return }
        if sweep.leavesTraces { try wipe() }
        guard tidiness != .done else { return }
        if try isVacuumDue() { try vacuum() }
        if tidiness == .idle {
            if database.walPages > 0 { try database.checkpoint(truncating: true) }
            database.releaseMemory()
        } else if database.walPages >= Self.checkpointPages {
            try database.checkpoint(truncating: false)
        }
    }

    /// Removes what is left of erased content outside of the rows. Free pages may hold earlier forms of a document, or rows that SQLite has
    /// moved since. The file and the log hold what the erasing transaction has overwritten, until the log is moved into the file.
    ///
    /// Very many free pages take several calls, and a read that is under way delays the log.
    private func wipe() throws(StoreError) {
        // A step that fails once would be tried again and again. Housekeeping moves the log as well.
        sweep.leavesTraces = false
        let before = try freePages()
        if sweep.vacuums, before > 0 { try vacuum() }
        let after = try freePages()
        let isCut = try database.checkpoint(truncating: true)
        sweep.leavesTraces = !isCut || (after > 0 && after < before)
    }

    private func forgetTraces() throws(StoreError) {
        let meta = MetaTable(database)
        if try meta.text(MetaTable.traces) == "1" { try meta.set(MetaTable.traces, "0") }
    }

    private func vacuum() throws(StoreError) {
        // A step that fails once would be tried again and again.
        sweep.vacuums = false
        // One step frees one page, so the statement has to run to its end.
        try database.execute("PRAGMA incremental_vacuum(\(Self.vacuumPages))")
        sweep.vacuums = true
    }

    /// Stores the age clock, so that a power cut loses at most an hour of it.
    private func keepTime() throws(StoreError) {
        let gap = now.instant.nanoseconds / 1_000_000 - ages.instant
        guard gap >= 3_600_000 || options.bootID != ages.bootID else { return }
        ages.anchor(bootID: options.bootID, at: now)
        try MetaTable(database).set("age", ages.text)
    }

    /// Removes settled mutations whose retention is over. When space is short, it also removes events before that time, because the hub has
    /// them and only the receipt is here.
    ///
    /// - Returns: Number of removed mutations.
    @discardableResult
    func pruneSettled(limit: Int, dueOnly: Bool) throws(StoreError) -> Int {
        var seqs = try database.all(
            "SELECT seq FROM mutation WHERE prune_age <= ? AND rid IS NULL ORDER BY prune_age LIMIT ?", .int(age),
            .int(limit)
        ) { row throws(StoreError) in row.int(0) }
        seqs += try database.all(
            "SELECT seq FROM mutation WHERE prune_age <= ? AND rid IS NOT NULL ORDER BY prune_age LIMIT ?", .int(age),
            .int(limit - seqs.count)
        ) { row throws(StoreError) in row.int(0) }
        if seqs.isEmpty, !dueOnly {
            // An app that repeats a request must not hear that its dropped event is done. Only the first rows are read, because a full
            // queue runs this with every event.
            seqs = try database.all(
                """
                SELECT m.seq FROM (
                    SELECT seq, state FROM mutation WHERE prune_age IS NOT NULL AND rid IS NULL ORDER BY prune_age LIMIT ?
                ) m CROSS JOIN payload p ON p.seq = m.seq
                WHERE m.state = 6 OR (m.state = 12 AND p.app_key IS NULL) LIMIT ?
                """, .int(Self.sliceRows), .int(limit)
            ) { row throws(StoreError) in row.int(0) }
        }
        for run in Self.runs(of: seqs) {
            try database.run(
                "DELETE FROM payload WHERE seq BETWEEN ? AND ?", .int(run.lowerBound), .int(run.upperBound))
            try database.run(
                "DELETE FROM mutation WHERE seq BETWEEN ? AND ?", .int(run.lowerBound), .int(run.upperBound))
            try database.run(
                "DELETE FROM undo_value WHERE seq BETWEEN ? AND ?", .int(run.lowerBound), .int(run.upperBound))
        }
        ledger[.pruned] += Int64(seqs.count)
        return seqs.count
    }

    /// Returns whether four fifths of the allowed size are in use, or the file system has less than twice of what must stay free.
    private func isSpaceShort() throws(StoreError) -> Bool {
        if let freeBytes, freeBytes < 2 * capacity.minFree { return true }
        return try usedBytes() > capacity.bytes / 5 * 4
    }

    private func trimJournal() throws(StoreError) -> Int {
        let oldest = ledger[.nextEvent] - Self.journalEvents
        let youngest = age - Self.journalKeptFor.milliseconds
        let rows = try database.all(
            "SELECT n, count, age FROM event ORDER BY n LIMIT ?", .int(Self.sliceRows)
        ) { row throws(StoreError) in (id: row.int(0), isOver: row.int(0) + row.int(1) <= oldest || row.int(2) < youngest) }
        let over = rows.prefix { $0.isOver }
        guard let last = over.last else { return 0 }
        try database.run("DELETE FROM event WHERE n <= ?", .int(last.id))
        return over.count
    }

    /// Removes app keys, tombstones and audit rows that are too old.
    private func forget() throws(StoreError) -> Int {
        let keys = try database.run(
            "DELETE FROM app_key WHERE (aid, key) IN (SELECT aid, key FROM app_key WHERE age < ? LIMIT ?)",
            .int(age - Self.appKeysKeptFor.milliseconds), .int(Self.sliceRows))
        let tombstones = try database.run(
            """
            DELETE FROM record WHERE rid IN (
                SELECT rid FROM record WHERE gone_age IS NOT NULL AND gone_age < ? AND status = ? LIMIT ?)
            """, .int(age - Self.tombstonesKeptFor.milliseconds), .int(RecordSnapshot.SyncStatus.synced.rawValue), .int(Self.sliceRows))
        let audits = try database.run(
            """
            DELETE FROM audit WHERE n IN (SELECT n FROM (SELECT n, age FROM audit ORDER BY n LIMIT ?) WHERE age < ?)
                AND n < (SELECT max(n) FROM audit)
            """, .int(Self.sliceRows), .int(age - Self.auditKeptFor.milliseconds))
        try closeAnswered()
        try database.run(
            """
            DELETE FROM conflict WHERE cid IN (
                SELECT cid FROM conflict WHERE closed_age < ? AND cid < (SELECT max(cid) FROM conflict) LIMIT ?)
            """, .int(age - Self.auditKeptFor.milliseconds), .int(Self.sliceRows))
        try forgetRequeued()
        return max(keys, tombstones, audits)
    }

    /// Returns whether there are enough free pages to return them to the file system.
    private func isVacuumDue() throws(StoreError) -> Bool {
        guard sweep.vacuums, database.path != nil else { return false }
        let free = try freePages()
        let pages = try database.number("PRAGMA page_count") ?? 0
        return free > 1_000 || (free > Int64(Self.vacuumPages) && free * 10 > pages)
    }

    private func freePages() throws(StoreError) -> Int64 { try database.number("PRAGMA freelist_count") ?? 0 }
}
