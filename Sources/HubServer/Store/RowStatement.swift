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

/// The value of a column when a row with the same key is there already.
package enum ColumnMerge: Sendable {
    /// The former value stays.
    case former
    /// The new one, unless it is NULL.
    case latter
    case larger, sum

    /// The value as an expression of the former one and the new one.
    package func expression(_ former: String, _ new: String) -> String {
        switch self {
        case .former: former
        case .latter: "coalesce(\(new), \(former))"
        case .larger: "CASE WHEN \(new) > \(former) THEN \(new) ELSE \(former) END"
        case .sum: "\(former) + \(new)"
        }
    }
}

/// A statement that writes rows of one table, or removes them; each engine does it for many rows at once in its cheapest way.
package struct RowStatement: Sendable {
    package enum Form: Sendable {
        /// The clause after the rows, such as `ON CONFLICT(id) DO UPDATE SET …`, where `excluded` is the new row.
        case adding(conflict: String)
        /// For rows that change with every request of a device: the columns of the key, which come first, and the merge of each other one.
        /// An engine that keeps former versions of rows may also replace such a row (``SQLSpelling/newestRow``).
        case merging(key: [String], [ColumnMerge])
        /// The rows with these values in the columns are removed; there may be any number of them.
        case removing
    }

    package let table: String
    package let columns: [String]
    package let kinds: [ColumnKind]
    package let form: Form
    /// The statement for one row, with a `?` for each column.
    package let single: String

    package init(_ table: String, _ columns: KeyValuePairs<String, ColumnKind>, conflict: String = "") {
        self.table = table
        self.columns = columns.map(\.key)
        kinds = columns.map(\.value)
        form = .adding(conflict: conflict)
        single = RowStatement.insertion(table, self.columns, conflict)
    }

    /// - Parameter columns: Those behind the key.
    init(_ table: String, key: KeyValuePairs<String, ColumnKind>, merging columns: KeyValuePairs<String, (ColumnKind, ColumnMerge)>) {
        let names = key.map(\.key)
        self.table = table
        self.columns = names + columns.map(\.key)
        kinds = key.map(\.value) + columns.map(\.value.0)
        form = .merging(key: names, columns.map(\.value.1))
        let changes = columns.filter { $0.value.1 != .former }.map { column, value in
            "\(column) = \(value.1.expression("\(table).\(column)", "excluded.\(column)"))"
        }
        single = RowStatement.insertion(
            table, self.columns, "ON CONFLICT(\(names.joined(separator: ", "))) DO UPDATE SET \(changes.joined(separator: ", "))")
    }

    /// - Parameter columns: They begin an index of the table.
    package init(removingFrom table: String, _ columns: KeyValuePairs<String, ColumnKind>) {
        self.table = table
        self.columns = columns.map(\.key)
        kinds = columns.map(\.value)
        form = .removing
        single = "DELETE FROM \(table) WHERE \(self.columns.map { "\($0) = ?" }.joined(separator: " AND "))"
    }

    private static func insertion(_ table: String, _ columns: [String], _ conflict: String) -> String {
        let marks = repeatElement("?", count: columns.count).joined(separator: ", ")
        return "INSERT INTO \(table)(\(columns.joined(separator: ", "))) VALUES(\(marks)) \(conflict)"
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
