import SyncCore
import Testing

@Suite("JSON values and writer")
struct JSONValueTests {
    @Test(
        "A sent value comes back byte for byte",
        arguments: [
            "9007199254740993", "1.10", "-0", "1E400", "1e-400", "0.1e1", "123456789012345678901234567890.5",
            #""\u0041\/\n""#, "\"e\u{301}\"", "\"\u{212B}\"", "\"\u{202E}abc\"", #"{"b":1,"a":{"z":[1.0,"x"],"y":null}}"#,
            "[]", "{}", "[[],{},\"\",0,true,false,null]",
        ])
    func roundTrip(_ text: String) throws {
        #expect(try JSONReader.read(text).bytes == Array(text.utf8))
    }

    @Test("A random tree is read back as it was written, byte for byte and by meaning")
    func randomRoundTrip() throws {
        var random = SeededRandom(seed: 20_261_120)
        for _ in 0..<500 {
            let json = Self.tree(depth: 4, using: &random)
            let again = try JSONReader.read(json.bytes)
            #expect(again == json)
            #expect(again.bytes == json.bytes)
            #expect(again.hashValue == json.hashValue)
        }
    }

    struct Pair: Sendable {
        var left: String
        var right: String
        var isEqual: Bool
    }

    @Test(
        "Equality is by meaning: numbers by value, text by UTF-8, members in any order",
        arguments: [
            Pair(left: "1.10", right: "1.1", isEqual: true),
            Pair(left: "100", right: "1e2", isEqual: true),
            Pair(left: "0", right: "-0.00e7", isEqual: true),
            Pair(left: "9007199254740993", right: "9007199254740992", isEqual: false),
            Pair(left: "0.1", right: "0.10000000000000000555", isEqual: false),
            Pair(left: "1e400", right: "1e401", isEqual: false),
            Pair(left: #""\u0041""#, right: "\"A\"", isEqual: true),
            Pair(left: #""\/""#, right: "\"/\"", isEqual: true),
            Pair(left: #""\u0041""#, right: "\"B\"", isEqual: false),
            Pair(left: #""\\a""#, right: "\"a\"", isEqual: false),
            Pair(left: "\"\"", right: "\"a\"", isEqual: false),
            Pair(left: "\"ab\"", right: "\"ac\"", isEqual: false),
            Pair(left: "\"\u{E9}\"", right: "\"e\u{301}\"", isEqual: false),
            Pair(left: #"{"a":1,"b":2}"#, right: #"{"b":2.0,"a":1}"#, isEqual: true),
            Pair(left: #"{"a":1}"#, right: #"{"a":1,"b":null}"#, isEqual: false),
            Pair(left: #"{"a":1,"b":2}"#, right: #"{"a":1,"c":2}"#, isEqual: false),
            Pair(left: "[1,2]", right: "[2,1]", isEqual: false),
            Pair(left: "\"1\"", right: "1", isEqual: false),
            Pair(left: "null", right: "false", isEqual: false),
        ])
    func equality(_ pair: Pair) throws {
        let left = try JSONReader.read(pair.left), right = try JSONReader.read(pair.right)
        #expect((left == right) == pair.isEqual)
        #expect((right == left) == pair.isEqual)
        if pair.isEqual { #expect(left.hashValue == right.hashValue) }
    }

    @Test("Text is escaped as far as RFC 8259 demands and no further")
    func escapes() {
        #expect(JSON.string("é\u{2028}/").json == "\"é\u{2028}/\"")
        #expect(JSON.string("\"\\\n\r\t\u{8}\u{C}\u{1}\u{1F}").json == #""\"\\\n\r\t\b\f\u0001\u001f""#)
    }

    @Test("Every scalar survives writing and reading")
    func scalars() throws {
        for value in stride(from: UInt32(1), through: 0x10FFFF, by: 37) {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let text = String(Character(scalar))
            let again = try JSONReader.read(JSON.string(text).bytes).text
            #expect(again?.utf8.elementsEqual(text.utf8) == true)
        }
    }

    @Test("A member is read by the name it means, however it was written")
    func memberByMeaning() throws {
        let object = try #require(try JSONReader.read(#"{"\u0061b":1,"c\/d":2,"\\":3}"#).object)
        #expect(object["ab"] == 1)
        #expect(object["c/d"] == 2)
        #expect(object["\\"] == 3)
        #expect(object[#"\\"#] == nil)
        #expect(object[#"\u0061b"#] == nil)
    }

    @Test("Replacing keeps a member's place, removing closes the gap, adding puts it last")
    func members() {
        var object: JSONObject = ["a": 1, "b": 2, "c": 3]
        object["b"] = "x"
        #expect(object.json == #"{"a":1,"b":"x","c":3}"#)
        object["a"] = nil
        object["d"] = nil
        object["e"] = .null
        #expect(object.json == #"{"b":"x","c":3,"e":null}"#)
        #expect(object.names == ["b", "c", "e"])
    }

    @Test("The writer sets commas and colons by itself, at every level")
    func writer() {
        let nothing: Int64? = nil
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("a", 1 as Int64)
            writer.member("skipped", nothing)
            writer.name("list")
            writer.array { writer in
                writer.int(-1)
                writer.null()
                writer.object { _ in }
                writer.array { writer in writer.bool(true) }
                writer.raw("[1.0]")
            }
            writer.member("text", "q\"")
            writer.member("flag", false)
        }
        #expect(
            String(decoding: writer.bytes, as: UTF8.self)
                == #"{"a":1,"list":[-1,null,{},[true],[1.0]],"text":"q\"","flag":false}"#)
    }

    @Test(
        "Whole numbers are read exactly, whatever their notation, and others are not whole",
        arguments: [
            ("0", 0), ("-7", -7), ("9223372036854775807", .max), ("-9223372036854775808", .min), ("1e3", 1_000),
            ("1.0", 1), ("12e-1", nil), ("1.5", nil), ("9223372036854775808", nil), ("1e19", nil), ("1e400", nil),
            ("1e9223372036854775807", nil),
        ] as [(String, Int64?)])
    func whole(_ text: String, _ value: Int64?) throws {
        #expect(try JSONReader.read(text).int == value)
    }

    @Test("JSON has no NaN and no infinity")
    func doubles() {
        #expect(JSONNumber(Double.nan) == nil)
        #expect(JSONNumber(Double.infinity) == nil)
        for value in [0.1, -2.5e-300, 1e16, .leastNonzeroMagnitude, .greatestFiniteMagnitude, 3] {
            let number = JSONNumber(value)
            #expect(number?.double == value)
            #expect(throws: Never.self) { try JSONReader.read(number?.source ?? "") }
        }
    }

    /// A tree whose leaves are as nasty as they get.
    private static func tree(depth: Int, using random: inout SeededRandom) -> JSON {
        let texts = ["", "a", "é", "e\u{301}", "\"\\\n", "😀", "\u{7F}\u{FFFF}", "\u{1}"]
        let numbers = ["0", "-0", "1.10", "1e400", "-2.5E-3", "9007199254740993"]
        switch Int.random(in: 0..<(depth > 0 ? 7 : 5), using: &random) {
        case 0: return .null
        case 1: return .bool(Bool.random(using: &random))
        case 2, 3: return .string(texts[Int.random(in: 0..<texts.count, using: &random)])
        case 4:
            let text = numbers[Int.random(in: 0..<numbers.count, using: &random)]
            return (try? JSONReader.read(text)) ?? .null
        case 5: return .array((0..<Int.random(in: 0...4, using: &random)).map { _ in tree(depth: depth - 1, using: &random) })
        default:
            var object = JSONObject()
            for index in 0..<Int.random(in: 0...20, using: &random) {
                object[texts[Int.random(in: 0..<texts.count, using: &random)] + "\(index)"] =
                    tree(depth: index < 2 ? depth - 1 : 0, using: &random)
            }
            return .object(object)
        }
    }
}
