import SyncCore
import Testing

/// Schemas that are refused when they are read, with the words of each refusal.
@Suite("Schemas that are refused")
struct SchemaReaderTests {
    private static func refusal(of json: JSON) -> Problem.Pointer? {
        do throws(Problem) {
            _ = try JSONSchema(json)
            return nil
        } catch {
            return error.errors.first
        }
    }

    @Test(
        "An unknown keyword is refused with its place and the nearest keyword",
        arguments: [
            (["properties": ["a": ["requird": ["b"]]]], "/properties/a/requird", "unknown keyword; did you mean required?"),
            (["minimun": 1], "/minimun", "unknown keyword; did you mean minimum?"),
            (["a/b": 1], "/a~1b", "unknown keyword"),
            (["allOf": [true, ["anyof": []]]], "/allOf/1/anyof", "unknown keyword; did you mean anyOf?"),
            (["definitions": [:]], "/definitions", "definitions is not supported; use $defs"),
            (
                ["unevaluatedProperties": false], "/unevaluatedProperties",
                "unevaluatedProperties is not supported; name all members in one schema with additionalProperties"
            ),
            (
                ["properties": ["a": ["format": "dat"]]], "/properties/a/format",
                "must be one of date, time, date-time, duration, uuid, email, uri; did you mean date?"
            ),
            (["items": [true]], "/items", "must be one schema; use prefixItems for a list of schemas"),
            (["$schema": "http://json-schema.org/draft-07/schema#"], "/$schema", "must be https://json-schema.org/draft/2020-12/schema"),
            (
                ["$ref": "#/$defs/adress", "$defs": ["address": true]], "/$ref",
                "there is no schema at #/$defs/adress; did you mean #/$defs/address?"
            ),
            (["$ref": "https://example.com/a"], "/$ref", "must refer to a part of this schema, such as #/$defs/NAME"),
            (["enum": []], "/enum", "must be a list of values"),
            (["multipleOf": 0], "/multipleOf", "must be a number above 0 with at most 18 digits"),
            (["type": "strin"], "/type", "must be one of object, array, string, number, integer, boolean, null; did you mean string?"),
            (["properties": ["a": 1]], "/properties/a", "must be an object, found a number"),
        ] as [(JSON, String, String)])
    func words(_ json: JSON, _ pointer: String, _ detail: String) {
        #expect(Self.refusal(of: json) == Problem.Pointer(pointer, detail))
    }

    @Test(
        "A schema that applies itself to the same value again is refused",
        arguments: [
            (["$ref": "#"], "/$ref"), (["allOf": [["$ref": "#"]]], "/allOf/0/$ref"),
            (["$ref": "#/$defs/a", "$defs": ["a": ["anyOf": [["not": ["$ref": "#/$defs/a"]]]]]], "/$defs/a/anyOf/0/not/$ref"),
            (["dependentSchemas": ["a": ["if": ["$ref": "#"]]]], "/dependentSchemas/a/if/$ref"),
        ] as [(JSON, String)])
    func circles(_ json: JSON, _ pointer: String) {
        #expect(
            Self.refusal(of: json) == Problem.Pointer(pointer, "leads back to itself for the same value, so it could never be decided"))
    }

    @Test("A schema that refers to itself for a part of the value is read, and judges any depth")
    func recursion() throws {
        let schema = try JSONSchema(["type": "object", "properties": ["next": ["$ref": "#"]], "required": ["name"]])
        var value: JSON = [:]
        for _ in 0..<30 { value = ["name": "a", "next": value] }
        #expect(schema.judge(value).faults.map(\.pointer) == [String(repeating: "/next", count: 30) + "/name"])
    }

    @Test("Sizes are limited: depth, schemas, chains, patterns")
    func sizes() {
        func nested(_ count: Int) -> JSON { (0..<count).reduce(JSON.bool(true)) { json, _ in ["items": json] } }
        #expect(Self.refusal(of: nested(JSONSchema.depthMax)) == nil)
        #expect(Self.refusal(of: nested(JSONSchema.depthMax + 1))?.detail == "is nested more than 16 deep")
        let deepValue = (0..<40).reduce(JSON.int(1)) { json, _ in [json] }
        #expect(Self.refusal(of: ["const": deepValue])?.detail == "has arrays and objects more than 24 deep")

        let many = JSON.array((0..<JSONSchema.schemasMax).map { ["minimum": .int($0)] })
        #expect(Self.refusal(of: ["allOf": many])?.detail == "has more than 20000 schemas")

        func chain(_ count: Int) -> JSON {
            var definitions = JSONObject()
            for number in 0..<count { definitions["a\(number)"] = ["$ref": .string("#/$defs/a\(number + 1)")] }
            definitions["a\(count)"] = true
            return ["$ref": "#/$defs/a0", "$defs": .object(definitions)]
        }
        #expect(Self.refusal(of: chain(JSONSchema.chainMax - 2)) == nil)
        for count in [JSONSchema.chainMax, 5_000] {
            #expect(Self.refusal(of: chain(count))?.detail == "more than 64 schemas in a row apply to one value")
        }

        var patterns = JSONObject()
        for number in 0..<5_000 { patterns["^(a{40}){40}\(number)$"] = true }
        let detail = Self.refusal(of: ["patternProperties": .object(patterns)])?.detail
        #expect(detail == "the patterns of the schema are too large together; their repetitions are written out")
    }

    @Test("Notes for people decide nothing")
    func annotations() throws {
        let schema = try JSONSchema([
            "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/a", "$comment": "c", "title": "t",
            "description": "d", "default": 1, "examples": [1], "deprecated": true, "readOnly": true, "writeOnly": false,
        ])
        #expect(schema.judge(["a": 1]).fits)
    }

    @Test("References follow escapes of pointers and of addresses")
    func references() throws {
        let schema = try JSONSchema([
            "$defs": ["a/b": ["const": 1], "c~d": ["const": 2], "e f%": ["const": 3]],
            "prefixItems": [["$ref": "#/$defs/a~1b"], ["$ref": "#/$defs/c~0d"], ["$ref": "#/$defs/e%20f%25"]],
        ])
        #expect(schema.judge([1, 2, 3]).fits)
        #expect(schema.judge([2, 3, 1]).faults.map(\.pointer) == ["/0", "/1", "/2"])
    }
}
