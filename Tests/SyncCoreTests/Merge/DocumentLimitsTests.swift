import SyncCore
import Testing

/// A change is measured by what it makes of its document.
@Suite("Limits of documents")
struct DocumentLimitsTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var content: MutationContent
        var before: JSONObject? = [:]
        /// `nil`: within the limits.
        var pointer: String?
    }

    private static func nested(_ levels: Int) -> JSON { (0..<levels).reduce(1) { value, _ in [value] } }
    private static func fields(_ count: Int, from first: Int = 0) -> JSONObject {
        var object = JSONObject()
        for number in first..<(first + count) { object["f\(number)"] = 1 }
        return object
    }
    private static let long = String(repeating: "n", count: 257)

    private static let cases = [
        Case(testDescription: "a value of 31 levels in a field", content: .init(.update, data: ["f": nested(31)])),
        Case(testDescription: "a value of 32 levels in a field", content: .init(.update, data: ["f": nested(32)]), pointer: "/data/f"),
        Case(testDescription: "an element of 30 levels in a set", content: .init(.update, operations: [.init("f", .add, nested(30))])),
        Case(
            testDescription: "an element of 31 levels in a set", content: .init(.update, operations: [.init("f", .add, nested(31))]),
            pointer: "/ops/0"),
        Case(
            testDescription: "an element of 31 levels behind a list",
            content: .init(.update, operations: [.init("f", .append, ["a": nested(30)])]),
            before: ["f": [1]], pointer: "/ops/0"),
        Case(testDescription: "a name of 256 bytes", content: .init(.update, operations: [.init(String(long.dropFirst()), .increment, 1)])),
        Case(testDescription: "a name of 257 bytes", content: .init(.update, operations: [.init(long, .increment, 1)]), pointer: "/ops/0"),
        Case(
            testDescription: "a name of 60 control characters",
            content: .init(.update, operations: [.init(String(repeating: "\u{1}", count: 60), .increment, 1)]),
            pointer: "/ops/0"),
        Case(
            testDescription: "a name of 200 quotes",
            content: .init(.update, operations: [.init(String(repeating: "\"", count: 200), .increment, 1)]),
            pointer: "/ops/0"),
        Case(testDescription: "a removal of a name of 257 bytes", content: .init(.update, unset: [long]), pointer: "/unset/0"),
        Case(testDescription: "2,048 fields", content: .init(.create, data: fields(2_048)), before: nil),
        Case(testDescription: "2,049 fields", content: .init(.create, data: fields(2_049)), before: nil, pointer: "/data"),
        Case(
            testDescription: "one field more than 2,048", content: .init(.update, data: ["new": 1]), before: fields(2_048), pointer: "/data"
        ),
        Case(testDescription: "one field for another", content: .init(.update, data: ["new": 1], unset: ["f0"]), before: fields(2_048)),
        // Documents of an earlier version: a change that takes them no further beyond the limits is accepted.
        Case(testDescription: "another field of a deep document", content: .init(.update, data: ["other": 1]), before: ["f": nested(33)]),
        Case(testDescription: "as deep as it was", content: .init(.update, data: ["f": nested(33)]), before: ["f": nested(33)]),
        Case(
            testDescription: "deeper than it was", content: .init(.update, data: ["f": nested(34)]), before: ["f": nested(33)],
            pointer: "/data/f"),
        Case(
            testDescription: "a field with a long name", content: .init(.update, operations: [.init(long, .increment, 1)]),
            before: [long: 1]),
        Case(testDescription: "removing a long name", content: .init(.update, unset: [long]), before: [long: 1]),
        Case(testDescription: "no more fields than it had", content: .init(.update, data: ["f0": 2]), before: fields(5_000)),
        Case(
            testDescription: "more fields than it had", content: .init(.update, data: ["new": 2]), before: fields(5_000), pointer: "/data"),
    ]

    @Test("The document after a change is within the limits, or the change is refused with a pointer", arguments: cases)
    func limits(_ example: Case) throws {
        let result = try #require(Fold.apply(example.content, to: example.before))
        let problem = DocumentLimits.fault(of: example.content, in: result, over: example.before, at: "/m")
        #expect(problem?.errors.map(\.pointer) == example.pointer.map { ["/m" + $0] })
        #expect(problem?.status ?? 422 == 422)
    }

    @Test("A document within the limits is read by every reader, stored and as a message", arguments: cases.filter { $0.pointer == nil })
    func isReadable(_ example: Case) throws {
        let result = JSON.object(try #require(Fold.apply(example.content, to: example.before)))
        #expect(try JSONReader.read(result.json, limits: .stored) == result)
        let answer: JSON = ["streams": [["records": [["data": result]]]]]
        #expect(try JSONReader.read(answer.json, limits: .answer) == answer)
    }

    @Test("A long name deep in a document is found, however it is written")
    func longNames() throws {
        func content(_ data: JSON) -> [UInt8] {
            let item: JSON = [
                "seq": 1, "idempotency_key": "k", "entity": "e", "record_id": "r", "action": "update", "base_version": 0,
                "hlc": "0199c3f2a1b4-0007-9f2c11ab", "data": data,
            ]
            return JSON.object(["mutations": [item]]).bytes
        }
        let longest = String(repeating: "n", count: 256)
        for (name, isRefused) in [(longest, false), (longest + "n", true), (String(repeating: "\"", count: 129), true)] {
            let push = try PushMessages.readRequest(content(["f": [["x": .object([name: 1])]]]))
            let problem: Problem? = if case .failure(let problem) = push.items[0].content { problem } else { nil }
            #expect(problem?.errors.map(\.pointer) == (isRefused ? ["/mutations/0/data"] : nil), "\(name.utf8.count) bytes")
        }
    }
}
