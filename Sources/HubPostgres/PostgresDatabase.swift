import HubServer

/// A hub's database on a server.
///
/// The statements of the hub are in `HubServer/Store/HubStore.swift` and its extensions. Only what this server alone needs is here: its
/// schema, the lock of a push (``PostgresBurst``), rows sent as a set (``PostgresSets``) and keys (``PostgresKeys``).
///
/// **Order in which commit numbers become visible** (PROTOCOL A3). Every transaction that writes locks the one row of `hub`, reads the
/// newest commit number (``CommitLog``) after that, and keeps the lock to its end. There is therefore one writer at a time over all
/// replicas, and the next one reads the number only when the earlier commits are visible. A reader whose snapshot has commit number N has
/// all below it.
///
/// **Pushes take the lock last** (``commit(_:)``). They are decided over a snapshot. Then one round trip locks the row, compares what the
/// decision rests on, writes, and commits. All large values are at the server before it takes the lock: a hub that is stopped or cut off
/// in the middle of sending them has locked nothing, and what follows leaves in one piece (``PostgresBurst``). All other transactions lock
/// first, as SQLite's BEGIN IMMEDIATE, and keep the lock between round trips. When their hub stops, the server ends them
/// (``PostgresPlace/Patience``).
///
/// Rejected alternatives: an advisory lock, which poolers break; a sequence with a feed that stops at the oldest running transaction, which
/// lets one hanging transaction stop every pull. The remaining cost of the lock is that the replicas write one after the other; they read
/// and decide beside each other.
///
/// Old rows are removed without the lock (`TransactionPurpose.removing`), and the removal gets no number in `commit_log`.
/// - Events: no feed has them, and a verdict rests on the key of its mutation, which stays. A writer that changes one of them meanwhile
///   gives it a newer commit, and the removal, which names the commits, leaves it and begins anew.
/// - Deletions: a reader sees the row of the deletion or the higher horizon, in one snapshot. A decision that has read the row counts as
///   made before the removal: it writes the same, and the horizon only refuses more cursors. The removal locks its rows first, without
///   waiting for those that a push has locked (`SQLSpelling.lockingFreeRows`), because a row that a push changes is no old deletion any
///   more.
///
/// **Isolation.** Writers run READ COMMITTED: after they have the lock they read the newest state, and no other writer can change it.
/// REPEATABLE READ would fix the snapshot when they begin to wait, and fail whenever another writer committed meanwhile. Readers run
/// REPEATABLE READ: one snapshot for the number and for the rows. A transaction that the server refuses (40001) is repeated.
///
/// **Standbys.** Where the server commits to a standby, too (`synchronous_standby_names`), COMMIT returns when the standby has it. A person
/// who cancels that wait makes the server answer COMMIT for a change that is on one machine alone; it is not taken for a commit.
final class PostgresDatabase: HubDatabase {
    private let connection: PostgresConnection
    private(set) var isInTransaction = false
    private var setStatements = SetStatements()
    /// Set in a transaction that decides without the lock.
    private var burst: PostgresBurst?
    private(set) var reads = 0
    /// The present transaction has failed because the lock was not free.
    private var lockWasBusy = false
    /// The purpose of the present or the latest transaction; `nil`: there was none.
    private var purpose: TransactionPurpose?
    /// The server commits to a standby, too, as the latest transaction that was asked has found.
    private var hasStandby = false
    /// It has not asked yet which programs the schema is for: that goes with its first question.
    private var checksSchema = false
    /// The present transaction has the lock, and gets a number at its end.
    private var isNumbered = false
    #if ABLATIONS
        var ablation: PostgresPlace.Ablation?
    #endif

    static let spelling = SQLSpelling(
        byFeed: "", isFeedByExpression: true, tokens: "(SELECT version FROM token_book)", keepsLog: true, keys: PostgresKeys.tables,
        // The row has the length of a value that is stored out of line (PostgreSQL 15, 73.2.1).
        bytesOfDocuments: "SELECT coalesce(sum(octet_length(data)), 0) FROM record WHERE entity = ?1 AND id > ?2 AND id <= ?3",
        byBytes: " COLLATE \"C\"", lockingFreeRows: " FOR UPDATE SKIP LOCKED", newestRow: " ORDER BY n DESC LIMIT 1")
    var spelling: SQLSpelling { PostgresDatabase.spelling }
    var isShared: Bool { true }
    var mayBeUndone: Bool { !hasLock && hasStandby }
    /// The present or the latest transaction commits with the lock of the hub. The server waits for a standby with it, as a row that is
    /// locked is a change; a transaction that has changed nothing does not wait.
    private var hasLock: Bool {
        switch purpose {
        case .deciding, .writing, .writingIfFree: true
        case .reading, .removing, nil: false
        }
    }

    init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    // MARK: Transactions

