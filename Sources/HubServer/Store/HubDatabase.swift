import SyncCore

/// One connection to a hub's rows, with its prepared statements. It must not be used by two threads at once.
///
/// The hub uses one language: SQL that SQLite and PostgreSQL both accept, so that there is one copy of every statement and one suite of
/// tests for both. The subset, by its differences:
/// - `?1`, `?2`, or plain `?` in the order of the values; an engine with another notation translates each statement once.
/// - `CASE` for the larger of two values, `ON CONFLICT … DO UPDATE` with the table's name before an old value, `IS NULL OR <>` for a
///   difference that counts NULL, `CAST(?1 AS TEXT) IS NULL` for a value whose type no other part of the statement tells.
/// - Columns hold INTEGER of 64 bits, TEXT ordered by its bytes, and bytes; no expression stores a Boolean in a column.
/// Differences outside the subset are in ``SQLSpelling``, and each engine has its own schema.
package protocol HubDatabase: AnyObject {
    var spelling: SQLSpelling { get }
    /// Other processes write here too: data that was read in one transaction may have changed in the next.
    var isShared: Bool { get }
    var isInTransaction: Bool { get }
    /// The rows that the present or the latest transaction has read may exist on one machine only: the transaction only reads, and the
    /// server commits to a standby, too (``UnconfirmedRead``).
    var mayBeUndone: Bool { get }

    /// Begins a transaction. A writing one is the only one in all processes until it ends. The data that it reads stays unchanged, and
    /// commit numbers become visible in their order.
    func begin(_ purpose: TransactionPurpose) throws(DatabaseError)
    /// When this returns, the writes survive a power cut. When it throws, their state is unknown.
    func commit() throws(DatabaseError)
    /// Ends a transaction that began as ``TransactionPurpose/deciding``: locks the hub, compares what the decision rests on, and commits
    /// what was gathered, with commit numbers from the one that was locked.
    ///
    /// - Returns: The difference between the commit numbers that were given out and those that were decided with.
    /// - Throws: `.contended` when the decision does not hold any more, and `.busy` when the lock is not free. Nothing was written then.
    func commit(_ decision: Decision) throws(DatabaseError) -> Int64
    func rollback() throws(DatabaseError)

    /// Runs one statement that has no values and whose rows do not matter.
    func execute(_ sql: String) throws(DatabaseError)
    /// Runs one statement for its changes. A failure may show only with the next statement that reads, or the commit.
    func write(_ sql: String, _ values: [DatabaseValue]) throws(DatabaseError)
    /// Waits for all earlier writes, and throws the first failure.
    func waitForWrites() throws(DatabaseError)
    /// Passes on row after row until `body` returns `false`.
    func read(_ sql: String, _ values: [DatabaseValue], _ body: (any DatabaseRow) -> Bool) throws(DatabaseError)
    /// The same for a result that may be larger than memory; within a transaction.
    func stream(_ sql: String, _ values: [DatabaseValue], _ body: (any DatabaseRow) -> Bool) throws(DatabaseError)
    /// Writes many rows of one table. The rows of one call must have different keys.
    func write(_ statement: RowStatement, _ rows: [[DatabaseValue]]) throws(DatabaseError)
    /// Answers several questions, in one round trip where the engine is on another machine.
    ///
    /// - Parameter body: Receives the index of the question, the index of the set of values, and a row of its answer. The rows of one set
    ///   come in the order of the query.
    func answer(_ questions: [Question], _ body: (Int, Int, any DatabaseRow) -> Void) throws(DatabaseError)
    /// Number of rows that the last ``write(_:_:)`` changed.
    func changes() throws(DatabaseError) -> Int
    /// Keeps programs that do not know the feature from using this database, within the present transaction.
    func require(_ feature: DatabaseFeature) throws(DatabaseError)
    /// The space of the rows, as far as this engine reports it.
    func size() throws(DatabaseError) -> DatabaseSize?
    /// Number of statements with rows in the present transaction, if that is one which decides.
    var reads: Int { get }
    /// Number of times that an answer of another machine was awaited.
    var roundTrips: Int { get }
}

