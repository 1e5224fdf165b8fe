import HubServer

/// The last round trip of a decision that was made without the lock of the hub: everything that it writes, in one burst.
///
/// 1. Large values go to the server as settings of the transaction (`set_config`): nothing is locked yet, however long that takes.
/// 2. The row of `hub` is locked. Each statement from here on sees all commits of the earlier holders (READ COMMITTED).
/// 3. What the decision rests on is compared. A comparison that fails divides by zero: the server ends the transaction, and skips the rest.
/// 4. Rows are written, commit numbers higher by as much as the newest one is higher than the decision knew.
/// 5. COMMIT.
///
/// **A hub that stops in the middle.** Until the next Sync the server waits for the rest without any limit: neither
/// `idle_in_transaction_session_timeout` nor `statement_timeout` counts there (PostgreSQL 15, `PostgresMain`). So the steps 2 to 5 must
/// be in the kernel together, before the first of them can run. libpq writes to the socket whenever 8 KB have gathered
/// (`pqPutMsgEnd`), and at the Sync. Therefore:
/// - Values go ahead (step 1), and so do the texts of statements that this connection uses for the first time: up to 12 KB.
/// - What is left is 60 bytes a statement, and 0.3 KB for the position. 64 pushes of 20 mutations with 200 B have 1.6 KB, and the largest
///   group, 2,000 mutations or 8 MB in slices of 1,000 rows, less than 4 KB: one `send`.
/// - The socket has room for that piece (``PostgresConnection/flushForPiece()``).
///
/// A network that delivers a part of it and no more is left. The replicas that wait then end the session
/// (``PostgresPlace/Patience/stalledMilliseconds``).
struct PostgresBurst {
    private enum Write {
        case statement(String, [DatabaseValue])
        case rows(RowStatement, [[DatabaseValue]])
    }

    private var writes: [Write] = []
    #if ABLATIONS
        var ablation: PostgresPlace.Ablation?
    #endif

    static let lock = "SELECT one FROM hub WHERE one = 1 FOR UPDATE"

    mutating func add(_ sql: String, _ values: [DatabaseValue]) { writes.append(.statement(sql, values)) }

    mutating func add(_ statement: RowStatement, _ rows: [[DatabaseValue]]) { writes.append(.rows(statement, rows)) }

    /// A short statement that uses values which are at the server.
    private struct Short {
        var sql: String
        var values: [DatabaseValue] = []
    }

    /// Sends everything within a transaction that has just begun, and waits for its end.
    ///
    /// - Returns: The newest commit number before it; `nil`: there is no hub, and nothing was written.
    func send(
        _ decision: Decision, _ connection: PostgresConnection, _ statements: inout SetStatements
    ) throws(DatabaseError) -> Int64? {
        let comparisons = try stage(decision.facts, connection, &statements)
        let writing = try stageWrites(connection, &statements)
        var position = 0
        var order = [Short(sql: PostgresBurst.lock), Short(sql: PostgresSchema.guardOfReader), PostgresBurst.position(decision)]
        #if ABLATIONS
            if ablation == .numbersBeforeLock { order.swapAt(0, 2) }
            if ablation == .nothingCompared { order[2].values = PostgresBurst.position(decision, comparesAll: false).values }
            if ablation != .nothingCompared { order += comparisons }
        #else
            order += comparisons
        #endif
        position = order.firstIndex { $0.sql == PostgresBurst.positionSQL } ?? 0
        let values = CommitLog.values(decision.count, decision.counters, changesGrants: decision.changesGrants)
        order += writing + [Short(sql: CommitLog.advance, values: values), Short(sql: CommitLog.trim), Short(sql: "COMMIT")]
        for short in order { try connection.prepare(short.sql) }
        try connection.flushForPiece()
        let before = connection.sentCount
        for short in order { try connection.send(short.sql, short.values.map { .value($0) }) }
        var head: Int64?
        try connection.finish(reading: connection.sentCount - before - position) { index, row in
            if index == 0 { head = row.int(0) }
            return true
        }
        return head
    }

    // MARK: The position

    /// Reads the newest commit, compares the state of the hub, and keeps the difference of the commit numbers for what follows.
    private static let positionSQL = """
        SELECT c.head, set_config('agenthub.base', CAST(?1 AS TEXT), true),
          set_config('agenthub.shift', CAST(c.head - CAST(?1 AS BIGINT) AS TEXT), true),
          set_config('agenthub.same', CASE WHEN c.n = CAST(?2 AS BIGINT) THEN '1' ELSE '0' END, true),
          1 / (CASE WHEN c.n < CAST(?2 AS BIGINT) OR c.head < CAST(?1 AS BIGINT) THEN 0
            WHEN CAST(?5 AS BIGINT) = 0 THEN 1
            WHEN \(CommitLog.identity(PostgresDatabase.spelling)) <> CAST(?3 AS TEXT) THEN 0
            WHEN c.n = CAST(?2 AS BIGINT) THEN 1
            WHEN CAST(?5 AS BIGINT) = 2 THEN 0
            WHEN CAST(?4 AS BIGINT) >= 0 AND c.granted <> CAST(?4 AS BIGINT) THEN 0 ELSE 1 END)
        FROM hub CROSS JOIN (\(CommitLog.newest)) AS c
        """

