import SyncSQLite

/// One connection to an SQLite database: a file of this process alone, or memory.
final class SQLiteDatabase: HubDatabase {
    enum Place: HubDatabasePlace, Hashable {
        case memory
        /// Reads and writes; created if it does not exist.
        case file(String)
        /// Only reads, beside another process that writes.
        case readOnly(String)

        var description: String {
            switch self {
            case .memory: "memory"
            case .file(let path), .readOnly(let path): path
            }
        }

        func open() throws(DatabaseError) -> any HubDatabase { try SQLiteSchema.open(self) }
        func openForReading(mayLag: Bool) throws(DatabaseError) -> any HubDatabase { try SQLiteSchema.openForReading(self) }
    }

    let spelling = SQLSpelling(
        byFeed: " INDEXED BY record_feed", isFeedByExpression: false, tokens: "0", keepsLog: false, keys: .sqlite)
    var isShared: Bool { false }
    var mayBeUndone: Bool { false }

    private let connection: SQLiteConnection

    init(_ place: Place) throws(DatabaseError) {
        let path: SQLiteConnection.Place =
            switch place {
            case .memory: .memory
            case .file(let path): .writing(path)
            case .readOnly(let path): .reading(path)
            }
        connection = try DatabaseError.of { () throws(SQLiteError) in try SQLiteConnection(path) }
        connection.wait(forLockMS: SQLiteDatabase.busyMilliseconds)
    }

    private static let busyMilliseconds: Int32 = 5_000

    // MARK: Statements

    /// Runs statements that have no values and whose rows do not matter.
    func execute(_ sql: String) throws(DatabaseError) {
        try DatabaseError.of { () throws(SQLiteError) in try connection.execute(sql) }
    }

    func write(_ sql: String, _ values: [DatabaseValue]) throws(DatabaseError) {
        try step(sql, values) { _ in false }
    }

    func read(_ sql: String, _ values: [DatabaseValue], _ body: (any DatabaseRow) -> Bool) throws(DatabaseError) {
        try step(sql, values) { body($0) }
    }

    func stream(_ sql: String, _ values: [DatabaseValue], _ body: (any DatabaseRow) -> Bool) throws(DatabaseError) {
        try read(sql, values, body)
    }

    func write(_ statement: RowStatement, _ rows: [[DatabaseValue]]) throws(DatabaseError) {
        for row in rows { try write(statement.single, row) }
    }

    func answer(_ questions: [Question], _ body: (Int, Int, any DatabaseRow) -> Void) throws(DatabaseError) {
        for (index, question) in questions.enumerated() {
            for (set, values) in question.sets.enumerated() {
                try step(question.lookUp.sql, values) { row in
                    body(index, set, row)
                    return true
                }
            }
        }
    }

    /// To be called before the database below the statements is replaced.
    func forgetStatements() {
        connection.forgetStatements()
    }

    /// Each statement was complete when it returned.
    func waitForWrites() {}

    func changes() -> Int { connection.changes }

    /// An older program refuses the schema already.
    func require(_ feature: DatabaseFeature) throws(DatabaseError) {}

    func size() throws(DatabaseError) -> DatabaseSize? {
        let page = try number("PRAGMA page_size")
        return DatabaseSize(
            bytes: try number("PRAGMA page_count") * page, freeBytes: try number("PRAGMA freelist_count") * page)
    }

    /// Returns unused pages to the file system, up to this number.
    ///
    /// - Returns: The number of bytes.
    func shrink(pages: Int) throws(DatabaseError) -> Int64 {
        let before = try size()?.bytes ?? 0
        try execute("PRAGMA incremental_vacuum(\(pages))")
        return max(0, before - (try size()?.bytes ?? before))
    }

    // MARK: Transactions

    var isInTransaction: Bool { connection.isInTransaction }

    /// The file has one writer, and IMMEDIATE makes it this transaction from its beginning.
    func begin(_ purpose: TransactionPurpose) throws(DatabaseError) {
        guard purpose != .reading else { return try perform("BEGIN") }
        if purpose == .writingIfFree || purpose == .removing { connection.wait(forLockMS: Int32(TransactionPurpose.busyMilliseconds)) }
        defer { connection.wait(forLockMS: SQLiteDatabase.busyMilliseconds) }
        try perform("BEGIN IMMEDIATE")
    }

