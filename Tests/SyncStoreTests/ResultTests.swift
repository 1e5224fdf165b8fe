import SyncCore
import SyncStore
import Testing

/// PROTOCOL C4, C5: what each verdict makes of mutation, base, view and status.
@Suite("Results")
struct ResultTests {
    private static let theirs = HubState.record(HubRecord(version: 9, data: ["v": "theirs"]))

    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var verdict: @Sendable (MutationKey) -> PushResult
        var state: MutationState
        var status: RecordSnapshot.SyncStatus
        var view: String?
        var version: Int64
        var problem: String?

        init(
            _ name: String, _ state: MutationState, _ status: RecordSnapshot.SyncStatus, _ view: String?, _ version: Int64,
            _ problem: String? = nil, _ verdict: @escaping @Sendable (MutationKey) -> PushResult
        ) {
            testDescription = name
            self.verdict = verdict
            self.state = state
            self.status = status
            self.view = view
            self.version = version
            self.problem = problem
        }
    }

    @Test(
        "Each verdict on an update of a known record",
        arguments: [
            Case("accepted", .done, .synced, #"{"v":"mine"}"#, 7) { .accepted($0, 7) },
            Case("accepted with the record that the hub made", .done, .synced, #"{"v":"merged"}"#, 7) {
                .accepted($0, 7, record: HubRecord(version: 7, data: ["v": "merged"]))
            },
            Case("duplicate of an accepted one", .done, .synced, #"{"v":"theirs"}"#, 9) { .duplicate($0, .accepted, theirs) },
            Case("duplicate, and the record is deleted since", .done, .synced, nil, 9) { .duplicate($0, .accepted, .deleted(version: 9)) },
            Case("duplicate of a rejected one", .rejected, .error, #"{"v":"theirs"}"#, 9, "rejected") { .duplicate($0, .rejected, theirs) },
            Case("duplicate of a conflict", .conflicted, .conflict, #"{"v":"mine"}"#, 9, "conflict") { .duplicate($0, .conflict, theirs) },
            Case("conflict", .conflicted, .conflict, #"{"v":"mine"}"#, 9, "conflict") { .conflict($0, ["v"], theirs) },
            Case("conflict with a deletion", .conflicted, .conflict, #"{"v":"mine"}"#, 9, "conflict") {
                .conflict($0, ["$delete"], .deleted(version: 9))
            },
            Case("rejected", .rejected, .error, #"{"v":"old"}"#, 5, "validation") { .rejected($0) },
            Case("rejected with the present record", .rejected, .error, #"{"v":"theirs"}"#, 9, "validation") {
                .rejected($0, current: theirs)
            },
            Case("rejected, and the record is deleted", .rejected, .error, nil, 9, "validation") {
                .rejected($0, current: .deleted(version: 9))
            },
            Case("retry", .pending, .pending, #"{"v":"mine"}"#, 5, "busy") { .retry($0) },
        ])
    func verdicts(_ example: Case) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.pull([("a", 5, ["v": "old"])])
        let key = try agent.update("a", ["v": "mine"]).key
        _ = try agent.claim()
        try agent.answer(example.verdict(key))
        for _ in 0..<2 {
            let record = try #require(try agent.record("a"))
            #expect(record.view == example.view)
            #expect(record.version == example.version)
            #expect(record.status == example.status)
            let mutation = try #require(try agent.store.reads.mutation(key, at: agent.now))
            #expect(mutation.state == example.state)
            #expect(mutation.problem?.code == example.problem)
            #expect(try agent.store.verify() == [])
            try agent.reopen()
        }
    }

    @Test("A late or repeated answer changes nothing and is counted")
    func late() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let key = try agent.create("a").key
        #expect(try agent.answer(.accepted(key, 5)).unknown == 1, "it was not sent yet")
        _ = try agent.claim()
        try agent.answer(.accepted(key, 5))
        let record = try agent.record("a")
        let log = folder.bytes("-wal").count
        for late in [
            PushResult.rejected(key), .accepted(key, 6), .retry(key), .conflict(key, ["v"], .absent),
            .accepted(MutationKey(trusted: "x"), 1),
        ] {
            #expect(try agent.answer(late).unknown == 1)
        }
        #expect(try agent.record("a") == record)
        #expect(folder.bytes("-wal").count == log, "nothing was written")
    }

    @Test("A deletion that is accepted leaves a tombstone; one that is rejected brings the record back", arguments: [true, false])
    func deletion(_ isAccepted: Bool) throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1])])
        let key = try agent.delete("a").key
        #expect(try agent.record("a")?.isDeleted == true)
        _ = try agent.claim()
        try agent.answer(isAccepted ? .accepted(key, 6) : .rejected(key))
        #expect(try agent.view("a") == (isAccepted ? nil : #"{"v":1}"#))
        #expect(try agent.record("a")?.version == (isAccepted ? 6 : 5))
        #expect(try agent.store.verify() == [])
    }

    @Test("A rejected update leaves the view, later ones stay on it")
    func rollback() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["x": 0, "y": 0])])
        let first = try agent.update("a", ["x": 1]).key
        let second = try agent.update("a", ["y": 2]).key
        #expect(try agent.view("a") == #"{"x":1,"y":2}"#)
        _ = try agent.claim(1)
        try agent.answer(.rejected(first))
        #expect(try agent.view("a") == #"{"x":0,"y":2}"#)
        #expect(try agent.record("a")?.status == .error)
        #expect(try agent.claim().map(\.key) == [second], "a rejected one blocks no other one")
        try agent.answer(.accepted(second, 6))
        try agent.store.discard(first, reason: "seen", uid: 0, at: agent.now)
        #expect(try agent.record("a")?.status == .synced)
        #expect(try agent.view("a") == #"{"x":0,"y":2}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("A rejected create takes along what was to be done with the record, and what hangs on that by a list")
    func rejectedCreate() throws {
        let agent = try TestAgent()
        let create = try agent.create("a").key
        let update = try agent.update("a", ["v": 2]).key
        let list = try agent.list([TestAgent.mutation(.update, "a", ["v": 3]), TestAgent.mutation(.create, "b")]).map(\.key)
        let onB = try agent.update("b", ["w": 1]).key
        let stranger = try agent.create("c").key
        _ = try agent.claim(1)
        let summary = try agent.answer(.rejected(create))
        #expect(summary.rejected == 5)
        #expect(try agent.states([create, update] + list + [onB, stranger]) == [String](repeating: "rejected", count: 5) + ["pending"])
        let problem = try agent.store.reads.mutation(update, at: agent.now)?.problem
        #expect(problem?.code == "parent-rejected")
        for id in ["a", "b"] {
            #expect(try agent.view(id) == nil)
            #expect(try agent.record(id)?.status == .error)
        }
        #expect(try agent.claim().map(\.key) == [stranger])
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation after a second creation does not depend on the first one")
    func secondCreation() throws {
        let agent = try TestAgent()
        let create = try agent.create("a", ["n": 1]).key
        let delete = try agent.delete("a").key
        let again = try agent.create("a", ["n": 2]).key
        _ = try agent.claim(1)
        try agent.answer(.rejected(create))
        #expect(try agent.states([create, delete, again]) == ["rejected", "rejected", "pending"])
        #expect(try agent.view("a") == #"{"n":2}"#)
    }

    @Test("A mutation that did not get through is not overtaken by what was sent behind it")
    func sentBehind() throws {
        let agent = try TestAgent()
        let keys = [try agent.create("a").key, try agent.update("a", ["v": 2]).key, try agent.update("a", ["v": 3]).key]
        #expect(try agent.claim().map(\.key) == keys)
        try agent.answer(.retry(keys[0], "deadlock", after: .seconds(100)))
        #expect(try agent.states(keys) == ["pending", "pending", "pending"])
        #expect(try agent.claim().isEmpty)
        agent.wait(.seconds(200))
        #expect(try agent.claim().map(\.key) == keys)
        #expect(try agent.store.verify() == [])
    }

    @Test("A mutation that keeps failing alone is parked, tried again after a day, and never blocks other records")
    func parked() throws {
        let agent = try TestAgent()
        let key = try agent.create("a").key
        for attempt in 1...Limits.attempts {
            _ = try agent.claim()
            try agent.store.setAside(key, Problem("server-error", status: 500, detail: "x"), counts: true, at: agent.now)
            #expect(try agent.state(key) == (attempt < Limits.attempts ? .pending : .failed))
            if attempt < Limits.attempts { agent.wait(.seconds(3_600)) }
        }
        #expect(try agent.record("a")?.status == .error)
        let other = try agent.create("b").key
        #expect(try agent.claim().map(\.key) == [other])
        agent.wait(.seconds(86_401))
        #expect(try agent.claim().map(\.key) == [key])
        #expect(try agent.store.verify() == [])
    }

    @Test("Answers that are about something else do not count towards parking", arguments: ["busy", "dependency-missing", "not-attempted"])
    func uncounted(_ code: String) throws {
        let agent = try TestAgent()
        let key = try agent.create("a").key
        for _ in 0..<(Limits.attempts + 5) {
            #expect(try agent.claim().count == 1)
            try agent.answer(.retry(key, code))
            agent.wait(.seconds(3_600))
        }
        #expect(try agent.store.reads.mutation(key, at: agent.now)?.attempts == 0)
    }

    @Test("A rejected one is answered for by a new mutation; a failed one goes again as it is")
    func retry() throws {
        let agent = try TestAgent()
        let rejected = try agent.create("a", ["v": 1]).key
        _ = try agent.claim()
        try agent.answer(.rejected(rejected))
        let fixed = try agent.store.retry(rejected, fix: ["v": 2], by: agent.app, at: agent.now)
        #expect(fixed.key != rejected)
        #expect(try agent.state(rejected) == .resolved)
        let snapshot = try agent.store.reads.mutation(rejected, at: agent.now)
        #expect(snapshot?.into == fixed.key)
        #expect(try agent.store.reads.mutation(fixed.key, at: agent.now)?.supersedes == rejected)
        #expect(try agent.view("a") == #"{"v":2}"#)
        #expect(StoreError.problem { _ = try agent.store.retry(rejected, by: agent.app, at: agent.now) }?.code == "already-sent")
        #expect(try agent.store.verify() == [])
    }

    @Test("Only what was never sent can be taken back")
    func cancel() throws {
        let agent = try TestAgent()
        let create = try agent.create("a").key
        let update = try agent.update("a", ["v": 2]).key
        let sent = try agent.create("b").key
        let late = try agent.update("b", ["v": 2]).key
        #expect(try agent.store.cancel(create, at: agent.now) == [create, update], "all that went is named")
        #expect(try agent.states([create, update]) == ["cancelled", "cancelled"])
        #expect(try agent.record("a")?.view == nil)
        #expect(try agent.claim(1).map(\.key) == [sent])
        #expect(StoreError.problem { _ = try agent.store.cancel(sent, at: agent.now) }?.code == "already-sent")
        #expect(try agent.store.cancel(late, at: agent.now) == [late])
        #expect(StoreError.problem { _ = try agent.store.cancel(MutationKey(trusted: "x"), at: agent.now) }?.code == "not-found")
        #expect(try agent.store.verify() == [])
    }
}
