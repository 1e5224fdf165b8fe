import SyncCore
import SyncStore
import Testing

/// An older copy of the database was put back: what waits in it may have been sent since (PROTOCOL A6, C6).
@Suite("Mutations that waited at a start")
struct DoubtTests {
    private static func edit(_ action: NewMutation.Action = .update, _ id: String = "a", _ data: JSONObject = ["v": 2]) -> NewMutation {
        TestAgent.mutation(action, id, data, coalesces: true)
    }

    /// A store with one change of `a` that waits, thrown away and opened again.
    private func restarted(_ others: [String] = []) throws -> (TestAgent, Enqueued) {
        let agent = try TestAgent()
        let first = try agent.enqueue(Self.edit(.create, "a", ["v": 1]))
        for id in others { try agent.enqueue(Self.edit(.create, id, ["v": 1])) }
        try agent.crash()
        return (agent, first)
    }

    @Test("It takes no edit in; edits of this life are still held together")
    func standsAlone() throws {
        let (agent, first) = try restarted()
        let second = try agent.enqueue(Self.edit())
        #expect(second.state == .pending && second.into == nil)
        let third = try agent.enqueue(Self.edit(.update, "a", ["v": 3]))
        #expect(third.state == .coalesced && third.into == second.key)
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [first.key, second.key])
        #expect(sent.map(\.data) == [#"{"v":1}"#, #"{"v":3}"#], "what may be at the hub already goes as it was")
        try agent.answer(.accepted(first.key, 7), .accepted(second.key, 8))
        #expect(try agent.view("a") == #"{"v":3}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("A creation is not taken back by a deletion either")
    func deletion() throws {
        let (agent, first) = try restarted()
        #expect(try agent.enqueue(Self.edit(.delete, "a", [:])).state == .pending)
        #expect(try agent.state(first.key) == .pending)
    }

    @Test("The first answer to a push ends it for everything above what that push stated as sent")
    func answered() throws {
        let (agent, first) = try restarted(["b", "c"])
        #expect(try agent.claim(1).map(\.key) == [first.key])
        #expect(try agent.enqueue(Self.edit(.update, "c")).state == .pending, "no answer came yet")
        try agent.answer(.accepted(first.key, 7))
        #expect(try agent.enqueue(Self.edit(.update, "b")).state == .coalesced)
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation that a more urgent one overtook stays in doubt, because the push stated a higher number")
    func overtakenMutationStaysInDoubt() throws {
        let (agent, _) = try restarted(["b"])
        let urgent = try agent.enqueue(TestAgent.mutation(.create, "z", ["v": 1], priority: .critical))
        #expect(try agent.claim(1).map(\.key) == [urgent.key])
        try agent.answer(.accepted(urgent.key, 7))
        #expect(try agent.enqueue(Self.edit(.update, "b")).state == .pending)
    }

    @Test("An existing backend knows no replicas: its answer proves nothing")
    func backend() throws {
        let agent = try RestTests.agent()
        try agent.enqueue(Self.edit(.create, "a", ["v": 1]))
        try agent.enqueue(Self.edit(.create, "b", ["v": 1]))
        try agent.crash()
        let sent = try agent.claim(1)
        _ = try RestTests.apply(agent, RestResult(sent[0].key, .accepted(RestRemote(id: 5, document: ["id": 5, "v": 1]))))
        #expect(try agent.enqueue(Self.edit(.update, "b")).state == .pending)
    }

    // MARK: - The hub knows the key with other content

    private static func mismatch(_ key: MutationKey, _ original: String?, _ current: HubState?) -> PushResult {
        var problem = Problem("idempotency-mismatch", status: 422, detail: "this key was used before for another change")
        problem.members["original"] = original.map { .string($0) }
        return PushResult(key: key, verdict: .rejected(problem, current: current))
    }

    private static let there = HubState.record(HubRecord(version: 9, data: ["v": 1, "n": 5, "later": true]))

    @Test("Where the hub accepted the key with more content, this content is in there: the mutation is done")
    func contained() throws {
        let agent = try TestAgent()
        let first = try agent.enqueue(Self.edit(.create, "a", ["v": 1]))
        _ = try agent.claim()
        try agent.answer(Self.mismatch(first.key, "accepted", Self.there))
        #expect(try agent.state(first.key) == .done)
        #expect(try agent.view("a") == #"{"v":1,"n":5,"later":true}"#)
        #expect(try agent.record("a")?.status == .synced)
        #expect(try agent.store.verify() == [])
    }

    @Test(
        "A hub that says nothing of the first one, or did not accept it, leaves the decision to a person",
        arguments: [nil, "rejected", "conflict"])
    func undecided(_ original: String?) throws {
        let agent = try TestAgent()
        let first = try agent.enqueue(Self.edit(.create, "a", ["v": 1]))
        _ = try agent.claim()
        try agent.answer(Self.mismatch(first.key, original, original == nil ? nil : .absent))
        #expect(try agent.state(first.key) == .rejected)
        let again = try agent.store.retry(first.key, by: agent.app, at: agent.now)
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [again.key] && sent[0].data == #"{"v":1}"#)
        #expect(sent[0].supersedes.isEmpty, "the hub would refuse whatever answers for that key")
        try agent.answer(.accepted(again.key, 12))
        #expect(try agent.view("a") == #"{"v":1}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("A retry sends only the edits that went into it since: what the hub accepted is not applied twice")
    func partsAlone() throws {
        let agent = try TestAgent()
        var create = Self.edit(.create, "a", ["v": 1])
        create.operations = [FieldOperation("n", .increment, 5)]
        let first = try agent.enqueue(create)
        var add = Self.edit(.update, "a", ["w": 2])
        add.operations = [FieldOperation("n", .increment, 3)]
        #expect(try agent.enqueue(add).state == .coalesced)
        var more = Self.edit(.update, "a", [:])
        more.operations = [FieldOperation("n", .increment, 1)]
        #expect(try agent.enqueue(more).state == .coalesced)
        _ = try agent.claim()
        try agent.answer(Self.mismatch(first.key, "accepted", Self.there))
        #expect(try agent.state(first.key) == .rejected, "edits of this device may be missing there")
        let again = try agent.store.retry(first.key, by: agent.app, at: agent.now)
        #expect(again.state == .pending)
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [again.key] && sent[0].action == .update)
        #expect(sent[0].data == #"{"w":2}"#)
        #expect(sent[0].operations?.contains(#""value":4"#) == true, "3 and 1, without the 5 that the hub has")
        #expect(sent[0].supersedes.isEmpty)
        try agent.answer(.accepted(again.key, 12))
        #expect(try agent.record("a")?.status == .synced)
        #expect(try agent.store.verify() == [])
    }

    @Test("A retry that was refused because its predecessor's key was decided can be retried as well")
    func refusedRetryOfADecidedKeyCanBeRetried() throws {
        let agent = try TestAgent()
        let first = try agent.enqueue(Self.edit(.create, "a", ["v": 1]))
        _ = try agent.claim()
        try agent.answer(.rejected(first.key))
        let second = try agent.store.retry(first.key, by: agent.app, at: agent.now)
        #expect(try agent.claim().map(\.supersedes) == [[first.key]])
        let problem = Problem("already-decided", status: 409, detail: "the mutation was decided before")
        try agent.answer(PushResult(key: second.key, verdict: .rejected(problem, current: Self.there)))
        let third = try agent.store.retry(second.key, by: agent.app, at: agent.now)
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [third.key] && sent[0].supersedes.isEmpty && sent[0].action == .update)
        // Should this one be refused for another reason, its own successor answers for it alone.
        try agent.answer(.rejected(third.key))
        let fourth = try agent.store.retry(third.key, by: agent.app, at: agent.now)
        #expect(try agent.claim().map(\.supersedes) == [[third.key]])
        #expect(try agent.store.reads.mutation(third.key, at: agent.now)?.supersedes == nil)
        try agent.answer(.accepted(fourth.key, 20))
        #expect(try agent.store.verify() == [])
    }

