import SyncCore
import SyncStore
import Testing

/// An answer may leave mutations without a verdict: they stay in flight, and are told to be duplicates later.
@Suite("A verdict that is missing")
struct MissingVerdictTests {
    private static func append(_ id: String, _ token: String) -> NewMutation {
        var mutation = TestAgent.mutation(.update, id, ["t": .string(token)])
        mutation.operations = [FieldOperation("a", .append, .array([.string(token)]))]
        return mutation
    }

    private static func both(version: Int64) -> HubState {
        .record(HubRecord(version: version, data: ["t": "second", "a": ["first", "second"]]))
    }

    private static func agentWithRecord() throws -> TestAgent {
        let agent = try TestAgent()
        try agent.pull([("a-1", 5, ["t": "old", "a": []])])
        return agent
    }

    private static func expectBoth(_ agent: TestAgent, version: Int64) throws {
        let record = try #require(try agent.record("a-1"))
        #expect(record.status == .synced)
        #expect(record.version == version)
        let view = try JSONReader.read(try #require(record.view))
        #expect(view == ["t": "second", "a": ["first", "second"]])
        #expect(try agent.store.verify() == [])
    }

    @Test("A record of an atomic list, whose members share one version, ends as the hub says", arguments: [0, 1])
    func recordOfAnAtomicListEndsAsTheHubSays(_ missing: Int) throws {
        let agent = try Self.agentWithRecord()
        let keys = try agent.list([Self.append("a-1", "first"), Self.append("a-1", "second")]).map(\.key)
        #expect(try agent.claim().map(\.key) == keys)
        try agent.answer(.accepted(keys[1 - missing], 6))
        #expect(try agent.inFlight().map(\.key) == [keys[missing]])
        try agent.answer(.duplicate(keys[missing], .accepted, Self.both(version: 6)))
        try Self.expectBoth(agent, version: 6)
    }

    @Test("A record with an older mutation ends as the hub says")
    func recordWithAnOlderMutationEndsAsTheHubSays() throws {
        let agent = try Self.agentWithRecord()
        let first = try agent.enqueue(Self.append("a-1", "first")), second = try agent.enqueue(Self.append("a-1", "second"))
        #expect(try agent.claim().map(\.key) == [first.key, second.key])
        // Both were accepted, as versions 6 and 7.
        try agent.answer(.accepted(second.key, 7))
        try agent.answer(.duplicate(first.key, .accepted, Self.both(version: 7)))
        try Self.expectBoth(agent, version: 7)
    }

    @Test("A refusal whose answer was lost is told with its reason, if the hub says it again", arguments: ["deleted", nil])
    func refusal(reason: String?) throws {
        let agent = try Self.agentWithRecord()
        let key = try agent.enqueue(Self.append("a-1", "first")).key
        #expect(try agent.claim().map(\.key) == [key])
        var result = PushResult.duplicate(key, .rejected, .deleted(version: 7))
        result.notes.problem = reason.map { Problem($0, status: 410, detail: "gone") }
        try agent.answer(result)
        #expect(try agent.state(key) == .rejected && agent.view("a-1") == nil)
        #expect(try agent.store.reads.mutation(key, at: agent.now)?.problem?.code == reason ?? "rejected")
        #expect(try agent.store.verify() == [])
    }

    @Test("Nothing of the old record stays after a deletion before a new creation")
    func deletionLeavesNothingOfTheOldRecord() throws {
        let agent = try Self.agentWithRecord()
        let deleted = try agent.delete("a-1"), created = try agent.create("a-1", ["new": true])
        // They go one after the other, and together only when it is unknown which of them were sent.
        try agent.store.adoptReplica(ReplicaID(trusted: "another"), at: agent.now)
        #expect(try agent.inFlight().map(\.key) == [deleted.key, created.key])
        try agent.answer(.accepted(created.key, 7))
        try agent.answer(.duplicate(deleted.key, .accepted, .record(HubRecord(version: 7, data: ["new": true]))))
        let record = try #require(try agent.record("a-1"))
        #expect(record.view == #"{"new":true}"#)
        #expect(record.status == .synced)
        #expect(try agent.store.verify() == [])
    }
}
