package import SyncCore
import SyncSQLite

/// The access path of a query to its records, and its cost.
package struct RecordAccess: Hashable, Sendable {
    package enum Way: Hashable, Sendable {
        /// The records in the order of their ids, until enough have matched.
        case byID
        /// The keys of an index: all of them, or until enough records have matched.
        case index(RecordIndex)
        /// The records that have open mutations.
        case openMutations
        /// Every record of the entity.
        case scan
    }

    /// A declared index and the progress of its build.
    package struct Known: Hashable, Sendable {
        package var index: RecordIndex
        /// Progress of the build, 0 to 1; at 1 the index is used.
        package var share: Double
    }

    package var way: Way
    /// The filter selects the part of the index that is read.
    package var isFiltered = false
    /// The index is in the order of the query.
    package var isOrdered = false
    /// Number of records that were read.
    package var read = 0
    /// The time limit of a read was reached first, so the result is not known.
    package var isCutOff = false
    /// Number of records of the page.
    package var found = 0
    /// Number of records of the entity.
    package var records: Int64 = 0
    package var known: [Known] = []
    /// An index that would serve the query and is not declared.
    package var suggestion: RecordIndex?
}

// Chooses the access path of a query, and walks along an index.
extension StoreReads {
    /// An index and how it serves the query.
    struct IndexAccess {
        let xid: Int64
        var way: IndexWay
    }

    enum Access {
        case byID, scan
        case index(IndexAccess)
        case openMutations(isTrouble: Bool)
    }

    /// Number of records up to which reading and sorting all of them is cheaper than reading many in order.
    private static let few: Int64 = 500
    /// Keys that are counted at most to find the smallest part of an index.
    private static let countMax: Int64 = 5_000

    /// Chooses by the query, the complete indexes, and the number of keys that the filter leaves.
    func access(_ query: RecordQuery, _ order: RecordOrder, after start: RecordOrder.Position?) throws(StoreError) -> Access {
        let open = query.statuses.isEmpty || query.statuses.contains(.synced) ? nil : try openRecords(query)
        if let open, open.count <= Self.few { return .openMutations(isTrouble: open.isTrouble) }
        var ways: [IndexAccess] = []
        for (xid, index) in try completeIndexes(of: query.entity) {
            guard let way = IndexWay(index, for: query), try isReadable(xid) else { continue }
            ways.append(IndexAccess(xid: xid, way: way))
        }
        // An ordered index is better than another one with as many keys.
        var least: (access: IndexAccess, keys: Int64)?
        for way in ways where way.way.fixed > 0 || way.way.isBounded {
            let keys = try countKeys(way, upTo: least.map { $0.keys + 1 } ?? Self.countMax)
            if least == nil || keys < least?.keys ?? 0 || (keys == least?.keys && way.way.order != .none) {
                least = (way, keys)
            }
        }
        if var least, least.keys <= Self.few {
            if let start { least.access.way.goOn(after: start, query.sort) }
            return .index(least.access)
        }
        func narrowness(_ access: IndexAccess) -> Int { 2 * access.way.fixed + (access.way.isBounded ? 1 : 0) }
        let ordered = ways.filter { $0.way.order != .none }.max { narrowness($0) < narrowness($1) }
        if var best = ordered, best.way.fixed > 0 || least?.keys ?? Self.countMax >= Self.countMax {
            if let start { best.way.goOn(after: start, query.sort) }
            return .index(best)
        }
        if let least, least.keys < Self.countMax { return .index(least.access) }
        if let open, open.count < Self.countMax { return .openMutations(isTrouble: open.isTrouble) }
        if order.isByID { return .byID }
        return least.map { .index($0.access) } ?? .scan
    }

    private func completeIndexes(of entity: EntityName) throws(StoreError) -> [(Int64, RecordIndex)] {
        try database.all("SELECT xid, columns FROM record_index WHERE entity = ? AND state = 1 ORDER BY xid", .text(entity.text)) { row in
            RecordIndex(row.text(1)).map { (row.int(0), $0) }
        }.compactMap { $0 }
    }

    /// Returns whether all records of the index are readable. An unreadable record belongs to every list, but no filter would find its key.
    private func isReadable(_ xid: Int64) throws(StoreError) -> Bool {
        try database.number(
            "SELECT 1 FROM index_entry WHERE xid = ? AND key < ? LIMIT 1", .int(xid), .blob(IndexKey.firstReadable.bytes)) == nil
    }

    private func countKeys(_ access: IndexAccess, upTo most: Int64) throws(StoreError) -> Int64 {
        var count: Int64 = 0
        for range in access.way.ranges where count < most {
            count +=
                try database.number(
                    "SELECT count(*) FROM (SELECT 1 FROM index_entry WHERE xid = ? AND key >= ? AND key < ? LIMIT ?)", .int(access.xid),
                    .blob(range.low.bytes), .blob(range.high.bytes), .int(most - count)) ?? 0
        }
        return count
    }

