import SyncCore
import SyncStore
import Testing

/// Deletions that give way, and what was to be done with records that were never made, in the agent.
@Suite("Deletions in the agent")
struct DeletionTests {
    private static func lost(_ agent: TestAgent) throws -> [JSONObject] {
        try agent.store.reads.audit(after: 0, limit: 10).items.filter { $0.verb == "lost" }.compactMap {
            try JSONReader.read($0.json ?? "").object
        }
    }

    private static func site() throws -> TestAgent {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("s", 5, ["note": "old", "visits": 3])], entity: "site")
        return agent
    }

    @Test("A deletion that waits gives way to a change that a pull brings, and says so")
    func givesWay() throws {
        let agent = try Self.site()
        let key = try agent.enqueue(TestAgent.mutation(.delete, "s", entity: "site")).key
        #expect(try agent.record("s", "site")?.view == nil)
        try agent.pull([("s", 7, ["note": "theirs", "visits": 3])], entity: "site")
        #expect(try agent.state(key) == .superseded)
        #expect(try agent.record("s", "site")?.view == #"{"note":"theirs","visits":3}"#)
        #expect(try agent.record("s", "site")?.status == .synced)
        #expect(try agent.claim().isEmpty)
        let lost = try Self.lost(agent)
        #expect(lost.map { $0["field"] } == ["$delete"] && lost.first?["side"] == "local" && lost.first?["strategy"] == "update_wins")
        #expect(lost.first?["mutation"]?.text == key.text)
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation after a deletion that gave way meets the record as it is")
    func mutationAfterAYieldedDeletionMeetsTheRecord() throws {
        let agent = try Self.site()
        let delete = try agent.enqueue(TestAgent.mutation(.delete, "s", entity: "site")).key
        let create = try agent.enqueue(TestAgent.mutation(.create, "s", ["finding": "new"], entity: "site")).key
        try agent.pull([("s", 7, ["note": "theirs", "visits": 3])], entity: "site")
        #expect(try agent.states([delete, create]) == ["superseded", "pending"])
        let batch = try agent.claim()
        #expect(batch.map(\.key) == [create] && batch.first?.action == .update && batch.first?.baseVersion == 7)
        #expect(try agent.store.verify() == [])
    }

    @Test(
        "A deletion that gave way at the hub brings the record back, whether a pull had shown it before or not", arguments: [false, true])
    func gaveWayThere(_ isPulled: Bool) throws {
        let agent = try Self.site()
        let key = try agent.enqueue(TestAgent.mutation(.delete, "s", entity: "site")).key
        _ = try agent.claim()
        let record = HubRecord(version: 7, data: ["note": "theirs", "visits": 3])
        if isPulled { try agent.pull([("s", 7, record.data)], entity: "site") }
        try agent.answer(.accepted(key, 7, record: record, merged: ["$delete"]))
        #expect(try agent.state(key) == .done)
        #expect(try agent.record("s", "site")?.view == #"{"note":"theirs","visits":3}"#)
        #expect(try Self.lost(agent).map { $0["field"] } == ["$delete"])
        #expect(try agent.store.verify() == [])
    }

    @Test("An edit and a deletion that may give way, or that a person may be asked about, stay two; where a deletion wins, they become one")
    func coalescing() throws {
        var rules = ConflictTests.rules
        rules.entities[EntityName(trusted: "plain")] = EntityRules()
        let agent = try TestAgent(rules: rules)
        try agent.pull([("s", 5, ["note": "old", "visits": 3])], entity: "site")
        try agent.pull([("a", 5, ["note": "old"])])
        try agent.pull([("p", 5, ["note": "old"])], entity: "plain")
        for (entity, id) in [("site", "s"), ("audit", "a"), ("plain", "p")] {
            try agent.enqueue(TestAgent.mutation(.update, id, ["note": "mine"], entity: entity, coalesces: true))
            try agent.enqueue(TestAgent.mutation(.delete, id, entity: entity, coalesces: true))
        }
        try agent.pull([("s", 7, ["note": "old", "visits": 4])], entity: "site")
        let batch = try agent.claim().map { "\($0.action.rawValue) \($0.record.entity)" }
        // The deletion of the site has given way to what the pull brought; people decide about a field of audits.
        #expect(batch == ["update audit", "update site", "delete audit", "delete plain"])
        #expect(try agent.record("s", "site")?.view == #"{"note":"mine","visits":4}"#)
    }

    @Test(
        "An edit of a record that the hub refused to create falls with the creation, whatever the hub's code, and is retried with it",
        arguments: [
            Problem("deleted", status: 410, detail: "audit/a does not exist any more"),
            Problem("parent-rejected", status: 409, detail: "the mutation that creates audit/a was rejected"),
        ])
    func refusedCreate(_ problem: Problem) throws {
        let agent = try TestAgent()
        let keys = [try agent.create("a", ["n": 1]).key, try agent.update("a", ["n": 2]).key]
        #expect(try agent.claim().map(\.key) == keys)
        try agent.answer(.rejected(keys[0]), PushResult(key: keys[1], verdict: .rejected(problem, current: .absent)))
        let told = try #require(try agent.store.reads.mutation(keys[1], at: agent.now)?.problem)
        #expect(told.code == "parent-rejected" && told.members["parent"]?.text == keys[0].text)
        _ = try agent.store.retry(keys[0], fix: ["n": 0], cascades: true, by: agent.app, at: agent.now)
        #expect(try agent.states(keys) == ["resolved", "resolved"])
        #expect(try agent.claim().map(\.action) == [.create, .update])
        #expect(try agent.store.verify() == [])
    }

    /// The time at which the deletion by another device reaches the agent.
    enum Arrival: CaseIterable {
        case withTheRefusal, underWay, beforeSending
    }

    @Test("An edit falls with its creation that a deletion refuses, and people are not asked about it alone", arguments: Arrival.allCases)
    func editOfACreationThatADeletionRefuses(_ arrival: Arrival) throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        let keys = [try agent.create("a", ["note": "mine"]).key, try agent.update("a", ["finding": "fail"]).key]
        if arrival != .beforeSending { #expect(try agent.claim(1).map(\.key) == [keys[0]]) }
        if arrival != .withTheRefusal { try agent.pull([], deleted: [("a", 7)]) }
        if arrival != .beforeSending {
            #expect(try agent.states(keys) == ["in_flight", "pending"])
            let problem = Problem("deleted", status: 410, detail: "audit/a does not exist any more")
            let summary = try agent.answer(PushResult(key: keys[0], verdict: .rejected(problem, current: .deleted(version: 7))))
            #expect(summary.rejected == 2)
        }
        #expect(try agent.states(keys) == ["rejected", "rejected"])
        let told = try #require(try agent.store.reads.mutation(keys[1], at: agent.now)?.problem)
        #expect(told.code == "parent-rejected" && told.members["parent"]?.text == keys[0].text)
        #expect(try agent.store.reads.conflicts(ConflictQuery()).items.isEmpty)
        #expect(try agent.view("a") == nil)
        _ = try agent.store.retry(keys[0], cascades: true, by: agent.app, at: agent.now)
        #expect(try agent.states(keys) == ["resolved", "resolved"])
        #expect(try agent.claim().map(\.action) == [.create, .update])
        #expect(try agent.store.verify() == [])
    }

    @Test("A deletion behind a creation that a deletion refuses takes effect, and the next creation rests on it")
    func recreatedBehindARefusedCreation() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        let keys = [
            try agent.create("a", ["note": "mine"]).key, try agent.update("a", ["finding": "fail"]).key, try agent.delete("a").key,
            try agent.create("a", ["note": "anew"]).key, try agent.update("a", ["finding": "pass"]).key,
        ]
        try agent.pull([], deleted: [("a", 7)])
        #expect(try agent.states(keys) == ["rejected", "rejected", "superseded", "pending", "pending"])
        let batch = try agent.claim()
        #expect(batch.map(\.key) == [keys[3], keys[4]] && batch.first?.baseVersion == 7)
        #expect(try agent.store.verify() == [])
    }

    @Test("An edit of a record that is deleted and recreated falls with the new creation, and is never sent without it")
    func refusedCreateAfterDeletion() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["n": 1]), ("x", 5, ["n": 1])])
        let delete = try agent.delete("a").key
        let create = try agent.list([TestAgent.mutation(.create, "a", ["n": 2]), TestAgent.mutation(.update, "x", ["n": 2])])[0].key
        let edit = try agent.update("a", ["n": 3]).key
        try agent.pull([], deleted: [("x", 7)])
        #expect(try agent.states([delete, create, edit]) == ["pending", "rejected", "rejected"])
        let problem = try #require(try agent.store.reads.mutation(edit, at: agent.now)?.problem)
        #expect(problem.code == "parent-rejected" && problem.members["parent"]?.text == create.text)
        #expect(try agent.view("a") == nil)
        #expect(try agent.claim().map(\.key) == [delete])
        #expect(try agent.store.verify() == [])
    }

    @Test("An edit of a record that was there and is deleted is told so")
    func deleted() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["n": 1])])
        let key = try agent.update("a", ["n": 2]).key
        _ = try agent.claim()
        let problem = Problem("deleted", status: 410, detail: "audit/a does not exist any more")
        try agent.answer(PushResult(key: key, verdict: .rejected(problem, current: .deleted(version: 7))))
        #expect(try agent.store.reads.mutation(key, at: agent.now)?.problem?.code == "deleted")
    }
}
