import SyncCore
import SyncStore
import Testing

/// Writes that hold only for the record that their author has read (`If-Match`, `if_match`).
@Suite("Conditional writes")
struct EntityTagTests {
    private func agent() throws -> TestAgent {
        let agent = try TestAgent()
        try agent.pull([("a", 10, ["n": 1]), ("b", 11, ["n": 1])])
        return agent
    }

    private func write(_ agent: TestAgent, _ tag: String?, _ id: String = "a", n: Int = 2, action: NewMutation.Action = .update) -> Problem?
    {
        var mutation = TestAgent.mutation(action, id, action == .delete ? [:] : ["n": .int(n)], coalesces: true)
        mutation.ifMatch = tag.flatMap { EntityTags($0) }
        return agent.refusal(mutation)
    }

    private func etag(_ agent: TestAgent, _ id: String = "a") throws -> String { try #require(try agent.record(id)?.etag) }

    @Test("One write of each of 15 rounds with 300 racing writes is accepted, whatever the hub confirms meanwhile")
    func races() throws {
        let agent = try agent()
        var accepted = 0
        var version: Int64 = 100
        for round in 0..<15 {
            let read = try etag(agent)
            for writer in 0..<20 {
                // The hub confirms what the round before has written, in the middle of this one.
                if writer == 7 {
                    try agent.drain(from: version)
                    version += 100
                }
                // Every third round all of them write the same value.
                if write(agent, read, n: round % 3 == 0 ? 7 : round * 20 + writer) == nil { accepted += 1 }
            }
            if round == 8 { try agent.crash() }
        }
        #expect(accepted == 15)
        #expect(try agent.store.verify() == [])
    }

    @Test("The version alone does not tell two apps apart: it is the hub's")
    func versionAlone() throws {
        let agent = try agent()
        for n in [2, 3] {
            var mutation = TestAgent.mutation(.update, "a", ["n": .int(n)])
            mutation.expectedVersion = 10
            #expect(agent.refusal(mutation) == nil)
        }
    }

    struct Change: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var isSeen: Bool
        var apply: @Sendable (TestAgent) throws -> Void
    }

    static let changes: [Change] = [
        Change(testDescription: "another app writes another value", isSeen: true) { try $0.update("a", ["n": 9]) },
        Change(testDescription: "another app writes the same value", isSeen: true) { try $0.update("a", ["n": 1]) },
        Change(testDescription: "another app writes and takes it back", isSeen: true) { agent in
            let key = try agent.update("a", ["n": 9]).key
            _ = try agent.store.cancel(key, at: agent.now)
        },
        Change(testDescription: "the hub has another value", isSeen: true) { try $0.pull([("a", 20, ["n": 5])]) },
        Change(testDescription: "the hub deletes it", isSeen: true) { try $0.pull([], deleted: [("a", 20)]) },
        Change(testDescription: "another app deletes it", isSeen: true) { try $0.delete("a") },
        Change(testDescription: "it is deleted and made again as it was", isSeen: true) { agent in
            try agent.delete("a")
            try agent.create("a", ["n": 1])
        },
        Change(testDescription: "another record changes", isSeen: false) { try $0.update("b", ["n": 9]) },
        Change(testDescription: "the hub has a newer version with the same value", isSeen: false) { try $0.pull([("a", 20, ["n": 1])]) },
        Change(testDescription: "a restart", isSeen: false) { try $0.crash() },
    ]