    /// Number of mutations whose records alone can have one of these states.
    private func openRecords(_ query: RecordQuery) throws(StoreError) -> (isTrouble: Bool, count: Int64) {
        let isTrouble = !query.statuses.contains(.pending)
        let count =
            isTrouble
            ? try database.number(
                "SELECT count(*) FROM (SELECT 1 FROM mutation WHERE state BETWEEN 2 AND 5 LIMIT ?)", .int(Self.countMax))
            : try database.number(
                "SELECT count(*) FROM (SELECT 1 FROM mutation WHERE state < 6 AND rid IS NOT NULL LIMIT ?)", .int(Self.countMax))
        return (isTrouble, count ?? 0)
    }

    /// - Parameter body: Receives each record.
    func eachOpen(_ eid: Int64, isTrouble: Bool, _ body: (MirrorRow) throws(StoreError) -> Void) throws(StoreError) {
        var rids: Set<Int64> = []
        if isTrouble {
            try database.each("SELECT rid FROM mutation WHERE state BETWEEN 2 AND 5 AND rid IS NOT NULL AND eid = ?", .int(eid)) { row in
                rids.insert(row.int(0))
            }
        } else {
            try database.each("SELECT rid FROM mutation WHERE state < 6 AND rid IS NOT NULL AND eid = ?", .int(eid)) { row in
                rids.insert(row.int(0))
            }
        }
        for rid in rids.sorted() {
            if let row = try MirrorRow.find(database, rid: rid) { try body(row) }
        }
    }

    /// Visits the records of a part of an index until enough are chosen.
    ///
    /// - Parameters:
    ///   - isEnough: `true` when enough records are chosen, so that later ones in the order are not needed.
    ///   - body: Receives a record with the key under which it was found.
    func walk(
        _ access: IndexAccess, isEnough: () -> Bool, _ body: (MirrorRow, IndexKey) throws(StoreError) -> Void
    ) throws(StoreError) {
        switch access.way.order {
        case .none:
            for range in access.way.ranges { try each(access.xid, range, while: { true }, body) }
        case .exact:
            for range in access.way.ranges { try each(access.xid, range, while: { !isEnough() }, body) }
        case .groups(let columns, let isDescending, let isExactInside):
            guard var rest = access.way.ranges.first else { return }
            while !isEnough(), let found = try end(access.xid, rest, isLast: isDescending), let group = found.prefix(columns: columns) {
                var part = IndexWay.Range(low: max(rest.low, group), high: min(rest.high, group.successor))
                if isDescending { rest.high = part.low } else { rest.low = part.high }
                if isExactInside, let resume = access.way.resume, resume.bytes.starts(with: group.bytes) {
                    part.low = max(part.low, resume)
                }
                try each(access.xid, part, while: { !(isExactInside && isEnough()) }, body)
            }
        }
    }

    private func each(
        _ xid: Int64, _ range: IndexWay.Range, while goesOn: () -> Bool, _ body: (MirrorRow, IndexKey) throws(StoreError) -> Void
    ) throws(StoreError) {
        try database.each(
            """
            SELECT r.*, i.key FROM index_entry i CROSS JOIN record r ON r.rid = i.rid
            WHERE i.xid = ? AND i.key >= ? AND i.key < ? ORDER BY i.key
            """, .int(xid), .blob(range.low.bytes), .blob(range.high.bytes), while: goesOn
        ) { row throws(StoreError) in
            try body(MirrorRow(row), IndexKey(bytes: row.blob(MirrorRow.columnCount)))
        }
    }

    /// The first or the last key of a range.
    private func end(_ xid: Int64, _ range: IndexWay.Range, isLast: Bool) throws(StoreError) -> IndexKey? {
        guard range.low < range.high else { return nil }
        let values: (SQLiteValue, SQLiteValue, SQLiteValue) = (.int(xid), .blob(range.low.bytes), .blob(range.high.bytes))
        let read = { (row: SQLiteStatement) throws(StoreError) -> IndexKey in IndexKey(bytes: row.blob(0)) }
        return isLast
            ? try database.first(
                "SELECT key FROM index_entry WHERE xid = ? AND key >= ? AND key < ? ORDER BY key DESC LIMIT 1", values.0, values.1,
                values.2, read: read)
            : try database.first(
                "SELECT key FROM index_entry WHERE xid = ? AND key >= ? AND key < ? ORDER BY key LIMIT 1", values.0, values.1, values.2,
                read: read)
    }

    /// The declared indexes of an entity that exist, with their progress.
    func knownIndexes(of entity: EntityName) throws(StoreError) -> [RecordAccess.Known] {
        let last = try database.number("SELECT max(rid) FROM record") ?? 0
        return try database.all(
            "SELECT columns, state, built_rid FROM record_index WHERE entity = ? AND state < 2 ORDER BY xid", .text(entity.text)
        ) { row in
            RecordIndex(row.text(0)).map { index in
                RecordAccess.Known(index: index, share: row.int(1) == 1 ? 1 : last == 0 ? 0 : min(0.99, Double(row.int(2)) / Double(last)))
            }
        }.compactMap { $0 }
    }
}
