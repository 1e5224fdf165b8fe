/// The form of an entity's documents: the part of JSON Schema that can be checked in time proportional to the document (PROTOCOL A12):
/// `type`, `properties`, `required`, `items`, `enum`, `minimum`, `maximum`, `maxLength`, `pattern`.
///
/// `title` and `description` are for people and are kept. Any other keyword is refused when the schema is read, because users would rely on
/// a rule that is not enforced. A value of `null` counts as missing.
package struct DocumentSchema: Hashable, Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        case object, array, string, number, integer, boolean, null
    }

    /// The schema as it was given.
    package let json: JSON
    private let node: Node

    fileprivate struct Node: Hashable, Sendable {
        var kinds: Set<Kind> = []
        var properties: [String: Node] = [:]
        var required: [String] = []
        /// The schema of each element; at most one.
        var items: [Node] = []
        var allowed: [JSON]?
        var minimum: JSONNumber?
        var maximum: JSONNumber?
        var lengthMax: Int?
        var pattern: LinearPattern?
    }

    static let depthMax = 8

    /// - Throws: The fault, with a pointer into the schema.
    package init(_ json: JSON) throws(Problem) {
        self.json = json
        node = try Node(json, at: "", depth: 0)
        guard node.kinds.isEmpty || node.kinds == [.object] else {
            throw Node.problem("/type", "a document is an object")
        }
    }

    /// Faults of the values that a mutation sets, each place as a JSON pointer below `/data`.
    ///
    /// A new document must have all required fields. In an update only the changed fields are checked, and results of operations are not.
    package func faults(in content: MutationContent) -> [Problem.Pointer] {
        guard content.action != .delete else { return [] }
        var faults: [Problem.Pointer] = []
        for member in content.data.members {
            let name = member.name.text
            node.properties[name]?.check(member.value, at: "/data/" + Self.escaped(name), &faults)
        }
        if content.action == .create {
            let operated = Set(content.operations.map(\.top))
            for name in node.required where !operated.contains(name) && (content.data[name] ?? .null).isNull {
                faults.append(Problem.Pointer("/data/" + Self.escaped(name), "is required"))
            }
        } else {
            for name in node.required {
                if content.data[name]?.isNull == true { faults.append(Problem.Pointer("/data/" + Self.escaped(name), "is required")) }
                if let index = content.unset.firstIndex(of: name) {
                    faults.append(Problem.Pointer("/unset/\(index)", "names \(name), which is required"))
                }
            }
        }
        return faults
    }

    /// A name with `~` and `/` escaped (RFC 6901).
    fileprivate static func escaped(_ name: String) -> String {
        var text = ""
        for character in name {
            switch character {
            case "~": text += "~0"
            case "/": text += "~1"
            default: text.append(character)
            }
        }
        return text
    }
}

extension DocumentSchema.Node {
    static func problem(_ pointer: String, _ detail: String) -> Problem {
        Problem(
            "validation", status: 422, detail: "the schema\(pointer.isEmpty ? "" : " at \(pointer)"): \(detail)",
            errors: [.init(pointer, detail)])
    }

