/// One declared index of an entity (`entities.NAME.index`): the columns by which its records are kept in order.
package struct RecordIndex: Hashable, Sendable, CustomStringConvertible {
    package enum Column: Hashable, Sendable {
        /// Time at which the record was last changed on this device.
        case updatedAt
        case field(FieldPath)
    }

    /// Columns from first to last; 1 to ``columnsMax``, without repetitions.
    package let columns: [Column]

    package static let columnsMax = 4
    /// Largest number of indexes of an entity; each one is written with each change of one of its columns.
    package static let ofEntityMax = 8

    package init(_ columns: [Column]) {
        precondition((1...Self.columnsMax).contains(columns.count), "an index has 1 to \(Self.columnsMax) columns")
        self.columns = columns
    }

    /// - Parameter text: Names as in `sort`, separated by commas: `site`, `site,due`, `updated_at`.
    package init?(_ text: String) {
        var columns: [Column] = []
        for name in text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            guard let column = Column(Substring(name).trimmingSpaces), !columns.contains(column) else { return nil }
            columns.append(column)
        }
        guard columns.count <= Self.columnsMax else { return nil }
        self.init(columns)
    }

    package var description: String { columns.map(\.name).joined(separator: ",") }
}

extension RecordIndex.Column {
    init?(_ name: String) {
        switch name {
        case "updated_at": self = .updatedAt
        // Facts of the record itself that are in order already, or of no use for a search.
        case "id", "version": return nil
        default:
            guard let path = FieldPath(parameter: name) else { return nil }
            self = .field(path)
        }
    }

    package var name: String {
        switch self {
        case .updatedAt: "updated_at"
        case .field(let path): path.columnName
        }
    }
}

extension FieldPath {
    /// Reads a path such as `status` or `site.name`. A leading `data.` stands for the document itself, as in the answers, so that a field
    /// can be addressed whatever its name is: `data.data.x` is the field `x` inside the field `data`.
    package init?(parameter text: String) {
        self.init(dotted: text.hasPrefix("data.") ? String(text.dropFirst(5)) : text)
    }

    package var parameter: String { names.first == "data" ? "data." + description : description }

    /// The name in places where the record's own `id`, `updated_at` and `version` are allowed too.
    package var columnName: String {
        let plain = parameter
        return ["id", "updated_at", "version"].contains(plain) ? "data." + plain : plain
    }
}
