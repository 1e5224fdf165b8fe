import HubServer

/// Statements for many rows at once: each column is one parameter, an array.
enum PostgresSets {
    /// Limits of one statement, rows and approximate bytes: a server that reads a parameter holds all of it.
    private static let rowsMax = 1_000
    private static let bytesMax = 4 << 20

    static func statement(_ statement: RowStatement) -> String {
        let source = SetSource(parameters: statement.kinds)
        return text(of: statement, over: source) { conflict in
            let values = statement.kinds.indices.map { "u.v\($0 + 1)" }.joined(separator: ", ")
            return """
                \(source.numbering)INSERT INTO \(statement.table)(\(statement.columns.joined(separator: ", ")))
                SELECT \(values) FROM \(source.rows(.adding)) \(conflict)
                """
        }
    }

    /// - Parameter adding: Makes the text of a statement that adds rows, with its clause for rows that are there.
    static func text(of statement: RowStatement, over source: SetSource, adding: (String) -> String) -> String {
        switch statement.form {
        case .removing: removal(statement, of: source.rows(.compared))
        case .merging(let key, let merges): succession(statement, key, merges, of: source.rows(.compared))
        case .adding(let conflict): adding(conflict)
        }
    }

    /// Finds the rows by an index for each set, whatever the planner knows about the table (``lookUp(_:)``). The lock of the hub, or
    /// one of their own, keeps the rows where they are.
    ///
    /// - Parameter rows: The sets as `u(v1, v2, …)`.
    static func removal(_ statement: RowStatement, of rows: String) -> String {
        let condition = statement.columns.enumerated().map { "t.\($1) = u.v\($0 + 1)" }.joined(separator: " AND ")
        return """
            DELETE FROM \(statement.table) WHERE ctid = ANY(ARRAY(
            SELECT r.place FROM \(rows)
            CROSS JOIN LATERAL (SELECT t.ctid AS place FROM \(statement.table) t WHERE \(condition) OFFSET 0) AS r))
            """
    }

    /// Number of times that a row of ``succession(_:of:)`` is updated before it is replaced.
    static let updatesMax = 31

    /// Updates the newest row of each key, or replaces it by one that follows from it, with the next number.
    ///
    /// An update alone is the cheapest (PostgreSQL 15, 73.7, "Heap-Only Tuples"). But while another session keeps a snapshot open, the
    /// former versions of a row cannot be removed, and each look-up walks through all of them. So after ``updatesMax`` updates another row
    /// takes its place, which the index has before it. The lock of the hub keeps the rows where they are.
    ///
    /// - Parameters:
    ///   - key: The columns of the key, and the merges of the others (``RowStatement/Form/merging(key:_:)``).
    ///   - rows: The new values as `u(v1, v2, …)`.
    static func succession(_ statement: RowStatement, _ key: [String], _ merges: [ColumnMerge], of rows: String) -> String {
        let (table, columns) = (statement.table, statement.columns)
        let condition = key.enumerated().map { "t.\($1) = u.v\($0 + 1)" }.joined(separator: " AND ")
        let others = Array(zip(columns.dropFirst(key.count), merges))
        let new = others.indices.map { "pair.v\(key.count + $0 + 1)" }
        let changes = others.indices.filter { others[$0].1 != .former }.map {
            "\(others[$0].0) = \(others[$0].1.expression("t.\(others[$0].0)", new[$0]))"
        }
        let following = others.indices.map {
            "CASE WHEN pair.place IS NULL THEN \(new[$0]) ELSE \(others[$0].1.expression("pair.\(others[$0].0)", new[$0])) END"
        }
        let values = key.indices.map { "pair.v\($0 + 1)" } + following
        return """
            WITH pair AS MATERIALIZED (
            SELECT u.*, f.* FROM \(rows) LEFT JOIN LATERAL (
            SELECT t.ctid AS place, t.n, t.updates, \(others.map { "t.\($0.0)" }.joined(separator: ", "))
            FROM \(table) t WHERE \(condition) ORDER BY t.n DESC LIMIT 1) AS f ON true),
            updated AS (UPDATE \(table) AS t SET \(changes.joined(separator: ", ")), updates = t.updates + 1
            FROM pair WHERE t.ctid = pair.place AND pair.updates < \(updatesMax)),
            gone AS (DELETE FROM \(table) WHERE ctid = ANY(ARRAY(SELECT place FROM pair WHERE updates >= \(updatesMax))))
            INSERT INTO \(table)(\(columns.joined(separator: ", ")), n)
            SELECT \(values.joined(separator: ", ")), coalesce(pair.n + 1, 0) FROM pair
            WHERE pair.place IS NULL OR pair.updates >= \(updatesMax)
            """
    }

    /// Queries once for each set, by an index each time. `OFFSET 0` keeps the planner from reversing the join: it knows neither the number
    /// of sets nor, in a new database, the size of the table.
    static func lookUp(_ lookUp: LookUp) -> String {
        if lookUp.kinds.isEmpty { return "SELECT r.*, 1 AS n FROM (\(lookUp.sql)) AS r" }
        let sql = replacing(lookUp.sql, lookUp.kinds.count)
        return "SELECT r.*, u.n FROM \(SetSource(parameters: lookUp.kinds).rows(.counted)) CROSS JOIN LATERAL (\(sql) OFFSET 0) AS r"
    }

