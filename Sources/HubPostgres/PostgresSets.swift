import HubServer

/// Statements for many rows at once: each column is one parameter, an array.
enum PostgresSets {
    /// Limits of one statement, rows and approximate bytes: a server that reads a parameter holds all of it.
    private static let rowsMax = 1_000
    private static let bytesMax = 4 << 20

    static func statement(_ statement: RowStatement) -> String {
        let columns = statement.columns.joined(separator: ", ")
        return "INSERT INTO \(statement.table)(\(columns)) SELECT * FROM unnest(\(arrays(statement.kinds))) \(statement.conflict)"
    }

    /// Queries once for each set, by an index each time. `OFFSET 0` keeps the planner from reversing the join: it knows neither the number
    /// of sets nor, in a new database, the size of the table.
    static func lookUp(_ lookUp: LookUp) -> String {
        if lookUp.kinds.isEmpty { return "SELECT r.*, 1 AS n FROM (\(lookUp.sql)) AS r" }
        let names = lookUp.kinds.indices.map { "v\($0 + 1)" }.joined(separator: ", ")
        let sql = replacing(lookUp.sql, lookUp.kinds.count)
        return """
            SELECT r.*, u.n FROM unnest(\(arrays(lookUp.kinds))) WITH ORDINALITY AS u(\(names), n)
            CROSS JOIN LATERAL (\(sql) OFFSET 0) AS r
            """
    }

    /// The values of a set are columns of `u`.
    static func replacing(_ sql: String, _ count: Int) -> String {
        var sql = sql
        for index in (0..<count).reversed() { sql = sql.replacing("?\(index + 1)", with: "u.v\(index + 1)") }
        return sql
    }

    private static func arrays(_ kinds: [ColumnKind]) -> String {
        kinds.enumerated().map { "$\($0 + 1)::\(type(of: $1))[]" }.joined(separator: ", ")
    }

    static func type(of kind: ColumnKind) -> String {
        switch kind {
        case .int, .commit: "bigint"
        case .text, .stamps: "text"
        case .bytes: "bytea"
        }
    }

    /// Rows as arrays of their columns.
    static func columns(_ rows: ArraySlice<[DatabaseValue]>, count: Int) -> [PostgresParameter] {
        (0..<count).map { column in .array(rows.map { $0[column] }) }
    }

    static func slices(of rows: [[DatabaseValue]]) -> [ArraySlice<[DatabaseValue]>] {
        var slices: [ArraySlice<[DatabaseValue]>] = []
        var (start, bytes) = (0, 0)
        for (index, row) in rows.enumerated() {
            let size = row.reduce(0) { $0 + $1.size }
            if index > start, index - start == rowsMax || bytes + size > bytesMax {
                slices.append(rows[start..<index])
                (start, bytes) = (index, 0)
            }
            bytes += size
        }
        if start < rows.count { slices.append(rows[start...]) }
        return slices
    }
}

/// Cache of statements that were derived from single ones.
struct SetStatements {
    private var texts: [String: String] = [:]
    private var numbers: [String: Int] = [:]

    /// A short name of a statement.
    mutating func number(of single: String) -> Int {
        if let number = numbers[single] { return number }
        numbers[single] = numbers.count
        return numbers.count - 1
    }

    mutating func text(of single: String, _ make: () -> String) -> String {
        if let text = texts[single] { return text }
        let text = make()
        texts[single] = text
        return text
    }
}

extension DatabaseValue {
    /// Approximate bytes as a parameter.
    fileprivate var size: Int {
        switch self {
        case .null, .int: 8
        case .text(let text): text.utf8.count
        case .blob(let bytes): bytes.count
        }
    }
}
