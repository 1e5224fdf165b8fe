import SyncCore
import SyncSQLite

/// Makes a consistent database of rows that were salvaged one by one: incomplete rows are removed, and references between rows agree again.
/// After that, a ``Store`` can be opened on it.
///
/// - A mutation without an answer may have been sent in the lost time: it is in flight, frozen. ``Store/returnGated()`` returns those to
///   the queue that wait for a file.
/// - A mutation whose narrow row is lost counts as one without an answer.
/// - A record keeps its document and forgets its version: every version of the hub is newer (-1, "of an unknown history").
struct SalvagedRows {
    let database: Database
    let rules: RuleBook
    let acknowledged: Int64
    let now: Moment
    private(set) var damaged = 0
    private(set) var records: Int64 = 0
    /// Upper bound of the number of mutations of which nothing was found, where the count of pruned ones is lost as well.
    private(set) var lost: Int64 = 0
    /// The highest number that is known to be used.
    private(set) var lastSeq: Int64 = 0
    /// The number of the next event, as it was stored.
    private(set) var nextEvent: Int64 = 0

    init(_ database: Database, rules: RuleBook, acknowledged: Int64, at now: Moment) {
        self.database = database
        self.rules = rules
        self.acknowledged = acknowledged
        self.now = now
    }

    mutating func putInOrder(as replica: ReplicaID) throws(StoreError) {
        try database.execute("BEGIN IMMEDIATE")
        try dropUnsoundPayloads()
        try dropOrphans()
        try rebuildRecords()
        try addNarrowRows()
        try addMissingRecords()
        try dropEndlessTies()
        try freeze()
        try recount()
        let meta = MetaTable(database)
        try meta.set("replica", replica.text)
        if try meta.text("created_ms") == nil { try meta.set("created_ms", String(now.wall.milliseconds)) }
        try meta.set("clean", "1")
        try database.execute("COMMIT")
    }

    private mutating func dropUnsoundPayloads() throws(StoreError) {
        let unsound = try database.all("SELECT * FROM payload") { row throws(StoreError) in
            Payload.isSound(row, at: 0) ? nil : row.int(0)
        }.compactMap { $0 }
        for seq in unsound { try database.run("DELETE FROM payload WHERE seq = ?", .int(seq)) }
        // The entity of these rows is lost.
        let unnamed = try database.run("DELETE FROM payload WHERE eid NOT IN (SELECT eid FROM entity)")
        damaged += unsound.count + unnamed
        try database.execute(
            """
            INSERT INTO app (aid, name) SELECT DISTINCT aid, 'unknown-' || aid FROM payload
            WHERE aid NOT IN (SELECT aid FROM app);
            INSERT INTO boot (bid, name) SELECT DISTINCT bid, 'unknown-' || bid FROM payload
            WHERE bid NOT IN (SELECT bid FROM boot);
            """)
    }

    private mutating func dropOrphans() throws(StoreError) {
        damaged += try database.run(
            """
            DELETE FROM mutation WHERE NOT EXISTS (
                SELECT 1 FROM payload p WHERE p.seq = mutation.seq AND p.eid = mutation.eid AND p.aid = mutation.aid
                    AND p.bytes = mutation.bytes)
            """)
        try database.execute(
            """
            DELETE FROM record WHERE eid NOT IN (SELECT eid FROM entity);
            DELETE FROM app_key WHERE aid NOT IN (SELECT aid FROM app);
            -- Without the mutation its record is unknown, so they would stay when that leaves the share.
            DELETE FROM undo_value WHERE seq NOT IN (SELECT seq FROM payload);
            """)
    }

    private mutating func rebuildRecords() throws(StoreError) {
        for rid in try rids("SELECT rid FROM record") {
            guard var row = try MirrorRow.find(database, rid: rid) else { continue }
            if row.isDamaged {
                damaged += 1
                try database.run("DELETE FROM record WHERE rid = ?", .int(rid))
                continue
            }
            if !row.isRevoked { row.gen = 0 }
            row.forgetHistory()
            try row.save(to: database)
            if row.document != nil { records += 1 }
        }
    }