    @Test("Where the hub has accepted what a decision answers for, a retry sends its values and does not count anything twice")
    func decidedOperations() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 10, ["v": 1, "n": 5])])
        var count = Self.edit(.update, "a", ["v": 2])
        count.operations = [FieldOperation("n", .increment, 3)]
        let first = try agent.enqueue(count)
        _ = try agent.claim()
        try agent.answer(.rejected(first.key))
        let second = try agent.store.retry(first.key, fix: ["w": 7], by: agent.app, at: agent.now)
        #expect(try agent.claim().map(\.operations) == [#"[{"field":"n","op":"inc","value":3}]"#])
        let problem = Problem("already-decided", status: 409, detail: "the mutation was decided before")
        try agent.answer(PushResult(key: second.key, verdict: .rejected(problem, current: Self.there)))
        _ = try agent.store.retry(second.key, by: agent.app, at: agent.now)
        let sent = try agent.claim()
        #expect(sent.map(\.data) == [#"{"v":2,"w":7}"#] && sent.map(\.operations) == [nil])
        #expect(try agent.store.verify() == [])
    }

    @Test("A refused atomic list lets go of its parts: all with cascade, or each when the others are given up")
    func lists() throws {
        for discards in [false, true] {
            let agent = try TestAgent()
            let list = try agent.list([Self.edit(.create, "a"), Self.edit(.create, "b")])
            _ = try agent.claim()
            let other = PushResult(
                key: list[1].key, verdict: .rejected(Problem("group-rejected", status: 409, detail: "another mutation"), current: nil))
            try agent.answer(Self.mismatch(list[0].key, nil, nil), other)
            #expect(try agent.states(list.map(\.key)) == ["rejected", "rejected"])
            if discards {
                try agent.store.discard(list[0].key, reason: "it is there", uid: 0, at: agent.now)
                let again = try agent.store.retry(list[1].key, by: agent.app, at: agent.now)
                #expect(try agent.claim().map(\.key) == [again.key])
                try agent.answer(.accepted(again.key, 5))
            } else {
                _ = try agent.store.retry(list[0].key, cascades: true, by: agent.app, at: agent.now)
                let sent = try agent.claim()
                #expect(sent.map(\.record.id.text) == ["a", "b"])
                #expect(sent.map(\.supersedes) == [[], [list[1].key]])
                try agent.answer(.accepted(sent[0].key, 5), .accepted(sent[1].key, 5))
                #expect(try agent.record("b")?.status == .synced)
            }
            #expect(try agent.store.verify() == [])
        }
    }
}
