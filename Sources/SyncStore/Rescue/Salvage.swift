import SyncCore
import SyncSQLite

/// Copies every readable row of a damaged database into a new one with the same tables.
///
/// SQLite reads a tree from its root: one damaged inner page hides everything below it, and a damaged first page hides everything. So the
/// pages are read one by one, and each finds its table over the pointer map. Where the map is damaged as well, the rows with a checksum are
/// recognised by their number of columns. Rows of `payload` and `record` count only with the right checksum, rows of `mutation` only beside
/// the payload that they repeat in part. The constraints of the new tables check the others (``SalvagedRows``). A page with a wrong seal
/// gives only rows with a checksum of their own, after all other pages: a damaged number must not displace the row that really has it.
///
/// Two tables are not copied: the journal of events (readers are told to read everything again) and the state of the streams (the mirror is
/// listed again).
struct Salvage {
    private let pages: PageFile
    private let target: Database
    private var statements: [String: SQLiteStatement] = [:]
    /// Names and numbers of columns of the tables to fill.
    private let columns: [String: [String]]
    /// Number of cells and rows of our tables that could not be used.
    private(set) var damaged = 0

    private static let skipped: Set<String> = ["event", "stream"]

    /// - Parameter target: A database with empty tables.
    init(from pages: PageFile, into target: Database) throws(StoreError) {
        self.pages = pages
        self.target = target
        var columns: [String: [String]] = [:]
        let names = try target.all("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'") {
            row throws(StoreError) in row.text(0)
        }
        for name in names where !Self.skipped.contains(name) {
            let info = try target.prepare("PRAGMA table_info(\"\(name)\")")
            defer { info.finalize() }
            var found: [String] = []
            while try target.step(info) { found.append(info.text(1)) }
            columns[name] = found
        }
        self.columns = columns
    }

    mutating func run() throws(StoreError) {
        let (tables, indexes) = try roots()
        // The order of the pages puts children before parents; a missing parent is found at the end.
        try target.execute("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE")
        defer { for statement in statements.values { statement.finalize() } }
        var damagedPages: [Int] = []
        for number in 1...max(1, pages.count) {
            guard let page = pages.page(number) else { continue }
            if page.isWhole { try salvage(page, tables, indexes) } else { damagedPages.append(number) }
        }
        for number in damagedPages {
            if let page = pages.page(number) { try salvage(page, tables, indexes) }
        }
        for statement in statements.values { statement.finalize() }
        statements = [:]
        try target.execute("COMMIT; PRAGMA foreign_keys = ON")
    }

    private mutating func salvage(_ page: Page, _ tables: [Int: String], _ indexes: [Int: String]) throws(StoreError) {
        var role = pages.role(of: page.number)
        if role == .other { return }
        // Where the map is lost, the page of a small table is still known by its number.
        if role == .unknown, tables[page.number] != nil || indexes[page.number] != nil { role = .tree(root: page.number) }
        var name: String?
        var isIndex = false
        if case .tree(let root) = role {
            name = tables[root] ?? indexes[root]
            isIndex = tables[root] == nil
            guard name != nil else { return }
        }
        let (rows, cells) = page.rows(of: pages)
        if name != nil { damaged += cells }
        for row in rows {
            guard let table = name ?? Self.guess(row.values) else { continue }
            // An index entry has the unique columns first, then the rowid.
            if isIndex, row.values.count != 2 { continue }
            guard row.isWhole || Self.summed.contains(table) else {
                damaged += 1
                continue
            }
            try insert(row.rowid, isIndex ? row.values.reversed() : row.values, into: table)
        }
    }

    /// Tables whose rows have a checksum of their own.
    private static let summed: Set<String> = ["payload", "record"]

    /// Indexes that repeat the names of rows. Without these names, no row can be assigned; the indexes that keep them unique hold a second
    /// copy.
    private static let named = [
        "sqlite_autoindex_entity_1": "entity", "sqlite_autoindex_app_1": "app", "sqlite_autoindex_boot_1": "boot",
    ]

    /// Names of tables by root page, and separately those of indexes that repeat a table. The old schema is the source. If it cannot be
    /// read, the new one is used: tables are made in the same order in every database, with their roots at the beginning of the file.
    private func roots() throws(StoreError) -> (tables: [Int: String], indexes: [Int: String]) {
        var fresh: [Int: String] = [:]
        try target.each("SELECT rootpage, name FROM sqlite_schema WHERE rootpage > 0") { row throws(StoreError) in
            fresh[Int(row.int(0))] = row.text(1)
        }
        var found: [Int: String] = [:]
        for number in 1...max(1, pages.count) where pages.role(of: number) == .tree(root: 1) {
            for row in pages.page(number)?.rows(of: pages).rows ?? [] {
                guard row.values.count == 5, case .text(let name) = row.values[1], case .int(let number) = row.values[3], number > 0
                else { continue }
                let root = Int(clamping: number)
                // A damaged number is hardly ever that of a root.
                guard row.isWhole || pages.role(of: root) == .tree(root: root) else { continue }
                found[root] = name
            }
        }
        let isWhole = found.values.contains("payload") && found.values.contains("mutation") && found.values.contains("entity")
        let names = isWhole ? found : fresh
        return (names.filter { columns[$0.value] != nil }, names.compactMapValues { Self.named[$0] })
    }

    private static func guess(_ values: [SQLiteValue]) -> String? {
        switch values.count {
        // Before version 11 the last column is missing, before version 5 the last two.
        case 28...Int(Payload.columnCount): "payload"
        // Before version 10 the last three columns are missing, before version 17 the last two.
        case 16...Int(MirrorRow.columnCount): "record"
        case 21...Int(OutboxRow.columnCount): "mutation"
        default: nil
        }
    }

    private mutating func insert(_ rowid: Int64, _ values: [SQLiteValue], into table: String) throws(StoreError) {
        guard let columns = columns[table], !values.isEmpty, values.count <= columns.count else {
            damaged += 1
            return
        }
        var values = values
        // The value of an INTEGER PRIMARY KEY is the rowid; in all of our tables it is the first column.
        if case .null = values[0] { values[0] = .int(rowid) }
        let key = "\(table) \(values.count)"
        var statement = statements[key]
        if statement == nil {
            let names = columns.prefix(values.count).map { "\"\($0)\"" }.joined(separator: ", ")
            let places = Array(repeating: "?", count: values.count).joined(separator: ", ")
            statement = try target.prepare("INSERT OR IGNORE INTO \"\(table)\" (\(names)) VALUES (\(places))")
            statements[key] = statement
        }
        do throws(SQLiteError) {
            try statement?.bind(values)
            _ = try statement?.step()
            statement?.reset()
        } catch {
            // A value of a type that does not match its column, or a failed check: this is no row as we wrote it.
            guard error.cause == .constraint || error.cause == .other else { throw StoreError(error) }
            damaged += 1
        }
    }
}
