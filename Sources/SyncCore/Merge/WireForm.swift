/// Turns an app's values into the form that best expresses its intent (PROTOCOL D2, "on the wire").
///
/// An app sets `visits` to 8 because it saw 7. Sent as a value, that would undo what other devices counted meanwhile. Sent as "one more",
/// it commutes with their changes. So where the rule of a field has an operation, a plain value is turned into the difference from the
/// value that the app saw, once, at enqueue. A value that cannot be expressed as a difference stays a value.
///
/// | rule | app saw | app wrote | sent |
/// |---|---|---|---|
/// | `counter` | 7 | 8 | `inc 1` |
/// | `append` | "rail" | "rail loose" | `append " loose"` |
/// | `append` | "rail" | "new text" | the value |
/// | `set` | [a,b] | [b,c] | `remove a`, `add c` |
/// | `max` | 7 | 8 | `max 8` |
package enum WireForm {
    /// - Parameters:
    ///   - seen: The record as the app saw it: the base with all waiting mutations applied.
    ///   - alsoBesideOperations: Also turn the value of a field that has operations of its own into a difference, which goes before them.
    ///     Otherwise such a value stays a value.
    ///   - isKept: Selects fields whose value stays a value.
    package static func of(
        _ content: MutationContent, seen: JSONObject, rules: EntityRules, alsoBesideOperations: Bool = false,
        isKept: (String) -> Bool = { _ in false }
    ) -> MutationContent {
        guard content.action == .update, rules.strategy == .fields, !rules.fields.isEmpty else { return content }
        var result = content
        let operated = Set(content.operations.map { JSONString($0.field) })
        let removed = Set(content.unset.map { JSONString($0) })
        // Differences of the fields that have operations of their own, last field first. Each goes before those operations.
        var first: [[FieldOperation]] = []
        for member in content.data.members {
            let field = member.name.text
            // An app's own operation on the same field is meant to come after the value.
            let hasOwn = operated.contains(member.name)
            guard !isKept(field), !removed.contains(member.name), alsoBesideOperations || !hasOwn,
                let operations = operations(rules.strategy(of: field), field, from: seen[field], to: member.value)
            else { continue }
            let stamped = operations.stamped(content.stamps[member.name])
            result.data[field] = nil
            result.stamps[member.name] = nil
            if hasOwn { first.append(stamped) } else { result.operations += stamped }
        }
        if !first.isEmpty { result.operations = first.reversed().flatMap { $0 } + result.operations }
        return result
    }

    /// The fields of an update whose base is sent along, because their rule merges them with it.
    package static func bases(_ content: MutationContent, seen: JSONObject, rules: EntityRules) -> JSONObject {
        guard content.action == .update, rules.mergesObjects else { return [:] }
        var bases: JSONObject = [:]
        for member in content.data.members where rules.strategy(of: member.name.text) == .merge {
            // In a first object every member is an addition, because the first object of another device has other members.
            let value = seen[member.name.text] ?? .object([:])
            if value.object != nil, member.value.object != nil { bases[member.name.text] = value }
        }
        return bases
    }

    /// Operations that turn `old` into `new` and commute with changes of others; `nil` where the rule of the field has none.
    package static func operations(_ rules: EntityRules, _ field: String, from old: JSON?, to new: JSON) -> [FieldOperation]? {
        rules.strategy == .fields ? operations(rules.strategy(of: field), field, from: old, to: new) : nil
    }

    /// - Returns: Operations that turn `old` into `new` under this rule, or `nil` when there are none.
    static func operations(
        _ strategy: FieldStrategy, _ field: String, from old: JSON?, to new: JSON
    ) -> [FieldOperation]? {
        switch strategy {
        case .lww, .server, .client, .merge, .manual: return nil
        case .counter: return difference(from: old, to: new).map { [FieldOperation(field, .increment, .number($0))] }
        case .append:
            // A first text stays a value: if another device writes one as well, the merged text must name both authors.
            guard let old, old.text != "", let suffix = suffix(of: new, after: old) else { return nil }
            return [FieldOperation(field, .append, suffix)]
        case .set:
            guard let new = new.array else { return nil }
            switch old {
            // An empty first set has no difference from none, but must be written all the same.
            case nil, .null?: return new.isEmpty ? nil : setDifference(from: [], to: new, field)
            case .array(let old)?: return setDifference(from: old, to: new, field)
            case .bool?, .number?, .string?, .object?: return nil
            }
        case .max, .min:
            let kind: FieldOperation.Kind = strategy == .max ? .max : .min
            guard old == nil || old?.isNull == true || Fold.extreme(kind, old, new) != nil, isOrdered(new) else { return nil }
            return [FieldOperation(field, kind, new)]
        }
    }

    /// Turns first values of fields that add up into additions to any present value.
    package static func withFirstsAdded(_ content: MutationContent, seen: JSONObject, rules: EntityRules) -> MutationContent {
        var result = content
        let operated = Set(content.operations.map { JSONString($0.field) })
        for member in content.data.members {
            let field = member.name.text
            guard seen[field] == nil, !operated.contains(member.name) else { continue }
            let additions = additions(rules, field, member.value)
            guard !additions.isEmpty else { continue }
            result.data[field] = nil
            result.stamps[member.name] = nil
            result.operations += additions.stamped(content.stamps[member.name])
        }
        return result
    }

    /// A value as an addition to any present value; empty where the rule of the field has no such operation.
    package static func additions(_ rules: EntityRules, _ field: String, _ value: JSON) -> [FieldOperation] {
        guard rules.strategy == .fields else { return [] }
        let strategy = rules.strategy(of: field)
        if strategy == .append { return [FieldOperation(field, .append, value)] }
        return operations(strategy, field, from: nil, to: value) ?? []
    }

    /// - Returns: `nil` unless both are numbers (or `old` is absent) whose exact difference can be written down.
    static func difference(from old: JSON?, to new: JSON?) -> JSONNumber? {
        guard case .number(let new)? = new else { return nil }
        switch old {
        case nil, .null?: return new
        case .number(let old)?: return new.adding(old.negated)
        case .bool?, .string?, .array?, .object?: return nil
        }
    }

    /// The part of `new` after `old`, for a text or a list; `nil` when `new` does not begin with `old`.
    static func suffix(of new: JSON, after old: JSON) -> JSON? {
        switch (old, new) {
        case (.string(let old), .string(let new)):
            let (before, after) = (old.text, new.text)
            guard after.utf8.starts(with: before.utf8) else { return nil }
            // The border always lies between scalars. A combining character must stay with the character that it combines with.
            return String(after.utf8.dropFirst(before.utf8.count)).map { .string($0) }
        case (.array(let old), .array(let new)):
            guard new.starts(with: old) else { return nil }
            return .array(Array(new.dropFirst(old.count)))
        default: return nil
        }
    }

    /// The removals and additions that turn one set into another. An element whose `id` is there with other content is added again.
    static func setDifference(from old: [JSON], to new: [JSON], _ field: String) -> [FieldOperation] {
        let before = Dictionary(old.map { (SetElement.key($0), $0) }, uniquingKeysWith: { first, _ in first })
        let after = Set(new.map { SetElement.key($0) })
        var seen: Set<JSON> = []
        var operations: [FieldOperation] = []
        for element in old where !after.contains(SetElement.key(element)) && seen.insert(SetElement.key(element)).inserted {
            operations.append(FieldOperation(field, .remove, SetElement.key(element)))
        }
        for element in new {
            let key = SetElement.key(element)
            guard before[key] != element, seen.insert(key).inserted else { continue }
            operations.append(FieldOperation(field, .add, element))
        }
        return operations
    }

    private static func isOrdered(_ value: JSON) -> Bool {
        switch value {
        case .number, .string: true
        case .null, .bool, .array, .object: false
        }
    }
}

