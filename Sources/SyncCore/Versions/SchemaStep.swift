/// One change of the shape of an entity's documents, from one version of its schema to the next (PROTOCOL D7).
///
/// A step never fails and never looks at anything but the document: the hub and every agent convert the same document to the same bytes.
/// Except for ``drop(_:)``, ``unwrap(_:)`` and a map of values that gives two values one name, no step loses anything.
package enum SchemaStep: Hashable, Sendable {
    /// Exchanges two names. A value that stood under the new name before stands under the old one afterwards, so nothing is overwritten.
    case rename(String, to: String)
    /// Sets a field that is missing or null.
    case fill(String, JSON)
    /// Removes a field.
    case drop(String)
    /// Replaces a value by another one, and each element of a list. A name in the map is a text, unless it is the JSON of a number, `true`,
    /// `false` or `null`: then it is that value.
    case values(String, JSONObject)
    /// Makes a list of a single value.
    case wrap(String)
    /// Takes the first element of a list. It is the way back from ``wrap(_:)``.
    case unwrap(String)
    /// Moves a field into an object, and the other way round. It exchanges the two places, as ``rename(_:to:)`` does. Changes are converted
    /// right as long as only one of the two places is in use.
    case moveInto(String, Member)
    case moveOut(Member, String)

    /// A member of an object that is a field of the document: `position.lat`.
    package struct Member: Hashable, Sendable {
        package var field: String
        package var name: String

        package init(_ field: String, _ name: String) {
            self.field = field
            self.name = name
        }

        package var text: String { field + "." + name }
    }

    /// The fields of the document that the step may change.
    package var fields: [String] {
        switch self {
        case .rename(let old, let new): [old, new]
        case .fill(let field, _), .drop(let field), .values(let field, _), .wrap(let field), .unwrap(let field): [field]
        case .moveInto(let field, let member), .moveOut(let member, let field): [field, member.field]
        }
    }

    /// The name of a value in a map of values; `nil` for a value that has none: a list, an object, and a text such as `12`.
    package static func name(of value: JSON) -> String? {
        switch value {
        case .string(let string):
            let text = string.text
            return plainValue(named: text) == nil ? text : nil
        case .null, .bool, .number: return value.json
        case .array, .object: return nil
        }
    }

    /// The number, switch or null that a name in a map stands for; `nil`: it is a text.
    private static func plainValue(named name: String) -> JSON? {
        // Only these letters begin such a value.
        guard let first = name.utf8.first, first == UInt8(ascii: "-") || (48...57).contains(first) || "tfn".utf8.contains(first) else {
            return nil
        }
        // A name that is no JSON is a text, which is no failure.
        guard let value = try? JSONReader.read(name) else { return nil }
        switch value {
        case .null, .bool, .number: return value
        case .string, .array, .object: return nil
        }
    }

    /// The value that a map of values gives for a value, or the value itself.
    static func mapped(_ value: JSON, by map: JSONObject) -> JSON {
        if case .array(let elements) = value { return .array(elements.map { element in name(of: element).flatMap { map[$0] } ?? element }) }
        return name(of: value).flatMap { map[$0] } ?? value
    }

    // MARK: - The way back

    /// The step that undoes this one in every document of the older schema.
    ///
    /// - Parameter older: The schema of the version that this step leaves; `nil`: it has none.
    /// - Throws: The reason why there is no such step.
    package func inverse(under older: DocumentSchema?) throws(NotInvertible) -> SchemaStep? {
        switch self {
        case .rename: return self
        case .wrap(let field): return .unwrap(field)
        case .unwrap(let field): return .wrap(field)
        case .moveInto(let field, let member): return .moveOut(member, field)
        case .moveOut(let member, let field): return .moveInto(field, member)
        // The older version knew the field as one that may be missing; then it can show the filled one as well.
        case .fill(let field, _): return older?.declares(field) == true ? nil : .drop(field)
        case .drop(let field):
            if older?.requires(field) == true { throw NotInvertible("the older version requires \(field), which a step drops") }
            return nil
        case .values(let field, let map): return .values(field, try Self.inverse(of: map, field))
        }
    }

    package struct NotInvertible: Error, Hashable, CustomStringConvertible {
        package let description: String

        init(_ description: String) {
            self.description = description
        }
    }

    private static func inverse(of map: JSONObject, _ field: String) throws(NotInvertible) -> JSONObject {
        var inverse: JSONObject = [:]
        for member in map.members {
            guard let name = name(of: member.value) else {
                throw NotInvertible("the map of \(field) gives \(member.value.kind), which has no name in a map")
            }
            guard inverse[name] == nil else { throw NotInvertible("the map of \(field) gives \(name) for two values") }
            inverse[name] = plainValue(named: member.name.text) ?? .string(member.name.text)
        }
        return inverse
    }
}

/// The steps from one version of a schema to another, in their order.
package struct SchemaSteps: Hashable, Sendable, ExpressibleByArrayLiteral {
    package var steps: [SchemaStep]

    package init(_ steps: [SchemaStep] = []) {
        self.steps = steps
    }

    package init(arrayLiteral steps: SchemaStep...) {
        self.steps = steps
    }

    package var isEmpty: Bool { steps.isEmpty }

    package static func + (left: SchemaSteps, right: SchemaSteps) -> SchemaSteps { SchemaSteps(left.steps + right.steps) }

    /// The steps back to the older version.
    package func inverse(under older: DocumentSchema?) throws(SchemaStep.NotInvertible) -> SchemaSteps {
        var back: [SchemaStep] = []
        for step in steps.reversed() { if let inverse = try step.inverse(under: older) { back.append(inverse) } }
        return SchemaSteps(back)
    }

    /// The present name of a field, or of a member as `position.lat`; `nil`: the field was dropped.
    package func name(of field: String) -> String? {
        var name = field
        for step in steps {
            switch step {
            case .rename(let old, let new): name = Self.renamed(name, old, new)
            case .drop(let dropped): if Self.isIn(name, dropped) { return nil }
            case .moveInto(let moved, let member): name = Self.moved(name, [(moved, member.text), (member.text, moved)])
            case .moveOut(let member, let moved): name = Self.moved(name, [(moved, member.text), (member.text, moved)])
            case .fill, .values, .wrap, .unwrap: break
            }
        }
        return name
    }

    static func isIn(_ name: String, _ field: String) -> Bool {
        sameBytes(name, field) || name.utf8.starts(with: (field + ".").utf8)
    }

    static func renamed(_ name: String, _ old: String, _ new: String) -> String {
        if sameBytes(old, new) { return name }
        if isIn(name, old) { return new + suffix(of: name, after: old) }
        if isIn(name, new) { return old + suffix(of: name, after: new) }
        return name
    }

    static func moved(_ name: String, _ places: [(from: String, to: String)]) -> String {
        for place in places where isIn(name, place.from) { return place.to + suffix(of: name, after: place.from) }
        return name
    }

    private static func suffix(of name: String, after field: String) -> String {
        String(decoding: name.utf8.dropFirst(field.utf8.count), as: UTF8.self)
    }
}

extension DocumentSchema {
    /// Every document has the field.
    package func requires(_ field: String) -> Bool { required.contains { $0.means(field) } }

    /// The schema names the field.
    package func declares(_ field: String) -> Bool { requires(field) || json.object?["properties"]?.object?[field] != nil }
}
