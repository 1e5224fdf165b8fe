import SyncCore
import Testing

/// Memory that a message may cost besides its bytes.
@Suite("Memory of messages")
struct JSONMemoryTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var text: String
        var expected: String
    }

    @Test(
        "An answer of a million tiny values is refused before it takes more than its share",
        arguments: [
            Case(
                testDescription: "a million fields", text: "{" + (0..<1_000_000).map { "\"\($0)\":0" }.joined(separator: ",") + "}",
                expected: "at most 65536 members in an object"),
            Case(
                testDescription: "a million objects",
                text: "[" + Array(repeating: #"{"a":1}"#, count: 1_000_000).joined(separator: ",") + "]",
                expected: "values that take at most 67108864 bytes of memory"),
            Case(
                testDescription: "a million lists", text: "[" + Array(repeating: "[]", count: 1_100_000).joined(separator: ",") + "]",
                expected: "values that take at most 67108864 bytes of memory"),
        ])
    func refused(_ example: Case) {
        let error = #expect(throws: JSONError.self) { try JSONReader.read(example.text, limits: .answer) }
        #expect(error?.code == .tooMany && error?.expected == example.expected)
        // It stops there: nothing behind that place is looked at.
        #expect((error?.offset ?? .max) < example.text.utf8.count / 2 + 1_000_000)
    }

    @Test("The fullest page that a hub makes is read", arguments: [#"{"a":1}"#, "[]", "1", #""xxxxxxxxxxxxxxxx""#, #"{"a":[{}]}"#])
    func pages(_ value: String) throws {
        let count = (Limits.pullBytes + Limits.documentBytes) / (value.utf8.count + 1)
        let text = "[" + Array(repeating: value, count: count).joined(separator: ",") + "]"
        #expect(try JSONReader.read(text, limits: .answer).array?.count == count)
    }

    @Test("A document with as many members as its bytes have room for is no answer too large")
    func members() throws {
        var text = "{"
        var number = 0
        while text.utf8.count < Limits.documentBytes - 16 {
            text += "\(number == 0 ? "" : ",")\"\(String(number, radix: 36))\":1"
            number += 1
        }
        #expect(try JSONReader.read(text + "}", limits: .answer).object?.count == number)
    }

    @Test("Documents that this program has stored are read with all names, depths and counts")
    func stored() throws {
        let name = String(repeating: "\u{1}", count: 30_000)
        let deep = (0..<100).reduce(JSON.object([name: 1])) { value, _ in [value] }
        #expect(try JSONReader.read(deep.json, limits: .stored) == deep)
        #expect(throws: JSONError.self) { try JSONReader.read(deep.json) }
        #expect(throws: JSONError.self) { try JSONReader.read(String(repeating: "[", count: 200_000), limits: .stored) }
    }
}
