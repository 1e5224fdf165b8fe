import SyncCore
import Testing

/// A hub can send any schema, and an app any document. Neither may hold up the agent: what cannot be judged within the limits is refused,
/// and never counts as right.
@Suite("Hostile schemas")
struct HostileSchemaTests {
    private static func list(_ count: Int, _ make: (Int) -> JSON) -> JSON { .array((0..<count).map(make)) }

    private static func object(_ count: Int, _ make: (Int) -> (String, JSON)) -> JSON {
        var object = JSONObject()
        for number in 0..<count {
            let (name, value) = make(number)
            object[name] = value
        }
        return .object(object)
    }

    /// `anyOf` of two references, `count` times within each other: 2^count ways, all of them wrong.
    private static func ways(_ count: Int, in keyword: String = "$ref") -> JSON {
        var definitions = JSONObject()
        for number in 0..<count {
            let next: JSON = ["$ref": .string("#/$defs/a\(number + 1)")]
            definitions["a\(number)"] = ["anyOf": [next, next]]
        }
        definitions["a\(count)"] = false
        let first: JSON = "#/$defs/a0"
        return .object([keyword: keyword == "$ref" ? first : ["$ref": first], "$defs": .object(definitions)])
    }

    struct Case: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var schema: JSON
        var value: JSON
    }

    @Test(
        "A schema that cannot be judged in time is refused with a text that says so",
        arguments: [
            Case(testDescription: "2^30 ways of anyOf", schema: ways(30), value: 1),
            Case(
                testDescription: "2^29 ways inside not, which would turn the missing answer into a good one",
                schema: ways(29, in: "not"), value: 1),
            Case(
                testDescription: "contains in each of many lists, whose last element fits the last alternative",
                schema: ["items": ["contains": ["anyOf": list(50) { ["const": .int(-1 - $0)] }]]],
                value: list(300) { _ in list(300) { .int($0 == 299 ? -50 : $0) } }),
            Case(
                testDescription: "a large value compared with many lists of values",
                schema: ["allOf": list(2_000) { ["not": ["enum": [[.int($0)], true]]] }], value: list(20_000) { .int($0) }),
            Case(
                testDescription: "a pattern with many states over a long text", schema: ["pattern": "([ab]{1,60}[ab]{1,60}){1,8}c"],
                value: .string(String(repeating: "a", count: 200_000))),
            Case(
                testDescription: "many patterns over many names",
                schema: ["patternProperties": object(500) { ("^[a-z]*\($0)$", true) }],
                value: object(2_000) { (String(repeating: "a", count: 100) + "\($0)", 1) }),
        ])
    func tooCostly(_ example: Case) throws {
        let judgement = try JSONSchema(example.schema).judge(example.value)
        #expect(judgement.isTooCostly && !judgement.fits)
        #expect(judgement.faults.map(\.pointer) == [""])
        #expect(judgement.faults.first?.detail.hasPrefix("cannot be judged by its schema within 2000000 steps") == true)
        // The last rule may take some more steps than were left.
        #expect(judgement.steps < 2 * JSONSchema.stepsMax)
    }

    @Test("Recursion ends at a number of levels, whatever the stack would take")
    func levels() throws {
        // Each level of the value passes eleven schemas.
        let chain = (0..<9).reduce(["properties": ["a": ["$ref": "#/$defs/a"]]] as JSON) { json, _ in ["allOf": [json]] }
        let schema = try JSONSchema(["$ref": "#/$defs/a", "$defs": ["a": chain]])
        let value = (0..<120).reduce(JSON.int(1)) { json, _ in ["a": json] }
        #expect(schema.judge(value).isTooCostly)
        let flat = (0..<20).reduce(JSON.int(1)) { json, _ in ["a": json] }
        #expect(schema.judge(flat).fits)
    }

    #if ABLATIONS
        /// Judging costs steps, and comparisons that ``JSONWork`` counts.
        private static func cost(_ schema: JSON, _ value: JSON) throws -> Int {
            let schema = try JSONSchema(schema)
            var steps = 0
            let visits = JSONWork.visits { steps = schema.judge(value).steps }
            return steps + visits
        }

        /// A form in which every second question is asked when the one before it was answered with "fail".
        private static func form(_ count: Int) -> JSON {
            let rules = list(count / 2) { number -> JSON in
                let asked = "q\(2 * number)"
                return [
                    "if": ["properties": .object([asked: ["const": "fail"]]), "required": [.string(asked)]],
                    "then": ["required": [.string("q\(2 * number + 1)")]],
                ]
            }
            let questions = object(count) { number in
                ("q\(number)", number % 2 == 0 ? ["enum": ["pass", "fail"]] : ["type": "string", "pattern": "^[A-Z]", "maxLength": 500])
            }
            return ["type": "object", "properties": questions, "allOf": rules]
        }

        private static func answers(_ count: Int) -> JSON {
            object(count) { ("q\($0)", $0 % 2 == 0 ? "fail" : "A rail is loose") }
        }

        struct Growth: CustomTestStringConvertible, Sendable {
            var testDescription: String
            var schema: @Sendable (Int) -> JSON
            var value: @Sendable (Int) -> JSON
        }

        @Test(
            "Twice as much costs less than two and a half times",
            arguments: [
                Growth(testDescription: "a form and its answers", schema: { form($0) }, value: { answers($0) }),
                Growth(
                    testDescription: "different elements", schema: { _ in ["uniqueItems": true] }, value: { list(10 * $0) { .int($0) } }),
                Growth(
                    testDescription: "different objects that begin alike", schema: { _ in ["uniqueItems": true] },
                    value: { list($0) { ["a": 1, "b": .int($0)] } }),
                Growth(
                    testDescription: "many allowed values", schema: { ["items": ["enum": list($0) { .string("v\($0)") }]] },
                    value: { list($0) { .string("v\($0)") } }),
                Growth(
                    testDescription: "many names",
                    schema: { ["additionalProperties": false, "properties": object($0) { ("f\($0)", true) }] },
                    value: { object($0) { ("f\($0)", 1) } }),
                Growth(
                    testDescription: "many required names", schema: { ["required": list($0) { .string("f\($0)") }] },
                    value: { object($0) { ("f\($0)", 1) } }),
                Growth(
                    testDescription: "contains over a list", schema: { _ in ["contains": ["const": -1], "items": ["minimum": 0]] },
                    value: { list($0) { .int($0) } }),
                Growth(
                    testDescription: "a pattern with nested repetitions", schema: { _ in ["pattern": "^(a+)+$"] },
                    value: { .string(String(repeating: "a", count: 10 * $0) + "!") }),
                Growth(
                    testDescription: "faults in every element of nested alternatives",
                    schema: { _ in
                        ["items": ["anyOf": [["oneOf": [["const": 1], ["const": 2]]], ["anyOf": [["const": 3], ["const": 4]]]]]]
                    },
                    value: { list($0) { _ in 0 } }),
            ])
        func doubling(_ shape: Growth) throws {
            let costs = try [250, 500, 1_000, 2_000].map { try Self.cost(shape.schema($0), shape.value($0)) }
            for (before, after) in zip(costs, costs.dropFirst()) {
                #expect(Double(after) <= 2.5 * Double(before) + 200, "\(shape.testDescription): \(costs)")
            }
        }

        @Test("An audit of 100 answers takes some thousand steps, judged whole or between its fields")
        func audit() throws {
            #expect(try Self.cost(Self.form(100), Self.answers(100)) < 4_000)
        }

        @Test("Texts about faults are made once, however deep the conditions are nested")
        func nestedFaults() throws {
            func schema(_ depth: Int) -> JSON {
                (0..<depth).reduce(["const": 1] as JSON) { json, _ in ["anyOf": [["allOf": [json]], false]] }
            }
            let costs = try [2, 4].map { try Self.cost(schema($0), 2) }
            #expect(costs[1] <= 2 * costs[0] + 20, "\(costs)")
        }
    #endif
}