    /// The values of a set are columns of `u`.
    static func replacing(_ sql: String, _ count: Int) -> String {
        var sql = sql
        for index in (0..<count).reversed() { sql = sql.replacing("?\(index + 1)", with: "u.v\(index + 1)") }
        return sql
    }

    static func type(of kind: ColumnKind) -> String {
        switch kind {
        case .int, .commit: "bigint"
        case .text, .stamps: "text"
        case .bytes: "bytea"
        case .uuid: "uuid"
        case .device: "int"
        }
    }

    /// Rows as arrays of their columns. Names of devices are numbered: an array of numbers in their place, and one more array at the end,
    /// each name once.
    static func columns(_ rows: ArraySlice<[DatabaseValue]>, _ kinds: [ColumnKind]) -> [PostgresParameter] {
        var names = DeviceNames()
        let columns: [PostgresParameter] = kinds.enumerated().map { column, kind in
            switch kind {
            case .int, .text, .bytes, .commit, .stamps: .array(rows.map { $0[column] })
            case .uuid: .array(rows.map { $0[column].asUUID })
            case .device: .array(rows.map { names.number(of: $0[column]) })
            }
        }
        return names.all.isEmpty ? columns : columns + [.array(names.all)]
    }

    private struct DeviceNames {
        private(set) var all: [DatabaseValue] = []
        private var numbers: [[UInt8]: Int64] = [:]

        mutating func number(of name: DatabaseValue) -> DatabaseValue {
            guard case .text(let text) = name else { return .null }
            let bytes = Array(text.utf8)
            if let known = numbers[bytes] { return .int(known) }
            all.append(name)
            numbers[bytes] = Int64(all.count)
            return .int(Int64(all.count))
        }
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

/// The rows of a set within a statement, as `u(v1, v2, …)`: arrays that are parameters, or settings of the transaction.
///
/// Where a column has the names of devices, `u` has their numbers in the database, each looked up once, and the names as `u.name`.
struct SetSource {
    enum Use {
        /// With the index of each row, from 1, as `u.n`.
        case counted
        case compared
        /// Devices without a number get one (``numbering``).
        case adding
    }

    private let kinds: [ColumnKind]
    /// An expression for each column, and one for the names of devices, if there is such a column.
    private let arrays: [String]

    init(parameters kinds: [ColumnKind]) {
        self.kinds = kinds
        let types = kinds.map { PostgresSets.type(of: $0) } + (kinds.contains(.device) ? ["text"] : [])
        arrays = types.enumerated().map { "$\($0 + 1)::\($1)[]" }
    }

    init(_ kinds: [ColumnKind], setting: (Int) -> String) {
        self.kinds = kinds
        let types = kinds.map { PostgresSets.type(of: $0) } + (kinds.contains(.device) ? ["text"] : [])
        arrays = types.enumerated().map { "CAST(current_setting('\(setting($0))') AS \($1)[])" }
    }

    func rows(_ use: Use) -> String {
        let names = kinds.indices.map { "v\($0 + 1)" }
        let (ordinality, count) = use == .counted ? (" WITH ORDINALITY", ["n"]) : ("", [])
        let plain = "unnest(\(arrays.prefix(kinds.count).joined(separator: ", ")))\(ordinality)"
        let all = (names + count).joined(separator: ", ")
        guard let device = kinds.firstIndex(of: .device) else { return "\(plain) AS u(\(all))" }
        // `OFFSET 0` keeps the arrays from being made once for each use of a column.
        let columns = names.enumerated().map { index, name in
            index == device ? "(\(numbers(use)))[w.\(name)] AS \(name), (SELECT \(devices))[w.\(name)] AS name" : "w.\(name)"
        }
        return "(SELECT \((columns + count).joined(separator: ", ")) FROM \(plain) AS w(\(all)) OFFSET 0) AS u"
    }

    /// The names of devices, each once.
    private var devices: String { arrays.last ?? "" }

    private func numbers(_ use: Use) -> String {
        let known = PostgresKeys.number("x.v")
        let number =
            switch use {
            case .counted, .compared: "coalesce(\(known), -1)"
            case .adding: "coalesce(\(known), (SELECT a.number FROM added a WHERE a.device = x.v))"
            }
        return "ARRAY(SELECT \(number) FROM unnest(\(devices)) WITH ORDINALITY AS x(v, n) ORDER BY x.n)"
    }

    /// Begins a statement that writes rows of devices.
    var numbering: String {
        guard kinds.contains(.device) else { return "" }
        return "WITH added AS (\(PostgresKeys.numbering("unnest(\(devices)) AS x(v)")) RETURNING device, number) "
    }
}

extension DatabaseValue {
    private static let digits = Array("0123456789abcdef".utf8)

    /// The 16 bytes of a UUID as text, which PostgreSQL reads without hyphens, too.
    fileprivate var asUUID: DatabaseValue {
        guard case .blob(let bytes) = self else { return self }
        return .text(
            String(unsafeUninitializedCapacity: bytes.count * 2) { buffer in
                for (place, byte) in bytes.enumerated() {
                    buffer[place * 2] = DatabaseValue.digits[Int(byte >> 4)]
                    buffer[place * 2 + 1] = DatabaseValue.digits[Int(byte & 15)]
                }
                return bytes.count * 2
            })
    }

    /// Approximate bytes as a parameter.
    fileprivate var size: Int {
        switch self {
        case .null, .int: 8
        case .text(let text): text.utf8.count
        case .blob(let bytes): bytes.count
        }
    }
}
