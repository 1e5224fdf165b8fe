import SyncCore
import SyncStore
import Testing

/// PROTOCOL A6: the hub has another history, and what it had accepted is offered to it again.
@Suite("A new history of the hub")
struct HistoryTests {
    private static let audit = EntityName(trusted: "audit")

    @Test("Accepted mutations are found by seq, page by page; what is open, refused or taken back is not asked about")
    func settled() throws {
        let agent = try TestAgent()
        var keys: [MutationKey] = []
        for number in 0..<1_100 { keys.append(try agent.event(["n": .int(Int64(number))]).key) }
        try agent.drain()
        let refused = try agent.create("r").key
        _ = try agent.claim()
        try agent.answer(PushResult(key: refused, verdict: .rejected(Problem("validation", status: 422, detail: "no"), current: nil)))
        try agent.create("open")
        let first = try agent.store.loadSettled(after: 0)
        #expect(first.keys == Array(keys[0..<1_000]) && first.upTo == 1_000)
        let second = try agent.store.loadSettled(after: first.upTo)
        #expect(second.keys == Array(keys[1_000...]) && second.upTo == 1_100)
        #expect(try agent.store.loadSettled(after: second.upTo).keys.isEmpty)
    }

    @Test("Mutations that the hub forgot are in flight again, unchanged, before all others and in the order of seq")
    func requeued() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let keys = [
            try agent.create("a", ["n": 1], priority: .bulk).key, try agent.update("a", ["n": 2], priority: .critical).key,
            try agent.event(["t": 1]).key, try agent.delete("a").key,
        ]
        var sent: [MutationKey: OutgoingMutation] = [:]
        var version: Int64 = 100
        while case let batch = try agent.claim(), !batch.isEmpty {
            for mutation in batch { sent[mutation.key] = mutation }
            _ = try agent.store.applyResults(
                batch.map {
                    version += 1; return .accepted($0.key, version)
                }, next: nil, at: agent.now)
        }
        let newer = try agent.create("b").key
        _ = try agent.claim()
        let facts = try agent.store.reads.facts(at: agent.now)
        // Asked in pages: the later ones may be told first.
        #expect(try agent.store.requeue([keys[3], keys[2]], at: agent.now) == 2)
        #expect(try agent.store.requeue([keys[0], keys[1], keys[1], MutationKey(trusted: "unknown")], at: agent.now) == 2)
        #expect(try agent.store.requeue(keys, at: agent.now) == 0)
        try agent.reopen()
        let batch = try agent.inFlight()
        #expect(batch.map(\.key) == keys + [newer])
        for mutation in batch.dropLast() {
            #expect(mutation.data == sent[mutation.key]?.data && mutation.baseVersion == sent[mutation.key]?.baseVersion)
        }
        let after = try agent.store.reads.facts(at: agent.now)
        #expect(after.enqueued == facts.enqueued)
        #expect(try agent.store.verify() == [])
    }

    // Fault: where a pull brought the deletion first, the base contained the change, so its additions counted twice and its values not at
    // all.
    @Test(
        "A change that is offered again and meets a deletion comes back once, and rests on nothing that it wrote itself",
        arguments: [false, true])
    func conflictOfRequeued(_ isPulled: Bool) throws {
        var rules = EntityRules()
        rules.fields = ["n": .counter, "list": .append, "m": .manual]
        rules.onDeleted = .manual
        let agent = try TestAgent(rules: RuleBook([Self.audit: rules]))
        try agent.pull([("a", 10, ["n": 5, "m": "old", "title": "t", "list": ["w"]])], head: 10)
        let key = try agent.enqueue(
            NewMutation(
                .update, Self.audit, RecordID(trusted: "a"), data: ["m": "mine"],
                operations: [FieldOperation("n", .increment, 2), FieldOperation("list", .append, ["x"])])
        ).key
        try agent.drain()
        #expect(try agent.store.requeue([key], at: agent.now) == 1)
        #expect(try !agent.store.forgetHistory(at: agent.now))
        _ = try agent.inFlight()
        if isPulled { try agent.pull([], deleted: [("a", 3)], head: 3) }
        try agent.answer(.conflict(key, ["$delete"], isPulled ? .deleted(version: 3) : .absent))
        let shown: JSONObject = ["n": 7, "m": "mine", "title": "t", "list": ["w", "x"]]
        #expect(try agent.document("a") == shown)
        try ConflictTests.resolve(agent, .all(.local))
        let decision = try #require(try agent.claim().first)
        let before: JSONObject = ["n": 5, "title": "t", "list": ["w"]]
        var data = before
        data["m"] = "mine"
        #expect(try JSONReader.read(Array((decision.base ?? "").utf8)).object == before)
        #expect(try JSONReader.read(Array((decision.data ?? "").utf8)).object == data)
        #expect(decision.operations == #"[{"field":"n","op":"inc","value":2},{"field":"list","op":"append","value":["x"]}]"#)
        #expect(try agent.document("a") == shown)
        #expect(try agent.store.verify() == [])
    }

    @Test("An addition that is offered again shows once, before and after, until the hub's new record is here")
    func showsOnce() throws {
        var rules = EntityRules()
        rules.fields = ["n": .counter, "list": .append]
        let agent = try TestAgent(rules: RuleBook([Self.audit: rules]))
        try agent.pull([("a", 10, ["n": 5])], head: 10)
        let key = try agent.enqueue(
            NewMutation(
                .update, Self.audit, RecordID(trusted: "a"), data: [:],
                operations: [FieldOperation("n", .increment, 2), FieldOperation("list", .append, ["x"])])
        ).key
        try agent.drain()
        let shown = try agent.view("a")
        #expect(shown == #"{"n":7,"list":["x"]}"#)
        #expect(try agent.store.requeue([key], at: agent.now) == 1)
        #expect(try agent.view("a") == shown)
        #expect(try agent.store.verify() == [])
        #expect(try !agent.store.forgetHistory(at: agent.now))
        #expect(try agent.view("a") == shown)
        _ = try agent.inFlight()
        try agent.answer(.accepted(key, 3))
        #expect(try agent.view("a") == shown, "the hub's record of this history is not known yet")
        #expect(try agent.record("a")?.version == 0)
        let page = SnapshotPage(
            entity: Self.audit, startCursor: "s", startVersion: 3,
            records: [.init(id: RecordID(trusted: "a"), record: HubRecord(version: 3, data: ["n": 4, "list": ["x"]]))],
            after: RecordID(trusted: "a"),
            hasMore: false)
        _ = try agent.store.applySnapshot(page, at: agent.now)
        #expect(try agent.view("a") == #"{"n":4,"list":["x"]}"#)
        #expect(try agent.record("a")?.version == 3)
        #expect(try agent.store.verify() == [])
    }

    @Test("A sent mutation rests on no version of the new history, which may have passed its number with other changes")
    func restsOnNothing() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 10, ["n": 5]), ("b", 11, ["n": 5])], head: 11)
        let answered = try agent.update("a", ["n": 6]).key
        #expect(try agent.claim().map(\.baseVersion) == [10])
        try agent.answer(.accepted(answered, 12))
        let unanswered = try agent.update("b", ["n": 6]).key
        let sent = try #require(try agent.claim().first)
        #expect(try agent.store.requeue([answered], at: agent.now) == 1)
        #expect(try !agent.store.forgetHistory(at: agent.now))
        let again = try agent.inFlight()
        #expect(again.map(\.key) == [answered, unanswered] && again.map(\.baseVersion) == [0, 0])
        #expect(again.last?.data == sent.data && again.last?.firstDigest == sent.firstDigest)
        #expect(try agent.store.verify() == [])
    }

    // Fault: an update that was not sent before went with the number that its record had in an older history. The new one may have given
    // it to another version, which then counted as seen.
    @Test("A mutation that was not sent rests on no version of an older history either, until the new one shows its record")
    func unsentRestsOnNothing() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 10, ["n": 5]), ("b", 11, ["n": 5])], head: 11)
        try agent.update("a", ["n": 6])
        try agent.update("b", ["n": 6])
        #expect(try !agent.store.forgetHistory(at: agent.now))
        let rows = [StreamPage.Record(id: RecordID(trusted: "a"), record: HubRecord(version: 3, data: ["n": 5]))]
        let page = SnapshotPage(entity: Self.audit, startCursor: "s", startVersion: 5, records: rows, after: rows[0].id, hasMore: true)
        _ = try agent.store.applySnapshot(page, at: agent.now)
        #expect(try agent.claim().map(\.baseVersion) == [3, 0])
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation without a verdict goes before a forgotten one of the same record, as it was made before")
    func unansweredFirst() throws {
        let agent = try TestAgent()
        let first = try agent.create("a", ["n": 1]).key, urgent = try agent.update("a", ["n": 2], priority: .critical).key
        #expect(try agent.claim().map(\.key) == [first, urgent])
        try agent.answer(.accepted(urgent, 7))
        #expect(try agent.store.requeue([urgent], at: agent.now) == 1)
        #expect(try agent.inFlight().map(\.key) == [first, urgent])
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation without a verdict that waits for a later attempt is not overtaken by a forgotten one of the same record")
    func setAsideFirst() throws {
        let agent = try TestAgent()
        let first = try agent.create("a", ["n": 1]).key, urgent = try agent.update("a", ["n": 2], priority: .critical).key
        #expect(try agent.claim().map(\.key) == [first, urgent])
        try agent.answer(.accepted(urgent, 7))
        try agent.store.setAside(first, Problem("nonsense", status: 502, detail: "no result for it"), counts: false, at: agent.now)
        #expect(try agent.store.requeue([urgent], at: agent.now) == 1)
        #expect(try agent.inFlight().isEmpty && agent.claim().isEmpty)
        agent.wait(.seconds(3_600))
        #expect(try agent.claim().map(\.key) == [first])
        try agent.answer(.accepted(first, 8))
        #expect(try agent.claim().map(\.key) == [urgent])
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation that names one which the new history refuses falls with it, instead of waiting for ever")
    func refusedDependency() throws {
        let agent = try TestAgent()
        let first = try agent.create("a", ["n": 1]).key
        try agent.drain()
        var second = TestAgent.mutation(.create, "b")
        second.dependsOn = [first]
        let waiting = try agent.enqueue(second).key
        #expect(try agent.store.requeue([first], at: agent.now) == 1)
        #expect(try agent.inFlight().map(\.key) == [first])
        try agent.answer(PushResult(key: first, verdict: .rejected(Problem("validation", status: 422, detail: "no"), current: nil)))
        #expect(try agent.claim().map(\.key) == [waiting])
        try agent.answer(.retry(waiting, "dependency-missing"))
        #expect(try agent.states([first, waiting]) == ["rejected", "rejected"])
        #expect(try agent.store.verify() == [])
    }

    @Test("A history that ends takes along what was known of the one before it")
    func twoHistories() throws {
        var rules = EntityRules()
        rules.fields = ["n": .counter]
        let agent = try TestAgent(rules: RuleBook([Self.audit: rules]))
        try agent.pull([("a", 10, ["n": 5])], head: 10)
        let key = try agent.enqueue(
            NewMutation(.update, Self.audit, RecordID(trusted: "a"), data: [:], operations: [FieldOperation("n", .increment, 2)])
        ).key
        try agent.drain()
        #expect(try agent.store.requeue([key], at: agent.now) == 1)
        _ = try agent.store.forgetHistory(at: agent.now)
        // The new hub has a record of its own, and has not said what became of ours.
        let page = SnapshotPage(
            entity: Self.audit, startCursor: "s", startVersion: 3,
            records: [.init(id: RecordID(trusted: "a"), record: HubRecord(version: 3, data: ["n": 1]))], after: RecordID(trusted: "a"),
            hasMore: false)
        _ = try agent.store.applySnapshot(page, at: agent.now)
        #expect(try agent.view("a") == #"{"n":3}"#)
        _ = try agent.store.forgetHistory(at: agent.now)
        #expect(try agent.view("a") == #"{"n":3}"#, "that it was in the first history says nothing about this base")
        #expect(try agent.store.verify() == [])
    }

    @Test("Every version becomes one of an older history, in slices; then everything is listed afresh")
    func forgets() throws {
        let agent = try TestAgent()
        try agent.pull((0..<2_500).map { ("r\($0)", Int64($0 + 1), ["v": 1]) }, cursor: "c", head: 2_500)
        try agent.create("local")
        var slices = 1
        while try agent.store.forgetHistory(at: agent.now) {
            slices += 1
            // A power cut between two slices begins again, which costs nothing but time.
            if slices == 2 { try agent.crash() }
        }
        #expect(slices >= 3)
        let streams = try agent.store.loadStreams(at: agent.now)
        #expect(streams.allSatisfy { $0.listing != nil && $0.cursor == nil })
        #expect(try agent.view("r17") == #"{"v":1}"#, "the mirror stays readable")
        #expect(try agent.store.verify() == [])
        // An old number is newer than nothing of the new history.
        let rows = [StreamPage.Record(id: RecordID(trusted: "r17"), record: HubRecord(version: 1, data: ["v": 9]))]
        let page = SnapshotPage(entity: Self.audit, startCursor: "s", startVersion: 5, records: rows, after: rows[0].id, hasMore: true)
        #expect(try agent.store.applySnapshot(page, at: agent.now).summary.upserts == 1)
        #expect(try agent.view("r17") == #"{"v":9}"#)
    }

    @Test("The progress of the move to a new history, and the time of the last full pull, outlive a restart")
    func remembers() throws {
        let agent = try TestAgent()
        var memory = EngineMemory(epoch: "old")
        memory.healing = EngineMemory.Healing(epoch: "new", askedSeq: 412, requeued: 3)
        memory.pulledAt = agent.now.wall
        memory.leftOut = LeftOutRecords(["works": ["w-1"]])
        (memory.readUnder, memory.writtenUnder) = ("m1", ["m2", "m3"])
        try agent.store.remember(memory, at: agent.now)
        try agent.crash()
        #expect(try agent.store.memory() == memory)
    }

    @Test("The marks of the scopes under which verdicts and pages were recorded are on flash with them")
    func writtenUnder() throws {
        let agent = try TestAgent()
        try agent.create("r1")
        let sent = try agent.claim()
        _ = try agent.store.applyResults(sent.map { .accepted($0.key, 1) }, next: nil, writtenUnder: ["m1"], at: agent.now)
        try agent.crash()
        #expect(try agent.store.memory().writtenUnder == ["m1"])
        var page = TestAgent.page([("a", 3, ["n": 1])])
        page.writtenUnder = ["m1", "m2"]
        _ = try agent.store.applyPull(page, at: agent.now)
        try agent.crash()
        #expect(try agent.store.memory().writtenUnder == ["m1", "m2"])
    }

    @Test("Records that the hub has left out are stored in the commit of the page that named them")
    func keepsLeftOut() throws {
        let agent = try TestAgent()
        var page = TestAgent.page([("a", 3, ["n": 1])])
        page.leftOut = LeftOutRecords(["audit": ["b"]])
        agent.store.gate = { stage throws(StoreError) in
            if stage == .before { throw StoreError(.ioError, doing: "commit") }
        }
        #expect(throws: StoreError.self) { try agent.store.applyPull(page, at: agent.now) }
        try agent.crash()
        #expect(try agent.store.memory().leftOut.isEmpty && agent.record("a") == nil)
        _ = try agent.store.applyPull(page, at: agent.now)
        try agent.crash()
        #expect(try agent.store.memory().leftOut.sentence == "1 of audit (b)" && agent.record("a") != nil)
        var listing = SnapshotPage(entity: Self.audit, startCursor: "s", startVersion: 5, records: [], after: nil, hasMore: false)
        listing.leftOut = LeftOutRecords()
        _ = try agent.store.applySnapshot(listing, at: agent.now)
        try agent.crash()
        #expect(try agent.store.memory().leftOut.isEmpty)
    }

    @Test("The rest of a list waits while another member is sent again")
    func listInPart() throws {
        let agent = try TestAgent()
        let keys = try agent.list([TestAgent.mutation(.create, "a"), TestAgent.mutation(.create, "b")]).map(\.key)
        _ = try agent.claim()
        try agent.answer(.retry(keys[0]), .accepted(keys[1], 5))
        agent.wait(.seconds(10_000))
        // Its wait is over, and nothing is urgent enough to go.
        #expect(try agent.claim(50, .critical).isEmpty && agent.states(keys) == ["pending", "done"])
        #expect(try agent.store.verify() == [])
        #expect(try agent.store.requeue([keys[1]], at: agent.now) == 1)
        #expect(try agent.store.verify() == [])
        #expect(try agent.claim().isEmpty, "its other member is on its way")
    }
}
