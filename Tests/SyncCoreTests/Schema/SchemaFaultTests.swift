import SyncCore
import Testing

/// Each fault says where it is, what was expected and what was found.
@Suite("The words of a fault")
struct SchemaFaultTests {
    struct Case: CustomTestStringConvertible, Sendable {
        var schema: JSON
        var value: JSON
        var faults: [String]
        var testDescription: String { schema.json }
    }

    private static func decimal(_ value: Double) -> JSON { JSONNumber(value).map { .number($0) } ?? .null }

    private static let shapes: JSON = [
        "oneOf": [
            ["title": "Circle", "properties": ["kind": ["const": "circle"], "r": ["type": "number"]], "required": ["kind", "r"]],
            ["title": "Box", "properties": ["kind": ["const": "box"], "w": ["type": "number"]], "required": ["kind", "w"]],
        ]
    ]

    @Test(
        "Pointer, expectation, finding",
        arguments: [
            Case(schema: ["type": ["string", "integer"]], value: decimal(1.5), faults: [" must be of type integer or string, found 1.5"]),
            Case(schema: ["type": "array"], value: [:], faults: [" must be of type array, found an object"]),
            Case(schema: ["enum": ["pass", "fail"]], value: "ok", faults: [" must be one of \"pass\", \"fail\", found \"ok\""]),
            Case(schema: ["const": 1], value: 2, faults: [" must be 1, found 2"]),
            Case(
                schema: ["minimum": 1, "maximum": 0], value: decimal(0.5),
                faults: [" must be at least 1, found 0.5", " must be at most 0, found 0.5"]),
            Case(schema: ["exclusiveMaximum": 1], value: 1, faults: [" must be below 1, found 1"]),
            Case(schema: ["multipleOf": decimal(0.1)], value: decimal(0.35), faults: [" must be a multiple of 0.1, found 0.35"]),
            Case(schema: ["maxLength": 1], value: "abc", faults: [" must have at most 1 character, found 3"]),
            Case(schema: ["pattern": "^q"], value: "x", faults: [" must match ^q, found \"x\""]),
            Case(schema: ["format": "date"], value: "30.4.2026", faults: [" must be a date, such as 2026-04-30, found \"30.4.2026\""]),
            Case(schema: ["required": ["a/b"]], value: [:], faults: ["/a~1b is required"]),
            Case(schema: ["dependentRequired": ["a": ["b"]]], value: ["a": 1], faults: ["/b is required where there is a"]),
            Case(
                schema: ["properties": ["room": true], "additionalProperties": false], value: ["rom": 1],
                faults: ["/rom is not a known member; did you mean room?"]),
            Case(
                schema: ["propertyNames": ["maxLength": 2]], value: ["abc": 1],
                faults: ["/abc has a name that propertyNames does not allow"]),
            Case(schema: ["minProperties": 1], value: [:], faults: [" must have at least 1 member, found 0"]),
            Case(
                schema: ["items": ["type": "string"]], value: ["a", 1, true],
                faults: ["/1 must be of type string, found 1", "/2 must be of type string, found true"]),
            Case(schema: ["uniqueItems": true], value: [1, 2, 1], faults: [" must have each element once; elements 0 and 2 are equal"]),
            Case(
                schema: ["contains": ["const": 1], "minContains": 2], value: [1],
                faults: [" must have at least 2 elements as contains says, found 1"]),
            Case(
                schema: ["not": ["title": "a number", "type": "number"]], value: 1, faults: [" must not fit the schema in not (a number)"]),
            Case(schema: false, value: 1, faults: [" is not allowed"]),
            Case(
                schema: ["properties": ["shape": shapes]], value: ["shape": ["kind": "box", "w": "5"]],
                faults: [
                    "/shape must fit exactly one of the 2 schemas in oneOf; the closest is number 2 (Box), where /w must be of type "
                        + "number, found a string"
                ]),
            Case(
                schema: ["anyOf": [["type": "string"], ["minimum": 5]]], value: 3,
                faults: [
                    " must fit at least one of the 2 schemas in anyOf; the closest is number 2, where it must be at least 5, found 3"
                ]),
            Case(
                schema: ["oneOf": [["minimum": 1], ["minimum": 2], ["type": "string"]]], value: 3,
                faults: [" must fit exactly one of the 3 schemas in oneOf, and fits numbers 1 and 2"]),
            Case(
                schema: ["if": ["properties": ["a": ["const": 1]]], "then": ["required": ["b"]], "else": ["required": ["c"]]],
                value: ["a": 2], faults: ["/c is required"]),
        ])
    func words(_ example: Case) throws {
        let faults = try JSONSchema(example.schema).judge(example.value).faults
        #expect(faults.map { "\($0.pointer) \($0.detail)" } == example.faults)
    }

    @Test("The faults of a schema that was only tried are not shown")
    func forgotten() throws {
        let schema = try JSONSchema(["allOf": [["anyOf": [["required": ["a"]], true]], ["required": ["b"]]]])
        #expect(schema.judge([:]).faults.map(\.pointer) == ["/b"])
    }

    @Test("At most 50 faults are listed")
    func many() throws {
        let schema = try JSONSchema(["items": ["type": "string"]])
        #expect(schema.judge(.array((0..<1_000).map { .int($0) })).faults.count == SchemaJudgement.faultsMax)
    }
}