    init(_ json: JSON, at pointer: String, depth: Int) throws(Problem) {
        guard let object = json.object else { throw Self.problem(pointer, "must be an object") }
        guard depth <= DocumentSchema.depthMax else { throw Self.problem(pointer, "is nested more than \(DocumentSchema.depthMax) deep") }
        for member in object.members {
            let (name, value) = (member.name.text, member.value)
            let place = pointer + "/" + DocumentSchema.escaped(name)
            switch name {
            case "type": kinds = try Self.kinds(value, at: place)
            case "properties":
                guard let members = value.object?.members else { throw Self.problem(place, "must be an object of schemas") }
                for member in members {
                    let field = member.name.text
                    properties[field] = try Self(member.value, at: place + "/" + DocumentSchema.escaped(field), depth: depth + 1)
                }
            case "required": required = try Self.names(value, at: place)
            case "items": items = [try Self(value, at: place, depth: depth + 1)]
            case "enum":
                guard let list = value.array, !list.isEmpty else { throw Self.problem(place, "must be a list of values") }
                allowed = list
            case "minimum", "maximum":
                guard case .number(let number) = value else { throw Self.problem(place, "must be a number") }
                if name == "minimum" { minimum = number } else { maximum = number }
            case "maxLength":
                guard let length = value.int, length >= 0 else { throw Self.problem(place, "must be a whole number from 0") }
                lengthMax = Int(clamping: length)
            case "pattern":
                guard let text = value.text, let read = LinearPattern(text) else {
                    throw Self.problem(
                        place,
                        "must be a regular expression of at most \(LinearPattern.lengthMax) characters without back references and "
                            + "look-around")
                }
                pattern = read
            case "title", "description": break
            default:
                throw Self.problem(
                    place,
                    "is not known; known are type, properties, required, items, enum, minimum, maximum, maxLength, pattern, title, "
                        + "description")
            }
        }
    }

    private static func kinds(_ value: JSON, at place: String) throws(Problem) -> Set<DocumentSchema.Kind> {
        let words = value.array?.map(\.text) ?? [value.text]
        let kinds = words.compactMap { $0.flatMap { DocumentSchema.Kind(rawValue: $0) } }
        guard !kinds.isEmpty, kinds.count == words.count else {
            throw problem(place, "must be one of " + DocumentSchema.Kind.allCases.map(\.rawValue).joined(separator: ", "))
        }
        return Set(kinds)
    }

    private static func names(_ value: JSON, at place: String) throws(Problem) -> [String] {
        guard let list = value.array, case let names = list.compactMap(\.text), names.count == list.count else {
            throw problem(place, "must be a list of names")
        }
        return names
    }

    func check(_ value: JSON, at pointer: String, _ faults: inout [Problem.Pointer]) {
        // A required value is asked for by `required`.
        if value.isNull { return }
        // Enough for a correction; a document with a thousand wrong fields needs no thousand sentences.
        guard faults.count < 50 else { return }
        func fault(_ detail: String) { faults.append(Problem.Pointer(pointer, detail)) }
        if !kinds.isEmpty, kinds.isDisjoint(with: Self.kinds(of: value)) {
            return fault("must be of type " + kinds.map(\.rawValue).sorted().joined(separator: " or "))
        }
        if let allowed, !allowed.contains(value) {
            fault("must be one of " + allowed.map { $0.text ?? $0.json }.joined(separator: ", "))
        }
        switch value {
        case .number(let number):
            if let minimum, number < minimum { fault("must be at least \(minimum.source)") }
            if let maximum, maximum < number { fault("must be at most \(maximum.source)") }
        case .string(let string):
            let text = string.text
            if let lengthMax, text.unicodeScalars.count > lengthMax { return fault("must have at most \(lengthMax) characters") }
            if let pattern, !pattern.matches(text) { fault("must match \(pattern.source)") }
        case .array(let elements):
            guard let each = items.first else { return }
            for (index, element) in elements.enumerated() { each.check(element, at: "\(pointer)/\(index)", &faults) }
        case .object(let object):
            for name in required where (object[name] ?? .null).isNull {
                faults.append(Problem.Pointer(pointer + "/" + DocumentSchema.escaped(name), "is required"))
            }
            for member in object.members {
                let name = member.name.text
                properties[name]?.check(member.value, at: pointer + "/" + DocumentSchema.escaped(name), &faults)
            }
        case .bool, .null: return
        }
    }

    private static func kinds(of value: JSON) -> Set<DocumentSchema.Kind> {
        switch value {
        case .null: [.null]
        case .bool: [.boolean]
        case .number: value.int == nil ? [.number] : [.number, .integer]
        case .string: [.string]
        case .array: [.array]
        case .object: [.object]
        }
    }
}
