/// The view that apps see: the hub's last known document with the open mutations applied in order.
///
/// It is always computed from its parts and never patched. To undo a rejected mutation, the same function runs without it, so no later edit
/// can be forgotten.
package enum Fold {
    /// - Parameters:
    ///   - base: The hub's document; `nil` when the hub has none.
    ///   - mutations: The open mutations of this record, oldest first.
    /// - Returns: `nil` when the record does not exist in this view.
    package static func view(base: JSONObject?, mutations: some Sequence<MutationContent>) -> JSONObject? {
        mutations.reduce(base) { apply($1, to: $0) }
    }

    /// Applies one mutation to one document. An update without a document has no effect: only a create makes a record.
    package static func apply(_ mutation: MutationContent, to document: JSONObject?) -> JSONObject? {
        var result: JSONObject
        switch (mutation.action, document) {
        case (.delete, _): return nil
        case (.update, nil): return nil
        case (.create, let existing): result = existing ?? [:]
        case (.update, let existing?): result = existing
        }
        for member in mutation.data.members {
            let field = member.name.text
            result[field] = merged(member.value, onto: result[field], base: mutation.base[field]) ?? member.value
        }
        for field in mutation.unset { result[field] = nil }
        if mutation.operations.isEmpty { return result }
        var fold = DocumentFold(result)
        for operation in mutation.operations { fold.apply(operation) }
        return fold.result
    }

    /// Applies a value that was changed member by member to the present value in the same way. The local value wins a contest, because a
    /// reader of this view expects what was written here.
    private static func merged(_ value: JSON, onto present: JSON?, base: JSON?) -> JSON? {
        guard let base, base != present, let mine = value.object, let theirs = present?.object, let known = base.object else {
            return nil
        }
        let nobody = FieldContest.Signature(
            device: DeviceID(trusted: "-"), at: Timestamp(milliseconds: 0), key: MutationKey(trusted: "-"))
        let contest = FieldContest(EntityRules(), "", localIsLater: true, signature: nobody)
        return switch ThreeWay(contest: contest).merge(base: known, local: mine, remote: theirs).outcome {
        case .both(let united): united
        case .remote: present
        case .local, .undecided: nil
        }
    }

    /// Applies a field operation to the field's present value. A missing or null value counts as the empty one of the kind. Where the types
    /// do not fit, the operation leaves the value alone, as the hub does. A list is appended element by element; a list that is to become
    /// one element is wrapped in another list.
    ///
    /// - Parameter replaces: `true` when an element of a set replaces one with the same `id`.
    package static func apply(_ operation: FieldOperation, to value: JSON?, replaces: Bool = true) -> JSON? {
        // `map` would not do: `nil` could mean JSON null here.
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
            case .null?, .bool?, .string?, .array?, .object?: return value
            }
        case .add:
            switch present {
            case nil: return .array([operation.value])
            case .array(let elements)?:
                let key = SetElement.key(operation.value)
                guard let place = elements.firstIndex(where: { SetElement.key($0) == key }) else {
                    return .array(elements + [operation.value])
                }
                guard replaces, elements[place] != operation.value else { return value }
                var changed = elements
                changed[place] = operation.value
                return .array(changed)
            case .null?, .bool?, .number?, .string?, .object?: return value
            }
        case .remove:
            guard case .array(let elements)? = present else { return value }
            let key = SetElement.key(operation.value)
            return .array(elements.filter { SetElement.key($0) != key })
        case .max, .min:
            guard let old = present else { return operation.value }
            return extreme(operation.kind, old, operation.value) ?? value
        }
    }

    /// The first operation that does not fit the document as the operations before it have changed it.
    package static func firstMisfit(of operations: [FieldOperation], on document: JSONObject) -> (index: Int, found: JSON?)? {
        var fold = DocumentFold(document)
        for (index, operation) in operations.enumerated() {
            let field = fold.field(of: operation)
            guard field.fits(operation) else { return (index, field.value) }
            fold.apply(operation)
        }
        return nil
    }

    /// The values that a change did not raise or lower with `max` or `min`, because the present value is higher or lower. They are named as
    /// in the operation.
    ///
    /// - Parameter document: The document that the change is made on.
    package static func kept(by mutation: MutationContent, on document: JSONObject) -> JSONObject {
        guard mutation.operations.contains(where: { $0.kind == .max || $0.kind == .min }) else { return [:] }
        var without = mutation
        without.operations = []
        var fold = DocumentFold(apply(without, to: document) ?? [:])
        for operation in mutation.operations { fold.apply(operation) }
        return fold.kept
    }

    /// The reason why an operation cannot change the value that it finds, for people.
    package static func misfitDetail(_ operation: FieldOperation, _ found: JSON?) -> String {
        if operation.kind == .increment, case .number(let old)? = found, case .number(let delta) = operation.value,
            let digits = old.digitsOfSum(with: delta)
        {
            return "the sum of what \(operation.field) holds and of what is to be added would have \(digits) digits, the limit is "
                + "\(JSONNumber.sumDigitsMax)"
        }
        return "\(operation.field) holds \(found?.kind ?? "nothing"), which \(operation.kind.rawValue) of \(operation.value.kind) "
            + "cannot change"
    }

    /// Returns whether an operation can change a value. An operation that does not fit would be lost silently.
    package static func fits(_ operation: FieldOperation, _ value: JSON?) -> Bool {
        let present: JSON? = if let value, !value.isNull { value } else { Optional.none }
        switch operation.kind {
        case .append:
            switch (present, operation.value) {
            case (nil, .string), (nil, .array), (.string?, .string), (.array?, _): return true
            default: return false
            }
        case .increment:
            guard case .number(let delta) = operation.value else { return false }
            switch present {
            case nil: return true
            case .number(let old)?: return old.adding(delta) != nil
            case .null?, .bool?, .string?, .array?, .object?: return false
            }
        case .add, .remove: return present == nil || present?.array != nil
        case .max, .min: return present == nil || extreme(operation.kind, present, operation.value) != nil
        }
    }

    /// The greater or smaller of two values, the first one if they are equal; `nil` when they cannot be compared.
    static func extreme(_ kind: FieldOperation.Kind, _ first: JSON?, _ second: JSON?) -> JSON? {
        guard let first, let second else { return nil }
        guard let isLess = less(first, second) else { return nil }
        if first == second { return first }
        return isLess == (kind == .max) ? second : first
    }

    /// Compares numbers by value and text by its UTF-8; `nil` when the two cannot be compared.
    private static func less(_ left: JSON, _ right: JSON) -> Bool? {
        switch (left, right) {
        case (.number(let a), .number(let b)): a < b
        case (.string(let a), .string(let b)): precedesInBytes(a.text, b.text)
        default: nil
        }
    }
}
