import Foundation
import SyncCore
import SyncStore
import Testing

/// Documents of the mirror: limited by what a change makes of them, and whole or damaged, never empty.
@Suite("Documents of the mirror")
struct DocumentTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var data: JSONObject = [:]
        var operations: [FieldOperation] = []
        var unset: [String] = []
        var pointer: String
    }

    private static func nested(_ levels: Int) -> JSON { (0..<levels).reduce(1) { value, _ in [value] } }

    private static func fields(_ count: Int) -> JSONObject {
        var object = JSONObject()
        for number in 0..<count { object["f\(number)"] = 1 }
        return object
    }

    private static let cases = [
        Case(
            testDescription: "an element of 31 levels", operations: [.init("n", .increment, 1), .init("s", .add, nested(31))],
            pointer: "/ops/1"),
        Case(testDescription: "an element of 32 levels", operations: [.init("list", .append, ["a": nested(31)])], pointer: "/ops/0"),
        Case(
            testDescription: "a name of 60 control characters", operations: [.init(String(repeating: "\u{1}", count: 60), .increment, 1)],
            pointer: "/ops/0"),
        Case(testDescription: "a name of 200 quotes", operations: [.init(String(repeating: "\"", count: 200), .add, 1)], pointer: "/ops/0"),
        Case(testDescription: "one field too many", data: fields(2_047), pointer: "/data"),
    ]

    @Test("A change whose result is past a limit is refused with its place, and leaves no trace", arguments: cases)
    func refused(_ example: Case) throws {
        let agent = try TestAgent()
        try agent.create("a", ["precious": 1, "list": []])
        var mutation = TestAgent.mutation(.update, "a", example.data)
        mutation.operations = example.operations
        let problem = agent.refusal(mutation)
        #expect(problem?.code == "validation" && problem?.status == 422)
        #expect(problem?.errors.map(\.pointer) == [example.pointer])
        #expect(try agent.view("a") == #"{"precious":1,"list":[]}"#)
        try agent.update("a", ["later": 1])
        #expect(try agent.view("a") == #"{"precious":1,"list":[],"later":1}"#)
    }

    @Test("An event is limited like a record", arguments: cases)
    func events(_ example: Case) throws {
        let agent = try TestAgent()
        var mutation = TestAgent.mutation(.create, nil, example.data.isEmpty ? [:] : Self.fields(2_049), entity: "reading")
        mutation.operations = example.operations
        #expect(agent.refusal(mutation)?.errors.map(\.pointer) == [example.pointer])
    }

    #if ABLATIONS
        @Test("A document of an earlier version that is past the limits keeps all of it through later changes", arguments: cases)
        func earlierVersion(_ example: Case) throws {
            let folder = try TemporaryFolder()
            var older: TestAgent? = try TestAgent(ablations: Ablations([.storedReadAsInput]), on: Database.open(path: folder.database))
            try older?.create("a", ["precious": 1, "list": []])
            var mutation = TestAgent.mutation(.update, "a", example.data)
            mutation.operations = example.operations
            try older?.enqueue(mutation)
            let before = try #require(try older?.view("a"))
            older = nil
            let agent = try TestAgent(on: Database.open(path: folder.database))
            #expect(try agent.view("a") == before)
            try agent.update("a", ["precious": 2])
            var expected = try #require(try JSONReader.read(before, limits: .stored).object)
            expected["precious"] = 2
            #expect(try agent.view("a") == expected.json)
            try agent.drain()
            #expect(try agent.record("a")?.base == expected.json)
            #expect(try agent.store.verify() == [])
        }
    #endif

    @Test("A document from the hub that is past the limits can be changed, and brought no further")
    func fromTheHub() throws {
        let agent = try TestAgent()
        let long = String(repeating: "n", count: 300)
        try agent.pull([("a", 5, ["deep": Self.nested(33), long: 1, "n": 1])])
        try agent.update("a", ["n": 2])
        var count = TestAgent.mutation(.update, "a")
        count.operations = [FieldOperation(long, .increment, 1)]
        try agent.enqueue(count)
        let view = try #require(try agent.view("a").map { try JSONReader.read($0, limits: .stored).object } ?? nil)
        #expect(view == ["deep": Self.nested(33), long: 2, "n": 2])
        var deeper = TestAgent.mutation(.update, "a")
        deeper.operations = [FieldOperation("deep", .append, [Self.nested(33)])]
        #expect(agent.refusal(deeper)?.code == "validation")
    }

    @Test("A document that no checksum shows to be damaged refuses changes, is fetched again, and loses nothing that waits")
    func unreadable() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(on: Database.open(path: folder.database))
        try agent.pull([("a", 5, ["precious": 1]), ("b", 6, ["n": 1])])
        try agent.update("a", ["later": 1])
        try Self.spoil("a", base: #"{"precious":1"#, view: #"{"precious":1,"later""#, in: folder)
        let refusal = agent.refusal(TestAgent.mutation(.update, "a", ["more": 1]))
        #expect(refusal?.code == "read-only" && refusal?.status == 503)
        try agent.update("b", ["n": 2])
        try agent.pull([("a", 7, ["precious": 1, "theirs": 2])])
        #expect(try agent.view("a") == #"{"precious":1,"theirs":2,"later":1}"#)
        try agent.update("a", ["more": 1])
        #expect(try agent.view("a") == #"{"precious":1,"theirs":2,"later":1,"more":1}"#)
        #expect(try agent.store.verify() == [])
    }

    /// Writes documents with the checksum that the store would have written with them.
    private static func spoil(_ id: String, base: String, view: String, in folder: TemporaryFolder) throws {
        let raw = try RawDatabase(folder.database)
        let row = try #require(try raw.rows("SELECT eid, base_version FROM record WHERE id = '\(id)'").first)
        var digest = CRC32C()
        digest.update(try #require(row[0].flatMap { Int64($0) }))
        digest.update(try #require(row[1].flatMap { Int64($0) }))
        for field in [id, base, view] { digest.update(field: field) }
        try raw.rows("UPDATE record SET base = '\(base)', view = '\(view)', sum = \(digest.value) WHERE id = '\(id)'")
    }
}
