import CSQLite
import Glibc

/// One connection to one SQLite database. It must not be used by two threads at once.
///
/// Statements are prepared once and kept. Files are opened by the way that compares pages with their seals (`Seal.h`).
package final class SQLiteConnection {
    package enum Place: Hashable, Sendable {
        case memory
        /// Reads and writes; created if it does not exist. Nothing is written yet.
        case writing(String)
        case reading(String)
        /// Reads the database file alone, without its log, as if nothing else could change it.
        case readingAlone(String)

        /// `nil` for memory.
        package var path: String? {
            switch self {
            case .memory: nil
            case .writing(let path), .reading(let path), .readingAlone(let path): path
            }
        }
    }

    package let place: Place
    /// Write transactions that were committed over this connection.
    package private(set) var commits = 0
    /// Pages in the WAL after the last commit, since ``watchWAL()``.
    package private(set) var walPages = 0

    let handle: OpaquePointer
    private var literals: [UnsafePointer<UInt8>: SQLiteStatement] = [:]
    /// The prepared statements of SQL that is no literal, by their text.
    private var texts: [String: SQLiteStatement] = [:]
    private let textsMax: Int
    /// The statements of ``removeRows()``, one for each table.
    private var removals: [SQLiteStatement] = []
    private var deadline: Deadline?

    /// - Parameter textsMax: Number of statements of ``statement(of:)`` that are kept.
    package init(_ place: Place, textsMax: Int = .max) throws(SQLiteError) {
        _ = Self.isSetUp
        let doing = "open \(place.path ?? "a database in memory")"
        if let path = place.path { try Self.checkKind(path, doing) }
        let (name, flags): (String, Int32) =
            switch place {
            case .memory: (":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY)
            case .writing(let path): (path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
            case .reading(let path): (path, SQLITE_OPEN_READONLY)
            case .readingAlone(let path): (Self.immutableName(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI)
            }
        var opened: OpaquePointer?
        let result = sqlite3_open_v2(
            name, &opened, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, place == .memory ? nil : CSQLITE_SEALING)
        guard result == SQLITE_OK, let opened else {
            let error = SQLiteError(result: result, on: opened, doing: doing)
            sqlite3_close_v2(opened)
            throw error
        }
        self.place = place
        self.textsMax = textsMax
        handle = opened
        sqlite3_commit_hook(
            handle,
            { me in
                if let me { Unmanaged<SQLiteConnection>.fromOpaque(me).takeUnretainedValue().commits += 1 }
                return 0
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    /// The path as a URI, with the characters escaped that a path may have and a URI may not (https://www.sqlite.org/uri.html, section 3).
    private static func immutableName(_ path: String) -> String {
        let name = path.utf8.reduce(into: "") { name, byte in
            let isPlain = byte == UInt8(ascii: "/") || (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
            if isPlain { return name.unicodeScalars.append(Unicode.Scalar(byte)) }
            name += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
        return "file:\(name)?immutable=1"
    }

    /// Refuses files that are not regular. Opening a FIFO would block until another process writes to it, and reading a device has unknown
    /// effects.
    private static func checkKind(_ path: String, _ doing: String) throws(SQLiteError) {
        var facts = stat()
        guard stat(path, &facts) == 0, facts.st_mode & S_IFMT != S_IFREG else { return }
        throw SQLiteError(.cannotOpen, doing: doing, detail: "it is no regular file; move it away")
    }

    /// Sets up the SQLite library, once in a process. If other code has used it before, its setup stays.
    private static let isSetUp: Bool = {
        _ = csqlite_count_no_memory()
        return csqlite_register_sealing() == SQLITE_OK
    }()

    deinit {
        forgetStatements()
        sqlite3_close_v2(handle)
    }

    // MARK: - Statements

    /// The prepared statement of this literal, ready for binding.
    ///
    /// - Precondition: The statement is not being stepped through at present.
    package func statement(_ sql: StaticString) throws(SQLiteError) -> SQLiteStatement {
        if let statement = literals[sql.utf8Start] {
            precondition(!statement.isRunning, "a statement was used inside its own rows")
            return statement
        }
        let statement = try prepare("\(sql)")
        literals[sql.utf8Start] = statement
        return statement
    }

    /// The prepared statement of composed SQL, ready for binding.
    ///
    /// - Precondition: The statement is not being stepped through at present.
    package func statement(of sql: String) throws(SQLiteError) -> SQLiteStatement {
        if let statement = texts[sql] {
            precondition(!statement.isRunning, "a statement was used inside its own rows")
            return statement
        }
        if texts.count >= textsMax {
            let idle = texts.filter { !$0.value.isRunning }
            for (sql, statement) in idle {
                statement.finalize()
                texts[sql] = nil
            }
        }
        let statement = try prepare(sql)
        texts[sql] = statement
        return statement
    }

    /// A separate statement that the caller finalizes.
    package func prepare(_ sql: String) throws(SQLiteError) -> SQLiteStatement {
        var prepared: OpaquePointer?
        let result = sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
        guard result == SQLITE_OK, let prepared else { throw failure(result, doing: "prepare \(SQLiteError.beginning(of: sql))") }
        return SQLiteStatement(prepared)
    }

    private var kept: [SQLiteStatement] { Array(literals.values) + texts.values + removals }

    /// SQL of all statements that were prepared and kept.
    package var keptSQL: [String] { kept.map(\.sql) }

    /// Frees all kept statements, for example before the database below them is replaced.
    package func forgetStatements() {
        for statement in kept { statement.finalize() }
        (literals, texts, removals) = ([:], [:], [])
    }

    /// Runs any number of statements that have no parameters and no needed rows.
    package func execute(_ sql: String) throws(SQLiteError) {
        try check(sqlite3_exec(handle, sql, nil, nil, nil), doing: SQLiteError.beginning(of: sql))
    }

    /// Number of rows that the last statement changed.
    package var changes: Int { Int(sqlite3_changes64(handle)) }

    package var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// The present value of a setting of the connection or the file.
    package func pragma(_ name: String) throws(SQLiteError) -> String {
        let statement = try prepare("PRAGMA \(name)")
        defer { statement.finalize() }
        guard try statement.step() else { return "" }
        return statement.text(0)
    }

    private func check(_ result: Int32, doing: String) throws(SQLiteError) {
        guard result == SQLITE_OK else { throw failure(result, doing: doing) }
    }

    private func failure(_ result: Int32, doing: String) -> SQLiteError { SQLiteError(result: result, on: handle, doing: doing) }

    // MARK: - Time

    /// Time that a statement waits for the lock of another connection.
    package func wait(forLockMS milliseconds: Int32) {
        sqlite3_busy_timeout(handle, milliseconds)
    }

    /// Makes every statement of `body` fail with `.interrupted` once `isOver` returns `true`.
    package func bounded<Value, Failure: Error>(
        by isOver: @escaping () -> Bool, _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let deadline = Deadline(isOver: isOver)
        self.deadline = deadline
        sqlite3_progress_handler(
            handle, 10_000,
            { context in
                guard let context else { return 0 }
                return Unmanaged<Deadline>.fromOpaque(context).takeUnretainedValue().isOver() ? 1 : 0
            }, Unmanaged.passUnretained(deadline).toOpaque())
        defer {
            sqlite3_progress_handler(handle, 0, nil, nil)
            self.deadline = nil
        }
        return try body()
    }

    /// `true` when the time of ``bounded(by:_:)`` is over. SQLite checks it by its own steps; the work on each row between them may take
    /// longer.
    package var isOverTime: Bool { deadline?.isOver() ?? false }

    private final class Deadline {
        let isOver: () -> Bool

        init(isOver: @escaping () -> Bool) {
            self.isOver = isOver
        }
    }

    // MARK: - The log

    /// Counts the pages of the WAL from now on. It replaces SQLite's own checkpoints.
    package func watchWAL() {
        sqlite3_wal_hook(
            handle,
            { me, _, _, pages in
                if let me { Unmanaged<SQLiteConnection>.fromOpaque(me).takeUnretainedValue().walPages = Int(pages) }
                return SQLITE_OK
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Moves as much of the WAL as possible into the database. With `truncating` it moves everything and truncates the WAL.
    ///
    /// - Returns: `true` when the checkpoint was complete. A reader or another writer may prevent that; the next one goes further.
    package func checkpoint(truncating: Bool) throws(SQLiteError) -> Bool {
        let mode = truncating ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE
        let result = sqlite3_wal_checkpoint_v2(handle, nil, mode, nil, nil)
        guard result & 0xFF != SQLITE_BUSY, result & 0xFF != SQLITE_LOCKED else { return false }
        try check(result, doing: "checkpoint")
        walPages = 0
        return true
    }

    /// Makes closing leave the log as it is, also when this is the last connection.
    package func keepLogWhenClosing() throws(SQLiteError) {
        try check(csqlite_switch(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1), doing: "set up \(place.path ?? "a database in memory")")
    }

    // MARK: - Copies

    /// Copies the committed content into another database, as it is at one moment (https://www.sqlite.org/backup.html). A writer in another
    /// process is not delayed.
    package func copy(into target: SQLiteConnection) throws(SQLiteError) {
        let doing = "copy the database"
        guard let backup = sqlite3_backup_init(target.handle, "main", handle, "main") else {
            throw SQLiteError(result: sqlite3_extended_errcode(target.handle), on: target.handle, doing: doing)
        }
        // One step, so that one read transaction sees all of it.
        let stepped = sqlite3_backup_step(backup, -1)
        let finished = sqlite3_backup_finish(backup)
        guard stepped == SQLITE_DONE, finished == SQLITE_OK else {
            throw SQLiteError(result: finished == SQLITE_OK ? stepped : finished, on: nil, doing: doing)
        }
    }

    /// The whole database as bytes.
    package func serialize() throws(SQLiteError) -> [UInt8] {
        var size: sqlite3_int64 = 0
        guard let bytes = sqlite3_serialize(handle, "main", &size, 0) else { throw failure(SQLITE_NOMEM, doing: "copy the database") }
        defer { sqlite3_free(bytes) }
        return Array(UnsafeBufferPointer(start: bytes, count: Int(size)))
    }

    /// Replaces the content of a database in memory.
    package func deserialize(_ bytes: [UInt8]) throws(SQLiteError) {
        let doing = "install a copy"
        guard let copy = sqlite3_malloc64(UInt64(bytes.count)) else { throw failure(SQLITE_NOMEM, doing: doing) }
        bytes.withUnsafeBytes { copy.copyMemory(from: $0.baseAddress ?? UnsafeRawPointer(copy), byteCount: bytes.count) }
        let flags = UInt32(SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE)
        try check(
            sqlite3_deserialize(
                handle, "main", copy.assumingMemoryBound(to: UInt8.self), sqlite3_int64(bytes.count), sqlite3_int64(bytes.count), flags),
            doing: doing)
    }

    // MARK: - Rows

    /// Removes all rows of all tables. The tables and the prepared statements stay, because preparing them is most of the time of a test
    /// that uses a database in memory for a moment and then the next one. The tables must not change any more.
    ///
    /// - Throws: After an error the database must not be used any more.
    package func removeRows() throws(SQLiteError) {
        if isInTransaction { try execute("ROLLBACK") }
        if removals.isEmpty {
            for table in try tables() { removals.append(try prepare("DELETE FROM main.\"\(table)\"")) }
        }
        try execute("BEGIN IMMEDIATE")
        for removal in removals {
            defer { removal.reset() }
            _ = try removal.step()
        }
        try execute("COMMIT")
    }

    /// SQL that inserts the rows of this database into another one, which has the same tables without rows.
    package func insertionOfRows() throws(SQLiteError) -> String {
        var sql = ""
        for table in try tables().reversed() {
            let rows = try prepare("SELECT * FROM main.\"\(table)\"")
            defer { rows.finalize() }
            while try rows.step() {
                let values = (0..<rows.columnCount).map { rows.value($0).literal }
                sql += "INSERT INTO main.\"\(table)\" VALUES (\(values.joined(separator: ", ")));\n"
            }
        }
        return sql
    }

    /// The names of all tables. A table comes before those that it refers to, because the switch that lets references wait for the end of
    /// a transaction makes SQLite prepare all statements again.
    private func tables() throws(SQLiteError) -> [String] {
        let statement = try prepare(
            """
            SELECT t.name, r."table" FROM main.sqlite_schema t LEFT JOIN pragma_foreign_key_list(t.name) r
            WHERE t.type = 'table' AND t.name NOT GLOB 'sqlite_*' ORDER BY t.name
            """)
        defer { statement.finalize() }
        // The tables that refer to each table.
        var referring: [String: Set<String>] = [:]
        while try statement.step() {
            let name = statement.text(0)
            referring[name] = referring[name] ?? []
            if let other = statement.optionalText(1), other != name { referring[other, default: []].insert(name) }
        }
        var names: [String] = []
        while let next = referring.keys.sorted().first(where: { referring[$0]?.isDisjoint(with: referring.keys) == true }) {
            names.append(next)
            referring[next] = nil
        }
        return names + referring.keys.sorted()
    }

    // MARK: - Memory and counts

    /// Returns cached pages to SQLite, and clears the bound values of all statements.
    package func releasePages() {
        for statement in kept { statement.forgetValues() }
        sqlite3_db_release_memory(handle)
    }

    /// Releases the memory of cached pages, and returns freed allocations to the system. The pages are read again when they are needed.
    package func releaseMemory() {
        csqlite_release(handle)
    }

    /// Memory of cached pages, bytes; for tests.
    package var cachedBytes: Int {
        var bytes: Int32 = 0, most: Int32 = 0
        sqlite3_db_status(handle, SQLITE_DBSTATUS_CACHE_USED, &bytes, &most, 0)
        return Int(bytes)
    }

    /// Steps of SQLite's virtual machine since the connection was opened, for tests that count work instead of time.
    package var stepsTaken: Int {
        var sum = 0
        var next = sqlite3_next_stmt(handle, nil)
        while let statement = next {
            sum += Int(sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 0))
            next = sqlite3_next_stmt(handle, statement)
        }
        return sum
    }

    package static var libraryVersion: String { String(cString: sqlite3_libversion()) }

    /// Reads that the medium has failed to answer so far, on this thread. SQLite's check of a file takes a page that it does not get for a
    /// damaged one.
    package static var failedReads: UInt { UInt(csqlite_failed_reads()) }
}
