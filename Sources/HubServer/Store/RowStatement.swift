/// The type of a column of a ``RowStatement``, or of a value of a ``LookUp``.
package enum ColumnKind: Sendable {
    case int, text, bytes
    /// A commit number, and a text with commit numbers as ``StampColumn`` writes it. Those that a decision without the lock gives out
    /// (``Decision``) become final when they are written.
    case commit, stamps
    /// A UUID: its canonical text or its 16 bytes. The name of a device, for which the table has a number. Both only where an engine's own
    /// tables have them (``KeyTables``).
    case uuid, device
}

/// A statement that writes rows of one table, or removes them; each engine does it for many rows at once in its cheapest way.
package struct RowStatement: Sendable {
    package let table: String
    package let columns: [String]
    package let kinds: [ColumnKind]
    /// The clause after the rows, such as `ON CONFLICT(id) DO UPDATE SET …`, where `excluded` is the new row.
    package let conflict: String
    /// The rows with these values in the columns are removed; there may be any number of them.
    package let isRemoval: Bool
    /// The statement for one row, with a `?` for each column.
    package let single: String

    package init(_ table: String, _ columns: KeyValuePairs<String, ColumnKind>, conflict: String = "") {
        self.table = table
        self.columns = columns.map(\.key)
        self.kinds = columns.map(\.value)
        self.conflict = conflict
        isRemoval = false
        let marks = repeatElement("?", count: columns.count).joined(separator: ", ")
        single = "INSERT INTO \(table)(\(self.columns.joined(separator: ", "))) VALUES(\(marks)) \(conflict)"
    }

    /// - Parameter columns: They begin an index of the table.
    package init(removingFrom table: String, _ columns: KeyValuePairs<String, ColumnKind>) {
        self.table = table
        self.columns = columns.map(\.key)
        self.kinds = columns.map(\.value)
        conflict = ""
        isRemoval = true
        single = "DELETE FROM \(table) WHERE \(self.columns.map { "\($0) = ?" }.joined(separator: " AND "))"
    }
}

/// A query that is run for many sets of values at once.
package struct LookUp: Sendable {
    /// The query for one set, with the values as `?1`, `?2`. Each column has a name of its own.
    package let sql: String
    package let kinds: [ColumnKind]

    package init(_ sql: String, _ kinds: [ColumnKind] = []) {
        self.sql = sql
        self.kinds = kinds
    }
}

/// A ``LookUp`` and its sets of values.
package struct Question: Sendable {
    package var lookUp: LookUp
    package var sets: [[DatabaseValue]]

    /// - Parameter sets: One without values by default, for a look-up that takes none.
    package init(_ lookUp: LookUp, _ sets: [[DatabaseValue]] = [[]]) {
        self.lookUp = lookUp
        self.sets = sets
    }
}
