import SyncCore
import SyncStore
import Testing

/// A backend that gives one id to several creations: what was done stays, and what cannot be told apart is held.
@Suite("An id that a backend gives twice")
struct TakenIDTests {
    private static let audit = EntityName(trusted: "audit")

    private static func agent() throws -> TestAgent {
        var entity = RestEntity()
        entity.create = .init(method: .post, path: PathTemplate("/audits")!, body: .document, ok: [201])
        entity.create?.id = AnswerSource("$.id")
        entity.delete = .init(method: .delete, path: PathTemplate("/audits/{server_id}")!, body: .none, ok: [204])
        entity.list = .init(path: PathTemplate("/audits")!, items: .whole)
        var mapping = RestMapping()
        mapping.idempotency = .init()
        mapping.entities = [audit: entity]
        return try TestAgent(rules: RuleBook([audit: EntityRules()])) { $0.rest = mapping }
    }

    private static func state(_ agent: TestAgent, _ key: MutationKey) throws -> MutationState? {
        try agent.store.reads.mutation(key, at: agent.now)?.state
    }

    @Test("The second creation with the same id is held, and the first stays in the mirror", arguments: [true, false])
    func twice(_ inOneAnswer: Bool) throws {
        let agent = try Self.agent()
        let keys = try ["a", "b", "c"].map { try agent.create($0, ["name": .string($0)]).key }
        _ = try agent.claim()
        let same = RestResult.Verdict.accepted(RestRemote(id: 17))
        var held = 0
        if inOneAnswer {
            agent.wait(.seconds(1))
            held = try agent.store.applyRest(keys.map { RestResult($0, same) }, next: nil, at: agent.now).summary.retried
        } else {
            for key in keys {
                agent.wait(.seconds(1))
                held += try agent.store.applyRest([RestResult(key, same)], next: nil, at: agent.now).summary.retried
            }
        }
        #expect(held == 2)
        #expect(try keys.map { try Self.state(agent, $0) } == [.done, .held, .held])
        #expect(try agent.view("a") == #"{"name":"a"}"# && agent.view("b") == #"{"name":"b"}"#)
        // The list that follows shows the one record, under the name that it has here.
        var page = StreamPage(entity: Self.audit, cursor: "{}", hasMore: false, records: [], deletions: [])
        let mark = RestMark(serverID: 17)
        var record = StreamPage.Record(id: mark.plainID, record: HubRecord(version: 0, data: ["id": 17, "name": "a"]))
        record.mark = mark
        page.records = [record]
        _ = try agent.store.applyPull(PullResponse(epoch: nil, head: 0, pages: [page]), at: agent.now)
        #expect(try agent.view("a") == #"{"id":17,"name":"a"}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("The id of a record that was deleted may be given again")
    func again() throws {
        let agent = try Self.agent()
        func done(_ key: MutationKey, _ remote: RestRemote) throws {
            _ = try agent.claim()
            agent.wait(.seconds(1))
            _ = try agent.store.applyRest([RestResult(key, .accepted(remote))], next: nil, at: agent.now)
        }
        let first = try agent.create("a", ["n": 1]).key
        try done(first, RestRemote(id: 17))
        let deletion = try agent.enqueue(TestAgent.mutation(.delete, "a", entity: "audit")).key
        try done(deletion, RestRemote())
        let second = try agent.create("b", ["n": 2]).key
        try done(second, RestRemote(id: 17))
        #expect(try [first, deletion, second].map { try Self.state(agent, $0) } == [.done, .done, .done])
        #expect(try agent.store.verify() == [])
    }
}
