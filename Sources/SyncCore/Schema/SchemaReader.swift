/// Reads a schema into ``SchemaNode``s, and refuses everything that would not be enforced.
struct SchemaReader {
    private var drafts: [SchemaNode.Draft] = []
    /// The number of each schema by its pointer, for references.
    private var places: [[UInt8]: Int] = [:]
    private var references: [SchemaReferences.Reference] = []
    /// Patterns that were read already, and their size together.
    private var patterns: [String: LinearPattern] = [:]
    private var patternSize = 0

    mutating func read(_ json: JSON) throws(Problem) -> (nodes: [SchemaNode], root: Int) {
        guard Self.isNested(json, atMost: JSONSchema.textDepthMax) else {
            throw Self.problem("", "has arrays and objects more than \(JSONSchema.textDepthMax) deep")
        }
        let root = try schema(json, at: "", depth: 0)
        for reference in references { drafts[reference.schema].parts.target = try SchemaReferences.target(of: reference, places) }
        try SchemaReferences.check(drafts, references)
        let binding = SchemaReferences.binding(drafts)
        return (drafts.indices.map { SchemaNode(drafts[$0], bindsMembers: binding[$0]) }, root)
    }

    static func problem(_ pointer: String, _ detail: String) -> Problem {
        Problem(
            "validation", status: 422, detail: "the schema\(pointer.isEmpty ? "" : " at \(pointer)"): \(detail)",
            errors: [.init(pointer, detail)])
    }

    private static func isNested(_ json: JSON, atMost depth: Int) -> Bool {
        switch json {
        case .array(let elements): depth > 0 && elements.allSatisfy { isNested($0, atMost: depth - 1) }
        case .object(let object): depth > 0 && object.members.allSatisfy { isNested($0.value, atMost: depth - 1) }
        case .null, .bool, .number, .string: true
        }
    }

    /// - Returns: The number of the schema.
    private mutating func schema(_ json: JSON, at pointer: String, depth: Int) throws(Problem) -> Int {
        guard depth <= JSONSchema.depthMax else { throw Self.problem(pointer, "is nested more than \(JSONSchema.depthMax) deep") }
        guard drafts.count < JSONSchema.schemasMax else { throw Self.problem(pointer, "has more than \(JSONSchema.schemasMax) schemas") }
        let number = drafts.count
        drafts.append(SchemaNode.Draft())
        places[Array(pointer.utf8)] = number
        var draft = SchemaNode.Draft()
        switch json {
        case .bool(let verdict): draft.verdict = verdict
        case .object(let object):
            for member in object.members {
                let name = member.name.text
                let place = pointer + "/" + JSONPointer.escaped(name)
                guard let keyword = SchemaKeyword(rawValue: name) else { throw Self.problem(place, SchemaKeyword.refusal(of: name)) }
                if keyword == .ref {
                    guard let text = member.value.text else { throw Self.problem(place, "must be a text such as #/$defs/NAME") }
                    references.append(SchemaReferences.Reference(schema: number, place: place, text: text))
                } else {
                    try read(keyword, member.value, at: place, depth, into: &draft)
                }
            }
        case .null, .number, .string, .array: throw Self.problem(pointer, "must be an object, found \(json.kind)")
        }
        drafts[number] = draft
        return number
    }