/// A use of the database that programs of earlier versions would overlook.
package enum DatabaseFeature: Sendable {
    case scopes, versions, entitySettings
}

package struct DatabaseSize: Sendable, Hashable {
    /// Size of the file or files.
    package var bytes: Int64
    /// The unused part of it.
    package var freeBytes: Int64

    package init(bytes: Int64, freeBytes: Int64) {
        self.bytes = bytes
        self.freeBytes = freeBytes
    }
}

package enum TransactionPurpose: Sendable {
    case reading, writing
    /// Like ``writing``, for a caller with other work: after ``busyMilliseconds`` in which others wrote it fails with `.busy`.
    case writingIfFree
    /// Removes old rows: on a server beside transactions that write, without a commit number and without waiting for the row of the hub.
    /// A decision may have read such a row, and must write the same without it. With a file like ``writing``.
    case removing
    /// Decides without the lock of the hub, over a snapshot: writes are gathered, and executed by ``HubDatabase/commit(_:)``. Nothing that
    /// was gathered is read back. Only for a database that is shared.
    case deciding

    package static let busyMilliseconds = 500
}

/// Differences in SQL between the engines.
package struct SQLSpelling: Sendable {
    /// Follows `FROM record`, in a statement that must walk the index of the feed.
    package var byFeed: String
    /// The index of the feed begins with the expression `entity || ''`, so that a planner without statistics about the table does not use
    /// it to find a record.
    package var isFeedByExpression: Bool
    /// Number of changes of the book of tokens; 0 where the database does not keep it.
    package var tokens: String
    /// The newest commit is the newest row of `commit_log`, and the row of `hub` is only locked. Otherwise it is in the row of `hub`.
    package var keepsLog: Bool
    package var keys: KeyTables
    /// The sum of the bytes of the documents of the entity `?1` with ids behind `?2` up to `?3`; `nil`: the engine would read them for it,
    /// and has no time limit for a statement.
    package var bytesOfDocuments: String?
    /// Follows a column of text that is ordered by its bytes, though it was made without that order.
    package var byBytes: String
    /// Follows a query of rows that the transaction removes: it locks them, and leaves out those that others have locked. Empty where a
    /// transaction that writes is the only one.
    package var lockingFreeRows: String
    /// Follows a look-up of one row by the key of a statement with ``RowStatement/Form/merging(key:_:)``. On a server such a row is
    /// replaced after some updates by one with the next number in the column `n`: while another session keeps a snapshot open, as a backup
    /// does, former versions cannot be removed, and the newest row is found before them.
    package var newestRow: String

    package init(
        byFeed: String, isFeedByExpression: Bool, tokens: String, keepsLog: Bool, keys: KeyTables, bytesOfDocuments: String? = nil,
        byBytes: String = "", lockingFreeRows: String = "", newestRow: String = ""
    ) {
        self.byBytes = byBytes
        self.lockingFreeRows = lockingFreeRows
        self.newestRow = newestRow
        self.bytesOfDocuments = bytesOfDocuments
        self.byFeed = byFeed
        self.isFeedByExpression = isFeedByExpression
        self.tokens = tokens
        self.keepsLog = keepsLog
        self.keys = keys
    }
}

extension SQLSpelling {
    /// - Parameter table: An alias, where the statement has one.
    func feedEntity(of table: String? = nil) -> String {
        let column = table.map { $0 + ".entity" } ?? "entity"
        return isFeedByExpression ? "(\(column) || '')" : column
    }
}

