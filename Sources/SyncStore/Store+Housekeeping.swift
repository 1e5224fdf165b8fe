package import SyncCore

/// Where the slow sweeps go on. In memory only: after a restart they begin again, which costs time and nothing else.
struct HousekeepingSweep {
    /// Events that could make room.
    var waiting: [WaitingEvents.Owner: WaitingEvents] = [:]
    /// Records up to this `rid` have lost their version to a new history of the hub.
    var history: Int64 = 0
    /// Files up to this `bid` were looked at in this round.
    var blobs: Int64 = 0
    /// Giving free pages back works.
    var vacuums = true
}

/// What the last slice of housekeeping has left to be done outside of a transaction.
enum Tidiness {
    case done
    /// More slices follow.
    case busy
    /// Nothing else is to be done: the time for what costs more.
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

    /// One bounded slice of what keeps the store small: expire, prune, trim, vacuum, checkpoint. Never touches rejected,
    /// failed, held or conflicted mutations. All ages are on the database's own clock, so a jump of the wall clock purges
    /// nothing.
    ///
    /// - Returns: Whether another slice is worth while.
    package func housekeep(at now: Moment) throws(StoreError) -> Bool {
        let more = try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try keepTime()
            try wakeDue()
            var more = isFalling
            if try expireOverdue() == Self.sliceRows { more = true }
            if try pruneSettled(limit: Self.sliceRows, dueOnly: !isSpaceShort()) == Self.sliceRows { more = true }
            if try trimJournal() == Self.sliceRows { more = true }
            if try forget() == Self.sliceRows { more = true }
            if rest != nil { try pruneRest() }
            if try isVacuumDue() { more = true }
            return more
        }
        tidiness = more ? .busy : .idle
        if transaction == nil { try tidy() }
        return more
    }

    /// What housekeeping leaves for the time after its commit, because it cannot be done inside a transaction: give free
    /// pages back to the file system, move the WAL into the database. Whoever opened the transaction calls it.
    package func tidy() throws(StoreError) {
        precondition(transaction == nil, "tidying is not part of a transaction")
        defer { tidiness = .done }
        guard tidiness != .done, database.path != nil else { return }
        if try isVacuumDue() {
            // What fails once would be asked for again and again.
            sweep.vacuums = false
            // One step frees one page: it has to run to its end.
            try database.execute("PRAGMA incremental_vacuum(\(Self.vacuumPages))")
            sweep.vacuums = true
        }
        if tidiness == .idle {
            if database.walPages > 0 { try database.checkpoint(truncating: true) }
            database.releaseMemory()
        } else if database.walPages >= Self.checkpointPages {
            try database.checkpoint(truncating: false)
        }
    }

    /// Writes the age clock down, so that a power cut forgets an hour of it at most.
    private func keepTime() throws(StoreError) {
        let gap = now.instant.nanoseconds / 1_000_000 - ages.instant
        guard gap >= 3_600_000 || options.bootID != ages.bootID else { return }
        ages.anchor(bootID: options.bootID, at: now)
        try MetaTable(database).set("age", ages.text)
    }

    /// Removes settled mutations whose time is over. When space is short, also events before their time: what the hub has
    /// is only a receipt here.
    ///
    /// - Returns: How many.
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
            // An app that repeats a request must not hear that its dropped event is done. The first rows only: a full queue
            // asks this with every event.
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

    /// Four fifths of what may be used are used, or the file system has less than twice of what must stay free.
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

    /// App keys, tombstones and audit rows that are too old.
    private func forget() throws(StoreError) -> Int {
        let keys = try database.run(
            "DELETE FROM app_key WHERE (aid, key) IN (SELECT aid, key FROM app_key WHERE age < ? LIMIT ?)",
            .int(age - Self.appKeysKeptFor.milliseconds), .int(Self.sliceRows))
        let tombstones = try database.run(
            """
            DELETE FROM record WHERE rid IN (
                SELECT rid FROM record WHERE gone_age IS NOT NULL AND gone_age < ? AND status = 0 LIMIT ?)
            """, .int(age - Self.tombstonesKeptFor.milliseconds), .int(Self.sliceRows))
        let audits = try database.run(
            "DELETE FROM audit WHERE n IN (SELECT n FROM (SELECT n, age FROM audit ORDER BY n LIMIT ?) WHERE age < ?) AND n < (SELECT max(n) FROM audit)",
            .int(Self.sliceRows), .int(age - Self.auditKeptFor.milliseconds))
        try closeAnswered()
        try database.run(
            "DELETE FROM conflict WHERE cid IN (SELECT cid FROM conflict WHERE closed_age < ? AND cid < (SELECT max(cid) FROM conflict) LIMIT ?)",
            .int(age - Self.auditKeptFor.milliseconds), .int(Self.sliceRows))
        try forgetRequeued()
        return max(keys, tombstones, audits)
    }

    /// Whether free pages are many enough to be given back to the file system.
    private func isVacuumDue() throws(StoreError) -> Bool {
        guard sweep.vacuums, database.path != nil else { return false }
        let free = try database.number("PRAGMA freelist_count") ?? 0
        let pages = try database.number("PRAGMA page_count") ?? 0
        return free > 1_000 || (free > Int64(Self.vacuumPages) && free * 10 > pages)
    }
}