    private mutating func read(
        _ keyword: SchemaKeyword, _ value: JSON, at place: String, _ depth: Int, into draft: inout SchemaNode.Draft
    ) throws(Problem) {
        switch keyword {
        case .type: draft.kinds = try Self.kinds(value, at: place)
        case .const: draft.constant = AllowedValues([value])
        case .enum:
            guard let list = value.array, !list.isEmpty else { throw Self.problem(place, "must be a list of values") }
            draft.allowed = AllowedValues(list)
        case .multipleOf, .minimum, .maximum, .exclusiveMinimum, .exclusiveMaximum:
            try Self.read(keyword, value, at: place, into: &draft.numbers)
        case .minLength: draft.texts.least = try Self.count(value, at: place)
        case .maxLength: draft.texts.most = try Self.count(value, at: place)
        case .pattern: draft.texts.pattern = try pattern(value.text, at: place)
        case .format: draft.texts.format = try Self.format(value, at: place)
        case .prefixItems: draft.lists.prefix = try schemas(value, at: place, depth)
        case .items:
            if value.array != nil { throw Self.problem(place, "must be one schema; use prefixItems for a list of schemas") }
            draft.lists.items = try schema(value, at: place, depth: depth + 1)
        case .contains: draft.lists.contains = try schema(value, at: place, depth: depth + 1)
        case .minContains: draft.lists.containsLeast = try Self.count(value, at: place)
        case .maxContains: draft.lists.containsMost = try Self.count(value, at: place)
        case .minItems: draft.lists.least = try Self.count(value, at: place)
        case .maxItems: draft.lists.most = try Self.count(value, at: place)
        case .uniqueItems:
            guard let isUnique = value.bool else { throw Self.problem(place, "must be true or false, found \(value.kind)") }
            draft.lists.isUnique = isUnique
        case .properties, .patternProperties, .additionalProperties, .propertyNames, .required, .minProperties, .maxProperties,
            .dependentRequired, .dependentSchemas:
            try read(keyword, value, at: place, depth, into: &draft.objects)
        case .allOf: draft.parts.allOf = try schemas(value, at: place, depth)
        case .anyOf: draft.parts.anyOf = try schemas(value, at: place, depth)
        case .oneOf: draft.parts.oneOf = try schemas(value, at: place, depth)
        case .not: draft.parts.not = try schema(value, at: place, depth: depth + 1)
        case .if: draft.parts.condition = try schema(value, at: place, depth: depth + 1)
        case .then: draft.parts.then = try schema(value, at: place, depth: depth + 1)
        case .else: draft.parts.otherwise = try schema(value, at: place, depth: depth + 1)
        case .defs: for (_, json, place) in try Self.members(value, at: place) { _ = try schema(json, at: place, depth: depth + 1) }
        case .title: draft.title = value.text
        case .schema: try Self.checkDialect(value, at: place)
        case .id:
            // References below another $id would mean something else.
            guard depth == 0 else { throw Self.problem(place, "is supported only at the root; refer to $defs by a path: #/$defs/NAME") }
        case .description, .default, .examples, .deprecated, .readOnly, .writeOnly, .comment, .ref: break
        }
    }

    private mutating func read(
        _ keyword: SchemaKeyword, _ value: JSON, at place: String, _ depth: Int, into objects: inout ObjectRules
    ) throws(Problem) {
        switch keyword {
        case .properties:
            for (name, json, place) in try Self.members(value, at: place) {
                objects.members[name, default: ObjectRules.Member()].schema = try schema(json, at: place, depth: depth + 1)
                objects.properties.append(name)
            }
        case .patternProperties:
            for (name, json, place) in try Self.members(value, at: place) {
                objects.patterns.append((try pattern(name.text, at: place), try schema(json, at: place, depth: depth + 1)))
            }
        case .additionalProperties: objects.additional = try schema(value, at: place, depth: depth + 1)
        case .propertyNames: objects.names = try schema(value, at: place, depth: depth + 1)
        case .required: for name in try Self.names(value, at: place) { objects.require(name) }
        case .minProperties: objects.least = try Self.count(value, at: place)
        case .maxProperties: objects.most = try Self.count(value, at: place)
        case .dependentRequired:
            for (name, json, place) in try Self.members(value, at: place) {
                objects.dependentNames.append((name, try Self.names(json, at: place)))
            }
        case .dependentSchemas:
            for (name, json, place) in try Self.members(value, at: place) {
                objects.dependentSchemas.append((name, try schema(json, at: place, depth: depth + 1)))
            }
        default: break
        }
    }

