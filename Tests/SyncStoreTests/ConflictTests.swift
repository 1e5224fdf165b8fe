import SyncCore
import SyncStore
import Testing

/// Mutations that wait for a person: their beginning, the kept values and their end (PROTOCOL C7, D, B5).
@Suite("Conflicts")
struct ConflictTests {
    static let rules: RuleBook = {
        var audit = EntityRules()
        audit.fields = [
            "finding": .manual, "visits": .counter, "tags": .set, "notes": .append, "peak": .max, "form": .merge,
        ]
        var site = audit
        site.onDeleted = .updateWins
        return RuleBook([EntityName(trusted: "audit"): audit, EntityName(trusted: "site"): site])
    }()

    static func agent() throws -> TestAgent {
        let agent = try TestAgent(rules: rules)
        agent.stamp = HybridTime(milliseconds: 1, counter: 0, node: "1")
        try agent.pull([("a", 5, ["finding": "pass", "note": "old", "visits": 3, "tags": ["x"], "notes": "rail"])])
        return agent
    }

    /// An update of `a` that is in dispute over `finding`.
    static func disputed(_ data: JSONObject = ["finding": "fail"]) throws -> (TestAgent, MutationKey) {
        let agent = try agent()
        let key = try agent.update("a", data).key
        try agent.pull([("a", 7, ["finding": "flagged", "note": "old", "visits": 3, "tags": ["x"], "notes": "rail"])])
        return (agent, key)
    }

    static let ines = Requester(app: AppName(trusted: "ctl"), uid: 7)

    @discardableResult
    static func resolve(
        _ agent: TestAgent, _ scope: ConflictDecision.Scope, expecting version: Int64? = nil, id: Int64 = 1
    ) throws -> ResolvedConflict {
        try agent.store.resolve(
            id, ConflictDecision(scope, comment: "seen", expectedRemoteVersion: version), by: ines, at: agent.now)
    }

    // MARK: Beginning of a conflict

    @Test("A set that was written whole behind a dispute over another field is still sent as what it adds")
    func setBehindDispute() throws {
        let agent = try TestAgent(rules: Self.rules)
        try agent.pull([("a", 5, ["finding": "pass"])])
        var edit = TestAgent.mutation(.update, "a", ["finding": "fail"])
        edit.operations = [FieldOperation("tags", .remove, "x")]
        try agent.enqueue(edit)
        let delete = try agent.delete("a").key
        let anew = try agent.enqueue(TestAgent.mutation(.upsert, "a", ["tags": ["mine"]])).key
        try agent.pull([("a", 7, ["finding": "flagged"])])
        _ = try agent.store.cancel(delete, at: agent.now)
        try agent.pull([("a", 8, ["finding": "flagged", "note": "new"])])
        try agent.pull([("a", 9, ["finding": "flagged", "note": "new", "tags": ["theirs"]])])
        let sent = try #require(try agent.store.reads.mutation(anew, at: agent.now))
        #expect(sent.data == nil || sent.data == "{}")
        #expect(try JSONReader.read(try #require(sent.operations)) == .array([["op": "add", "field": "tags", "value": "mine"]]))
        #expect(try agent.store.verify() == [])
    }

    @Test("A pull over a disputed field asks at once, keeps both sides and what both had seen, and lets the local one be seen")
    func opened() throws {
        let (agent, key) = try Self.disputed()
        let conflict = try #require(try agent.conflicts().first)
        #expect(conflict.number == 1 && conflict.kind == .field && conflict.state == "open" && conflict.remoteVersion == 7)
        #expect(conflict.mutation == key && conflict.record == TestAgent.name("a"))
        let side = try #require(conflict.sides.first)
        #expect(side.field == "finding" && side.base == "pass" && side.local.value == "fail" && side.remote.value == "flagged")
        #expect(side.local.device == "gw-17" && side.local.at == agent.now.wall && side.remote.version == 7)
        let record = try #require(try agent.record("a"))
        #expect(record.status == .conflict && record.conflict == "c-1")
        #expect(try agent.document("a")?["finding"] == "fail")
        #expect(try agent.state(key) == .conflicted)
        #expect(try agent.claim().isEmpty, "it waits")
        #expect(try agent.store.verify() == [])
    }

    @Test("The writer and the time of the hub's side are shown")
    func who() throws {
        let agent = try Self.agent()
        try agent.update("a", ["finding": "fail"])
        var record = HubRecord(version: 7, data: ["finding": "flagged"], hlc: "0199c3f2a1b4-0000-9f2c11ab")
        record.fieldOrigins = ["finding": ["device": "gw-3", "author": "tom"]]
        let page = StreamPage(
            entity: EntityName(trusted: "audit"), cursor: "d", hasMore: false,
            records: [.init(id: RecordID(trusted: "a"), record: record, originDevice: "gw-9", originKey: "k", originAuthor: "eve")],
            deletions: [])
        _ = try agent.store.applyPull(PullResponse(epoch: "e", head: 7, pages: [page]), at: agent.now)
        let remote = try #require(try agent.conflicts().first?.sides.first?.remote)
        #expect(remote.author == "tom" && remote.device == "gw-3")
        #expect(remote.at == Timestamp(milliseconds: 0x0199_c3f2_a1b4))
    }

    @Test("A conflict that the hub finds is the same")
    func fromHub() throws {
        let agent = try Self.agent()
        let key = try agent.update("a", ["finding": "fail", "note": "new"]).key
        _ = try agent.claim()
        let current = HubState.record(HubRecord(version: 7, data: ["finding": "flagged", "note": "old"], hlc: "000000000009-0000-1"))
        try agent.answer(.conflict(key, ["finding"], current))
        let side = try #require(try agent.conflicts().first?.sides)
        #expect(side.map(\.field) == ["finding"] && side[0].base == "pass" && side[0].remote.value == "flagged")
        #expect(try agent.store.verify() == [])
    }

