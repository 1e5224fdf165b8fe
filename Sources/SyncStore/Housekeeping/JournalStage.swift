import SyncCore
import SyncSQLite

/// Collects the events of a transaction until its end: one row for each kind of event instead of one for each event.
struct JournalStage {
    enum Kind: Hashable {
        /// Items are `seq`s.
        case mutation(MutationState)
        /// Items are `rid`s.
        case record(RecordEvent.Change, RecordEvent.Source)

        static func note(_ type: String, _ json: String) -> Entry { Entry(kind: nil, items: [], type: type, json: json) }

        var numbers: (kind: Int, code: Int) {
            switch self {
            case .mutation(let state): (0, state.rawValue)
            case .record(let change, let source): (1, Self.number(of: change) + (source == .remote ? 1 : 0))
            }
        }

        init?(kind: Int64, code: Int64) {
            switch kind {
            case 0:
                guard let state = MutationState(rawValue: Int(clamping: code)) else { return nil }
                self = .mutation(state)
            case 1: self = .record(Self.change(code), code & 1 != 0 ? .remote : .local)
            default: return nil
            }
        }

        /// An earlier version looks at the second bit alone, so a revocation is a deletion for it.
        private static func number(of change: RecordEvent.Change) -> Int {
            switch change {
            case .upsert: 0
            case .delete: 2
            case .revoke: 6
            }
        }

        private static func change(_ code: Int64) -> RecordEvent.Change {
            code & 2 == 0 ? .upsert : code & 4 == 0 ? .delete : .revoke
        }
    }

    struct Entry {
        var kind: Kind?
        var items: [Int64]
        var type: String?
        var json: String?
    }

    /// Largest number of events in one row; it bounds the work of a reader.
    static let itemsMax = 1_000

    private var entries: [Entry] = []
    private var places: [Kind: Int] = [:]

    var isEmpty: Bool { entries.isEmpty }

    mutating func add(_ kind: Kind, _ item: Int64) {
        add(kind, CollectionOfOne(item))
    }

    mutating func add(_ kind: Kind, _ items: some Sequence<Int64>) {
        if let place = places[kind] {
            entries[place].items.append(contentsOf: items)
        } else {
            places[kind] = entries.count
            entries.append(Entry(kind: kind, items: Array(items)))
        }
    }

    mutating func addNote(type: String, json: String) {
        entries.append(Kind.note(type, json))
    }

    /// - Returns: The next free event id.
    func save(to database: Database, firstID: Int64, age: Int64, at wall: Timestamp) throws(StoreError) -> Int64 {
        var next = firstID
        for entry in entries {
            guard let kind = entry.kind else {
                try insert(database, &next, 1, age, wall, (2, 0), nil, nil, entry.type, entry.json ?? "")
                continue
            }
            for start in stride(from: 0, to: entry.items.count, by: Self.itemsMax) {
                let slice = entry.items[start..<min(start + Self.itemsMax, entry.items.count)]
                try insert(
                    database, &next, Int64(slice.count), age, wall, kind.numbers, slice.min(), slice.max(), nil,
                    ItemList.text(slice))
            }
        }
        return next
    }

    private func insert(
        _ database: Database, _ next: inout Int64, _ count: Int64, _ age: Int64, _ wall: Timestamp,
        _ numbers: (kind: Int, code: Int), _ low: Int64?, _ high: Int64?, _ type: String?, _ items: String
    ) throws(StoreError) {
        try database.run(
            """
            INSERT INTO event (n, count, age, at_ms, kind, code, low, high, type, items)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            .int(next), .int(count), .int(age), .int(wall.milliseconds), .int(numbers.kind), .int(numbers.code),
            .optional(low), .optional(high), .optional(type), .text(items))
        next += count
    }
}

/// Numbers in order, as text: `402-465,470`. Runs that rise by one are written as a range.
enum ItemList {
    static func text(_ items: some Collection<Int64>) -> String {
        var text = ""
        var run: ClosedRange<Int64>?
        func end() {
            guard let run else { return }
            if !text.isEmpty { text += "," }
            text += run.count == 1 ? "\(run.lowerBound)" : "\(run.lowerBound)-\(run.upperBound)"
        }
        for item in items {
            if let open = run, item == open.upperBound + 1 {
                run = open.lowerBound...item
            } else {
                end()
                run = item...item
            }
        }
        end()
        return text
    }

    /// - Returns: At most `limit` items; damaged parts are left out.
    static func items(_ text: String, limit: Int = JournalStage.itemsMax) -> [Int64] {
        var items: [Int64] = []
        for part in text.split(separator: ",") {
            let ends = part.split(separator: "-", maxSplits: 1).map { Int64($0) }
            guard let first = ends.first.flatMap({ $0 }), let last = ends.last.flatMap({ $0 }), first <= last else { continue }
            var item = first
            while item <= last, items.count < limit {
                items.append(item)
                item += 1
            }
        }
        return items
    }
}
