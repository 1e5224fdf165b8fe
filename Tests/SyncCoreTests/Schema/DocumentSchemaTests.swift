import SyncCore
import Testing

/// PROTOCOL A12: the part of JSON Schema that is known.
@Suite("Document schemas")
struct DocumentSchemaTests {
    private static let schema: JSON = [
        "type": "object", "title": "An answer", "required": ["question", "value"],
        "properties": [
            "question": ["type": "string", "maxLength": 8, "pattern": "^q-[0-9]+$"], "value": ["enum": ["pass", "fail", 3]],
            "grade": ["type": "integer", "minimum": 1, "maximum": 6],
            "where": [
                "type": "object", "required": ["room"],
                "properties": ["room": ["type": "string"], "a/b": ["type": "boolean"]],
            ],
            "photos": ["type": "array", "items": ["type": ["string", "number"]]],
        ],
    ]

    struct Case: CustomTestStringConvertible, Sendable {
        var rule: String
        var content: MutationContent
        var pointers: [String]
        var testDescription: String { rule }
    }

    private static func create(_ data: JSONObject) -> MutationContent {
        var all: JSONObject = ["question": "q-1", "value": "pass"]
        for member in data.members { all[member.name.text] = member.value }
        return MutationContent(.create, data: all)
    }

    @Test(
        "Each rule, kept and broken",
        arguments: [
            Case(rule: "all is well", content: create([:]), pointers: []),
            Case(rule: "unknown fields pass", content: create(["other": [1]]), pointers: []),
            Case(rule: "missing", content: MutationContent(.create, data: ["value": "pass"]), pointers: ["/data/question"]),
            Case(rule: "null is missing", content: create(["question": .null]), pointers: ["/data/question"]),
            Case(
                rule: "an operation may bring what is required",
                content: MutationContent(.create, data: ["question": "q-1"], operations: [FieldOperation("value", .max, 3)]), pointers: []),
            Case(rule: "null of what is not required", content: create(["grade": .null]), pointers: []),
            Case(rule: "type", content: create(["question": 5]), pointers: ["/data/question"]),
            Case(rule: "length and pattern", content: create(["question": "q-12345678"]), pointers: ["/data/question"]),
            Case(rule: "pattern", content: create(["question": "x-1"]), pointers: ["/data/question"]),
            Case(rule: "enum", content: create(["value": "other"]), pointers: ["/data/value"]),
            Case(rule: "enum by value", content: create(["value": 3]), pointers: []),
            Case(rule: "minimum", content: create(["grade": 0]), pointers: ["/data/grade"]),
            Case(rule: "maximum", content: create(["grade": 7]), pointers: ["/data/grade"]),
            Case(rule: "bounds are inside", content: create(["grade": 6]), pointers: []),
            Case(
                rule: "inside an object", content: create(["where": ["room": 5, "a/b": 1]]),
                pointers: ["/data/where/room", "/data/where/a~1b"]),
            Case(rule: "required inside an object", content: create(["where": [:]]), pointers: ["/data/where/room"]),
            Case(rule: "elements", content: create(["photos": ["a", 1, true, "b", [:]]]), pointers: ["/data/photos/2", "/data/photos/4"]),
            Case(rule: "an update needs nothing", content: MutationContent(.update, data: ["grade": 2]), pointers: []),
            Case(rule: "an update is checked", content: MutationContent(.update, data: ["grade": 9]), pointers: ["/data/grade"]),
            Case(
                rule: "an update may not remove what is required", content: MutationContent(.update, unset: ["grade", "value"]),
                pointers: ["/unset/1"]),
            Case(rule: "a delete is never wrong", content: MutationContent(.delete), pointers: []),
        ])
    func rules(_ example: Case) throws {
        let schema = try DocumentSchema(Self.schema)
        #expect(schema.faults(in: example.content).map(\.pointer) == example.pointers)
    }

    @Test(
        "A schema that would not be enforced is refused, with the place",
        arguments: [
            (["type": "array"], "/type"), (["properties": ["a": ["format": "dat"]]], "/properties/a/format"),
            (["properties": ["a": ["pattern": "(a)\\1"]]], "/properties/a/pattern"), (["required": "a"], "/required"),
            (["properties": ["a": ["type": "text"]]], "/properties/a/type"), (["properties": ["a": ["enum": []]]], "/properties/a/enum"),
            (["properties": ["a": ["minimum": "1"]]], "/properties/a/minimum"),
            (["properties": ["a": ["maxLength": -1]]], "/properties/a/maxLength"),
            (["properties": ["a": 1]], "/properties/a"), (["unevaluatedProperties": false], "/unevaluatedProperties"), (5, ""),
            (true, ""), (["type": ["array", "string"]], "/type"),
        ] as [(JSON, String)])
    func refused(_ json: JSON, _ pointer: String) {
        var found: String?
        do throws(Problem) { _ = try DocumentSchema(json) } catch { found = error.errors.first?.pointer }
        #expect(found == pointer)
    }

    @Test("A schema that is nested without end is refused")
    func depth() {
        var json: JSON = [:]
        for _ in 0..<20 { json = ["items": json] }
        #expect(throws: Problem.self) { try DocumentSchema(["properties": ["a": json]]) }
    }

    // MARK: Rules between fields

