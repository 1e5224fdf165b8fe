import SyncCore

/// One connection to where a hub keeps its rows, with its prepared statements. Not for two threads at once.
///
/// The hub speaks one language to it: SQL that SQLite and PostgreSQL both take, so that there is one copy of every statement
/// and one suite of tests for both. That subset, found by what differs:
/// - `?1`, `?2`, or plain `?` in the order of the values; an engine that writes them otherwise translates once a statement.
/// - `CASE` for the larger of two values, `ON CONFLICT … DO UPDATE` with the table's name before an old value, `IS NULL OR <>`
///   for a difference that counts NULL, `CAST(?1 AS TEXT) IS NULL` for a value whose type nothing else tells.
/// - Columns hold INTEGER of 64 bits, TEXT ordered by its bytes, and bytes; nothing computes a Boolean into a column.
/// What cannot be said in it is in ``SQLSpelling``, and the schema of each engine is its own.
package protocol Database: AnyObject {
    var spelling: SQLSpelling { get }
    /// Other processes write here too: nothing that was read in one transaction is known in the next.
    var isShared: Bool { get }
    var isInTransaction: Bool { get }

    /// Begins a transaction. One that writes is the only one until it ends, in all processes: whatever it reads stays so, and
    /// its commit numbers become visible in their order.
    func begin(_ purpose: TransactionPurpose) throws(DatabaseError)
    /// When this returns, what was written outlives a power cut. When it throws, nothing is known about it.
    func commit() throws(DatabaseError)
    func rollback() throws(DatabaseError)

    /// Runs one statement that takes no values and whose rows do not matter.
    func execute(_ sql: String) throws(DatabaseError)
    /// Runs one statement for what it changes. A failure may show only with the next statement that reads, or the commit.
    func write(_ sql: String, _ values: [DatabaseValue]) throws(DatabaseError)
    /// Waits for what was written so far, and throws the first failure.
    func settle() throws(DatabaseError)
    /// Hands over row after row until `body` says `false`.
    func read(_ sql: String, _ values: [DatabaseValue], _ body: (any DatabaseRow) -> Bool) throws(DatabaseError)
    /// The same for a result that may be larger than memory; within a transaction.
    func stream(_ sql: String, _ values: [DatabaseValue], _ body: (any DatabaseRow) -> Bool) throws(DatabaseError)
    /// Writes many rows of one table. Of two rows with the same key in one call nothing good comes.
    func write(_ statement: RowStatement, _ rows: [[DatabaseValue]]) throws(DatabaseError)
    /// Answers several questions, in one round trip where the engine is one away.
    ///
    /// - Parameter body: Takes the index of the question, that of the set of values, and a row of its answer. The rows of one
    ///   set come in the order of the query.
    func answer(_ questions: [Question], _ body: (Int, Int, any DatabaseRow) -> Void) throws(DatabaseError)
    /// Rows that the last ``write(_:_:)`` changed.
    func changes() throws(DatabaseError) -> Int
    /// What the rows take up, as far as this engine says it.
    func size() throws(DatabaseError) -> DatabaseSize?
}

package struct DatabaseSize: Sendable, Hashable {
    /// Of the file or the files.
    package var bytes: Int64
    /// Of these, what nothing uses.
    package var freeBytes: Int64

    package init(bytes: Int64, freeBytes: Int64) {
        self.bytes = bytes
        self.freeBytes = freeBytes
    }
}

package enum TransactionPurpose: Sendable {
    case reading, writing
    /// Like ``writing``, for somebody who has other work: after ``busyMilliseconds`` in which others wrote it gives up with `.busy`.
    case writingIfFree

    package static let busyMilliseconds = 500
}

/// What the engines say differently.
package struct SQLSpelling: Sendable {
    /// After `FROM record`, for a statement that must walk the index of the feed.
    package var byFeed: String
    /// The index of the feed begins with the expression `entity || ''`, so that a planner which knows nothing of the table yet
    /// cannot take it for a way to a record.
    package var isFeedByExpression: Bool
    /// How often the book of tokens has changed; 0 where it is not kept here.
    package var tokens: String

    package init(byFeed: String, isFeedByExpression: Bool, tokens: String) {
        self.byFeed = byFeed
        self.isFeedByExpression = isFeedByExpression
        self.tokens = tokens
    }
}

extension SQLSpelling {
    /// - Parameter table: An alias, where the statement has one.
    func feedEntity(of table: String? = nil) -> String {
        let column = table.map { $0 + ".entity" } ?? "entity"
        return isFeedByExpression ? "(\(column) || '')" : column
    }
}

/// Where a hub's rows are, and how to get there.
package protocol DatabasePlace: Sendable {
    /// For the log and for messages; names no secret.
    var description: String { get }
    /// Opens the connection that serves, and brings the schema up to date.
    func open() throws(DatabaseError) -> any Database
    /// Opens a connection that only reads, beside those that write.
    func openForReading() throws(DatabaseError) -> any Database
}

extension Database {
    /// Runs one statement for what it changes.
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

    /// Runs `body` in a transaction of its own that only reads: all of it is of one moment.
    func reading<T>(_ body: () throws(DatabaseError) -> T) throws(DatabaseError) -> T {
        try begin(.reading)
        do throws(DatabaseError) {
            let result = try body()
            try commit()
            return result
        } catch {
            try? rollback()  // Reads only: there is nothing to lose.
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

/// The present row of a statement; valid only inside the closure that it was handed to.
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

/// A whole number as any engine has read it from a row.
package struct DatabaseNumber {
    package let value: Int64

    package init(read value: Int64) {
        self.value = value.asStored
    }
}

/// What the database said.
package struct DatabaseError: Error, CustomStringConvertible {
    package enum Kind: String, Sendable {
        /// Another process holds the lock for longer than we wait.
        case busy
        /// Two transactions were in each other's way, and this one was chosen to begin again.
        case contended
        /// The connection is gone, or the server is not there. Whether a commit went through before that is unknown.
        case lost
        case full
        /// Reading, writing or syncing the file failed. After a failed sync nobody knows what is on the disk.
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

    /// Another request in the same transaction might not have met it.
    var mayBeOfOneRequest: Bool {
        switch kind {
        case .other, .corrupt, .io, .full: true
        case .busy, .contended, .lost, .readOnly, .cannotOpen, .foreign: false
        }
    }
}
