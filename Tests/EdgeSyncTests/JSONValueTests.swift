import EdgeSync
import Testing

@Suite("JSON of the library for apps")
struct JSONValueTests {
    @Test(
        "A text comes back byte for byte",
        arguments: [
            "0", "-0", "-0.0", "1.10", "0.1000000000000000055", "9007199254740993", "9223372036854775807", "-9223372036854775808",
            "9223372036854775808", "18446744073709551616", "1e400", "-1E-400", "1.0e+05", "123456789012345678901234567890.5",
            "null", "true", "false", #""""#, #""e\#u{301} é 😀 \"\\\n\t\r\b\f\u0000\u001f""#, "[]", "{}",
            #"{"z":1,"a":[1,2,[]],"":{}}"#, "{\"\u{e9}\":1,\"e\u{301}\":2}",
        ])
    func roundTrip(_ text: String) throws {
        let again = try JSONValue(json: text).description
        #expect(Array(again.utf8) == Array(text.utf8))
    }

    @Test("A whole number of 64 bits is an integer, and every other number keeps its text")
    func numbers() throws {
        #expect(try JSONValue(json: "9007199254740993") == .integer(9_007_199_254_740_993))
        #expect(try JSONValue(json: "9223372036854775808") == .decimal("9223372036854775808"))
        #expect(try JSONValue(json: "0.1000000000000000055") == .decimal("0.1000000000000000055"))
        #expect(try JSONValue(json: "-0") == .decimal("-0"))
        #expect(try JSONValue(json: "1.5").double == 1.5)
        #expect(try JSONValue(json: "7").number?.text == "7")
        #expect(try JSONValue(json: "18446744073709551615").number?.integer(as: UInt64.self) == .max)
    }

    @Test(
        "A text that is not JSON to the letter is refused",
        arguments: [
            "", " ", "01", "+1", ".5", "1.", "1e", "-", "NaN", "Infinity", "tru", "nulll", "'a'", "[1,]", "[,1]", "[1 2]", "{,}",
            #"{"a":1,}"#, #"{"a" 1}"#, "{a:1}", #"{"a":1,"a":1}"#, #"{"a":1,"\u0061":2}"#, "[", "{", #"{"a""#, #""a"#, "\"\n\"",
            #""\x""#, #""\u12""#, #""\ud800""#, #""\ud800\u0041""#, #""\udc00""#, "1 2", "[1]]", "\u{feff}1", "\u{a0}1",
        ])
    func refuses(_ text: String) {
        #expect {
            try JSONValue(json: text)
        } throws: { ($0 as? EdgeSyncError)?.kind == .invalidArgument }
    }

    @Test("64 levels are read and one more is refused, also where it would be sent")
    func levels() throws {
        let deep = { (levels: Int) in String(repeating: "[", count: levels) + String(repeating: "]", count: levels) }
        #expect(try JSONValue(json: deep(64)).description == deep(64))
        #expect(throws: EdgeSyncError.self) { try JSONValue(json: deep(65)) }
        #expect(throws: EdgeSyncError.self) { try JSONValue(json: String(repeating: "[", count: 1_000_000)) }
    }

    @Test("A surrogate pair is one character")
    func surrogates() throws {
        #expect(try JSONValue(json: #""\ud83d\ude00 \u00e9""#) == "😀 é")
    }

    @Test("An object keeps its order, and names that differ in their normal form are two members")
    func objects() throws {
        var object: JSONObject = ["b": 1, "a": 2]
        object["c"] = .null
        object["b"] = nil
        object["a"] = 3
        #expect(object.description == #"{"a":3,"c":null}"#)
        #expect(object == ["c": nil, "a": 3])
        #expect(object != ["a": 3])
        object["\u{e9}"] = 1
        object["e\u{301}"] = 2
        #expect(object.count == 4)
        #expect(object["\u{e9}"] == 1)
    }

    @Test("Large objects are found, changed and compared by name as small ones are")
    func largeObjects() throws {
        var object = JSONObject()
        for number in 0..<2000 { object["n\(number)"] = .integer(Int64(number)) }
        object["n5"] = nil
        object["n6"] = "six"
        #expect(object.count == 1999)
        #expect(object["n5"] == nil && object["n6"] == "six" && object["n1999"] == 1999)
        #expect(try JSONValue(json: object.description) == .object(object))
        #expect(throws: EdgeSyncError.self) { try JSONValue(json: object.description.dropLast() + #","n7":0}"#) }
    }

    @Test("A number that is none has no text")
    func badNumbers() {
        for text in ["", "1 ", " 1", "1,5", "0x1", "1_0", "٣"] { #expect(JSONNumber(text) == nil, "\(text)") }
        #expect(JSONNumber(Double.nan) == nil && JSONNumber(Double.infinity) == nil)
        #expect(JSONNumber(1e21)?.text == "1e+21" && JSONNumber(0.1)?.text == "0.1")
    }
}

