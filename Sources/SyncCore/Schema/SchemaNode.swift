/// One schema of a document's schema, read once into what its evaluation needs. Other schemas are named by their number.
final class SchemaNode: Sendable {
    /// The answer of a Boolean schema, which has no other rule.
    let verdict: Bool?
    /// The kinds that a value may have; empty when any will do.
    let kinds: SchemaKinds
    let constant: AllowedValues?
    let allowed: AllowedValues?
    let numbers: NumberRules?
    let texts: TextRules?
    let lists: ListRules?
    let objects: ObjectRules?
    let parts: CombinedRules?
    let title: String?
    /// `true` when this schema, or one below it, has a rule between the members of an object (``SchemaJudge/Extent/betweenMembers``).
    let bindsMembers: Bool

    init(_ draft: Draft, bindsMembers: Bool) {
        verdict = draft.verdict
        kinds = draft.kinds
        constant = draft.constant
        allowed = draft.allowed
        numbers = draft.numbers.isEmpty ? nil : draft.numbers
        texts = draft.texts.isEmpty ? nil : draft.texts
        lists = draft.lists.isEmpty ? nil : draft.lists
        objects = draft.objects.isEmpty ? nil : draft.objects
        parts = draft.parts.isEmpty ? nil : draft.parts
        title = draft.title
        self.bindsMembers = bindsMembers
    }

    /// A schema while its keywords are read.
    struct Draft {
        var verdict: Bool?
        var kinds: SchemaKinds = []
        var constant: AllowedValues?
        var allowed: AllowedValues?
        var numbers = NumberRules()
        var texts = TextRules()
        var lists = ListRules()
        var objects = ObjectRules()
        var parts = CombinedRules()
        var title: String?

        /// Schemas of the same value.
        var inPlace: [Int] { parts.all + objects.dependentSchemas.map(\.schema) }

        /// Schemas of parts of the value.
        var below: [Int] {
            var found = lists.prefix + objects.members.values.compactMap(\.schema) + objects.patterns.map(\.schema)
            found += [lists.items, lists.contains, objects.additional, objects.names].compactMap(\.self)
            return found
        }

        /// `true` when a rule here looks at several members of an object at once.
        var bindsMembers: Bool {
            !parts.anyOf.isEmpty || !parts.oneOf.isEmpty || parts.not != nil || parts.condition != nil || objects.least != nil
                || objects.most != nil || !objects.dependentNames.isEmpty || !objects.dependentSchemas.isEmpty
        }
    }
}

struct SchemaKinds: OptionSet, Hashable, Sendable {
    let rawValue: UInt8

    static let null = SchemaKinds(rawValue: 1)
    static let boolean = SchemaKinds(rawValue: 2)
    static let number = SchemaKinds(rawValue: 4)
    static let integer = SchemaKinds(rawValue: 8)
    static let string = SchemaKinds(rawValue: 16)
    static let array = SchemaKinds(rawValue: 32)
    static let object = SchemaKinds(rawValue: 64)

    private static let all: [(name: String, kind: SchemaKinds)] = [
        ("object", .object), ("array", .array), ("string", .string), ("number", .number), ("integer", .integer), ("boolean", .boolean),
        ("null", .null),
    ]

    static var names: [String] { all.map(\.name) }

    static func named(_ name: String) -> SchemaKinds? { all.first { $0.name == name }?.kind }

    /// The kind of a value, where every number is only a number.
    static func simple(_ value: JSON) -> SchemaKinds {
        switch value {
        case .null: .null
        case .bool: .boolean
        case .number: .number
        case .string: .string
        case .array: .array
        case .object: .object
        }
    }

    func admits(_ value: JSON) -> Bool {
        if !isDisjoint(with: Self.simple(value)) { return true }
        guard contains(.integer), case .number(let number) = value else { return false }
        return number.isWhole
    }

    var text: String { Self.all.filter { contains($0.kind) }.map(\.name).sorted().joined(separator: " or ") }
}

