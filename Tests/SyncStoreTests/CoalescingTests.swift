import SyncCore
import SyncStore
import Testing

/// PROTOCOL C6: when an edit goes into the one before it.
@Suite("Coalescing in the outbox")
struct StoreCoalescingTests {
    private static func rules(_ change: (inout EntityRules) -> Void = { _ in }) -> RuleBook {
        var audit = EntityRules(), site = EntityRules()
        audit.fields = ["finding": .manual]
        audit.refs = ["site": EntityName(trusted: "site")]
        change(&audit)
        site.priority = .normal
        var reading = EntityRules()
        reading.kind = .event
        return RuleBook([
            EntityName(trusted: "audit"): audit, EntityName(trusted: "site"): site, EntityName(trusted: "reading"): reading,
        ])
    }

    private static func edit(
        _ action: NewMutation.Action = .update, _ data: JSONObject = ["v": 2], id: String = "a", priority: Priority? = nil
    ) -> NewMutation {
        TestAgent.mutation(action, id, action == .delete ? [:] : data, priority: priority, coalesces: true)
    }

    @Test("Edits of a new record become one create; each receipt leads to it")
    func createAndUpdates() throws {
        let agent = try TestAgent(rules: Self.rules())
        let first = try agent.enqueue(Self.edit(.create, ["v": 1, "w": 1]))
        let second = try agent.enqueue(Self.edit())
        let third = try agent.enqueue(Self.edit(.update, ["x": 3]))
        #expect(second.state == .coalesced && third.state == .coalesced)
        #expect(second.into == first.key && third.into == first.key)
        #expect(third.record?.pending == [first.key])
        #expect(try JSONReader.read(agent.view("a") ?? "").object == ["v": 2, "w": 1, "x": 3])
        for key in [second.key, third.key] {
            let receipt = try #require(try agent.store.reads.mutation(key, at: agent.now))
            #expect(receipt.into == first.key && receipt.presentState == .pending)
        }
        #expect(try agent.store.verify() == [])
        let batch = try agent.claim()
        #expect(batch.map(\.key) == [first.key])
        #expect(try JSONReader.read(batch[0].data ?? "").object == ["v": 2, "w": 1, "x": 3])
        #expect(batch[0].action == .create)
        try agent.answer(.accepted(first.key, 7))
        #expect(try agent.store.reads.mutation(third.key, at: agent.now)?.presentState == .done)
        let facts = try agent.store.reads.facts(at: agent.now)
        #expect(facts.enqueued == 3 && facts.count(.done) == 1 && facts.count(.coalesced) == 2)
        #expect(try agent.store.verify() == [])
        #expect(try agent.record("a")?.status == .synced)
    }

    @Test("A receipt is kept as long as what it leads to, and no longer")
    func receiptsAreKept() throws {
        let agent = try TestAgent(rules: Self.rules())
        let first = try agent.enqueue(Self.edit(.create))
        let second = try agent.enqueue(Self.edit())
        agent.wait(.seconds(30 * 86_400))
        while try agent.store.housekeep(at: agent.now) {}
        #expect(try agent.store.reads.mutation(second.key, at: agent.now)?.presentState == .pending)
        _ = try agent.claim()
        try agent.answer(.accepted(first.key, 7))
        agent.wait(.seconds(8 * 86_400))
        while try agent.store.housekeep(at: agent.now) {}
        #expect(try agent.state(second.key) == nil)
        #expect(try agent.store.verify() == [])
    }

    /// Without a field that people decide about: beside one, the hub may ask about a deletion, and nothing goes into it.
    private static func rulesWithoutPeople() -> RuleBook {
        var rules = rules()
        for (entity, its) in rules.entities {
            rules.entities[entity]?.fields = its.fields.filter { $1 != .manual }
        }
        return rules
    }

    @Test("An edit and a deletion become the deletion")
    func updateAndDelete() throws {
        let agent = try TestAgent(rules: Self.rulesWithoutPeople())
        try agent.pull([("a", 5, ["v": 1])])
        let first = try agent.enqueue(Self.edit())
        let second = try agent.enqueue(Self.edit(.delete))
        #expect(second.state == .coalesced)
        #expect(try agent.view("a") == nil)
        let batch = try agent.claim()
        #expect(batch.map(\.key) == [first.key] && batch[0].action == .delete && batch[0].baseVersion == 5)
        #expect(batch[0].data == nil)
        #expect(try agent.store.verify() == [])
    }

