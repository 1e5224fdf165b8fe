import CSQLite
import Glibc

/// One connection to one SQLite database. It must not be used by two threads at once.
///
/// Statements are prepared once and kept. Everything thrown is a ``StoreError`` with SQLite's extended code.
package final class Database {
    /// `nil` for a database in memory.
    package let path: String?
    /// Write transactions that were committed over this connection.
    package private(set) var commits = 0
    /// The connection reads the file alone, without its log, and ignores changes by others.
    let isImmutable: Bool
    /// Pages in the WAL after the last commit.
    private(set) var walPages = 0
    /// ``OpeningSequence`` has set this connection up.
    var isSet = false

    private let handle: OpaquePointer
    private var statements: [UnsafePointer<UInt8>: Statement] = [:]
    /// The prepared statements of SQL that was composed, by their text.
    private var composed: [String: Statement] = [:]
    private var deadline: Deadline?

    /// Opens or creates the file; nothing is written yet.
    package static func open(path: String) throws(StoreError) -> Database {
        try Database(path: path, flags: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
    }

    /// Opens a connection that cannot write, and never moves the WAL into the database, not even when it is the last to close.
    ///
    /// - Parameter withoutLog: For a disk on which no file can be created, because SQLite needs two for a log. Only the database file is
    ///   read, as if it were immutable. Use it for one query, and only while the log is empty.
    package static func openReader(path: String, withoutLog: Bool = false) throws(StoreError) -> Database {
        let database = try Database(path: path, flags: SQLITE_OPEN_READONLY, isImmutable: withoutLog)
        try database.check(
            csqlite_switch(database.handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1), doing: "set up \(path)")
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
        try Database(path: nil, flags: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY)
    }

    /// A new database in memory with empty tables.
    package static func empty() throws(StoreError) -> Database {
        let database = try inMemory()
        try database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        try Schema.bringUpToDate(database)
        return database
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

    private init(path: String?, flags: Int32, isImmutable: Bool = false) throws(StoreError) {
        _ = Self.isSetUp
        if let path { try Self.checkKind(path) }
        self.isImmutable = isImmutable
        let flags = flags | (isImmutable ? SQLITE_OPEN_URI : 0)
        var handle: OpaquePointer?
        let result = sqlite3_open_v2(
            path.map { isImmutable ? Self.immutableName($0) : $0 } ?? ":memory:", &handle,
            flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, path == nil ? nil : CSQLITE_SEALING)
        guard result == SQLITE_OK, let handle else {
            let error = StoreError(result: result, on: handle, doing: "open \(path ?? "a database in memory")")
            sqlite3_close_v2(handle)
            throw error
        }
        self.path = path
        self.handle = handle
        let me = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_commit_hook(
            handle,
            { me in
                if let me { Unmanaged<Database>.fromOpaque(me).takeUnretainedValue().commits += 1 }
                return 0
            }, me)
    }

    /// Refuses files that are not regular. Opening a FIFO would block until another process writes to it, and reading a device has unknown
    /// effects.
    private static func checkKind(_ path: String) throws(StoreError) {
        var facts = stat()
        guard stat(path, &facts) == 0, facts.st_mode & S_IFMT != S_IFREG else { return }
        throw StoreError(.cannotOpen, doing: "open \(path)", detail: "it is no regular file; move it away")
    }

    /// Sets up the SQLite library, once in a process. If other code has used it before, its setup stays.
    private static let isSetUp: Bool = {
        _ = csqlite_count_no_memory()
        return csqlite_register_sealing() == SQLITE_OK
    }()

    deinit {
        for statement in kept { statement.finalize() }
        sqlite3_close_v2(handle)
    }

    /// A copy in memory of the committed content, like an old image of the disk.
    package func copy() throws(StoreError) -> Database {
        let target = try Database.inMemory()
        guard let backup = sqlite3_backup_init(target.handle, "main", handle, "main") else {
            throw StoreError(result: sqlite3_extended_errcode(target.handle), on: target.handle, doing: "copy the database")
        }
        let stepped = sqlite3_backup_step(backup, -1)
        let finished = sqlite3_backup_finish(backup)
        guard stepped == SQLITE_DONE, finished == SQLITE_OK else {
            throw StoreError(result: finished, on: target.handle, doing: "copy the database")
        }
        return target
    }

    /// Writes the committed content into a new file, without a log and without waiting for the medium.
    func write(to file: String) throws(StoreError) {
        let statement = try prepare("VACUUM INTO ?")
        defer { statement.finalize() }
        try statement.bind([.text(file)])
        _ = try statement.step()
    }

    /// Makes closing leave all files alone: another process may have files of these names by then.
    func letGo() {
        _ = csqlite_switch(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    }

    // MARK: - Statements

    /// The prepared statement of this literal, ready for binding.
    ///
    /// - Precondition: The statement is not being stepped through at present.
    func statement(_ sql: StaticString) throws(StoreError) -> Statement {
        if let statement = statements[sql.utf8Start] {
            precondition(!statement.isRunning, "a statement was used inside its own rows")
            return statement
        }
        let statement = try prepare("\(sql)")
        statements[sql.utf8Start] = statement
        return statement
    }

    /// Number of composed statements that are kept. People and apps use the same few combinations of filters again and again.
    private static let composedMax = 32

    /// The prepared statement of composed SQL, ready for binding.
    ///
    /// - Precondition: The statement is not being stepped through at present.
    func composed(_ sql: String) throws(StoreError) -> Statement {
        if let statement = composed[sql] {
            precondition(!statement.isRunning, "a statement was used inside its own rows")
            return statement
        }
        if composed.count >= Self.composedMax {
            let idle = composed.filter { !$0.value.isRunning }
            for (sql, statement) in idle {
                statement.finalize()
                composed[sql] = nil
            }
        }
        let statement = try prepare(sql)
        composed[sql] = statement
        return statement
    }

    private var kept: [Statement] { Array(statements.values) + composed.values }

    /// A separate statement that the caller finalizes.
    func prepare(_ sql: String) throws(StoreError) -> Statement {
        var prepared: OpaquePointer?
        let result = sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
        guard result == SQLITE_OK, let prepared else {
            throw StoreError(result: result, on: handle, doing: "prepare \(sql.prefix(80))")
        }
        return Statement(prepared)
    }

    /// Runs any number of statements that have no parameters and no needed rows.
    func execute(_ sql: String) throws(StoreError) {
        try check(sqlite3_exec(handle, sql, nil, nil, nil), doing: sql)
    }

    /// - Returns: Number of changed rows.
    @discardableResult
    func run(_ sql: StaticString, _ values: SQLValue...) throws(StoreError) -> Int {
        let statement = try statement(sql)
        try statement.bind(values)
        defer { statement.reset() }
        _ = try statement.step()
        return Int(sqlite3_changes(handle))
    }

    /// The first row, if there is one.
    func first<Value>(
        _ sql: StaticString, _ values: SQLValue..., read: (Statement) throws(StoreError) -> Value
    ) throws(StoreError) -> Value? {
        let statement = try statement(sql)
        try statement.bind(values)
        defer { statement.reset() }
        guard try statement.step() else { return nil }
        return try read(statement)
    }

    /// The first column of the first row.
    func number(_ sql: StaticString, _ values: SQLValue...) throws(StoreError) -> Int64? {
        let statement = try statement(sql)
        try statement.bind(values)
        defer { statement.reset() }
        guard try statement.step() else { return nil }
        return statement.optionalInt(0)
    }

    func each(
        _ sql: StaticString, _ values: SQLValue..., body: (Statement) throws(StoreError) -> Void
    ) throws(StoreError) {
        let statement = try statement(sql)
        try statement.bind(values)
        defer { statement.reset() }
        while try statement.step() {
            try checkTime()
            try body(statement)
        }
    }

    func each(
        _ sql: StaticString, _ values: SQLValue..., while goesOn: () -> Bool, body: (Statement) throws(StoreError) -> Void
    ) throws(StoreError) {
        let statement = try statement(sql)
        try statement.bind(values)
        defer { statement.reset() }
        while goesOn(), try statement.step() {
            try checkTime()
            try body(statement)
        }
    }

    func all<Value>(
        _ sql: StaticString, _ values: SQLValue..., read: (Statement) throws(StoreError) -> Value
    ) throws(StoreError) -> [Value] {
        let statement = try statement(sql)
        try statement.bind(values)
        defer { statement.reset() }
        var result: [Value] = []
        while try statement.step() { result.append(try read(statement)) }
        return result
    }

    // MARK: - State

    package var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// The present value of a setting of the connection or the file.
    package func pragma(_ name: String) throws(StoreError) -> String {
        let statement = try prepare("PRAGMA \(name)")
        defer { statement.finalize() }
        guard try statement.step() else { return "" }
        return statement.text(0)
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

    /// Releases the memory of cached pages and of freed allocations. The pages are read again when they are needed.
    func release() {
        csqlite_release(handle)
    }

    /// Memory of cached pages, bytes; for tests.
    var cachedBytes: Int {
        var bytes: Int32 = 0, most: Int32 = 0
        sqlite3_db_status(handle, SQLITE_DBSTATUS_CACHE_USED, &bytes, &most, 0)
        return Int(bytes)
    }

    // MARK: - Seals

    /// Reserves room for the seals of the pages (`Seal.h`) in a database that has no page yet, or that VACUUM is about to rewrite.
    func reserveSeals() {
        guard path != nil else { return }
        // For a database that has its format already, the result is no error: VACUUM uses the request.
        _ = csqlite_reserve_seals(handle)
    }

    /// Bytes at the end of each page that SQLite does not use.
    var reservedBytes: Int { Int(csqlite_reserved(handle)) }

    /// `true` when every page that is read from the file is compared with its seal.
    package var checksSeals: Bool { csqlite_checks_seals(handle) != 0 }

    static let sealBytes = Int(CSQLITE_SEAL_BYTES)

    // MARK: -

    /// Counts the pages of the WAL from now on.
    func watchWAL() {
        sqlite3_wal_hook(
            handle,
            { me, _, _, pages in
                if let me { Unmanaged<Database>.fromOpaque(me).takeUnretainedValue().walPages = Int(pages) }
                return SQLITE_OK
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Moves as much of the WAL as possible into the database. With `truncating` it moves everything and truncates the WAL.
    ///
    /// It never waits: a reader may hold its snapshot for seconds, and this thread also enqueues.
    ///
    /// - Returns: `true` when the checkpoint was complete.
    @discardableResult
    package func checkpoint(truncating: Bool) throws(StoreError) -> Bool {
        let mode = truncating ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE
        sqlite3_busy_timeout(handle, 0)
        let result = sqlite3_wal_checkpoint_v2(handle, nil, mode, nil, nil)
        sqlite3_busy_timeout(handle, Self.busyTimeoutMS)
        // An active reader is no failure: the next checkpoint goes further.
        guard result != SQLITE_BUSY, result != SQLITE_LOCKED else { return false }
        try check(result, doing: "checkpoint")
        walPages = 0
        return true
    }

    /// Time that the writing connection waits for another process that has the file open by mistake, milliseconds.
    static let busyTimeoutMS: Int32 = 5_000

    /// Reads that the medium has failed to answer so far, on this thread.
    static var failedReads: UInt { UInt(csqlite_failed_reads()) }

    static var libraryVersion: String { String(cString: sqlite3_libversion()) }

    /// Size of the WAL file, bytes; 0 when there is none.
    var walFileBytes: Int64 {
        guard let path else { return 0 }
        var facts = stat()
        return stat(path + "-wal", &facts) == 0 ? Int64(facts.st_size) : 0
    }

    /// Returns cached pages to the system and clears the bound values of all statements. Otherwise a document at the size limit could stay
    /// in each of them until its next use.
    package func releaseMemory() {
        for statement in kept { statement.forgetValues() }
        sqlite3_db_release_memory(handle)
    }

    /// SQL of all statements that were prepared and kept on this connection, for tests of their query plans.
    package var keptSQL: [String] { kept.map(\.sql) }

    /// Makes every read of `body` fail with `.tooSlow` once `isOver` returns `true`.
    func bounded<Value>(
        by isOver: @escaping () -> Bool, _ body: () throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
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

    /// SQLite checks the time by its own steps; the work on each row between them may take longer.
    private func checkTime() throws(StoreError) {
        guard let deadline, deadline.isOver() else { return }
        throw StoreError(.tooSlow, doing: "read", detail: "it took longer than a read may")
    }

    private final class Deadline {
        let isOver: () -> Bool

        init(isOver: @escaping () -> Bool) {
            self.isOver = isOver
        }
    }

    private func check(_ result: Int32, doing: String) throws(StoreError) {
        guard result == SQLITE_OK else { throw StoreError(result: result, on: handle, doing: String(doing.prefix(80))) }
    }
}

extension StoreError {
    /// Makes an error from SQLite's result.
    init(result: Int32, on handle: OpaquePointer?, doing: String) {
        let system = handle.map { sqlite3_system_errno($0) } ?? 0
        let detail = handle.flatMap { sqlite3_errmsg($0) }.map { String(cString: $0) } ?? ""
        let code = StoreError.code(of: result, system: system)
        if code == .cannotOpen, let path = handle.flatMap({ sqlite3_db_filename($0, "main") }), Self.lacksInodes(path) {
            self.init(.diskFull, doing: doing, detail: "\(detail) (no inode is free)", result: result)
            return
        }
        self.init(
            code, doing: doing, detail: system == 0 ? detail : "\(detail) (errno \(system))", result: result)
    }

    /// Returns whether no file can be created beside this one. SQLite first fails to create a log and then opens it as an existing one, so
    /// `errno` reports a missing file.
    private static func lacksInodes(_ path: UnsafePointer<CChar>) -> Bool {
        var facts = statvfs()
        // A file system that does not count inodes (btrfs) reports none at all.
        return statvfs(path, &facts) == 0 && facts.f_files > 0 && facts.f_favail == 0
    }

    /// SQLite's result for a read that the medium did not answer.
    static let failedRead = csqlite_failed_read()

    /// - Parameter system: `errno` of the failed call. SQLite reports only ENOSPC of a write as a full disk. A quota (EDQUOT), the largest
    ///   file size (EFBIG) and a log that cannot be created for want of an inode are treated the same. A disk that became read-only (EROFS)
    ///   shows as an error of a write.
    static func code(of result: Int32, system: Int32) -> Code {
        if csqlite_is_broken_seal(result) != 0 { return .corrupt }
        let isNoRoom = system == ENOSPC || system == EDQUOT || system == EFBIG
        return switch result & 0xFF {
        case SQLITE_FULL: .diskFull
        case SQLITE_IOERR: isNoRoom ? .diskFull : system == EROFS ? .readOnly : .ioError
        case SQLITE_CORRUPT: .corrupt
        case SQLITE_NOTADB: .notADatabase
        case SQLITE_BUSY, SQLITE_LOCKED: .locked
        case SQLITE_READONLY, SQLITE_PERM: .readOnly
        case SQLITE_CANTOPEN: isNoRoom ? .diskFull : system == EROFS ? .readOnly : .cannotOpen
        case SQLITE_CONSTRAINT: .constraint
        case SQLITE_NOMEM: .outOfMemory
        case SQLITE_INTERRUPT: .tooSlow
        default: .other
        }
    }
}
