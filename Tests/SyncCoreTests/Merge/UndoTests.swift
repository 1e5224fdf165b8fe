import Testing

@testable import SyncCore

@Suite("Undoing a change in a document that has it")
struct UndoTests {
    struct Example: Sendable, CustomTestStringConvertible {
        var what: String
        var change: MutationContent
        var document: JSONObject
        var before: JSONObject
        /// The result of the change on top of `before`; `nil`: the document.
        var again: JSONObject?

        var testDescription: String { what }
    }

    private static func member(_ kind: FieldOperation.Kind, _ value: JSON) -> FieldOperation {
        var operation = FieldOperation("o.n", kind, value)
        operation.path = ["o", "n"]
        return operation
    }

    static let examples: [Example] = [
        Example(
            what: "a value whose predecessor is not known was absent",
            change: MutationContent(.update, data: ["m": "mine"]), document: ["m": "mine", "t": 1], before: ["t": 1]),
        Example(
            what: "a value says what it was made of", change: MutationContent(.update, data: ["o": ["a": 2]], base: ["o": ["a": 1]]),
            document: ["o": ["a": 2]], before: ["o": ["a": 1]]),
        Example(
            what: "a removal says what it removed, or was of nothing", change: MutationContent(.update, unset: ["m", "k"], base: ["m": 1]),
            document: ["t": 1], before: ["t": 1, "m": 1], again: ["t": 1]),
        Example(
            what: "a count", change: MutationContent(.update, operations: [FieldOperation("n", .increment, -2)]), document: ["n": 3],
            before: ["n": 5]),
        Example(
            what: "a count of a member", change: MutationContent(.update, operations: [member(.increment, 2)]),
            document: ["o": ["n": 3, "k": 1]], before: ["o": ["n": 1, "k": 1]]),
        Example(
            what: "what was put at the end of a member",
            change: MutationContent(.update, operations: [member(.append, "b")]), document: ["o": ["n": "ab", "k": 1]],
            before: ["o": ["n": "a", "k": 1]]),
        Example(
            what: "a member that another device has removed",
            change: MutationContent(.update, operations: [member(.increment, 2)]), document: ["o": ["k": 1]], before: ["o": ["k": 1]],
            again: ["o": ["k": 1, "n": 2]]),
        Example(
            what: "what was put at the end of a text and of a list",
            change: MutationContent(
                .update,
                operations: [
                    FieldOperation("s", .append, "b"), FieldOperation("l", .append, ["x", "y"]), FieldOperation("l", .append, "z"),
                ]),
            document: ["s": "ab", "l": ["w", "x", "y", "z"]], before: ["s": "a", "l": ["w"]]),
        Example(
            what: "what was put at the end and has more behind it since",
            change: MutationContent(.update, operations: [FieldOperation("s", .append, "ab"), FieldOperation("l", .append, ["x", "y"])]),
            document: ["s": "aababc", "l": ["x", "y", "x", "x", "y", "z"]], before: ["s": "aabc", "l": ["x", "y", "x", "z"]],
            again: ["s": "aabcab", "l": ["x", "y", "x", "z", "x", "y"]]),
        Example(
            what: "an end in the middle of an escape is none",
            change: MutationContent(.update, operations: [FieldOperation("s", .append, "n")]), document: ["s": "n\n"], before: ["s": "\n"],
            again: ["s": "\nn"]),
        Example(
            what: "an end that another device has removed",
            change: MutationContent(.update, operations: [FieldOperation("s", .append, "b"), FieldOperation("l", .append, ["x"])]),
            document: ["s": "ac", "l": ["y"]], before: ["s": "ac", "l": ["y"]], again: ["s": "acb", "l": ["y", "x"]]),
        Example(
            what: "what comes to the same when it is done again stays",
            change: MutationContent(
                .update,
                operations: [
                    FieldOperation("t", .add, "red"), FieldOperation("t", .remove, "blue"), FieldOperation("p", .max, 7),
                    FieldOperation("q", .min, 7),
                ]),
            document: ["t": ["green", "red"], "p": 7, "q": 5], before: ["t": ["green", "red"], "p": 7, "q": 5]),
        Example(
            what: "before a creation there was what it says, or nothing", change: MutationContent(.create, data: ["n": 1]),
            document: ["n": 1],
            before: [:]),
    ]

    @Test("The former values are found, and the change on top of them gives the same document", arguments: examples)
    func undone(_ example: Example) {
        let before = Fold.undo(example.change, in: example.document)
        #expect(before == example.before)
        #expect(Fold.apply(example.change, to: before) == example.again ?? example.document)
    }
}
