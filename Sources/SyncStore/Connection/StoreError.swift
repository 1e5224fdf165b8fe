package import SyncCore
import SyncSQLite

/// The reason why the store could not perform an operation. Its partial effects are undone before the error is thrown, unless the code is
/// `.unknownOutcome`.
package struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The request itself is at fault or must wait; the problem goes to the app unchanged.
        case refused(Problem)
        /// No space on the file system, a quota, or the largest file size.
        case diskFull
        /// The medium failed to read or write.
        case ioError
        /// The data that SQLite read contradicts itself.
        case corrupt
        /// The file has content, and it is not a database.
        case notADatabase
        /// Another process holds the database.
        case locked
        case readOnly
        /// The file cannot be opened or created.
        case cannotOpen
        /// A constraint of the schema stopped a wrong write: a fault in this program.
        case constraint
        /// The database was written by a newer program; the file was not touched.
        case newerSchema
        /// The database belongs to another program; the file was not touched.
        case foreignFile
        /// The writing connection does not have `synchronous=FULL`, so an answer would not be durable.
        case notDurable
        /// According to the marker there was a database here, and now there is none or a new one.
        case lostDatabase
        /// The files of the database lost their names while they were open.
        case removed
        /// The read exceeded its time limit.
        case tooSlow
        case outOfMemory
        /// The commit may or may not have reached the medium: only opening the database again shows it.
        case unknownOutcome
        /// The store was closed, or gave up after a second failed commit.
        case closed
        /// A test stopped the store at a commit.
        case stopped
        case other
    }

    package var code: Code
    /// The failed operation, for the operator: `enqueue`, `open /var/lib/agentd/agent.db`.
    package var doing: String
    /// The message of SQLite, or of this program.
    package var detail: String
    /// SQLite's extended result code, where there is one.
    package var result: Int32?

    package init(_ code: Code, doing: String, detail: String = "", result: Int32? = nil) {
        self.code = code
        self.doing = doing
        self.detail = detail
        self.result = result
    }

    package static func refused(_ problem: Problem) -> StoreError {
        StoreError(.refused(problem), doing: "check the request", detail: problem.detail)
    }

    /// The problem to answer with, when the request was at fault.
    package var problem: Problem? {
        if case .refused(let problem) = code { problem } else { nil }
    }

    /// The medium could not read the data. The next read may succeed, so this alone is no damage.
    package var isFailedRead: Bool { code == .ioError && result == SQLiteError.failedRead }

    /// `true` when the same call can succeed later, unchanged.
    package var isRetryable: Bool {
        switch code {
        case .diskFull, .ioError, .locked, .tooSlow, .outOfMemory, .readOnly, .removed: true
        case .refused(let problem): problem.status >= 500
        case .corrupt, .notADatabase, .cannotOpen, .constraint, .newerSchema, .foreignFile, .notDurable, .lostDatabase,
            .unknownOutcome, .closed, .stopped, .other:
            false
        }
    }

    /// `true` when an opening failed because of the medium or another process, so that the same database may be opened later.
    package var isPassing: Bool {
        switch code {
        case .diskFull, .ioError, .locked, .readOnly, .cannotOpen, .outOfMemory, .tooSlow, .removed: true
        case .refused, .corrupt, .notADatabase, .constraint, .newerSchema, .foreignFile, .notDurable, .lostDatabase,
            .unknownOutcome, .closed, .stopped, .other:
            false
        }
    }

    package var description: String {
        let word =
            switch code {
            case .refused(let problem): problem.code
            default: "\(code)"
            }
        return "\(doing): \(word)" + (detail.isEmpty ? "" : ": \(detail)") + (result.map { " (\($0))" } ?? "")
    }
}
