import CSQLite
import Glibc

/// The reason why a call of SQLite failed: its result codes and the errors of the system below it, as one cause.
package struct SQLiteError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Cause: Hashable, Sendable, CaseIterable {
        /// No space or inode on the file system, a quota, or the largest file size.
        case full
        /// The medium failed to read or write.
        case io
        /// The data that SQLite read contradicts itself, or a page does not match its seal.
        case corrupt
        /// The file has content, and it is not a database.
        case notADatabase
        /// Another connection holds the lock.
        case busy
        case readOnly
        /// The file cannot be opened or created.
        case cannotOpen
        /// A constraint of the schema stopped a write.
        case constraint
        case outOfMemory
        /// The time limit of ``SQLiteConnection/bounded(by:_:)`` ended the statement.
        case interrupted
        case other
    }

    package let cause: Cause
    /// The failed operation, for the operator: `open /var/lib/agentd/agent.db`, or the beginning of the statement.
    package let doing: String
    /// The message of SQLite, or of this program.
    package let detail: String
    /// SQLite's extended result code; `nil` when SQLite was not asked.
    package let result: Int32?

    package init(_ cause: Cause, doing: String, detail: String, result: Int32? = nil) {
        self.cause = cause
        self.doing = doing
        self.detail = detail
        self.result = result
    }

    /// Makes an error from SQLite's result.
    ///
    /// - Parameter handle: The connection; `nil` when there is none.
    init(result: Int32, on handle: OpaquePointer?, doing: String) {
        let isCall = [SQLITE_IOERR, SQLITE_CANTOPEN].contains(result & 0xFF)
        // For other results the connection has the number of an earlier call.
        let system = isCall ? handle.map { sqlite3_system_errno($0) } ?? 0 : 0
        let message = Self.message(of: result, on: handle)
        let cause = Self.cause(of: result, system: system)
        if cause == .cannotOpen, let path = handle.flatMap({ sqlite3_db_filename($0, "main") }), Self.lacksInodes(path) {
            self.init(.full, doing: doing, detail: "\(message) (no inode is free)", result: result)
            return
        }
        self.init(cause, doing: doing, detail: system == 0 ? message : "\(message) (errno \(system))", result: result)
    }

    private static func message(of result: Int32, on handle: OpaquePointer?) -> String {
        // SQLite calls it an error of the disk.
        if csqlite_is_broken_seal(result) != 0 { return "a page is not as it was written: its seal does not match" }
        return String(cString: handle == nil ? sqlite3_errstr(result) : sqlite3_errmsg(handle))
    }

    /// The beginning of a statement, which tells which one it is.
    static func beginning(of sql: String) -> String { String(sql.prefix(80)) }

    /// Returns whether no file can be created beside this one. SQLite first fails to create a log and then opens it as an existing one, so
    /// `errno` reports a missing file.
    private static func lacksInodes(_ path: UnsafePointer<CChar>) -> Bool {
        var facts = statvfs()
        // A file system that does not count inodes (btrfs) reports none at all.
        return statvfs(path, &facts) == 0 && facts.f_files > 0 && facts.f_favail == 0
    }

    /// The cause of a result.
    ///
    /// - Parameter system: `errno` of the failed call. SQLite reports only ENOSPC of a write as a full disk. A quota (EDQUOT), the largest
    ///   file size (EFBIG) and a log that cannot be created for want of an inode are treated the same. A disk that became read-only (EROFS)
    ///   shows as an error of a write.
    package static func cause(of result: Int32, system: Int32) -> Cause {
        if csqlite_is_broken_seal(result) != 0 { return .corrupt }
        let isNoRoom = system == ENOSPC || system == EDQUOT || system == EFBIG
        return switch result & 0xFF {
        case SQLITE_FULL: .full
        case SQLITE_IOERR: isNoRoom ? .full : system == EROFS ? .readOnly : .io
        case SQLITE_CORRUPT: .corrupt
        case SQLITE_NOTADB: .notADatabase
        case SQLITE_BUSY, SQLITE_LOCKED: .busy
        case SQLITE_READONLY, SQLITE_PERM, SQLITE_AUTH: .readOnly
        case SQLITE_CANTOPEN: isNoRoom ? .full : system == EROFS ? .readOnly : .cannotOpen
        case SQLITE_CONSTRAINT: .constraint
        case SQLITE_NOMEM: .outOfMemory
        case SQLITE_INTERRUPT: .interrupted
        default: .other
        }
    }

    /// A call to the file failed, whatever its reason. After a failed sync the state on the medium is unknown.
    package var isFailedCall: Bool { result.map { $0 & 0xFF == SQLITE_IOERR } ?? false }

    /// SQLite's result for a read that the medium did not answer. The next read may succeed, so it is no damage.
    package static let failedRead = csqlite_failed_read()

    package var description: String { "\(doing): \(detail)" + (result.map { " (\($0))" } ?? "") }
}
