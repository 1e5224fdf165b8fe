package import SyncCore
import SyncSQLite

/// All reads, on the writing connection or on a reader's own.
///
/// A mutation without its narrow row is new and pending (`Store+Intake.swift`); every query here allows for that.
package struct StoreReads {
    let database: Database

    package init(database: Database) {
        self.database = database
    }

    // MARK: - Mutations

    /// - Parameter now: Present time, to express the next attempt by the present wall clock.
    package func mutation(_ key: MutationKey, at now: Moment) throws(StoreError) -> MutationSnapshot? {
        guard let seq = UUIDv7.carried(in: key.text) else { return nil }
        let ages = try ages(at: now)
        let found = try database.first(
            """
            SELECT p.*, m.*, e.name, a.name, i.key, j.state FROM payload p LEFT JOIN mutation m ON m.seq = p.seq
            JOIN entity e ON e.eid = p.eid JOIN app a ON a.aid = p.aid LEFT JOIN payload i ON i.seq = m.into_seq
            LEFT JOIN mutation j ON j.seq = m.into_seq
            WHERE p.seq = ?
            """, .int(seq)
        ) { row throws(StoreError) in MutationSnapshot(row, ages, at: now) }
        return found?.key == key ? found : nil
    }

    /// The states of a mutation that the journal still has, with their times, oldest first.
    package func history(of key: MutationKey) throws(StoreError) -> [MutationHistory] {
        guard let seq = UUIDv7.carried(in: key.text) else { return [] }
        var history: [MutationHistory] = []
        try database.each(
            "SELECT at_ms, code, items FROM event WHERE kind = 0 AND low <= ? AND high >= ? ORDER BY n", .int(seq), .int(seq)
        ) { row throws(StoreError) in
            guard let state = MutationState(rawValue: Int(clamping: row.int(1))), ItemList.items(row.text(2)).contains(seq)
            else { return }
            history.append(MutationHistory(at: Timestamp(milliseconds: row.int(0)), state: state))
        }
        // The journal does not have a new event yet; its row gives the time.
        let taken = try database.number(
            "SELECT created_ms FROM payload WHERE seq = ? AND NOT EXISTS (SELECT 1 FROM mutation WHERE seq = payload.seq)",
            .int(seq))
        if let taken { history.append(MutationHistory(at: Timestamp(milliseconds: taken), state: .pending)) }
        return history
    }

    /// Largest size of one page except for its last item, bytes: 1,000 documents at their limit would be half a gigabyte.
    package static let pageBytes = 4 << 20
    /// Bytes of a text that count for the order of a query; texts that are equal up to there are in the order of their ids.
    package static let sortBytes = 256

    /// Mutations in the order of `seq`. A query that searches too long ends in `.tooSlow` on a reader.
    package func mutations(_ query: MutationQuery, at now: Moment) throws(StoreError) -> MutationPage {
        let ages = try ages(at: now)
        var sql = """
            SELECT p.*, m.*, e.name, a.name, i.key, j.state FROM payload p LEFT JOIN mutation m ON m.seq = p.seq
            JOIN entity e ON e.eid = p.eid JOIN app a ON a.aid = p.aid LEFT JOIN payload i ON i.seq = m.into_seq
            LEFT JOIN mutation j ON j.seq = m.into_seq
            WHERE p.seq > ?
            """
        var values: [SQLiteValue] = [.int(max(query.after, try firstPossible(query.states) - 1))]
        if !query.states.isEmpty {
            let states = query.states.map { String($0.rawValue) }.sorted().joined(separator: ", ")
            sql += " AND coalesce(m.state, 0) IN (\(states))"
            if query.states.allSatisfy(\.isTroubled) {
                sql += " AND p.seq IN (SELECT seq FROM mutation WHERE \(StateSet.troubled.sql))"
            }
        }
        if let entity = query.entity {
            sql += " AND e.name = ?"
            values.append(.text(entity.text))
        }
        if let id = query.recordID {
            sql += " AND coalesce(p.id, p.key) = ?"
            values.append(.text(id.text))
            if let entity = query.entity, !query.states.isEmpty, !query.states.contains(where: \.isTerminal),
                let rid = try rid(of: RecordName(entity, id))
            {
                // The open mutations of one record have an index, however many others wait.
                sql += " AND p.seq IN (SELECT seq FROM mutation WHERE rid = ? AND \(StateSet.open.sql))"
                values.append(.int(rid))
            }
        }
        if let app = query.app {
            sql += " AND a.name = ?"
            values.append(.text(app.text))
        }
        sql += " ORDER BY p.seq LIMIT ?"
        let limit = min(max(1, query.limit), 1_000)
        values.append(.int(limit))
        let statement = try database.composed(sql, values)
        defer { statement.reset() }
        var page = MutationPage(items: [], next: nil)
        var bytes = 0
        while bytes < Self.pageBytes, try database.step(statement) {
            page.items.append(MutationSnapshot(statement, ages, at: now))
            for column in 0..<statement.columnCount { bytes += statement.byteCount(column) }
        }
        if page.items.count == limit || bytes >= Self.pageBytes { page.next = page.items.last?.seq }
        return page
    }

    /// A `seq` before which there are only settled mutations, of which a week may hold many.
    private func firstPossible(_ states: Set<MutationState>) throws(StoreError) -> Int64 {
        guard !states.isEmpty, states.allSatisfy(\.isUnanswered) else { return 1 }
        return try counter(.ackedSeq) + 1
    }

    // MARK: - Records

    /// - Returns: `nil` when the record was never known here, or nothing of it is left.
    package func record(_ name: RecordName) throws(StoreError) -> RecordSnapshot? {
        let eid = try database.number("SELECT eid FROM entity WHERE name = ?", .text(name.entity.text))
        guard let eid, let row = try MirrorRow.find(database, eid: eid, id: name.id.text), row.isKnown else { return nil }
        return try snapshot(row, name)
    }

    private func rid(of name: RecordName) throws(StoreError) -> Int64? {
        try database.number(
            "SELECT rid FROM record WHERE eid = (SELECT eid FROM entity WHERE name = ?) AND id = ?", .text(name.entity.text),
            .text(name.id.text))
    }

    func snapshot(_ row: MirrorRow, _ name: RecordName) throws(StoreError) -> RecordSnapshot {
        var snapshot = RecordSnapshot(row, name, pending: row.status == .synced ? [] : try openKeys(of: row.rid))
        if row.status == .conflict { snapshot.conflict = try openConflict(ofRecord: row.rid) }
        if row.isDamaged {
            // No content is shown rather than damaged content.
            snapshot.status = .error
            snapshot.isNotKept = false
            snapshot.base = nil
            snapshot.view = nil
        }
        return snapshot
    }

    /// Keys of the record's open mutations, oldest first, at most 100: enough for a picture, and bounded whatever an app does.
    func openKeys(of rid: Int64) throws(StoreError) -> [MutationKey] {
        try database.all(
            """
            SELECT p.key FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.state < 6 ORDER BY m.seq LIMIT 100
            """, .int(rid)
        ) { row throws(StoreError) in MutationKey(trusted: row.text(0)) }
    }

    // MARK: - Numbers

    func counter(_ number: Ledger.Number) throws(StoreError) -> Int64 {
        try database.number("SELECT n FROM counter WHERE name = ?", .text(number.name)) ?? number.initial
    }

    func ages(at now: Moment) throws(StoreError) -> AgeClock? {
        try MetaTable(database).text("age").flatMap { AgeClock($0) }
    }

    /// Runs SQLite's own check of the whole file.
    ///
    /// - Returns: Its complaints; empty when there are none.
    /// - Throws: A failed read when the medium could not read a page.
    package func check() throws(StoreError) -> [String] {
        let failedReads = SQLiteConnection.failedReads
        let complaints = try database.all("PRAGMA quick_check") { row throws(StoreError) in row.text(0) }
        // SQLite reports a page that it could not read as a complaint, although the next read may succeed.
        guard SQLiteConnection.failedReads == failedReads else {
            throw StoreError(.ioError, doing: "check the database", detail: complaints.first ?? "", result: SQLiteError.failedRead)
        }
        return complaints == ["ok"] ? [] : complaints
    }
}

