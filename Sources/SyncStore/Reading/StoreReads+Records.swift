import SyncCore
import SyncSQLite

// Queries over the mirror. Conditions and order are those of the core and are evaluated here, not in SQL. Numbers of any length compare
// exactly, text compares by its bytes, and a filter means the same everywhere in the product. An index (`StoreReads+Access.swift`) only
// avoids reading records that do not match. Without one, 10,000 records of 230 bytes take some tens of milliseconds; listing by id, the
// most common query, uses the index of ids.
extension StoreReads {
    /// One page of the matching records, in order.
    ///
    /// - Throws: `.refused` with 400 for a cursor of another query, `.tooSlow`.
    package func records(_ query: RecordQuery) throws(StoreError) -> RecordPage {
        var access = RecordAccess(way: .scan)
        return try records(query, &access)
    }

    /// Runs the query and returns its access path, so that the measured cost is the real one.
    package func explain(_ query: RecordQuery) throws(StoreError) -> RecordAccess {
        var access = RecordAccess(way: .scan)
        access.records = try recordCount(of: query.entity)
        access.known = try knownIndexes(of: query.entity)
        do throws(StoreError) {
            access.found = try records(query, &access).items.count
        } catch {
            guard error.code == .tooSlow else { throw error }
            access.isCutOff = true
        }
        let isServed = access.way != .scan && (access.way != .byID || access.read <= 2 * query.limit)
        if !isServed { access.suggestion = RecordIndex(serving: query) }
        if access.known.contains(where: { $0.index == access.suggestion }) { access.suggestion = nil }
        return access
    }

    private func records(_ query: RecordQuery, _ told: inout RecordAccess) throws(StoreError) -> RecordPage {
        guard let eid = try database.number("SELECT eid FROM entity WHERE name = ?", .text(query.entity.text)) else {
            return RecordPage(items: [], next: nil)
        }
        let order = RecordOrder(query.sort)
        var start: RecordOrder.Position?
        if let cursor = query.cursor { start = try order.position(reading: cursor) }
        let limit = min(max(1, query.limit), 1_000)
        var selection = RecordSelection(order: order, after: start, count: limit + 1)
        defer { told.read = selection.offered }
        // `true` when records were left when enough were chosen.
        var isCutShort = false
        switch try access(query, order, after: start) {
        case .byID:
            told.way = .byID
            try database.each(
                "SELECT * FROM record WHERE eid = ? AND id > ? ORDER BY id", .int(eid), .text(start?.id ?? ""),
                while: { !selection.isFull }
            ) { row throws(StoreError) in selection.offer(MirrorRow(row), query) }
            isCutShort = selection.isFull
        case .index(let access):
            told.way = .index(access.way.index)
            told.isFiltered = access.way.fixed > 0 || access.way.isBounded
            told.isOrdered = access.way.order != .none
            try walk(access, isEnough: { selection.isFull }) { row, key in selection.offer(row, query, foundBy: key, in: access.way.index) }
            isCutShort = told.isOrdered && selection.isFull
        case .openMutations(let isTrouble):
            told.way = .openMutations
            try eachOpen(eid, isTrouble: isTrouble) { row in selection.offer(row, query) }
        case .scan:
            try database.each("SELECT * FROM record WHERE eid = ?", .int(eid)) { row throws(StoreError) in
                selection.offer(MirrorRow(row), query)
            }
        }
        let found = selection.sorted
        var items: [RecordSnapshot] = []
        var bytes = 0
        for entry in found.prefix(limit) {
            guard let row = try MirrorRow.find(database, rid: entry.rid) else { continue }
            items.append(try snapshot(row, RecordName(query.entity, RecordID(trusted: row.id))))
            bytes += row.documentBytes
            if bytes >= Self.pageBytes { break }
        }
        let isLast = items.count == found.count && !isCutShort
        return RecordPage(
            items: items, next: isLast ? nil : order.text(of: found[items.count - 1].position), notKept: try notKeptCount(of: query.entity))
    }
}

/// The first records of an order, found in one pass. It stores their positions but not their content, and at most twice as many as are
/// wanted.
private struct RecordSelection {
    struct Entry {
        var position: RecordOrder.Position
        var rid: Int64
    }

    let order: RecordOrder
    let after: RecordOrder.Position?
    let count: Int
    private(set) var offered = 0
    private var entries: [Entry] = []
    private var bytes = 0

    init(order: RecordOrder, after: RecordOrder.Position?, count: Int) {
        self.order = order
        self.after = after
        self.count = count
    }

    /// `true` when enough records, or more bytes than a page holds, are chosen. It is valid if the rows are read in the query's order.
    var isFull: Bool { entries.count >= count || bytes > StoreReads.pageBytes }