    private func rids(_ sql: StaticString) throws(StoreError) -> [Int64] {
        try database.all(sql) { row throws(StoreError) in row.int(0) }
    }

    /// Adds narrow rows in the state pending, for the record and the atomic list that their payloads name.
    private mutating func addNarrowRows() throws(StoreError) {
        let bare = try database.all(
            "SELECT * FROM payload p WHERE NOT EXISTS (SELECT 1 FROM mutation m WHERE m.seq = p.seq) ORDER BY seq"
        ) { row throws(StoreError) in
            // The content is not needed here.
            var payload = Payload(row, at: 0)
            (payload.data, payload.operations, payload.baseFields) = (nil, nil, nil)
            return payload
        }
        let names = try Names.load(from: database)
        for payload in bare {
            var rid: Int64?
            if (rules[names.entity(payload.eid)]?.kind ?? .record) != .event { rid = try self.rid(of: payload) }
            var row = OutboxRow(
                seq: payload.seq, priority: payload.priority, eid: payload.eid, aid: payload.aid, rid: rid, bytes: payload.bytes)
            row.ttlAge = payload.ttlAge
            if let gid = payload.gid {
                // A decision about a member of the list names the list as well, but was not written with it. A list has few members with
                // consecutive numbers.
                let first = try database.number("SELECT min(seq) FROM payload WHERE gid = ?", .text(gid)) ?? payload.seq
                let last = try database.number(
                    "SELECT max(seq) FROM payload WHERE gid = ? AND seq < ?", .text(gid), .int(first + Int64(Limits.atomicMutations)))
                row.group = first...max(first, last ?? first)
            }
            try row.insert(into: database)
        }
    }

    private func rid(of payload: Payload) throws(StoreError) -> Int64 {
        let id = payload.recordID.text
        if let found = try MirrorRow.find(database, eid: payload.eid, id: id) { return found.rid }
        let rid = max(try highest("SELECT max(rid) FROM record"), try highest("SELECT max(rid) FROM mutation")) + 1
        try makeRecord(rid, eid: payload.eid, id: id, isKnown: payload.baseVersion > 0)
        return rid
    }

    /// Adds empty records for open mutations whose record was lost: the hub has its content.
    private mutating func addMissingRecords() throws(StoreError) {
        let missing = try database.all(
            """
            SELECT m.rid, p.eid, coalesce(p.id, p.key), max(p.base_version) FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid IS NOT NULL AND NOT EXISTS (SELECT 1 FROM record r WHERE r.rid = m.rid) GROUP BY m.rid
            """
        ) { row throws(StoreError) in (rid: row.int(0), eid: row.int(1), id: row.text(2), version: row.int(3)) }
        for lost in missing {
            // The same record under another number, which was made up for a mutation whose narrow row was lost.
            if let found = try MirrorRow.find(database, eid: lost.eid, id: lost.id) {
                try database.run("UPDATE mutation SET rid = ? WHERE rid = ?", .int(found.rid), .int(lost.rid))
            } else {
                try makeRecord(lost.rid, eid: lost.eid, id: lost.id, isKnown: lost.version > 0)
            }
        }
    }

    private func makeRecord(_ rid: Int64, eid: Int64, id: String, isKnown: Bool) throws(StoreError) {
        var row = MirrorRow(rid: rid, eid: eid, id: id, at: now.wall)
        if isKnown { row.dropBase() }
        try row.save(to: database)
    }

    /// Drops ties that nothing would end: those of and to mutations that were lost, and those to files that are lost or at the server.
    private func dropEndlessTies() throws(StoreError) {
        try database.execute(
            """
            DELETE FROM tie WHERE seq NOT IN (SELECT seq FROM mutation)
                OR (on_seq > 0 AND on_seq NOT IN (SELECT seq FROM mutation))
                OR (on_seq < 0 AND NOT EXISTS (SELECT 1 FROM blob WHERE bid = -on_seq AND blob.state <> 1))
            """)
    }