    /// - Parameter comparesAll: `false` only in a test build.
    private static func position(_ decision: Decision, comparesAll: Bool = true) -> Short {
        let basis = decision.basis
        return Short(
            sql: positionSQL,
            values: [
                .text(String(basis.head)), .int(basis.log), .text(basis.identity), .int(decision.readsGrants ? basis.granted : -1),
                .int(!comparesAll ? 0 : decision.isExact ? 2 : 1),
            ])
    }

    // MARK: Large values

    private func stage(
        _ facts: [RowFacts], _ connection: PostgresConnection, _ statements: inout SetStatements
    ) throws(DatabaseError) -> [Short] {
        var comparisons: [Short] = []
        for facts in facts {
            for (index, slice) in PostgresSets.slices(of: facts.sets).enumerated() {
                let set = StagedSet(name: "fact\(statements.number(of: facts.fact.isPast))_\(index)", kinds: facts.fact.kinds)
                try connection.send(set.staging, PostgresSets.columns(slice, set.kinds))
                comparisons.append(Short(sql: statements.text(of: set.name) { PostgresSets.comparison(facts.fact, set) }))
            }
        }
        return comparisons
    }

    private func stageWrites(_ connection: PostgresConnection, _ statements: inout SetStatements) throws(DatabaseError) -> [Short] {
        var writing: [Short] = []
        for write in writes {
            switch write {
            case .statement(let sql, let values): writing.append(Short(sql: sql, values: values))
            case .rows(let statement, let rows):
                for (index, slice) in PostgresSets.slices(of: rows).enumerated() {
                    let set = StagedSet(name: "rows\(statements.number(of: statement.single))_\(index)", kinds: statement.kinds)
                    try connection.send(set.staging, PostgresSets.columns(slice, set.kinds))
                    writing.append(Short(sql: statements.text(of: set.name) { PostgresSets.numbered(statement, set) }))
                }
            }
        }
        return writing
    }
}

/// The columns of a set of rows, each an array that is at the server as the text of a setting.
struct StagedSet {
    let name: String
    let kinds: [ColumnKind]

    /// Takes the columns. The server should not send them back, so it answers with their lengths.
    var staging: String {
        let count = kinds.count + (kinds.contains(.device) ? 1 : 0)
        return "SELECT " + (0..<count).map { "octet_length(set_config('\(setting($0))', ?\($0 + 1), true))" }.joined(separator: ", ")
    }

    var source: SetSource { SetSource(kinds) { setting($0) } }

    private func setting(_ column: Int) -> String { "agenthub.\(name)_\(column)" }
}

extension PostgresSets {
    /// Divides by zero when one of the facts does not hold any more, and another transaction has ended since the decision.
    static func comparison(_ fact: RowFact, _ set: StagedSet) -> String {
        """
        SELECT 1 / (CASE WHEN current_setting('agenthub.same') = '1' THEN 1
        WHEN EXISTS (SELECT 1 FROM \(set.source.rows(.compared)) WHERE \(replacing(fact.isPast, set.kinds.count))) THEN 0 ELSE 1 END)
        """
    }

    /// Writes rows with their final commit numbers.
    static func numbered(_ statement: RowStatement, _ set: StagedSet) -> String {
        let values = statement.kinds.enumerated().map { index, kind in
            let column = "u.v\(index + 1)"
            return switch kind {
            case .int, .text, .bytes, .uuid, .device: column
            case .commit: "CASE WHEN \(column) > h.base THEN \(column) + h.shift ELSE \(column) END"
            // Texts between preliminary numbers alternate with them.
            case .stamps:
                """
                CASE WHEN strpos(\(column), chr(1)) > 0 THEN (
                SELECT string_agg(CASE WHEN p.n % 2 = 0 THEN CAST(CAST(p.t AS BIGINT) + h.shift AS TEXT) ELSE p.t END, '' ORDER BY p.n)
                FROM unnest(string_to_array(\(column), chr(1))) WITH ORDINALITY AS p(t, n)) ELSE \(column) END
                """
            }
        }
        return text(of: statement, over: set.source) { conflict in
            """
            \(set.source.numbering)INSERT INTO \(statement.table)(\(statement.columns.joined(separator: ", ")))
            SELECT \(values.joined(separator: ", "))
            FROM \(set.source.rows(.adding)), (SELECT CAST(current_setting('agenthub.base') AS BIGINT) AS base,
            CAST(current_setting('agenthub.shift') AS BIGINT) AS shift OFFSET 0) AS h \(conflict)
            """
        }
    }
}