extension MutationSnapshot {
    /// - Parameter row: `payload.*`, `mutation.*` (NULL for a new event), entity, app, key and state of the mutation that replaces it.
    init(_ row: SQLiteStatement, _ ages: AgeClock?, at now: Moment) {
        var payload = Payload(row, at: 0)
        // No content is shown rather than content that no app has sent.
        let isSound = Payload.isSound(row, at: 0)
        if !isSound { (payload.data, payload.unset, payload.operations) = (nil, nil, nil) }
        let isNew = row.isNull(Payload.columnCount)
        let outbox =
            isNew
            ? OutboxRow(seq: payload.seq, priority: payload.priority, eid: payload.eid, aid: payload.aid, rid: nil, bytes: payload.bytes)
            : OutboxRow(row, at: Payload.columnCount)
        let names = Payload.columnCount + OutboxRow.columnCount
        // Without a narrow row, the payload has the value.
        let ttlAge = isNew ? payload.ttlAge : outbox.ttlAge
        let canExpire = outbox.state == .pending && !outbox.isSent
        self.init(
            seq: payload.seq, key: MutationKey(trusted: payload.key),
            record: RecordName(EntityName(trusted: row.text(names)), payload.recordID), action: payload.action,
            state: outbox.state, priority: outbox.priority, app: AppName(trusted: row.text(names + 1)),
            uid: UInt32(clamping: payload.uid), author: payload.author, data: payload.data, unset: payload.unset,
            operations: payload.operations, dependsOn: payload.depends, group: payload.gid.map { GroupID(trusted: $0) },
            baseVersion: payload.baseVersion, createdAt: Timestamp(milliseconds: payload.createdMS), isSent: outbox.isSent,
            firstSentAt: outbox.firstSentMS.map { Timestamp(milliseconds: $0) }, attempts: Int(clamping: outbox.attempts),
            nextAttempt: outbox.nextAge.flatMap { age in ages?.wall(of: age, at: now) },
            expiresAt: canExpire ? ttlAge.flatMap { age in ages?.wall(of: age, at: now) } : nil,
            problem: isSound ? Problem.read(stored: outbox.problem) : Store.damaged,
            into: row.optionalText(names + 2).map { MutationKey(trusted: $0) },
            intoState: row.optionalInt(names + 3).flatMap { MutationState(rawValue: Int(clamping: $0)) },
            supersedes: payload.supersedes.flatMap { $0.isEmpty ? nil : MutationKey(trusted: $0) }, bytes: Int(clamping: payload.bytes))
    }
}