/// The values of `enum`, or the one of `const`.
struct AllowedValues: Sendable {
    let list: [JSON]
    private let set: Set<JSON>?
    private let kinds: SchemaKinds

    init(_ list: [JSON]) {
        self.list = list
        set = list.count > 8 ? Set(list) : nil
        kinds = list.reduce(into: []) { $0.formUnion(.simple($1)) }
    }

    /// `true` when a value of that kind may be among them, so that it has to be compared.
    func mayHave(_ kind: SchemaKinds) -> Bool { !kinds.isDisjoint(with: kind) }

    func contains(_ value: JSON) -> Bool { set?.contains(value) ?? list.contains(value) }
}

/// A number that values are compared with. Comparing whole numbers is much quicker than comparing decimal ones.
struct ComparedNumber: Sendable {
    let number: JSONNumber
    private let whole: Int64?

    init(_ number: JSONNumber) {
        self.number = number
        whole = number.source.utf8.count <= 18 ? Int64(number.source) : nil
    }

    static func < (left: ComparedNumber, right: ComparedNumber) -> Bool {
        if let one = left.whole, let other = right.whole { return one < other }
        return left.number < right.number
    }
}

struct NumberRules: Sendable {
    var minimum: ComparedNumber?
    var maximum: ComparedNumber?
    var above: ComparedNumber?
    var below: ComparedNumber?
    var divisor: DecimalDivisor?

    var isEmpty: Bool { minimum == nil && maximum == nil && above == nil && below == nil && divisor == nil }
}

struct TextRules: Sendable {
    var least: Int?
    var most: Int?
    var pattern: LinearPattern?
    var format: TextFormat?

    var isEmpty: Bool { least == nil && most == nil && pattern == nil && format == nil }
}

struct ListRules: Sendable {
    var prefix: [Int] = []
    var items: Int?
    var contains: Int?
    var containsLeast: Int?
    var containsMost: Int?
    var least: Int?
    var most: Int?
    var isUnique = false

    var isEmpty: Bool { prefix.isEmpty && items == nil && contains == nil && least == nil && most == nil && !isUnique }
}

struct ObjectRules: Sendable {
    struct Member: Sendable {
        var schema: Int?
        var isRequired = false
    }

    /// The members that `properties` and `required` name.
    var members: [JSONString: Member] = [:]
    /// The names of `properties` and `required`, each once and in the order of the schema.
    var properties: [JSONString] = []
    var required: [JSONString] = []
    var patterns: [(pattern: LinearPattern, schema: Int)] = []
    var additional: Int?
    var names: Int?
    var least: Int?
    var most: Int?
    var dependentNames: [(name: JSONString, needed: [JSONString])] = []
    var dependentSchemas: [(name: JSONString, schema: Int)] = []

    /// `true` when a rule looks at members that the schema does not name.
    var looksAtAll: Bool { !patterns.isEmpty || additional != nil || names != nil }

    var isEmpty: Bool {
        members.isEmpty && !looksAtAll && least == nil && most == nil && dependentNames.isEmpty && dependentSchemas.isEmpty
    }

    mutating func require(_ name: JSONString) {
        guard members[name]?.isRequired != true else { return }
        members[name, default: Member()].isRequired = true
        required.append(name)
    }
}

/// Other schemas of the same value.
struct CombinedRules: Sendable {
    /// The schema that `$ref` names.
    var target: Int?
    var allOf: [Int] = []
    var anyOf: [Int] = []
    var oneOf: [Int] = []
    var not: Int?
    var condition: Int?
    var then: Int?
    var otherwise: Int?

    var all: [Int] { [target, not, condition, then, otherwise].compactMap(\.self) + allOf + anyOf + oneOf }
    /// `then` and `else` without `if` say nothing.
    var isEmpty: Bool { target == nil && allOf.isEmpty && anyOf.isEmpty && oneOf.isEmpty && not == nil && condition == nil }
}
