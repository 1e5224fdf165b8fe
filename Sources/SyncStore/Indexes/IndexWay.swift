import SyncCore

/// Describes how an index serves a query: the keys to read, and the value of their order. It depends on the query and the index alone.
struct IndexWay {
    struct Range: Hashable {
        var low: IndexKey
        /// The first key after the range.
        var high: IndexKey
    }

    enum Order: Hashable {
        /// The keys are in the order of the query: when enough records have matched, the rest can only come later.
        case exact
        /// Records that are equal in the first `columns` are adjacent, and these groups are in the order of the query. Where the records
        /// inside a group are in that order too, a group need not be read to its end.
        case groups(columns: Int, isDescending: Bool, isExactInside: Bool)
        /// All keys of the ranges have to be read.
        case none
    }

    let index: RecordIndex
    /// Number of leading columns that the filter fixes.
    private(set) var fixed = 0
    /// The encoded values of the fixed columns.
    private(set) var prefix = IndexKey()
    /// The filter also bounds the column after the fixed ones.
    private(set) var isBounded = false
    private(set) var ranges: [Range] = []
    private(set) var order = Order.none
    /// First key of the rest of a group that was partly shown (``goOn(after:_:)``).
    private(set) var resume: IndexKey?

    /// - Returns: `nil` where the index does not help the query.
    init?(_ index: RecordIndex, for query: RecordQuery) {
        // Deleted records are in no index.
        guard !query.includesDeleted else { return nil }
        self.index = index
        let tests = Self.tests(of: query.filter)
        while fixed < index.columns.count, let value = Self.fixedValue(of: index.columns[fixed], tests) {
            prefix.append(RecordOrder.key(value))
            fixed += 1
        }
        let next = fixed < index.columns.count ? index.columns[fixed] : nil
        ranges = [Range(low: prefix, high: prefix.bytes.isEmpty ? IndexKey(bytes: [0xFF]) : prefix.successor)]
        if let next { bound(next, tests) }
        if ranges.count == 1 { order = order(of: query.sort, next) }
        if fixed == 0, !isBounded, order == .none { return nil }
    }

    /// The conditions that all matching records meet.
    static func tests(of filter: RecordFilter) -> [(path: FieldPath, comparison: RecordFilter.Comparison)] {
        switch filter {
        case .all(let parts): parts.flatMap(tests)
        case .test(let path, let comparison): [(path, comparison)]
        case .any: []
        }
    }

    private static func fixedValue(
        of column: RecordIndex.Column, _ tests: [(path: FieldPath, comparison: RecordFilter.Comparison)]
    ) -> JSON? {
        for test in tests where column == .field(test.path) {
            switch test.comparison {
            case .eq(let value): return value
            case .isIn(let values) where values.count == 1: return values[0]
            case .exists(false): return .null
            case .ne, .lt, .le, .gt, .ge, .isIn, .prefix, .exists: continue
            }
        }
        return nil
    }

    private mutating func bound(
        _ column: RecordIndex.Column, _ tests: [(path: FieldPath, comparison: RecordFilter.Comparison)]
    ) {
        for test in tests where column == .field(test.path) {
            guard let found = Self.ranges(of: test.comparison, after: prefix) else { continue }
            isBounded = true
            ranges = ranges.flatMap { old in
                found.compactMap { new in
                    let low = max(old.low, new.low), high = min(old.high, new.high)
                    return low < high ? Range(low: low, high: high) : nil
                }
            }
        }
    }

    /// The key ranges of a comparison. Texts with the same beginning count as equal here, so that no record is left out; the filter itself
    /// checks the records.
    ///
    /// - Returns: Separate ranges in order; `nil` where the comparison bounds nothing.
    private static func ranges(of comparison: RecordFilter.Comparison, after prefix: IndexKey) -> [Range]? {
        func key(_ value: JSON) -> IndexKey {
            var key = prefix
            key.append(RecordOrder.key(value))
            return key
        }
        func kind(_ tag: UInt8) -> Range {
            Range(low: IndexKey(bytes: prefix.bytes + [tag]), high: IndexKey(bytes: prefix.bytes + [tag + 1]))
        }
        func kind(of limit: JSON) -> Range? {
            switch limit {
            case .number: kind(IndexKey.Tag.number)
            case .string: kind(IndexKey.Tag.text)
            case .null, .bool, .array, .object: nil
            }
        }
        switch comparison {
        case .eq, .exists(false), .ne: return nil
        case .exists(true):
            return [Range(low: IndexKey(bytes: prefix.bytes + [IndexKey.Tag.null + 1]), high: IndexKey(bytes: prefix.bytes + [0xFF]))]
        case .isIn(let values):
            return Set(values.map(key)).sorted().map { Range(low: $0, high: $0.successor) }
        case .prefix(let start):
            guard case .string(let text) = RecordOrder.key(.string(start)) else { return nil }
            var low = prefix
            low.append(prefix: text.text)
            return [Range(low: low, high: low.successor)]
        case .lt(let limit), .le(let limit):
            guard let kind = kind(of: limit) else { return [] }
            return [Range(low: kind.low, high: key(limit).successor)]
        case .gt(let limit), .ge(let limit):
            guard let kind = kind(of: limit) else { return [] }
            return [Range(low: key(limit), high: kind.high)]
        }
    }