    @Test(
        "A record whose id was made up here, and that is made and deleted unseen, goes nowhere",
        arguments: [
            EntityRules.OnDeleted.deleteWins, .updateWins, .manual,
        ])
    func createAndDelete(_ onDeleted: EntityRules.OnDeleted) throws {
        let agent = try TestAgent(rules: Self.rules { $0.onDeleted = onDeleted })
        let first = try agent.enqueue(TestAgent.mutation(.create, nil, ["v": 1], coalesces: true))
        let id = first.recordName.id.text
        let second = try agent.enqueue(Self.edit(id: id))
        let third = try agent.enqueue(Self.edit(.delete, id: id))
        #expect(try agent.states([first.key, second.key, third.key]) == ["cancelled", "coalesced", "cancelled"])
        #expect(try agent.store.reads.mutation(second.key, at: agent.now)?.presentState == .cancelled)
        #expect(try agent.claim().isEmpty)
        #expect(try agent.record(id)?.view == nil)
        #expect(try agent.store.verify() == [])
        // The id is free again.
        let again = try agent.enqueue(Self.edit(.create, id: id))
        #expect(try agent.claim().map(\.key) == [again.key])
    }

    @Test("An id that an app chose may be in use at the hub: made and deleted unseen, the record is deleted there")
    func createAndDeleteOfOwnID() throws {
        let agent = try TestAgent(rules: Self.rules { $0.fields = [:] })
        let first = try agent.enqueue(Self.edit(.create))
        let second = try agent.enqueue(Self.edit())
        let third = try agent.enqueue(Self.edit(.delete))
        #expect(try agent.states([first.key, second.key, third.key]) == ["pending", "coalesced", "coalesced"])
        #expect(try agent.record("a")?.view == nil)
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [first.key] && sent.map(\.action) == [.delete] && sent.map(\.baseVersion) == [0])
        try agent.answer(.accepted(first.key, 0))
        #expect(try agent.states([first.key]) == ["done"])
        #expect(try agent.record("a")?.view == nil)
        #expect(try agent.store.verify() == [])
        let again = try agent.enqueue(Self.edit(.create))
        #expect(try agent.claim().map(\.key) == [again.key])
    }

    @Test("Where the deletion may give way to what others wrote, or people may be asked, creation and deletion stay two", arguments: 0..<4)
    func createAndDeleteStayTwo(_ index: Int) throws {
        let rules: [(inout EntityRules) -> Void] = [
            { ($0.fields, $0.onDeleted) = ([:], .updateWins) }, { ($0.fields, $0.onDeleted) = ([:], .manual) },
            { $0.fields = ["finding": .manual] }, { ($0.fields, $0.criticalFields) = ([:], ["finding"]) },
        ]
        let agent = try TestAgent(rules: Self.rules(rules[index]))
        let first = try agent.enqueue(Self.edit(.create))
        let second = try agent.enqueue(Self.edit(.delete))
        #expect(try agent.states([first.key, second.key]) == ["pending", "pending"])
        // Both go in one batch or in two, in their order.
        #expect(try agent.claim().map(\.action) == [.create, .delete])
        #expect(try agent.store.verify() == [])
    }

    @Test("The app can still take both back")
    func cancelsCreateAndDelete() throws {
        let agent = try TestAgent(rules: Self.rules { $0.fields = [:] })
        let first = try agent.enqueue(Self.edit(.create)).key
        let second = try agent.enqueue(Self.edit(.delete)).key
        #expect(try agent.store.cancel(first, at: agent.now) == [first, second])
        #expect(try agent.claim().isEmpty)
        #expect(try agent.store.reads.mutation(second, at: agent.now)?.presentState == .cancelled)
        #expect(try agent.store.verify() == [])
    }

    @Test("A creation that is taken back names the edits that had gone into it as well")
    func cancelNamesEdits() throws {
        let agent = try TestAgent(rules: Self.rules())
        let made = try agent.enqueue(Self.edit(.create)).key
        let edit = try agent.enqueue(Self.edit()).key
        let urgent = try agent.enqueue(Self.edit(.update, ["w": 1], priority: .critical)).key
        #expect(try agent.store.cancel(made, at: agent.now) == [made, edit, urgent])
        #expect(try agent.store.cancel(made, at: agent.now) == [made])
        #expect(try agent.store.verify() == [])
    }

    struct Case: CustomTestStringConvertible {
        var rule: String
        var rules: (inout EntityRules) -> Void = { _ in }
        /// Acts between the two, or before the second.
        var between: (TestAgent, Enqueued) throws -> Void = { _, _ in }
        var first = StoreCoalescingTests.edit(.create, ["v": 1])
        var second: (Enqueued) -> NewMutation = { _ in StoreCoalescingTests.edit() }
        var testDescription: String { rule }
    }

    private static func changed(_ mutation: NewMutation, _ change: (inout NewMutation) -> Void) -> NewMutation {
        var mutation = mutation
        change(&mutation)
        return mutation
    }

    nonisolated(unsafe) private static let cases: [Case] = [
        Case(rule: "the entity does not coalesce", rules: { $0.coalesces = false }),
        Case(rule: "the entity keeps its history", rules: { $0.keepsHistory = true }),
        Case(rule: "the app does not want it", second: { _ in changed(edit()) { $0.coalesces = false } }),
        Case(rule: "the older one does not want it", first: changed(edit(.create, ["v": 1])) { $0.coalesces = false }),
        Case(rule: "another priority", second: { _ in edit(priority: .critical) }),
        Case(rule: "another author", second: { _ in changed(edit()) { $0.author = "ines" } }),
        Case(rule: "the older one touches a manual field", first: edit(.create, ["finding": "crack"])),
        Case(rule: "the newer one touches a manual field", second: { _ in edit(.update, ["finding": "crack"]) }),
        Case(rule: "the newer one removes a manual field", second: { _ in changed(edit()) { $0.unset = ["finding"] } }),
        Case(rule: "the older one was sent", between: { agent, _ in _ = try agent.claim() }),
        Case(
            rule: "the older one was sent and came back",
            between: { agent, first in
                _ = try agent.claim()
                try agent.answer(.retry(first.key))
            }),
        Case(rule: "another mutation is between them", between: { agent, _ in try agent.update("a", ["w": 1]) }),
        Case(
            rule: "the newer one waits for something of its own",
            second: { _ in changed(edit()) { $0.data = ["site": "s1"] } }),
        Case(
            rule: "the result would be large",
            second: { _ in edit(.update, ["p": .string(String(repeating: "x", count: Coalescing.bytesMax))]) }),
        Case(rule: "files belong to the newer one", second: { _ in changed(edit()) { $0.blobs = [["field": "photo", "blob": "b-1"]] } }),
    ]

    @Test("Edits that stay two", arguments: 0..<15)
    func staysTwo(_ index: Int) throws {
        try #require(index < Self.cases.count)
        let example = Self.cases[index]
        let agent = try TestAgent(rules: Self.rules(example.rules))
        let photo = try #require(BlobDigest(bytes: SHA256.hash([1])))
        _ = try agent.store.addBlob(
            photo, size: 1, type: "image/jpeg", filename: "", by: agent.app, capacity: BlobCapacity(), at: agent.now)
        let first = try agent.enqueue(example.first)
        try agent.enqueue(TestAgent.mutation(.create, "s1", entity: "site"))
        try example.between(agent, first)
        let second = try agent.enqueue(example.second(first))
        #expect(second.state == .pending, "\(example.rule)")
        #expect(try agent.state(first.key) != .cancelled)
        #expect(try agent.store.verify() == [], "\(example.rule)")
    }

    @Test("Another app's edit, and members of an atomic list, stay for themselves")
    func apps() throws {
        let agent = try TestAgent(rules: Self.rules())
        try agent.enqueue(Self.edit(.create))
        let other = Requester(app: AppName(trusted: "other"), uid: 1001)
        let second = try agent.store.enqueue([Self.edit()], by: other, at: agent.now)[0]
        #expect(second.state == .pending)
        let list = try agent.list([Self.edit(), Self.edit(.update, ["v": 3])])
        #expect(list.map(\.state) == [.pending, .pending])
        let third = try agent.enqueue(Self.edit())
        #expect(third.state == .pending)
        #expect(try agent.store.verify() == [])
    }

    @Test("A creation that others wait for is not taken back by a deletion")
    func parentsStay() throws {
        let agent = try TestAgent(rules: Self.rules())
        let site = try agent.enqueue(TestAgent.mutation(.create, "s1", entity: "site", coalesces: true))
        let child = try agent.enqueue(Self.edit(.create, ["site": "s1"]))
        let gone = try agent.enqueue(TestAgent.mutation(.delete, "s1", entity: "site", coalesces: true))
        #expect(gone.state == .pending)
        #expect(try agent.claim().map(\.key) == [site.key, child.key, gone.key])
    }

    @Test("A creation that the hub has as well is no creation any more, so a deletion does not take it back but takes its place")
    func knownRecordsStay() throws {
        let agent = try TestAgent(rules: Self.rulesWithoutPeople())
        let made = try agent.enqueue(Self.edit(.create))
        try agent.pull([("a", 5, ["v": 9])])
        let gone = try agent.enqueue(Self.edit(.delete))
        #expect(try agent.states([made.key, gone.key]) == ["pending", "coalesced"])
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [made.key])
        #expect(sent.map(\.action) == [.delete])
        #expect(sent.map(\.baseVersion) == [5])
    }

    @Test(
        "A deadline belongs to the change that has it: changes with different ones stay two",
        arguments: [
            (10, 20), (20, 10), (10, nil), (nil, 10),
        ] as [(Int?, Int?)])
    func timeToLive(_ first: Int?, _ second: Int?) throws {
        let agent = try TestAgent(rules: Self.rules())
        try agent.pull([("a", 5, ["v": 1, "w": 1])])
        let one = try agent.enqueue(Self.changed(Self.edit()) { $0.ttl = first.map { .seconds($0) } }).key
        let two = try agent.enqueue(Self.changed(Self.edit(.update, ["w": 2])) { $0.ttl = second.map { .seconds($0) } }).key
        #expect(try agent.states([one, two]) == ["pending", "pending"])
        agent.wait(.seconds(15))
        func fate(_ ttl: Int?) -> String { ttl.map { $0 < 15 } ?? false ? "expired" : "in_flight" }
        #expect(try agent.claim().count == [first, second].count { fate($0) == "in_flight" })
        #expect(try agent.states([one, two]) == [fate(first), fate(second)])
        #expect(try agent.store.verify() == [])
    }

    @Test("Changes with one and the same deadline become one and keep it")
    func sameDeadline() throws {
        let agent = try TestAgent(rules: Self.rules { $0.ttl = .seconds(10) })
        try agent.pull([("a", 5, ["v": 1, "w": 1])])
        let one = try agent.enqueue(Self.edit()).key
        #expect(try agent.enqueue(Self.edit(.update, ["w": 2])).into == one)
        agent.wait(.seconds(1))
        #expect(try agent.enqueue(Self.edit(.update, ["w": 3])).state == .pending, "its deadline is another one")
        agent.wait(.seconds(9))
        #expect(try agent.claim().map(\.data) == [#"{"w":3}"#])
        #expect(try agent.state(one) == .expired)
    }

    @Test("It survives a crash, and a rejection shows all of it")
    func survives() throws {
        let agent = try TestAgent(rules: Self.rules())
        try agent.pull([("a", 5, ["v": 1, "n": 1])])
        let first = try agent.enqueue(Self.edit())
        var counted = Self.edit(.update, [:])
        counted.operations = [FieldOperation("n", .increment, 1)]
        try agent.enqueue(counted)
        try agent.enqueue(counted)
        try agent.crash()
        #expect(try JSONReader.read(agent.view("a") ?? "").object == ["v": 2, "n": 3])
        let batch = try agent.claim()
        #expect(batch.count == 1 && batch[0].operations == "[{\"field\":\"n\",\"op\":\"inc\",\"value\":2}]")
        try agent.answer(.rejected(first.key))
        #expect(try JSONReader.read(agent.view("a") ?? "").object == ["v": 1, "n": 1])
        #expect(try agent.store.verify() == [])
    }

    // MARK: Stamps

    private static func stamp(_ moment: Moment) -> HybridTime {
        HybridTime(milliseconds: UInt64(clamping: moment.wall.milliseconds), counter: 0, node: "1")
    }

    @Test("An earlier edit is sent with its own stamp, and a rebase compares it by that stamp", arguments: [true, false])
    func earlierEditKeepsItsStamp(_ isContested: Bool) throws {
        let agent = try TestAgent(rules: Self.rules())
        agent.stamp = Self.stamp(agent.now)
        try agent.pull([("a", 5, ["l": 0, "k": 0])])
        agent.wait(.seconds(1))
        let nine = Self.stamp(agent.now)
        let first = try agent.enqueue(Self.edit(.update, ["l": 9]))
        agent.wait(.seconds(3 * 3_600))
        let noon = Self.stamp(agent.now)
        agent.wait(.seconds(5 * 3_600))
        #expect(try agent.enqueue(Self.edit(.update, ["k": 17])).state == .coalesced)
        if isContested {
            agent.stamp = noon
            try agent.pull([("a", 6, ["l": 12, "k": 0])])
        }
        try agent.crash()
        #expect(try agent.store.verify() == [])
        let sent = try #require(try agent.claim().first)
        #expect(sent.key == first.key && sent.clock == .synced)
        let body = PushMessages.request(Batch(mutations: [sent], ackedSeq: 0, maxSentSeq: 9), config: nil)
        let read = try PushMessages.readRequest(body).items[0].content.get()
        if isContested {
            #expect(sent.data == #"{"k":17}"# && sent.fieldHLC == nil)
        } else {
            #expect(sent.data == #"{"l":9,"k":17}"#)
            #expect(read.content.stamps.map { "\($0.key.text) \($0.value.milliseconds)" } == ["l \(nine.milliseconds)"])
            // Frozen.
            try agent.answer(.retry(sent.key, after: .seconds(1)))
            agent.wait(.seconds(600))
            #expect(try agent.claim().map(\.fieldHLC) == [sent.fieldHLC])
        }
    }

    @Test("Parts that were made without a clock are each dated when the time is known, and operations as well")
    func partsAreDated() throws {
        let agent = try TestAgent(rules: Self.rules()) { $0.clockTrust = .unsynced }
        try agent.pull([("a", 5, ["l": 0, "k": 0])])
        try agent.enqueue(Self.edit(.update, ["l": 9]))
        agent.wait(.seconds(60))
        var counted = Self.edit(.update, [:])
        counted.operations = [FieldOperation("n", .increment, 1)]
        #expect(try agent.enqueue(counted).state == .coalesced)
        agent.wait(.seconds(30))
        #expect(try agent.enqueue(Self.edit(.update, ["k": 17])).state == .coalesced)
        let truth: Int64 = 1_795_216_800_000
        try agent.store.learn(ClockAnchor(difference: truth - agent.now.instant.nanoseconds / 1_000_000, error: .zero), at: agent.now)
        let sent = try #require(try agent.claim().first)
        #expect(sent.clock == .retro && HybridTime(sent.hlc)?.milliseconds == UInt64(truth))
        let body = PushMessages.request(Batch(mutations: [sent], ackedSeq: 0, maxSentSeq: 9), config: nil)
        let read = try PushMessages.readRequest(body).items[0].content.get()
        #expect(read.content.stamps[JSONString("l")]?.milliseconds == UInt64(truth - 90_000) && read.content.stamps.count == 1)
        #expect(read.content.operations.map(\.hlc?.milliseconds) == [UInt64(truth - 30_000)])
        #expect(try agent.store.verify() == [])
    }

    @Test("Edits with and without a known time are not joined, unless nothing is left of the older")
    func knownAndUnknownTimesAreNotJoined() throws {
        let agent = try TestAgent(rules: Self.rules()) { $0.clockTrust = .synced }
        try agent.pull([("a", 5, ["l": 0, "k": 0])])
        try agent.enqueue(Self.edit(.update, ["l": 9]))
        agent.options.clockTrust = .unsynced
        try agent.crash()
        #expect(try agent.enqueue(Self.edit(.update, ["k": 17])).state == .pending)
        #expect(try agent.enqueue(Self.edit(.update, ["k": 18])).state == .coalesced)
        #expect(try agent.claim().allSatisfy { $0.fieldHLC == nil })
    }
}
