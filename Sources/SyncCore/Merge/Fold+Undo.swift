// Reconstructs a document as it was before a change. After the hub's history has ended, a document contains changes that are offered to the
// hub again, and each of them needs the base that it was made on.

extension Fold {
    /// The document before a change, as far as the change tells. An overwritten value is known where the change carries it
    /// (``MutationContent/base``). Otherwise the field is absent, so that no value passes for one that was seen. Only the operations that
    /// would count twice when repeated are undone: `increment` and `append`.
    ///
    /// - Parameter document: The document with the change. Later changes in it stay.
    package static func undo(_ mutation: MutationContent, in document: JSONObject) -> JSONObject {
        if mutation.action == .create { return mutation.base }
        var result = document
        for operation in mutation.operations.reversed() {
            guard let value = operation.target(in: result) else { continue }
            let before = undo(operation, in: value)
            if operation.path.isEmpty {
                result[operation.field] = before
            } else {
                result = result.setting([(operation.path[...], before)])
            }
        }
        for field in mutation.data.names + mutation.unset { result[field] = mutation.base[field] }
        return result
    }

    /// The list without the last occurrence of `part`: other devices may have appended more since.
    private static func withoutLast<Element: Equatable>(_ part: [Element], in whole: [Element]) -> [Element] {
        guard !part.isEmpty, part.count <= whole.count else { return whole }
        let wanted = Array(part.reversed())
        // Length of the longest prefix of `wanted` that ends at each of its places (Knuth, Morris and Pratt), so that the time is linear.
        var borders = [Int](repeating: 0, count: wanted.count)
        var matched = 0
        for place in wanted.indices.dropFirst() {
            while matched > 0, wanted[place] != wanted[matched] { matched = borders[matched - 1] }
            if wanted[place] == wanted[matched] { matched += 1 }
            borders[place] = matched
        }
        matched = 0
        for place in whole.indices.reversed() {
            while matched > 0, whole[place] != wanted[matched] { matched = borders[matched - 1] }
            if whole[place] == wanted[matched] { matched += 1 }
            if matched == wanted.count { return Array(whole[..<place] + whole[(place + matched)...]) }
        }
        return whole
    }

    private static func undo(_ operation: FieldOperation, in value: JSON) -> JSON {
        switch (operation.kind, value, operation.value) {
        case (.increment, .number(let sum), .number(let delta)): return sum.adding(delta.negated).map { .number($0) } ?? value
        case (.append, .string(let text), .string(let end)):
            return .string(JSONString(String(decoding: withoutLast(Array(end.text.utf8), in: Array(text.text.utf8)), as: UTF8.self)))
        case (.append, .array(let list), let end): return .array(withoutLast(end.array ?? [end], in: list))
        case (.increment, _, _), (.append, _, _), (.add, _, _), (.remove, _, _), (.max, _, _), (.min, _, _): return value
        }
    }
}
