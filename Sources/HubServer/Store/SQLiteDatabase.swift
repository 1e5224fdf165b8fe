import CSQLite
import SyncCore

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
        func openForReading() throws(DatabaseError) -> any HubDatabase { try SQLiteSchema.openForReading(self) }
    }

    let spelling = SQLSpelling(byFeed: " INDEXED BY record_feed", isFeedByExpression: false, tokens: "0")
    var isShared: Bool { false }

    private let connection: OpaquePointer
    private var statements: [String: OpaquePointer] = [:]

    /// Setup of the library, once in a process.
    private static let isSetUp = csqlite_count_no_memory() == SQLITE_OK && csqlite_register_sealing() == SQLITE_OK

    init(_ place: Place) throws(DatabaseError) {
        _ = Self.isSetUp
        let (path, flags): (String, Int32) =
            switch place {
            case .memory: (":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
            case .file(let path): (path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
            case .readOnly(let path): (path, SQLITE_OPEN_READONLY)
            }
        var opened: OpaquePointer?
        // Its pages have no seals, but a read that fails is no damage, and a quota is a full disk (`Seal.h`).
        let way = place == .memory ? nil : CSQLITE_SEALING
        let code = sqlite3_open_v2(path, &opened, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, way)
        guard code == SQLITE_OK, let opened else {
            let message = opened.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            sqlite3_close_v2(opened)
            throw DatabaseError(code, doing: "open \(path)", detail: message)
        }
        connection = opened
        sqlite3_busy_timeout(connection, SQLiteDatabase.busyMilliseconds)
    }

    private static let busyMilliseconds: Int32 = 5_000

    deinit {
        forgetStatements()
        sqlite3_close_v2(connection)
    }

    // MARK: Statements

    /// Runs statements that have no values and whose rows do not matter.
    func execute(_ sql: String) throws(DatabaseError) {
        let code = sqlite3_exec(connection, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw failure(code, sql) }
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
        for statement in statements.values { sqlite3_finalize(statement) }
        statements = [:]
    }

    /// Each statement was complete when it returned.
    func settle() {}

    func changes() -> Int { Int(sqlite3_changes64(connection)) }

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

    var isInTransaction: Bool { sqlite3_get_autocommit(connection) == 0 }

    /// The file has one writer, and IMMEDIATE makes it this transaction from its beginning.
    func begin(_ purpose: TransactionPurpose) throws(DatabaseError) {
        guard purpose != .reading else { return try execute("BEGIN") }
        if purpose == .writingIfFree { sqlite3_busy_timeout(connection, Int32(TransactionPurpose.busyMilliseconds)) }
        defer { sqlite3_busy_timeout(connection, SQLiteDatabase.busyMilliseconds) }
        try execute("BEGIN IMMEDIATE")
    }

    func commit() throws(DatabaseError) { try execute("COMMIT") }

    func rollback() throws(DatabaseError) { try execute("ROLLBACK") }

    private func step(
        _ sql: String, _ values: [DatabaseValue], _ body: (SQLiteRow) -> Bool
    ) throws(DatabaseError) {
        let statement = try prepared(sql)
        defer {
            sqlite3_reset(statement)
            sqlite3_clear_bindings(statement)
        }
        for (index, value) in values.enumerated() {
            let code = value.bind(to: statement, at: Int32(index + 1))
            guard code == SQLITE_OK else { throw failure(code, sql) }
        }
        while true {
            let code = sqlite3_step(statement)
            switch code {
            case SQLITE_ROW: if !body(SQLiteRow(statement: statement)) { return }
            case SQLITE_DONE: return
            default: throw failure(code, sql)
            }
        }
    }

    private func prepared(_ sql: String) throws(DatabaseError) -> OpaquePointer {
        if let statement = statements[sql] { return statement }
        var statement: OpaquePointer?
        let code = sqlite3_prepare_v3(connection, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
        guard code == SQLITE_OK, let statement else { throw failure(code, sql) }
        statements[sql] = statement
        return statement
    }

    private func failure(_ code: Int32, _ sql: String) -> DatabaseError {
        DatabaseError(code, doing: String(sql.prefix(60)), detail: String(cString: sqlite3_errmsg(connection)))
    }

    // MARK: Copies

    /// The whole database as bytes.
    func serialize() throws(DatabaseError) -> [UInt8] {
        var size: sqlite3_int64 = 0
        guard let bytes = sqlite3_serialize(connection, "main", &size, 0) else {
            throw DatabaseError(SQLITE_NOMEM, doing: "copy the database", detail: "out of memory")
        }
        defer { sqlite3_free(bytes) }
        return Array(UnsafeBufferPointer(start: bytes, count: Int(size)))
    }

    /// Copies all of it into another database, as it is at one moment (https://www.sqlite.org/backup.html).
    func copy(into target: SQLiteDatabase) throws(DatabaseError) {
        guard let backup = sqlite3_backup_init(target.connection, "main", connection, "main") else {
            throw target.failure(sqlite3_errcode(target.connection), "begin a copy of the database")
        }
        // One step, so that one read transaction sees all of it; another writer does not affect it.
        let code = sqlite3_backup_step(backup, -1)
        let ended = sqlite3_backup_finish(backup)
        guard code == SQLITE_DONE, ended == SQLITE_OK else {
            throw DatabaseError(
                ended == SQLITE_OK ? code : ended, doing: "copy the database",
                detail: String(cString: sqlite3_errstr(ended == SQLITE_OK ? code : ended)))
        }
    }

    /// Writes the log back into the file.
    func checkpoint() {
        // A reader in another process may delay it to a later call.
        _ = try? execute("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// Replaces the content of an in-memory database.
    func deserialize(_ bytes: [UInt8]) throws(DatabaseError) {
        guard let copy = sqlite3_malloc64(UInt64(bytes.count)) else {
            throw DatabaseError(SQLITE_NOMEM, doing: "install a copy", detail: "out of memory")
        }
        bytes.withUnsafeBytes { copy.copyMemory(from: $0.baseAddress ?? UnsafeRawPointer(copy), byteCount: bytes.count) }
        let flags = UInt32(SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE)
        let code = sqlite3_deserialize(
            connection, "main", copy.assumingMemoryBound(to: UInt8.self), sqlite3_int64(bytes.count),
            sqlite3_int64(bytes.count), flags)
        guard code == SQLITE_OK else { throw failure(code, "install a copy") }
    }
}

extension DatabaseValue {
    fileprivate func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
        switch self {
        case .null: return sqlite3_bind_null(statement, index)
        case .int(let value): return sqlite3_bind_int64(statement, index, value)
        case .text(var value):
            return value.withUTF8 { bytes in
                bytes.withMemoryRebound(to: CChar.self) { characters in
                    // A nil pointer would bind NULL: the empty text needs an address.
                    characters.baseAddress.map { csqlite_bind_text(statement, index, $0, Int32(clamping: bytes.count)) }
                        ?? csqlite_bind_text(statement, index, "", 0)
                }
            }
        case .blob(let bytes):
            return bytes.withUnsafeBytes { buffer in
                buffer.baseAddress.map { csqlite_bind_blob(statement, index, $0, Int32(clamping: bytes.count)) }
                    ?? sqlite3_bind_zeroblob(statement, index, 0)
            }
        }
    }
}

/// The present row of a statement of SQLite.
private struct SQLiteRow: DatabaseRow {
    let statement: OpaquePointer

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(statement, column) == SQLITE_NULL }

    func int(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column).asStored }

    func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }

    func blob(_ column: Int32) -> [UInt8] { Array(bytes(column)) }

    private func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(
            start: sqlite3_column_blob(statement, column), count: Int(sqlite3_column_bytes(statement, column)))
    }
}

extension DatabaseError {
    /// - Parameter code: A result code of SQLite.
    fileprivate init(_ code: Int32, doing: String, detail: String) {
        let kind: Kind =
            switch code & 0xFF {
            case SQLITE_BUSY, SQLITE_LOCKED: .busy
            case SQLITE_FULL: .full
            case SQLITE_IOERR: .io
            case SQLITE_CORRUPT, SQLITE_NOTADB: .corrupt
            case SQLITE_READONLY, SQLITE_PERM, SQLITE_AUTH: .readOnly
            case SQLITE_CANTOPEN: .cannotOpen
            default: .other
            }
        self.init(kind, doing: doing, detail: detail)
    }
}
