import SyncCore
import SyncSQLite

/// The declared indexes in the database, also those that are no longer declared. As long as an index exists, each change of a record
/// updates it.
struct RecordIndexes {
    enum State: Int64, CaseIterable {
        /// The index covers records up to ``Entry/builtRID``, and all that were changed since its build began.
        case building = 0
        case complete = 1
        /// The index is no longer declared. It is not updated and not used, and its keys are removed in slices.
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
    /// The indexes that are updated, by entity.
    private(set) var kept: [EntityName: [Entry]] = [:]

    var isEmpty: Bool { kept.isEmpty }

    init() {}

    static func load(from database: Database) throws(StoreError) -> RecordIndexes {
        var indexes = RecordIndexes()
        indexes.entries = try database.all("SELECT xid, entity, columns, state, built_rid FROM record_index ORDER BY xid") { row in
            // An unreadable definition counts as not declared.
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
    /// The key of a record in an index.
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