    /// "completed" needs an answer, and a photo where the answer is "fail".
    private static let audit: JSON = [
        "properties": [
            "status": ["enum": ["open", "completed"]], "q1": ["enum": ["pass", "fail"]], "count": ["type": "integer", "maximum": 9],
        ],
        "if": ["properties": ["status": ["const": "completed"]], "required": ["status"]],
        "then": [
            "required": ["q1"], "properties": ["count": ["minimum": 1]],
            "if": ["properties": ["q1": ["const": "fail"]]], "then": ["properties": ["photos": ["minItems": 1]], "required": ["photos"]],
        ],
        "dependentRequired": ["signature": ["signed_by"]],
    ]

    struct Change: CustomTestStringConvertible, Sendable {
        var rule: String
        var before: JSONObject?
        var after: JSONObject
        var pointers: [String]
        var testDescription: String { rule }
    }

    @Test(
        "A change answers for the faults between fields that it brings",
        arguments: [
            Change(rule: "a draft with holes", before: nil, after: ["status": "open"], pointers: []),
            Change(
                rule: "completed at once, with holes", before: nil, after: ["status": "completed"], pointers: ["/data/q1", "/data/photos"]),
            Change(
                rule: "completed with a hole", before: ["q1": "fail"], after: ["q1": "fail", "status": "completed"],
                pointers: ["/data/photos"]),
            Change(
                rule: "null is a hole", before: ["q1": "pass"], after: ["q1": .null, "status": "completed"],
                pointers: ["/data/q1", "/data/photos"]),
            Change(rule: "completed", before: ["q1": "pass"], after: ["q1": "pass", "status": "completed"], pointers: []),
            Change(
                rule: "the answer of a completed one is taken away", before: ["q1": "pass", "status": "completed"],
                after: ["status": "completed"],
                pointers: ["/data/q1", "/data/photos"]),
            Change(
                rule: "another field of one that was wrong before", before: ["status": "completed", "q1": "fail"],
                after: ["status": "completed", "q1": "fail", "note": "x"], pointers: []),
            Change(
                rule: "a wrong value in place of another wrong one", before: ["status": "completed", "q1": "pass", "count": 0],
                after: ["status": "completed", "q1": "pass", "count": -1], pointers: ["/data/count"]),
            Change(
                rule: "a rule of one field alone is not looked at here", before: ["q1": "pass"], after: ["q1": "other", "count": 12],
                pointers: []),
            Change(rule: "a dependency", before: [:], after: ["signature": "x"], pointers: ["/data/signed_by"]),
            Change(rule: "a dependency that is kept", before: [:], after: ["signature": "x", "signed_by": "ines"], pointers: []),
        ])
    func betweenFields(_ change: Change) throws {
        let schema = try DocumentSchema(Self.audit)
        #expect(schema.bindsFields)
        #expect(schema.faults(between: change.after, before: change.before).map(\.pointer) == change.pointers)
    }

    @Test("A schema without rules between fields looks at no whole document")
    func onlyFields() throws {
        let schema = try DocumentSchema(Self.schema)
        #expect(!schema.bindsFields)
        #expect(schema.faults(between: ["grade": 99], before: nil).isEmpty)
    }

    @Test("Rules of one field hold in whatever schema of the root they are")
    func composed() throws {
        let schema = try DocumentSchema([
            "$ref": "#/$defs/base", "allOf": [["properties": ["grade": ["maximum": 6]], "required": ["grade"]]],
            "$defs": [
                "base": ["properties": ["grade": ["minimum": 1]], "patternProperties": ["^n_": ["type": "number"]], "required": ["id"]]
            ],
        ])
        #expect(!schema.bindsFields)
        let create = MutationContent(.create, data: ["grade": 7, "n_a": "x"])
        #expect(Set(schema.faults(in: create).map(\.pointer)) == ["/data/grade", "/data/n_a", "/data/id"])
        #expect(schema.faults(in: MutationContent(.update, data: ["grade": 0])).map(\.pointer) == ["/data/grade"])
        #expect(schema.faults(in: MutationContent(.update, unset: ["grade"])).map(\.pointer) == ["/unset/0"])
    }

    @Test("Members that the schema does not name are refused where it says so, also in an update")
    func unnamed() throws {
        let schema = try DocumentSchema(["properties": ["room": ["type": "string"]], "additionalProperties": false])
        #expect(schema.faults(in: MutationContent(.update, data: ["rom": "a"])).map(\.pointer) == ["/data/rom"])
        // Null takes a member away, and a member that is not there has no name.
        #expect(schema.faults(in: MutationContent(.update, data: ["rom": .null])).isEmpty)
    }

    @Test(
        "Versions are compared number by number",
        arguments: [
            ("1.4", "1.4.1", true), ("1.4", "1.4.0", false), ("1.9", "1.10", true), ("2", "1.9.9", false), ("1.0.0-rc1", "1.0.1", true),
        ])
    func releases(_ first: String, _ second: String, _ isLess: Bool) throws {
        let (one, other) = (try #require(AgentRelease(first)), try #require(AgentRelease(second)))
        #expect((one < other) == isLess)
    }

    @Test("Texts that are no version", arguments: ["", "a", "1.", ".1", "1..2", "1.2.3.4.5", "-1"])
    func noRelease(_ text: String) { #expect(AgentRelease(text) == nil) }
}
