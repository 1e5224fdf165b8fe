/// What an app wrote, in the form that says most about what it meant (PROTOCOL D2, "on the wire").
///
/// An app sets `visits` to 8 because it saw 7. Sent as a value that would undo what others counted meanwhile; sent as
/// "one more" it commutes with theirs. So where the rule of a field has an operation, a plain value is turned into the
/// difference to what the app saw, once, at enqueue. What cannot be said as a difference stays a value.
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
    ///   - seen: The record as the app saw it: base with everything that waits on top.
    ///   - alsoBesideOperations: Also of a field with operations of its own the value becomes a difference, and they come
    ///     after it. What an app says in one breath it means as a value.
    ///   - isKept: Fields whose value stays one.
    package static func of(
        _ content: MutationContent, seen: JSONObject, rules: EntityRules, alsoBesideOperations: Bool = false,
        isKept: (String) -> Bool = { _ in false }
    ) -> MutationContent {
        guard content.action == .update, rules.strategy == .fields, !rules.fields.isEmpty else { return content }
        var result = content
        let operated = Set(content.operations.map { JSONString($0.field) })
        let removed = Set(content.unset.map { JSONString($0) })
        // Of the fields that have operations of their own: the last one first, each before all that was said before it.
        var first: [[FieldOperation]] = []
        for member in content.data.members {
            let field = member.name.text
            // An operation of its own on the same field is meant to come after the value.
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

    /// The fields of an update whose seen value goes along, because their rule merges them with it.
    package static func bases(_ content: MutationContent, seen: JSONObject, rules: EntityRules) -> JSONObject {
        guard content.action == .update, rules.mergesObjects else { return [:] }
        var bases: JSONObject = [:]
        for member in content.data.members where rules.strategy(of: member.name.text) == .merge {
            // Of a first object, every member was added to none: somebody else's first one has others.
            let value = seen[member.name.text] ?? .object([:])
            if value.object != nil, member.value.object != nil { bases[member.name.text] = value }
        }
        return bases
    }

    /// What makes `new` of `old` and commutes with what others do; `nil` where the rule of the field knows no such thing.
    package static func operations(_ rules: EntityRules, _ field: String, from old: JSON?, to new: JSON) -> [FieldOperation]? {
        rules.strategy == .fields ? operations(rules.strategy(of: field), field, from: old, to: new) : nil
    }

    /// - Returns: Operations that make `new` of `old` under this rule, or `nil` when it has none that do.
    static func operations(
        _ strategy: FieldStrategy, _ field: String, from old: JSON?, to new: JSON
    ) -> [FieldOperation]? {
        switch strategy {
        case .lww, .server, .client, .merge, .manual: return nil
        case .counter: return difference(from: old, to: new).map { [FieldOperation(field, .increment, .number($0))] }
        case .append:
            // Of a first text there is nothing to be behind: if somebody else writes one as well, both need a name.
            guard let old, old.text != "", let suffix = suffix(of: new, after: old) else { return nil }
            return [FieldOperation(field, .append, suffix)]
        case .set:
            guard let new = new.array else { return nil }
            switch old {
            // A first set without elements is no difference to none, and there all the same.
            case nil, .null?: return new.isEmpty ? nil : setDifference(from: [], to: new, field)
            case .array(let old)?: return setDifference(from: old, to: new, field)
            default: return nil
            }
        case .max, .min:
            let kind: FieldOperation.Kind = strategy == .max ? .max : .min
            guard old == nil || old?.isNull == true || Fold.extreme(kind, old, new) != nil, isOrdered(new) else { return nil }
            return [FieldOperation(field, kind, new)]
        }
    }

    /// First values of fields that add up as additions to whatever is there.
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

    /// A value as an addition to whatever is there; nothing where the rule of the field knows no such thing.
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
        default: return nil
        }
    }

    /// What `new` has behind `old`, of a text or a list; `nil` when it does not begin with it.
    static func suffix(of new: JSON, after old: JSON) -> JSON? {
        switch (old, new) {
        case (.string(let old), .string(let new)):
            let (before, after) = (old.text, new.text)
            guard after.utf8.starts(with: before.utf8) else { return nil }
            // A combining character must stay with what it combines with: the border is one of scalars in any case.
            return String(after.utf8.dropFirst(before.utf8.count)).map { .string($0) }
        case (.array(let old), .array(let new)):
            guard new.starts(with: old) else { return nil }
            return .array(Array(new.dropFirst(old.count)))
        default: return nil
        }
    }

    /// What must be taken out of a set and put into it. An element whose `id` is there with other content is put in anew.
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
        default: false
        }
    }
}

extension [FieldOperation] {
    /// The same with when they were made.
    func stamped(_ stamp: HybridTime?) -> [FieldOperation] {
        stamp == nil ? self : map { operation in
            var operation = operation
            operation.hlc = stamp
            return operation
        }
    }
}

/// Elements of a set are the same by value; objects with an `id` by their id.
package enum SetElement {
    package static func isSame(_ left: JSON, _ right: JSON) -> Bool { key(left) == key(right) }

    static func key(_ element: JSON) -> JSON {
        element.object?["id"].map { .object(["id": $0]) } ?? element
    }

    /// Each element once, the first of each key; `nil` when they are so.
    static func once(_ elements: [JSON]) -> [JSON]? {
        JSONWork.count(elements.count)
        var keys: Set<JSON> = []
        let once = elements.filter { keys.insert(key($0)).inserted }
        return once.count == elements.count ? nil : once
    }

    /// A name for people: `tags[t-1]` by its `id`, or by itself where it has none, cut to ``placeMax`` characters.
    package static func place(of element: JSON, in field: String) -> String {
        let name = element.object?["id"] ?? element
        return "\(field)[\(String.UnicodeScalarView((name.text ?? name.json).unicodeScalars.prefix(placeMax)))]"
    }

    static let placeMax = 64
}

/// The elements of a set by their key, for many questions about one list.
struct SetIndex {
    private let elements: [JSON: [JSON]]

    /// - Parameter value: Anything but a list is as good as an empty one.
    init(_ value: JSON?) {
        let list = value?.array ?? []
        JSONWork.count(list.count)
        elements = Dictionary(grouping: list) { SetElement.key($0) }
    }

    /// Whether an element with the same key is there.
    func has(_ element: JSON) -> Bool { elements[SetElement.key(element)] != nil }

    /// Whether the same element is there.
    func hasSame(_ element: JSON) -> Bool { elements[SetElement.key(element)]?.contains(element) ?? false }

    func first(_ key: JSON) -> JSON? { elements[key]?.first }

    /// What an addition or a removal does away with that it does not name whole: content that its author need not have seen.
    func displaced(by operation: FieldOperation) -> JSON? {
        guard operation.kind.isOfSet else { return Optional.none }
        let key = SetElement.key(operation.value)
        let named = operation.kind == .remove ? key : operation.value
        return elements[key]?.first { $0 != named }
    }
}