    func begin(_ purpose: TransactionPurpose) throws(DatabaseError) {
        isInTransaction = true
        (burst, reads, isNumbered, lockWasBusy) = (nil, 0, false, false)
        (self.purpose, checksSchema) = (purpose, purpose == .reading)
        switch purpose {
        case .deciding:
            try open("REPEATABLE READ, READ ONLY")
            // Sent with the first question. When it fails, the transaction begins again with the lock, and says why.
            try write(PostgresSchema.guardOfReader, [])
            burst = PostgresBurst()
            #if ABLATIONS
                burst?.ablation = ablation
            #endif
            return
        case .reading:
            // A newer version of this program may have changed the schema, while this one runs, to one that it does not understand.
            return try open("REPEATABLE READ, READ ONLY")
        case .removing:
            try open("READ COMMITTED, READ WRITE")
            if connection.knowsLockTimeout { try write(PostgresDatabase.briefLock, []) }
        case .writing, .writingIfFree:
            try open("READ COMMITTED, READ WRITE")
            if purpose == .writingIfFree, connection.knowsLockTimeout {
                try write(PostgresDatabase.briefLock, [])
            }
            // Pushes that could not be decided without the lock: a hub that stops while it has the lock is cut off soon.
            if purpose == .writingIfFree { try write(connection.shortIdleTime, []) }
            try write(PostgresBurst.lock, [])
            isNumbered = true
        }
        do throws(DatabaseError) {
            let found = try first(PostgresSchema.oldestReader) { ($0.int(0), $0.int(1)) }
            try PostgresSchema.check(found?.0)
            hasStandby = found?.1 == 1
        } catch {
            lockWasBusy = error.kind == .busy && isNumbered
            throw error
        }
    }

    private static func begin(_ mode: String) -> String { "BEGIN TRANSACTION ISOLATION LEVEL \(mode)" }

    private func open(_ mode: String) throws(DatabaseError) {
        try write(PostgresDatabase.begin(mode), [])
        try connection.renewPlans()
    }

    private static let briefLock = "SET LOCAL lock_timeout = \(TransactionPurpose.busyMilliseconds)"

    func commit() throws(DatabaseError) {
        if isNumbered {
            try write(CommitLog.note, [])
            try write(CommitLog.trim, [])
        }
        try write("COMMIT", [])
        // Nothing depends on the end of a transaction that has written nothing.
        if purpose == .reading {
            try connection.finishUnattended()
            isInTransaction = false
            return
        }
        try connection.finish()
        try checkCommit()
    }

    func commit(_ decision: Decision) throws(DatabaseError) -> Int64 {
        guard let burst else { throw DatabaseError(.other, doing: "COMMIT", detail: "the transaction does not decide") }
        self.burst = nil
        // Ends the snapshot.
        try write("COMMIT", [])
        try write(PostgresDatabase.begin("READ COMMITTED, READ WRITE"), [])
        if decision.isBrief, connection.knowsLockTimeout { try write(PostgresDatabase.briefLock, []) }
        let head: Int64?
        do throws(DatabaseError) {
            head = try burst.send(decision, connection, &setStatements)
        } catch {
            lockWasBusy = error.kind == .busy
            // A key that another hub has written meanwhile: keys that are written are not compared before.
            guard error.isOfUniqueness else { throw error }
            throw DatabaseError(.contended, doing: error.doing, detail: error.detail)
        }
        try checkCommit()
        guard let head else { throw DatabaseError(.contended, doing: "COMMIT", detail: "the row of the hub is missing") }
        return head - decision.basis.head
    }

    /// Ends a transaction whose COMMIT was answered.
    ///
    /// - Throws: When the server has not committed, or not on a standby.
    private func checkCommit() throws(DatabaseError) {
        // When a statement of the transaction has failed, COMMIT is a ROLLBACK and no error.
        guard connection.lastTag == "COMMIT" else {
            throw DatabaseError(.other, doing: "COMMIT", detail: "the server answered \(connection.lastTag)")
        }
        guard !connection.isUnreplicated else {
            throw DatabaseError(.lost, doing: "COMMIT", detail: "its wait for a standby was cancelled; only the primary has the change")
        }
        isInTransaction = false
    }

    func rollback() throws(DatabaseError) {
        burst = nil
        try? connection.finish()  // A failure here is undone by the rollback.
        try write("ROLLBACK", [])
        try connection.finish()
        isInTransaction = false
        guard lockWasBusy else { return }
        lockWasBusy = false
        // A server that refuses this lets the hubs wait; a connection that breaks shows with its next use.
        _ = try? first(PostgresDatabase.endStalled, .int(connection.stalledMilliseconds)) { $0.int(0) }
    }

    /// Ends sessions that have the lock, and have received nothing for some time in the middle of what they were sent: their hub has
    /// stopped, or is cut off. Sessions between two round trips have a limit of the server. Other roles are left alone: their state is not
    /// shown to this one.
    static let endStalled = """
        SELECT CASE WHEN pg_terminate_backend(a.pid) THEN 1 ELSE 0 END FROM pg_stat_activity a
        WHERE a.state = 'active' AND a.wait_event = 'ClientRead' AND a.usename = current_user AND a.datname = current_database()
        AND a.state_change < clock_timestamp() - CAST(?1 AS BIGINT) * interval '1 millisecond'
        AND a.pid IN (SELECT l.pid FROM pg_locks l WHERE l.relation = CAST('hub' AS regclass) AND l.mode = 'RowShareLock' AND l.granted)
        """

