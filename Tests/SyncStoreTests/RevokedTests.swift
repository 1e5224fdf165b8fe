import Foundation
import SyncCore
import Testing

@testable import SyncStore

extension TestAgent {
    /// A page of the feed that takes these records out of the share.
    @discardableResult
    func revoke(_ ids: String..., version: Int64 = 900, entity: String = "audit") throws -> PullSummary {
        let deletions = ids.map { StreamPage.Deletion(id: RecordID(trusted: $0), version: version, reason: Problem.revoked) }
        let page = StreamPage(entity: EntityName(trusted: entity), cursor: "r", hasMore: false, records: [], deletions: deletions)
        return try store.applyPull(PullResponse(epoch: "e", head: 1_000, pages: [page]), at: now)
    }

    fileprivate func problem(_ key: MutationKey) throws -> Problem? { try store.reads.mutation(key, at: now)?.problem }

    fileprivate func retry(_ key: MutationKey, cascades: Bool = false) throws -> Enqueued {
        try store.retry(key, cascades: cascades, by: app, at: now)
    }
}

/// PROTOCOL A7, C7: a record leaves the share of this device.
@Suite("Records that leave the share")
struct RevokedTests {
    private static let audit = EntityName(trusted: "audit")

    // MARK: - The record

    // Fault: the record is shown as deleted, which tells that it still exists somewhere.
    @Test("The record is as unknown as one that was never here, for reads, lists and changes")
    func unknown() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1]), ("b", 6, ["v": 2])])
        let summary = try agent.revoke("a")
        #expect(summary.deletions == 1 && summary.massDeletes == [])
        #expect(try agent.record("a") == nil && agent.view("b") == #"{"v":2}"#)
        var query = RecordQuery(Self.audit)
        query.includesDeleted = true
        #expect(try agent.store.reads.records(query).items.map(\.name.id.text) == ["b"])
        let refused = try #require(agent.refusal(TestAgent.mutation(.update, "a", ["v": 3])))
        let stranger = try #require(agent.refusal(TestAgent.mutation(.update, "z", ["v": 3])))
        #expect(refused.code == "not-found" && refused.status == 404 && refused.code == stranger.code)
        #expect(agent.refusal(TestAgent.mutation(.delete, "a"))?.code == "not-found")
        // An app may use the id for a record of its own, and the hub decides.
        #expect(try agent.create("a", ["own": 1]).record?.version == 0)
        #expect(try agent.view("a") == #"{"own":1}"#)
        #expect(try agent.claim().map(\.baseVersion) == [0])
        #expect(try agent.store.verify() == [])
    }

    // Fault: the version of the record is kept, so the same version is taken for known.
    @Test("After a new grant the record comes back, in the same version as before or in any other", arguments: [1, 5, 7, 2_000])
    func comesBack(_ version: Int64) throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1])])
        try agent.revoke("a")
        try agent.crash()
        try agent.pull([("a", version, ["v": 9])])
        #expect(try agent.view("a") == #"{"v":9}"#)
        #expect(try agent.record("a")?.version == version && agent.record("a")?.status == .synced)
        try agent.update("a", ["v": 10])
        #expect(try agent.claim().map(\.baseVersion) == [version])
        #expect(try agent.store.verify() == [])
    }

    @Test("An acceptance that says so takes the record out of the share; work that was never sent is set aside")
    func leftWithVerdict() throws {
        let agent = try TestAgent()
        let made = try agent.create("a", ["site": "s-2"])
        let sent = try agent.claim()
        let waiting = try agent.update("a", ["v": 2])
        var result = PushResult.accepted(made.key, 7)
        result.notes.hasLeft = true
        _ = try agent.store.applyResults([result], next: nil, at: agent.now)
        #expect(sent.map(\.key) == [made.key])
        #expect(try agent.record("a") == nil)
        #expect(try agent.states([made.key, waiting.key]) == ["done", "rejected"])
        #expect(try agent.problem(waiting.key)?.code == "revoked")
        #expect(try agent.store.verify() == [])
        // The version that was told is not taken for known.
        try agent.pull([("a", 7, ["v": 1])])
        #expect(try agent.view("a") == #"{"v":1}"#)
    }

    @Test("A record that a later verdict of the same answer shows has not left")
    func shownAfterwards() throws {
        let agent = try TestAgent()
        let list = [TestAgent.mutation(.create, "a", ["site": "s-2"]), TestAgent.mutation(.update, "a", ["site": "s-1"])]
        let keys = try agent.list(list).map(\.key)
        #expect(try agent.claim().map(\.key) == keys)
        var left = PushResult.accepted(keys[0], 7)
        left.notes.hasLeft = true
        let shown = PushResult(
            key: keys[1],
            verdict: .accepted(version: 7, serverID: nil, record: HubRecord(version: 7, data: ["site": "s-1", "v": 1]), merged: []))
        _ = try agent.store.applyResults([left, shown], next: nil, at: agent.now)
        #expect(try agent.view("a") == #"{"site":"s-1","v":1}"#)
        #expect(try agent.store.verify() == [])
    }

    // Fault: a page that comes twice sets aside what an app has made since.
    @Test("A revocation of what is not here changes nothing, and neither does one that comes twice")
    func nothingHere() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1])])
        let own = try agent.create("own").key
        #expect(try agent.revoke("own", "never-seen").deletions == 0)
        #expect(try agent.state(own) == .pending && agent.view("own") != nil)
        try agent.revoke("a")
        let anew = try agent.create("a", ["own": 1]).key
        #expect(try agent.revoke("a", version: 950).unchanged == 1)
        #expect(try agent.state(anew) == .pending && agent.view("a") == #"{"own":1}"#)
        #expect(try agent.store.verify() == [])
    }

    // Fault: readers of the feed of events go on showing the record, or show it as deleted for all devices.
    @Test("Apps that follow the mirror are told once, with the reason")
    func events() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1]), ("b", 6, ["v": 1])])
        let before = try agent.store.reads.journal(after: 0, limit: 100, filter: JournalFilter()).newest
        let page = StreamPage(
            entity: Self.audit, cursor: "r", hasMore: false, records: [],
            deletions: [
                .init(id: RecordID(trusted: "a"), version: 8, reason: Problem.revoked), .init(id: RecordID(trusted: "b"), version: 9),
            ])
        _ = try agent.store.applyPull(PullResponse(epoch: "e", head: 9, pages: [page]), at: agent.now)
        let told = try agent.store.reads.journal(after: before, limit: 100, filter: JournalFilter()).events.compactMap { event -> String? in
            if case .record(let it) = event.body { "\(it.record.id) \(it.change) \(it.source) \(it.version)" } else { nil }
        }
        #expect(told.sorted() == ["a revoke remote 0", "b delete remote 9"])
        // An earlier version of the agent reads it as a deletion.
        #expect(JournalStage.Kind.record(.revoke, .remote).numbers.code & 2 == 2)
    }

    // Fault: an index finds a record by a value that this device must have forgotten.
    @Test("Indexes and counts follow")
    func indexes() throws {
        var rules = TestAgent.rules
        rules.entities[Self.audit]?.declaredIndexes = [RecordIndex("v")].compactMap { $0 }
        let agent = try TestAgent(rules: rules)
        while try agent.store.tendIndexes(at: agent.now) {}
        try agent.pull([("a", 5, ["v": 1]), ("b", 6, ["v": 2])])
        try agent.revoke("a")
        #expect(try agent.database.number("SELECT count(*) FROM index_entry") == 1)
        #expect(try agent.store.reads.entities().first { $0.name == Self.audit }?.records == 1)
        try agent.pull([("a", 5, ["v": 1])])
        #expect(try agent.database.number("SELECT count(*) FROM index_entry") == 2)
        #expect(try agent.store.verify() == [])
    }

    // Fault: the guard against mass deletions keeps what the device may not have; or it lets real deletions through with them.
    @Test("All records may leave at once, and deletions on the same page are still guarded")
    func guarded() throws {
        let agent = try TestAgent()
        try agent.pull((0..<400).map { ("r\(1_000 + $0)", Int64($0 + 1), [:]) }, head: 400)
        let page = StreamPage(
            entity: Self.audit, cursor: "r", hasMore: false, records: [],
            deletions: (0..<400).map {
                .init(id: RecordID(trusted: "r\(1_000 + $0)"), version: Int64(1_000 + $0), reason: $0 < 200 ? Problem.revoked : nil)
            })
        let summary = try agent.store.applyPull(PullResponse(epoch: "e", head: 2_000, pages: [page]), at: agent.now)
        #expect(summary.deletions == 200 && summary.massDeletes == [Self.audit])
        #expect(try agent.record("r1000") == nil && agent.view("r1399") != nil)
        #expect(try agent.store.verify() == [])
    }

    // Fault: a damaged row makes the whole entity be listed again, or keeps its content.
    @Test("A damaged row is forgotten like any other")
    func damaged() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.pull([("a", 5, ["v": 1])], cursor: "c1")
        let edit = try agent.update("a", ["v": 2]).key
        try RawDatabase(folder.database).rows("UPDATE record SET sum = sum + 1 WHERE id = 'a'")
        try agent.revoke("a")
        #expect(try agent.record("a") == nil && agent.state(edit) == .rejected)
        let stream = try #require(try agent.store.loadStreams(at: agent.now).first { $0.entity == Self.audit })
        #expect(stream.cursor == "r" && stream.listing == nil)
        #expect(try agent.store.verify() == [])
    }

    // MARK: - Work

    // Fault: work that the hub may have is ended here, or work that it cannot have is dropped or sent.
    @Test("Work that was never sent is set aside with its content; all other work keeps its state until the hub answers")
    func states() throws {
        let agent = try TestAgent()
        let ids = ["new", "fly", "back", "dispute", "refused", "done", "failed"]
        try agent.pull(ids.enumerated().map { ($1, Int64($0 + 1), ["v": 1]) })
        var keys: [String: MutationKey] = [:]
        for id in ids.dropFirst() { keys[id] = try agent.update(id, ["v": 2]).key }
        #expect(try agent.claim().count == 6)
        func key(_ id: String) throws -> MutationKey { try #require(keys[id]) }
        try agent.answer(
            .retry(key("back"), "deadlock", after: .seconds(100)),
            .conflict(key("dispute"), ["v"], .record(HubRecord(version: 20, data: ["v": 7]))), .rejected(key("refused")),
            .accepted(key("done"), 30))
        for _ in 0..<Limits.attempts {
            try agent.store.setAside(key("failed"), Problem("failed", status: 500, detail: "no"), counts: true, at: agent.now)
        }
        keys["new"] = try agent.update("new", ["v": 3]).key
        let edits = try agent.update("new", ["w": 4]).key
        func states() throws -> [String] { try agent.states(ids.map { try key($0) }) }
        #expect(try states() == ["pending", "in_flight", "pending", "conflicted", "rejected", "done", "failed"])

        try agent.revoke("new", "fly", "back", "dispute", "refused", "done", "failed")
        #expect(try states() == ["rejected", "in_flight", "pending", "rejected", "rejected", "done", "failed"])
        #expect(try ids.allSatisfy { try agent.record($0) == nil })
        for id in ["new", "dispute"] { #expect(try agent.problem(key(id))?.code == Problem.revoked) }
        #expect(try agent.problem(key("refused"))?.code == "validation", "the hub's own reason stays")
        let parked = try #require(try agent.store.reads.mutation(key("new"), at: agent.now))
        #expect(parked.data == #"{"v":3}"# && parked.baseVersion == 1 && !parked.isSent)
        #expect(try agent.problem(edits)?.code == Problem.revoked)
        #expect(try agent.store.verify() == [])

        // The hub's answer settles what was in flight, and a refusal of it is a rejection like any other.
        let forbidden = Problem(Problem.forbidden, status: 403, detail: "not in a scope of this device")
        try agent.answer(PushResult(key: try key("fly"), verdict: .rejected(forbidden, current: nil)))
        #expect(try agent.state(key("fly")) == .rejected && agent.problem(key("fly"))?.code == Problem.forbidden)
        agent.wait(.seconds(3_600))
        #expect(try agent.claim().map(\.key) == [key("back")])
        #expect(try agent.store.verify() == [])
    }

    // Fault: an acceptance of what was in flight brings the record back into the mirror.
    @Test("An acceptance after the revocation settles the change and shows no record")
    func accepted() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1])])
        let edit = try agent.update("a", ["v": 2]).key
        _ = try agent.claim()
        try agent.revoke("a")
        try agent.answer(.duplicate(edit, .accepted, .absent))
        #expect(try agent.state(edit) == .done && agent.record("a") == nil)
        #expect(try agent.store.verify() == [])
    }

    // Fault: a retry goes to the hub while the record is away, which would ask for `forbidden`; or the parked change is lost.
    @Test("A change that was set aside can be retried when the record is back, and not before; or it is dropped")
    func retried() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1, "w": 1])])
        let (first, second) = (try agent.update("a", ["v": 2]).key, try agent.update("a", ["w": 2]).key)
        try agent.revoke("a")
        try agent.crash()
        let refused = try #require(StoreError.problem { _ = try agent.retry(first) })
        #expect(refused.code == "not-found" && refused.status == 404 && refused.detail.contains("share"))
        #expect(try agent.states([first, second]) == ["rejected", "rejected"])
        // Another device has changed it meanwhile.
        try agent.pull([("a", 8, ["v": 1, "w": 9])])
        #expect(try agent.view("a") == #"{"v":1,"w":9}"#, "what was set aside is not sent by itself")
        #expect(try agent.record("a")?.status == .error && agent.claim().isEmpty)
        let again = try agent.retry(first)
        #expect(try agent.state(first) == .resolved && agent.view("a") == #"{"v":2,"w":9}"#)
        try agent.store.discard(second, reason: "seen", uid: 7, at: agent.now)
        #expect(try agent.states([second, again.key]) == ["discarded", "pending"])
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [again.key] && sent.first?.baseVersion == 5, "it rests on what its author had seen")
        try agent.answer(.accepted(again.key, 9, record: HubRecord(version: 9, data: ["v": 2, "w": 9])))
        #expect(try agent.record("a")?.status == .synced)
        #expect(try agent.store.verify() == [])
    }

    // Fault: what needs a parked change waits for it without end and without a word.
    @Test("A change that depends on a parked one waits in the same list, and both are retried together")
    func dependants() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1]), ("b", 6, ["v": 1])])
        let first = try agent.update("a", ["v": 2]).key
        var other = TestAgent.mutation(.update, "b", ["v": 2])
        other.dependsOn = [first]
        let second = try agent.enqueue(other).key
        try agent.revoke("a")
        let problem = try #require(try agent.problem(second))
        #expect(problem.code == "parent-rejected" && problem.members["parent"]?.text == first.text)
        #expect(problem.detail.contains("left the share"))
        #expect(try agent.view("b") == #"{"v":1}"# && agent.claim().isEmpty)
        #expect(try agent.store.verify() == [])
        try agent.pull([("a", 5, ["v": 1])])
        _ = try agent.retry(first, cascades: true)
        #expect(try agent.claim().map(\.record.id.text).sorted() == ["a", "b"])
        #expect(try agent.store.verify() == [])
    }

    // Fault: a part of an atomic list goes without the rest.
    @Test("An atomic list with one member whose record has left waits as a whole, and goes as a whole")
    func list() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1]), ("b", 6, ["v": 1])])
        let keys = try agent.list([TestAgent.mutation(.update, "a", ["v": 2]), TestAgent.mutation(.update, "b", ["v": 2])]).map(\.key)
        try agent.revoke("a")
        #expect(try keys.map { try agent.problem($0)?.code } == [Problem.revoked, "group-rejected"])
        #expect(try agent.view("b") == #"{"v":1}"# && agent.claim().isEmpty)
        #expect(try agent.store.verify() == [])
        try agent.pull([("a", 5, ["v": 1])])
        _ = try agent.retry(keys[0], cascades: true)
        let sent = try agent.claim()
        #expect(sent.count == 2 && sent[0].group != nil && sent[0].group == sent[1].group)
        #expect(try agent.store.verify() == [])
    }

    // Fault: a list that is under way is taken apart.
    @Test("An atomic list that is in flight stays as it is")
    func listInFlight() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1]), ("b", 6, ["v": 1])])
        let keys = try agent.list([TestAgent.mutation(.update, "a", ["v": 2]), TestAgent.mutation(.update, "b", ["v": 2])]).map(\.key)
        _ = try agent.claim()
        try agent.revoke("a")
        #expect(try agent.states(keys) == ["in_flight", "in_flight"])
        try agent.answer(.accepted(keys[0], 9), .accepted(keys[1], 9))
        #expect(try agent.states(keys) == ["done", "done"] && agent.record("a") == nil && agent.view("b") == #"{"v":2}"#)
        #expect(try agent.store.verify() == [])
    }

    // Fault: a person is asked about a conflict whose other side this device may not see.
    @Test("An open conflict ends; nothing of the hub's side is left in it")
    func conflict() throws {
        let (agent, key) = try ConflictTests.disputed()
        try agent.revoke("a")
        #expect(try agent.state(key) == .rejected && agent.problem(key)?.code == Problem.revoked)
        let conflict = try #require(try agent.store.conflict(1))
        #expect(conflict.state == .moot && conflict.closedAge != nil)
        #expect(conflict.sides.allSatisfy { $0.base == nil && $0.remote == ConflictSide.Value(nil) })
        #expect(conflict.sides.map(\.local.value) == ["fail"], "the author's own value stays")
        #expect(try agent.store.reads.openConflicts() == 0 && agent.store.verify() == [])
        try agent.crash()
        try agent.pull([("a", 7, ["finding": "flagged"])])
        let again = try agent.retry(key)
        #expect(again.state == .pending)
        // No person has decided, so the hub is to find the dispute: on version 7 the value would overwrite the hub's without a word.
        #expect(try agent.claim().map(\.baseVersion) == [5])
        try agent.answer(.conflict(again.key, ["finding"], .record(HubRecord(version: 7, data: ["finding": "flagged"]))))
        #expect(try agent.state(again.key) == .conflicted && agent.store.reads.openConflicts() == 1)
        #expect(try agent.store.verify() == [])
    }

    // Fault: a file that only this device has is forgotten with the record.
    @Test("A file of a parked change is kept and goes on")
    func blobs() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["v": 1])])
        let digest = try #require(BlobDigest(bytes: SHA256.hash(Array("x".utf8))))
        let blob = try agent.store.addBlob(
            digest, size: 1, type: "image/jpeg", filename: "x.jpg", by: agent.app, capacity: BlobCapacity(), at: agent.now)
        var edit = TestAgent.mutation(.update, "a")
        edit.blobs = [["field": "photo", "blob": .string(blob.row.id.description)]]
        let key = try agent.enqueue(edit).key
        try agent.revoke("a")
        #expect(try agent.state(key) == .rejected && agent.store.reads.blobCounts().pending == 1)
        try agent.pull([("a", 5, ["v": 1])])
        let again = try agent.retry(key).key
        #expect(try agent.claim().map(\.key) == [again])
        #expect(try agent.store.verify() == [])
    }

    // Fault: a list of an existing backend that hides a record makes the agent create it anew.
    @Test("A record that a complete list of an existing backend no longer shows leaves the same way")
    func backend() throws {
        let agent = try RestTests.agent()
        _ = try agent.store.applyPull(RestTests.page("site", [["id": 1, "name": "Yard"], ["id": 2]]), at: agent.now)
        let edit = try agent.enqueue(TestAgent.mutation(.update, "1", ["name": "Ours"], entity: "site")).key
        _ = try agent.store.applyPull(RestTests.page("site", [["id": 2]]), at: agent.now)
        #expect(try agent.record("1", "site") == nil)
        #expect(try agent.state(edit) == .rejected && agent.problem(edit)?.code == Problem.revoked)
        #expect(try agent.store.verify() == [])
        _ = try agent.store.applyPull(RestTests.page("site", [["id": 1, "name": "Yard"], ["id": 2]]), at: agent.now)
        #expect(try agent.record("1", "site")?.view == #"{"id":1,"name":"Yard"}"#)
        _ = try agent.retry(edit)
        #expect(try agent.claim().compactMap { $0.rest?.serverID } == [1])
        #expect(try agent.store.verify() == [])
    }

    // MARK: - Traces

    // Fault: the document stayed beside the change until a person gave that up.
    @Test("The document of a record that a listing leaves out stays with a change under way until the hub has decided, and no longer")
    func documentForAVerdict() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("a", 5, ["finding": "pass", "note": "hubs-secret"])])
        let key = try agent.update("a", ["finding": "fail"]).key
        _ = try agent.claim()
        try agent.store.restartStreams([Self.audit], at: agent.now)
        _ = try agent.store.applySnapshot(page(["b"]), at: agent.now)
        func kept() throws -> Int64? { try agent.database.number("SELECT count(*) FROM undo_value WHERE before LIKE '%hubs-secret%'") }
        #expect(try agent.view("a") == nil && kept() == 1)
        try agent.answer(PushResult(key: key, verdict: .rejected(Problem("forbidden", status: 403, detail: "no"), current: nil)))
        #expect(try agent.state(key) == .rejected && kept() == 0)
        #expect(try agent.store.verify() == [])
    }

    // Fault: the change was to bring the deleted record back, so it kept all of it, and its retry made the record anew.
    @Test("A change in dispute about a deletion keeps what its author wrote, and nothing else of the record", arguments: [true, false])
    func disputedDeletion(_ isSent: Bool) throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        try agent.pull([("a", 5, ["finding": "pass", "note": "hubs-secret"])])
        let key = try agent.update("a", ["finding": "fail"]).key
        if isSent { _ = try agent.claim() }
        try agent.pull([], deleted: [("a", 9)])
        if isSent { try agent.answer(.conflict(key, ["$delete"], .deleted(version: 9))) }
        #expect(try agent.state(key) == .conflicted)
        try agent.revoke("a")
        #expect(try agent.problem(key)?.code == Problem.revoked)
        #expect(try agent.store.reads.mutation(key, at: agent.now)?.data == #"{"finding":"fail"}"#)
        #expect(try agent.database.number("SELECT count(*) FROM payload WHERE data || ifnull(base_fields, '') LIKE '%hubs-secret%'") == 0)
        #expect(StoreError.problem { _ = try agent.retry(key) }?.code == "not-found")
        #expect(try agent.store.verify() == [])
        try agent.pull([("a", 12, ["finding": "pass", "note": "new"])])
        _ = try agent.retry(key)
        #expect(try agent.claim().map { "\($0.action) \($0.data ?? "")" } == [#"update {"finding":"fail"}"#])
        #expect(try agent.store.verify() == [])
    }

    // Fault: the content is only marked as free, and stays readable in the file or beside the record.
    @Test("Nothing of the hub's content is left in the file, and the author's own work is", arguments: [40, 300])
    func overwritten(_ size: Int) throws {
        let folder = try TemporaryFolder()
        var rules = ConflictTests.rules
        rules.entities[Self.audit]?.declaredUndo = true
        rules.entities[Self.audit]?.declaredIndexes = [RecordIndex("place")].compactMap { $0 }
        let agent = try TestAgent(in: folder, rules: rules)
        while try agent.store.tendIndexes(at: agent.now) {}
        func hubs(_ number: Int) -> JSON { .string("hubs-secret-\(number)" + String(repeating: "s", count: size)) }
        try agent.pull([("a", 5, ["place": hubs(0), "note": hubs(1), "finding": hubs(2), "left": hubs(3)])])
        // An earlier value is kept for an undo, one is lost, and one is in dispute.
        try agent.update("a", ["note": "ours"])
        try agent.drain(from: 6)
        try agent.update("a", ["finding": "own-finding"])
        let lost = try agent.update("a", ["left": "own-left"]).key
        agent.stamp = HybridTime(milliseconds: 1 << 45, counter: 0, node: "1")
        try agent.pull([("a", 50, ["place": hubs(0), "note": "ours", "finding": hubs(4), "left": hubs(5)])])
        #expect(try agent.state(lost) == .superseded && agent.store.reads.openConflicts() == 1)
        func holds(_ text: String) throws -> Bool {
            _ = try agent.database.pragma("wal_checkpoint(TRUNCATE)")
            return ["", "-wal"].contains { Data(folder.bytes($0)).range(of: Data(text.utf8)) != nil }
        }
        func trail() throws -> [AuditEntry] { try agent.store.reads.audit(after: 0, limit: 10).items }
        #expect(try holds("hubs-secret") && trail().count == 1)
        try agent.revoke("a")
        #expect(try !holds("hubs-secret") && holds("own-finding"))
        let entry = try #require(try trail().first)
        #expect(entry.verb == "lost" && entry.json?.contains("own-left") == false, "that a value was lost is still told")
        #expect(try agent.store.verify() == [])
    }

    // Fault: an earlier form of a large document stays in pages that nothing uses, and everything stays in the log for up to a day.
    @Test(
        "After the commit nothing is left in free pages and in the log, as soon as no read is under way, or after a crash",
        arguments: [false, true])
    func wiped(_ dies: Bool) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let earlier = JSON.string(JSONString(String(repeating: "s", count: 20_000) + "hubs-earlier"))
        try agent.pull([("a", 5, ["note": earlier]), ("b", 6, ["v": 1])])
        try agent.pull([("a", 7, ["note": "hubs-present"])])
        func found(in place: String) -> [String] {
            ["hubs-earlier", "hubs-present"].filter { Data(folder.bytes(place)).range(of: Data($0.utf8)) != nil }
        }
        func freePages() throws -> Int64? { try agent.database.number("PRAGMA freelist_count") }
        try agent.database.checkpoint(truncating: true)
        #expect(try found(in: "") == ["hubs-earlier", "hubs-present"] && freePages() != 0)
        let reader = try RawDatabase(folder.database)
        try reader.rows("BEGIN")
        try reader.rows("SELECT count(*) FROM record")
        try agent.revoke("a")
        try agent.store.tidy()
        #expect(found(in: "") == ["hubs-earlier", "hubs-present"] && agent.store.isUntidy, "a reader sees them yet")
        if dies { try agent.crash() }
        try reader.rows("COMMIT")
        try agent.store.tidy()
        #expect(found(in: "") == [] && !agent.store.isUntidy)
        #expect(try folder.bytes("-wal").isEmpty && freePages() == 0)
        // Nothing is left to do for a later process, from the next housekeeping on.
        try agent.crash()
        #expect(agent.store.isUntidy)
        try agent.store.tidy()
        while try agent.store.housekeep(at: agent.now) {}
        try agent.crash()
        #expect(!agent.store.isUntidy)
        #expect(try agent.view("b") == #"{"v":1}"# && agent.store.verify() == [])
    }

    // MARK: - Listings

    private func page(_ ids: [String], hasMore: Bool = false) -> SnapshotPage {
        SnapshotPage(
            entity: Self.audit, startCursor: "start", startVersion: 1_000,
            records: ids.map { StreamPage.Record(id: RecordID(trusted: $0), record: HubRecord(version: 1, data: ["v": 1])) },
            after: ids.last.map { RecordID(trusted: $0) }, hasMore: hasMore)
    }

    // Fault: the cause of the listing is forgotten in a restart, and most of the records stay, or work meets a deletion.
    @Test("Records that the listing of a share does not show have left it, however many, also after a restart in its middle")
    func share() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.pull((0..<400).map { ("r\(1_000 + $0)", 1, ["v": 1]) }, head: 400)
        let edit = try agent.update("r1399", ["v": 2]).key
        try agent.store.restartStreams([Self.audit], ofShare: true, at: agent.now)
        _ = try agent.store.applySnapshot(page(["r1000"], hasMore: true), at: agent.now)
        #expect(try agent.view("r1399") != nil, "nothing goes before the listing is complete")
        try agent.reopen()
        // A damaged row that is found meanwhile begins the listing anew, and it stays one of the share.
        try agent.store.restartStreams([Self.audit], at: agent.now)
        _ = try agent.store.applySnapshot(page(["r1000"], hasMore: true), at: agent.now)
        let applied = try agent.store.applySnapshot(page(["r1001"]), at: agent.now)
        #expect(applied.summary.deletions == 398 && applied.summary.massDeletes == [])
        #expect(try agent.record("r1399") == nil && agent.view("r1001") != nil)
        #expect(try agent.state(edit) == .rejected && agent.problem(edit)?.code == Problem.revoked)
        #expect(try agent.store.verify() == [])

        // The next listing is an ordinary one.
        try agent.pull((0..<400).map { ("r\(1_000 + $0)", 2, ["v": 1]) }, head: 400)
        try agent.store.restartStreams([Self.audit], at: agent.now)
        #expect(try agent.store.applySnapshot(page(["r1000"]), at: agent.now).summary.massDeletes == [Self.audit])
    }

    /// The last page of a listing that shows these records of a site, and tells the scopes of the device.
    private func page(of site: String, _ ids: [String], telling scopes: JSON?) -> SnapshotPage {
        var page = SnapshotPage(
            entity: Self.audit, startCursor: "start", startVersion: 1_000,
            records: ids.map { StreamPage.Record(id: RecordID(trusted: $0), record: HubRecord(version: 1, data: ["site": .string(site)])) },
            after: ids.last.map { RecordID(trusted: $0) }, hasMore: false)
        page.share = EntityShare(scopes)
        return page
    }

    /// What apps were told of records after an event.
    private func told(_ agent: TestAgent, after: Int64) throws -> [String] {
        try agent.store.reads.journal(after: after, limit: 1_000, filter: JournalFilter()).events.compactMap { event in
            if case .record(let it) = event.body { "\(it.record.id) \(it.change)" } else { nil }
        }.sorted()
    }

    private static let onlyFirst: JSON = ["site": ["gw-17", "s-1"]]

    // Fault: the records of a lost site stay until a person accepts their deletion, or go with those that the hub has lost.
    @Test(
        "A listing for any reason takes the records of a lost site, however many, and keeps those that the hub may have lost",
        arguments: [true, false])
    func lostBefore(_ isOfNewHistory: Bool) throws {
        let agent = try TestAgent()
        let (own, lost) = ((0..<100).map { "o\(1_000 + $0)" }, (0..<300).map { "l\(1_000 + $0)" })
        var rows: [(String, Int64, JSONObject)] = own.map { ($0, 1, ["site": "s-1"]) }
        rows += lost.map { ($0, 1, ["site": "s-2"]) }
        try agent.pull(rows, head: 400)
        let edit = try agent.update("l1299", ["v": 2]).key
        if isOfNewHistory {
            while try agent.store.forgetHistory(at: agent.now) {}
        } else {
            try agent.store.restartStreams([Self.audit], at: agent.now)
        }
        // 55 are more than a fifth of what is left, and less than a fifth of what was here.
        let applied = try agent.store.applySnapshot(page(of: "s-1", Array(own.prefix(45)), telling: Self.onlyFirst), at: agent.now)
        #expect(applied.summary.deletions == 300 && applied.summary.massDeletes == [Self.audit])
        #expect(try lost.allSatisfy { try agent.record($0) == nil } && own.allSatisfy { try agent.view($0) != nil })
        #expect(try agent.store.reads.entities().first { $0.name == Self.audit }?.sweepHeld == 55)
        #expect(try agent.state(edit) == .rejected && agent.problem(edit)?.code == Problem.revoked)
        #expect(try agent.store.verify() == [])
    }

    // Fault: work on a record of others meets a deletion, and apps are told that the record was deleted for all.
    @Test("Few records are told apart as well: those of others are revoked, the others deleted")
    func lostBeforeFew() throws {
        let agent = try TestAgent()
        try agent.pull([
            ("a", 1, ["site": "s-2"]), ("b", 1, ["site": "s-1"]), ("c", 1, ["site": ["s-2", "s-1"]]), ("d", 1, ["site": "s-1"]),
        ])
        let edit = try agent.update("a", ["v": 2]).key
        let before = try agent.store.reads.journal(after: 0, limit: 100, filter: JournalFilter()).newest
        try agent.store.restartStreams([Self.audit], at: agent.now)
        let applied = try agent.store.applySnapshot(page(of: "s-1", ["d"], telling: Self.onlyFirst), at: agent.now)
        #expect(applied.summary.deletions == 3 && applied.summary.massDeletes == [])
        #expect(try told(agent, after: before) == ["a revoke", "b delete", "c delete"])
        #expect(try agent.state(edit) == .rejected && agent.problem(edit)?.code == Problem.revoked)
        #expect(try agent.store.verify() == [])
    }

    // Fault: a listing of some buckets forgets records of the others, or keeps those of others in its own.
    @Test("A listing of buckets takes the records of others in these buckets")
    func lostInBuckets() throws {
        let agent = try TestAgent()
        let ids = (0..<80).map { "r\(1_000 + $0)" }
        try agent.pull(ids.map { ($0, 1, ["site": "s-2"]) })
        let bucket = EntityDigest.bucket(of: RecordID(trusted: ids[0]))
        try agent.store.recordComparison(Self.audit, differs: [bucket], at: agent.now)
        let before = try agent.store.reads.journal(after: 0, limit: 1_000, filter: JournalFilter()).newest
        _ = try agent.store.applySnapshot(page(of: "s-1", [], telling: Self.onlyFirst), at: agent.now)
        let listed = ids.filter { EntityDigest.bucket(of: RecordID(trusted: $0)) == bucket }
        #expect(try told(agent, after: before) == listed.map { "\($0) revoke" })
        #expect(try agent.store.verify() == [])
    }

    // Fault: a cursor that was made under other scopes is never given up.
    @Test("The engine's command lists the share")
    func command() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 1, ["v": 1])], cursor: "c")
        guard case .done = agent.store.perform(.restartShares([Self.audit]), at: agent.now) else {
            Issue.record("it was not done")
            return
        }
        let stream = try #require(try agent.store.loadStreams(at: agent.now).first { $0.entity == Self.audit })
        #expect(stream.cursor == nil && stream.listing == StreamPosition.Listing())
        _ = try agent.store.applySnapshot(page([]), at: agent.now)
        #expect(try agent.record("a") == nil && agent.store.verify() == [])
    }

    // MARK: - Crashes

    // Fault: the record is gone and its work is not set aside, or the cursor is ahead of both.
    @Test("Record, work, traces and cursor change in one transaction", arguments: [CommitStage.before, .after])
    func oneTransaction(_ stage: CommitStage) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: ConflictTests.rules)
        try agent.pull([("a", 5, ["finding": "pass", "note": "old"])], cursor: "c1")
        let dispute = try agent.update("a", ["finding": "fail"]).key
        try agent.pull([("a", 7, ["finding": "flagged", "note": "old"])], cursor: "c2")
        let list = try agent.list([TestAgent.mutation(.update, "a", ["note": "new"]), TestAgent.mutation(.create, "b")]).map(\.key)
        agent.store.gate = { at throws(StoreError) in if at == stage { throw StoreError(.stopped, doing: "commit") } }
        #expect(StoreError.code { try agent.revoke("a") } == .stopped)
        try agent.reopen()
        let isDone = stage == .after
        let expected = isDone ? ["rejected", "rejected", "rejected"] : ["conflicted", "pending", "pending"]
        #expect(try agent.states([dispute] + list) == expected)
        #expect(try (agent.record("a") == nil) == isDone)
        #expect(try agent.store.reads.openConflicts() == (isDone ? 0 : 1))
        #expect(try agent.store.loadStreams(at: agent.now).first { $0.entity == Self.audit }?.cursor == (isDone ? "r" : "c2"))
        #expect(try agent.store.verify() == [])
        // The page comes once more.
        try agent.revoke("a")
        #expect(try agent.states([dispute] + list) == ["rejected", "rejected", "rejected"] && agent.record("a") == nil)
        #expect(try agent.store.verify() == [])
    }

    // Fault: any of the above in an unforeseen order.
    @Test("With any events in any order no work is lost and no record that has left is shown", arguments: 0..<40)
    func anyOrder(_ seed: Int) throws {
        var random = SeededRandom(seed: UInt64(seed))
        func pick<Value>(_ values: [Value]) -> Value { values[Int(random.next() % UInt64(values.count))] }
        let agent = try TestAgent(rules: ConflictTests.rules, seed: UInt64(seed))
        let ids = ["a", "b", "c"]
        try agent.pull([], head: 0)
        var keys: [MutationKey] = []
        var inShare: Set<String> = []
        var version: Int64 = 1
        for _ in 0..<120 {
            version += 1
            let id = pick(ids)
            switch random.next() % 12 {
            case 0...2:
                var mutations = [TestAgent.mutation(pick([.create, .update, .upsert, .delete]), id, ["finding": .int(version)])]
                if random.next() % 3 == 0 { mutations.append(TestAgent.mutation(.upsert, pick(ids), ["note": .int(version)])) }
                // A mutation that the record does not allow is refused, and leaves nothing.
                if let made = try? agent.list(mutations) { keys += made.map(\.key) }
            case 3...4:
                inShare.insert(id)
                try agent.pull([(id, version, ["finding": pick(["pass", "fail"]), "note": .int(version)])], head: version)
            case 5...6:
                inShare.remove(id)
                try agent.revoke(id, version: version)
            case 7: _ = try agent.claim(Int(random.next() % 4) + 1)
            case 8...9:
                for mutation in try agent.inFlight() {
                    switch random.next() % 4 {
                    case 0: try agent.answer(.retry(mutation.key))
                    case 1: try agent.answer(.rejected(mutation.key))
                    case 2 where inShare.contains(mutation.record.id.text):
                        let record = HubRecord(version: version, data: ["finding": "flagged"])
                        try agent.answer(.conflict(mutation.key, ["finding"], .record(record)))
                    default: try agent.answer(.duplicate(mutation.key, .accepted, .absent))
                    }
                }
            case 10:
                let parked = try keys.filter { try agent.problem($0)?.code == Problem.revoked && agent.state($0) == .rejected }
                // While its record is away, a retry is refused.
                if !parked.isEmpty, let made = try? agent.retry(pick(parked), cascades: true) { keys.append(made.key) }
            default: try agent.crash()
            }
            #expect(try agent.store.verify() == [])
            for id in ids where !inShare.contains(id) { #expect(try agent.record(id)?.base == nil) }
            for key in keys { #expect(try agent.store.reads.mutation(key, at: agent.now) != nil, "a mutation is gone") }
        }
    }
}
