/// A condition for records.
///
///     .field("status").equals("open") && (.field("due").isLess(than: "2026-12-01") || .field("due").exists(false))
///
/// A field inside an object is named with dots, such as `site.name`.
public struct Condition: Sendable, Equatable {
    /// The condition in the form that the agent reads.
    public var tree: JSONObject

    /// A condition that is given in the agent's form, such as `["field": "n", "op": "gt", "value": 3]`.
    public init(tree: JSONObject) {
        self.tree = tree
    }

    /// A field of the record's document, as the beginning of a condition.
    public static func field(_ name: String) -> Field { Field(name: name) }

    /// All conditions hold.
    public static func all(_ conditions: [Condition]) -> Condition { join("and", conditions) }

    /// At least one condition holds.
    public static func any(_ conditions: [Condition]) -> Condition { join("or", conditions) }

    public static func && (one: Condition, other: Condition) -> Condition { all([one, other]) }
    public static func || (one: Condition, other: Condition) -> Condition { any([one, other]) }

    private static func join(_ word: String, _ conditions: [Condition]) -> Condition {
        // The agent limits the levels of a condition, so `a && b && c` becomes one list and not two.
        Condition(tree: [word: .array(conditions.flatMap { $0.tree[word]?.array ?? [.object($0.tree)] })])
    }

    /// Makes conditions about one field.
    public struct Field: Sendable {
        let name: String

        public func equals(_ value: JSONValue) -> Condition { test("eq", value) }
        public func differs(from value: JSONValue) -> Condition { test("ne", value) }
        public func isLess(than value: JSONValue) -> Condition { test("lt", value) }
        public func isAtMost(_ value: JSONValue) -> Condition { test("le", value) }
        public func isGreater(than value: JSONValue) -> Condition { test("gt", value) }
        public func isAtLeast(_ value: JSONValue) -> Condition { test("ge", value) }
        /// The field has one of these values, at most 100.
        public func isOne(of values: [JSONValue]) -> Condition { test("in", .array(values)) }
        /// The field is a text that begins like this.
        public func hasPrefix(_ text: String) -> Condition { test("prefix", .string(text)) }
        /// The record has the field, or with `false` does not have it.
        public func exists(_ wanted: Bool = true) -> Condition { test("exists", .bool(wanted)) }

        private func test(_ operation: String, _ value: JSONValue) -> Condition {
            Condition(tree: ["field": .string(name), "op": .string(operation), "value": value])
        }
    }
}

/// A query over the records of one entity.
public struct Query: Sendable, Equatable {
    /// A field to sort by: a field of the document, or `id`, `updated_at` or `version`.
    public struct Sort: Sendable, Equatable, ExpressibleByStringLiteral {
        public var field: String
        public var isDescending: Bool

        public init(_ field: String, descending: Bool = false) {
            self.field = field
            isDescending = descending
        }

        /// `"-updated_at"` sorts in descending order.
        public init(stringLiteral text: String) {
            isDescending = text.hasPrefix("-")
            field = isDescending ? String(text.dropFirst()) : text
        }
    }

    public var entity: String
    public var condition: Condition?
    /// At most 4 fields. Without one the order is by `id`.
    public var sort: [Sort] = []
    /// Parts of the document to return; the whole document if empty.
    public var fields: [String] = []
    public var includesDeleted = false
    /// Only records with one of these: `synced`, `pending`, `conflict`, `error`.
    public var syncStatus: [String] = []
    /// Records of one page, 1 to 1,000.
    public var pageSize = 200

    public init(_ entity: String, where condition: Condition? = nil, sort: [Sort] = []) {
        self.entity = entity
        self.condition = condition
        self.sort = sort
    }

    func body(cursor: String?) -> JSONObject {
        var body: JSONObject = ["entity": .string(entity), "limit": .integer(Int64(pageSize))]
        if let condition { body["where"] = .object(condition.tree) }
        if !sort.isEmpty { body["sort"] = .array(sort.map { .string($0.isDescending ? "-" + $0.field : $0.field) }) }
        if !fields.isEmpty { body["fields"] = .array(fields.map { .string($0) }) }
        if includesDeleted { body["include_deleted"] = true }
        if !syncStatus.isEmpty { body["sync_status"] = .array(syncStatus.map { .string($0) }) }
        if let cursor { body["cursor"] = .string(cursor) }
        return body
    }
}

/// One page of a list.
public struct Page<Item: Sendable>: Sendable {
    public var items: [Item]
    /// Pass it as `after` to get the next page; `nil` behind the last page.
    public var next: String?
}

extension Page: Equatable where Item: Equatable {}
