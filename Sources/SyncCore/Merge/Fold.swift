/// What apps see: the hub's last known document with the open mutations on top, in order.
///
/// It is always computed afresh from its parts, never patched. So undoing a rejected mutation is the same function with
/// one mutation less, and no later edit can be forgotten by it.
package enum Fold {
    /// - Parameters:
    ///   - base: The hub's document; `nil` when the hub has none.
    ///   - mutations: The open ones of this record, oldest first.
    /// - Returns: `nil` when the record does not exist in this view.
    package static func view(base: JSONObject?, mutations: some Sequence<MutationContent>) -> JSONObject? {
        mutations.reduce(base) { apply($1, to: $0) }
    }

    /// One mutation on one document. An update of nothing is nothing: only a create brings a record into being.
    package static func apply(_ mutation: MutationContent, to document: JSONObject?) -> JSONObject? {
        var result: JSONObject
        switch (mutation.action, document) {
        case (.delete, _): return nil
        case (.update, nil): return nil
        case (.create, let existing): result = existing ?? [:]
        case (.update, let existing?): result = existing
        }
        for member in mutation.data.members { result[member.name.text] = member.value }
        for field in mutation.unset { result[field] = nil }
        for operation in mutation.operations {
            result[operation.field] = apply(operation, to: result[operation.field])
        }
        return result
    }

    /// A field operation on the field's present value. A missing or null value counts as the empty one of the kind; where
    /// the types do not fit, the operation leaves the value alone, as the hub does.
    package static func apply(_ operation: FieldOperation, to value: JSON?) -> JSON? {
        // Not `map`: `nil` could mean the JSON null there.
        let present: JSON? = if let value, !value.isNull { value } else { Optional.none }
        switch operation.kind {
        case .append:
            switch (present, operation.value) {
            case (nil, .string), (nil, .array): return operation.value
            case (.string(let old)?, .string(let new)): return .string(JSONString(joining: old, new))
            case (.array(let old)?, .array(let new)): return .array(old + new)
            case (.array(let old)?, let element): return .array(old + [element])
            default: return value
            }
        case .increment:
            guard case .number(let delta) = operation.value else { return value }
            switch present {
            case nil: return operation.value
            case .number(let old)?: return old.adding(delta).map { .number($0) } ?? value
            default: return value
            }
        case .add:
            switch present {
            case nil: return .array([operation.value])
            case .array(let elements)?:
                return elements.contains { sameElement($0, operation.value) } ? value : .array(elements + [operation.value])
            default: return value
            }
        case .remove:
            guard case .array(let elements)? = present else { return value }
            return .array(elements.filter { !sameElement($0, operation.value) })
        case .max, .min:
            guard let old = present else { return operation.value }
            guard let isLess = less(old, operation.value) else { return value }
            return isLess == (operation.kind == .max) ? operation.value : value
        }
    }

    /// Elements of a set are equal by value; objects with an `id` by their id.
    private static func sameElement(_ left: JSON, _ right: JSON) -> Bool {
        if let a = left.object?["id"], let b = right.object?["id"] { return a == b }
        return left == right
    }

    /// Numbers by value, text by its UTF-8; `nil` when the two cannot be compared.
    private static func less(_ left: JSON, _ right: JSON) -> Bool? {
        switch (left, right) {
        case (.number(let a), .number(let b)): a < b
        case (.string(let a), .string(let b)): a.text.utf8.lexicographicallyPrecedes(b.text.utf8)
        default: nil
        }
    }
}
