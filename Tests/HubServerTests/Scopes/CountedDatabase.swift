import HubServer

/// The statements that a hub has run, each with the numbers of its sets of values and of the rows that came back.
final class WorkLog: @unchecked Sendable {
    // Unchecked: a hub in a test is called by one thread, and its database by no other one.
    struct Entry: Hashable, CustomStringConvertible {
        var sql: String
        var sets = 1
        var rows = 0

        var description: String { "\(sets) sets, \(rows) rows: \(sql)" }
    }

    private(set) var entries: [Entry] = []

    func add(_ entry: Entry) { entries.append(entry) }

    /// The entries since the last call.
    func take() -> [Entry] {
        defer { entries = [] }
        return entries
    }
}

/// Databases whose work is counted.
struct CountedPlace: HubDatabasePlace {
    let inner: any HubDatabasePlace
    let log: WorkLog

    var description: String { inner.description }
    func open() throws(DatabaseError) -> any HubDatabase { CountedDatabase(try inner.open(), log) }
    func openForReading(mayLag: Bool) throws(DatabaseError) -> any HubDatabase {
        CountedDatabase(try inner.openForReading(mayLag: mayLag), log)
    }
}

final class CountedDatabase: HubDatabase {
    private let inner: any HubDatabase
    private let log: WorkLog
    private let beforeBegin: () -> Void

    /// - Parameter beforeBegin: Called before each transaction.
    init(_ inner: any HubDatabase, _ log: WorkLog, beforeBegin: @escaping () -> Void = {}) {
        (self.inner, self.log, self.beforeBegin) = (inner, log, beforeBegin)
    }

    var spelling: SQLSpelling { inner.spelling }
    var isShared: Bool { inner.isShared }
    var mayBeUndone: Bool { inner.mayBeUndone }
    var isInTransaction: Bool { inner.isInTransaction }

    func begin(_ purpose: TransactionPurpose) throws(DatabaseError) {
        beforeBegin()
        log.add(WorkLog.Entry(sql: "begin"))
        try inner.begin(purpose)
    }

    func commit() throws(DatabaseError) {
        log.add(WorkLog.Entry(sql: "commit"))
        try inner.commit()
    }

    /// The facts that a decision compares before its commit are statements, too.
    func commit(_ decision: Decision) throws(DatabaseError) -> Int64 {
        for facts in decision.facts { log.add(WorkLog.Entry(sql: facts.fact.isPast, sets: facts.sets.count)) }
        log.add(WorkLog.Entry(sql: decision.isExact ? "commit alone" : "commit"))
        return try inner.commit(decision)
    }

    var reads: Int { inner.reads }
    var roundTrips: Int { inner.roundTrips }

    func rollback() throws(DatabaseError) {
        log.add(WorkLog.Entry(sql: "rollback"))
        try inner.rollback()
    }

    func execute(_ sql: String) throws(DatabaseError) {
        log.add(WorkLog.Entry(sql: sql))
        try inner.execute(sql)
    }

    func write(_ sql: String, _ values: [DatabaseValue]) throws(DatabaseError) {
        log.add(WorkLog.Entry(sql: sql))
        try inner.write(sql, values)
    }

    func waitForWrites() throws(DatabaseError) { try inner.waitForWrites() }

    func read(_ sql: String, _ values: [DatabaseValue], _ body: (any DatabaseRow) -> Bool) throws(DatabaseError) {
        var entry = WorkLog.Entry(sql: sql)
        try inner.read(sql, values) { row in
            entry.rows += 1
            return body(row)
        }
        log.add(entry)
    }

    func stream(_ sql: String, _ values: [DatabaseValue], _ body: (any DatabaseRow) -> Bool) throws(DatabaseError) {
        var entry = WorkLog.Entry(sql: sql)
        try inner.stream(sql, values) { row in
            entry.rows += 1
            return body(row)
        }
        log.add(entry)
    }

    func write(_ statement: RowStatement, _ rows: [[DatabaseValue]]) throws(DatabaseError) {
        log.add(WorkLog.Entry(sql: statement.single, sets: rows.count))
        try inner.write(statement, rows)
    }

    func answer(_ questions: [Question], _ body: (Int, Int, any DatabaseRow) -> Void) throws(DatabaseError) {
        var asked = questions.map { WorkLog.Entry(sql: $0.lookUp.sql, sets: $0.sets.count) }
        try inner.answer(questions) { question, set, row in
            asked[question].rows += 1
            body(question, set, row)
        }
        for entry in asked { log.add(entry) }
    }

    func changes() throws(DatabaseError) -> Int { try inner.changes() }
    func require(_ feature: DatabaseFeature) throws(DatabaseError) { try inner.require(feature) }
    func size() throws(DatabaseError) -> DatabaseSize? { try inner.size() }
}
