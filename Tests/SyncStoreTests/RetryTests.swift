import SyncCore
import SyncStore
import Testing

/// Mutations that replace a refused one (PROTOCOL B2, C5).
@Suite("Trying again")
struct RetryTests {
    /// An update that rests on version 5 of `a`, refused after the hub had come to version 7.
    private func refused(_ change: NewMutation) throws -> (TestAgent, MutationKey) {
        let agent = try ConflictTests.agent()
        let key = try agent.enqueue(change).key
        _ = try agent.claim()
        let record = HubRecord(version: 7, data: ["finding": "flagged", "note": "new", "visits": 4, "tags": ["x"], "notes": "rail"])
        try agent.answer(.rejected(key, current: .record(record)))
        return (agent, key)
    }

    private static func update(_ data: JSONObject, unset: [String] = [], _ operations: [FieldOperation] = []) -> NewMutation {
        var change = TestAgent.mutation(.update, "a", data)
        change.unset = unset
        change.operations = operations
        return change
    }

    @Test("It rests on what its author had seen, so that the hub finds what others wrote since")
    func restsOnOld() throws {
        let (agent, key) = try refused(Self.update(["finding": "fail", "note": "mine"]))
        let new = try agent.store.retry(key, fix: ["note": "fixed"], by: agent.app, at: agent.now)
        // A pull before it goes does not take over what is for the hub to compare.
        try agent.pull([("a", 8, ["finding": "flagged", "note": "newest", "visits": 4, "tags": ["x"], "notes": "rail"])])
        let later = try agent.update("a", ["note": "after all"]).key
        #expect(try agent.state(new.key) == .pending)
        let sent = try agent.claim(1)
        #expect(sent.map(\.key) == [new.key] && sent.first?.baseVersion == 5)
        #expect(sent.first?.data == #"{"finding":"fail","note":"fixed"}"#)
        #expect(try agent.store.verify() == [])
        // The change after it has seen all of it, and is no part of it.
        let remote = HubRecord(version: 8, data: ["finding": "flagged", "note": "newest"])
        try agent.answer(.conflict(new.key, ["finding"], .record(remote)))
        let conflict = try #require(try agent.conflicts().first)
        #expect(conflict.sides.map(\.field) == ["finding"])
        #expect(conflict.sides.first?.local.value == "fail" && conflict.sides.first?.remote.value == "flagged")
        #expect(try agent.state(later) == .pending)
    }

    @Test("A retry that creates, or whose record no other device has changed, rests on the local record")
    func restsOnPresent() throws {
        let agent = try ConflictTests.agent()
        let update = try agent.update("a", ["finding": "fail"]).key
        let create = try agent.create("b").key
        _ = try agent.claim()
        try agent.answer(.rejected(update), .rejected(create))
        for key in [update, create] { _ = try agent.store.retry(key, by: agent.app, at: agent.now) }
        let versions = Dictionary(uniqueKeysWithValues: try agent.claim().map { ($0.record.id.text, $0.baseVersion) })
        #expect(versions == ["a": 5, "b": 0])
    }

