/// Which records of one entity a reader wants, in which order, and how many.
package struct RecordQuery: Hashable, Sendable {
    package var entity: EntityName
    /// `nil` means all.
    package var filter: RecordFilter?
    /// Ties are broken by id, so that pages do not overlap.
    package var sort: [SortKey]
    /// Parts of the document to return; empty means the whole of it.
    package var fields: [FieldPath]
    package var limit: Int
    /// Where the page before ended, in the words of whoever made that page.
    package var cursor: String?
    package var includesDeleted: Bool
    /// `nil` means any.
    package var statuses: Set<RecordSnapshot.SyncStatus>?

    package static let limitDefault = 100
    /// One answer stays below a few megabytes; more comes with the cursor.
    package static let limitMax = 1_000

    package init(
        _ entity: EntityName, filter: RecordFilter? = nil, sort: [SortKey] = [], fields: [FieldPath] = [],
        limit: Int = RecordQuery.limitDefault, cursor: String? = nil, includesDeleted: Bool = false,
        statuses: Set<RecordSnapshot.SyncStatus>? = nil
    ) {
        self.entity = entity
        self.filter = filter
        self.sort = sort
        self.fields = fields
        self.limit = limit
        self.cursor = cursor
        self.includesDeleted = includesDeleted
        self.statuses = statuses
    }
}

/// A condition on a record, or several of them joined.
///
/// A comparison with a missing field, or with a value of another type, is false; `ne` is true then, and `exists` asks for
/// just that. Text is compared by its UTF-8 bytes.
package indirect enum RecordFilter: Hashable, Sendable {
    /// One comparison. The operand of `in` is an array, of `prefix` a string, of `exists` a Boolean.
    case test(FieldPath, Comparison, JSON)
    case all([RecordFilter])
    case any([RecordFilter])

    package enum Comparison: String, Sendable, CaseIterable {
        case eq, ne, lt, le, gt, ge
        case isIn = "in"
        case prefix, exists
    }

    /// Levels of `all` and `any`.
    package static let depthMax = 8
    /// Comparisons of one query, and elements of one `in`: each costs a term of SQL.
    package static let testsMax = 64
    package static let listMax = 100

    package var depth: Int {
        switch self {
        case .test: 0
        case .all(let parts), .any(let parts): 1 + (parts.map(\.depth).max() ?? 0)
        }
    }

    package var testCount: Int {
        switch self {
        case .test: 1
        case .all(let parts), .any(let parts): parts.reduce(0) { $0 + $1.testCount }
        }
    }
}

package struct SortKey: Hashable, Sendable {
    package var path: FieldPath
    package var isDescending: Bool

    package static let keysMax = 4

    package init(_ path: FieldPath, isDescending: Bool = false) {
        self.path = path
        self.isDescending = isDescending
    }
}

/// Where a value lies: in the document, or among the record's own members.
///
/// `status` is a field of the document, `site.name` a field inside a field. `id`, `version`, `sync_status` and
/// `updated_at` are the record's own; document fields of these names are reached as `data.id` and so on.
package enum FieldPath: Hashable, Sendable {
    case id, version, syncStatus, updatedAt
    /// 1 to 8 names, outermost first.
    case document([String])

    package static let namesMax = 8

    /// - Returns: `nil` for an empty text or name, more than ``namesMax`` names, more than 256 bytes, or NUL.
    package init?(_ text: String) {
        guard text.utf8.count <= 256, !text.utf8.contains(0) else { return nil }
        switch text {
        case "id": self = .id
        case "version": self = .version
        case "sync_status": self = .syncStatus
        case "updated_at": self = .updatedAt
        default:
            let inside = text.hasPrefix("data.") ? text.dropFirst(5) : text[...]
            let names = inside.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
            guard names.count <= FieldPath.namesMax, !names.contains("") else { return nil }
            self = .document(names)
        }
    }

    /// The text that reads as this path.
    package var text: String {
        switch self {
        case .id: return "id"
        case .version: return "version"
        case .syncStatus: return "sync_status"
        case .updatedAt: return "updated_at"
        case .document(let names):
            let plain = names.joined(separator: ".")
            return FieldPath(plain) == self ? plain : "data." + plain
        }
    }
}