    // MARK: Statements

    func execute(_ sql: String) throws(DatabaseError) {
        try write(sql, [])
    }

    func write(_ sql: String, _ values: [DatabaseValue]) throws(DatabaseError) {
        if burst != nil {
            burst?.add(sql, values)
            return
        }
        try connection.send(sql, values.map { .value($0) })
    }

    func read(_ sql: String, _ values: [DatabaseValue], _ body: (any DatabaseRow) -> Bool) throws(DatabaseError) {
        reads += 1
        let ahead = try sendSchemaQuestion()
        try connection.send(sql, values.map { .value($0) })
        try finish(behind: ahead, reading: 1) { _, row in body(row) }
    }

    /// - Returns: The number of questions that were sent.
    private func sendSchemaQuestion() throws(DatabaseError) -> Int {
        guard checksSchema else { return 0 }
        checksSchema = false
        try connection.send(PostgresSchema.oldestReader, [])
        // Until the answer is there, the transaction counts as one that may be undone.
        hasStandby = true
        return 1
    }

    private func finish(behind ahead: Int, reading count: Int, _ body: (Int, PostgresRow) -> Bool) throws(DatabaseError) {
        var oldestReader: Int64?
        do throws(DatabaseError) {
            try connection.finish(reading: ahead + count) { place, row in
                if place >= ahead { return body(place - ahead, row) }
                oldestReader = row.int(0)
                hasStandby = row.int(1) != 0
                return true
            }
        } catch {
            // The statements may fail because the schema is another one.
            if let oldestReader { try PostgresSchema.check(oldestReader) }
            throw error
        }
        if ahead > 0 { try PostgresSchema.check(oldestReader) }
    }

    func write(_ statement: RowStatement, _ rows: [[DatabaseValue]]) throws(DatabaseError) {
        if burst != nil {
            burst?.add(statement, rows)
            return
        }
        let sql = setStatements.text(of: statement.single) { PostgresSets.statement(statement) }
        for slice in PostgresSets.slices(of: rows) { try connection.send(sql, PostgresSets.columns(slice, statement.kinds)) }
    }

    func answer(_ questions: [Question], _ body: (Int, Int, any DatabaseRow) -> Void) throws(DatabaseError) {
        let asked = questions.indices.filter { !questions[$0].sets.isEmpty }
        if asked.isEmpty { return }
        reads += 1
        let ahead = try sendSchemaQuestion()
        for index in asked {
            let question = questions[index]
            let sql = setStatements.text(of: question.lookUp.sql) { PostgresSets.lookUp(question.lookUp) }
            try connection.send(sql, PostgresSets.columns(question.sets[...], question.lookUp.kinds))
        }
        try finish(behind: ahead, reading: asked.count) { place, row in
            // The index of the set is the last column.
            body(asked[place], Int(row.int(row.count - 1)) - 1, row)
            return true
        }
    }

    func stream(_ sql: String, _ values: [DatabaseValue], _ body: (any DatabaseRow) -> Bool) throws(DatabaseError) {
        reads += 1
        // The question about the schema goes with a statement that is read to its end, which a cursor is not.
        if checksSchema { _ = try number("SELECT 1") }
        try connection.send("DECLARE stream NO SCROLL CURSOR FOR " + sql, values.map { .value($0) })
        var isWanted = true
        var count = 0
        repeat {
            count = 0
            try connection.send("FETCH 500 FROM stream", [])
            try connection.finish(reading: 1) { _, row in
                count += 1
                isWanted = body(row)
                return isWanted
            }
        } while isWanted && count == 500
        try connection.send("CLOSE stream", [])
    }

    func changes() throws(DatabaseError) -> Int {
        try connection.finish()
        return connection.lastCount
    }

    func require(_ feature: DatabaseFeature) throws(DatabaseError) {
        let version: DatabaseValue =
            switch feature {
            case .scopes: .int(PostgresSchema.withScopes)
            case .versions: .int(PostgresSchema.withVersions)
            case .entitySettings: .int(PostgresSchema.withEntitySettings)
            }
        try write("UPDATE hub_schema SET oldest_reader = ? WHERE oldest_reader < ?", [version, version])
    }

    var roundTrips: Int { connection.roundTrips }

    /// The server's administrator has better figures.
    func size() throws(DatabaseError) -> DatabaseSize? { nil }

    /// Runs work on whole tables, which may take any time. The limits are back also when it fails: the connection may serve later.
    func withoutTimeLimits(_ body: () throws(DatabaseError) -> Void) throws(DatabaseError) {
        try connection.setTimeLimits(false)
        do throws(DatabaseError) {
            try body()
        } catch {
            try connection.setTimeLimits(true)
            throw error
        }
        try connection.setTimeLimits(true)
    }

    func waitForWrites() throws(DatabaseError) {
        if connection.isWaiting { try connection.finish() }
    }
}
