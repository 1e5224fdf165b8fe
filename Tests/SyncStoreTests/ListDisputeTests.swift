import SyncCore
import SyncStore
import Testing

/// An atomic list with members in dispute stays one (PROTOCOL A4, D).
@Suite("Atomic lists in dispute")
struct ListDisputeTests {
    /// Records `a`, `b`, `c`, and a list that changes all of them; those of `disputed` are in dispute over `finding`.
    private func agent(_ disputed: [String] = ["a"], more: (TestAgent) throws -> Void = { _ in }) throws -> (TestAgent, [MutationKey]) {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull(["a", "b", "c"].enumerated().map { ($0.element, Int64($0.offset + 1), ["finding": "pass", "n": 0]) })
        let list = ["a", "b", "c"].map { TestAgent.mutation(.update, $0, ["finding": .string("fail " + $0), "n": 1]) }
        let keys = try agent.list(list).map(\.key)
        try more(agent)
        try agent.pull(disputed.enumerated().map { ($0.element, Int64($0.offset + 10), ["finding": "flagged", "n": 0]) })
        return (agent, keys)
    }

    /// A list that changes `a` and `b`. The hub disputes the change of `a` and refuses that of `b`.
    private func disputedAndRefused() throws -> (TestAgent, [MutationKey]) {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("a", 1, ["finding": "pass"]), ("b", 2, ["n": 0])])
        let keys = try agent.list([TestAgent.mutation(.update, "a", ["finding": "fail"]), TestAgent.mutation(.update, "b", ["n": 1])]).map(
            \.key)
        _ = try agent.claim()
        try agent.answer(.conflict(keys[0], ["finding"], .record(HubRecord(version: 9, data: ["finding": "flagged"]))), .rejected(keys[1]))
        return (agent, keys)
    }

    private func accept(_ agent: TestAgent, _ batch: [OutgoingMutation], _ version: Int64 = 20) throws {
        _ = try agent.store.applyResults(batch.map { .accepted($0.key, version) }, next: nil, at: agent.now)
    }

    @Test("With the hub's side for one member the others go in one commit, and the answer says so")
    func remote() throws {
        let (agent, keys) = try agent()
        #expect(try agent.claim().isEmpty, "the list waits")
        let answer = try ConflictTests.resolve(agent, .all(.remote))
        // The fields of the disputed change that were not in dispute go on.
        #expect(answer.list == AtomicListFate(goOn: 3, wait: 0, letGo: 0, waitsFor: []))
        let batch = try agent.claim()
        #expect(batch.map(\.record.id.text) == ["a", "b", "c"] && batch.map(\.data).first == #"{"n":1}"#)
        #expect(Set(batch.map(\.group)).count == 1 && batch[0].group != nil)
        #expect(batch[0].supersedes.contains(keys[0]))
        try accept(agent, batch)
        #expect(try agent.states(keys) == ["resolved", "done", "done"])
        #expect(try agent.store.verify() == [])
    }

    @Test("Where nothing is left of the disputed member the rest goes in one commit, and the answer tells what was let go")
    func remoteWithoutRest() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("a", 1, ["finding": "pass"]), ("b", 2, ["n": 0]), ("c", 3, ["n": 0])])
        let keys = try agent.list([
            TestAgent.mutation(.update, "b", ["n": 1]), TestAgent.mutation(.update, "a", ["finding": "fail"]),
            TestAgent.mutation(.update, "c", ["n": 1]),
        ]).map(\.key)
        _ = try agent.claim()
        try agent.answer(
            .retry(keys[0], "blocked-by-earlier"),
            .conflict(keys[1], ["finding"], .record(HubRecord(version: 9, data: ["finding": "flagged"]))),
            .retry(keys[2], "blocked-by-earlier"))
        agent.wait(.seconds(1_000))
        #expect(try agent.claim().isEmpty)
        #expect(try ConflictTests.resolve(agent, .all(.remote)).list == AtomicListFate(goOn: 2, wait: 0, letGo: 1, waitsFor: []))
        #expect(try agent.claim().map(\.key) == [keys[0], keys[2]])
        #expect(try agent.states(keys) == ["in_flight", "discarded", "in_flight"])
        #expect(try agent.store.verify() == [])
    }

    // Fault: the decision took the change of the list in and went by itself, so the hub could refuse it and have the rest of the list.
    @Test("A decision that brings a record back with a change of a later list goes with the rest of that list")
    func carriedMember() throws {
        let agent = try ConflictTests.agent()
        try agent.update("a", ["finding": "fail"])
        let keys = try agent.list([
            TestAgent.mutation(.update, "a", ["note": "later"]), TestAgent.mutation(.create, "b", ["n": 1]),
        ]).map(\.key)
        try agent.pull([], deleted: [("a", 9)])
        #expect(try agent.claim().isEmpty)
        let answer = try ConflictTests.resolve(agent, .all(.local))
        #expect(answer.list == AtomicListFate(goOn: 2, wait: 0, letGo: 0, waitsFor: []))
        let batch = try agent.claim()
        #expect(batch.map(\.key) == [try #require(answer.mutation), keys[1]] && batch.map(\.action) == [.create, .create])
        #expect(Set(batch.map(\.group)).count == 1 && batch[0].group != nil)
        #expect(try agent.store.verify() == [])
        let refusal = Problem("group-rejected", status: 409, detail: "another mutation of its atomic list was rejected")
        try agent.answer(
            .rejected(batch[0].key), PushResult(key: batch[1].key, verdict: .rejected(refusal, current: nil)))
        #expect(try agent.states([batch[0].key] + keys) == ["rejected", "coalesced", "rejected"])
        #expect(try agent.view("b") == nil && agent.store.verify() == [])
    }

    // Fault: the decision took in the changes of both lists and joined the first one, or only that of the disputed change. The hub could
    // have the rest of the other list without them.
    @Test("A decision that brings a record back goes with one list; the next one goes behind it as a whole", arguments: [false, true])
    func carriedByTwoLists(_ isDisputedInAList: Bool) throws {
        let agent = try ConflictTests.agent()
        let disputed = TestAgent.mutation(.update, "a", ["finding": "fail"])
        if isDisputedInAList {
            try agent.list([disputed, TestAgent.mutation(.create, "b", ["n": 1])])
        } else {
            try agent.enqueue(disputed)
            try agent.list([TestAgent.mutation(.update, "a", ["note": "first"]), TestAgent.mutation(.create, "b", ["n": 1])])
        }
        let second = try agent.list([
            TestAgent.mutation(.create, "c", ["n": 2]), TestAgent.mutation(.update, "a", ["note": "second"]),
        ]).map(\.key)
        let last = try agent.update("a", ["visits": 9]).key
        try agent.pull([], deleted: [("a", 9)])
        #expect(try agent.claim().isEmpty)
        let answer = try ConflictTests.resolve(agent, .all(.local))
        #expect(answer.list == AtomicListFate(goOn: 2, wait: 0, letGo: 0, waitsFor: []))
        let decision = try #require(answer.mutation)
        #expect(try agent.document("a")?["note"] == "second" && agent.document("a")?["visits"] == 9)
        #expect(try agent.states(second + [last]) == ["pending", "resolved", "resolved"])
        #expect(try agent.store.verify() == [])
        try agent.crash()
        #expect(try agent.store.verify() == [])
        let batch = try agent.claim()
        try #require(batch.map(\.record.id.text) == ["a", "b", "c", "a", "a"])
        #expect(batch.map(\.action) == [.create, .create, .create, .update, .update] && batch[0].key == decision)
        #expect(batch[0].group != nil && batch[0].group == batch[1].group)
        #expect(batch[2].group != nil && batch[2].group == batch[3].group && batch[2].group != batch[0].group)
        #expect(batch[3].supersedes.contains(second[1]) && batch[4].supersedes.contains(last) && batch[4].group == nil)
        try agent.answer(
            .accepted(decision, 20), .accepted(batch[1].key, 20), .accepted(batch[2].key, 21), .accepted(batch[3].key, 21),
            .accepted(batch[4].key, 22))
        #expect(try agent.document("a")?["note"] == "second" && agent.document("a")?["visits"] == 9)
        #expect(try agent.record("a")?.status == .synced && agent.store.verify() == [])
    }

    @Test("A list that goes behind a refused decision falls as a whole, and is retried with it")
    func secondListFalls() throws {
        let agent = try ConflictTests.agent()
        try agent.list([TestAgent.mutation(.update, "a", ["finding": "fail"]), TestAgent.mutation(.create, "b", ["n": 1])])
        let second = try agent.list([
            TestAgent.mutation(.create, "c", ["n": 2]), TestAgent.mutation(.update, "a", ["note": "second"]),
        ]).map(\.key)
        try agent.pull([], deleted: [("a", 9)])
        let decision = try #require(try ConflictTests.resolve(agent, .all(.local)).mutation)
        let first = try agent.claim(2)
        #expect(first.map(\.key).first == decision && first.count == 2)
        let refusal = Problem("group-rejected", status: 409, detail: "another mutation of its atomic list was rejected")
        try agent.answer(.rejected(decision), PushResult(key: first[1].key, verdict: .rejected(refusal, current: nil)))
        #expect(try agent.claim().isEmpty && agent.state(second[0]) == .rejected)
        #expect(try agent.view("c") == nil && agent.store.verify() == [])
        _ = try agent.store.retry(decision, cascades: true, by: agent.app, at: agent.now)
        let batch = try agent.claim()
        #expect(batch.map(\.record.id.text) == ["a", "b", "c", "a"] && Set(batch.compactMap(\.group)).count == 2)
        #expect(try agent.store.verify() == [])
    }

    // Fault: the decision for this side was given up, because the hub had deleted the record meanwhile. The list went without it.
    @Test("A decision about a field behind a dispute over the deletion of its record waits for that, and goes with its list")
    func behindADeletion() throws {
        var book = ConflictTests.rules
        book.entities[EntityName(trusted: "audit")]?.onDeleted = .manual
        let agent = try TestAgent(rules: book)
        try agent.pull([("a", 5, ["finding": "pass", "note": "old"])])
        let keys = try agent.list([
            TestAgent.mutation(.update, "a", ["note": "mine"]), TestAgent.mutation(.update, "a", ["finding": "fail"]),
            TestAgent.mutation(.create, "b", ["n": 1]),
        ]).map(\.key)
        try agent.pull([("a", 7, ["finding": "flagged", "note": "old"])])
        try agent.pull([], deleted: [("a", 9)])
        #expect(try agent.states(keys) == ["conflicted", "conflicted", "pending"])
        let field = try #require(try agent.conflicts().first { $0.mutation == keys[1] }?.number)
        let deletion = try #require(try agent.conflicts().first { $0.mutation == keys[0] }?.number)
        #expect(try ConflictTests.resolve(agent, .all(.local), id: field).list?.waitsFor == ["c-\(deletion)"])
        #expect(try agent.document("a")?["finding"] == "fail" && agent.claim().isEmpty && agent.store.verify() == [])
        try ConflictTests.resolve(agent, .all(.local), id: deletion)
        let batch = try agent.claim()
        #expect(batch.map(\.action) == [.create, .create] && Set(batch.map(\.group)).count == 1 && batch[0].group != nil)
        #expect(try agent.document("a")?["finding"] == "fail" && agent.document("a")?["note"] == "mine")
        #expect(try agent.store.verify() == [])
    }

    // Fault: the member in dispute stayed when the rest of its list was cancelled, or had expired. Its decision was then sent alone.
    @Test("What ends the rest of a list ends its member in dispute as well", arguments: ["cancel", "expire"])
    func endsWithTheRest(_ way: String) throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("a", 1, ["finding": "pass", "n": 0])])
        var other = TestAgent.mutation(.create, "b", ["n": 1])
        other.ttl = way == "expire" ? .seconds(60) : nil
        let keys = try agent.list([TestAgent.mutation(.update, "a", ["finding": "fail"]), other]).map(\.key)
        try agent.pull([("a", 10, ["finding": "flagged", "n": 0])])
        #expect(try agent.states(keys) == ["conflicted", "pending"])
        if way == "cancel" {
            let cancelled = try agent.store.cancel(keys[1], at: agent.now)
            #expect(Set(cancelled) == Set(keys))
            #expect(try agent.states(keys) == ["cancelled", "cancelled"])
        } else {
            agent.wait(.seconds(61))
            _ = try agent.store.housekeep(at: agent.now)
            #expect(try agent.states(keys) == ["rejected", "expired"])
            #expect(try agent.store.reads.mutation(keys[0], at: agent.now)?.problem?.code == "parent-expired")
        }
        #expect(try agent.document("a")?["finding"] == "flagged")
        let event: JSON = way == "cancel" ? "cancelled" : "expired"
        let conflict = try #require(try agent.store.reads.conflict(1))
        #expect(!conflict.isOpen && conflict.history.last?.object?["event"] == event)
        #expect(try agent.claim().isEmpty && agent.store.verify() == [])
        if way == "expire" {
            // The retry takes both along, and finds the dispute once more.
            _ = try agent.store.retry(keys[0], cascades: true, by: agent.app, at: agent.now)
            let batch = try agent.claim()
            #expect(batch.map(\.record.id.text) == ["a", "b"] && batch.first?.baseVersion == 1)
            #expect(try agent.store.verify() == [])
        }
    }

    // Fault: the decision of the older list was rejected with the creation of the younger one, because its number is higher. Where a batch
    // had it already, the counters of waiting and rejected changes were wrong from then on.
    @Test("A list goes although a younger one expires that was to bring a record of both back")
    func olderListOfACreation() throws {
        var book = ConflictTests.rules
        book.entities[EntityName(trusted: "audit")]?.onDeleted = .manual
        let agent = try TestAgent(rules: book)
        try agent.pull([("a", 5, ["finding": "pass"]), ("b", 6, ["n": 0])])
        try agent.list([TestAgent.mutation(.update, "a", ["finding": "fail"]), TestAgent.mutation(.update, "b", ["n": 1])])
        var last = TestAgent.mutation(.update, "b", ["n": 2])
        last.ttl = .seconds(60)
        let younger = try agent.list([TestAgent.mutation(.update, "a", ["note": "mine"]), last]).map(\.key)
        try agent.pull([("a", 7, ["finding": "flagged"])])
        try ConflictTests.resolve(agent, .all(.local))
        try agent.pull([], deleted: [("a", 9)])
        let back = try #require(try ConflictTests.resolve(agent, .all(.local), id: 2).mutation)
        #expect(try agent.store.verify() == [])
        agent.wait(.seconds(61))
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try agent.states([back, younger[1]]) == ["rejected", "expired"])
        let batch = try agent.claim()
        #expect(batch.map(\.record.id.text) == ["a", "b"] && Set(batch.map(\.group)).count == 1)
        #expect(try agent.store.verify() == [])
    }

    // Fault: the retry made a list of the refused members alone, and the decision about the other one was sent by itself.
    @Test("A refused list is retried only when no member is in dispute any more")
    func retriedInDispute() throws {
        let (agent, keys) = try disputedAndRefused()
        for cascades in [false, true] {
            let problem = StoreError.problem {
                _ = try agent.store.retry(keys[1], cascades: cascades, by: agent.app, at: agent.now)
            }
            #expect(problem?.code == "already-sent" && problem?.members["state"] == "conflicted")
            #expect(problem?.detail.contains("agentctl conflicts resolve c-1") == true, "\(problem?.detail ?? "")")
        }
        #expect(try agent.states(keys) == ["conflicted", "rejected"])
        let decision = try ConflictTests.resolve(agent, .all(.local))
        _ = try agent.store.retry(keys[1], cascades: true, by: agent.app, at: agent.now)
        let batch = try agent.claim()
        #expect(batch.count == 2 && Set(batch.map(\.group)).count == 1 && batch[0].group != nil)
        #expect(batch.contains { $0.supersedes.contains { $0 == decision.mutation } })
        #expect(try agent.store.verify() == [])
    }

    @Test("It waits until all of its disputes are decided, then all of it goes in one commit, each decision in its place")
    func waitsForAll() throws {
        let (agent, keys) = try agent(["a", "b"])
        let first = try ConflictTests.resolve(agent, .all(.local), id: 1)
        #expect(first.list == AtomicListFate(goOn: 0, wait: 3, letGo: 0, waitsFor: ["c-2"]))
        #expect(try agent.claim().isEmpty)
        try agent.crash()
        #expect(try agent.claim().isEmpty && agent.store.verify() == [])
        let second = try ConflictTests.resolve(agent, .fields(["finding": .value("both")]), id: 2)
        #expect(second.list == AtomicListFate(goOn: 3, wait: 0, letGo: 0, waitsFor: []))
        let batch = try agent.claim()
        #expect(batch.map(\.key) == [first.mutation, second.mutation, keys[2]])
        #expect(Set(batch.map(\.group)).count == 1 && batch[0].group != nil)
        #expect(batch.map(\.data) == [#"{"n":1,"finding":"fail a"}"#, #"{"n":1,"finding":"both"}"#, #"{"finding":"fail c","n":1}"#])
        // Its answer was lost: it is settled as it was sent.
        #expect(try agent.inFlight().map(\.key) == batch.map(\.key))
        try accept(agent, batch)
        #expect(try agent.record("a")?.status == .synced && agent.record("b")?.status == .synced)
        #expect(try agent.document("b") == ["finding": "both", "n": 1])
        #expect(try agent.store.verify() == [])
    }

    @Test("After a database went back in time the verdicts count in the order in which the list goes again")
    func settledAgain() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("a", 1, ["finding": "pass", "n": 0])])
        let keys = try agent.list([
            TestAgent.mutation(.update, "a", ["finding": "fail"]), TestAgent.mutation(.update, "a", ["n": 1]),
        ]).map(\.key)
        try agent.pull([("a", 5, ["finding": "flagged", "n": 0])])
        let decision = try #require(try ConflictTests.resolve(agent, .all(.local)).mutation)
        try agent.store.adoptReplica(ReplicaID(trusted: "another"), at: agent.now)
        #expect(try agent.inFlight().map(\.key) == [decision, keys[1]])
        // Each shows the record as it was after it, and both share one version.
        try agent.answer(
            .accepted(decision, 6, record: HubRecord(version: 6, data: ["finding": "fail", "n": 0, "more": 1])),
            .accepted(keys[1], 6, record: HubRecord(version: 6, data: ["finding": "fail", "n": 1, "more": 1])))
        #expect(try agent.document("a") == ["finding": "fail", "n": 1, "more": 1])
        #expect(try agent.store.verify() == [])
    }

    @Test("Later changes of the same records hold it up no more than it holds them up, also those of a second list")
    func laterChanges() throws {
        var later: [MutationKey] = []
        let (agent, keys) = try agent { agent in
            later = try agent.list([TestAgent.mutation(.update, "a", ["n": 2]), TestAgent.mutation(.update, "b", ["n": 2])]).map(\.key)
        }
        let decision = try #require(try ConflictTests.resolve(agent, .all(.local)).mutation)
        #expect(try agent.store.verify() == [])
        var sent: [MutationKey] = []
        var version: Int64 = 20
        for _ in 0..<4 {
            let batch = try agent.claim()
            sent += batch.map(\.key)
            version += 1
            try accept(agent, batch, version)
            #expect(try agent.store.verify() == [])
        }
        #expect(Set(sent) == Set([decision, keys[1], keys[2]] + later) && sent.count == 5)
        // The last word on each field is the last change.
        #expect(try agent.document("a") == ["finding": "fail a", "n": 2])
        #expect(try agent.document("b") == ["finding": "fail b", "n": 2])
    }

    @Test("A member that goes on by itself, because the sides became equal, stays in the list")
    func moot() throws {
        let (agent, keys) = try agent()
        try agent.pull([("a", 12, ["finding": "fail a", "n": 0])])
        #expect(try agent.state(keys[0]) == .resolved)
        let batch = try agent.claim()
        #expect(batch.map(\.record.id.text) == ["a", "b", "c"] && Set(batch.map(\.group)).count == 1)
        #expect(try agent.store.verify() == [])
    }

    @Test("A decision may be in dispute once more, and the list waits again")
    func again() throws {
        let (agent, keys) = try agent()
        try ConflictTests.resolve(agent, .all(.local))
        try agent.pull([("a", 14, ["finding": "closed", "n": 0])])
        #expect(try agent.claim().isEmpty)
        let decision = try ConflictTests.resolve(agent, .all(.local), id: 2)
        let batch = try agent.claim()
        #expect(batch.map(\.key) == [decision.mutation, keys[1], keys[2]])
        #expect(try agent.store.verify() == [])
    }

    @Test("To let go of the whole list ends all of it and its conflicts; what rests on it is told")
    func whole() throws {
        var made: [MutationKey] = []
        let (agent, keys) = try agent(["a", "b"]) { agent in made.append(try agent.update("c", ["n": 7]).key) }
        var dependent = TestAgent.mutation(.create, "d")
        dependent.dependsOn = [keys[2]]
        let child = try agent.enqueue(dependent).key
        let answer = try agent.store.resolve(
            1, ConflictDecision(.all(.remote), letsGoOfList: true), by: ConflictTests.ines, at: agent.now)
        #expect(answer.list == AtomicListFate(goOn: 0, wait: 0, letGo: 3, waitsFor: []) && answer.mutation == nil)
        #expect(try agent.states(keys + made + [child]) == ["discarded", "discarded", "discarded", "pending", "rejected"])
        for id: Int64 in [1, 2] { #expect(try agent.store.reads.conflict(id)?.state == "resolved") }
        #expect(try agent.document("a") == ["finding": "flagged", "n": 0])
        #expect(try agent.document("c") == ["finding": "pass", "n": 7])
        #expect(try agent.claim().map(\.key) == made)
        #expect(try agent.store.reads.mutation(child, at: agent.now)?.problem?.code == "parent-rejected")
        #expect(try agent.store.verify() == [])
    }

    @Test("Only a list can be let go as a whole, and only for the hub's side")
    func wholeRefused() throws {
        func refusal(_ agent: TestAgent, _ scope: ConflictDecision.Scope) -> Problem? {
            StoreError.problem {
                _ = try agent.store.resolve(1, ConflictDecision(scope, letsGoOfList: true), by: ConflictTests.ines, at: agent.now)
            }
        }
        let (alone, key) = try ConflictTests.disputed()
        #expect(refusal(alone, .all(.remote))?.errors.map(\.pointer) == ["/whole"])
        #expect(try alone.state(key) == .conflicted)
        #expect(try ConflictTests.resolve(alone, .all(.remote)).list == nil)
        let (agent, keys) = try agent()
        #expect(refusal(agent, .all(.local))?.code == "validation")
        #expect(try agent.states(keys) == ["conflicted", "pending", "pending"])
        #expect(try agent.store.verify() == [])
    }

    @Test("Where the hub has refused another member, a decision waits with the rest to be asked for again")
    func refused() throws {
        let (agent, keys) = try disputedAndRefused()
        let decision = try ConflictTests.resolve(agent, .all(.local))
        #expect(decision.list == AtomicListFate(goOn: 0, wait: 2, letGo: 0, waitsFor: []))
        #expect(try agent.claim().isEmpty)
        #expect(try agent.state(#require(decision.mutation)) == .rejected)
        _ = try agent.store.retry(keys[1], fix: ["n": 2], cascades: true, by: agent.app, at: agent.now)
        let batch = try agent.claim()
        #expect(batch.map(\.record.id.text) == ["a", "b"] && Set(batch.map(\.group)).count == 1 && batch[0].group != nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("A list behind another dispute over one of its records is told to wait for that")
    func behindAnotherDispute() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("a", 1, ["finding": "pass", "n": 0]), ("b", 2, ["finding": "pass"])])
        let older = try agent.update("a", ["finding": "fail"]).key
        let keys = try agent.list([
            TestAgent.mutation(.update, "a", ["n": 1]), TestAgent.mutation(.update, "b", ["finding": "fail"]),
        ]).map(\.key)
        try agent.pull([("a", 10, ["finding": "flagged", "n": 0]), ("b", 11, ["finding": "flagged"])])
        #expect(try agent.states([older] + keys) == ["conflicted", "pending", "conflicted"])
        let ownID = try #require(try agent.conflicts().first { $0.mutation == keys[1] }?.number)
        let otherID = try #require(try agent.conflicts().first { $0.mutation == older }?.number)
        let answer = try ConflictTests.resolve(agent, .all(.local), id: ownID)
        #expect(answer.list == AtomicListFate(goOn: 0, wait: 2, letGo: 0, waitsFor: ["c-\(otherID)"]))
        #expect(try agent.claim().isEmpty)
        try ConflictTests.resolve(agent, .all(.remote), id: otherID)
        #expect(try agent.claim().map(\.key) == [keys[0], try #require(answer.mutation)])
        #expect(try agent.store.verify() == [])
    }

    @Test("A decision that depends on a refused change falls with its list, and the answer says so")
    func fallen() throws {
        var book = ConflictTests.rules
        book.entities[EntityName(trusted: "audit")]?.refs = ["place": EntityName(trusted: "site")]
        let agent = try TestAgent(rules: book)
        try agent.pull([("a", 1, ["finding": "pass"]), ("b", 2, ["n": 0])])
        let keys = try agent.list([
            TestAgent.mutation(.update, "a", ["finding": "fail", "place": "s"]), TestAgent.mutation(.update, "b", ["n": 1]),
        ]).map(\.key)
        try agent.pull([("a", 10, ["finding": "flagged"])])
        let parent = try agent.enqueue(TestAgent.mutation(.create, "s", entity: "site")).key
        #expect(try agent.claim().map(\.key) == [parent])
        try agent.answer(.rejected(parent))
        let decision = try ConflictTests.resolve(agent, .all(.local))
        #expect(decision.list == AtomicListFate(goOn: 0, wait: 2, letGo: 0, waitsFor: []))
        #expect(try agent.states([#require(decision.mutation), keys[1]]) == ["rejected", "rejected"])
        #expect(try agent.store.verify() == [])
    }

    @Test("To let go of the whole list also ends what was decided about another of its members, and the history says so")
    func wholeAfterDecision() throws {
        let (agent, _) = try agent(["a", "b"])
        let decision = try #require(try ConflictTests.resolve(agent, .all(.local), id: 1).mutation)
        _ = try agent.store.resolve(
            2, ConflictDecision(.all(.remote), letsGoOfList: true), by: ConflictTests.ines, at: agent.now)
        #expect(try agent.state(decision) == .discarded)
        for id: Int64 in [1, 2] { #expect(try agent.store.reads.conflict(id)?.state == "resolved") }
        #expect(try agent.store.reads.conflict(1)?.history.last?.object?["event"] == "discarded")
        #expect(try agent.store.verify() == [])
    }

    @Test("A decision whose list was sent before is not cancelled, and the refusal names the member that was sent")
    func sentBefore() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("a", 1, ["finding": "pass"]), ("b", 2, ["n": 0])])
        let keys = try agent.list([
            TestAgent.mutation(.update, "b", ["n": 1]), TestAgent.mutation(.update, "a", ["finding": "fail"]),
        ]).map(\.key)
        _ = try agent.claim()
        try agent.answer(
            .retry(keys[0], "blocked-by-earlier"),
            .conflict(keys[1], ["finding"], .record(HubRecord(version: 9, data: ["finding": "flagged"]))))
        let decision = try #require(try ConflictTests.resolve(agent, .all(.local)).mutation)
        let kept = try #require(StoreError.problem { _ = try agent.store.cancel(decision, at: agent.now) })
        #expect(kept.code == "already-sent" && kept.members["state"] == "pending")
        #expect(kept.detail == "the mutation \(keys[0]) of the same atomic list was sent before, so the server may have it")
        // Neither is that offered by the refusal of an undo.
        let early = try #require(StoreError.problem { _ = try agent.store.undo(decision, by: agent.app, at: agent.now) })
        #expect(early.detail.hasSuffix("and the hub has not accepted it yet: agentctl undo \(decision) takes it back when it has"))
    }

    @Test("A decision that is taken back takes its list along")
    func isTakenBackWhole() throws {
        let (agent, keys) = try agent(["a", "b"])
        let decision = try #require(try ConflictTests.resolve(agent, .all(.local), id: 1).mutation)
        _ = try ConflictTests.resolve(agent, .all(.remote), id: 2)
        #expect(try Set(agent.store.cancel(decision, at: agent.now)).isSuperset(of: [decision, keys[2]]))
        #expect(try agent.claim().isEmpty)
        #expect(try agent.store.verify() == [])
    }

    @Test("A decision waits for what its device had sent before its list, and goes when that has its answer")
    func behindOlder() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("a", 1, ["finding": "pass", "n": 0]), ("b", 2, ["n": 0])])
        let older = try agent.update("a", ["n": 5]).key
        let keys = try agent.list([
            TestAgent.mutation(.update, "a", ["finding": "fail"]), TestAgent.mutation(.update, "b", ["n": 1]),
        ]).map(\.key)
        #expect(try agent.claim(1).map(\.key) == [older])
        // Enqueued before the decision: the oldest of the record when that is made, and not before it.
        let later = try agent.update("a", ["n": 7]).key
        try agent.pull([("a", 12, ["finding": "flagged", "n": 0])])
        let decision = try #require(try ConflictTests.resolve(agent, .all(.local)).mutation)
        #expect(try agent.claim().isEmpty && agent.store.verify() == [])
        try agent.answer(.accepted(older, 13))
        #expect(try agent.store.verify() == [])
        #expect(try Set(agent.claim().map(\.key)) == [decision, keys[1], later])
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation enqueued after a decision does not overtake an earlier one that waits for another attempt")
    func mutationAfterADecisionDoesNotOvertake() throws {
        var later: MutationKey?
        let (agent, keys) = try agent { agent in later = try agent.update("a", ["n": 7]).key }
        let decision = try #require(try ConflictTests.resolve(agent, .all(.local)).mutation)
        let youngest = try agent.enqueue(TestAgent.mutation(.update, "a", ["n": 8])).key
        let waiting = try #require(later)
        let sent = try agent.claim().map(\.key)
        #expect(Set(sent) == [decision, keys[1], keys[2], waiting, youngest])
        try agent.answer(
            .retry(decision, "not-attempted", after: .seconds(1)), .retry(keys[1], "not-attempted", after: .seconds(1)),
            .retry(keys[2], "not-attempted", after: .seconds(1)), .retry(waiting, after: .seconds(3_600)),
            .retry(youngest, "blocked-by-earlier"))
        agent.wait(.seconds(600))
        #expect(try Set(agent.claim().map(\.key)) == [decision, keys[1], keys[2]])
        #expect(try agent.store.verify() == [])
    }

    @Test("A list falls once: a member that fell with another one's creation is not counted twice")
    func fallsOnce() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("a", 1, ["n": 0])])
        let keys = try agent.list([
            TestAgent.mutation(.update, "a", ["n": 1]), TestAgent.mutation(.create, "new", ["n": 0]),
            TestAgent.mutation(.update, "new", ["n": 2]),
        ]).map(\.key)
        try agent.pull([], deleted: [("a", 9)])
        #expect(try agent.states(keys) == ["rejected", "rejected", "rejected"])
        #expect(try agent.store.verify() == [])
    }
}
