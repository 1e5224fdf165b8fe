import Testing

@testable import SyncCore

/// The mutation that `agentctl undo` makes of a change, of the values before it, and of the present values.
@Suite("Taking back what the hub has")
struct TakeBackTests {
    struct Example: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var done: MutationContent
        var before: JSONObject?
        var now: JSONObject?
        /// `nil`: nothing to take back.
        var back: MutationContent?
        var left: [String] = []
        var isKept = true
    }

    private static let rules: EntityRules = {
        var rules = EntityRules()
        rules.fields = ["n": .counter, "t": .set, "o": .merge, "hi": .max, "log": .append]
        return rules
    }()

    private static func update(_ data: JSONObject = [:], unset: [String] = [], _ operations: FieldOperation...) -> MutationContent {
        MutationContent(.update, data: data, unset: unset, operations: operations)
    }

    private static func update(_ operations: FieldOperation...) -> MutationContent { MutationContent(.update, operations: operations) }

    private static func op(_ field: String, _ kind: FieldOperation.Kind, _ value: JSON) -> FieldOperation {
        FieldOperation(field, kind, value)
    }

    @Test(
        "Unchanged fields go back, fields that were changed since stay, and each of these says why",
        arguments: [
            Example(
                testDescription: "a value", done: update(["a": 2]), before: ["a": 1, "b": 1], now: ["a": 2, "b": 9], back: update(["a": 1])),
            Example(testDescription: "a new field", done: update(["a": 2]), before: [:], now: ["a": 2], back: update(unset: ["a"])),
            Example(testDescription: "a removed field", done: update(unset: ["a"]), before: ["a": 1], now: [:], back: update(["a": 1])),
            Example(
                testDescription: "a null that was there", done: update(["a": 2]), before: ["a": .null], now: ["a": 2],
                back: update(["a": .null])),
            Example(
                testDescription: "changed since", done: update(["a": 2, "b": 2]), before: ["a": 1, "b": 1], now: ["a": 3, "b": 2],
                back: update(["b": 1]), left: ["a changed-since"]),
            Example(testDescription: "removed since", done: update(["a": 2]), before: ["a": 1], now: ["b": 1], left: ["a changed-since"]),
            Example(testDescription: "what made no difference", done: update(["a": 1]), before: ["a": 1], now: ["a": 1]),
            Example(
                testDescription: "nothing kept", done: update(["a": 2]), before: nil, now: ["a": 2], left: ["a not-kept"], isKept: false),
            Example(
                testDescription: "a counter, without anything kept", done: update(op("n", .increment, 3)), before: nil, now: ["n": 10],
                back: update(op("n", .increment, -3)), isKept: false),
            Example(
                testDescription: "a counter that is no number now", done: update(op("n", .increment, 3)), before: ["n": 1], now: ["n": "x"],
                left: ["n changed-since"]),
            Example(
                testDescription: "an element", done: update(op("t", .add, "x")), before: ["t": ["y"]], now: ["t": ["y", "x", "z"]],
                back: update(op("t", .remove, "x"))),
            Example(
                testDescription: "an element that was there before", done: update(op("t", .add, "x")), before: ["t": ["x"]],
                now: ["t": ["x"]]),
            Example(
                testDescription: "an element that was removed", done: update(op("t", .add, "x")), before: ["t": []], now: ["t": []],
                left: ["t changed-since"]),
            Example(
                testDescription: "an element taken out", done: update(op("t", .remove, "x")), before: ["t": ["x"]], now: ["t": []],
                back: update(op("t", .add, "x"))),
            Example(
                testDescription: "an element, nothing kept", done: update(op("t", .add, "x")), before: nil, now: ["t": ["x"]],
                left: ["t not-kept"], isKept: false),
            Example(
                testDescription: "one way", done: update(["hi": 9], op("log", .append, "x")), before: ["hi": 1, "log": "a"],
                now: ["hi": 9, "log": "ax"], left: ["hi one-way", "log one-way"]),
            Example(
                testDescription: "members of an object", done: update(["o": ["a": 2, "b": 2, "c": 1]]), before: ["o": ["a": 1, "c": 1]],
                now: ["o": ["a": 2, "b": 3, "c": 1, "d": 4]], back: update(["o": ["a": 1, "b": 3, "c": 1, "d": 4]]),
                left: ["o.b changed-since"]),
            Example(
                testDescription: "a record that it made", done: MutationContent(.create, data: ["a": 1]), before: nil, now: ["a": 1],
                back: MutationContent(.delete)),
            Example(
                testDescription: "a record that others have changed", done: MutationContent(.create, data: ["a": 1]), before: nil,
                now: ["a": 1, "b": 2], left: ["b changed-since"]),
            Example(
                testDescription: "a record that is gone", done: MutationContent(.create, data: ["a": 1]), before: nil, now: nil,
                left: [" record"]),
            Example(
                testDescription: "a change of a record that is gone", done: update(["a": 2]), before: ["a": 1], now: nil, left: [" record"]),
            Example(
                testDescription: "a deletion", done: MutationContent(.delete), before: ["a": 1, "b": 2], now: nil,
                back: MutationContent(.create, data: ["a": 1, "b": 2])),
            Example(
                testDescription: "a deletion, nothing kept", done: MutationContent(.delete), before: nil, now: nil, left: [" not-kept"],
                isKept: false),
            Example(
                testDescription: "a deletion of what is there again", done: MutationContent(.delete), before: ["a": 1], now: ["a": 3],
                left: [" record"]),
        ])
    func examples(_ example: Example) throws {
        var earlier: EarlierValues?
        if example.isKept, example.before != nil {
            earlier = EarlierValues(of: example.done, before: example.before)
            // The stored form reads as the same.
            #expect(EarlierValues(try #require(earlier).json) == earlier)
        }
        let undo = Undo(example.done, earlier: earlier, now: example.now, rules: Self.rules)
        #expect(undo.content == example.back)
        #expect(undo.left.map { "\($0.field) \($0.reason.rawValue)" } == example.left)
    }

    @Test("Changes that became one mutation are taken back together, to before the first of them")
    func joined() {
        var earlier = EarlierValues(of: Self.update(["a": 2, "x": 1]), before: ["a": 1, "b": 1])
        earlier.join(Self.update(["a": 3, "b": 3]), before: ["a": 2, "x": 1, "b": 1])
        let both = Self.update(["a": 3, "x": 1, "b": 3])
        #expect(
            Undo(both, earlier: earlier, now: ["a": 3, "x": 1, "b": 3], rules: Self.rules).content
                == Self.update(["a": 1, "b": 1], unset: ["x"]))
        earlier.join(MutationContent(.delete), before: ["a": 3, "x": 1, "b": 3, "c": 7])
        #expect(
            Undo(MutationContent(.delete), earlier: earlier, now: nil, rules: Self.rules).content
                == MutationContent(.create, data: ["a": 1, "b": 1, "c": 7]))
    }
}
