import SyncCore
import Testing

@Suite("Fold: base and open mutations make the view")
struct FoldTests {
    struct Example: Sendable {
        var base: JSONObject?
        var mutations: [MutationContent]
        var view: JSONObject?
    }

    @Test(
        "Mutations apply in their order, each on what the ones before it left",
        arguments: [
            Example(base: nil, mutations: [], view: nil),
            Example(base: ["a": 1], mutations: [], view: ["a": 1]),
            Example(base: nil, mutations: [MutationContent(.create, data: ["a": 1])], view: ["a": 1]),
            Example(base: nil, mutations: [MutationContent(.update, data: ["a": 1])], view: nil),
            Example(base: ["a": 1], mutations: [MutationContent(.update, data: ["b": 2])], view: ["a": 1, "b": 2]),
            Example(base: ["a": 1, "b": 2], mutations: [MutationContent(.update, unset: ["a", "x"])], view: ["b": 2]),
            Example(base: ["a": 1], mutations: [MutationContent(.delete)], view: nil),
            Example(
                base: ["a": 1], mutations: [MutationContent(.delete), MutationContent(.create, data: ["b": 2])],
                view: ["b": 2]),
            Example(
                base: ["a": 1], mutations: [MutationContent(.delete), MutationContent(.update, data: ["b": 2])],
                view: nil),
            Example(
                base: nil,
                mutations: [
                    MutationContent(.create, data: ["n": 1]), MutationContent(.update, data: ["n": 5]),
                    MutationContent(.update, operations: [FieldOperation("n", .increment, 2)]),
                ], view: ["n": 7]),
            // A create over what the hub has meanwhile: field by field, as the hub merges it.
            Example(base: ["a": 1, "b": 1], mutations: [MutationContent(.create, data: ["b": 2])], view: ["a": 1, "b": 2]),
        ])
    func folds(_ example: Example) {
        #expect(Fold.view(base: example.base, mutations: example.mutations) == example.view)
    }

    @Test("Leaving one mutation out gives the view as if it had never been: that is the rollback")
    func rollback() {
        let base: JSONObject = ["s": "old", "n": 1]
        let refused = MutationContent(.update, data: ["s": "refused"], operations: [FieldOperation("n", .increment, 100)])
        let later = MutationContent(.update, operations: [FieldOperation("n", .increment, 1)])
        #expect(Fold.view(base: base, mutations: [refused, later]) == ["s": "refused", "n": 102])
        #expect(Fold.view(base: base, mutations: [later]) == ["s": "old", "n": 2])
    }

    struct OperationCase: Sendable {
        var kind: FieldOperation.Kind
        var old: JSON?
        var value: JSON
        var result: JSON?

        init(_ kind: FieldOperation.Kind, _ old: JSON?, _ value: JSON, _ result: JSON?) {
            self.kind = kind
            self.old = old
            self.value = value
            self.result = result
        }
    }

    @Test(
        "Each operation does its one thing, starts from nothing or null, and leaves a value of another type alone",
        arguments: [
            OperationCase(.append, nil, "x", "x"),
            OperationCase(.append, .null, ["x"], ["x"]),
            OperationCase(.append, "a", "b", "ab"),
            OperationCase(.append, ["a"], ["b", "c"], ["a", "b", "c"]),
            OperationCase(.append, ["a"], "b", ["a", "b"]),
            OperationCase(.append, nil, 1, nil),
            OperationCase(.append, 1, "b", 1),
            OperationCase(.append, "a", ["b"], "a"),
            OperationCase(.increment, nil, 2, 2),
            OperationCase(.increment, .null, -2, -2),
            OperationCase(.increment, 9_007_199_254_740_993, 1, 9_007_199_254_740_994),
            OperationCase(.increment, "1", 1, "1"),
            OperationCase(.increment, 1, "1", 1),
            OperationCase(.add, nil, "x", ["x"]),
            OperationCase(.add, ["x"], "x", ["x"]),
            OperationCase(.add, ["x"], "y", ["x", "y"]),
            OperationCase(.add, [["id": 1, "n": "a"], 7], ["id": 1, "n": "b"], [["id": 1, "n": "b"], 7]),
            OperationCase(.add, "x", "y", "x"),
            OperationCase(.remove, ["x", "y"], "x", ["y"]),
            OperationCase(.remove, [["id": 1, "n": "a"], ["id": 2]], ["id": 1], [["id": 2]]),
            OperationCase(.remove, nil, "x", nil),
            OperationCase(.remove, "x", "x", "x"),
            OperationCase(.max, nil, 1, 1),
            OperationCase(.max, 2, 10, 10),
            OperationCase(.max, 10, 2, 10),
            OperationCase(.max, "a", "b", "b"),
            OperationCase(.max, "a", 1, "a"),
            OperationCase(.min, 2, 10, 2),
            OperationCase(.min, 10, 2, 2),
            OperationCase(.min, 10, 10, 10),
        ])
    func operations(_ example: OperationCase) {
        let operation = FieldOperation("f", example.kind, example.value)
        #expect(Fold.apply(operation, to: example.old) == example.result)
        let base: JSONObject = ["other": 1]
        var present = base
        present["f"] = example.old
        var expected = base
        expected["f"] = example.result
        #expect(Fold.apply(MutationContent(.update, operations: [operation]), to: present) == expected)
    }

    @Test("A sum is exact where Double is not")
    func exactSum() {
        var document: JSONObject? = ["n": 0]
        let tenth = (try? JSONReader.read("0.1")) ?? .null
        for _ in 0..<10 {
            document = Fold.apply(MutationContent(.update, operations: [FieldOperation("n", .increment, tenth)]), to: document)
        }
        #expect(document?.json == #"{"n":1}"#)
    }
}
