import SyncCore
import Testing

/// A plain value under a rule with operations is sent as the operation that the app meant.
@Suite("Forms on the wire")
struct WireFormTests {
    struct Case: Sendable, CustomStringConvertible {
        let description: String
        let rule: FieldStrategy
        let seen: JSON?
        let wrote: JSON
        /// `nil`: it stays a plain value.
        let sent: [FieldOperation]?

        init(_ description: String, _ rule: FieldStrategy, saw seen: JSON?, wrote: JSON, sent: [FieldOperation]?) {
            self.description = description
            self.rule = rule
            self.seen = seen
            self.wrote = wrote
            self.sent = sent
        }
    }

    static func op(_ kind: FieldOperation.Kind, _ value: JSON) -> FieldOperation { FieldOperation("f", kind, value) }

    @Test(
        "A plain value becomes the operation that its rule has",
        arguments: [
            Case("counter up", .counter, saw: 7, wrote: 8, sent: [op(.increment, 1)]),
            Case("counter down", .counter, saw: 7, wrote: 5, sent: [op(.increment, -2)]),
            Case("counter to the same", .counter, saw: 7, wrote: 7, sent: [op(.increment, 0)]),
            Case("counter from nothing", .counter, saw: nil, wrote: 3, sent: [op(.increment, 3)]),
            Case("counter of a text", .counter, saw: "7", wrote: 8, sent: nil),
            Case("counter to a text", .counter, saw: 7, wrote: "8", sent: nil),
            Case("append behind", .append, saw: "rail", wrote: "rail loose", sent: [op(.append, " loose")]),
            Case("append rewritten", .append, saw: "rail", wrote: "loose rail", sent: nil),
            Case("append a first text", .append, saw: nil, wrote: "rail", sent: nil),
            Case("append to an empty text", .append, saw: "", wrote: "rail", sent: nil),
            Case("append keeps what only looks like an end", .append, saw: "a", wrote: "a\u{301}b", sent: [op(.append, "\u{301}b")]),
            Case("append to a list", .append, saw: [1], wrote: [1, 2, 3], sent: [op(.append, [2, 3])]),
            Case("set", .set, saw: ["a", "b"], wrote: ["b", "c"], sent: [op(.remove, "a"), op(.add, "c")]),
            Case("set from nothing", .set, saw: nil, wrote: ["a"], sent: [op(.add, "a")]),
            Case(
                "set of objects", .set, saw: [["id": 1, "n": 1], ["id": 2]], wrote: [["id": 1, "n": 2]],
                sent: [op(.remove, ["id": 2]), op(.add, ["id": 1, "n": 2])]),
            Case("set, a first one without elements", .set, saw: nil, wrote: [], sent: nil),
            Case("set, null and one without elements", .set, saw: .null, wrote: [], sent: nil),
            Case("set, nothing new", .set, saw: ["a"], wrote: ["a", "a"], sent: []),
            Case("set to something else", .set, saw: ["a"], wrote: "a", sent: nil),
            Case("max", .max, saw: 3, wrote: 9, sent: [op(.max, 9)]),
            Case("max of a list", .max, saw: nil, wrote: [1], sent: nil),
            Case("min against a text", .min, saw: "z", wrote: 9, sent: nil),
            Case("lww", .lww, saw: 3, wrote: 9, sent: nil),
            Case("manual", .manual, saw: 3, wrote: 9, sent: nil),
        ])
    func forms(_ example: Case) {
        var rules = EntityRules()
        rules.fields = ["f": example.rule]
        var seen: JSONObject = ["other": 1]
        if let value = example.seen { seen["f"] = value }
        let content = MutationContent(.update, data: ["f": example.wrote, "g": true])
        let sent = WireForm.of(content, seen: seen, rules: rules)
        if let operations = example.sent {
            #expect(sent == MutationContent(.update, data: ["g": true], operations: operations))
        } else {
            #expect(sent == content)
        }
        // The app sees the value that it wrote, in every form.
        let before = Fold.apply(content, to: seen), after = Fold.apply(sent, to: seen)
        if example.rule == .set {
            #expect(Set(before?["f"]?.array ?? []) == Set(after?["f"]?.array ?? []))
        } else if example.rule != .max && example.rule != .min {
            #expect(before == after)
        }
    }

    @Test("A create has nothing to differ from, and one rule for the whole record has no operations")
    func leftAlone() {
        var rules = EntityRules()
        rules.fields = ["n": .counter]
        let create = MutationContent(.create, data: ["n": 2])
        #expect(WireForm.of(create, seen: [:], rules: rules) == create)
        rules.strategy = .client
        let update = MutationContent(.update, data: ["n": 2])
        #expect(WireForm.of(update, seen: ["n": 1], rules: rules) == update)
    }

    @Test("An operation of the app on the same field comes after its value, so the value stays one")
    func besideOperation() {
        var rules = EntityRules()
        rules.fields = ["n": .counter]
        let update = MutationContent(.update, data: ["n": 2], operations: [FieldOperation("n", .increment, 1)])
        #expect(WireForm.of(update, seen: ["n": 1], rules: rules) == update)
    }

    @Test("Only objects that are merged go with what was seen of them")
    func bases() {
        var rules = EntityRules()
        rules.fields = ["form": .merge, "note": .lww]
        let update = MutationContent(.update, data: ["form": ["a": 1], "note": 1])
        #expect(WireForm.bases(update, seen: ["form": ["b": 1], "note": 0], rules: rules) == ["form": ["b": 1]])
        #expect(WireForm.bases(update, seen: ["form": 7], rules: rules) == [:])
    }
}
