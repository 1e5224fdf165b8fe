import CSQLite
import SyncCore

/// A value for a parameter of a statement.
enum SQLValue {
    case null
    case int(Int64)
    case real(Double)
    case text(String)
    case blob([UInt8])

    static func optional(_ value: Int64?) -> SQLValue { value.map { .int($0) } ?? .null }
    static func optional(_ value: String?) -> SQLValue { value.map { .text($0) } ?? .null }
    static func int(_ value: Int) -> SQLValue { .int(Int64(value)) }
    static func bool(_ value: Bool) -> SQLValue { .int(value ? 1 : 0) }
}

/// One prepared statement, and its current row while there is one.
final class Statement {
    private let handle: OpaquePointer
    private(set) var isRunning = false

    init(_ handle: OpaquePointer) {
        self.handle = handle
    }

    var sql: String { sqlite3_sql(handle).map { String(cString: $0) } ?? "" }

    func forgetValues() {
        guard !isRunning else { return }
        sqlite3_clear_bindings(handle)
    }

    func finalize() {
        sqlite3_finalize(handle)
    }

    /// Binds all parameters, first to last.
    func bind(_ values: [SQLValue]) throws(StoreError) {
        isRunning = true
        for (index, value) in values.enumerated() {
            let place = Int32(index + 1)
            let result =
                switch value {
                case .null: sqlite3_bind_null(handle, place)
                case .int(let value): sqlite3_bind_int64(handle, place, value)
                case .real(let value): sqlite3_bind_double(handle, place, value)
                case .text(let value): bindText(value, at: place)
                case .blob(let bytes):
                    bytes.withUnsafeBytes { bytes in
                        bytes.baseAddress.map { csqlite_bind_blob(handle, place, $0, Int32(bytes.count)) }
                            ?? sqlite3_bind_zeroblob(handle, place, 0)
                    }
                }
            try check(bound: result)
        }
    }

    // Binds the parameters one by one, for the widest row: collecting its values first would cost as much as binding them. Places count
    // from 1, and every one must be bound, because a former value stays.

    func bind(_ place: Int32, _ value: Int64?) throws(StoreError) {
        isRunning = true
        try check(bound: value.map { sqlite3_bind_int64(handle, place, $0) } ?? sqlite3_bind_null(handle, place))
    }

    func bind(_ place: Int32, _ value: String?) throws(StoreError) {
        isRunning = true
        try check(bound: value.map { bindText($0, at: place) } ?? sqlite3_bind_null(handle, place))
    }

    private func bindText(_ text: String, at place: Int32) -> Int32 {
        var text = text
        return text.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { bytes in
                // An empty text may have no address, and SQLite would bind NULL for no address.
                bytes.baseAddress.map { csqlite_bind_text(handle, place, $0, Int32(bytes.count)) }
                    ?? csqlite_bind_text(handle, place, "", 0)
            }
        }
    }

    private func check(bound result: Int32) throws(StoreError) {
        guard result != SQLITE_OK else { return }
        reset()
        throw StoreError(result: result, on: sqlite3_db_handle(handle), doing: "bind")
    }

    /// - Returns: `true` when there is a current row now. The statement is reset when it throws.
    func step() throws(StoreError) -> Bool {
        isRunning = true
        let result = sqlite3_step(handle)
        switch result {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        default:
            let error = StoreError(result: result, on: sqlite3_db_handle(handle), doing: String(sql.prefix(80)))
            reset()
            throw error
        }
    }

    func reset() {
        sqlite3_reset(handle)
        isRunning = false
    }

    var columnCount: Int32 { sqlite3_column_count(handle) }

    /// Length of a text, bytes; for a number, of its decimal text.
    func byteCount(_ column: Int32) -> Int { Int(sqlite3_column_bytes(handle, column)) }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }
    func int(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column).asStored }
    func optionalInt(_ column: Int32) -> Int64? { isNull(column) ? nil : int(column) }
    func bool(_ column: Int32) -> Bool { int(column) != 0 }

    func text(_ column: Int32) -> String {
        bytes(column).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    func optionalText(_ column: Int32) -> String? {
        bytes(column).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The bytes of a text or a blob, valid until the next step; `nil` for NULL.
    func bytes(_ column: Int32) -> UnsafeRawBufferPointer? {
        guard let start = sqlite3_column_text(handle, column) else { return nil }
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column)))
    }

    func blob(_ column: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(handle, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))))
    }

    /// The value with the type that SQLite stores.
    func value(_ column: Int32) -> SQLValue {
        switch sqlite3_column_type(handle, column) {
        case SQLITE_INTEGER: .int(int(column))
        case SQLITE_FLOAT: .real(sqlite3_column_double(handle, column))
        case SQLITE_TEXT: .text(text(column))
        case SQLITE_BLOB: .blob(blob(column))
        default: .null
        }
    }
}
