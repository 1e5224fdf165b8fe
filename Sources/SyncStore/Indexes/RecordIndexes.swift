import SyncCore

/// The declared indexes that are in the database, whether they are still wanted or not: as long as one is there, it is kept true with
/// each change of a record.
struct RecordIndexes {
    enum State: Int64 {
        /// Records up to ``Entry/builtRID`` are in it, and all that were changed since it was begun.
        case building = 0
        case complete = 1
        /// No longer declared: not kept, not used, and its keys go a slice at a time.
        case leaving = 2
    }

    struct Entry {
        let xid: Int64
        let entity: EntityName
        let index: RecordIndex
        var state: State
        var builtRID: Int64
    }

    private(set) var entries: [Entry] = []
    /// Those that are kept true, by entity.
    private(set) var kept: [EntityName: [Entry]] = [:]

    var isEmpty: Bool { kept.isEmpty }

    init() {}

    static func load(from database: Database) throws(StoreError) -> RecordIndexes {
        var indexes = RecordIndexes()
        indexes.entries = try database.all("SELECT xid, entity, columns, state, built_rid FROM record_index ORDER BY xid") { row in
            // What cannot be read is none that anybody asked for.
            let known = RecordIndex(row.text(2))
            return Entry(
                xid: row.int(0), entity: EntityName(trusted: row.text(1)), index: known ?? RecordIndex([.updatedAt]),
                state: known == nil ? .leaving : State(rawValue: row.int(3)) ?? .leaving, builtRID: row.int(4))
        }
        indexes.sort()
        return indexes
    }

    private mutating func sort() {
        kept = Dictionary(grouping: entries.filter { $0.state != .leaving }, by: \.entity)
    }

    mutating func add(_ entry: Entry) {
        entries.append(entry)
        sort()
    }

    mutating func change(_ xid: Int64, _ change: (inout Entry) -> Void) {
        guard let place = entries.firstIndex(where: { $0.xid == xid }) else { return }
        change(&entries[place])
        sort()
    }

    mutating func remove(_ xid: Int64) {
        entries.removeAll { $0.xid == xid }
        sort()
    }
}

extension IndexKey {
    /// Where a record stands in an index.
    init(_ index: RecordIndex, _ record: MirrorRow.Indexed, _ document: StoredJSON.Document) {
        guard document.isReadable else {
            self = .unreadable(id: record.id)
            return
        }
        self.init()
        for column in index.columns {
            switch column {
            case .updatedAt: append(.int(record.updatedMS))
            case .field(let path): append(RecordOrder.key(document.known.flatMap { path.value(in: $0) } ?? .null))
            }
        }
        append(id: record.id)
    }
}
