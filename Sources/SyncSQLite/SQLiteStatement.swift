import CSQLite
import SyncCore

/// A value for a parameter of a statement, or of a column.
package enum SQLiteValue: Hashable, Sendable {
    case null
    case int(Int64)
    case real(Double)
    case text(String)
    case blob([UInt8])

    package static func optional(_ value: Int64?) -> SQLiteValue { value.map { .int($0) } ?? .null }
    package static func optional(_ value: String?) -> SQLiteValue { value.map { .text($0) } ?? .null }
    package static func int(_ value: Int) -> SQLiteValue { .int(Int64(value)) }
    package static func bool(_ value: Bool) -> SQLiteValue { .int(value ? 1 : 0) }

    /// The value as SQL.
    var literal: String {
        switch self {
        case .null: "NULL"
        case .int(let value): "\(value)"
        case .real(let value): "\(value)"
        case .text(let value): "'\(value.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''"))'"
        case .blob(let bytes): "x'\(hexText(bytes))'"
        }
    }
}

/// One prepared statement, and its current row while there is one.
///
/// The code that runs for each row is inlinable, so that a reader in another module costs no more than one beside it.
package final class SQLiteStatement {
    @usableFromInline let handle: OpaquePointer
    /// Parameters are bound, or there is a current row.
    @usableFromInline var isRunning = false

    init(_ handle: OpaquePointer) {
        self.handle = handle
    }

    package var sql: String { sqlite3_sql(handle).map { String(cString: $0) } ?? "" }

    /// Frees the statement; it must not be used afterwards.
    package func finalize() {
        sqlite3_finalize(handle)
    }

    // MARK: - Parameters

    /// Binds all parameters, first to last.
    package func bind(_ values: [SQLiteValue]) throws(SQLiteError) {
        isRunning = true
        var place: Int32 = 1
        for value in values {
            switch value {
            case .null: try check(bound: sqlite3_bind_null(handle, place))
            case .int(let value): try check(bound: sqlite3_bind_int64(handle, place, value))
            case .real(let value): try check(bound: sqlite3_bind_double(handle, place, value))
            case .text(let value): try check(bound: bindText(value, at: place))
            case .blob(let bytes): try check(bound: bindBlob(bytes, at: place))
            }
            place += 1
        }
    }

    // These bind the parameters one by one, for the widest rows: collecting their values first would cost as much as binding them. Places
    // count from 1, and every one must be bound, because a former value stays until ``forgetValues()``.

    package func bind(_ place: Int32, _ value: Int64?) throws(SQLiteError) {
        isRunning = true
        try check(bound: value.map { sqlite3_bind_int64(handle, place, $0) } ?? sqlite3_bind_null(handle, place))
    }

    package func bind(_ place: Int32, _ value: String?) throws(SQLiteError) {
        isRunning = true
        try check(bound: value.map { bindText($0, at: place) } ?? sqlite3_bind_null(handle, place))
    }

    package func bind(_ place: Int32, _ bytes: [UInt8]) throws(SQLiteError) {
        isRunning = true
        try check(bound: bindBlob(bytes, at: place))
    }

    // SQLite refuses a length above its limit of a billion bytes, and a clamped one is above it.

    private func bindText(_ text: String, at place: Int32) -> Int32 {
        var text = text
        return text.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { bytes in
                // An empty text may have no address, and SQLite would bind NULL for no address.
                bytes.baseAddress.map { csqlite_bind_text(handle, place, $0, Int32(clamping: bytes.count)) }
                    ?? csqlite_bind_text(handle, place, "", 0)
            }
        }
    }

    private func bindBlob(_ bytes: [UInt8], at place: Int32) -> Int32 {
        bytes.withUnsafeBytes { bytes in
            bytes.baseAddress.map { csqlite_bind_blob(handle, place, $0, Int32(clamping: bytes.count)) }
                ?? sqlite3_bind_zeroblob(handle, place, 0)
        }
    }

    private func check(bound result: Int32) throws(SQLiteError) {
        guard result != SQLITE_OK else { return }
        throw failure(result)
    }

    /// Frees the bound values. Otherwise a document at the size limit could stay until the next use.
    package func forgetValues() {
        guard !isRunning else { return }
        sqlite3_clear_bindings(handle)
    }

    // MARK: - Rows

    /// - Returns: `true` when there is a current row now. The statement is reset when it throws.
    @inlinable
    package func step() throws(SQLiteError) -> Bool {
        isRunning = true
        let result = sqlite3_step(handle)
        if result == SQLITE_ROW { return true }
        if result == SQLITE_DONE { return false }
        throw failure(result)
    }

    /// Resets the statement, and returns its error.
    @usableFromInline
    func failure(_ result: Int32) -> SQLiteError {
        let error = SQLiteError(result: result, on: sqlite3_db_handle(handle), doing: SQLiteError.beginning(of: sql))
        reset()
        return error
    }

    @inlinable
    package func reset() {
        sqlite3_reset(handle)
        isRunning = false
    }

    package var columnCount: Int32 { sqlite3_column_count(handle) }

    /// Length of a text, bytes; for a number, of its decimal text.
    @inlinable
    package func byteCount(_ column: Int32) -> Int { Int(sqlite3_column_bytes(handle, column)) }

    @inlinable
    package func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    @inlinable
    package func int(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column).asStored }

    @inlinable
    package func optionalInt(_ column: Int32) -> Int64? { isNull(column) ? nil : int(column) }

    @inlinable
    package func bool(_ column: Int32) -> Bool { int(column) != 0 }

    @inlinable
    package func text(_ column: Int32) -> String {
        bytes(column).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    @inlinable
    package func optionalText(_ column: Int32) -> String? {
        bytes(column).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The bytes of a text or a blob, valid until the next step; `nil` for NULL.
    @inlinable
    package func bytes(_ column: Int32) -> UnsafeRawBufferPointer? {
        guard let start = sqlite3_column_text(handle, column) else { return nil }
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column)))
    }

    @inlinable
    package func blob(_ column: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(handle, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))))
    }

    /// The value with the type that SQLite stores.
    package func value(_ column: Int32) -> SQLiteValue {
        switch sqlite3_column_type(handle, column) {
        case SQLITE_INTEGER: .int(int(column))
        case SQLITE_FLOAT: .real(sqlite3_column_double(handle, column))
        case SQLITE_TEXT: .text(text(column))
        case SQLITE_BLOB: .blob(blob(column))
        default: .null
        }
    }
}