    @Test("A condition fails after every change that its author has not seen, and after nothing else", arguments: changes)
    func unseen(_ change: Change) throws {
        let agent = try agent()
        let read = try etag(agent)
        try change.apply(agent)
        let problem = write(agent, read)
        #expect(problem?.code == (change.isSeen ? "precondition-failed" : nil))
        guard let problem else { return }
        #expect(problem.status == 412 && problem.errors.map(\.pointer) == ["/if_match"])
        // The present tag comes with the refusal, so that a reader need not ask twice; none when there is no record.
        let present = try agent.record("a").flatMap { $0.isDeleted ? nil : $0.etag }
        #expect(problem.members["etag"]?.text == present)
        if let present { #expect(write(agent, present) == nil) }
        #expect(try agent.store.verify() == [])
    }

    @Test("A pending write that the hub confirms is no news to its author")
    func confirmed() throws {
        let agent = try agent()
        try agent.update("a", ["n": 2])
        let read = try etag(agent)
        try agent.drain()
        #expect(try etag(agent) != read, "a reader that waits for the hub sees another tag")
        #expect(write(agent, read, n: 3) == nil)
    }

    @Test("An etag of a newer copy of the database does not hold in an older one, unless the document is the same")
    func olderCopy() throws {
        let folder = try TemporaryFolder()
        var agent = try TestAgent(in: folder)
        try agent.pull([("a", 10, ["n": 1])])
        try agent.store.close(at: agent.now)
        let copy = folder.bytes()
        agent = try agent.again(in: folder)
        try agent.update("a", ["n": 2])
        let read = try etag(agent)
        try agent.store.close(at: agent.now)
        try folder.write(copy)
        agent = try agent.again(in: folder)
        try agent.update("a", ["n": 3])
        #expect(write(agent, read, n: 4)?.code == "precondition-failed")
    }

    @Test(
        "Conditions of a list are checked against the records before the list, and one that fails refuses the whole list",
        arguments: [false, true])
    func conditionsOfAListAreCheckedBeforeIt(_ isAtomic: Bool) throws {
        let agent = try agent()
        func list(_ tags: [String]) throws {
            let mutations = tags.enumerated().map { index, tag in
                var mutation = TestAgent.mutation(.update, "a", ["n": .int(index)])
                mutation.ifMatch = EntityTags(tag)
                return mutation
            }
            _ = try agent.store.enqueue(mutations, isAtomic: isAtomic, by: agent.app, at: agent.now)
        }
        let read = try etag(agent)
        // Both members hold for the record before the list.
        try list([read, read])
        let problem = StoreError.problem { try list([try etag(agent), read]) }
        #expect(problem?.code == "precondition-failed" && problem?.errors.map(\.pointer) == ["/mutations/1/if_match"])
        #expect(try agent.view("a") == #"{"n":1}"#, "nothing of the second list was written")
    }

    @Test("Lines of a stream hold or fail each by itself")
    func lines() throws {
        let agent = try agent()
        let read = try etag(agent)
        var line = TestAgent.mutation(.update, "a", ["n": 2])
        line.ifMatch = EntityTags(read)
        let results = try agent.store.enqueueEach([line, line], by: agent.app, at: agent.now)
        #expect(results.map { (try? $0.get()) != nil } == [true, false])
    }

    @Test("A record that is not there matches nothing; an event has no record to match")
    func absent() throws {
        let agent = try agent()
        #expect(write(agent, "*", "nowhere", action: .upsert)?.code == "precondition-failed")
        #expect(write(agent, "*") == nil)
        #expect(write(agent, "*", action: .delete) == nil)
        #expect(write(agent, "*", action: .upsert)?.code == "precondition-failed")
        var event = TestAgent.mutation(.create, nil, [:], entity: "reading")
        event.ifMatch = EntityTags("*")
        #expect(agent.refusal(event)?.errors.map(\.pointer) == ["/if_match"])
    }

    @Test("An app's key answers for its write even after the record has changed")
    func repeated() throws {
        let agent = try agent()
        var mutation = TestAgent.mutation(.update, "a", ["n": 2])
        mutation.ifMatch = EntityTags(try etag(agent))
        let key = AppKey(key: "k", fingerprint: [1])
        let first = try agent.enqueue(mutation, appKey: key)
        let again = try agent.enqueue(mutation, appKey: key)
        #expect(again.isRepeat && again.key == first.key)
    }
}
