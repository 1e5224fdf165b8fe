import SyncCore
import Testing

@testable import SyncStore

/// PROTOCOL B2: `undo`.
@Suite("Undoing a mutation that the hub has")
struct StoreUndoTests {
    private static let rules: RuleBook = {
        var book = TestAgent.rules
        book.entities[EntityName(trusted: "audit")]?.declaredUndo = true
        return book
    }()

    private func done(_ agent: TestAgent, _ made: Enqueued, from version: Int64 = 100) throws -> MutationKey {
        try agent.drain(from: version)
        #expect(try agent.state(made.key) == .done)
        return made.key
    }

    private func refusal(_ agent: TestAgent, _ key: MutationKey) -> Problem? {
        do {
            _ = try agent.store.undo(key, by: agent.app, at: agent.now)
            return nil
        } catch {
            return error.problem
        }
    }

    @Test("An update, a deletion and a creation are taken back, each by a new mutation; undoing that brings them back again")
    func kinds() throws {
        let agent = try TestAgent(rules: Self.rules)
        try agent.pull([("a", 5, ["v": 1, "w": 1])])
        let update = try done(agent, agent.update("a", ["v": 2, "x": 1]))
        let undone = try agent.store.undo(update, by: agent.app, at: agent.now)
        #expect(undone.undo.fields == ["v", "x"] && undone.undo.left.isEmpty && undone.made?.state == .pending)
        #expect(try agent.view("a") == #"{"v":1,"w":1}"#)
        // It is told once, and by what.
        #expect(refusal(agent, update)?.code == "already-undone")
        #expect(refusal(agent, update)?.members["by"]?.text == undone.made?.key.text)
        #expect(refusal(agent, update)?.members["state"]?.text == "pending")
        let made = try #require(undone.made)
        let again = try agent.store.undo(done(agent, made, from: 200), by: agent.app, at: agent.now)
        #expect(try agent.view("a") == #"{"v":2,"w":1,"x":1}"#)
        try agent.drain(from: 300)

        let deletion = try agent.delete("a").key
        try agent.drain(from: 400)
        #expect(try agent.view("a") == nil)
        _ = try agent.store.undo(deletion, by: agent.app, at: agent.now)
        #expect(try agent.view("a") == #"{"v":2,"w":1,"x":1}"#)
        try agent.drain(from: 500)

        let creation = try agent.create("b", ["v": 7]).key
        try agent.drain(from: 600)
        _ = try agent.store.undo(creation, by: agent.app, at: agent.now)
        #expect(try agent.view("b") == nil)
        #expect(again.made != nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("Fields that were changed since then stay, and a trial changes nothing")
    func others() throws {
        let agent = try TestAgent(rules: Self.rules)
        try agent.pull([("a", 5, ["v": 1, "w": 1])])
        let key = try done(agent, agent.update("a", ["v": 2, "w": 2]))
        try agent.pull([("a", 900, ["v": 3, "w": 2])])
        let before = agent.store.lastSeq
        let trial = try agent.store.undo(key, isTrial: true, by: agent.app, at: agent.now)
        #expect(trial.made == nil && trial.undo.fields == ["w"] && trial.undo.left.map(\.field) == ["v"])
        #expect(agent.store.lastSeq == before)
        _ = try agent.store.undo(key, by: agent.app, at: agent.now)
        #expect(try agent.view("a") == #"{"v":3,"w":1}"#)
    }

    @Test("Edits that became one mutation are taken back together, and the edit says which one it went into")
    func coalesced() throws {
        let agent = try TestAgent(rules: Self.rules)
        try agent.pull([("a", 5, ["v": 1, "w": 1])])
        func edit(_ data: JSONObject) throws -> Enqueued { try agent.enqueue(TestAgent.mutation(.update, "a", data, coalesces: true)) }
        let first = try edit(["v": 2]), second = try edit(["v": 3, "w": 3])
        #expect(second.state == .coalesced)
        #expect(refusal(agent, second.key)?.detail.hasSuffix("agentctl mutations cancel \(first.key) takes both back") == true)
        let key = try done(agent, first)
        let problem = try #require(refusal(agent, second.key))
        #expect(problem.code == "not-accepted" && problem.members["into"]?.text == key.text)
        #expect(problem.detail.hasSuffix("agentctl undo \(key) takes both back"))
        _ = try agent.store.undo(key, by: agent.app, at: agent.now)
        #expect(try agent.view("a") == #"{"v":1,"w":1}"#)
    }

    @Test("The undo of a mutation that the hub does not have is refused with the command that helps")
    func refusals() throws {
        let agent = try TestAgent(rules: Self.rules)
        let waiting = try agent.create("a").key
        #expect(refusal(agent, waiting)?.code == "not-accepted")
        #expect(refusal(agent, waiting)?.detail.contains("agentctl mutations cancel \(waiting)") == true)
        let event = try agent.event().key
        try agent.drain()
        #expect(refusal(agent, event)?.code == "nothing-to-undo")
        #expect(refusal(agent, MutationKey(trusted: "0199c3f2-0000-7000-8000-00000000beef"))?.code == "not-found")
        let refused = try agent.create("c").key
        _ = try agent.claim()
        try agent.answer(.rejected(refused))
        #expect(refusal(agent, refused)?.members["state"]?.text == "rejected")
        #expect(refusal(agent, refused)?.detail.hasSuffix("is rejected, so it changed nothing at the hub that could be taken back") == true)
        // The retry took its place, and the way back depends on where that is.
        let again = try agent.store.retry(refused, by: agent.app, at: agent.now).key
        #expect(refusal(agent, refused)?.members["into"]?.text == again.text)
        #expect(refusal(agent, refused)?.detail.hasSuffix("agentctl mutations cancel \(again) takes it back") == true)
        _ = try agent.claim()
        let wait = "and the hub has not accepted it yet: agentctl undo \(again) takes it back when it has"
        #expect(refusal(agent, refused)?.detail.hasSuffix(wait) == true && refusal(agent, again)?.detail.hasSuffix(wait) == true)
        // Once sent, it cannot be cancelled.
        try agent.answer(.retry(again, after: .seconds(10)))
        #expect(try agent.state(again) == .pending)
        #expect(refusal(agent, again)?.detail.hasSuffix(wait) == true)
    }

    @Test("Without the setting nothing is kept: counters and creations are taken back all the same")
    func withoutSetting() throws {
        var book = TestAgent.rules
        book.entities[EntityName(trusted: "audit")]?.fields = ["n": .counter]
        let agent = try TestAgent(rules: book)
        try agent.pull([("a", 5, ["v": 1, "n": 10])])
        var change = TestAgent.mutation(.update, "a", ["v": 2])
        change.operations = [FieldOperation("n", .increment, 5)]
        let key = try done(agent, agent.enqueue(change))
        let undone = try agent.store.undo(key, by: agent.app, at: agent.now)
        #expect(undone.undo.fields == ["n"] && undone.undo.left.map(\.reason) == [.notKept])
        #expect(try agent.view("a") == #"{"v":2,"n":10}"#)
        try agent.drain(from: 700)
        #expect(refusal(agent, key)?.code == "already-undone")
    }

    @Test("Earlier values are removed with their mutation")
    func pruned() throws {
        let agent = try TestAgent(rules: Self.rules)
        try agent.pull([("a", 5, ["v": 1])])
        let key = try done(agent, agent.update("a", ["v": 2]))
        func rows() throws -> Int64? { try agent.database.number("SELECT count(*) FROM undo_value") }
        #expect(try rows() == 1)
        agent.wait(.seconds(30 * 86_400))
        while try agent.store.housekeep(at: agent.now) {}
        #expect(try rows() == 0)
        #expect(refusal(agent, key)?.code == "not-found")
    }
}
