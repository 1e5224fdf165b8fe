import SyncCore
import SyncStore
import Testing

/// PROTOCOL A3, C5 (T4), C7: pages of the hub.
@Suite("Pull")
struct PullTests {
    private func cursor(_ agent: TestAgent, _ entity: String = "audit") throws -> String? {
        try agent.store.loadStreams(at: agent.now).first { $0.entity.text == entity }?.cursor
    }

    @Test("A page and its cursor are one transaction", arguments: [CommitStage.before, .after])
    func oneTransaction(_ stage: CommitStage) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.pull([("a", 1, ["v": 1])], cursor: "c1", hasMore: true)
        agent.store.gate = { at throws(StoreError) in if at == stage { throw StoreError(.stopped, doing: "commit") } }
        #expect(StoreError.code { try agent.pull([("a", 2, ["v": 2]), ("b", 3, [:])], cursor: "c2", hasMore: true) } == .stopped)
        try agent.reopen()
        let isThere = stage == .after
        #expect(try cursor(agent) == (isThere ? "c2" : "c1"))
        #expect(try agent.view("a") == (isThere ? #"{"v":2}"# : #"{"v":1}"#))
        #expect(try (agent.record("b") != nil) == isThere)
        // The same page again: nothing is lost and nothing is done twice.
        try agent.pull([("a", 2, ["v": 2]), ("b", 3, [:])], cursor: "c2")
        #expect(try agent.view("a") == #"{"v":2}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("The same page again changes nothing but the cursor")
    func idempotent() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1])], deleted: [("b", 6)], cursor: "c1")
        let before = try agent.record("a")
        let summary = try agent.pull([("a", 5, ["v": 99])], deleted: [("b", 6)], cursor: "c2")
        #expect(summary.upserts == 0 && summary.unchanged == 1 && summary.deletions == 0)
        #expect(try agent.record("a") == before)
        #expect(try cursor(agent) == "c2")
    }

    @Test("An older version never replaces a newer one, as record or as deletion")
    func older() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 5])])
        try agent.pull([("a", 4, ["v": 4])])
        try agent.pull([], deleted: [("a", 3)])
        #expect(try agent.view("a") == #"{"v":5}"#)
        try agent.pull([], deleted: [("a", 6)])
        #expect(try agent.view("a") == nil)
        #expect(try agent.record("a")?.isDeleted == true)
        try agent.pull([("a", 5, ["v": 5])])
        #expect(try agent.view("a") == nil)
        try agent.pull([("a", 7, ["v": 7])])
        #expect(try agent.view("a") == #"{"v":7}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test(
        "Of two edits of one field that wait, the later one is sent although the hub has its value: it follows the earlier one",
        arguments: [false, true])
    func backToTheHubsValue(isFirstUnderWay: Bool) throws {
        let agent = try TestAgent()
        try agent.pull([("a", 1, ["v": 1])])
        let first = try agent.update("a", ["w": 2]).key
        if isFirstUnderWay { #expect(try agent.claim(1).map(\.key) == [first]) }
        let mutation = NewMutation(.update, EntityName(trusted: "audit"), RecordID(trusted: "a"), unset: ["w"], coalesces: false)
        let second = try agent.enqueue(mutation).key
        try agent.pull([("a", 2, ["v": 9])])
        #expect(try agent.view("a") == #"{"v":9}"#)
        if !isFirstUnderWay { #expect(try agent.claim(1).map(\.key) == [first]) }
        try agent.answer(.accepted(first, 3))
        #expect(try agent.claim().map(\.key) == [second])
        try agent.answer(.accepted(second, 4))
        #expect(try agent.view("a") == #"{"v":9}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("A text that is written over is gone, also where a pull shows the addition that is under way before its answer")
    func textWrittenOverUnderWay() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        agent.stamp = HybridTime(milliseconds: 1, counter: 0, node: "1")
        try agent.pull([("a", 5, ["notes": "rail"])])
        let first = try agent.update("a", ["notes": "rail, bolt"]).key
        let second = try agent.update("a", ["notes": "new"]).key
        let batch = try agent.claim(1)
        #expect(batch.map(\.key) == [first] && batch.first?.operations?.contains(#""append""#) == true)
        try agent.pull([("a", 7, ["notes": "rail, bolt"])])
        try agent.answer(.duplicate(first, .accepted, .record(HubRecord(version: 7, data: ["notes": "rail, bolt"]))))
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [second] && sent.first?.data == #"{"notes":"new"}"# && sent.first?.baseVersion == 7)
        #expect(try agent.view("a") == #"{"notes":"new"}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("Behind an addition that is under way a text of another device stays beside the one that is written over")
    func textOfAnotherDeviceBehindAnAddition() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        agent.stamp = HybridTime(milliseconds: 1, counter: 0, node: "1")
        try agent.pull([("a", 5, ["notes": "rail"])])
        _ = try agent.update("a", ["notes": "rail, bolt"])
        _ = try agent.update("a", ["notes": "new"])
        _ = try agent.claim(1)
        try agent.pull([("a", 7, ["notes": "rail, nut"])])
        let view = try #require(try agent.view("a"))
        #expect(view.contains("rail, nut") && view.contains("new"))
        #expect(try agent.store.verify() == [])
    }

    /// The hub knows which device changed what. This device cannot tell its own change from the same one by another device.
    @Test("A deletion behind a change that is under way is for the hub", arguments: [EntityRules.OnDeleted.updateWins, .manual])
    func deletionBehindChangeUnderWay(rule: EntityRules.OnDeleted) throws {
        var rules = EntityRules()
        (rules.onDeleted, rules.fields["n"]) = (rule, .counter)
        let agent = try TestAgent(rules: RuleBook([EntityName(trusted: "audit"): rules]))
        try agent.pull([("a", 1, ["n": 1, "v": 1])])
        let increment = NewMutation(
            .update, EntityName(trusted: "audit"), RecordID(trusted: "a"), operations: [FieldOperation("n", .increment, 1)])
        let first = try agent.enqueue(increment).key
        #expect(try agent.claim().map(\.key) == [first])
        let second = try agent.delete("a").key
        // Its own change comes with the feed before the answer.
        try agent.pull([("a", 2, ["n": 2, "v": 1])])
        #expect(try agent.state(second) == .pending && agent.view("a") == nil)
        try agent.answer(.duplicate(first, .accepted, .record(HubRecord(version: 2, data: ["n": 2, "v": 1]))))
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [second] && sent.map(\.baseVersion) == [1])
        try agent.answer(.accepted(second, 3))
        #expect(try agent.view("a") == nil && agent.store.verify() == [])
    }

    @Test("A deletion behind a change that brings its record back is for the hub", arguments: [false, true])
    func deletionBehindReturn(isAnswered: Bool) throws {
        var rules = EntityRules()
        rules.onDeleted = .updateWins
        let agent = try TestAgent(rules: RuleBook([EntityName(trusted: "audit"): rules]))
        try agent.pull([("a", 1, ["v": 1, "w": 1])])
        let first = try agent.update("a", ["w": 2]).key
        #expect(try agent.claim().map(\.key) == [first])
        let second = try agent.update("a", ["w": 3]).key, third = try agent.delete("a").key
        try agent.pull([], deleted: [("a", 2)])
        let back = HubRecord(version: 3, data: ["v": 1, "w": 2])
        if isAnswered { try agent.answer(.accepted(first, 3, record: back)) }
        try agent.pull([("a", 3, back.data)])
        if !isAnswered { try agent.answer(.duplicate(first, .accepted, .record(back))) }
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [second, third] && sent.map(\.baseVersion) == [3, 1])
        try agent.answer(.accepted(second, 4), .accepted(third, 5))
        #expect(try agent.view("a") == nil && agent.store.verify() == [])
    }

    @Test("Behind a change that brings its record back the last of two waiting values stays, also where the hub's value wins")
    func valuesBehindReturn() throws {
        var rules = EntityRules()
        (rules.onDeleted, rules.fields["v"]) = (.updateWins, .server)
        let agent = try TestAgent(rules: RuleBook([EntityName(trusted: "audit"): rules]))
        try agent.pull([("a", 1, ["v": 1, "w": 1])])
        let first = try agent.update("a", ["w": 2]).key
        #expect(try agent.claim().map(\.key) == [first])
        let keys = [try agent.update("a", ["v": 2]).key, try agent.update("a", ["v": 3]).key]
        try agent.pull([], deleted: [("a", 2)])
        try agent.answer(.accepted(first, 3, record: HubRecord(version: 3, data: ["v": 1, "w": 2])))
        #expect(try agent.states(keys) == ["pending", "pending"])
        #expect(try agent.view("a") == #"{"v":3,"w":2}"# && agent.store.verify() == [])
    }

    @Test("A record that is twice in a page ends as its newest")
    func twice() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 5]), ("a", 7, ["v": 7]), ("a", 6, ["v": 6])], deleted: [("b", 8)])
        #expect(try agent.view("a") == #"{"v":7}"#)
        #expect(try agent.record("b") == nil, "deleted before it was ever seen")
        try agent.pull([("c", 9, [:])], deleted: [("c", 10)])
        #expect(try agent.record("c")?.isDeleted == true)
    }

    @Test("Our own change comes back as an echo and changes nothing")
    func echo() throws {
        let agent = try TestAgent()
        let key = try agent.create("a", ["v": 1]).key
        _ = try agent.claim()
        try agent.answer(.accepted(key, 7))
        let before = try agent.record("a")
        let summary = try agent.pull([("a", 7, ["v": 1])])
        #expect(summary.unchanged == 1)
        #expect(try agent.record("a") == before)
    }

    @Test("An echo that arrives before the answer is taken in once", arguments: [0, 1])
    func earlyEcho(_ later: Int64) throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["n": 1])])
        var mutation = TestAgent.mutation(.update, "a")
        mutation.operations = [FieldOperation("n", .increment, 1)]
        let key = try agent.enqueue(mutation).key
        _ = try agent.claim()
        try agent.pull([("a", 7 + later, ["n": .int(2 + later)])])
        try agent.answer(.accepted(key, 7))
        #expect(try agent.view("a") == #"{"n":\#(2 + later)}"#)
        #expect(try agent.record("a")?.status == .synced)
        #expect(try agent.store.verify() == [])
    }

    @Test("Open mutations stay on top of what is pulled; a deletion refuses them, and keeps their value")
    func onTop() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["x": 1, "y": 1])])
        try agent.update("a", ["x": 2])
        try agent.pull([("a", 6, ["x": 9, "y": 9])])
        #expect(try agent.view("a") == #"{"x":2,"y":9}"#)
        #expect(try agent.record("a")?.base == #"{"x":9,"y":9}"#)
        try agent.pull([], deleted: [("a", 7)])
        #expect(try agent.view("a") == nil)
        #expect(try agent.record("a")?.status == .error)
        let refused = try #require(try agent.record("a")?.pending.first)
        let mutation = try #require(try agent.store.reads.mutation(refused, at: agent.now))
        #expect(mutation.state == .rejected && mutation.problem?.code == "deleted" && mutation.data == #"{"x":2}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("Events are not pulled, reference entities come first")
    func kinds() throws {
        let agent = try TestAgent()
        #expect(try agent.store.loadStreams(at: agent.now).map(\.entity.text) == ["template", "audit"])
        try agent.pull([("x", 1, [:])], entity: "reading")
        #expect(try agent.record("x", "reading") == nil)
        try agent.pull([("t", 1, ["form": 1])], entity: "template")
        #expect(try agent.view("t", "template") == #"{"form":1}"#)
    }

    // MARK: - Listings

    @Test("Records missing in a complete new listing are deleted; local or newer ones stay")
    func listing() throws {
        let agent = try TestAgent()
        try agent.pull((0..<10).map { ("r\($0)", Int64($0 + 1), ["v": 1]) }, head: 10)
        try agent.create("local")
        try agent.store.restartStreams([EntityName(trusted: "audit")], at: agent.now)
        #expect(try cursor(agent) == nil)
        #expect(try agent.view("r9") != nil, "nothing goes before the listing is complete")
        try agent.pull((0..<5).map { ("r\($0)", Int64($0 + 1), ["v": 1]) }, cursor: "p1", hasMore: true, head: 10)
        #expect(try agent.view("r9") != nil)
        // Made after the listing began, so it may be missing in it.
        try agent.pull([("new", 12, [:])], cursor: "p2", hasMore: true, head: 12)
        let summary = try agent.pull([("r5", 6, ["v": 1])], cursor: "p3", head: 12)
        #expect(summary.deletions == 4)
        for number in 0..<10 { #expect(try (agent.view("r\(number)") != nil) == (number < 6)) }
        #expect(try agent.view("local") != nil)
        #expect(try agent.view("new") != nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("A listing that would remove suspiciously much removes nothing and says so")
    func massDelete() throws {
        let agent = try TestAgent()
        try agent.pull((0..<300).map { ("r\($0)", Int64($0 + 1), [:]) }, head: 300)
        try agent.store.restartStreams([EntityName(trusted: "audit")], at: agent.now)
        let summary = try agent.pull([], head: 300)
        #expect(summary.massDeletes == [EntityName(trusted: "audit")])
        #expect(try agent.store.reads.entities().first { $0.name.text == "audit" }?.records == 300)
        #expect(try agent.store.reads.entities().first { $0.name.text == "audit" }?.sweepHeld == 300)
    }

    @Test("A small part of many is removed, in slices, in one transaction")
    func largeSweep() throws {
        let agent = try TestAgent()
        try agent.pull((0..<12_000).map { ("r\($0)", 1, [:]) }, head: 1)
        try agent.store.restartStreams([EntityName(trusted: "audit")], at: agent.now)
        let commits = agent.database.commits
        let summary = try agent.pull((0..<9_800).map { ("r\($0)", 1, [:]) }, head: 1)
        #expect(summary.deletions == 2_200 && summary.massDeletes.isEmpty)
        #expect(agent.database.commits == commits + 1)
        #expect(try agent.store.verify() == [])
    }
}
