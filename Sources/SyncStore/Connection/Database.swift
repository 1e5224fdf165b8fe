import Glibc
import SyncSQLite

/// The store's connection to one SQLite database. It must not be used by two threads at once.
///
/// Everything thrown is a ``StoreError`` with SQLite's extended code.
package final class Database {
    private let connection: SQLiteConnection
    /// ``OpeningSequence`` has set this connection up.
    var isSet = false

    /// Number of composed statements that are kept. People and apps use the same few combinations of filters again and again.
    private static let composedMax = 32

    /// Opens or creates the file; nothing is written yet.
    package static func open(path: String) throws(StoreError) -> Database {
        try Database(.writing(path))
    }

    /// Opens a connection that cannot write, and never moves the WAL into the database, not even when it is the last to close.
    ///
    /// - Parameter withoutLog: For a disk on which no file can be created, because SQLite needs two for a log. Only the database file is
    ///   read, as if it were immutable. Use it for one query, and only while the log is empty.
    package static func openReader(path: String, withoutLog: Bool = false) throws(StoreError) -> Database {
        let database = try Database(withoutLog ? .readingAlone(path) : .reading(path))
        do throws(SQLiteError) { try database.connection.keepLogWhenClosing() } catch { throw StoreError(error) }
        // The timeout covers the moments in which the writer restarts or recovers the log. Sorts stay in memory, because a temporary file
        // would cause flash writes that are not counted.
        try database.execute(
            """
            PRAGMA busy_timeout = 1000;
            PRAGMA query_only = ON;
            PRAGMA temp_store = MEMORY;
            PRAGMA cache_size = -1000;
            PRAGMA mmap_size = 0;
            PRAGMA wal_autocheckpoint = 0;
            PRAGMA cell_size_check = ON;
            PRAGMA trusted_schema = OFF;
            """)
        return database
    }

    /// Returns whether every page of the database can be read, matches its seal and fits the others. It reads the whole file.
    package static func isWhole(path: String) -> Bool {
        do throws(StoreError) {
            return try StoreReads(database: openReader(path: path)).check().isEmpty
        } catch {
            return false
        }
    }

    package static func inMemory() throws(StoreError) -> Database {
        try Database(.memory)
    }

    /// A new database in memory with empty tables.
    package static func empty() throws(StoreError) -> Database {
        let database = try inMemory()
        try database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        try Schema.bringUpToDate(database)
        return database
    }

    private init(_ place: SQLiteConnection.Place) throws(StoreError) {
        do throws(SQLiteError) {
            connection = try SQLiteConnection(place, textsMax: Self.composedMax)
        } catch {
            throw StoreError(error)
        }
    }

    /// `nil` for a database in memory.
    package var path: String? { connection.place.path }

    /// The connection reads the file alone, without its log, and ignores changes by others.
    var isImmutable: Bool { if case .readingAlone = connection.place { true } else { false } }

    /// A copy in memory of the committed content, like an old image of the disk.
    package func copy() throws(StoreError) -> Database {
        let target = try Database.inMemory()
        do throws(SQLiteError) { try connection.copy(into: target.connection) } catch { throw StoreError(error) }
        return target
    }

    /// SQL of the rows of this database, for ``becomeNew(_:)``.
    package func insertionOfRows() throws(StoreError) -> String {
        do throws(SQLiteError) { return try connection.insertionOfRows() } catch { throw StoreError(error) }
    }

    /// Makes a database in memory, whose process is gone, one without a past: for tests that open thousands of stores. It keeps its
    /// prepared statements.
    ///
    /// - Parameter rows: The rows of a new database (``insertionOfRows()``).
    /// - Throws: After an error the database must not be used any more.
    package func becomeNew(_ rows: String) throws(StoreError) {
        do throws(SQLiteError) { try connection.removeRows() } catch { throw StoreError(error) }
        try execute(rows)
    }

    /// Writes the committed content into a new file, without a log and without waiting for the medium.
    func write(to file: String) throws(StoreError) {
        let statement = try prepare("VACUUM INTO ?")
        defer { statement.finalize() }
        try bind(statement, [.text(file)])
        _ = try step(statement)
    }

    /// Makes closing leave all files alone: another process may have files of these names by then.
    func keepFilesWhenClosing() {
        // Only an unknown switch is refused.
        try? connection.keepLogWhenClosing()
    }

    // MARK: - Statements

    /// The prepared statement of this literal, with its parameters bound.
    ///
    /// - Precondition: The statement is not being stepped through at present.
    func statement(_ sql: StaticString, _ values: [SQLiteValue] = []) throws(StoreError) -> SQLiteStatement {
        do throws(SQLiteError) {
            let statement = try connection.statement(sql)
            try statement.bind(values)
            return statement
        } catch {
            throw StoreError(error)
        }
    }

    /// The prepared statement of composed SQL, with its parameters bound.
    ///
    /// - Precondition: The statement is not being stepped through at present.
    func composed(_ sql: String, _ values: [SQLiteValue] = []) throws(StoreError) -> SQLiteStatement {
        do throws(SQLiteError) {
            let statement = try connection.statement(of: sql)
            try statement.bind(values)
            return statement
        } catch {
            throw StoreError(error)
        }
    }

    /// A separate statement that the caller finalizes.
    func prepare(_ sql: String) throws(StoreError) -> SQLiteStatement {
        do throws(SQLiteError) { return try connection.prepare(sql) } catch { throw StoreError(error) }
    }

    func bind(_ statement: SQLiteStatement, _ values: [SQLiteValue]) throws(StoreError) {
        do throws(SQLiteError) { try statement.bind(values) } catch { throw StoreError(error) }
    }

    /// - Returns: `true` when there is a current row now. The statement is reset when it throws.
    func step(_ statement: SQLiteStatement) throws(StoreError) -> Bool {
        do throws(SQLiteError) { return try statement.step() } catch { throw StoreError(error) }
    }

    /// Runs any number of statements that have no parameters and no needed rows.
    func execute(_ sql: String) throws(StoreError) {
        do throws(SQLiteError) { try connection.execute(sql) } catch { throw StoreError(error) }
    }

    /// - Returns: Number of changed rows.
    @discardableResult
    func run(_ sql: StaticString, _ values: SQLiteValue...) throws(StoreError) -> Int {
        let statement = try statement(sql, values)
        defer { statement.reset() }
        _ = try step(statement)
        return connection.changes
    }

    /// The first row, if there is one.
    func first<Value>(
        _ sql: StaticString, _ values: SQLiteValue..., read: (SQLiteStatement) throws(StoreError) -> Value
    ) throws(StoreError) -> Value? {
        let statement = try statement(sql, values)
        defer { statement.reset() }
        guard try step(statement) else { return nil }
        return try read(statement)
    }

    /// The first column of the first row.
    func number(_ sql: StaticString, _ values: SQLiteValue...) throws(StoreError) -> Int64? {
        let statement = try statement(sql, values)
        defer { statement.reset() }
        guard try step(statement) else { return nil }
        return statement.optionalInt(0)
    }

    func each(
        _ sql: StaticString, _ values: SQLiteValue..., body: (SQLiteStatement) throws(StoreError) -> Void
    ) throws(StoreError) {
        let statement = try statement(sql, values)
        defer { statement.reset() }
        while try step(statement) {
            try checkTime()
            try body(statement)
        }
    }

    func each(
        _ sql: StaticString, _ values: SQLiteValue..., while goesOn: () -> Bool,
        body: (SQLiteStatement) throws(StoreError) -> Void
    ) throws(StoreError) {
        let statement = try statement(sql, values)
        defer { statement.reset() }
        while goesOn(), try step(statement) {
            try checkTime()
            try body(statement)
        }
    }

    func all<Value>(
        _ sql: StaticString, _ values: SQLiteValue..., read: (SQLiteStatement) throws(StoreError) -> Value
    ) throws(StoreError) -> [Value] {
        let statement = try statement(sql, values)
        defer { statement.reset() }
        var result: [Value] = []
        while try step(statement) { result.append(try read(statement)) }
        return result
    }

    // MARK: - State

    /// Write transactions that were committed over this connection.
    package var commits: Int { connection.commits }

    package var isInTransaction: Bool { connection.isInTransaction }

    /// The present value of a setting of the connection or the file.
    package func pragma(_ name: String) throws(StoreError) -> String {
        do throws(SQLiteError) { return try connection.pragma(name) } catch { throw StoreError(error) }
    }

    /// Steps of SQLite's virtual machine since the connection was opened, for tests that count work instead of time.
    package var stepsTaken: Int { connection.stepsTaken }

    /// SQL of all statements that were prepared and kept on this connection, for tests of their query plans.
    package var keptSQL: [String] { connection.keptSQL }

    /// Memory of cached pages, bytes; for tests.
    var cachedBytes: Int { connection.cachedBytes }

    /// Returns cached pages and the bound values of all statements, which may be documents at the size limit.
    package func releaseMemory() {
        connection.releasePages()
    }

    /// Releases the memory of cached pages and of freed allocations. The pages are read again when they are needed.
    func release() {
        connection.releaseMemory()
    }

    // MARK: - Seals

    /// Reserves room for the seals of the pages (`Seal.h`) in a database that has no page yet, or that VACUUM is about to rewrite.
    func reserveSeals() {
        connection.reserveSeals()
    }

    /// Bytes at the end of each page that SQLite does not use.
    var reservedBytes: Int { connection.reservedBytes }

    /// `true` when every page that is read from the file is compared with its seal.
    package var checksSeals: Bool { connection.checksSeals }

    // MARK: - The log

    /// Pages in the WAL after the last commit.
    var walPages: Int { connection.walPages }

    /// Counts the pages of the WAL from now on.
    func watchWAL() {
        connection.watchWAL()
    }

    /// Moves as much of the WAL as possible into the database. With `truncating` it moves everything and truncates the WAL.
    ///
    /// It never waits: a reader may hold its snapshot for seconds, and this thread also enqueues.
    ///
    /// - Returns: `true` when the checkpoint was complete.
    @discardableResult
    package func checkpoint(truncating: Bool) throws(StoreError) -> Bool {
        connection.wait(forLockMS: 0)
        defer { connection.wait(forLockMS: Self.busyTimeoutMS) }
        do throws(SQLiteError) { return try connection.checkpoint(truncating: truncating) } catch { throw StoreError(error) }
    }

    /// Time that the writing connection waits for another process that has the file open by mistake, milliseconds.
    static let busyTimeoutMS: Int32 = 5_000

    /// Size of the WAL file, bytes; 0 when there is none.
    var walFileBytes: Int64 {
        guard let path else { return 0 }
        var facts = stat()
        return stat(path + "-wal", &facts) == 0 ? Int64(facts.st_size) : 0
    }

    // MARK: - Time

    /// Makes every read of `body` fail with `.tooSlow` once `isOver` returns `true`.
    func bounded<Value>(
        by isOver: @escaping () -> Bool, _ body: () throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        try connection.bounded(by: isOver, body)
    }

    /// SQLite checks the time by its own steps; the work on each row between them may take longer.
    private func checkTime() throws(StoreError) {
        guard connection.isOverTime else { return }
        throw StoreError(.tooSlow, doing: "read", detail: "it took longer than a read may")
    }
}

extension StoreError {
    init(_ error: SQLiteError) {
        let code: Code =
            switch error.cause {
            case .full: .diskFull
            case .io: .ioError
            case .corrupt: .corrupt
            case .notADatabase: .notADatabase
            case .busy: .locked
            case .readOnly: .readOnly
            case .cannotOpen: .cannotOpen
            case .constraint: .constraint
            case .outOfMemory: .outOfMemory
            case .interrupted: .tooSlow
            case .other: .other
            }
        self.init(code, doing: error.doing, detail: error.detail, result: error.result)
    }
}