@Suite("Types of the app as JSON")
struct JSONCodingTests {
    struct Order: Codable, Equatable {
        enum Level: String, Codable { case low, high }

        var title: String
        var count: UInt64
        var price: JSONNumber
        var ratio: Double
        var level: Level
        var note: String?
        var tags: [String]
        var sites: [String: [Int]]
        var extra: JSONValue
    }

    @Test("A type of the app comes back as it was, and each number keeps its text")
    func roundTrip() throws {
        let order = Order(
            title: "é", count: .max, price: "1.10", ratio: 0.1, level: .high, note: nil, tags: ["a", "b"],
            sites: ["north": [1, 2]], extra: ["n": .decimal("0.1000000000000000055"), "m": [nil, true]])
        let object = try JSONObject(encoding: order)
        #expect(
            object.description
                == #"{"title":"é","count":18446744073709551615,"price":1.10,"ratio":0.1,"level":"high","tags":["a","b"],"#
                + #""sites":{"north":[1,2]},"extra":{"n":0.1000000000000000055,"m":[null,true]}}"#)
        #expect(try object.decode(Order.self) == order)
        #expect(try JSONValue(json: object.description).decode(Order.self) == order)
    }

    @Test("A number that does not fit the type is an error with its place, and not another number")
    func doesNotFit() throws {
        struct Small: Decodable { var n: Int8 }
        for text in ["128", "1.0", "1e1", "99999999999999999999", #""1""#, "true", "null"] {
            let value = try JSONValue(json: #"{"list":[{"n":\#(text)}]}"#)
            #expect {
                try value.decode([String: [Small]].self)
            } throws: { error in
                guard case DecodingError.typeMismatch(_, let context)? = error as? DecodingError else {
                    // Optional members look for null before the type.
                    if case DecodingError.valueNotFound? = error as? DecodingError { return true }
                    return false
                }
                return context.codingPath.map(\.stringValue) == ["list", "0", "n"]
            }
        }
        #expect(throws: EncodingError.self) { try JSONValue(encoding: [Double.infinity]) }
        #expect(throws: EncodingError.self) { try JSONObject(encoding: [1]) }
        #expect(throws: DecodingError.self) { try JSONValue(json: "1e999").decode(Double.self) }
    }

    @Test("Superclasses and nested containers are encoded where they belong")
    func containers() throws {
        class Base: Codable { var base = 1 }
        final class Derived: Base {
            var own = 2
            enum Keys: String, CodingKey { case own }
            override init() { super.init() }
            required init(from decoder: any Decoder) throws {
                let container = try decoder.container(keyedBy: Keys.self)
                try super.init(from: container.superDecoder())
                own = try container.decode(Int.self, forKey: .own)
            }
            override func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Keys.self)
                try super.encode(to: container.superEncoder())
                try container.encode(own, forKey: .own)
            }
        }
        let value = try JSONValue(encoding: [Derived()])
        #expect(value.description == #"[{"super":{"base":1},"own":2}]"#)
        let read = try value.decode([Derived].self)
        #expect(read[0].base == 1 && read[0].own == 2)
    }
}
