import Foundation
import SyncCore
import Testing

/// The official JSON-Schema-Test-Suite (github.com/json-schema-org/JSON-Schema-Test-Suite, commit 44401e0c, `tests/draft2020-12`), beside
/// this file with its licence. The files are unchanged. Files about keywords that are not supported are not kept (``unsupported``).
@Suite("The official test suite of JSON Schema")
struct JSONSchemaSuiteTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("JSONSchemaTestSuite")

    private static let elsewhere = "it refers to another document, and an agent fetches none"
    private static let base = "$id below the root is refused, because references below it would mean something else"
    private static let format = "this format is not supported, and is refused when a schema is read"

    /// Groups that are left out, each with its reason, by file.
    private static let leftOut: [String: [String: String]] = [
        "defs.json": ["validate definition against metaschema": elsewhere],
        "enum.json": ["empty enum": "an empty enum is refused, because no value could ever fit"],
        "format.json": [
            "idn-email format": format, "regex format": format, "ipv4 format": format, "ipv6 format": format, "idn-hostname format": format,
            "hostname format": format, "json-pointer format": format, "relative-json-pointer format": format, "iri format": format,
            "iri-reference format": format, "uri-reference format": format, "uri-template format": format,
        ],
        "not.json": ["collect annotations inside a 'not', even if collection is disabled": "unevaluatedProperties is not supported"],
        "ref.json": [
            "remote ref, containing refs itself": elsewhere, "Recursive references between schemas": base,
            "ref creates new scope when adjacent to keywords": "unevaluatedProperties is not supported",
            "refs with relative uris and defs": base, "relative refs with absolute uris and defs": base,
            "$id must be resolved against nearest parent, not just immediate parent": base, "order of evaluation: $id and $ref": base,
            "order of evaluation: $id and $anchor and $ref": base, "order of evaluation: $id and $ref on nested schema": base,
            "simple URN base URI with $ref via the URN": elsewhere, "URN base URI with URN and JSON pointer ref": elsewhere,
            "URN base URI with URN and anchor ref": "$anchor is not supported", "URN ref with nested pointer ref": base,
            "ref to if": base, "ref to then": base, "ref to else": base, "ref with absolute-path-reference": base,
        ],
    ]

    /// Single tests that are left out: `format` is a rule here, and a note in the suite.
    private static let notes: Set<String> = Set(
        ["email", "date", "date-time", "time", "uri", "uuid", "duration"].map { "invalid \($0) string is only an annotation by default" })

    /// Files that are not kept, each with a schema that shows why: it is refused.
    private static let unsupported: [String: JSON] = [
        "anchor.json": ["$anchor": "a"], "content.json": ["contentMediaType": "application/json"], "dynamicRef.json": ["$dynamicRef": "#a"],
        "refRemote.json": ["$ref": "http://localhost:1234/draft2020-12/integer.json"], "unevaluatedItems.json": ["unevaluatedItems": false],
        "unevaluatedProperties.json": ["unevaluatedProperties": false], "vocabulary.json": ["$vocabulary": [:]],
        "optional/anchor.json": ["$anchor": "a"], "optional/cross-draft.json": ["$ref": "http://localhost:1234/draft2019-09/a.json"],
        "optional/dependencies-compatibility.json": ["dependencies": [:]], "optional/dynamicRef.json": ["$dynamicRef": "#a"],
        "optional/format-assertion.json": ["$schema": "http://localhost:1234/draft2020-12/format-assertion-true.json"],
        "optional/id.json": ["not": ["$id": "a"]], "optional/refOfUnknownKeyword.json": ["unknown-keyword": true],
        "optional/unknownKeyword.json": ["unknown-keyword": true], "optional/format/ecmascript-regex.json": ["format": "regex"],
        "optional/format/hostname.json": ["format": "hostname"], "optional/format/idn-email.json": ["format": "idn-email"],
        "optional/format/idn-hostname.json": ["format": "idn-hostname"], "optional/format/ipv4.json": ["format": "ipv4"],
        "optional/format/ipv6.json": ["format": "ipv6"], "optional/format/iri-reference.json": ["format": "iri-reference"],
        "optional/format/iri.json": ["format": "iri"], "optional/format/json-pointer.json": ["format": "json-pointer"],
        "optional/format/regex.json": ["format": "regex"],
        "optional/format/relative-json-pointer.json": ["format": "relative-json-pointer"],
        "optional/format/unknown.json": ["format": "unknown"], "optional/format/uri-reference.json": ["format": "uri-reference"],
        "optional/format/uri-template.json": ["format": "uri-template"],
    ]

    private struct Group {
        var name: String
        var schema: JSON
        var tests: [(name: String, value: JSON, isValid: Bool)]
    }

    private static func files() -> [String] {
        let all = FileManager.default.enumerator(atPath: folder.path)?.compactMap { $0 as? String } ?? []
        return all.filter { $0.hasSuffix(".json") }.sorted()
    }

    private static func groups(_ file: String) throws -> [Group] {
        var text = try String(contentsOf: folder.appendingPathComponent(file), encoding: .utf8)
        // The reader refuses NUL in a text, so these tests have another control character.
        text.replace("\\u0000", with: "\\u0001")
        var limits = JSONReader.Limits()
        limits.depth = 64
        let list = try #require(try JSONReader.read(text, limits: limits).array)
        return try list.map { json in
            let group = try #require(json.object)
            let tests = try #require(group["tests"]?.array)
            return Group(
                name: try #require(group["description"]?.text), schema: try #require(group["schema"]),
                tests: try tests.map { json in
                    let test = try #require(json.object)
                    return (try #require(test["description"]?.text), test["data"] ?? .null, try #require(test["valid"]?.bool as Bool?))
                })
        }
    }

    /// The tests of a group that do not have their result; all of them when the schema is refused.
    private static func failures(of group: Group) -> [(test: String, why: String)] {
        do throws(Problem) {
            let schema = try JSONSchema(group.schema)
            return group.tests.compactMap { test in
                let judgement = schema.judge(test.value)
                if judgement.fits == test.isValid, !judgement.isTooCostly { return nil }
                return (test.name, judgement.faults.first?.detail ?? "fits")
            }
        } catch {
            return group.tests.map { ($0.name, error.detail) }
        }
    }

    @Test("Every test of the supported keywords passes")
    func passes() throws {
        var passed = 0
        for file in Self.files() {
            for group in try Self.groups(file) where Self.leftOut[file]?[group.name] == nil {
                let failures = Self.failures(of: group).filter { file != "format.json" || !Self.notes.contains($0.test) }
                for failure in failures { Issue.record("\(file), \(group.name), \(failure.test): \(failure.why)") }
                passed += group.tests.count - failures.count
            }
        }
        #expect(passed >= 1_150, "only \(passed) tests were found")
    }

    @Test("A test that is left out exists, and would fail")
    func leftOut() throws {
        for (file, names) in Self.leftOut {
            let groups = try Self.groups(file)
            for name in names.keys {
                let group = try #require(groups.first { $0.name == name }, "\(file) has no group \(name)")
                #expect(!Self.failures(of: group).isEmpty, "\(file), \(name) would pass, so it must not be left out")
            }
        }
        let failing = try Self.groups("format.json").flatMap { Self.failures(of: $0).map(\.test) }.filter(Self.notes.contains)
        #expect(Set(failing) == Self.notes)
    }

    @Test("A file that is not kept is about a keyword that is refused")
    func unsupportedKeywords() {
        let kept = Set(Self.files())
        for (file, schema) in Self.unsupported {
            #expect(!kept.contains(file))
            #expect(throws: Problem.self, "\(file) is left out, but \(schema.json) is accepted") { try JSONSchema(schema) }
        }
    }
}
