import CSQLite
import Glibc

/// One connection to one SQLite database. Not for two threads at once.
///
/// Statements are prepared once and kept. Everything thrown is a ``StoreError`` with SQLite's extended code.
package final class Database {
    /// `nil` for a database in memory.
    package let path: String?
    /// Transactions that were begun for writing and committed over this connection.
    package private(set) var commits = 0
    /// What was read is the file alone, whatever others do to it meanwhile.
    let isImmutable: Bool
    /// Pages in the WAL after the last commit.
    private(set) var walPages = 0
    /// ``OpeningSequence`` has set this connection up.
    var isSet = false

    private let handle: OpaquePointer
    private var statements: [UnsafePointer<UInt8>: Statement] = [:]
    /// Those that were put together, by their text.
    private var composed: [String: Statement] = [:]
    private var deadline: Deadline?

    /// Opens or creates the file; nothing is written yet.
    package static func open(path: String) throws(StoreError) -> Database {
        try Database(path: path, flags: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
    }

    /// A connection that cannot write, and never moves the WAL into the database, not even when it is the last to close.
    ///
    /// - Parameter withoutLog: For a disk on which no file can be made, as SQLite needs two for a log: the file of the database alone is
    ///   read, as if nobody could write to it. For one question, and only while there is nothing in the log.
    package static func openReader(path: String, withoutLog: Bool = false) throws(StoreError) -> Database {
        let database = try Database(path: path, flags: SQLITE_OPEN_READONLY, isImmutable: withoutLog)
        try database.check(
            csqlite_switch(database.handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1), doing: "set up \(path)")
        // The wait is for the moments in which the writer restarts the log or recovers it. What a sort needs stays in memory:
        // a temporary file would be flash that nobody counts.
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

    /// Whether every page of the database can be read, agrees with its seal and fits to the others. Reads all of it.
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

    /// A database in memory that has the tables, and nothing in them: as new as none at all.
    package static func empty() throws(StoreError) -> Database {
        let database = try inMemory()
        try database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        try Schema.bringUpToDate(database)
        return database
    }

    /// https://www.sqlite.org/uri.html, 3: what a path may hold and a URI does not.
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
            path.map { isImmutable ? Self.immutableName($0) : $0 } ?? ":memory:", &handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, path == nil ? nil : CSQLITE_SEALING)
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

    /// Whoever opens a FIFO for reading waits until somebody writes to it, and what a device does nobody knows.
    private static func checkKind(_ path: String) throws(StoreError) {
        var facts = stat()
        guard stat(path, &facts) == 0, facts.st_mode & S_IFMT != S_IFREG else { return }
        throw StoreError(.cannotOpen, doing: "open \(path)", detail: "it is no regular file; move it away")
    }

    /// Of the library, once in a process. Where somebody else has used it before, it goes on as it was.
    private static let isSetUp: Bool = {
        _ = csqlite_count_no_memory()
        return csqlite_register_sealing() == SQLITE_OK
    }()

    deinit {
        for statement in kept { statement.finalize() }
        sqlite3_close_v2(handle)
    }

    /// A copy in memory of what is committed, as an old image of the disk would have it.
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

    /// Writes what is committed into a new file, without a log and without a wait for the medium.
    func write(to file: String) throws(StoreError) {
        let statement = try prepare("VACUUM INTO ?")
        defer { statement.finalize() }
        try statement.bind([.text(file)])
        _ = try statement.step()
    }

    /// From now on closing it leaves all files alone: what has their names may be somebody else's by then.
    func letGo() {
        _ = csqlite_switch(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    }

    // MARK: - Statements

    /// The prepared statement of this literal, ready to be bound.
    ///
    /// - Precondition: It is not being stepped through right now.
    func statement(_ sql: StaticString) throws(StoreError) -> Statement {
        if let statement = statements[sql.utf8Start] {
            precondition(!statement.isRunning, "a statement was used inside its own rows")
            return statement
        }
        let statement = try prepare("\(sql)")
        statements[sql.utf8Start] = statement
        return statement
    }

    /// Of so many combinations of filters a person or an app asks for one again and again.
    private static let composedMax = 32

    /// The prepared statement of SQL that is put together from a few parts, ready to be bound.
    ///
    /// - Precondition: It is not being stepped through right now.
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

    /// A statement of its own, to be finalized by the caller.
    func prepare(_ sql: String) throws(StoreError) -> Statement {
        var prepared: OpaquePointer?
        let result = sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
        guard result == SQLITE_OK, let prepared else {
            throw StoreError(result: result, on: handle, doing: "prepare \(sql.prefix(80))")
        }
        return Statement(prepared)
    }

    /// Runs any number of statements without parameters and without rows that matter.
    func execute(_ sql: String) throws(StoreError) {
        try check(sqlite3_exec(handle, sql, nil, nil, nil), doing: sql)
    }

    /// - Returns: How many rows it changed.
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

    /// A setting of the connection or the file, as it is.
    package func pragma(_ name: String) throws(StoreError) -> String {
        let statement = try prepare("PRAGMA \(name)")
        defer { statement.finalize() }
        guard try statement.step() else { return "" }
        return statement.text(0)
    }

    /// Steps of SQLite's virtual machine since the connection was opened; for tests that count work instead of time.
    package var stepsTaken: Int {
        var sum = 0
        var next = sqlite3_next_stmt(handle, nil)
        while let statement = next {
            sum += Int(sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 0))
            next = sqlite3_next_stmt(handle, statement)
        }
        return sum
    }

    /// Gives back the memory of the pages that it has read, and what else the process has freed. They are read again when they
    /// are asked for.
    func release() {
        csqlite_release(handle)
    }

    /// Memory of the pages that it keeps, bytes; for tests.
    var cachedBytes: Int {
        var bytes: Int32 = 0, most: Int32 = 0
        sqlite3_db_status(handle, SQLITE_DBSTATUS_CACHE_USED, &bytes, &most, 0)
        return Int(bytes)
    }

    // MARK: - Seals

    /// Gives a database that has no page yet, or that VACUUM is about to write anew, room for the seals of its pages (`Seal.h`).
    func reserveSeals() {
        guard path != nil else { return }
        // What it says of one that has its form already is no error: VACUUM looks at the wish.
        _ = csqlite_reserve_seals(handle)
    }

    /// Bytes at the end of each page that SQLite leaves alone.
    var reservedBytes: Int { Int(csqlite_reserved(handle)) }

    /// Every page that is read from the file is compared with its seal.
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

    /// Moves what it can of the WAL into the database; with `truncating`, all of it, and cuts the WAL to nothing.
    ///
    /// Never waits: a reader may hold its snapshot for seconds, and the thread that would wait here is the one that enqueues.
    ///
    /// - Returns: Whether nothing was in its way.
    @discardableResult
    package func checkpoint(truncating: Bool) throws(StoreError) -> Bool {
        let mode = truncating ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE
        sqlite3_busy_timeout(handle, 0)
        let result = sqlite3_wal_checkpoint_v2(handle, nil, mode, nil, nil)
        sqlite3_busy_timeout(handle, Self.busyTimeoutMS)
        // A reader in the middle of its work is no failure: the next checkpoint goes further.
        guard result != SQLITE_BUSY, result != SQLITE_LOCKED else { return false }
        try check(result, doing: "checkpoint")
        walPages = 0
        return true
    }

    /// How long the writing connection waits for another process that has the file open by mistake.
    static let busyTimeoutMS: Int32 = 5_000

    /// Reads that the medium did not answer so far, on this thread.
    static var failedReads: UInt { UInt(csqlite_failed_reads()) }

    static var libraryVersion: String { String(cString: sqlite3_libversion()) }

    /// Size of the file of the WAL; 0 when there is none.
    var walFileBytes: Int64 {
        guard let path else { return 0 }
        var facts = stat()
        return stat(path + "-wal", &facts) == 0 ? Int64(facts.st_size) : 0
    }

    /// Gives cached pages back to the system, and the last values of all statements: a document at the limit in each of
    /// them would stay for as long as nobody uses them again.
    package func releaseMemory() {
        for statement in kept { statement.forgetValues() }
        sqlite3_db_release_memory(handle)
    }

    /// SQL of all statements that were prepared on this connection so far and are kept; for tests of their plans.
    package var keptSQL: [String] { kept.map(\.sql) }

    /// Lets every read of `body` fail with `.tooSlow` once `isOver` says so.
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

    /// SQLite asks for the time by its own steps, and what is done with each row between them may take longer than those.
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
    /// Takes over what SQLite says.
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

    /// Whether no file can be made beside this one. SQLite tries a log that it cannot make once more as one that is there, so
    /// `errno` speaks of a missing file.
    private static func lacksInodes(_ path: UnsafePointer<CChar>) -> Bool {
        var facts = statvfs()
        // Where none are counted (btrfs) there are none of them at all.
        return statvfs(path, &facts) == 0 && facts.f_files > 0 && facts.f_favail == 0
    }

    /// SQLite's result of a read that the medium did not answer.
    static let failedRead = csqlite_failed_read()

    /// - Parameter system: `errno` of the failed call. SQLite calls only ENOSPC of a write a full disk; a quota (EDQUOT), the
    ///   largest file size (EFBIG) or a log that cannot be made for want of an inode is one just as well. A disk that became
    ///   read-only (EROFS) shows as an error of a write.
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
