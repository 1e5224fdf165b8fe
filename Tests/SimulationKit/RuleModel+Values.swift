import SyncCore

/// The few operations on values that the documents name, for the model.
enum PlainValue {
    /// One spelling for each value: names in order, and everything else unchanged.
    static func text(_ value: JSON) -> String {
        switch value {
        case .object(let object):
            let members = object.members.map { (name: $0.name.text, value: $0.value) }.sorted { $0.name < $1.name }
            return "{\(members.map { "\(JSON.string($0.name).json):\(text($0.value))" }.joined(separator: ","))}"
        case .array(let elements): return "[\(elements.map { text($0) }.joined(separator: ","))]"
        default: return value.json
        }
    }

    static func text(_ document: JSONObject?) -> String { document.map { text(.object($0)) } ?? "nothing" }

    static func isNothing(_ value: JSON?) -> Bool {
        if case .null? = value { true } else { value == nil }
    }

    /// Elements of a set are told apart by themselves, objects by their `id`.
    static func key(_ element: JSON) -> JSON {
        if let id = element.object?["id"] { .object(["id": id]) } else { element }
    }

    /// The dotted name of an element, such as `tags[red]`.
    static func place(_ field: String, _ element: JSON) -> String {
        let id = element.object?["id"] ?? element
        return "\(field)[\(String(String.UnicodeScalarView((id.text ?? id.json).unicodeScalars.prefix(64))))]"
    }

    /// Removes repeated elements; the first of equal ones stays.
    static func once(_ elements: [JSON]) -> [JSON] {
        var result: [JSON] = []
        for element in elements where !result.contains(where: { key($0) == key(element) }) { result.append(element) }
        return result
    }

    /// The part of `new` after `old`.
    static func suffix(_ new: JSON, behind old: JSON) -> JSON? {
        switch (new, old) {
        case (.string(let new), .string(let old)):
            let (bytes, front) = (Array(new.text.utf8), Array(old.text.utf8))
            guard bytes.count >= front.count, Array(bytes[..<front.count]) == front else { return nil }
            return .string(String(decoding: bytes[front.count...], as: UTF8.self))
        case (.array(let new), .array(let old)):
            guard new.count >= old.count, Array(new[..<old.count]) == old else { return nil }
            return .array(Array(new[old.count...]))
        default: return nil
        }
    }

    /// - Returns: `nil` when the two cannot be compared.
    static func isLess(_ left: JSON, _ right: JSON) -> Bool? {
        switch (left, right) {
        case (.number(let left), .number(let right)): left < right
        case (.string(let left), .string(let right)): Array(left.text.utf8).lexicographicallyPrecedes(Array(right.text.utf8))
        default: nil
        }
    }

    /// The greater value for `max`, the lesser one for `min`, and the first of equal ones; `nil` if they cannot be compared.
    static func extreme(_ rule: FieldStrategy, _ first: JSON, _ second: JSON) -> JSON? {
        guard let isLess = isLess(first, second) else { return nil }
        if first == second { return first }
        return isLess == (rule == .max) ? second : first
    }

    /// Applies an operation to a value (see the table in the manual).
    ///
    /// - Returns: `nil` if the operation does not fit; otherwise the new value, which may be absent.
    static func operated(_ kind: FieldOperation.Kind, _ value: JSON?, _ operand: JSON, replaces: Bool = true) -> JSON?? {
        let nothing = isNothing(value)
        switch kind {
        case .append:
            switch (value, operand) {
            case (.string(let old)?, .string(let new)): return .some(.string(old.text + new.text))
            case (.array(let old)?, .array(let new)): return .some(.array(old + new))
            case (.array(let old)?, let new): return .some(.array(old + [new]))
            case (_, .string), (_, .array): return nothing ? .some(operand) : .none
            default: return .none
            }
        case .increment:
            guard case .number(let delta) = operand else { return .none }
            if nothing { return .some(operand) }
            guard case .number(let old)? = value, let sum = old.adding(delta) else { return .none }
            return .some(.number(sum))
        case .add:
            if nothing { return .some(.array([operand])) }
            guard var elements = value?.array else { return .none }
            guard let place = elements.firstIndex(where: { key($0) == key(operand) }) else { return .some(.array(elements + [operand])) }
            if replaces { elements[place] = operand }
            return .some(.array(elements))
        case .remove:
            if nothing { return .some(value) }
            guard let elements = value?.array else { return .none }
            return .some(.array(elements.filter { key($0) != key(operand) }))
        case .max, .min:
            guard let value, !nothing else { return .some(operand) }
            return extreme(kind == .max ? .max : .min, value, operand).map { .some($0) }
        }
    }
}

/// Access to members inside of members.
extension JSONObject {
    /// - Returns: `nil` when something that is no object stands in the way.
    func plainMember(_ path: [String]) -> JSON?? {
        guard let first = path.first else { return .none }
        if path.count == 1 { return .some(self[first]) }
        if PlainValue.isNothing(self[first]) { return .some(JSON?.none) }
        return self[first]?.object?.plainMember(Array(path.dropFirst()))
    }

    func settingPlainMember(_ path: [String], _ value: JSON?) -> JSONObject {
        guard let first = path.first else { return self }
        var result = self
        result[first] = path.count == 1 ? value : .object((self[first]?.object ?? [:]).settingPlainMember(Array(path.dropFirst()), value))
        return result
    }
}
