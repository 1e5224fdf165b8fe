// What a document was before a change that it has already. A document of a history of the hub that is over has changes which are
// offered again to the hub: each of them must be told from what it rests on.

extension Fold {
    /// What was there before a change, as far as the change tells. A value that it wrote over is known where the change says so
    /// (``MutationContent/base``), and absent otherwise, so that nothing there passes for seen. Of the operations those are undone
    /// that would count twice when they are done again: `increment` and `append`.
    ///
    /// - Parameter document: With the change. What was changed later stays.
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

    /// Without the last place where `part` stands: others may have put more behind it since.
    private static func withoutLast<Element: Equatable>(_ part: [Element], in whole: [Element]) -> [Element] {
        guard !part.isEmpty, part.count <= whole.count else { return whole }
        let wanted = Array(part.reversed())
        // How much of the beginning of `wanted` ends at each place of it (Knuth, Morris and Pratt), so that the time is linear.
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
        default: return value
        }
    }
}
