package import SyncCore
import SyncSQLite

/// A conflict that waits for a person, or has ended (PROTOCOL B5).
package struct ConflictSnapshot: Hashable, Sendable {
    /// Number of the conflict; 12 for `c-12`.
    package var number: Int64
    package var record: RecordName
    /// The disputed mutation; `nil` when its row was pruned since.
    package var mutation: MutationKey?
    /// The app that made the mutation.
    package var app: AppName?
    package var kind: ConflictKind
    /// `open`, `stale` (still open, the hub's side has changed), `resolving`, `resolved`, `moot`.
    package var state: String
    package var openedAt: Timestamp
    package var remoteVersion: Int64
    package var sides: [ConflictSide]
    /// Events of the conflict so far, oldest first.
    package var history: [JSON]
    /// The mutation that carries the decision.
    package var into: MutationKey?

    package var isOpen: Bool { state == "open" || state == "stale" }
}

package struct ConflictQuery: Hashable, Sendable {
    package var entity: EntityName?
    /// Names of states; empty means conflicts that wait for a decision. `open` includes `stale`.
    package var states: Set<String> = []
    package var after: Int64 = 0
    package var limit = 100

    package init() {}
}

extension StoreReads {
    /// Conflicts in the order of their numbers. A page also ends after ``pageBytes``, because each field of a conflict has three values of
    /// any size.
    package func conflicts(_ query: ConflictQuery) throws(StoreError) -> (items: [ConflictSnapshot], next: Int64?) {
        var states = ConflictRow.State.allCases.filter { query.states.contains($0.name) }
        if states.isEmpty || states.contains(.open) { states = ConflictRow.State.allCases.filter { $0.isOpen || states.contains($0) } }
        let numbers = states.map { "\($0.rawValue)" }.joined(separator: ", ")
        var sql = "\(Self.conflictSQL) WHERE c.cid > ? AND c.state IN (\(numbers))"
        if states.allSatisfy(\.isOpen) { sql += " AND c.\(StateSet.openConflict.sql)" }
        var values: [SQLiteValue] = [.int(query.after)]
        if let entity = query.entity {
            sql += " AND e.name = ?"
            values.append(.text(entity.text))
        }
        sql += " ORDER BY c.cid LIMIT ?"
        let limit = min(max(1, query.limit), 1_000)
        values.append(.int(limit))
        let statement = try database.composed(sql, values)
        defer { statement.reset() }
        var items: [ConflictSnapshot] = []
        var bytes = 0
        while bytes < Self.pageBytes, try database.step(statement) {
            items.append(Self.snapshot(of: statement))
            for column in 0..<statement.columnCount { bytes += statement.byteCount(column) }
        }
        return (items, items.count == limit || bytes >= Self.pageBytes ? items.last?.number : nil)
    }

    package func conflict(_ cid: Int64) throws(StoreError) -> ConflictSnapshot? {
        let statement = try database.composed("\(Self.conflictSQL) WHERE c.cid = ?", [.int(cid)])
        defer { statement.reset() }
        return try database.step(statement) ? Self.snapshot(of: statement) : nil
    }

    /// Number of conflicts that wait for a decision.
    package func openConflicts() throws(StoreError) -> Int64 {
        try database.number("SELECT count(*) FROM conflict INDEXED BY conflict_open WHERE state < 2") ?? 0
    }

    func openConflict(ofRecord rid: Int64) throws(StoreError) -> String? {
        try database.number("SELECT min(cid) FROM conflict WHERE rid = ? AND state < 2", .int(rid)).map { "c-\($0)" }
    }

    private static let conflictSQL = """
        SELECT c.*, e.name, r.id, p.key, a.name, i.key
        FROM conflict c JOIN entity e ON e.eid = c.eid JOIN record r ON r.rid = c.rid LEFT JOIN payload p ON p.seq = c.seq
        LEFT JOIN app a ON a.aid = p.aid LEFT JOIN payload i ON i.seq = c.into_seq
        """

    private static func snapshot(of row: SQLiteStatement) -> ConflictSnapshot {
        let conflict = ConflictRow(row)
        let names = ConflictRow.columnCount
        return ConflictSnapshot(
            number: conflict.cid, record: RecordName(EntityName(trusted: row.text(names)), RecordID(trusted: row.text(names + 1))),
            mutation: row.optionalText(names + 2).map { MutationKey(trusted: $0) },
            app: row.optionalText(names + 3).map { AppName(trusted: $0) },
            kind: conflict.kind, state: conflict.state.name, openedAt: Timestamp(milliseconds: conflict.openedMS),
            remoteVersion: conflict.remoteVersion, sides: conflict.sides, history: conflict.history,
            into: row.optionalText(names + 4).map { MutationKey(trusted: $0) })
    }
}