    func commit() throws(DatabaseError) { try perform("COMMIT") }

    func commit(_ decision: Decision) throws(DatabaseError) -> Int64 {
        throw DatabaseError(.other, doing: "commit", detail: "a file has one writer, which decides with the lock")
    }

    var reads: Int { 0 }
    var roundTrips: Int { 0 }

    func rollback() throws(DatabaseError) { try execute("ROLLBACK") }

    /// Runs a statement that is kept prepared. Every request needs a transaction.
    private func perform(_ sql: StaticString) throws(DatabaseError) {
        try DatabaseError.of { () throws(SQLiteError) in
            let statement = try connection.statement(sql)
            defer { statement.reset() }
            _ = try statement.step()
        }
    }

    private func step(
        _ sql: String, _ values: [DatabaseValue], _ body: (SQLiteStatement) -> Bool
    ) throws(DatabaseError) {
        do throws(SQLiteError) {
            let statement = try connection.statement(of: sql)
            defer {
                statement.reset()
                statement.forgetValues()
            }
            var place: Int32 = 1
            for value in values {
                switch value {
                case .null: try statement.bind(place, Int64?.none)
                case .int(let value): try statement.bind(place, value)
                case .text(let value): try statement.bind(place, value)
                case .blob(let bytes): try statement.bind(place, bytes)
                }
                place += 1
            }
            while try statement.step() {
                if !body(statement) { return }
            }
        } catch {
            throw DatabaseError(error)
        }
    }

    // MARK: Seals

    var reservedBytes: Int { connection.reservedBytes }
    var checksSeals: Bool { connection.checksSeals }

    /// Reserves room for the seals of the pages in a database that has no page yet.
    func reserveSeals() {
        connection.reserveSeals()
    }

    /// Rewrites the database with room for seals.
    ///
    /// - Returns: `false` when there is no room for that on the disk or in memory; nothing has changed then.
    func rewriteWithSeals() throws(DatabaseError) -> Bool {
        do throws(SQLiteError) {
            connection.reserveSeals()
            try connection.execute("VACUUM")
            return true
        } catch {
            guard error.cause == .full || error.cause == .outOfMemory else { throw DatabaseError(error) }
            return false
        }
    }

    /// Writes the log back into the file, as far as readers allow it.
    func writeBack() throws(DatabaseError) {
        _ = try DatabaseError.of { () throws(SQLiteError) in try connection.checkpoint(truncating: true) }
    }

    // MARK: Copies

    /// The whole database as bytes.
    func serialize() throws(DatabaseError) -> [UInt8] {
        try DatabaseError.of { () throws(SQLiteError) in try connection.serialize() }
    }

    /// Copies all of it into another database, as it is at one moment.
    func copy(into target: SQLiteDatabase) throws(DatabaseError) {
        try DatabaseError.of { () throws(SQLiteError) in try connection.copy(into: target.connection) }
    }

    /// Removes all rows. The tables and the prepared statements stay.
    func removeRows() throws(DatabaseError) {
        try DatabaseError.of { () throws(SQLiteError) in try connection.removeRows() }
    }

    /// Writes the log back into the file.
    func checkpoint() {
        // A reader in another process may delay it to a later call.
        _ = try? execute("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// Replaces the content of an in-memory database.
    func deserialize(_ bytes: [UInt8]) throws(DatabaseError) {
        try DatabaseError.of { () throws(SQLiteError) in try connection.deserialize(bytes) }
    }
}

extension SQLiteStatement: DatabaseRow {}

extension DatabaseError {
    fileprivate init(_ error: SQLiteError) {
        let kind: Kind =
            switch error.cause {
            case .corrupt, .notADatabase: .corrupt
            // After a failed call the state on disk is unknown, whatever the reason: the hub opens the database again.
            case _ where error.isFailedCall: .io
            case .busy: .busy
            case .full: .full
            case .io: .io
            case .readOnly: .readOnly
            case .cannotOpen: .cannotOpen
            case .constraint, .outOfMemory, .interrupted, .other: .other
            }
        self.init(kind, doing: error.doing, detail: error.detail)
    }

    fileprivate static func of<Value>(_ body: () throws(SQLiteError) -> Value) throws(DatabaseError) -> Value {
        do throws(SQLiteError) { return try body() } catch { throw DatabaseError(error) }
    }
}
