package import SyncCore

/// Which records of one entity to read, and in which order.
package struct RecordQuery: Hashable, Sendable {
    package enum SortKey: Hashable, Sendable {
        case id
        case updatedAt
        case version
        /// Missing and null first, then false and true, numbers, text, everything else.
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
    /// Empty means by id. The id decides between equals. At most 4.
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
    /// Where the next page begins; `nil` after the last.
    package var next: String?

    package init(items: [RecordSnapshot], next: String?) {
        self.items = items
        self.next = next
    }
}
