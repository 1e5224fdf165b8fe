/// Selects the records of a query. It is a pure value: other code parses it, and it is evaluated here for one document at a time. The store
/// evaluates it here as well.
package indirect enum RecordFilter: Hashable, Sendable {
    /// All parts hold; an empty list holds.
    case all([RecordFilter])
    /// At least one part holds; an empty list does not.
    case any([RecordFilter])
    case test(FieldPath, Comparison)

    /// Values compare within their own type only: a number is never equal to, less or greater than a text. Numbers compare by value, text
    /// by its UTF-8 bytes. A missing or null field has no value: it equals only `null`, and is `ne` to everything else.
    package enum Comparison: Hashable, Sendable {
        case eq(JSON)
        case ne(JSON)
        /// For numbers and strings; it never holds for other types.
        case lt(JSON)
        case le(JSON)
        case gt(JSON)
        case ge(JSON)
        case isIn([JSON])
        /// The value is a string and begins with these bytes.
        case prefix(String)
        /// Tests for a value that is not null (`true`), or for its absence (`false`).
        case exists(Bool)
    }

    package func matches(_ document: JSONObject) -> Bool {
        switch self {
        case .all(let filters): filters.allSatisfy { $0.matches(document) }
        case .any(let filters): filters.contains { $0.matches(document) }
        case .test(let path, let comparison): comparison.holds(for: path.value(in: document))
        }
    }

    /// Levels of nesting, which must be limited where a filter is parsed.
    package var depth: Int {
        switch self {
        case .all(let filters), .any(let filters): 1 + (filters.map(\.depth).max() ?? 0)
        case .test: 1
        }
    }

    /// Total number of comparisons.
    package var size: Int {
        switch self {
        case .all(let filters), .any(let filters): filters.reduce(1) { $0 + $1.size }
        case .test(_, .isIn(let values)): 1 + values.count
        case .test: 1
        }
    }
}

/// A member, or a member of a member: `address.city`.
package struct FieldPath: Hashable, Sendable, CustomStringConvertible {
    package let names: [String]

    /// Largest number of names in a path; deeper fields cannot be addressed.
    package static let namesMax = 8

    /// - Returns: `nil` unless there are 1 to 8 names, none of them empty or with a quote, a backslash or a control character.
    package init?(_ names: [String]) {
        guard (1...Self.namesMax).contains(names.count),
            names.allSatisfy({ name in
                !name.isEmpty && name.utf8.count <= 256
                    && name.utf8.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
            })
        else { return nil }
        self.names = names
    }

    /// - Parameter dotted: Names with dots between them. A name that contains a dot cannot be written this way.
    package init?(dotted: String) {
        self.init(dotted.split(separator: ".", omittingEmptySubsequences: false).map(String.init))
    }

    package var description: String { names.joined(separator: ".") }

    package func value(in document: JSONObject) -> JSON? {
        var value: JSON? = .object(document)
        for name in names { value = value?.object?[name] }
        return value
    }
}

extension RecordFilter.Comparison {
    package func holds(for value: JSON?) -> Bool {
        // `flatMap` would not do: `nil` would mean JSON null there.
        let present: JSON? = if let value, !value.isNull { value } else { Optional.none }
        switch self {
        case .eq(let wanted): return wanted.isNull ? present == nil : present == wanted
        case .ne(let wanted): return wanted.isNull ? present != nil : present != wanted
        case .lt(let limit): return present.map { Self.less($0, limit) ?? false } ?? false
        case .gt(let limit): return present.map { Self.less(limit, $0) ?? false } ?? false
        case .le(let limit): return present.map { Self.less(limit, $0).map { !$0 } ?? false } ?? false
        case .ge(let limit): return present.map { Self.less($0, limit).map { !$0 } ?? false } ?? false
        case .isIn(let values): return values.contains { Self.eq($0).holds(for: value) }
        case .prefix(let start):
            guard let text = present?.text else { return false }
            return text.utf8.starts(with: start.utf8)
        case .exists(let wanted): return (present != nil) == wanted
        }
    }

    private static func less(_ left: JSON, _ right: JSON) -> Bool? {
        switch (left, right) {
        case (.number(let a), .number(let b)): a < b
        case (.string(let a), .string(let b)): precedesInBytes(a.text, b.text)
        default: nil
        }
    }
}
