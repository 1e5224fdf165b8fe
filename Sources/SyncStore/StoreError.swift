package import SyncCore

/// Why the store could not do what was asked. Whatever was begun is undone before it is thrown, unless the code is
/// `.unknownOutcome`.
package struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The request itself is at fault or must wait; the problem goes to the app as it is.
        case refused(Problem)
        /// No space on the file system, a quota, or the largest file size.
        case diskFull
        /// The medium failed to read or write.
        case ioError
        /// What SQLite read contradicts itself.
        case corrupt
        /// The file has content, and it is not a database.
        case notADatabase
        /// Somebody else holds the database.
        case locked
        case readOnly
        /// The file cannot be opened or created.
        case cannotOpen
        /// A guard of the schema stopped a wrong write: our own mistake.
        case constraint
        /// Written by a newer program; the file was not touched.
        case newerSchema
        /// A database of another program; the file was not touched.
        case foreignFile
        /// The writing connection does not have `synchronous=FULL`, so an answer would be no promise.
        case notDurable
        /// A database was here before, as the marker says, and now there is none or a new one.
        case lostDatabase
        /// The files of the database have lost their names while they were open.
        case removed
        /// The read took longer than it may.
        case tooSlow
        case outOfMemory
        /// The commit may or may not have reached the medium: only reopening tells.
        case unknownOutcome
        /// The store was closed, or gave up after a second failed commit.
        case closed
        /// Stopped by a test at a commit.
        case stopped
        case other
    }

    package var code: Code
    /// For the operator: `enqueue`, `open /var/lib/agentd/agent.db`.
    package var doing: String
    /// SQLite's own words, or ours.
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

    /// The medium did not give what was to be read. It may give it the next time, so this alone is no damage.
    package var isFailedRead: Bool { code == .ioError && result == Self.failedRead }

    /// Can the same call succeed later, untouched?
    package var isRetryable: Bool {
        switch code {
        case .diskFull, .ioError, .locked, .tooSlow, .outOfMemory, .readOnly, .removed: true
        case .refused(let problem): problem.status >= 500
        case .corrupt, .notADatabase, .cannotOpen, .constraint, .newerSchema, .foreignFile, .notDurable, .lostDatabase,
            .unknownOutcome, .closed, .stopped, .other:
            false
        }
    }

    /// Of an opening: the medium or another process stands in the way, and the same database may be opened later.
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