extension [FieldOperation] {
    /// The same operations with the time at which they were made.
    func stamped(_ stamp: HybridTime?) -> [FieldOperation] {
        stamp == nil
            ? self
            : map { operation in
                var operation = operation
                operation.hlc = stamp
                return operation
            }
    }
}

/// Compares elements of a set: objects with an `id` by their id, all others by value.
package enum SetElement {
    package static func isSame(_ left: JSON, _ right: JSON) -> Bool { key(left) == key(right) }

    static func key(_ element: JSON) -> JSON {
        element.object?["id"].map { .object(["id": $0]) } ?? element
    }

    /// Each element once, the first of each key; `nil` when no key is repeated.
    static func once(_ elements: [JSON]) -> [JSON]? {
        JSONWork.count(elements.count)
        var keys: Set<JSON> = []
        let once = elements.filter { keys.insert(key($0)).inserted }
        return once.count == elements.count ? nil : once
    }

    /// A name for people: `tags[t-1]` by its `id`, or by its value where it has none, cut to ``placeMax`` characters.
    package static func place(of element: JSON, in field: String) -> String {
        let name = element.object?["id"] ?? element
        return "\(field)[\(String.UnicodeScalarView((name.text ?? name.json).unicodeScalars.prefix(placeMax)))]"
    }

    static let placeMax = 64
}

/// The elements of a set by their key, for many lookups in one list.
struct SetIndex {
    private let elements: [JSON: [JSON]]

    /// - Parameter value: A value that is no list counts as an empty one.
    init(_ value: JSON?) {
        let list = value?.array ?? []
        JSONWork.count(list.count)
        elements = Dictionary(grouping: list) { SetElement.key($0) }
    }

    /// Returns whether an element with the same key is there.
    func has(_ element: JSON) -> Bool { elements[SetElement.key(element)] != nil }

    /// Returns whether an equal element is there.
    func hasSame(_ element: JSON) -> Bool { elements[SetElement.key(element)]?.contains(element) ?? false }

    func first(_ key: JSON) -> JSON? { elements[key]?.first }

    /// An element that an addition or a removal displaces without naming it whole, so that its author need not have seen its content.
    func displaced(by operation: FieldOperation) -> JSON? {
        guard operation.kind.isOfSet else { return Optional.none }
        let key = SetElement.key(operation.value)
        let named = operation.kind == .remove ? key : operation.value
        return elements[key]?.first { $0 != named }
    }
}
