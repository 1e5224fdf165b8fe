// What a document was before a change that it has already. Wanted for a document of a history of the hub that is over: the change
// goes again there, and must be told from what it rests on.

extension Fold {
    /// What was there before a change, as far as the change tells: a value that it wrote over is known where it says so
    /// (``MutationContent/base``), and absent otherwise, so that nothing there passes for seen.
    ///
    /// - Parameter document: With the change, and without what came after it.
    package static func undo(_ mutation: MutationContent, in document: JSONObject) -> JSONObject {
        if mutation.action == .create { return mutation.base }
        var result = document
        for operation in mutation.operations.reversed() where operation.path.isEmpty {
            result[operation.field] = undo(operation, in: result[operation.field])
        }
        var members = DocumentFold(result)
        for operation in mutation.operations.reversed() where !operation.path.isEmpty {
            // Of members only counts are undone; what else an operation does to them comes to the same when it is done again.
            guard operation.kind == .increment, case .number(let delta) = operation.value else { continue }
            var opposite = operation
            opposite.value = .number(delta.negated)
            members.apply(opposite)
        }
        result = members.result
        for field in mutation.data.names + mutation.unset { result[field] = mutation.base[field] }
        return result
    }

    private static func undo(_ operation: FieldOperation, in value: JSON?) -> JSON? {
        switch (operation.kind, value, operation.value) {
        case (.increment, .number(let sum)?, .number(let delta)): return sum.adding(delta.negated).map { .number($0) } ?? value
        case (.append, .string(let text)?, .string(let end)) where text.source.hasSuffix(end.source):
            return .string(JSONString(validSource: String(text.source.dropLast(end.source.count))))
        case (.append, .array(let list)?, let end):
            let added = end.array ?? [end]
            return Array(list.suffix(added.count)) == added ? .array(Array(list.dropLast(added.count))) : value
        case (.add, _, _): return apply(FieldOperation(operation.field, .remove, operation.value), to: value)
        case (.remove, _, _): return apply(FieldOperation(operation.field, .add, operation.value), to: value)
        // Where another value is there, that one was more before as well.
        case (.max, _, _), (.min, _, _): return value == operation.value ? Optional.none : value
        default: return value
        }
    }
}
