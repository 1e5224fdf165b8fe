import LocalAPI
import SyncCore
import Testing

@Suite("A mutation as an app sends it") struct MutationBodyTests {
    @Test("Every member arrives as what it means")
    func readsAll() throws {
        let body = #"""
            {"entity":"audit_responses","record_id":"r-5","action":"update","data":{"value":"fail","n":1.10,"big":9007199254740993},
             "unset":["waived_by"],"ops":[{"field":"notes","op":"append","value":"rail loose"},{"field":"visits","op":"inc","value":1}],
             "priority":"normal","expect_version":90102,"depends_on":["0199-7"],"coalesce":false,"ttl":60,"author":"ines",
             "durability":"relaxed","blobs":[{"field":"photo","blob":"b-31"}]}
            """#
        let mutation = try MutationBody.read(Array(body.utf8))
        #expect(mutation.entity.text == "audit_responses")
        #expect(mutation.recordID?.text == "r-5")
        #expect(mutation.action == .update)
        #expect(mutation.data.json == #"{"value":"fail","n":1.10,"big":9007199254740993}"#)
        #expect(mutation.unset == ["waived_by"])
        #expect(
            mutation.operations == [
                FieldOperation("notes", .append, "rail loose"), FieldOperation("visits", .increment, 1),
            ])
        #expect(mutation.priority == .normal)
        #expect(mutation.expectedVersion == 90_102)
        #expect(mutation.dependsOn.map(\.text) == ["0199-7"])
        #expect(!mutation.coalesces)
        #expect(mutation.ttl == .seconds(60))
        #expect(mutation.author == "ines")
        #expect(mutation.durability == .relaxed)
        #expect(mutation.blobs == [["field": "photo", "blob": "b-31"]])
        #expect(mutation.size == body.utf8.count)
    }

    @Test("A member that may be absent may be null, and means the same")
    func nullIsAbsent() throws {
        let short = try read(#"{"entity":"e","action":"create"}"#)
        var long = try read(
            #"{"entity":"e","action":"create","record_id":null,"priority":null,"expect_version":null,"ttl":null,"author":null,"durability":null}"#
        )
        long.size = short.size
        #expect(long == short)
    }

    @Test(
        "A mutation survives being written and read",
        arguments: [
            #"{"entity":"e","action":"create"}"#,
            #"{"entity":"e","record_id":"r","action":"upsert","data":{"a":{"b":[1,2.50,"\u00e9",null]}}}"#,
            #"{"entity":"e","record_id":"r","action":"update","data":{}}"#,
            #"{"entity":"e","record_id":"r","action":"update","unset":["x"],"priority":"critical","expect_version":0}"#,
            #"{"entity":"e","record_id":"r","action":"delete","depends_on":["k"],"coalesce":false,"ttl":1,"author":"é","durability":"flash"}"#,
            #"{"entity":"e","record_id":"r","action":"update","ops":[{"field":"s","op":"add","value":{"id":1}}],"blobs":[{"field":"f","blob":"b"}]}"#,
        ])
    func roundTrips(_ text: String) throws {
        var before = try read(text)
        var after = try MutationBody.read(MutationBody.bytes(before))
        (before.size, after.size) = (0, 0)
        // The data of an update is written even when it is empty, for an update must say something.
        #expect(after == before)
        #expect(after.data.json == before.data.json)
    }

    struct Bad: Sendable, CustomTestStringConvertible {
        var body: String
        var code: LocalProblem
        var pointer: String
        var says: String
        var testDescription: String { String(body.prefix(90)) }

        init(_ body: String, _ code: LocalProblem, _ pointer: String, _ says: String = "") {
            (self.body, self.code, self.pointer, self.says) = (body, code, pointer, says)
        }
    }

    static func update(_ rest: String) -> String { #"{"entity":"e","record_id":"r","action":"update",\#(rest)}"# }

    static let bad: [Bad] = [
        // Members
        Bad(#"{"entity":"e","action":"create","dta":{}}"#, .unknownMember, "/dta", "did you mean data?"),
        Bad(#"{"entity":"e","action":"create","seq":1}"#, .unknownMember, "/seq"),
        Bad(#"{"entity":"e","action":"create","a/b~c":1}"#, .unknownMember, "/a~1b~0c"),
        Bad(#"{"entity":"e","action":"create","ref":"1"}"#, .unknownMember, "/ref"),
        Bad(#"{"action":"create"}"#, .malformed, "/entity", "missing"),
        Bad(#"{"entity":"e"}"#, .malformed, "/action", "missing"),
        Bad(#"{"entity":null,"action":"create"}"#, .malformed, "/entity", "a string"),
        Bad(#"{"entity":1,"action":"create"}"#, .malformed, "/entity", "a string, not a number"),
        Bad(#"{"entity":"","action":"create"}"#, .validation, "/entity"),
        Bad(#"{"entity":"a b","action":"create"}"#, .validation, "/entity", "1 to 64"),
        Bad(#"{"entity":"\#(String(repeating: "x", count: 65))","action":"create"}"#, .validation, "/entity"),
        Bad(#"{"entity":"caf\u00e9","action":"create"}"#, .validation, "/entity"),
        Bad(#"{"entity":"e","action":"create","record_id":"../x"}"#, .validation, "/record_id"),
        Bad(#"{"entity":"e","action":"create","record_id":7}"#, .malformed, "/record_id"),
        Bad(#"{"entity":"e","action":"update","data":{}}"#, .malformed, "/record_id", "missing"),
        Bad(#"{"entity":"e","action":"delete"}"#, .malformed, "/record_id"),
        Bad(#"{"entity":"e","action":"upsert","data":{}}"#, .malformed, "/record_id"),
        Bad(#"{"entity":"e","action":"patch"}"#, .validation, "/action", "create, update, upsert, delete"),
        Bad(#"{"entity":"e","action":"crate"}"#, .validation, "/action", "did you mean create?"),
        Bad(#"{"entity":"e","action":["create"]}"#, .malformed, "/action", "not an array"),
        // Payload
        Bad(update(#""data":[]"#), .malformed, "/data", "an object, not an array"),
        Bad(update(#""data":null"#), .malformed, "/data", "not null"),
        Bad(update(#""data":"{}""#), .malformed, "/data"),
        Bad(#"{"entity":"e","record_id":"r","action":"update"}"#, .validation, "", "changes nothing"),
        Bad(#"{"entity":"e","record_id":"r","action":"delete","data":{"a":1}}"#, .validation, "/data", "delete"),
        Bad(#"{"entity":"e","record_id":"r","action":"delete","unset":["a"]}"#, .validation, "/unset"),
        Bad(
            #"{"entity":"e","record_id":"r","action":"delete","ops":[{"field":"a","op":"inc","value":1}]}"#,
            .validation, "/ops"),
        Bad(update(#""data":{"a":1},"unset":["a"]"#), .validation, "/unset", "names a"),
        Bad(update(#""unset":"a""#), .malformed, "/unset"),
        Bad(update(#""unset":[1]"#), .malformed, "/unset/0"),
        Bad(update(#""unset":[""]"#), .validation, "/unset/0"),
        Bad(
            update(#""data":"# + String(repeating: #"{"a":"#, count: 33) + "1" + String(repeating: "}", count: 33)),
            .malformed, "/data", "32 levels"),
        // Operations
        Bad(update(#""ops":{}"#), .malformed, "/ops"),
        Bad(update(#""ops":[1]"#), .malformed, "/ops/0"),
        Bad(update(#""ops":[{"op":"inc","value":1}]"#), .malformed, "/ops/0/field"),
        Bad(update(#""ops":[{"field":"a","value":1}]"#), .malformed, "/ops/0/op"),
        Bad(update(#""ops":[{"field":"a","op":"inc"}]"#), .malformed, "/ops/0/value", "missing"),
        Bad(update(#""ops":[{"field":"a","op":"mul","value":2}]"#), .validation, "/ops/0/op", "append"),
        Bad(update(#""ops":[{"field":"a","op":"inc","value":"1"}]"#), .malformed, "/ops/0/value", "a number"),
        Bad(update(#""ops":[{"field":"a","op":"max","value":[]}]"#), .malformed, "/ops/0/value"),
        Bad(update(#""ops":[{"field":"a","op":"append","value":null}]"#), .malformed, "/ops/0/value"),
        Bad(update(#""ops":[{"field":"a","op":"inc","value":1,"by":2}]"#), .unknownMember, "/ops/0/by"),
        Bad(
            update(#""ops":[{"field":"a","op":"inc","value":1},{"field":"","op":"inc","value":1}]"#), .validation,
            "/ops/1/field"),
        Bad(
            update(
                #""ops":["#
                    + Array(repeating: #"{"field":"a","op":"inc","value":1}"#, count: 257).joined(separator: ",") + "]"),
            .validation, "/ops"),
        // Numbers and words
        Bad(update(#""data":{},"ttl":0"#), .validation, "/ttl", "from 1"),
        Bad(update(#""data":{},"ttl":-5"#), .validation, "/ttl"),
        Bad(update(#""data":{},"ttl":1.5"#), .malformed, "/ttl", "whole number"),
        Bad(update(#""data":{},"ttl":1e999"#), .malformed, "/ttl"),
        Bad(update(#""data":{},"ttl":9223372036854775808"#), .malformed, "/ttl"),
        Bad(update(#""data":{},"ttl":"60""#), .malformed, "/ttl"),
        Bad(update(#""data":{},"ttl":60,"priority":"critical""#), .validation, "/ttl", "critical"),
        Bad(update(#""data":{},"durability":"relaxed","priority":"critical""#), .validation, "/durability"),
        Bad(update(#""data":{},"durability":"full""#), .validation, "/durability", "flash, relaxed"),
        Bad(update(#""data":{},"priority":"urgent""#), .validation, "/priority", "critical, normal, bulk"),
        Bad(update(#""data":{},"priority":0"#), .malformed, "/priority"),
        Bad(update(#""data":{},"expect_version":-1"#), .validation, "/expect_version"),
        Bad(update(#""data":{},"expect_version":9007199254740993"#), .validation, "/expect_version"),
        Bad(update(#""data":{},"expect_version":1.5"#), .malformed, "/expect_version"),
        Bad(update(#""data":{},"if_match":7"#), .malformed, "/if_match", "a string"),
        Bad(update(#""data":{},"if_match":"""#), .validation, "/if_match", "etag"),
        Bad(update(#""data":{},"if_match":"a b""#), .validation, "/if_match", "etag"),
        Bad(update(#""data":{},"if_match":"\u00e4""#), .validation, "/if_match", "etag"),
        Bad(#"{"entity":"e","action":"create","if_match":"*"}"#, .validation, "/if_match", "create"),
        Bad(update(#""data":{},"coalesce":"yes""#), .malformed, "/coalesce", "a Boolean"),
        Bad(update(#""data":{},"author":"""#), .validation, "/author"),
        Bad(update(#""data":{},"author":"a\u001b[31m""#), .validation, "/author", "control"),
        Bad(update(#""data":{},"author":{}"#), .malformed, "/author"),
        Bad(update(#""data":{},"depends_on":"k""#), .malformed, "/depends_on"),
        Bad(update(#""data":{},"depends_on":["a b"]"#), .validation, "/depends_on/0"),
        Bad(update(#""data":{},"blobs":[{"field":"f"}]"#), .malformed, "/blobs/0/blob"),
        Bad(update(#""data":{},"blobs":[{"field":"f","blob":"b","x":1}]"#), .unknownMember, "/blobs/0/x"),
        Bad("[]", .malformed, "", "an object, not an array"),
        Bad("null", .malformed, "", "an object"),
    ]

    @Test("A fault is refused with its code, its place and the expected form", arguments: bad)
    func refuses(_ example: Bad) throws {
        let problem = try #require(throws: Problem.self) { try read(example.body) }
        #expect(problem.code == example.code.rawValue)
        #expect(problem.status == example.code.status)
        #expect(
            problem.errors.contains { $0.pointer == example.pointer && $0.detail.contains(example.says) },
            "\(problem.errors)")
    }

    @Test("All faults of a body come at once, the gravest gives the code, and their number is bounded")
    func collects() throws {
        let three = try #require(throws: Problem.self) { try read(#"{"entity":1,"action":"create","ttl":0,"x":1}"#) }
        #expect(three.code == "unknown-member")
        #expect(three.errors.map(\.pointer) == ["/entity", "/ttl", "/x"])
        #expect(three.detail.contains("and 2 more"))
        let many = (0..<1_000).map { #""x\#($0)":1"# }.joined(separator: ",")
        let thousand = try #require(throws: Problem.self) { try read("{\(many)}") }
        #expect(thousand.errors.count == 20)
    }

    struct Broken: Sendable {
        var body: [UInt8]
        var offset: Int

        init(_ text: String, at offset: Int) { (body, self.offset) = (Array(text.utf8), offset) }
        init(_ bytes: [UInt8], at offset: Int) { (body, self.offset) = (bytes, offset) }
    }

    @Test(
        "Text that is not JSON is refused with the position of the first wrong byte",
        arguments: [
            Broken("", at: 0), Broken("   ", at: 3), Broken("{", at: 1), Broken(#"{"a":1} x"#, at: 8),
            Broken("\u{FEFF}{}", at: 0), Broken(#"{"a":NaN}"#, at: 5), Broken(#"{"a":Infinity}"#, at: 5),
            Broken(#"{"a":1,/*c*/"b":2}"#, at: 7), Broken(#"{"a":1,"a":2}"#, at: 7), Broken(#"{"a":01}"#, at: 6),
            Broken(#"{"a":"\ud800"}"#, at: 6), Broken(#"{"a":"\u0000"}"#, at: 6),
            Broken([0x7B, 0x22, 0xFF, 0x22], at: 2),
            Broken(#"{"a":1,}"#, at: 7), Broken(String(repeating: "[", count: 100_000), at: 40),
        ])
    func refusesBrokenText(_ example: Broken) throws {
        let problem = try #require(throws: Problem.self) { try MutationBody.read(example.body) }
        #expect(problem.code == "malformed")
        #expect(problem.members["offset"]?.int == Int64(example.offset))
        #expect(problem.detail.contains("byte \(example.offset)"))
    }

    @Test("128 KiB are taken, one byte more is not")
    func size() throws {
        let frame = #"{"entity":"e","action":"create","data":{"x":""}}"#
        let fits = String(repeating: "y", count: (128 << 10) - frame.utf8.count)
        let largest = #"{"entity":"e","action":"create","data":{"x":"\#(fits)"}}"#
        #expect(try read(largest).size == 128 << 10)
        let problem = try #require(throws: Problem.self) {
            try read(#"{"entity":"e","action":"create","data":{"x":"\#(fits)y"}}"#)
        }
        #expect(problem.code == "too-large")
        #expect(problem.status == 413)
    }

    @Test("Odd but valid content comes back byte for byte")
    func keepsContent() throws {
        // The last two names are the same text in two normalisation forms: different bytes, so different names.
        let data = #"{"n":-0,"e":1e999,"i":9007199254740993,"d":1.10,"s":"\u202eabc","# + "\"\u{E9}\":1,\"e\u{301}\":2}"
        let read = try read(#"{"entity":"e","action":"create","data":\#(data)}"#).data
        #expect(read.bytes == Array(data.utf8))
    }

    @Test("No mutation with random parts replaced traps; it is read or refused")
    func survivesNoise() {
        let whole = Array(
            #"{"entity":"e","record_id":"r","action":"update","data":{"a":1},"ops":[{"field":"f","op":"inc","value":1}],"ttl":5,"unset":["b"]}"#
                .utf8)
        var random = SeededRandom(seed: 11)
        for _ in 0..<20_000 {
            var bytes = whole
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[index] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.remove(at: index)
                default: bytes.insert(UInt8(ascii: "{"), at: index)
                }
            }
            do throws(Problem) {
                let mutation = try MutationBody.read(bytes)
                #expect(mutation.size == bytes.count)
            } catch {
                #expect(LocalProblem(error) != nil)
            }
        }
    }

    private func read(_ text: String) throws(Problem) -> NewMutation { try MutationBody.read(Array(text.utf8)) }
}
