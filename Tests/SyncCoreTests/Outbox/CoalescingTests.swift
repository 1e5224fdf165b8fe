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

    @Test(
        "Each rule, and each way in which two stay two",
        arguments: [
            Case(
                rule: "create and update: one create", older: MutationContent(.create, data: ["a": 1]),
                newer: MutationContent(.update, data: ["b": 2]), outcome: .one(MutationContent(.create, data: ["a": 1, "b": 2]))),
            Case(
                rule: "an object that a create made and an update changes", older: MutationContent(.create, data: ["o": ["a": 1]]),
                newer: MutationContent(.update, data: ["o": ["a": 1, "b": 2]], base: ["o": ["a": 1]]),
                outcome: .one(MutationContent(.create, data: ["o": ["a": 1, "b": 2]]))),
            Case(
                rule: "what others have put into an object does not become the create's own",
                older: MutationContent(.create, data: ["a": 1]),
                newer: MutationContent(.update, data: ["o": ["x": 1, "b": 2]], base: ["o": ["x": 1]]), outcome: nil),
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
                rule: "the removed member was unseen", older: MutationContent(.update, data: ["o": ["a": 2]], base: ["o": ["a": 1]]),
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

    // MARK: Stamps

    @Test("The rest of the older edit keeps its stamp; fields of the newer one have that of the whole")
    func stamps() throws {
        let nine = MergeCase.stamp(9, MergeCase.mine), noon = MergeCase.stamp(12, MergeCase.mine)
        let older = MutationContent(
            .update, data: ["l": 1, "k": 1], unset: ["u"], operations: [FieldOperation("s", .add, "x"), FieldOperation("n", .increment, 1)])
        let newer = MutationContent(
            .update, data: ["k": 2], operations: [FieldOperation("n", .increment, 2), FieldOperation("s", .add, "y")])
        guard case .one(let two)? = Coalescing.merge(older, newer, stamp: nine) else { throw TestFailure() }
        #expect(two.stamps == [JSONString("l"): nine, JSONString("u"): nine])
        #expect(two.operations.map(\.hlc) == [nine, nil, nil])
        // One more: each part keeps its own.
        guard case .one(let three)? = Coalescing.merge(two, MutationContent(.update, data: ["u": 1]), stamp: noon) else {
            throw TestFailure()
        }
        #expect(three.stamps == [JSONString("l"): nine, JSONString("k"): noon])
        #expect(three.operations.map(\.hlc) == [nine, noon, noon])
        #expect(three.hasParts && !newer.hasParts)
    }

    struct TestFailure: Error {}

    /// Returns the relevant facts of a record: its values, and the time and writer of each.
    private static func outcome(_ record: VersionedRecord) -> String {
        func unordered(_ value: JSON) -> String {
            if let list = value.array { return list.map { unordered($0) }.sorted().joined(separator: ",") }
            return value.json
        }
        let values = (record.data?.members ?? []).map { "\($0.name.text)=\(unordered($0.value))" }
        let stamps = record.stamps.map { "\($0.key.text) \($0.value.hlc) \($0.value.writer)" }
        let elements = record.additions.flatMap { field, all in
            all.map { "\(field.text)[\($0.key.json)] \($0.value.hlc) \($0.value.writer)" }
        }
        return (values.sorted() + stamps.sorted() + elements.sorted()).joined(separator: "\n")
    }

    @Test("At the hub, two edits come to the same as one that is made of them, wherever another device's change stands between them")
    func sameAtHub() {
        let fields = ["lww", "server", "client", "count", "tags", "parts", "peak", "low"]
        var looked = 0
        for seed in 0..<3_000 as Range<UInt64> {
            var example = MergeCase(seed: seed, fields: fields, isOdd: false)
            let first = example.changed(by: "l") { $0 == "lww" }, second = example.changed(by: "m", since: first) { $0 == "lww" }
            let theirs = example.changed(by: "r") { $0 == "lww" }
            let (early, late) = (UInt64(10), UInt64(20)), between = UInt64([5, 15, 25][example.number(3)])
            let older = example.content(first, isPlain: false), newer = example.content(second, since: first)
            guard case .one(let joined)? = Coalescing.merge(older, newer, stamp: MergeCase.stamp(early, MergeCase.mine)) else { continue }
            let other = (MergeCase.other, example.content(theirs, isPlain: false), between)
            let two = [(MergeCase.mine, older, early), (MergeCase.mine, newer, late)], one = [(MergeCase.mine, joined, late)]
            func arrive(_ order: [(DeviceID, MutationContent, UInt64)]) -> String? {
                var record = example.record
                for (index, next) in order.enumerated() {
                    let outcome = example.push(next.1, by: next.0, onto: record, ms: next.2, commit: Int64(2 + index))
                    guard case .accepted(let accepted) = outcome else { return nil }
                    record = accepted.record ?? record
                }
                return Self.outcome(record)
            }
            for (apart, together) in [(two + [other], one + [other]), ([other] + two, [other] + one)] {
                guard let expected = arrive(apart), let found = arrive(together) else { continue }
                looked += 1
                guard expected == found else {
                    Issue.record(
                        """
                        \(example), theirs at \(between)\(apart[0].0 == MergeCase.other ? ", first" : "")
                        older  \(older.line)
                        newer  \(newer.line)
                        joined \(joined.line)
                        theirs \(other.1.line)
                        two:\n\(expected)
                        one:\n\(found)
                        """)
                    return
                }
            }
        }
        #expect(looked > 3_000)
    }
}
