package import SyncCore
import SyncSQLite

// Facts for status and metrics.
extension StoreReads {
    package func facts(at now: Moment) throws(StoreError) -> StoreFacts {
        let ledger = try Ledger.load(from: database)
        var counts: [MutationState: [Priority: Int64]] = [:]
        for (group, count) in ledger.counts where count > 0 {
            counts[group.state, default: [:]][group.priority, default: 0] += count
        }
        let meta = MetaTable(database)
        let pages = try database.number("PRAGMA page_count") ?? 0
        let freePages = try database.number("PRAGMA freelist_count") ?? 0
        let ages = try ages(at: now)
        let next = try database.number("SELECT min(next_age) FROM mutation WHERE next_age IS NOT NULL AND state = 0")
        return StoreFacts(
            replica: ReplicaID(trusted: try meta.text("replica") ?? ""),
            createdAt: Timestamp(milliseconds: try meta.text("created_ms").flatMap { Int64($0) } ?? 0), counts: counts,
            openByApp: try openByApp(ledger), enqueued: ledger[.enqueued], pruned: ledger[.pruned],
            oldestWaiting: try oldestWaiting(after: ledger[.ackedSeq]),
            waitingBytes: try waitingBytes(ledger),
            nextAttempt: next.flatMap { age in ages?.wall(of: age, at: now) }, lastSeq: ledger[.nextSeq] - 1,
            maxSentSeq: ledger[.maxSentSeq], ackedSeq: ledger[.ackedSeq], bytes: (pages - freePages) * 4_096,
            fileBytes: pages * 4_096, walBytes: database.walFileBytes, freePages: freePages,
            schema: try database.number("PRAGMA user_version") ?? 0, sqlite: SQLiteConnection.libraryVersion,
            relaxedLost: ledger[.relaxedLost], tailLost: ledger[.tailLost],
            isSeeded: try meta.text("seeded") == "1")
    }

    /// Number of mutations that still have to go to the hub.
    package func waitingCount() throws(StoreError) -> Int64 {
        let ledger = try Ledger.load(from: database)
        return ledger.count(.pending) + ledger.count(.inFlight)
    }

    private func openByApp(_ ledger: Ledger) throws(StoreError) -> [AppName: Int64] {
        var open: [AppName: Int64] = [:]
        try database.each("SELECT aid, name FROM app") { row throws(StoreError) in
            if let count = ledger.openByApp[row.int(0)], count > 0 { open[AppName(trusted: row.text(1))] = count }
        }
        return open
    }

    /// Time at which the oldest mutation that still has to go to the hub was enqueued.
    private func oldestWaiting(after acked: Int64) throws(StoreError) -> Timestamp? {
        let created = try database.number(
            """
            SELECT p.created_ms FROM payload p LEFT JOIN mutation m ON m.seq = p.seq
            WHERE p.seq > ? AND coalesce(m.state, 0) IN (0, 1, 4, 5) ORDER BY p.seq LIMIT 1
            """, .int(acked))
        return created.map { Timestamp(milliseconds: $0) }
    }

    private func waitingBytes(_ ledger: Ledger) throws(StoreError) -> Int64 {
        let waiting = ledger.count(.pending) + ledger.count(.inFlight) + ledger.count(.failed) + ledger.count(.held)
        let isExact = waiting <= 50_000
        let sample = try database.first(
            """
            SELECT count(*), coalesce(sum(bytes), 0) FROM (
                SELECT bytes FROM mutation WHERE seq > ? AND state IN (0, 1, 4, 5) ORDER BY seq LIMIT ?)
            """, .int(ledger[.ackedSeq]), .int(isExact ? -1 : 1_000)
        ) { row throws(StoreError) in (count: row.int(0), bytes: row.int(1)) }
        let new = try database.number("SELECT sum(bytes) FROM payload WHERE seq > ?", .int(ledger[.absorbedSeq])) ?? 0
        guard let sample, sample.count > 0 else { return new }
        return isExact ? sample.bytes + new : sample.bytes / sample.count * waiting
    }

    /// Returns whether any record of an entity was ever written here or pulled.
    package func knows(_ entity: EntityName) throws(StoreError) -> Bool {
        try database.number("SELECT 1 FROM entity WHERE name = ?", .text(entity.text)) != nil
    }

    /// Number of shown records of an entity.
    func recordCount(of entity: EntityName) throws(StoreError) -> Int64 {
        try database.number(
            """
            SELECT c.n FROM entity e JOIN counter c
                ON c.name = 'records' AND c.aid = 0 AND c.eid = e.eid AND c.priority = 0 AND c.state = 0
            WHERE e.name = ?
            """, .text(entity.text)) ?? 0
    }

    /// Number of records of an entity whose documents are not kept.
    func notKeptCount(of entity: EntityName) throws(StoreError) -> Int64 {
        try database.number(
            """
            SELECT c.n FROM entity e JOIN counter c
                ON c.name = 'stubs' AND c.aid = 0 AND c.eid = e.eid AND c.priority = 0 AND c.state = 0
            WHERE e.name = ?
            """, .text(entity.text)) ?? 0
    }

    /// Every entity that was ever known here, by name.
    package func entities() throws(StoreError) -> [EntityOverview] {
        let ledger = try Ledger.load(from: database)
        var open: [Int64: Int64] = [:]
        for (group, count) in ledger.counts where !group.state.isTerminal { open[group.eid, default: 0] += count }
        return try database.all(
            """
            SELECT e.eid, e.name, coalesce(c.n, 0),
                s.last_pull_ms, s.last_full_ms, coalesce(s.listing, 0), coalesce(s.sweep_held, 0), s.seed_total,
                coalesce(s.seeding = 0, 0), coalesce(k.n, 0)
            FROM entity e LEFT JOIN stream s ON s.eid = e.eid LEFT JOIN counter c
                ON c.name = 'records' AND c.aid = 0 AND c.eid = e.eid AND c.priority = 0 AND c.state = 0
                LEFT JOIN counter k ON k.name = 'stubs' AND k.aid = 0 AND k.eid = e.eid AND k.priority = 0 AND k.state = 0
            ORDER BY e.name
            """
        ) { row throws(StoreError) in
            var overview = EntityOverview(
                name: EntityName(trusted: row.text(1)), records: row.int(2), open: open[row.int(0)] ?? 0,
                lastPullAt: row.optionalInt(3).map { Timestamp(milliseconds: $0) },
                lastFullAt: row.optionalInt(4).map { Timestamp(milliseconds: $0) }, isListing: row.bool(5),
                sweepHeld: row.int(6), seedTotal: row.optionalInt(7), isSeeded: row.bool(8))
            overview.notKept = row.int(9)
            return overview
        }
    }
}