    /// Freezes open mutations in the order in which they were made, because it is not known which of them were claimed together.
    private func freeze() throws(StoreError) {
        try database.run(
            """
            UPDATE mutation SET state = 1, ready = 0, sent = 1, next_age = NULL, claim = coalesce(first_seq, seq),
                first_sent_ms = coalesce(first_sent_ms, ?) WHERE state <= 1
            """, .int(now.wall.milliseconds))
    }

    /// Counts the rows. The old counters add the pruned mutations in final states, and prevent that used numbers are used again.
    private mutating func recount() throws(StoreError) {
        let old = try Ledger.load(from: database)
        try database.execute("DELETE FROM counter")
        var ledger = Ledger()
        var pruned: Int64 = 0
        try database.each("SELECT aid, eid, priority, state, count(*) FROM mutation GROUP BY 1, 2, 3, 4") {
            row throws(StoreError) in
            guard let priority = Priority(rawValue: Int(clamping: row.int(2))),
                let state = MutationState(rawValue: Int(clamping: row.int(3)))
            else { return }
            ledger.add(row.int(4), to: Ledger.Group(aid: row.int(0), eid: row.int(1), priority: priority, state: state))
        }
        for (group, count) in old.counts where group.state.isTerminal {
            let gone = count - (ledger.counts[group] ?? 0)
            guard gone > 0 else { continue }
            ledger.add(gone, to: group)
            pruned += gone
        }
        lastSeq = try highest("SELECT max(seq) FROM payload")
        // The counters have no checksum: one that is far ahead of all known numbers was damaged.
        if old[.nextSeq] - 1 <= max(lastSeq, acknowledged) + Self.plausibleGap { lastSeq = max(lastSeq, old[.nextSeq] - 1) }
        for number in Ledger.Number.allCases { ledger[number] = old[number] }
        let given = max(lastSeq, acknowledged)
        lost = max(0, given - (try highest("SELECT count(*) FROM mutation")) - pruned - old[.tailLost])
        ledger[.nextSeq] = given + 1
        ledger[.absorbedSeq] = ledger[.nextSeq] - 1
        nextEvent = old[.nextEvent]
        ledger[.nextEvent] = nextEvent.saturatingAdd(IdentifierGaps.events)
        ledger[.nextRecord] = max(
            try highest("SELECT max(rid) FROM record"), try highest("SELECT max(rid) FROM mutation"), old[.nextRecord]
        ).saturatingAdd(IdentifierGaps.records)
        ledger[.nextBlob] = max(try highest("SELECT max(bid) FROM blob"), old[.nextBlob]).saturatingAdd(IdentifierGaps.named)
        ledger[.nextConflict] = max(try highest("SELECT max(cid) FROM conflict"), old[.nextConflict])
            .saturatingAdd(IdentifierGaps.named)
        ledger[.nextClaim] = max(try highest("SELECT max(claim) FROM mutation") + 1, old[.nextClaim])
        ledger[.maxSentSeq] = max(try highest("SELECT max(seq) FROM mutation WHERE sent = 1"), old[.maxSentSeq])
        ledger[.ties] = try highest("SELECT count(*) FROM tie")
        // Determined again, from the first mutation on.
        ledger[.ackedSeq] = 0
        ledger[.pruned] = pruned
        ledger[.tailLost] = old[.tailLost].saturatingAdd(lost)
        ledger[.enqueued] = ledger.counts.values.reduce(0, +)
        try ledger.save(to: database)
        try database.execute(Schema.countRecords)
    }

    /// The number in the first row and column; 0 when there is none.
    private func highest(_ sql: StaticString) throws(StoreError) -> Int64 {
        guard let number = try database.number(sql) else { return 0 }
        return number
    }

    private static let plausibleGap: Int64 = 100_000
}

extension MirrorRow {
    /// Drops the version, which has no meaning in the next history.
    mutating func forgetHistory() {
        guard baseVersion > 0 else { return }
        // A stub stays one until the next listing brings the record.
        if stub != nil { return baseVersion = -1 }
        setBase(base, version: -1, at: Timestamp(milliseconds: syncedMS ?? 0))
    }
}
