package import SyncCore

/// Selects the records of one entity for a reader, with order and number.
package struct RecordListQuery: Hashable, Sendable {
    package struct Sort: Hashable, Sendable {
        package enum Key: Hashable, Sendable {
            case id, updatedAt, version
            case field(FieldPath)
        }

        package var key: Key
        package var isDescending: Bool

        package init(_ key: Key, isDescending: Bool = false) {
            self.key = key
            self.isDescending = isDescending
        }
    }

    package var entity: EntityName
    package var filter: RecordFilter
    /// Sort keys; empty means by id, which also decides between equal records.
    package var sort: [Sort]
    /// Parts of the document to return; empty means the whole document.
    package var fields: [FieldPath]
    package var limit: Int
    /// End of the previous page, in the form that its answer used.
    package var cursor: String?
    package var includesDeleted: Bool
    /// States to include; empty means any.
    package var statuses: Set<RecordSnapshot.SyncStatus>
    /// Return the access path of the query (``QueryExplanation``) instead of records.
    package var explains: Bool

    package static let limitDefault = 100
    package static let limitMax = 1_000
    package static let sortMax = 4
    static let fieldsMax = 64
    /// Largest number of comparisons and list elements of a filter (``SyncCore/RecordFilter/size``); `depthMax` limits its levels. Each of
    /// them costs work for every record.
    package static let sizeMax = 128
    static let depthMax = 8
    static let cursorBytesMax = 4_096

    package init(
        _ entity: EntityName, filter: RecordFilter = .all([]), sort: [Sort] = [], fields: [FieldPath] = [],
        limit: Int = RecordListQuery.limitDefault, cursor: String? = nil, includesDeleted: Bool = false,
        statuses: Set<RecordSnapshot.SyncStatus> = [], explains: Bool = false
    ) {
        self.entity = entity
        self.filter = filter
        self.sort = sort
        self.fields = fields
        self.limit = limit
        self.cursor = cursor
        self.includesDeleted = includesDeleted
        self.statuses = statuses
        self.explains = explains
    }

    /// Reads `filter=field:op:value` (any number, all must hold), `sort`, `fields`, `limit`, `cursor`,
    /// `include_deleted`, `sync_status`, `explain`.
    init(_ entity: EntityName, from p: inout ParameterReader) throws(Problem) {
        self.init(entity)
        var tests: [RecordFilter] = []
        for text in p.all("filter") {
            guard let test = RecordFilter(text: text) else {
                throw p.refusal("filter", "must be field:op:value with op one of " + RecordFilter.operators)
            }
            tests.append(test)
        }
        filter = tests.count == 1 ? tests[0] : .all(tests)
        guard filter.size <= RecordListQuery.sizeMax else {
            throw p.refusal("filter", "may hold at most \(RecordListQuery.sizeMax) comparisons")
        }
        if let text = try p.text("sort") {
            let keys = text.split(separator: ",", omittingEmptySubsequences: false).map { Sort(text: String($0)) }
            guard keys.count <= RecordListQuery.sortMax, !keys.contains(nil) else {
                throw p.refusal(
                    "sort",
                    "must be 1 to \(RecordListQuery.sortMax) fields with commas between, each with - before it to go down"
                )
            }
            sort = keys.compactMap { $0 }
        }
        if let text = try p.text("fields") {
            let paths = text.split(separator: ",", omittingEmptySubsequences: false).map {
                FieldPath(parameter: String($0))
            }
            guard paths.count <= RecordListQuery.fieldsMax, !paths.contains(nil) else {
                throw p.refusal("fields", "must be 1 to \(RecordListQuery.fieldsMax) fields with commas between")
            }
            fields = paths.compactMap { $0 }
        }
        if let limit = try p.integer("limit", in: 1...Int64(RecordListQuery.limitMax)) { self.limit = Int(limit) }
        cursor = try p.text("cursor")
        if let cursor, cursor.utf8.count > RecordListQuery.cursorBytesMax {
            throw p.refusal("cursor", "is not one of ours")
        }
        includesDeleted = try p.flag("include_deleted") ?? false
        explains = try p.flag("explain") ?? false
        statuses = Set(try p.words("sync_status", RecordSnapshot.SyncStatus.allCases.map { ($0.name, $0) }) ?? [])
    }
}

extension RecordListQuery.Sort {
    /// Reads a key such as `updated_at` or `-status`. `id`, `updated_at` and `version` are facts of the record; a field of the document
    /// with such a name is `data.id` and so on.
    package init?(text: String) {
        let isDescending = text.hasPrefix("-")
        let name = isDescending ? String(text.dropFirst()) : text
        switch name {
        case "id": self.init(.id, isDescending: isDescending)
        case "updated_at": self.init(.updatedAt, isDescending: isDescending)
        case "version": self.init(.version, isDescending: isDescending)
        default:
            guard let path = FieldPath(parameter: name) else { return nil }
            self.init(.field(path), isDescending: isDescending)
        }
    }

    package var text: String { (isDescending ? "-" : "") + name }

    private var name: String {
        switch key {
        case .id: return "id"
        case .updatedAt: return "updated_at"
        case .version: return "version"
        case .field(let path): return path.columnName
        }
    }
}