    struct Fix: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var change: NewMutation
        var fix: JSONObject
        var data: String?
        var operations: [FieldOperation] = []
        var view: JSONObject
    }

    /// The record is `{finding: flagged, note: new, visits: 4, tags: [x], notes: rail}` when it is fixed.
    static let fixes = [
        Fix(
            testDescription: "a value", change: update(["note": "mine", "peak": 9]), fix: ["note": "fixed"], data: #"{"note":"fixed"}"#,
            operations: [FieldOperation("peak", .max, 9)], view: ["note": "fixed", "peak": 9]),
        Fix(
            testDescription: "a count", change: update(["visits": 5]), fix: ["visits": 6], data: nil,
            operations: [FieldOperation("visits", .increment, 2)], view: ["visits": 6]),
        Fix(
            testDescription: "a text that was added to", change: update([:], [FieldOperation("notes", .append, " more")]),
            fix: ["notes": "rail is loose"], data: nil, operations: [FieldOperation("notes", .append, " is loose")],
            view: ["notes": "rail is loose"]),
        Fix(
            testDescription: "a set", change: update([:], [FieldOperation("tags", .add, "y")]), fix: ["tags": ["z"]], data: nil,
            operations: [FieldOperation("tags", .remove, "x"), FieldOperation("tags", .add, "z")], view: ["tags": ["z"]]),
        Fix(
            testDescription: "what was to be removed", change: update([:], unset: ["note"]), fix: ["note": "kept"],
            data: #"{"note":"kept"}"#, view: ["note": "kept"]),
        Fix(
            testDescription: "another field", change: update(["note": "mine"]), fix: ["finding": "pass"],
            data: #"{"note":"mine","finding":"pass"}"#, view: ["note": "mine", "finding": "pass"]),
    ]

    @Test("A fixed field keeps nothing of the former request", arguments: fixes)
    func fixed(_ example: Fix) throws {
        let (agent, key) = try refused(example.change)
        let new = try agent.store.retry(key, fix: example.fix, by: agent.app, at: agent.now)
        let sent = try #require(try agent.claim().first)
        #expect(sent.key == new.key && sent.data == example.data)
        let operations = try sent.operations.flatMap { try JSONReader.read($0).array }
        let wanted: [JSON] = example.operations.map { ["field": .string($0.field), "op": .string($0.kind.rawValue), "value": $0.value] }
        #expect(Set(operations ?? []) == Set(wanted) && sent.unset == nil)
        let view = try #require(try agent.document("a"))
        for member in example.view.members { #expect(view[member.name.text] == member.value) }
        #expect(try agent.store.verify() == [])
    }

    @Test("Nothing is repeated for a field that is left out, whatever the refused change did with it")
    func without() throws {
        let (agent, key) = try refused(
            Self.update(["finding": "fail", "note": "mine", "peak": 9], unset: ["extra"], [FieldOperation("tags", .add, "y")]))
        let gone = ["note", "peak", "extra", "tags", "never"]
        let new = try agent.store.retry(key, fix: ["place": "mine"], without: gone, by: agent.app, at: agent.now)
        let sent = try #require(try agent.claim().first)
        #expect(sent.key == new.key && sent.data == #"{"finding":"fail","place":"mine"}"#)
        #expect(sent.operations == nil && sent.unset == nil && sent.baseVersion == 5)
        let view = try #require(try agent.document("a"))
        #expect(view["note"] == "new" && view["tags"] == ["x"] && view["finding"] == "fail" && view["place"] == "mine")
        #expect(try agent.store.verify() == [])
    }

    @Test("A field that is left out of what creates a record is not in the record")
    func withoutInCreate() throws {
        let agent = try ConflictTests.agent()
        let key = try agent.enqueue(TestAgent.mutation(.create, "b", ["n": 1, "legacy": "x"])).key
        _ = try agent.claim()
        try agent.answer(.rejected(key))
        _ = try agent.store.retry(key, without: ["legacy"], by: agent.app, at: agent.now)
        #expect(try agent.claim().map(\.data) == [#"{"n":1}"#])
        #expect(try agent.document("b") == ["n": 1])
    }

    @Test("A list that fell as a whole is repeated as a whole, or not at all")
    func list() throws {
        let agent = try ConflictTests.agent()
        let list = try agent.list([Self.update(["note": "mine"]), TestAgent.mutation(.create, "b", ["n": 1])]).map(\.key)
        let outsider = try agent.update("b", ["n": 2]).key
        #expect(try agent.claim().count == 3)
        try agent.answer(.rejected(list[0]), .rejected(list[1]), .accepted(outsider, 8))
        let problem = StoreError.problem { _ = try agent.store.retry(list[1], fix: ["n": 7], by: agent.app, at: agent.now) }
        #expect(problem?.code == "validation" && problem?.errors.first?.pointer == "/cascade")
        #expect(try agent.states(list) == ["rejected", "rejected"])
        let again = try agent.store.retry(list[1], fix: ["n": 7], cascades: true, by: agent.app, at: agent.now)
        let sent = try agent.claim()
        #expect(sent.map(\.record.id.text) == ["a", "b"] && sent.last?.key == again.key && sent.last?.data == #"{"n":7}"#)
        #expect(sent.allSatisfy { $0.group != nil && $0.group == sent[0].group })
        #expect(try agent.states(list) == ["resolved", "resolved"])
        #expect(try agent.store.verify() == [])
        // A discarded mutation is no part of it any more.
        try agent.answer(.rejected(sent[0].key), .rejected(sent[1].key))
        try agent.store.discard(sent[0].key, reason: "", uid: 0, at: agent.now)
        let alone = try agent.store.retry(sent[1].key, by: agent.app, at: agent.now)
        #expect(try agent.claim().map(\.key) == [alone.key])
        #expect(try agent.store.verify() == [])
    }
}