    private func order(of sort: [RecordQuery.Sort], _ next: RecordIndex.Column?) -> Order {
        // A column with the same value for all has no effect on the order, and the id alone decides.
        var wanted = sort.filter { key in !index.columns.prefix(fixed).contains { $0 == RecordIndex.Column(key.key) } }
        if let id = wanted.firstIndex(where: { $0.key == .id }) {
            // No index has equal values in descending order of ids.
            if wanted[id].isDescending { return .none }
            wanted.removeSubrange(id...)
        }
        let rest = index.columns.dropFirst(fixed)
        guard let first = wanted.first else { return rest.isEmpty ? .exact : .none }
        guard let next, RecordIndex.Column(first.key) == next else { return .none }
        if wanted.allSatisfy({ !$0.isDescending }), wanted.map({ RecordIndex.Column($0.key) }) == Array(rest) { return .exact }
        return .groups(
            columns: fixed + 1, isDescending: first.isDescending, isExactInside: wanted.count == 1 && rest.count == 1)
    }

    /// Skips the keys that a list which continues after `position` has shown.
    ///
    /// - Parameter sort: The sort keys of the query.
    mutating func goOn(after position: RecordOrder.Position, _ sort: [RecordQuery.Sort]) {
        guard ranges.count == 1, order != .none else { return }
        func value(of column: RecordIndex.Column) -> JSON? {
            sort.firstIndex { RecordIndex.Column($0.key) == column }.map { position.values[$0] }
        }
        var key = prefix
        switch order {
        case .exact:
            for column in index.columns.dropFirst(fixed) {
                guard let value = value(of: column) else { return }
                key.append(value)
            }
            key.append(id: position.id)
            ranges[0].low = max(ranges[0].low, key.next)
        case .groups(_, let isDescending, let isExactInside):
            guard fixed < index.columns.count, let value = value(of: index.columns[fixed]) else { return }
            key.append(value)
            if isExactInside {
                var last = key
                last.append(id: position.id)
                resume = last.next
            }
            if isDescending {
                ranges[0].high = min(ranges[0].high, key.successor)
            } else {
                ranges[0].low = max(ranges[0].low, key)
            }
        case .none: return
        }
    }
}

extension RecordIndex.Column {
    /// `nil` for a sort key that no index can have.
    init?(_ key: RecordQuery.SortKey) {
        switch key {
        case .updatedAt: self = .updatedAt
        case .field(let path): self = .field(path)
        case .id, .version: return nil
        }
    }
}

extension IndexKey: Comparable {
    static func < (left: IndexKey, right: IndexKey) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }
}

extension RecordIndex {
    /// The index that would serve a query best: the columns that the filter fixes, then the order, or otherwise the column that the filter
    /// bounds.
    init?(serving query: RecordQuery) {
        var columns: [Column] = []
        func add(_ column: Column) { if !columns.contains(column) { columns.append(column) } }
        let tests = IndexWay.tests(of: query.filter)
        for test in tests {
            switch test.comparison {
            case .eq, .exists(false): add(.field(test.path))
            case .ne, .lt, .le, .gt, .ge, .isIn, .prefix, .exists: continue
            }
        }
        let sorted = query.sort.prefix { $0.key != .id }.map { Column($0.key) }
        // Sorting by version has no index.
        if !sorted.isEmpty, !sorted.contains(nil) {
            for column in sorted.compactMap({ $0 }) { add(column) }
        } else {
            for test in tests {
                switch test.comparison {
                case .lt, .le, .gt, .ge, .prefix, .isIn: add(.field(test.path))
                case .eq, .ne, .exists: continue
                }
            }
        }
        guard !columns.isEmpty, !query.includesDeleted else { return nil }
        self.init(Array(columns.prefix(Self.columnsMax)))
    }
}