    // Fault: an accepted change before it made the base unknown. So the conflict had none, the value that its author had replaced was
    // listed as lost, and the conflict stayed open when the hub had the base again.
    @Test("A conflict that the hub finds shows what its author saw, also behind a change of the same answer", arguments: [false, true])
    func fromHubBehindAnother(isRepeat: Bool) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: Self.rules)
        agent.stamp = HybridTime(milliseconds: 1, counter: 0, node: "1")
        try agent.pull([("a", 5, ["finding": "open", "note": "old", "peak": 7])])
        let earlier = try agent.update("a", ["peak": 8]).key
        let key = try agent.update("a", ["finding": "fail", "note": "new"]).key
        #expect(try agent.claim().map(\.key) == [earlier, key])
        let record = HubRecord(version: 7, data: ["finding": "pass", "note": "old", "peak": 8], hlc: "000000000009-0000-1")
        let current = HubState.record(record)
        let accepted = isRepeat ? PushResult.duplicate(earlier, .accepted, current) : .accepted(earlier, 7, record: record)
        try agent.answer(accepted, .conflict(key, ["finding"], current))
        let sides = try #require(try agent.conflicts().first?.sides)
        #expect(sides.map(\.field) == ["finding"])
        #expect(sides[0].base == "open" && sides[0].local.value == "fail" && sides[0].remote.value == "pass")
        #expect(try RawDatabase(folder.database).rows("SELECT verb, json FROM audit").isEmpty, "nothing was lost")
        #expect(try agent.document("a") == ["finding": "fail", "note": "new", "peak": 8])
        try agent.pull([("a", 9, ["finding": "open", "note": "old", "peak": 8])])
        #expect(try agent.store.reads.conflict(1)?.state == "moot")
        let sent = try #require(try agent.claim().first)
        #expect(try JSONReader.read(sent.data ?? "").object == ["finding": "fail", "note": "new"])
        #expect(try agent.store.verify() == [])
    }

    @Test("What the author of a conflict saw includes the earlier change of the device that the same answer accepts")
    func fromHubBehindOwn() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: Self.rules)
        agent.stamp = HybridTime(milliseconds: 1, counter: 0, node: "1")
        try agent.pull([("a", 5, ["finding": "open", "note": "old"])])
        let earlier = try agent.update("a", ["note": "mine"]).key
        let key = try agent.update("a", ["finding": "fail", "note": "newer"]).key
        _ = try agent.claim()
        let record = HubRecord(version: 7, data: ["finding": "pass", "note": "mine"], hlc: "000000000009-0000-1")
        try agent.answer(.accepted(earlier, 7, record: record), .conflict(key, ["finding"], .record(record)))
        #expect(try agent.conflicts().first?.sides.map(\.base) == ["open"])
        #expect(try agent.document("a") == ["finding": "fail", "note": "newer"])
        #expect(try RawDatabase(folder.database).rows("SELECT verb, json FROM audit").isEmpty, "its own value was not lost")
        #expect(try agent.store.verify() == [])
    }

    @Test("It survives a restart")
    func restart() throws {
        let (agent, _) = try Self.disputed()
        let before = try agent.conflicts()
        try agent.crash()
        #expect(try agent.conflicts() == before)
        #expect(try Self.resolve(agent, .all(.local)).mutation != nil)
    }

    @Test("A journal event tells of each change of its state")
    func events() throws {
        let (agent, _) = try Self.disputed()
        try Self.resolve(agent, .all(.remote))
        let notes = try agent.store.reads.journal(after: 0, limit: 1_000, filter: JournalFilter()).events.compactMap { event in
            if case .note("conflict", let json) = event.body { try? JSONReader.read(json).object?["state"]?.text } else { nil }
        }
        #expect(notes == ["open", "resolved"])
        var others = JournalFilter()
        others.entities = [EntityName(trusted: "site")]
        #expect(try agent.store.reads.journal(after: 0, limit: 1_000, filter: others).events.isEmpty)
    }

    // MARK: Decisions without a person

    struct Mechanical: Sendable, CustomStringConvertible {
        let description: String
        let wrote: JSONObject
        let remote: JSONObject
        let view: JSONObject
        /// Data and operations as they go out; `nil`: nothing goes.
        let sent: (data: JSONObject, operations: [String])?
    }

    @Test(
        "Everything else is rebased without asking, and goes out resting on what was pulled",
        arguments: [
            Mechanical(
                description: "lww, ours is later", wrote: ["note": "new"], remote: ["note": "theirs"], view: ["note": "new"],
                sent: (["note": "new"], [])),
            Mechanical(
                description: "the same value, and ours is later", wrote: ["note": "theirs"], remote: ["note": "theirs"],
                view: ["note": "theirs"], sent: (["note": "theirs"], [])),
            Mechanical(
                description: "the same value where no stamp decides", wrote: ["finding": "fail"], remote: ["finding": "fail"],
                view: ["finding": "fail"], sent: nil),
            Mechanical(
                description: "counter", wrote: ["visits": 5], remote: ["visits": 9], view: ["visits": 11], sent: ([:], ["visits inc 2"])),
            Mechanical(
                description: "set", wrote: ["tags": ["x", "y"]], remote: ["tags": ["z"]], view: ["tags": ["z", "y"]],
                sent: ([:], ["tags add \"y\""])),
            Mechanical(
                description: "append", wrote: ["notes": "rail loose"], remote: ["notes": "rail, rusty"],
                view: ["notes": "rail, rusty loose"], sent: ([:], ["notes append \" loose\""])),
            Mechanical(
                description: "max", wrote: ["peak": 4], remote: ["peak": 9], view: ["peak": 9], sent: ([:], ["peak max 4"])),
            Mechanical(
                description: "merge", wrote: ["form": ["a": 1]], remote: ["form": ["b": 2]], view: ["form": ["b": 2, "a": 1]],
                sent: (["form": ["a": 1]], [])),
        ])
    func mechanical(_ example: Mechanical) throws {
        let agent = try Self.agent()
        let key = try agent.update("a", example.wrote).key
        try agent.pull([("a", 8, example.remote)])
        #expect(try agent.document("a") == example.view)
        #expect(try agent.conflicts().isEmpty)
        let batch = try agent.claim()
        guard let sent = example.sent else {
            #expect(batch.isEmpty)
            #expect(try agent.state(key) == .superseded)
            return
        }
        let mutation = try #require(batch.first)
        #expect(mutation.baseVersion == 8)
        #expect(try JSONReader.read(mutation.data ?? "{}").object == sent.data)
        let operations = (try JSONReader.read(mutation.operations ?? "[]")).array ?? []
        #expect(
            operations.map { "\($0.object?["field"]?.text ?? "") \($0.object?["op"]?.text ?? "") \($0.object?["value"]?.json ?? "")" }
                == sent.operations)
        #expect(try agent.store.verify() == [])
    }

    @Test("A value that loses by its stamp is kept in the audit trail")
    func loser() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: Self.rules)
        try agent.pull([("a", 5, ["note": "old"])])
        try agent.update("a", ["note": "mine"])
        agent.stamp = HybridTime(milliseconds: 1 << 45, counter: 0, node: "1")
        try agent.pull([("a", 6, ["note": "theirs"])])
        #expect(try agent.document("a") == ["note": "theirs"])
        let rows = try RawDatabase(folder.database).rows("SELECT verb, target, json FROM audit")
        #expect(rows.count == 1 && rows[0][0] == "lost" && rows[0][1] == "audit/a")
        let json = try #require(try JSONReader.read(rows[0][2] ?? "").object)
        #expect(json["value"] == "mine" && json["side"] == "local" && json["strategy"] == "lww" && json["field"] == "note")
    }

    @Test("The audit trail of the writing device names what the hub merged away: a value, a member, an element, a removal")
    func auditTrailNamesWhatTheHubMergedAway() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: Self.rules)
        agent.stamp = HybridTime(milliseconds: 1, counter: 0, node: "1")
        let element: JSON = ["id": "t-1", "n": 1]
        try agent.pull([
            ("a", 5, ["note": "old", "gone": 1, "form": ["size": 1, "unit": "mm"], "tags": [element, "x"], "notes": "rail", "visits": 3])
        ])
        let key = try agent.update(
            "a",
            [
                "note": "mine", "form": ["size": 2, "unit": "cm"], "tags": [["id": "t-1", "n": 2]], "notes": "rail loose", "visits": 4,
            ]
        ).key
        _ = try agent.claim()
        // Another device has changed the size and the element, put "x" in again, and added to the rest.
        let record = HubRecord(
            version: 9,
            data: [
                "note": "theirs", "gone": 1, "form": ["size": 3, "unit": "cm"], "tags": [["id": "t-1", "n": 3], "x"],
                "notes": "rail rusty loose", "visits": 9,
            ])
        let answer = PushResult.accepted(key, 9, record: record, merged: ["note", "form", "tags", "notes"])
        try agent.answer(answer)
        try agent.answer(answer)
        #expect(try agent.state(key) == .done)
        let rows = try RawDatabase(folder.database).rows("SELECT target, json FROM audit WHERE verb = 'lost' ORDER BY n")
        #expect(rows.allSatisfy { $0[0] == "audit/a" })
        let told = try rows.map { row in
            let entry = try #require(try JSONReader.read(row[1] ?? "").object)
            #expect(entry["side"] == "local" && entry["mutation"]?.text == key.text && entry["remote_version"] == 9)
            return "\(entry["field"]?.text ?? "") \(entry["value"]?.json ?? "removal") \(entry["strategy"]?.text ?? "")"
        }
        #expect(told == [#"note "mine" lww"#, "form.size 2 lww", "tags[x] removal set", #"tags[t-1] {"id":"t-1","n":2} set"#])
    }

    @Test("A sent mutation is frozen: a pull leaves it as it is, and does not ask about it")
    func frozen() throws {
        let agent = try Self.agent()
        let key = try agent.update("a", ["finding": "fail"]).key
        let sent = try agent.claim()
        try agent.answer(.retry(key))
        try agent.pull([("a", 7, ["finding": "flagged"])])
        #expect(try agent.conflicts().isEmpty)
        agent.wait(.seconds(500))
        let again = try agent.claim()
        #expect(again.map(\.data) == sent.map(\.data) && again.first?.baseVersion == 5)
    }

    @Test("A merged answer is what later changes are rebased on")
    func afterMerge() throws {
        let agent = try Self.agent()
        let first = try agent.update("a", ["note": "mine"]).key
        _ = try agent.claim()
        let second = try agent.update("a", ["finding": "fail"]).key
        try agent.answer(.accepted(first, 9, record: HubRecord(version: 9, data: ["note": "mine", "finding": "flagged"])))
        #expect(try agent.state(second) == .conflicted)
        #expect(try agent.conflicts().first?.sides.first?.base == "pass")
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation that was rebased before it was sent keeps the fingerprint of its first form")
    func rebasedMutationKeepsItsFirstFingerprint() throws {
        let agent = try Self.agent()
        try agent.update("a", ["note": "new", "finding": "pass"])
        let first: JSONObject = [
            "entity": "audit", "record_id": "a", "action": "update", "data": ["note": "new", "finding": "pass"],
        ]
        try agent.pull([("a", 7, ["note": "other", "finding": "pass"])])
        try agent.pull([("a", 8, ["note": "third", "finding": "pass"])])
        let batch = try agent.claim()
        #expect(batch.map(\.data) == [#"{"note":"new"}"#])
        #expect(batch[0].firstDigest == Fingerprint.text(Fingerprint.of(first)))
        let read = try PushMessages.readRequest(PushMessages.request(Batch(mutations: batch, ackedSeq: 0, maxSentSeq: 9), config: nil))
        #expect(read.items[0].fingerprint == Fingerprint.of(first))
    }

    @Test("An edit that goes into a rebased mutation changes its fingerprint: a database without it cannot pass for one with it")
    func joinedDigest() throws {
        let agent = try Self.agent()
        func edit(_ data: JSONObject) throws -> (MutationState, String) {
            let state = try agent.enqueue(TestAgent.mutation(.update, "a", data, coalesces: true)).state
            let asked: JSONObject = ["entity": "audit", "record_id": "a", "action": "update", "data": .object(data)]
            return (state, Fingerprint.text(Fingerprint.of(asked)))
        }
        let first = try edit(["note": "new", "finding": "pass"])
        try agent.pull([("a", 7, ["note": "other", "finding": "pass"])])
        let second = try edit(["note": "newer"])
        #expect(second.0 == .coalesced)
        let batch = try agent.claim()
        #expect(batch.map(\.data) == [#"{"note":"newer"}"#])
        #expect(batch[0].firstDigest == Fingerprint.joined(first.1, second.1))
        #expect(Fingerprint.joined(first.1, second.1) != Fingerprint.joined(second.1, first.1))
    }

    @Test("Coalesced edits are rebased as one: they end together, and each receipt says so")
    func coalescedEditsEndTogether() throws {
        let agent = try Self.agent()
        let keys = try [["note": "x", "visits": 4], ["visits": 6], ["tags": ["x", "y"]]].map { data in
            try agent.enqueue(TestAgent.mutation(.update, "a", data, coalesces: true)).key
        }
        try agent.pull([("a", 7, ["note": "other", "visits": 10, "tags": ["z"]])])
        #expect(try agent.document("a") == ["note": "x", "visits": 13, "tags": ["z", "y"]])
        try agent.pull([], deleted: [("a", 8)])
        for key in keys {
            let shown = try #require(try agent.store.reads.mutation(key, at: agent.now))
            #expect(shown.presentState == .rejected)
        }
        #expect(try agent.record("a")?.view == nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("A refusal by a pull takes along what was to come after it, like one by the hub")
    func tied() throws {
        let agent = try Self.agent()
        let first = try agent.update("a", ["note": "x"]).key
        var next = TestAgent.mutation(.create, "b", ["note": "y"])
        next.dependsOn = [first]
        let second = try agent.enqueue(next).key
        try agent.pull([], deleted: [("a", 8)])
        #expect(try agent.states([first, second]) == ["rejected", "rejected"])
        #expect(try agent.store.reads.mutation(second, at: agent.now)?.problem?.code == "parent-rejected")
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation that waits for a disputed one waits for the decision about it")
    func dependantOfADisputeWaitsForTheDecision() throws {
        let (agent, key) = try Self.disputed()
        var next = TestAgent.mutation(.create, "b", ["note": "y"])
        next.dependsOn = [key]
        let waiting = try agent.enqueue(next).key
        #expect(try agent.claim().isEmpty)
        let decided = try #require(try Self.resolve(agent, .all(.local)).mutation)
        #expect(try agent.claim().map(\.key) == [decided])
        try agent.answer(.accepted(decided, 9))
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [waiting])
        #expect(sent.map(\.dependsOn) == ["[\"\(decided)\"]"])
    }

    // MARK: End of a conflict

    struct Ending: Sendable, CustomStringConvertible {
        let description: String
        let scope: ConflictDecision.Scope
        let view: JSON
        /// The change that goes to the hub; `nil`: none.
        let sent: JSONObject?
        let state: MutationState
    }

    @Test(
        "A decision goes out under a new key, or not at all where the hub has it already",
        arguments: [
            Ending(description: "local", scope: .all(.local), view: "fail", sent: ["finding": "fail"], state: .resolved),
            Ending(description: "remote", scope: .all(.remote), view: "flagged", sent: nil, state: .discarded),
            Ending(description: "by field", scope: .fields(["finding": .remote]), view: "flagged", sent: nil, state: .discarded),
            Ending(
                description: "neither", scope: .fields(["finding": .value("both")]), view: "both", sent: ["finding": "both"],
                state: .resolved),
        ])
    func resolved(_ example: Ending) throws {
        let (agent, key) = try Self.disputed()
        let answer = try Self.resolve(agent, example.scope, expecting: 7)
        #expect(try agent.state(key) == example.state)
        #expect(try agent.document("a")?["finding"] == example.view)
        #expect(try agent.record("a")?.conflict == nil)
        let batch = try agent.claim()
        #expect((answer.mutation != nil) == (example.sent != nil))
        #expect(batch.map(\.key) == [answer.mutation].compactMap { $0 })
        if let sent = example.sent {
            #expect(try JSONReader.read(batch[0].data ?? "").object == sent)
            #expect(batch[0].baseVersion == 7 && batch[0].key != key)
            #expect(try agent.store.reads.mutation(batch[0].key, at: agent.now)?.supersedes == key)
            try agent.answer()
            #expect(try agent.store.reads.conflict(1)?.state == "resolving", "an answer that says nothing of it")
            try agent.answer(.accepted(batch[0].key, 9))
        }
        let closed = try #require(try agent.store.reads.conflict(1))
        #expect(closed.state == "resolved" && closed.history.count == (example.sent == nil ? 2 : 3))
        #expect(closed.history[1].object?["comment"] == "seen" && closed.history[1].object?["uid"] == 7)
        #expect(try agent.record("a")?.status == .synced)
        #expect(try agent.store.reads.openConflicts() == 0)
        #expect(try agent.store.verify() == [])
    }

    @Test("A decision that is taken back or given up ends its conflict, and the history does not say that it arrived")
    func decisionThatDidNotArrive() throws {
        func lastEvent(_ agent: TestAgent) throws -> JSON? { try agent.store.reads.conflict(1)?.history.last?.object?["event"] }
        let (agent, _) = try Self.disputed()
        _ = try agent.store.cancel(try #require(try Self.resolve(agent, .all(.local)).mutation), at: agent.now)
        #expect(try agent.store.reads.conflict(1)?.state == "resolved" && lastEvent(agent) == "cancelled")

        let (other, _) = try Self.disputed()
        let decision = try #require(try Self.resolve(other, .all(.local)).mutation)
        _ = try other.claim()
        try other.answer(.rejected(decision))
        #expect(try other.store.reads.conflict(1)?.state == "resolving")
        // Its retry carries the decision.
        let again = try other.store.retry(decision, by: other.app, at: other.now).key
        #expect(try other.store.reads.conflict(1)?.state == "resolving" && other.store.reads.conflict(1)?.into == again)
        _ = try other.claim()
        try other.answer(.rejected(again))
        try other.store.discard(again, reason: "", uid: 0, at: other.now)
        #expect(try other.store.reads.conflict(1)?.state == "resolved" && lastEvent(other) == "discarded")
        #expect(try agent.store.verify() == [] && other.store.verify() == [])
    }

    @Test("The retry of a decision that arrives ends its conflict as arrived")
    func retriedDecision() throws {
        let (agent, _) = try Self.disputed()
        let decision = try #require(try Self.resolve(agent, .all(.local)).mutation)
        _ = try agent.claim()
        try agent.answer(.rejected(decision))
        let again = try agent.store.retry(decision, by: agent.app, at: agent.now).key
        try agent.answer()
        #expect(try agent.store.reads.conflict(1)?.state == "resolving")
        _ = try agent.claim()
        try agent.answer(.accepted(again, 9))
        let closed = try #require(try agent.store.reads.conflict(1))
        #expect(closed.state == "resolved" && closed.into == again && closed.history.last?.object?["event"] == "arrived")
        #expect(try agent.store.verify() == [])
    }

    // Fault: its conflict ended as arrived when the other decision was made, before the hub had either of them. The hub was not told that
    // the disputed change of the earlier decision is done, so an older copy of the database could apply it once more.
    @Test("A decision that another one carries arrives with that")
    func carriedDecision() throws {
        var audit = EntityRules()
        audit.fields = ["finding": .manual, "grade": .manual]
        let agent = try TestAgent(rules: RuleBook([EntityName(trusted: "audit"): audit]))
        try agent.pull([("a", 5, ["finding": "pass", "grade": 1])])
        let disputed = [try agent.update("a", ["finding": "fail"]).key, try agent.update("a", ["grade": 2]).key]
        try agent.pull([("a", 7, ["finding": "flagged", "grade": 3])])
        let first = try #require(try Self.resolve(agent, .all(.local), id: 2).mutation)
        try agent.pull([], deleted: [("a", 9)])
        let second = try #require(try Self.resolve(agent, .all(.local)).mutation)
        #expect(try agent.state(first) == .coalesced)
        let waiting = try #require(try agent.store.reads.conflict(2))
        #expect(waiting.state == "resolving" && waiting.into == second)
        let sent = try #require(try agent.claim().first)
        #expect(sent.key == second && Set(sent.supersedes) == Set(disputed + [first]))
        try agent.answer(.accepted(second, 10))
        for number: Int64 in [1, 2] {
            let closed = try #require(try agent.store.reads.conflict(number))
            #expect(closed.state == "resolved" && closed.into == second && closed.history.last?.object?["event"] == "arrived")
        }
        #expect(try agent.store.verify() == [])
    }

    @Test("The decision also carries the mutation's undisputed changes", arguments: [ConflictDecision.Choice.local, .remote])
    func decisionCarriesTheUndisputedChanges(_ choice: ConflictDecision.Choice) throws {
        let (agent, _) = try Self.disputed(["finding": "fail", "note": "new", "visits": 4])
        try Self.resolve(agent, .all(choice))
        let sent = try #require(try agent.claim().first)
        var data: JSONObject = ["note": "new"]
        if choice == .local { data["finding"] = "fail" }
        #expect(try JSONReader.read(sent.data ?? "").object == data)
        #expect(sent.operations == #"[{"field":"visits","op":"inc","value":1}]"#)
    }

    @Test("Later changes of the record wait, and are still the last word on what was not in dispute")
    func later() throws {
        let (agent, _) = try Self.disputed(["finding": "fail", "note": "new"])
        let second = try agent.update("a", ["note": "newer", "finding": "unclear"]).key
        #expect(try agent.claim().isEmpty)
        #expect(try agent.store.reads.obstacle(to: second, at: agent.now).map { "\($0)" }?.contains("conflicted") == true)
        #expect(try agent.blocked(second) == Deferral(.conflict))
        // The side shows what apps see.
        #expect(try agent.conflicts().first?.sides.first?.local.value == "unclear")
        try Self.resolve(agent, .all(.local))
        let batch = try agent.claim()
        #expect(batch.map(\.data) == [#"{"note":"newer"}"#, #"{"finding":"unclear"}"#])
        #expect(try agent.document("a")?["finding"] == "unclear" && agent.document("a")?["note"] == "newer")
        #expect(try agent.store.verify() == [])
    }

    @Test("The hub's side may change meanwhile: the conflict shows it, and refuses a decision about the old one")
    func stale() throws {
        let (agent, _) = try Self.disputed()
        try agent.pull([("a", 9, ["finding": "ok"])])
        let conflict = try #require(try agent.conflicts().first)
        #expect(conflict.state == "stale" && conflict.remoteVersion == 9 && conflict.sides[0].remote.value == "ok")
        #expect(conflict.sides[0].base == "pass" && conflict.sides[0].local.value == "fail")
        let error = try #require(throws: StoreError.self) { try Self.resolve(agent, .all(.local), expecting: 7) }
        #expect(error.problem?.code == "version-mismatch" && error.problem?.members["version"] == 9)
        #expect(error.problem?.members["fields"]?.array?.first?.object?["remote"]?.object?["value"] == "ok")
        #expect(try agent.conflicts() == [conflict])
        try Self.resolve(agent, .all(.local), expecting: 9)
        #expect(try agent.claim().first?.baseVersion == 9)
    }

    @Test("When nothing is left to decide it closes by itself", arguments: ["fail", "pass"])
    func moot(_ remote: String) throws {
        let (agent, key) = try Self.disputed(["finding": "fail", "note": "new"])
        try agent.pull([("a", 9, ["finding": .string(remote), "note": "old"])])
        #expect(try agent.store.reads.conflict(1)?.state == "moot")
        #expect(try agent.state(key) == .resolved)
        let batch = try agent.claim()
        #expect(batch.count == 1 && batch[0].key != key)
        #expect(
            try JSONReader.read(batch[0].data ?? "").object == (remote == "fail" ? ["note": "new"] : ["finding": "fail", "note": "new"]))
        #expect(try agent.store.verify() == [])
    }

    struct Refused: Sendable {
        let scope: ConflictDecision.Scope
        let code: String
    }

    @Test(
        "A decision that cannot be meant is refused, and changes nothing",
        arguments: [
            Refused(scope: .fields(["note": .local]), code: "validation"),
            Refused(scope: .fields([:]), code: "validation"),
            Refused(scope: .all(.value(1)), code: "validation"),
        ])
    func refused(_ example: Refused) throws {
        let (agent, _) = try Self.disputed()
        let before = try agent.conflicts()
        let error = try #require(throws: StoreError.self) { try Self.resolve(agent, example.scope) }
        #expect(error.problem?.code == example.code)
        #expect(try agent.conflicts() == before)
        #expect(try #require(throws: StoreError.self) { try Self.resolve(agent, .all(.local), id: 9) }.problem?.code == "not-found")
        try Self.resolve(agent, .all(.local))
        #expect(try #require(throws: StoreError.self) { try Self.resolve(agent, .all(.local)) }.problem?.code == "already-resolved")
    }

    @Test("Giving the mutation up closes the conflict")
    func discarded() throws {
        let (agent, key) = try Self.disputed()
        try agent.store.discard(key, reason: "no", uid: 0, at: agent.now)
        #expect(try agent.store.reads.conflict(1)?.state == "resolved")
        #expect(try agent.record("a")?.status == .synced)
    }

    // MARK: Deletions

    @Test("A change that depends on a disputed one of its own record is sent before the decision")
    func dependantOfItsOwnRecordGoesBeforeTheDecision() throws {
        let agent = try Self.agent()
        let first = try agent.update("a", ["finding": "fail", "note": "new"], priority: .bulk).key
        var next = TestAgent.mutation(.update, "a", ["peak": 9])
        next.dependsOn = [first]
        let second = try agent.enqueue(next).key
        try agent.pull([("a", 7, ["finding": "flagged", "note": "old", "visits": 3, "tags": ["x"], "notes": "rail"])])
        #expect(try agent.claim().isEmpty)
        let decision = try #require(try Self.resolve(agent, .all(.local)).mutation)
        #expect(try agent.claim().map(\.key) == [second, decision])
        #expect(try agent.store.verify() == [])
    }

    @Test("A decision becomes as urgent as the change that waits for it")
    func decisionInheritsTheUrgency() throws {
        let agent = try Self.agent()
        let first = try agent.update("a", ["finding": "fail"], priority: .bulk).key
        var next = TestAgent.mutation(.create, "b", ["peak": 9], priority: .critical)
        next.dependsOn = [first]
        try agent.enqueue(next)
        try agent.pull([("a", 7, ["finding": "flagged"])])
        try Self.resolve(agent, .all(.local))
        #expect(try agent.store.verify() == [])
        #expect(try agent.claim().first?.priority == .critical)
    }

    // Fault: the decision was as urgent as the disputed change, and was sent before what the carried one had to wait for.
    @Test("A decision that carries a later change has its urgency, waits for what it depends on, and stays apart if it does")
    func decisionInheritsFromTheCarried() throws {
        let agent = try Self.agent()
        try agent.enqueue(TestAgent.mutation(.update, "a", ["finding": "fail"], priority: .bulk, coalesces: true))
        let other = try agent.create("b", priority: .bulk).key
        var later = TestAgent.mutation(.update, "a", ["note": "later"], priority: .critical)
        later.dependsOn = [other]
        try agent.pull([], deleted: [("a", 9)])
        let carried = try agent.enqueue(later).key
        let decision = try #require(try Self.resolve(agent, .all(.local)).mutation)
        #expect(try agent.state(carried) == .coalesced)
        #expect(try agent.store.verify() == [])
        var edit = TestAgent.mutation(.update, "a", ["note": "last"], priority: .critical, coalesces: true)
        edit.author = "Ines"
        #expect(try agent.store.enqueue([edit], by: Self.ines, at: agent.now).first?.state == .pending)
        let first = try #require(try agent.store.claim(BatchLimits(mutations: 1, bytes: 1 << 20), at: agent.now)?.mutations.first)
        #expect(first.key == other && first.priority == .critical)
        try agent.answer(.accepted(other, 10))
        let second = try #require(try agent.claim(1).first)
        #expect(second.key == decision && second.priority == .critical && second.dependsOn?.contains(other.text) == true)
        #expect(try agent.store.verify() == [])
    }

    @Test("What waits for the disputed change waits for the decision, also where a carried change depends on it")
    func carriedDependsOnAChild() throws {
        let agent = try Self.agent()
        let first = try agent.update("a", ["finding": "fail"]).key
        var child = TestAgent.mutation(.create, "b", ["n": 1])
        child.dependsOn = [first]
        let middle = try agent.enqueue(child).key
        var later = TestAgent.mutation(.update, "a", ["note": "later"])
        later.dependsOn = [middle]
        try agent.enqueue(later)
        try agent.pull([], deleted: [("a", 9)])
        let decision = try #require(try Self.resolve(agent, .all(.local)).mutation)
        #expect(try agent.claim(1).map(\.key) == [decision])
        try agent.answer(.accepted(decision, 10))
        #expect(try agent.claim().map(\.key) == [middle])
        #expect(try agent.store.verify() == [])
    }

    @Test("A hub that has forgotten which fields it asked about is asked for no more than the rules find")
    func forgottenFields() throws {
        let agent = try Self.agent()
        let key = try agent.update("a", ["finding": "fail", "note": "new", "visits": 4]).key
        _ = try agent.claim()
        let current = HubState.record(HubRecord(version: 7, data: ["finding": "flagged", "note": "old", "visits": 3]))
        try agent.answer(PushResult(key: key, verdict: .duplicate(original: .conflict, current: current)))
        #expect(try agent.conflicts().first?.sides.map(\.field) == ["finding"])
        #expect(try agent.store.verify() == [])
    }

    @Test("The local side of a field that adds up is sent as an addition, so that no other addition is undone")
    func localAddition() throws {
        let agent = try Self.agent()
        let key = try agent.update("a", ["visits": 5, "finding": "fail"]).key
        _ = try agent.claim()
        let current = HubState.record(HubRecord(version: 7, data: ["finding": "flagged", "visits": 9]))
        try agent.answer(.conflict(key, ["visits", "finding"], current))
        try Self.resolve(agent, .all(.local))
        let sent = try #require(try agent.claim().first)
        #expect(sent.data == #"{"finding":"fail"}"#)
        #expect(sent.operations == #"[{"field":"visits","op":"inc","value":2}]"#)
        #expect(try agent.document("a")?["visits"] == 11)
    }

    @Test("A decision for this side leaves out additions of other mutations of the device, so each takes effect once")
    func decisionLeavesOutOtherAdditions() throws {
        let agent = try Self.agent()
        let key = try agent.update("a", ["visits": 5, "finding": "fail"]).key
        let sent = try agent.update("a", ["visits": 8]).key
        #expect(try agent.claim().map(\.key) == [key, sent])
        let unsent = try agent.update("a", ["visits": 12]).key
        let current = HubState.record(HubRecord(version: 7, data: ["finding": "flagged", "visits": 9]))
        try agent.answer(.conflict(key, ["visits", "finding"], current))
        try Self.resolve(agent, .all(.local))
        #expect(try agent.document("a")?["visits"] == 18)
        var added: [String?] = []
        var version: Int64 = 8
        while let next = try agent.claim(1).first {
            added.append(next.operations)
            if added.count < 3 { #expect(next.key == [sent, unsent][added.count - 1]) }
            try agent.answer(.accepted(next.key, version))
            version += 1
        }
        #expect(added == [3, 4, 2].map { #"[{"field":"visits","op":"inc","value":\#($0)}]"# })
        #expect(try agent.document("a")?["visits"] == 18)
        #expect(try agent.store.verify() == [])
    }

    @Test("A dispute that a later deletion makes pointless is given up with a word: the deletion may still be refused")
    func pointless() throws {
        let (agent, key) = try Self.disputed(["finding": "fail", "note": "new"])
        try agent.enqueue(TestAgent.mutation(.delete, "a"))
        try agent.pull([("a", 8, ["finding": "fail", "note": "old"])])
        #expect(try agent.state(key) == .discarded)
        #expect(try agent.store.verify() == [])
    }

    @Test("A device that recreates a record after deleting it has seen nothing of the hub's record")
    func anew() throws {
        let agent = try Self.agent()
        try agent.enqueue(TestAgent.mutation(.delete, "a"))
        try agent.enqueue(TestAgent.mutation(.create, "a", ["finding": "pass"]))
        let key = try agent.update("a", ["notes": "first", "form": ["left": 1], "tags": ["y"], "note": "new"]).key
        let last = try #require(try agent.store.reads.mutation(key, at: agent.now))
        #expect(last.baseVersion == 0)
        #expect(last.data == #"{"form":{"left":1},"note":"new"}"#)
        let operations = try #require(try JSONReader.read(last.operations ?? "").array)
        #expect(operations.map { $0.object?["op"] } == ["add", "append"] || operations.map { $0.object?["op"] } == ["append", "add"])
    }

    @Test("A deletion in dispute says who deleted the record and when")
    func deletionSaysWho() throws {
        let agent = try Self.agent()
        try agent.update("a", ["finding": "fail"])
        let stamp = try #require(HybridTime("0199c3f2a1b4-0000-9f2c11ab"))
        var answer = TestAgent.page([], deleted: [("a", 9)])
        answer.pages[0].deletions[0] = StreamPage.Deletion(
            id: RecordID(trusted: "a"), version: 9, hlc: stamp.description, originDevice: "gw-3", originAuthor: "tom")
        _ = try agent.store.applyPull(answer, at: agent.now)
        let remote = try #require(try agent.conflicts().first).sides[0].remote
        #expect(remote.isDeleted && remote.device == "gw-3" && remote.author == "tom" && remote.version == 9)
        #expect(remote.at == Timestamp(milliseconds: Int64(stamp.milliseconds)))
    }

    @Test("Changed here, deleted there: the record stays visible until a person decides", arguments: [true, false])
    func updateDelete(_ keeps: Bool) throws {
        let agent = try Self.agent()
        try agent.update("a", ["finding": "fail"])
        let second = try agent.update("a", ["note": "later"]).key
        try agent.pull([], deleted: [("a", 9)])
        let conflict = try #require(try agent.conflicts().first)
        #expect(conflict.kind == .updateDelete && conflict.sides[0].remote.isDeleted && conflict.sides[0].base == "pass")
        #expect(try agent.document("a")?["finding"] == "fail" && agent.document("a")?["note"] == "later")
        try Self.resolve(agent, .all(keeps ? .local : .remote))
        let batch = try agent.claim()
        if keeps {
            #expect(try agent.document("a")?["visits"] == 3 && agent.document("a")?["note"] == "later")
            #expect(batch.map(\.action) == [.create] && batch[0].baseVersion == 9)
            #expect(try agent.state(second) == .coalesced)
        } else {
            #expect(batch.isEmpty)
            #expect(try agent.state(second) == .discarded)
            #expect(try agent.document("a") == nil)
            #expect(try agent.record("a")?.status == .synced)
        }
        #expect(try agent.store.verify() == [])
    }

    @Test("A deletion that comes while a change is under way leaves the whole record for the person's decision", arguments: [true, false])
    func deletedUnderWay(_ keeps: Bool) throws {
        let agent = try Self.agent()
        let key = try agent.update("a", ["finding": "fail"]).key
        _ = try agent.claim()
        let whole = try #require(try agent.document("a"))
        try agent.pull([], deleted: [("a", 9)])
        try agent.crash()
        try agent.answer(.conflict(key, ["$delete"], .deleted(version: 9)))
        let conflict = try #require(try agent.conflicts().first)
        #expect(conflict.kind == .updateDelete && conflict.sides[0].base == "pass" && conflict.sides[0].local.value == "fail")
        #expect(try agent.document("a") == whole && whole["visits"] == 3)
        try Self.resolve(agent, .all(keeps ? .local : .remote))
        let batch = try agent.claim()
        if keeps {
            #expect(batch.map(\.action) == [.create] && batch[0].baseVersion == 9)
            #expect(try JSONReader.read(batch[0].data ?? "").object == whole)
            #expect(try JSONReader.read(batch[0].base ?? "").object?["visits"] == 3)
        } else {
            #expect(try batch.isEmpty && agent.document("a") == nil)
        }
        #expect(try agent.store.verify() == [])
    }

    // Fault: the decision brought back the fields of the edit alone, because the record was never in the mirror.
    @Test("An edit behind a creation that the hub has accepted, and another device deleted since, leaves the whole record as well")
    func deletedBehindACreation() throws {
        let agent = try TestAgent(rules: Self.rules)
        let made = try agent.create("a", ["note": "mine"]).key
        let edit = try agent.update("a", ["finding": "fail"]).key
        #expect(try agent.claim(1).map(\.key) == [made])
        try agent.pull([], deleted: [("a", 7)])
        try agent.answer(.duplicate(made, .accepted, .deleted(version: 7)))
        #expect(try agent.claim().map(\.key) == [edit])
        try agent.answer(.conflict(edit, ["$delete"], .deleted(version: 7)))
        #expect(try agent.document("a") == ["note": "mine", "finding": "fail"])
        try Self.resolve(agent, .all(.local))
        let sent = try #require(try agent.claim().first)
        #expect(sent.action == .create && sent.baseVersion == 7)
        #expect(try JSONReader.read(sent.data ?? "").object == ["note": "mine", "finding": "fail"])
        #expect(try JSONReader.read(sent.base ?? "").object == ["note": "mine"])
        #expect(try agent.store.verify() == [])
    }

    @Test("A restored change adds to a record that was created anew since, where the rule adds up, and gives way elsewhere")
    func restoredChangeAddsToANewRecord() throws {
        let agent = try Self.agent()
        let first = try agent.update("a", ["finding": "fail", "tags": ["x", "y"], "note": "first"]).key
        _ = try agent.claim()
        try agent.pull([], deleted: [("a", 9)])
        var anew = TestAgent.mutation(.create, "a", ["note": "anew"])
        anew.operations = [FieldOperation("tags", .add, "z"), FieldOperation("visits", .increment, 1)]
        let second = try agent.enqueue(anew).key
        try agent.answer(.conflict(first, ["$delete"], .deleted(version: 9)))
        try Self.resolve(agent, .all(.local))
        let batch = try agent.claim()
        #expect(batch.first?.key == second)
        let document = try #require(try agent.document("a"))
        #expect(document["note"] == "anew")
        let tags = document["tags"]?.array ?? []
        #expect(tags.contains("y") && tags.contains("z"), "\(JSON.object(document).json)")
        #expect(try agent.store.verify() == [])
    }

    @Test("A decision to bring a record back dates what is decided, and leaves the members of objects as old as they are")
    func updateDeleteKeepsTimes() throws {
        let agent = try Self.agent()
        try agent.update("a", ["finding": "fail", "form": ["left": "worn"]])
        try agent.pull([], deleted: [("a", 9)])
        agent.wait(.seconds(60))
        try Self.resolve(agent, .all(.local))
        let decision = try #require(try agent.claim().first)
        let dates = try #require(try JSONReader.read(decision.fieldHLC ?? "").object)
        #expect(decision.action == .create && dates.names == ["form"])
        let (written, decided) = (try #require(dates["form"]?.text.flatMap { HybridTime($0) }), try #require(HybridTime(decision.hlc)))
        #expect(decided.milliseconds - written.milliseconds == 60_000)
        #expect(try agent.store.verify() == [])
    }

    enum Rest: CaseIterable { case decided, moot, carried }

    // Fault: what no person had decided got the time of the decision, and won over what others had written between the two.
    @Test("What no person has decided keeps its time, beside a decision and where the dispute is gone", arguments: Rest.allCases)
    func restKeepsItsTime(_ rest: Rest) throws {
        let agent = try Self.agent()
        try agent.update("a", rest == .carried ? ["finding": "fail"] : ["finding": "fail", "form": ["left": "worn"]])
        let late = rest == .carried ? try agent.update("a", ["form": ["left": "worn"]]) : nil
        let written = agent.now.wall.milliseconds
        agent.wait(.seconds(60))
        switch rest {
        case .decided:
            try agent.pull([("a", 7, ["finding": "flagged"])])
            try Self.resolve(agent, .all(.local))
        case .moot:
            try agent.pull([("a", 7, ["finding": "flagged"])])
            try agent.pull([("a", 8, ["finding": "fail"])])
            #expect(try agent.conflicts().isEmpty)
        case .carried:
            try agent.pull([], deleted: [("a", 7)])
            try Self.resolve(agent, .all(.local))
            #expect(try late.map { try agent.state($0.key) } == .coalesced)
        }
        let sent = try #require(try agent.claim().first)
        let dates = try #require(try JSONReader.read(sent.fieldHLC ?? "{}").object)
        #expect(dates.names == ["form"])
        #expect(dates["form"]?.text.flatMap { HybridTime($0) }.map { Int64($0.milliseconds) } == written)
        #expect(HybridTime(sent.hlc).map { Int64($0.milliseconds) } == written + 60_000)
        #expect(try agent.store.verify() == [])
    }

    // Fault: it got the time of the decision, because the change had been sent without one.
    @Test("What no person has decided keeps its time, also where that is known only since the change was sent")
    func restIsDated() throws {
        let agent = try TestAgent(rules: Self.rules) { $0.clockTrust = .unsynced }
        try agent.pull([("a", 5, ["finding": "pass", "note": "old"])])
        let key = try agent.update("a", ["finding": "fail", "note": "new"]).key
        #expect(try agent.claim().map(\.clock) == [.unsynced])
        agent.wait(.seconds(60))
        let truth: Int64 = 1_795_216_800_000
        try agent.store.learn(ClockAnchor(difference: truth - agent.now.instant.nanoseconds / 1_000_000, error: .zero), at: agent.now)
        try agent.answer(.conflict(key, ["finding"], .record(HubRecord(version: 7, data: ["finding": "flagged", "note": "old"]))))
        try Self.resolve(agent, .all(.local))
        let sent = try #require(try agent.claim().first)
        let dates = try #require(try JSONReader.read(sent.fieldHLC ?? "{}").object)
        #expect(sent.clock == .synced && dates.names == ["note"])
        #expect(dates["note"]?.text.flatMap { HybridTime($0) }.map { Int64($0.milliseconds) } == truth - 60_000)
        #expect(try agent.store.verify() == [])
    }

    @Test("A change restored over a record that was created anew shows the base from before the deletion")
    func restoredChangeShowsTheBaseBeforeTheDeletion() throws {
        let agent = try Self.agent()
        try agent.update("a", ["finding": "fail"])
        try agent.pull([], deleted: [("a", 9)])
        try Self.resolve(agent, .all(.local))
        try agent.pull([("a", 12, ["finding": "flagged"])])
        let conflict = try #require(try agent.conflicts().first { $0.number == 2 })
        let side = try #require(conflict.sides.first)
        #expect(conflict.kind == .field && side.field == "finding")
        #expect(side.base == "pass" && side.local.value == "fail" && side.remote.value == "flagged")
        #expect(try agent.store.verify() == [])
    }

    @Test("Deleted here, changed there in what people decide", arguments: [true, false])
    func deleteUpdate(_ deletes: Bool) throws {
        let agent = try Self.agent()
        try agent.delete("a")
        try agent.pull([("a", 9, ["finding": "flagged", "note": "old"])])
        let conflict = try #require(try agent.conflicts().first)
        #expect(conflict.kind == .deleteUpdate && conflict.sides.map(\.field) == ["finding"] && conflict.sides[0].local.isDeleted)
        try Self.resolve(agent, .all(deletes ? .local : .remote))
        #expect(try agent.claim().map(\.action) == (deletes ? [.delete] : []))
        #expect(try (agent.document("a") == nil) == deletes)
        #expect(try agent.store.verify() == [])
    }

    @Test("A delete of what is deleted needs not be sent, an undelete behind it rests on the deletion")
    func deleteDelete() throws {
        let agent = try Self.agent()
        let key = try agent.delete("a").key
        try agent.create("a", ["note": "again"])
        try agent.pull([], deleted: [("a", 9)])
        #expect(try agent.state(key) == .superseded)
        let batch = try agent.claim()
        #expect(batch.map(\.action) == [.create] && batch[0].baseVersion == 9)
    }

    @Test("Where updates win, what brings the record back carries all of it, and what had been seen")
    func updateWins() throws {
        let agent = try TestAgent(rules: Self.rules)
        try agent.pull([("s", 5, ["note": "old", "visits": 3])], entity: "site")
        try agent.enqueue(TestAgent.mutation(.update, "s", ["visits": 4], entity: "site"))
        try agent.enqueue(TestAgent.mutation(.update, "s", ["note": "new"], entity: "site"))
        try agent.pull([], deleted: [("s", 9)], entity: "site")
        let batch = try agent.claim()
        #expect(batch.map(\.action) == [.create, .update])
        #expect(try JSONReader.read(batch[0].data ?? "").object == ["note": "old", "visits": 3])
        #expect(batch[0].operations == #"[{"field":"visits","op":"inc","value":1}]"#)
        #expect(try JSONReader.read(batch[0].base ?? "").object == ["note": "old", "visits": 3])
        #expect(batch[0].baseVersion == 9)
        #expect(try agent.record("s", "site")?.view == #"{"note":"new","visits":4}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("An operation on a value of another kind is refused when it is asked for")
    func misfit() throws {
        let agent = try Self.agent()
        var mutation = TestAgent.mutation(.update, "a")
        mutation.operations = [FieldOperation("note", .increment, 1)]
        #expect(agent.refusal(mutation)?.errors.first?.pointer == "/ops/0")
    }
}

extension TestAgent {
    func conflicts() throws -> [ConflictSnapshot] { try store.reads.conflicts(ConflictQuery()).items }

    func document(_ id: String) throws -> JSONObject? {
        try view(id).flatMap { try JSONReader.read($0).object }
    }
}
