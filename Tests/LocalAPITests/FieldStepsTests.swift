import LocalAPI
import SyncCore
import Testing

@Suite("Steps that give refused changes another shape")
struct FieldStepsTests {
    private static func change(
        _ data: String?, action: String = "update", unset: String? = nil, operations: String? = nil
    ) -> MutationItem {
        var item = MutationItem(
            id: "k-1", seq: 4, record: RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-1")), action: action,
            state: "rejected", priority: "normal")
        (item.data, item.unset, item.operations) = (data, unset, operations)
        return item
    }

    private static func correction(of item: MutationItem, _ steps: String) throws -> FieldSteps.Correction {
        try FieldSteps(reading: Array(steps.utf8)).correction(of: item)
    }

    struct Example: Sendable, CustomTestStringConvertible {
        var steps: String
        var before: String
        var data: String
        var without: [String] = []
        var action = "update"
        var testDescription: String { "\(steps) of \(before)" }
    }

    @Test(
        "Each step does what the manual says, and nothing else",
        arguments: [
            Example(
                steps: #"[{"rename":{"site":"site_id"}}]"#, before: #"{"site":1.10,"n":1}"#, data: #"{"site_id":1.10}"#, without: ["site"]),
            Example(steps: #"[{"rename":{"site":"site_id"}}]"#, before: #"{"n":1}"#, data: "{}"),
            Example(steps: #"[{"rename":{"a":"a"}}]"#, before: #"{"a":1}"#, data: "{}"),
            // Steps run in their order: a field may take the name that another one has left.
            Example(
                steps: #"[{"rename":{"a":"old","b":"a"}}]"#, before: #"{"a":1,"b":2}"#, data: #"{"old":1,"a":2}"#, without: ["b"]),
            Example(
                steps: #"[{"values":{"s":{"minor":"low","1":true,"null":"none"}}}]"#, before: #"{"s":"minor"}"#, data: #"{"s":"low"}"#),
            Example(steps: #"[{"values":{"s":{"1":true}}}]"#, before: #"{"s":1}"#, data: #"{"s":true}"#),
            Example(steps: #"[{"values":{"s":{"null":"none"}}}]"#, before: #"{"s":null}"#, data: #"{"s":"none"}"#),
            Example(steps: #"[{"values":{"s":{"minor":"low"}}}]"#, before: #"{"s":["minor"]}"#, data: "{}"),
            Example(steps: #"[{"values":{"s":{"minor":"low"}}}]"#, before: #"{"s":"major"}"#, data: "{}"),
            Example(steps: #"[{"default":{"who":"unknown"}}]"#, before: #"{"n":1}"#, data: #"{"who":"unknown"}"#, action: "create"),
            Example(steps: #"[{"default":{"n":2}}]"#, before: #"{"n":null}"#, data: "{}", action: "create"),
            // The record of an update has its other fields already.
            Example(steps: #"[{"default":{"who":"unknown"}}]"#, before: #"{"n":1}"#, data: "{}"),
            Example(steps: #"[{"drop":["x","y"]}]"#, before: #"{"x":1,"n":1}"#, data: "{}", without: ["x"]),
            Example(steps: #"[{"wrap":"tags"}]"#, before: #"{"tags":"a"}"#, data: #"{"tags":["a"]}"#),
            Example(steps: #"[{"wrap":"tags"}]"#, before: #"{"tags":["a"]}"#, data: "{}"),
            Example(steps: #"[{"wrap":"tags"}]"#, before: #"{"tags":null}"#, data: "{}"),
            Example(steps: #"[{"drop":"a"},{"default":{"a":2}}]"#, before: #"{"a":1}"#, data: #"{"a":2}"#, action: "create"),
            Example(steps: "[]", before: #"{"a":1}"#, data: "{}"),
        ])
    func steps(_ example: Example) throws {
        let correction = try Self.correction(of: Self.change(example.before, action: example.action), example.steps)
        // Byte for byte: `1.10` stays as it was written.
        #expect(JSON.object(correction.data).json == example.data)
        #expect(correction.without == example.without)
    }

    @Test(
        "A change that cannot be converted without loss is refused with its reason",
        arguments: [
            (#"[{"rename":{"site":"site_id"}}]"#, #"{"site":1,"site_id":2}"#, nil, "it changes both site and site_id"),
            (
                #"[{"rename":{"site":"total"}}]"#, #"{"site":1}"#, #"[{"field":"total","op":"inc","value":1}]"#,
                "it changes both site and total"
            ),
            (#"[{"rename":{"total":"sum"}}]"#, "{}", #"[{"field":"total","op":"inc","value":1}]"#, "by an operation"),
            (#"[{"wrap":"total"}]"#, "{}", #"[{"field":"total.parts","op":"inc","value":1}]"#, "by an operation"),
        ])
    func losses(_ steps: String, _ data: String, _ operations: String?, _ reason: String) throws {
        let error = #expect(throws: FieldSteps.Failure.self) {
            try Self.correction(of: Self.change(data, operations: operations), steps)
        }
        #expect(error?.description.contains(reason) == true)
    }

    @Test("A removal and an operation can be left out; a deletion has nothing to convert; damaged data is refused")
    func others() throws {
        let item = Self.change(nil, unset: #"["note"]"#, operations: #"[{"field":"total","op":"inc","value":1}]"#)
        #expect(try Self.correction(of: item, #"[{"drop":["note","total","x"]}]"#).without == ["note", "total"])
        #expect(throws: FieldSteps.Failure.self) { try Self.correction(of: item, #"[{"rename":{"note":"remark"}}]"#) }
        #expect(try Self.correction(of: Self.change(nil, action: "delete"), #"[{"drop":"x"}]"#).isEmpty)
        #expect(throws: FieldSteps.Failure.self) { try Self.correction(of: Self.change(nil), #"[{"drop":"x"}]"#) }
    }

    @Test("A field with an operation is no empty field, and one that was dropped can be filled or take another name")
    func operationsBesideData() throws {
        let item = Self.change(#"{"n":1}"#, action: "create", operations: #"[{"field":"total","op":"inc","value":1}]"#)
        #expect(try Self.correction(of: item, #"[{"default":{"total":0}}]"#).isEmpty)
        #expect(
            try Self.correction(of: item, #"[{"drop":"total"},{"default":{"total":0}}]"#) == FieldSteps.Correction(data: ["total": 0]))
        #expect(
            try Self.correction(of: item, #"[{"drop":"total"},{"rename":{"n":"total"}}]"#)
                == FieldSteps.Correction(data: ["total": 1], without: ["n"]))
    }

    @Test("Names are compared by their bytes")
    func bytes() throws {
        let (composed, decomposed) = ("\u{e9}", "e\u{301}")
        let item = Self.change(#"{"s":"\#(decomposed)"}"#)
        let steps = #"[{"values":{"s":{"\#(composed)":1,"\#(decomposed)":2}}}]"#
        #expect(try Self.correction(of: item, steps).data == ["s": 2])
        let renamed = try Self.correction(of: Self.change(#"{"\#(composed)":1}"#), #"[{"rename":{"\#(composed)":"\#(decomposed)"}}]"#)
        #expect(renamed.data.names.map { Array($0.utf8) } == [Array(decomposed.utf8)])
    }

    @Test("Renames back and forth leave every document as it was", arguments: 0..<200 as Range<UInt64>)
    func inverse(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let names = ["a", "b", "c", "d", "e.f", "ä"]
        let values = ["1", "1.10", "-0", "\"\\u0061\"", "null", "true", "[1,{}]", "{\"x\":9007199254740993}"]
        var members: [String] = []
        for name in names where random.next() % 2 == 0 {
            members.append("\"\(name)\":" + values[Int(random.next() % UInt64(values.count))])
        }
        let text = "{" + members.joined(separator: ",") + "}"
        let old = names[Int(random.next() % UInt64(names.count))]
        let correction = try Self.correction(
            of: Self.change(text), #"[{"rename":{"\#(old)":"new"}},{"rename":{"new":"\#(old)"}}]"#)
        #expect(correction.isEmpty)
    }

    @Test(
        "A file that is none says where and what was expected",
        arguments: [
            ("{", "expected JSON"), ("{}", "expected a list of steps"), ("[1]", "/0: expected an object with one member"),
            (#"[{"rename":{"a":"b"},"drop":"c"}]"#, "/0: expected an object with one member"),
            (#"[{"drop":"a"},{"rneame":{"a":"b"}}]"#, "/1/rneame: expected default, drop, rename, values, wrap; did you mean rename?"),
            (#"[{"unwrap":"a"}]"#, "/0/unwrap: expected default, drop, rename, values, wrap"),
            (#"[{"rename":{"a/b":7}}]"#, "/0/rename/a~1b: expected the new name"), (#"[{"rename":{}}]"#, "/0/rename: expected an object"),
            (#"[{"values":{"s":"low"}}]"#, "/0/values/s: expected an object with fields"),
            (#"[{"drop":[]}]"#, "/0/drop: expected the name"),
            (#"[{"wrap":["a",1]}]"#, "/0/wrap: expected the name of a field, or a list of names"),
        ])
    func badFiles(_ text: String, _ reason: String) throws {
        let error = #expect(throws: FieldSteps.Failure.self) { try FieldSteps(reading: Array(text.utf8)) }
        #expect(error?.description.contains(reason) == true)
    }
}
