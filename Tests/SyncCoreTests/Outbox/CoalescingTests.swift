import SyncCore
import Testing

/// PROTOCOL C6: two mutations of a record made into one.
@Suite("Coalescing")
struct CoalescingTests {
    struct Case: CustomTestStringConvertible, Sendable {
        var rule: String
        var older: MutationContent
        var newer: MutationContent
        /// `nil`: they stay two.
        var outcome: Coalescing.Outcome?

        var testDescription: String { rule }
    }

    private static func operations(_ list: FieldOperation...) -> MutationContent { MutationContent(.update, operations: list) }

    @Test("Each rule, and each way in which two stay two", arguments: [
        Case(
            rule: "create and update: one create", older: MutationContent(.create, data: ["a": 1]),
            newer: MutationContent(.update, data: ["b": 2]), outcome: .one(MutationContent(.create, data: ["a": 1, "b": 2]))),
        Case(
            rule: "update and update: the later value", older: MutationContent(.update, data: ["a": 1, "b": 1]),
            newer: MutationContent(.update, data: ["a": 2]), outcome: .one(MutationContent(.update, data: ["a": 2, "b": 1]))),
        Case(
            rule: "update and delete: delete", older: MutationContent(.update, data: ["a": 1]), newer: MutationContent(.delete),
            outcome: .one(MutationContent(.delete))),
        Case(
            rule: "create and delete: nothing is left", older: MutationContent(.create, data: ["a": 1]),
            newer: MutationContent(.delete), outcome: .nothing),
        Case(
            rule: "delete and create stay two", older: MutationContent(.delete), newer: MutationContent(.create, data: ["a": 1]),
            outcome: nil),
        Case(rule: "delete and delete stay two", older: MutationContent(.delete), newer: MutationContent(.delete), outcome: nil),
        Case(
            rule: "update and create stay two", older: MutationContent(.update, data: ["a": 1]),
            newer: MutationContent(.create, data: ["a": 2]), outcome: nil),
        Case(
            rule: "what was set is removed", older: MutationContent(.update, data: ["a": 1, "b": 1]),
            newer: MutationContent(.update, unset: ["a"]), outcome: .one(MutationContent(.update, data: ["b": 1], unset: ["a"]))),
        Case(
            rule: "what was removed is set", older: MutationContent(.update, unset: ["a"]),
            newer: MutationContent(.update, data: ["a": 1]), outcome: .one(MutationContent(.update, data: ["a": 1]))),
        Case(
            rule: "what was seen is what the older one saw",
            older: MutationContent(.update, data: ["o": ["a": 2]], base: ["o": ["a": 1]]),
            newer: MutationContent(.update, data: ["o": ["a": 2, "b": 3]], base: ["o": ["a": 2]]),
            outcome: .one(MutationContent(.update, data: ["o": ["a": 2, "b": 3]], base: ["o": ["a": 1]]))),
        Case(
            rule: "what only the newer one touches, it saw", older: MutationContent(.update, data: ["a": 1]),
            newer: MutationContent(.update, data: ["o": ["a": 2]], base: ["o": ["a": 1]]),
            outcome: .one(MutationContent(.update, data: ["a": 1, "o": ["a": 2]], base: ["o": ["a": 1]]))),
        Case(
            rule: "what the older one made anew, the newer one did not see at the hub",
            older: MutationContent(.update, data: ["o": ["a": 2]]),
            newer: MutationContent(.update, data: ["o": ["a": 3]], base: ["o": ["a": 2]]),
            outcome: .one(MutationContent(.update, data: ["o": ["a": 3]]))),
        Case(
            rule: "what is removed was seen by nobody", older: MutationContent(.update, data: ["o": ["a": 2]], base: ["o": ["a": 1]]),
            newer: MutationContent(.update, unset: ["o"]), outcome: .one(MutationContent(.update, unset: ["o"]))),
        Case(
            rule: "inc adds up", older: operations(FieldOperation("n", .increment, 2)),
            newer: operations(FieldOperation("n", .increment, -5)), outcome: .one(operations(FieldOperation("n", .increment, -3)))),
        Case(
            rule: "inc of different fields stay two operations", older: operations(FieldOperation("n", .increment, 1)),
            newer: operations(FieldOperation("m", .increment, 1)),
            outcome: .one(operations(FieldOperation("n", .increment, 1), FieldOperation("m", .increment, 1)))),
        Case(
            rule: "appended lists are joined", older: operations(FieldOperation("l", .append, ["a"])),
            newer: operations(FieldOperation("l", .append, ["b", "c"])),
            outcome: .one(operations(FieldOperation("l", .append, ["a", "b", "c"])))),
        Case(
            rule: "appended text stays in its pieces", older: operations(FieldOperation("t", .append, "a")),
            newer: operations(FieldOperation("t", .append, "b")),
            outcome: .one(operations(FieldOperation("t", .append, "a"), FieldOperation("t", .append, "b")))),
        Case(
            rule: "an element is added once", older: operations(FieldOperation("s", .add, "x")),
            newer: operations(FieldOperation("s", .add, "x")), outcome: .one(operations(FieldOperation("s", .add, "x")))),
        Case(
            rule: "adding and removing stay in their order", older: operations(FieldOperation("s", .add, "x")),
            newer: operations(FieldOperation("s", .remove, "x")),
            outcome: .one(operations(FieldOperation("s", .add, "x"), FieldOperation("s", .remove, "x")))),
        Case(
            rule: "the greater maximum", older: operations(FieldOperation("p", .max, 7)),
            newer: operations(FieldOperation("p", .max, 3)), outcome: .one(operations(FieldOperation("p", .max, 7)))),
        Case(
            rule: "the lesser minimum", older: operations(FieldOperation("p", .min, 7)),
            newer: operations(FieldOperation("p", .min, 3)), outcome: .one(operations(FieldOperation("p", .min, 3)))),
        Case(
            rule: "extrema that cannot be compared stay two", older: operations(FieldOperation("p", .max, 7)),
            newer: operations(FieldOperation("p", .max, "z")),
            outcome: .one(operations(FieldOperation("p", .max, 7), FieldOperation("p", .max, "z")))),
        Case(
            rule: "setting a field ends what operated on it", older: operations(FieldOperation("n", .increment, 1)),
            newer: MutationContent(.update, data: ["n": 9]), outcome: .one(MutationContent(.update, data: ["n": 9]))),
        Case(
            rule: "operating on a field that was set", older: MutationContent(.update, data: ["n": 9]),
            newer: operations(FieldOperation("n", .increment, 1)),
            outcome: .one(MutationContent(.update, data: ["n": 9], operations: [FieldOperation("n", .increment, 1)]))),
    ])
    func rules(_ example: Case) {
        #expect(Coalescing.merge(example.older, example.newer) == example.outcome)
    }

