package import SyncCore

/// Selects the records of one entity to read, and their order.
package struct RecordQuery: Hashable, Sendable {
    package enum SortKey: Hashable, Sendable {
        case id
        case updatedAt
        case version
        /// The value of a field: missing and null first, then false and true, numbers, text, all others.
        case field(FieldPath)
    }

    package struct Sort: Hashable, Sendable {
        package var key: SortKey
        package var isDescending: Bool

        package init(_ key: SortKey, isDescending: Bool = false) {
            self.key = key
            self.isDescending = isDescending
        }
    }

    package var entity: EntityName
    package var filter: RecordFilter = .all([])
    /// Sort keys, at most 4; empty means by id. The id decides between equal records.
    package var sort: [Sort] = []
    /// 1 to 1,000. A page also ends after ``StoreReads/pageBytes``.
    package var limit = 100
    /// ``RecordPage/next`` of the page before, with the same sort.
    package var cursor: String?
    package var includesDeleted = false
    /// Empty means any.
    package var statuses: Set<RecordSnapshot.SyncStatus> = []

    package init(_ entity: EntityName) {
        self.entity = entity
    }
}

package struct RecordPage: Hashable, Sendable {
    package var items: [RecordSnapshot]
    /// The cursor of the next page; `nil` after the last one.
    package var next: String?

    /// Number of records of the entity whose documents are not kept on this device. Whether the query would match them is not known.
    package var notKept: Int64 = 0
}
