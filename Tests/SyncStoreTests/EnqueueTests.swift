import SyncCore
import SyncStore
import Testing

/// PROTOCOL B2: what is taken, and what is refused without a trace.
@Suite("Enqueue")
struct EnqueueTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var action: NewMutation.Action
        /// Documents that the hub has sent before; `nil` means it never had the record.
        var base: JSONObject?
        var isDeletedAtHub = false
        /// The action that is sent; `nil` means refused with the code.
        var sent: MutationAction?
        var code: String?
        var view: String?
        var testDescription: String { "\(action) of \(base.map(\.json) ?? (isDeletedAtHub ? "a tombstone" : "nothing"))" }
    }

    @Test(
        "Each action on a record that is there, that was there and that never was",
        arguments: [
            Case(action: .create, sent: .create, view: #"{"v":1}"#),
            Case(action: .create, base: ["n": 7], code: "exists"),
            Case(action: .create, isDeletedAtHub: true, sent: .create, view: #"{"v":1}"#),
            Case(action: .update, code: "not-found"),
            Case(action: .update, base: ["n": 7], sent: .update, view: #"{"n":7,"v":1}"#),
            Case(action: .update, isDeletedAtHub: true, code: "deleted"),
            Case(action: .upsert, sent: .create, view: #"{"v":1}"#),
            Case(action: .upsert, base: ["n": 7], sent: .update, view: #"{"n":7,"v":1}"#),
            Case(action: .upsert, isDeletedAtHub: true, sent: .create, view: #"{"v":1}"#),
            Case(action: .delete, code: "not-found"),
            Case(action: .delete, base: ["n": 7], sent: .delete, view: nil),
            Case(action: .delete, isDeletedAtHub: true, code: "deleted"),
        ])
    func actions(_ example: Case) throws {
        let agent = try TestAgent()
        if let base = example.base { try agent.pull([("a", 5, base)]) }
        if example.isDeletedAtHub {
            try agent.pull([("a", 4, ["n": 7])])
            try agent.pull([], deleted: [("a", 5)])
        }
        let mutation = TestAgent.mutation(example.action, "a", example.action == .delete ? [:] : ["v": 1])
        if let code = example.code {
            #expect(agent.refusal(mutation)?.code == code)
            #expect(try agent.store.reads.facts(at: agent.now).enqueued == 0)
        } else {
            let made = try agent.enqueue(mutation)
            #expect(made.record?.view == example.view)
            #expect(try agent.view("a") == example.view)
            #expect(try agent.record("a")?.status == .pending)
            let sent = try agent.claim()
            #expect(sent.map(\.action) == [example.sent])
            #expect(sent[0].baseVersion == (example.base == nil && !example.isDeletedAtHub ? 0 : 5))
        }
        #expect(try agent.store.verify() == [])
    }

    @Test("An update keeps nothing of what it found: the base of its record is what it is compared with")
    func keepsNoOldValues() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.pull([("a", 5, ["x": 1, "y": 2, "z": 3])])
        var mutation = TestAgent.mutation(.update, "a", ["x": 10])
        mutation.unset = ["y"]
        mutation.operations = [FieldOperation("new", .increment, 1)]
        try agent.enqueue(mutation)
        #expect(try agent.view("a") == #"{"x":10,"z":3,"new":1}"#)
        #expect(try RawDatabase(folder.database).rows("SELECT base_fields FROM payload") == [[nil]])
    }

    @Test("Numbers and text go out byte for byte as they came in")
    func keepsText() throws {
        let agent = try TestAgent()
        let text = #"{"big":9007199254740993,"price":1.10,"e":1E400,"text":"e\u0301\u00e9 é","deep":[[1.0,-0]]}"#
        let data = try #require(try JSONReader.read(text).object)
        try agent.enqueue(TestAgent.mutation(.create, "a", data))
        #expect(try agent.claim().first?.data?.utf8.elementsEqual(text.utf8) == true)
        #expect(try agent.view("a")?.utf8.elementsEqual(text.utf8) == true)
    }

    @Test("A version that was expected is compared with the hub's, and 0 means never seen")
    func expectedVersion() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["n": 7])])
        func update(_ expected: Int64?, _ id: String = "a", _ action: NewMutation.Action = .update) -> Problem? {
            var mutation = TestAgent.mutation(action, id, ["v": 1])
            mutation.expectedVersion = expected
            return agent.refusal(mutation)
        }
        let refused = update(4)
        #expect(refused?.code == "version-mismatch" && refused?.status == 409)
        #expect(refused?.errors.first?.pointer == "/expect_version")
        #expect(update(5) == nil)
        // An open mutation does not change the hub's version.
        #expect(update(5) == nil)
        #expect(update(0) != nil)
        #expect(update(0, "b", .upsert) == nil)
        #expect(update(3, "c", .create)?.code == "version-mismatch")
    }

    @Test("After the hub's history has changed a condition takes the version that a read shows, and a refusal names that one")
    func expectedVersionOfOtherHistory() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["n": 7])])
        while try agent.store.forgetHistory(at: agent.now) {}
        let shown = try #require(try agent.record("a")?.version)
        #expect(shown == 0)
        var mutation = TestAgent.mutation(.update, "a", ["v": 1])
        mutation.expectedVersion = 5
        #expect(agent.refusal(mutation)?.members["version"] == JSON.int(shown))
        #expect(agent.refusal(TestAgent.mutation(.create, "a"))?.members["version"] == JSON.int(shown))
        mutation.expectedVersion = shown
        #expect(agent.refusal(mutation) == nil)
    }

    @Test("An object is a change of what is shown when it is taken, also where its app saw an older one and does not say so")
    func olderView() throws {
        var rules = EntityRules()
        rules.fields = ["form": .merge]
        let agent = try TestAgent(rules: RuleBook([EntityName(trusted: "audit"): rules]))
        try agent.pull([("a", 5, ["form": ["left": 1, "right": 1]])])
        // An app makes its request of this, and its answer does not come. Meanwhile:
        try agent.pull([("a", 7, ["form": ["left": 1, "right": 3]])])
        var again = TestAgent.mutation(.update, "a", ["form": ["left": 2, "right": 1]])
        again.expectedVersion = 5
        #expect(agent.refusal(again)?.code == "version-mismatch", "a create that names the version it saw is told")
        again.expectedVersion = nil
        try agent.enqueue(again)
        let sent = try #require(try agent.claim().first)
        #expect(sent.data == #"{"form":{"left":2,"right":1}}"# && sent.base == #"{"form":{"left":1,"right":3}}"#)
        #expect(try agent.view("a") == #"{"form":{"left":2,"right":1}}"#)
    }

    @Test("A created record without an id gets one, and the row does not keep it twice")
    func mintsID() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let made = try agent.enqueue(TestAgent.mutation(.create, nil, ["v": 1]))
        #expect(made.recordName.id.text == made.key.text)
        #expect(try agent.record(made.key.text)?.view == #"{"v":1}"#)
        #expect(try RawDatabase(folder.database).rows("SELECT id FROM payload") == [[nil]])
        #expect(try agent.claim().map(\.record) == [made.recordName])
    }

    struct Refused: Sendable, CustomTestStringConvertible {
        var what: String
        var mutation: NewMutation
        var code: String
        var pointer: String?
        var testDescription: String { what }

        init(
            _ what: String, _ mutation: NewMutation, _ code: String, _ pointer: String? = nil,
            _ change: (inout NewMutation) -> Void = { _ in }
        ) {
            self.what = what
            self.mutation = mutation
            self.code = code
            self.pointer = pointer
            change(&self.mutation)
        }
    }

    @Test(
        "A refused mutation is reported with its place and leaves no trace",
        arguments: [
            Refused("an event that is updated", TestAgent.mutation(.update, "e", entity: "reading"), "validation", "/action"),
            Refused("an event with a version", TestAgent.mutation(.create, nil, entity: "reading"), "validation", "/expect_version") {
                $0.expectedVersion = 1
            },
            Refused("a reference", TestAgent.mutation(.create, "t", entity: "template"), "validation", "/entity"),
            Refused("an update without an id", TestAgent.mutation(.update, nil, ["v": 1]), "validation", "/record_id"),
            Refused("a dependency that never was", TestAgent.mutation(.create, "a", ["v": 1]), "validation", "/depends_on/0") {
                $0.dependsOn = [MutationKey(trusted: "019aa4b6-4500-72dd-a0e9-522b65ebe5a1")]
            },
            Refused(
                "too much",
                TestAgent.mutation(.create, "a", ["v": .string(JSONString(String(repeating: "x", count: Limits.mutationBytes)))]),
                "too-large"),
        ])
    func refusedMutationNamesThePlace(_ example: Refused) throws {
        let agent = try TestAgent()
        let commits = agent.database.commits
        let problem = agent.refusal(example.mutation)
        #expect(problem?.code == example.code)
        if let pointer = example.pointer { #expect(problem?.errors.map(\.pointer) == [pointer]) }
        #expect(agent.database.commits == commits, "nothing was written")
        #expect(try agent.store.verify() == [])
    }

    @Test("A record may not grow past its limit by updates")
    func recordLimit() throws {
        let agent = try TestAgent()
        let half = JSON.string(JSONString(String(repeating: "x", count: 100_000)))
        try agent.create("a", ["p": half])
        try agent.update("a", ["q": half])
        #expect(agent.refusal(TestAgent.mutation(.update, "a", ["r": half]))?.code == "too-large")
        #expect(try agent.store.verify() == [])
    }

    @Test("An entity without configuration is a record, unless the book is strict; names end at their limit")
    func unknownEntities() throws {
        let agent = try TestAgent()
        try agent.enqueue(TestAgent.mutation(.create, "x", ["v": 1], entity: "other"))
        #expect(try agent.record("x", "other")?.status == .pending)
        try agent.store.use(RuleBook(TestAgent.rules.entities, isStrict: true), at: agent.now)
        #expect(agent.refusal(TestAgent.mutation(.create, "y", entity: "other"))?.code == "validation")
        try agent.store.use(TestAgent.rules, at: agent.now)
        for number in 1..<1_000 { try agent.enqueue(TestAgent.mutation(.create, nil, entity: "e\(number)")) }
        #expect(agent.refusal(TestAgent.mutation(.create, nil, entity: "one.more"))?.errors.first?.pointer == "/entity")
        #expect(try agent.store.reads.entities().count == 1_000)
    }

    // MARK: - Lists

    @Test("An atomic list is accepted whole, in order, as one group")
    func list() throws {
        let agent = try TestAgent()
        let made = try agent.list([
            TestAgent.mutation(.create, "a", ["v": 1]), TestAgent.mutation(.update, "a", ["v": 2]),
            TestAgent.mutation(.create, nil, ["t": 1], entity: "reading"),
        ])
        #expect(made.map(\.seq) == [1, 2, 3])
        let sent = try agent.claim()
        #expect(sent.map(\.key) == made.map(\.key))
        #expect(Set(sent.map { $0.group?.text }) == [made[0].key.text])
        #expect(Set(sent.map(\.priority)) == [.normal], "a list has the priority of its most urgent member")
    }

    @Test("One bad member refuses the list, and its place is in the pointers", arguments: [0, 1, 2])
    func badMember(_ place: Int) throws {
        let agent = try TestAgent()
        try agent.create("there")
        let before = try agent.store.reads.facts(at: agent.now).enqueued
        var list = [
            TestAgent.mutation(.create, "a"), TestAgent.mutation(.create, "b"), TestAgent.mutation(.create, nil, entity: "reading"),
        ]
        list[place] = TestAgent.mutation(.create, "there")
        let problem = StoreError.problem { _ = try agent.list(list) }
        #expect(problem?.code == "exists")
        #expect(problem?.errors.first?.pointer.hasPrefix("/mutations/\(place)") == true)
        #expect(try agent.store.reads.facts(at: agent.now).enqueued == before)
        #expect(try agent.record("a") == nil)
        #expect(try agent.claim().count == 1)
        #expect(try agent.store.verify() == [])
    }

    @Test("A list holds 50 at the most, and at least one")
    func listLimits() throws {
        let agent = try TestAgent()
        func list(_ count: Int) -> Problem? {
            StoreError.problem { _ = try agent.list((0..<count).map { _ in TestAgent.mutation(.create, nil) }) }
        }
        #expect(list(0)?.code == "validation")
        #expect(list(51)?.code == "validation")
        #expect(list(50) == nil)
    }

    @Test("In a bulk enqueue each line stands alone, and all share one commit")
    func bulk() throws {
        let agent = try TestAgent()
        try agent.create("a")
        let commits = agent.database.commits
        let results = try agent.store.enqueueEach(
            [TestAgent.mutation(.create, "b"), TestAgent.mutation(.create, "a"), TestAgent.mutation(.update, "b", ["v": 2])], by: agent.app,
            at: agent.now)
        let seqs = results.map { result in if case .success(let made) = result { made.seq } else { Int64(0) } }
        #expect(seqs == [2, 0, 3])
        #expect(agent.database.commits == commits + 1)
        #expect(try agent.store.verify() == [])
    }

    @Test("A change of a record whose creation was refused is refused with the name of the creation, not because of a deletion")
    func refusedCreation() throws {
        let agent = try TestAgent()
        let creation = try agent.create("a").key
        _ = try agent.claim()
        try agent.answer(.rejected(creation))
        for action in [NewMutation.Action.update, .delete] {
            let problem = try #require(agent.refusal(TestAgent.mutation(action, "a")))
            #expect(problem.code == "deleted" && problem.members["mutation"]?.text == creation.text)
            #expect(problem.detail == "there is no record audit/a: the mutation \(creation), which was to create it, is rejected")
        }
        // This one is deleted, though its first creation was refused.
        let again = try agent.create("a").key
        _ = try agent.claim()
        try agent.answer(.accepted(again, 3))
        try agent.delete("a")
        let problem = try #require(agent.refusal(TestAgent.mutation(.update, "a", ["n": 2])))
        #expect(problem.detail == "the record audit/a is deleted" && problem.members["mutation"] == nil)
    }

    // MARK: - Keys of apps

    private func key(_ text: String = "insp-1", _ byte: UInt8 = 1) -> AppKey {
        AppKey(key: text, fingerprint: [UInt8](repeating: byte, count: 16))
    }

    @Test("The same key and body is answered as before, whatever has become of the mutation", arguments: ["audit", "reading"])
    func sameKey(_ entity: String) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let mutation = TestAgent.mutation(.create, nil, ["v": 1], entity: entity)
        let first = try agent.enqueue(mutation, appKey: key())
        for state in [MutationState.pending, .inFlight, .done] {
            if state == .inFlight { _ = try agent.claim() }
            if state == .done { try agent.answer(.accepted(first.key, 9)) }
            try agent.reopen()
            let again = try agent.enqueue(mutation, appKey: key())
            #expect(again.isRepeat && again.key == first.key && again.seq == first.seq && again.state == state)
        }
        // Its row goes after seven days, the answer stays for thirty.
        agent.wait(.seconds(8 * 86_400))
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try agent.state(first.key) == nil)
        #expect(try agent.enqueue(mutation, appKey: key()).state == .done)
        agent.wait(.seconds(23 * 86_400))
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try RawDatabase(folder.database).number("SELECT count(*) FROM app_key") == 0)
        #expect(try agent.store.reads.facts(at: agent.now).enqueued == 1)
    }

    @Test("The same key of an edit that was merged is answered with what has become of the mutation that it went into")
    func sameKeyMerged() throws {
        let agent = try TestAgent()
        let older = try agent.enqueue(TestAgent.mutation(.create, "a", ["v": 1], coalesces: true))
        let edit = TestAgent.mutation(.update, "a", ["v": 2], coalesces: true)
        let first = try agent.enqueue(edit, appKey: key())
        #expect(first.state == .coalesced && first.into == older.key)
        for state in [MutationState.pending, .inFlight, .rejected] {
            if state == .inFlight { _ = try agent.claim() }
            if state == .rejected { try agent.answer(.rejected(older.key)) }
            let again = try agent.enqueue(edit, appKey: key())
            #expect(again.isRepeat && again.key == first.key && again.state == state && again.into == older.key)
        }
    }

    @Test("The same key of a deletion that ended with its creation is answered as cancelled for as long as the key is kept")
    func sameKeyCancelled() throws {
        let agent = try TestAgent()
        let made = try agent.enqueue(TestAgent.mutation(.create, nil, ["v": 1], coalesces: true))
        let delete = TestAgent.mutation(.delete, made.recordName.id.text, coalesces: true)
        let first = try agent.enqueue(delete, appKey: key())
        #expect(first.state == .cancelled && first.into == made.key)
        for days in [0, 8, 20] {
            agent.wait(.seconds(days * 86_400))
            while try agent.store.housekeep(at: agent.now) {}
            let again = try agent.enqueue(delete, appKey: key())
            #expect(again.isRepeat && again.key == first.key && again.state == .cancelled)
        }
    }

    @Test("The same key with another body is refused; another app may use it")
    func otherBody() throws {
        let agent = try TestAgent()
        try agent.enqueue(TestAgent.mutation(.create, "a"), appKey: key())
        #expect(agent.refusal(TestAgent.mutation(.create, "b"), appKey: key("insp-1", 2))?.code == "idempotency-mismatch")
        let other = Requester(app: AppName(trusted: "other"), uid: 7)
        let made = try agent.store.enqueue([TestAgent.mutation(.create, "b")], by: other, appKey: key("insp-1", 2), at: agent.now)
        #expect(!made[0].isRepeat)
    }

    @Test("A key that was refused with its mutation is free again")
    func refusedKey() throws {
        let agent = try TestAgent()
        try agent.create("a")
        #expect(agent.refusal(TestAgent.mutation(.create, "a"), appKey: key())?.code == "exists")
        #expect(try !agent.enqueue(TestAgent.mutation(.create, "b"), appKey: key("insp-1", 2)).isRepeat)
    }

    @Test("A list with a key is answered as a list")
    func listKey() throws {
        let agent = try TestAgent()
        let list = [TestAgent.mutation(.create, "a"), TestAgent.mutation(.update, "a", ["v": 2])]
        let first = try agent.store.enqueue(list, isAtomic: true, by: agent.app, appKey: key(), at: agent.now)
        let again = try agent.store.enqueue(list, isAtomic: true, by: agent.app, appKey: key(), at: agent.now)
        #expect(again.map(\.key) == first.map(\.key))
        #expect(again.allSatisfy { $0.isRepeat })
    }
}