    private mutating func schemas(_ value: JSON, at place: String, _ depth: Int) throws(Problem) -> [Int] {
        guard let list = value.array, !list.isEmpty else { throw Self.problem(place, "must be a list of schemas") }
        var numbers: [Int] = []
        for (index, json) in list.enumerated() { numbers.append(try schema(json, at: "\(place)/\(index)", depth: depth + 1)) }
        return numbers
    }

    private mutating func pattern(_ source: String?, at place: String) throws(Problem) -> LinearPattern {
        if let source, let known = patterns[source], sameBytes(known.source, source) { return known }
        guard let source, let pattern = LinearPattern(source) else {
            throw Self.problem(
                place,
                "must be a regular expression of at most \(LinearPattern.lengthMax) characters without back references and look-around")
        }
        patternSize += pattern.size
        guard patternSize <= JSONSchema.patternsMax else {
            throw Self.problem(place, "the patterns of the schema are too large together; their repetitions are written out")
        }
        patterns[source] = pattern
        return pattern
    }
}

// MARK: - Values of keywords

extension SchemaReader {
    private static let dialects = ["https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#"]

    private static func checkDialect(_ value: JSON, at place: String) throws(Problem) {
        guard value.text.map({ dialects.contains($0) }) == true else { throw problem(place, "must be \(dialects[0])") }
    }

    private static func kinds(_ value: JSON, at place: String) throws(Problem) -> SchemaKinds {
        let words = value.array?.map(\.text) ?? [value.text]
        let kinds = words.compactMap { $0.flatMap { SchemaKinds.named($0) } }
        guard !kinds.isEmpty, kinds.count == words.count else {
            let near = value.text.flatMap { nearestName(to: $0, among: SchemaKinds.names) }.map { "; did you mean \($0)?" } ?? ""
            throw problem(place, "must be one of " + SchemaKinds.names.joined(separator: ", ") + near)
        }
        return kinds.reduce(into: []) { $0.formUnion($1) }
    }

    private static func read(
        _ keyword: SchemaKeyword, _ value: JSON, at place: String, into numbers: inout NumberRules
    ) throws(Problem) {
        guard case .number(let number) = value else { throw problem(place, "must be a number, found \(value.kind)") }
        switch keyword {
        case .minimum: numbers.minimum = ComparedNumber(number)
        case .maximum: numbers.maximum = ComparedNumber(number)
        case .exclusiveMinimum: numbers.above = ComparedNumber(number)
        case .exclusiveMaximum: numbers.below = ComparedNumber(number)
        default:
            guard let divisor = DecimalDivisor(number) else {
                throw problem(place, "must be a number above 0 with at most \(DecimalDivisor.digitsMax) digits")
            }
            numbers.divisor = divisor
        }
    }

    private static func count(_ value: JSON, at place: String) throws(Problem) -> Int {
        guard let count = value.int, count >= 0 else { throw problem(place, "must be a whole number from 0") }
        return Int(clamping: count)
    }

    private static func names(_ value: JSON, at place: String) throws(Problem) -> [JSONString] {
        guard let list = value.array else { throw problem(place, "must be a list of names") }
        var names: [JSONString] = []
        for element in list {
            guard case .string(let name) = element else { throw problem(place, "must be a list of names") }
            names.append(name)
        }
        return names
    }

    private static func format(_ value: JSON, at place: String) throws(Problem) -> TextFormat {
        guard let name = value.text else { throw problem(place, "must be the name of a format, found \(value.kind)") }
        guard let format = TextFormat(rawValue: name) else {
            let names = TextFormat.allCases.map(\.rawValue)
            let near = nearestName(to: name, among: names).map { "; did you mean \($0)?" } ?? ""
            throw problem(place, "must be one of " + names.joined(separator: ", ") + near)
        }
        return format
    }

    /// The members of an object of schemas, each with its place.
    private static func members(_ value: JSON, at place: String) throws(Problem) -> [(name: JSONString, json: JSON, place: String)] {
        guard let members = value.object?.members else { throw problem(place, "must be an object, found \(value.kind)") }
        return members.map { ($0.name, $0.value, place + "/" + JSONPointer.escaped($0.name.text)) }
    }
}
