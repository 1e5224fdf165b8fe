import SyncCore

/// Copies every row that can still be read out of a damaged database into a new one that has the same tables.
///
/// SQLite reads a tree from its root: one damaged inner page hides all that is below it, and a damaged first page hides
/// everything. So the pages are read one by one, and each finds its table over the pointer map; where that is damaged as
/// well, the rows with a checksum are known by their number of columns. Rows of `payload` and `record` count only with the
/// right checksum, rows of `mutation` only beside the payload that they repeat in part; the others are checked by the
/// constraints of the new tables (``SalvagedRows``). From a page that its seal says is damaged only rows with a checksum of
/// their own are taken, and after all others: a number that flipped must not stand in the way of the row that has it.
///
/// Not copied: the journal of events (readers are told to read everything again) and the state of the streams (the mirror
/// is listed again).
struct Salvage {
    private let pages: PageFile
    private let target: Database
    private var statements: [String: Statement] = [:]
    /// Names and numbers of columns of the tables to fill.
    private let columns: [String: [String]]
    /// Cells and rows of tables of ours that could not be used.
    private(set) var damaged = 0

    private static let skipped: Set<String> = ["event", "stream"]

    /// - Parameter target: Its tables are there and empty.
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
            while try info.step() { found.append(info.text(1)) }
            columns[name] = found
        }
        self.columns = columns
    }

    mutating func run() throws(StoreError) {
        let (tables, indexes) = try roots()
        // Children before parents is the order of the pages; who is missing is seen at the end.
        try target.execute("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE")
        defer { for statement in statements.values { statement.finalize() } }
        var damagedPages: [Int] = []
        for number in 1...max(1, pages.count) {
            guard let page = pages.page(number) else { continue }
            if page.isWhole { try take(page, tables, indexes) } else { damagedPages.append(number) }
        }
        for number in damagedPages {
            if let page = pages.page(number) { try take(page, tables, indexes) }
        }
        for statement in statements.values { statement.finalize() }
        statements = [:]
        try target.execute("COMMIT; PRAGMA foreign_keys = ON")
    }

    private mutating func take(_ page: Page, _ tables: [Int: String], _ indexes: [Int: String]) throws(StoreError) {
        var role = pages.role(of: page.number)
        if role == .other { return }
        // Where the map is lost, the page of a small table is still known by its place.
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
            // An index has what is unique first, then the rowid.
            if isIndex, row.values.count != 2 { continue }
            guard row.isWhole || Self.summed.contains(table) else {
                damaged += 1
                continue
            }
            try take(row.rowid, isIndex ? row.values.reversed() : row.values, into: table)
        }
    }

    /// Their rows say by themselves whether they are whole.
    private static let summed: Set<String> = ["payload", "record"]

    /// Without these names, no row says what it is about. The indexes that keep them unique hold each of them once more.
    private static let named = [
        "sqlite_autoindex_entity_1": "entity", "sqlite_autoindex_app_1": "app", "sqlite_autoindex_boot_1": "boot",
    ]

    /// Root page to name of the table; apart from them, those of the indexes that repeat a table. The old schema says it.
    /// Where that cannot be read, the new one does: tables are made in the same order in every database, and their roots
    /// stand at its beginning.
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
                // A number that flipped is hardly that of a root.
                guard row.isWhole || pages.role(of: root) == .tree(root: root) else { continue }
                found[root] = name
            }
        }
        let isWhole = found.values.contains("payload") && found.values.contains("mutation") && found.values.contains("entity")
        let names = isWhole ? found : fresh
        return (names.filter { columns[$0.value] != nil }, names.compactMapValues { Self.named[$0] })
    }

    private static func guess(_ values: [SQLValue]) -> String? {
        switch values.count {
        // Before version 11 without the last column, before version 5 without the last two.
        case 28...Int(Payload.columnCount): "payload"
        // Before version 10 without the last column.
        case 16...Int(MirrorRow.columnCount): "record"
        case 21...Int(OutboxRow.columnCount): "mutation"
        default: nil
        }
    }

    private mutating func take(_ rowid: Int64, _ values: [SQLValue], into table: String) throws(StoreError) {
        guard let columns = columns[table], !values.isEmpty, values.count <= columns.count else {
            damaged += 1
            return
        }
        var values = values
        // The value of an INTEGER PRIMARY KEY is the rowid and stands first in all of our tables.
        if case .null = values[0] { values[0] = .int(rowid) }
        let key = "\(table) \(values.count)"
        var statement = statements[key]
        if statement == nil {
            let names = columns.prefix(values.count).map { "\"\($0)\"" }.joined(separator: ", ")
            let places = Array(repeating: "?", count: values.count).joined(separator: ", ")
            statement = try target.prepare("INSERT OR IGNORE INTO \"\(table)\" (\(names)) VALUES (\(places))")
            statements[key] = statement
        }
        do throws(StoreError) {
            try statement?.bind(values)
            _ = try statement?.step()
            statement?.reset()
        } catch {
            // A value of another type than the column's, or a check that fails: not a row as we wrote it.
            guard error.code == .constraint || error.code == .other else { throw error }
            damaged += 1
        }
    }
}
