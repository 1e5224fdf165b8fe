import SyncCore
import Testing

@Suite("JSON reader")
struct JSONReaderTests {
    struct Valid: Sendable {
        var text: String
        var value: JSON
    }

    @Test(
        "Every form that RFC 8259 allows is read",
        arguments: [
            Valid(text: "null", value: .null),
            Valid(text: "true", value: true),
            Valid(text: "false", value: false),
            Valid(text: "0", value: 0),
            Valid(text: "-0", value: 0),
            Valid(text: "-12", value: -12),
            Valid(text: "1.5E+2", value: 150),
            Valid(text: "1e-2", value: .number(JSONNumber(0.01)!)),
            Valid(text: "\"\"", value: ""),
            Valid(text: "\"a b\"", value: "a b"),
            Valid(text: #""\"\\\/\b\f\n\r\t""#, value: "\"\\/\u{8}\u{C}\n\r\t"),
            Valid(text: #""\u0041\u00e9\u20AC""#, value: "Aé€"),
            Valid(text: #""\ud83d\ude00""#, value: "😀"),
            Valid(text: "\"é€😀\u{7F}\"", value: "é€😀\u{7F}"),
            Valid(text: "[]", value: []),
            Valid(text: " [ 1 , [ ] , { } ] ", value: [1, [], [:]]),
            Valid(text: "\t{\"a\" :\r\n1,\"b\":[null]}\n", value: ["a": 1, "b": [nil]]),
            Valid(text: "{\"\":0}", value: ["": 0]),
        ])
    func reads(_ example: Valid) throws {
        #expect(try JSONReader.read(example.text) == example.value)
    }

    struct Invalid: Sendable {
        var text: [UInt8]
        var code: JSONError.Code
        var offset: Int

        init(_ text: String, _ code: JSONError.Code, at offset: Int) {
            self.init(bytes: Array(text.utf8), code, at: offset)
        }

        init(bytes: [UInt8], _ code: JSONError.Code, at offset: Int) {
            text = bytes
            self.code = code
            self.offset = offset
        }
    }

    @Test(
        "Everything else is refused with its code and the byte where it went wrong",
        arguments: [
            Invalid("", .truncated, at: 0),
            Invalid("  ", .truncated, at: 2),
            Invalid("{", .truncated, at: 1),
            Invalid("{\"a\"", .truncated, at: 4),
            Invalid("{\"a\":", .truncated, at: 5),
            Invalid("{\"a\":1", .truncated, at: 6),
            Invalid("[1,", .truncated, at: 3),
            Invalid("\"abc", .truncated, at: 4),
            Invalid("\"abc\\", .truncated, at: 4),
            Invalid("\"\\u12", .truncated, at: 1),
            Invalid("-", .truncated, at: 1),
            Invalid("1.", .truncated, at: 2),
            Invalid("1e+", .truncated, at: 3),
            Invalid("tru", .truncated, at: 0),
            Invalid("1 2", .trailing, at: 2),
            Invalid("{}]", .trailing, at: 2),
            Invalid("null\0", .trailing, at: 4),
            Invalid("\u{FEFF}{}", .unexpected, at: 0),
            Invalid("NaN", .unexpected, at: 0),
            Invalid("-Infinity", .badNumber, at: 1),
            Invalid("// x\n1", .unexpected, at: 0),
            Invalid("[1 /* x */]", .unexpected, at: 3),
            Invalid("'a'", .unexpected, at: 0),
            Invalid("{a:1}", .unexpected, at: 1),
            Invalid("{\"a\":1,}", .unexpected, at: 7),
            Invalid("[1,]", .unexpected, at: 3),
            Invalid("[,1]", .unexpected, at: 1),
            Invalid("{\"a\" 1}", .unexpected, at: 5),
            Invalid("[1 2]", .unexpected, at: 3),
            Invalid("True", .unexpected, at: 0),
            Invalid("nulk", .unexpected, at: 0),
            Invalid("[1}", .unexpected, at: 2),
            Invalid("01", .badNumber, at: 1),
            Invalid("-01", .badNumber, at: 2),
            Invalid("1.e1", .badNumber, at: 2),
            Invalid(".5", .unexpected, at: 0),
            Invalid("+1", .unexpected, at: 0),
            Invalid("1ex", .badNumber, at: 2),
            Invalid("0x10", .trailing, at: 1),
            Invalid("\"\\x\"", .badEscape, at: 1),
            Invalid("\"\\u00g0\"", .badEscape, at: 1),
            Invalid("\"a\\u0000\"", .badEscape, at: 2),
            Invalid("\"\\ud83d\"", .badEscape, at: 1),
            Invalid("\"\\ud83dx\"", .badEscape, at: 1),
            Invalid("\"\\ud83d\\u0041\"", .badEscape, at: 1),
            Invalid("\"\\ude00\"", .badEscape, at: 1),
            Invalid("\"a\nb\"", .controlCharacter, at: 2),
            Invalid("\"\u{1F}\"", .controlCharacter, at: 1),
            Invalid(bytes: [0x22, 0xFF, 0x22], .badUTF8, at: 1),
            // An overlong slash, a surrogate as UTF-8, a scalar past U+10FFFF, a sequence cut short, a lone continuation.
            Invalid(bytes: [0x22, 0xC0, 0xAF, 0x22], .badUTF8, at: 1),
            Invalid(bytes: [0x22, 0xE0, 0x80, 0xAF, 0x22], .badUTF8, at: 1),
            Invalid(bytes: [0x22, 0xED, 0xA0, 0x80, 0x22], .badUTF8, at: 1),
            Invalid(bytes: [0x22, 0xF4, 0x90, 0x80, 0x80, 0x22], .badUTF8, at: 1),
            Invalid(bytes: [0x22, 0xF0, 0x80, 0x80, 0x80, 0x22], .badUTF8, at: 1),
            Invalid(bytes: [0x22, 0xE2, 0x82], .badUTF8, at: 1),
            Invalid(bytes: [0x22, 0xE2, 0x22, 0x22, 0x22], .badUTF8, at: 1),
            Invalid(bytes: [0x22, 0x80, 0x22], .badUTF8, at: 1),
            Invalid(#"{"a":1,"a":2}"#, .duplicateName, at: 7),
            // The same name, written differently.
            Invalid(#"{"a":1,"\u0061":2}"#, .duplicateName, at: 7),
        ])
    func refuses(_ example: Invalid) {
        #expect(
            throws: JSONError.self,
            performing: { try JSONReader.read(example.text) })
        do {
            _ = try JSONReader.read(example.text)
        } catch {
            #expect(error.code == example.code)
            #expect(error.offset == example.offset)
            #expect(!error.expected.isEmpty)
        }
    }

    @Test("Names in different normalisation forms are different names")
    func normalisation() throws {
        let json = try JSONReader.read("{\"\u{E9}\":1,\"e\u{301}\":2}")
        #expect(json.object?.count == 2)
        #expect(json.object?["\u{E9}"] == 1)
        #expect(json.object?["e\u{301}"] == 2)
    }

    @Test("A duplicate among many names is found as well", arguments: [2, 15, 16, 17, 400])
    func manyNames(_ count: Int) {
        let members = (0..<count).map { "\"n\($0)\":\($0)" }
        #expect(throws: Never.self) { try JSONReader.read("{" + members.joined(separator: ",") + "}") }
        let error = #expect(throws: JSONError.self) {
            try JSONReader.read("{" + (members + ["\"n1\":0"]).joined(separator: ",") + "}")
        }
        #expect(error?.code == .duplicateName)
    }

    @Test("Nesting ends at 32 levels, far from any stack")
    func depth() throws {
        let deepest = String(repeating: "[", count: 32) + String(repeating: "]", count: 32)
        #expect(throws: Never.self) { try JSONReader.read(deepest) }
        for text in ["[" + deepest + "]", String(repeating: "[", count: 100_000), String(repeating: "{\"a\":", count: 50_000)] {
            let error = #expect(throws: JSONError.self) { try JSONReader.read(text) }
            #expect(error?.code == .tooDeep)
        }
    }

    @Test("A name may have 256 bytes and no more")
    func longName() throws {
        let name = String(repeating: "n", count: 256)
        #expect(throws: Never.self) { try JSONReader.read("{\"\(name)\":1}") }
        let error = #expect(throws: JSONError.self) { try JSONReader.read("{\"\(name)n\":1}") }
        #expect(error?.code == .nameTooLong)
        #expect(error?.offset == 1)
    }

    @Test("The number of values is bounded")
    func manyValues() throws {
        var limits = JSONReader.Limits()
        limits.values = 4
        #expect(try JSONReader.read("[1,2,3]", limits: limits) == [1, 2, 3])
        let error = #expect(throws: JSONError.self) { try JSONReader.read("[1,2,3,4]", limits: limits) }
        #expect(error?.code == .tooMany)
    }

    @Test("A number may have 1000 characters and no more")
    func longNumber() throws {
        let digits = String(repeating: "7", count: 1_000)
        #expect(try JSONReader.read(digits).json == digits)
        let error = #expect(throws: JSONError.self) { try JSONReader.read(digits + "7") }
        #expect(error?.code == .badNumber)
    }

    @Test("No cut and no changed byte of a document makes the reader trap, and no cut passes for a document")
    func damage() throws {
        let text = Array(#"{"a":[1,-2.5e+3,"x\u00e9\ud83d\ude00é",true,false,null],"b":{"c":{}}}"#.utf8)
        #expect(throws: Never.self) { try JSONReader.read(text) }
        for end in 0..<text.count {
            #expect(throws: JSONError.self) { try JSONReader.read(Array(text[..<end])) }
        }
        var random = SeededRandom(seed: 7)
        for _ in 0..<5_000 {
            var damaged = text
            for _ in 0...Int.random(in: 0...2, using: &random) {
                damaged[Int.random(in: 0..<damaged.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            // Either it is still JSON, then it comes back byte for byte apart from spaces, or it is refused.
            guard let json = try? JSONReader.read(damaged) else { continue }
            #expect(try JSONReader.read(json.bytes) == json)
        }
    }
}