    /// - Parameter key: The key under which the index found the record. A record that no longer has this key is skipped, because it is
    ///   found under its other key.
    mutating func offer(_ row: MirrorRow, _ query: RecordQuery, foundBy key: IndexKey? = nil, in index: RecordIndex? = nil) {
        offered += 1
        guard row.isKnown, !row.isNotKept, query.includesDeleted || !row.isDeleted else { return }
        guard query.statuses.isEmpty || query.statuses.contains(row.status) else { return }
        let needsDocument = key != nil || !order.isByID || query.filter != .all([])
        let parsed = needsDocument ? row.parsedDocument : .none
        let document = parsed.known ?? [:]
        // An unreadable document is always shown as such: leaving it out would mean that it does not exist.
        guard !parsed.isReadable || query.filter.matches(document) else { return }
        if let key, let index, let record = row.indexed, IndexKey(index, record, parsed) != key { return }
        let position = order.position(of: row, document)
        if let after, !order.isBefore(after, position) { return }
        entries.append(Entry(position: position, rid: row.rid))
        bytes += row.documentBytes
        if entries.count >= count * 2 { entries = sorted }
    }

    var sorted: [Entry] {
        Array(entries.sorted { order.isBefore($0.position, $1.position) }.prefix(count))
    }
}

/// The order of a query, with ties broken by id, and the position of a record in it.
struct RecordOrder {
    struct Position {
        var values: [JSON]
        var id: String
    }

    private let sort: [RecordQuery.Sort]

    init(_ sort: [RecordQuery.Sort]) {
        self.sort = sort
    }

    var isByID: Bool {
        guard let first = sort.first else { return true }
        return first.key == .id && !first.isDescending
    }

    func position(of row: MirrorRow, _ document: JSONObject) -> Position {
        let values = sort.map { sort -> JSON in
            switch sort.key {
            case .id: .string(row.id)
            case .updatedAt: .int(row.updatedMS)
            case .version: .int(row.baseVersion)
            case .field(let path): Self.key(path.value(in: document) ?? .null)
            }
        }
        return Position(values: values, id: row.id)
    }

    /// The part of a value that its place in the order needs. A position is kept for each record of a page and serves as its cursor. With
    /// whole values, a page of 1,000 records would hold all their documents in memory, and a cursor could be larger than a request may be.
    static func key(_ value: JSON) -> JSON {
        switch value {
        case .null, .bool, .number: return value
        case .array, .object: return .array([])
        case .string(let string):
            let text = string.text
            guard text.utf8.count > StoreReads.sortBytes else { return value }
            var start = ""
            for scalar in text.unicodeScalars {
                guard start.utf8.count + UTF8.width(scalar) <= StoreReads.sortBytes else { break }
                start.unicodeScalars.append(scalar)
            }
            return .string(start)
        }
    }

    func isBefore(_ left: Position, _ right: Position) -> Bool {
        for (index, sort) in sort.enumerated() {
            let a = left.values[index], b = right.values[index]
            if Self.isLess(a, b) { return !sort.isDescending }
            if Self.isLess(b, a) { return sort.isDescending }
        }
        return precedesInBytes(left.id, right.id)
    }

    /// Missing and null first, then false and true, numbers, text, all others (equal to each other).
    private static func isLess(_ left: JSON, _ right: JSON) -> Bool {
        switch (left, right) {
        case (.bool(let a), .bool(let b)): !a && b
        case (.number(let a), .number(let b)): a < b
        case (.string(let a), .string(let b)): precedesInBytes(a.text, b.text)
        case (.null, _), (.bool, _), (.number, _), (.string, _), (.array, _), (.object, _): rank(left) < rank(right)
        }
    }

    private static func rank(_ value: JSON) -> Int {
        switch value {
        case .null: 0
        case .bool: 1
        case .number: 2
        case .string: 3
        case .array, .object: 4
        }
    }

    // MARK: - As a cursor

    /// The position as JSON in hexadecimal: a word that needs no escape in a URL. It is no secret.
    func text(of position: Position) -> String {
        hexText(JSON.array([.int(sort.hashText), .string(position.id)] + position.values).bytes)
    }

    func position(reading text: String) throws(StoreError) -> Position {
        let parts = hexBytes(text).flatMap { StoredJSON.read(String(decoding: $0, as: UTF8.self)) }?.array ?? []
        guard parts.count == sort.count + 2, parts[0].int == sort.hashText, let id = parts[1].text else {
            throw .refused(
                Problem(
                    "malformed", status: 400, detail: "the cursor does not belong to a query with this order",
                    members: ["parameter": "cursor"]))
        }
        return Position(values: Array(parts.dropFirst(2)), id: id)
    }
}

extension [RecordQuery.Sort] {
    /// Identifies the order, so that a cursor is accepted only for the order that it was made in.
    fileprivate var hashText: Int64 {
        let text = map { "\($0.key.nameInCursors)\($0.isDescending)" }.joined(separator: ",")
        return Int64(CRC32C.hash([UInt8](text.utf8)))
    }
}

extension RecordQuery.SortKey {
    fileprivate var nameInCursors: String {
        switch self {
        case .id: "id"
        case .updatedAt: "updatedAt"
        case .version: "version"
        case .field(let path): "field(\(path))"
        }
    }
}