    @Test("One does to any document what the two do one after the other", arguments: 0..<40)
    func sameEffect(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        func pick<Value>(_ values: [Value]) -> Value { values[Int.random(in: 0..<values.count, using: &random)] }
        let values: [JSON] = [1, -7, "a", "b", .null, ["a"], ["b", "c"], true, ["id": 1], [["id": 1], "a"]]
        let fields = ["f", "g", "h"]
        func content(_ action: MutationAction) -> MutationContent {
            var content = MutationContent(action)
            for field in fields where Bool.random(using: &random) {
                switch Int.random(in: 0..<4, using: &random) {
                case 0: content.data[field] = pick(values)
                case 1: content.unset.append(field)
                default:
                    for _ in 0..<Int.random(in: 1...3, using: &random) {
                        content.operations.append(FieldOperation(field, pick(FieldOperation.Kind.allCases), pick(values)))
                    }
                }
            }
            return content
        }
        for _ in 0..<200 {
            let older = content(pick([.create, .update])), newer = content(.update)
            guard case .one(let merged)? = Coalescing.merge(older, newer) else {
                Issue.record("an update goes into a \(older.action)")
                return
            }
            var document = JSONObject()
            for field in fields where Bool.random(using: &random) { document[field] = pick(values) }
            for start in [document, older.action == .create ? nil : document] {
                #expect(
                    Fold.apply(merged, to: start) == Fold.apply(newer, to: Fold.apply(older, to: start)),
                    "\(older) and \(newer) on \(document.json)")
            }
        }
    }
}
