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
            (["type": "array"], "/type"), (["properties": ["a": ["format": "date"]]], "/properties/a/format"),
            (["properties": ["a": ["pattern": "(a)\\1"]]], "/properties/a/pattern"), (["required": "a"], "/required"),
            (["properties": ["a": ["type": "text"]]], "/properties/a/type"), (["properties": ["a": ["enum": []]]], "/properties/a/enum"),
            (["properties": ["a": ["minimum": "1"]]], "/properties/a/minimum"),
            (["properties": ["a": ["maxLength": -1]]], "/properties/a/maxLength"),
            (["properties": ["a": 1]], "/properties/a"), (["additionalProperties": false], "/additionalProperties"), (5, ""),
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

    @Test(
        "Versions are compared number by number",
        arguments: [
            ("1.4", "1.4.1", true), ("1.4", "1.4.0", false), ("1.9", "1.10", true), ("2", "1.9.9", false), ("1.0.0-rc1", "1.0.1", true),
        ])
    func releases(_ first: String, _ second: String, _ isLess: Bool) throws {
        let (one, other) = (try #require(AgentRelease(first)), try #require(AgentRelease(second)))
        #expect((one < other) == isLess)
    }

    @Test("What is no version", arguments: ["", "a", "1.", ".1", "1..2", "1.2.3.4.5", "-1"])
    func noRelease(_ text: String) { #expect(AgentRelease(text) == nil) }
}