/// The location of a hub's rows, and the connections to it.
package protocol HubDatabasePlace: Sendable {
    /// For the log and for messages; contains no secret.
    var description: String { get }
    /// Opens the serving connection, and updates the schema.
    func open() throws(DatabaseError) -> any HubDatabase
    /// Opens a connection that only reads, beside those that write.
    ///
    /// - Parameter mayLag: A copy that follows the database will do as well.
    func openForReading(mayLag: Bool) throws(DatabaseError) -> any HubDatabase
}

extension HubDatabase {
    /// Runs one statement for its changes.
    func run(_ sql: String, _ values: DatabaseValue...) throws(DatabaseError) {
        try write(sql, values)
    }

    /// The first row, or `nil`.
    package func first<T>(_ sql: String, _ values: DatabaseValue..., read: (any DatabaseRow) -> T) throws(DatabaseError) -> T? {
        var found: T?
        try self.read(sql, values) { row in
            found = read(row)
            return false
        }
        return found
    }

    package func all<T>(_ sql: String, _ values: DatabaseValue..., read: (any DatabaseRow) -> T) throws(DatabaseError) -> [T] {
        var found: [T] = []
        try self.read(sql, values) { row in
            found.append(read(row))
            return true
        }
        return found
    }

    package func number(_ sql: String) throws(DatabaseError) -> Int64 { try first(sql) { $0.int(0) } ?? 0 }
    package func text(_ sql: String) throws(DatabaseError) -> String { try first(sql) { $0.text(0) } ?? "" }

    /// Runs `body` in a reading transaction of its own: everything in it is of one moment.
    func reading<T>(_ body: () throws(DatabaseError) -> T) throws(DatabaseError) -> T {
        try begin(.reading)
        do throws(DatabaseError) {
            let result = try body()
            try commit()
            return result
        } catch {
            try? rollback()  // A reading transaction has nothing to lose.
            throw error
        }
    }
}

package enum DatabaseValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByNilLiteral, Sendable {
    case null
    case int(Int64)
    case text(String)
    case blob([UInt8])

    package init(stringLiteral value: String) { self = .text(value) }
    package init(integerLiteral value: Int64) { self = .int(value) }
    package init(nilLiteral: ()) { self = .null }

    init(_ value: String?) { self = value.map { .text($0) } ?? .null }
    init(_ value: Int64?) { self = value.map { .int($0) } ?? .null }
}

/// The present row of a statement; valid only inside the closure that received it.
package protocol DatabaseRow {
    func isNull(_ column: Int32) -> Bool
    func int(_ column: Int32) -> Int64
    func text(_ column: Int32) -> String
    func blob(_ column: Int32) -> [UInt8]
}

extension DatabaseRow {
    func optionalInt(_ column: Int32) -> Int64? { isNull(column) ? nil : int(column) }
    func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }
}

/// An integer as an engine read it from a row.
package struct DatabaseNumber {
    package let value: Int64

    package init(read value: Int64) {
        self.value = value.asStored
    }
}

/// An error of the database.
package struct DatabaseError: Error, CustomStringConvertible {
    package enum Kind: String, Sendable {
        /// Another process holds the lock for longer than the limit.
        case busy
        /// Two transactions conflicted, and this one was chosen to begin again.
        case contended
        /// The connection is lost, or the server is unreachable. It is unknown whether a commit succeeded before that.
        case lost
        case full
        /// Reading, writing or syncing the file failed. After a failed sync the state on disk is unknown.
        case io
        case corrupt
        case readOnly
        case cannotOpen
        /// Another program's file, or one of a newer version of this program.
        case foreign
        case other
    }

    package var kind: Kind
    package var doing: String
    package var detail: String

    package init(_ kind: Kind, doing: String, detail: String) {
        self.kind = kind
        self.doing = doing
        self.detail = detail
    }

    package var description: String { "\(doing): \(detail)" }

    /// Another request in the same transaction might not have this error.
    var mayBeOfOneRequest: Bool {
        switch kind {
        case .other, .corrupt, .io, .full: true
        case .busy, .contended, .lost, .readOnly, .cannotOpen, .foreign: false
        }
    }
}
