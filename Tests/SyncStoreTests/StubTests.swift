import Foundation
import SyncCore
import Testing

@testable import SyncStore

/// PROTOCOL C9: documents that a device drops, what stays of their records, and how a document comes back.
@Suite("Records whose documents are not kept")
struct StubTests {
    private static let audit = EntityName(trusted: "audit")
    private static let done: JSONObject = ["status": "done", "site": "s-1"]

    private static let rules: RuleBook = {
        var rules = TestAgent.rules
        var audit = EntityRules()
        audit.keep = KeepRule(days: 90, when: ["status": ["done", "cancelled"]])
        audit.declaredIndexes = [RecordIndex("site")].compactMap { $0 }
        audit.declaredUndo = true
        rules.entities[Self.audit] = audit
        return rules
    }()

    /// An agent with one finished and one open record of more than 90 days ago.
    private func agent(in folder: TemporaryFolder? = nil) throws -> TestAgent {
        let agent = try folder.map { try TestAgent(in: $0, rules: Self.rules) } ?? TestAgent(rules: Self.rules)
        try agent.pull([("a", 10, Self.done), ("b", 11, ["status": "open", "site": "s-1"])])
        while try agent.store.tendIndexes(at: agent.now) {}
        agent.wait(.seconds(91 * 86_400))
        return agent
    }

    private func settle(_ agent: TestAgent) throws {
        var slices = 0
        while try agent.store.housekeep(at: agent.now) {
            slices += 1
            try #require(slices < 1_000, "it comes to an end")
        }
    }

    private func keptIDs(_ agent: TestAgent, includingDeleted: Bool = false) throws -> [String] {
        var query = RecordQuery(Self.audit)
        query.includesDeleted = includingDeleted
        return try agent.store.reads.records(query).items.map(\.name.id.text)
    }

    private func notKept(_ agent: TestAgent) throws -> Int64 {
        try agent.store.reads.entities().first { $0.name == Self.audit }?.notKept ?? -1
    }

    private func hubs(_ id: String, _ version: Int64, _ data: JSONObject, stamp: HybridTime? = nil) -> StreamPage.Record {
        StreamPage.Record(id: RecordID(trusted: id), record: HubRecord(version: version, data: data, hlc: stamp?.description))
    }

    private func list(_ agent: TestAgent, _ records: [StreamPage.Record], telling scopes: JSON? = nil) throws -> PullSummary {
        var page = SnapshotPage(
            entity: Self.audit, startCursor: "start", startVersion: 100, records: records, after: records.last?.id, hasMore: false)
        page.share = EntityShare(scopes)
        return try agent.store.applySnapshot(page, at: agent.now).summary
    }

    // Fault: records are taken for those of others although nothing here says so.
    @Test("A listing that tells other scopes takes a document at once, and counts records without a document as missing")
    func ofOthers() throws {
        let agent = try TestAgent(rules: Self.rules)
        var rows: [(String, Int64, JSONObject)] = (0..<60).map { ("a\(100 + $0)", Int64($0 + 1), Self.done) }
        rows.append(("b", 70, ["status": "open", "site": "s-1"]))
        try agent.pull(rows)
        agent.wait(.seconds(91 * 86_400))
        try settle(agent)
        #expect(try notKept(agent) == 60)
        try agent.store.restartStreams([Self.audit], at: agent.now)
        let summary = try list(agent, [], telling: ["site": ["gw-17"]])
        #expect(summary.deletions == 1 && summary.massDeletes == [Self.audit])
        #expect(try agent.record("b") == nil && notKept(agent) == 60)
        #expect(try agent.store.verify() == [])
    }

    // MARK: - Which documents go

    // Fault: the record leaves the digest, so every comparison finds a difference and fetches the document again.
    @Test("The document goes, and the comparison with the hub agrees before and after")
    func drops() throws {
        let agent = try agent()
        let before = try agent.store.digest(of: Self.audit)
        try settle(agent)
        let record = try #require(try agent.record("a"))
        #expect(record.isNotKept && record.view == nil && record.base == nil && record.version == 10 && record.status == .synced)
        #expect(try agent.view("b") != nil)
        #expect(try agent.store.digest(of: Self.audit) == before)
        #expect(try keptIDs(agent) == ["b"] && keptIDs(agent, includingDeleted: true) == ["b"])
        #expect(try notKept(agent) == 1 && agent.store.reads.records(RecordQuery(Self.audit)).notKept == 1)
        #expect(try agent.store.verify() == [])
        try agent.crash()
        #expect(try agent.record("a")?.isNotKept == true)
        #expect(try agent.store.digest(of: Self.audit) == before)
        #expect(try agent.store.verify() == [])
    }

    @Test("A document stays to the last moment of its days, and goes with the next round after them")
    func waits() throws {
        let agent = try TestAgent(rules: Self.rules)
        try agent.pull([("a", 10, Self.done)])
        agent.wait(.seconds(90 * 86_400 - 1))
        try settle(agent)
        #expect(try agent.view("a") != nil)
        agent.wait(.seconds(86_400))
        try settle(agent)
        #expect(try agent.record("a")?.isNotKept == true)
    }

    // Fault: a device that joins today holds the finished work of ten years for 90 days more.
    @Test("The hub's stamp tells how old a record is, and a clock that is not trusted tells nothing", arguments: [true, false])
    func stamped(isTrusted: Bool) throws {
        let agent = try TestAgent(rules: Self.rules)
        agent.store.clockTrust = isTrusted ? .synced : .unsynced
        let longAgo = agent.now.wall.advanced(by: .seconds(-200 * 86_400))
        agent.stamp = HybridTime(milliseconds: UInt64(longAgo.milliseconds), counter: 0, node: "1b2c11ab")
        try agent.pull([("a", 10, Self.done)])
        try settle(agent)
        #expect(try agent.record("a")?.isNotKept == isTrusted)
        #expect(try agent.store.verify() == [])
    }

    // Fault: the wall clock jumps ahead after a boot, and every document goes at once.
    @Test("A wall clock that jumps drops nothing")
    func jump() throws {
        let agent = try TestAgent(rules: Self.rules)
        try agent.pull([("a", 10, Self.done)])
        agent.now = Moment(instant: agent.now.instant.advanced(by: .seconds(60)), wall: agent.now.wall.advanced(by: .seconds(500 * 86_400)))
        try settle(agent)
        #expect(try agent.view("a") != nil)
    }

    // Fault: work that was never sent loses what it is merged with.
    @Test("A record with work that waits, in dispute or refused keeps its document", arguments: ["waits", "disputed", "refused"])
    func openWork(_ kind: String) throws {
        let agent = try agent()
        let key = try agent.update("a", ["note": "x"]).key
        if kind != "waits" {
            _ = try agent.claim()
            try agent.answer(kind == "refused" ? .rejected(key) : .conflict(key, ["note"], .absent))
        }
        agent.wait(.seconds(100 * 86_400))
        try settle(agent)
        #expect(try agent.record("a")?.isNotKept == false)
        #expect(try agent.record("a")?.base != nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("A record that shows a file keeps its document until the bytes are at the hub")
    func waitingFile() throws {
        let agent = try TestAgent(rules: Self.rules)
        let digest = try #require(BlobDigest(bytes: SHA256.hash(Array("photo".utf8))))
        let blob = try agent.store.addBlob(
            digest, size: 5, type: "image/jpeg", filename: "p.jpg", by: agent.app, capacity: BlobCapacity(), at: agent.now)
        var mutation = TestAgent.mutation(.create, "p", Self.done)
        mutation.blobs = [["field": "photo", "blob": .string(blob.row.id.description)]]
        let key = try agent.enqueue(mutation).key
        _ = try agent.claim()
        try agent.answer(.accepted(key, 12))
        agent.wait(.seconds(100 * 86_400))
        try settle(agent)
        #expect(try agent.record("p")?.isNotKept == false)
        _ = try agent.store.endUpload(
            blob.row.id, isVerified: true, remoteURL: nil, capacity: BlobCapacity(), note: "{}", at: agent.now)
        agent.wait(.seconds(2 * 86_400))
        try settle(agent)
        #expect(try agent.record("p")?.isNotKept == true)
        #expect(try agent.store.verify() == [])
    }

    @Test("Records of a database of an earlier version count as changed when they are first looked at")
    func undated() throws {
        let folder = try TemporaryFolder()
        let agent = try agent(in: folder)
        try agent.store.close(at: agent.now)
        try RawDatabase(folder.database).goBack(to: 16)
        try agent.reopen()
        try settle(agent)
        #expect(try agent.view("a") != nil)
        agent.wait(.seconds(91 * 86_400))
        try settle(agent)
        #expect(try agent.record("a")?.isNotKept == true)
        #expect(try agent.store.verify() == [])
    }

    @Test("Another rule judges every record at once, and without a rule nothing more goes")
    func otherRule() throws {
        let agent = try agent()
        try settle(agent)
        var rules = Self.rules
        rules.entities[Self.audit]?.keep = KeepRule(days: 30, when: ["status": ["open"]])
        agent.store.rules = rules
        try settle(agent)
        #expect(try agent.record("b")?.isNotKept == true)
        rules.entities[Self.audit]?.keep = nil
        agent.store.rules = rules
        try agent.pull([("c", 20, Self.done)])
        agent.wait(.seconds(400 * 86_400))
        try settle(agent)
        #expect(try agent.view("c") != nil)
        #expect(try notKept(agent) == 2)
    }

    // Fault: a stub whose row is damaged answers for ever that its document is not kept.
    @Test("A damaged stub is listed again, and the record is here in full")
    func damaged() throws {
        let folder = try TemporaryFolder()
        let agent = try agent(in: folder)
        try settle(agent)
        try RawDatabase(folder.database).rows("UPDATE record SET stub = stub + 1 WHERE id = 'a'")
        let shown = try #require(try agent.record("a"))
        #expect(shown.status == .error && !shown.isNotKept)
        #expect(agent.refusal(TestAgent.mutation(.delete, "a"))?.code == "read-only")
        #expect(try agent.store.loadStreams(at: agent.now).first { $0.entity == Self.audit }?.listing != nil)
        _ = try list(agent, [hubs("a", 10, Self.done), hubs("b", 11, ["status": "open", "site": "s-1"])])
        #expect(try agent.view("a") != nil)
        #expect(try agent.store.verify() == [])
    }

    // MARK: - Slices and space

    // Fault: half of a slice is on the disk after a power cut, such as a dropped document with its key in an index.
    @Test(
        "A slice drops 500 documents in one transaction, and a power cut leaves all of it or nothing",
        arguments: [CommitStage.before, .after])
    func powerCut(_ stage: CommitStage) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: Self.rules)
        try agent.pull((0..<1_200).map { ("r\($0)", Int64($0 + 1), Self.done) }, head: 1_200)
        while try agent.store.tendIndexes(at: agent.now) {}
        agent.wait(.seconds(91 * 86_400))
        let before = try agent.store.digest(of: Self.audit)
        agent.store.gate = { at throws(StoreError) in if at == stage { throw StoreError(.stopped, doing: "commit") } }
        #expect(StoreError.code { _ = try agent.store.housekeep(at: agent.now) } == .stopped)
        try agent.reopen()
        #expect(try notKept(agent) == (stage == .after ? 500 : 0))
        #expect(try agent.store.digest(of: Self.audit) == before)
        #expect(try agent.store.verify() == [])
        try settle(agent)
        #expect(try notKept(agent) == 1_200)
        #expect(try agent.store.digest(of: Self.audit) == before)
        #expect(try agent.store.verify() == [])
    }

    // Fault: the rows get shorter, and SQLite keeps their pages.
    @Test("The file gets smaller, and the keys of the indexes go with the documents")
    func space() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: Self.rules)
        let long = String(repeating: "x", count: 2_000)
        for start in stride(from: 0, to: 4_000, by: 500) {
            try agent.pull(
                (start..<(start + 500)).map {
                    ("r\($0)", Int64($0 + 1), ["status": "done", "site": .string("s-\($0)"), "text": .string(long)])
                },
                head: Int64(start + 500))
        }
        while try agent.store.tendIndexes(at: agent.now) {}
        let raw = try RawDatabase(folder.database)
        #expect(try raw.number("SELECT count(*) FROM index_entry") == 4_000)
        let before = try agent.store.reads.facts(at: agent.now).fileBytes
        agent.wait(.seconds(91 * 86_400))
        try settle(agent)
        #expect(try notKept(agent) == 4_000)
        #expect(try raw.number("SELECT count(*) FROM index_entry") == 0)
        #expect(try agent.store.reads.facts(at: agent.now).fileBytes < before / 4)
        #expect(try agent.store.verify() == [])
    }

    // MARK: - What the hub says afterwards

    // Fault: the next listing brings every document back over the network.
    @Test("A listing and the feed leave the stub of the same version as it is, and bring another version in full")
    func relisted() throws {
        let agent = try agent()
        try settle(agent)
        try agent.store.restartStreams([Self.audit], at: agent.now)
        let summary = try list(agent, [hubs("a", 10, Self.done), hubs("b", 11, ["status": "open", "site": "s-1"])])
        #expect(summary.upserts == 0 && summary.deletions == 0 && summary.unchanged == 2)
        try agent.pull([("a", 10, Self.done)])
        #expect(try agent.record("a")?.isNotKept == true)
        try agent.pull([("a", 20, ["status": "open"])])
        #expect(try agent.view("a") == #"{"status":"open"}"#)
        #expect(try notKept(agent) == 0)
        agent.wait(.seconds(91 * 86_400))
        try settle(agent)
        #expect(try agent.view("a") != nil, "it is judged anew")
        #expect(try agent.store.verify() == [])
    }

    // Fault: a stub stays for ever, and verify differs from then on.
    @Test(
        "A deletion, a revocation and a complete listing without the record remove the stub", arguments: ["deleted", "revoked", "missing"])
    func gone(_ how: String) throws {
        let agent = try agent()
        try settle(agent)
        switch how {
        case "deleted": try agent.pull([], deleted: [("a", 30)])
        case "revoked": try agent.revoke("a")
        default:
            try agent.store.restartStreams([Self.audit], at: agent.now)
            #expect(try list(agent, [hubs("b", 11, ["status": "open", "site": "s-1"])]).deletions == 1)
        }
        let record = try agent.record("a")
        #expect(how == "revoked" ? record == nil : record?.isDeleted == true && record?.isNotKept == false)
        #expect(try notKept(agent) == 0)
        var digest = EntityDigest()
        digest.add(RecordID(trusted: "b"), version: 11)
        #expect(try agent.store.digest(of: Self.audit) == digest)
        #expect(try agent.store.verify() == [])
    }

    @Test("A new history of the hub brings the record in full, whatever its version")
    func newHistory() throws {
        let agent = try agent()
        try settle(agent)
        while try agent.store.forgetHistory(at: agent.now) {}
        #expect(try agent.record("a")?.isNotKept == true)
        _ = try list(agent, [hubs("a", 3, Self.done), hubs("b", 4, ["status": "open"])])
        #expect(try agent.view("a") == #"{"status":"done","site":"s-1"}"# && agent.record("a")?.version == 3)
        #expect(try agent.store.verify() == [])
    }

    // MARK: - What apps do with it

    // Fault: a change is merged with a document that its author had not seen, and overwrites another device's.
    @Test("A change of fields is refused until the document is here, and says how to get it")
    func changes() throws {
        let agent = try agent()
        try settle(agent)
        for action in [NewMutation.Action.update, .upsert] {
            let problem = try #require(agent.refusal(TestAgent.mutation(action, "a", ["note": "x"])))
            #expect(problem.code == "not-kept" && problem.status == 409)
            #expect(problem.members["fetch"]?.text == "/v1/records/audit/a?fetch=1")
        }
        #expect(agent.refusal(TestAgent.mutation(.create, "a", ["note": "x"]))?.code == "exists")
        #expect(try agent.claim().isEmpty)
        #expect(try agent.store.verify() == [])
    }

    @Test("A deletion goes to the hub with the version of the stub, and the record is gone when the hub has accepted it")
    func deletion() throws {
        let agent = try agent()
        try settle(agent)
        let key = try agent.delete("a").key
        #expect(try agent.record("a")?.isDeleted == true && agent.record("a")?.isNotKept == false)
        #expect(try notKept(agent) == 0 && agent.store.verify() == [])
        #expect(agent.refusal(TestAgent.mutation(.update, "a", ["note": "x"]))?.code == "deleted")
        try agent.crash()
        let sent = try agent.claim()
        #expect(sent.map(\.baseVersion) == [10] && sent.map(\.action) == [.delete])
        try agent.answer(.accepted(key, 40))
        #expect(try agent.record("a")?.isDeleted == true && agent.record("a")?.isNotKept == false)
        #expect(try agent.store.verify() == [])
    }

    @Test("A deletion that is cancelled or refused leaves the stub", arguments: [true, false])
    func deletionEnds(isCancelled: Bool) throws {
        let agent = try agent()
        try settle(agent)
        let key = try agent.delete("a").key
        if isCancelled {
            _ = try agent.store.cancel(key, at: agent.now)
        } else {
            _ = try agent.claim()
            try agent.answer(.rejected(key))
        }
        #expect(try agent.record("a")?.isNotKept == true)
        #expect(try notKept(agent) == 1 && agent.store.verify() == [])
    }

    // Fault: the stub counts as hidden by a deletion that is not the last word, so the store contradicts itself until the row is read anew.
    @Test("A record that is made anew over the open deletion of its stub is there, and the store agrees with itself")
    func madeAnew() throws {
        let agent = try agent()
        try settle(agent)
        try agent.delete("a")
        _ = try agent.create("a", ["status": "open"])
        #expect(try agent.view("a") != nil && agent.record("a")?.isNotKept == false)
        #expect(try notKept(agent) == 0 && agent.store.verify() == [])
    }

    // Fault: the deletion is based on the version that came meanwhile, so the hub takes the other device's change for seen.
    @Test("A deletion of a stub keeps its version when another one comes, and the hub decides")
    func deletionMeetsNews() throws {
        let agent = try agent()
        try settle(agent)
        try agent.delete("a")
        try agent.pull([("a", 50, ["status": "open"])])
        #expect(try agent.record("a")?.isDeleted == true)
        #expect(try agent.claim().map(\.baseVersion) == [10])
        #expect(try agent.store.verify() == [])
    }

    // Fault: an app that holds the etag of its last read is told that the record was changed.
    @Test("The etag of a record stays valid while its document is away, and after it is back")
    func etag() throws {
        let agent = try agent()
        func opaque() throws -> Substring? { try agent.record("a")?.etag.split(separator: "-").first }
        let read = try #require(try agent.record("a")?.etag)
        let before = try opaque()
        try settle(agent)
        #expect(try agent.record("a")?.etag == read, "an app that asks with it has the document: 304")
        var deletion = TestAgent.mutation(.delete, "a")
        deletion.ifMatch = EntityTags("\"1.1.0-1.1\"")
        #expect(agent.refusal(deletion)?.code == "precondition-failed")
        var update = TestAgent.mutation(.update, "a", ["note": "x"])
        update.ifMatch = EntityTags(read)
        #expect(agent.refusal(update)?.code == "not-kept")
        try agent.store.bringBack(hubs("a", 10, Self.done), of: Self.audit, at: agent.now)
        #expect(try opaque() == before)
        #expect(agent.refusal(update) == nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("A child of a record whose document is not kept does not wait for it")
    func parent() throws {
        var rules = Self.rules
        var child = EntityRules()
        child.refs = ["audit_id": Self.audit]
        rules.entities[EntityName(trusted: "finding")] = child
        let agent = try agent()
        agent.store.rules = rules
        try settle(agent)
        try agent.enqueue(TestAgent.mutation(.create, "f", ["audit_id": "a"], entity: "finding"))
        #expect(try agent.claim().map(\.record.id.text) == ["f"])
        #expect(try agent.store.verify() == [])
    }

    @Test("An accepted change of a record that is not kept can be undone when the document is here")
    func undo() throws {
        let agent = try agent()
        let key = try agent.update("a", ["note": "x"]).key
        _ = try agent.claim()
        try agent.answer(.accepted(key, 60))
        // No housekeeping for so long, so the row of the change is still here.
        agent.wait(.seconds(95 * 86_400))
        try agent.store.transact(at: agent.now) { () throws(StoreError) in
            try agent.store.prepareForChange()
            _ = try agent.store.dropDocuments()
        }
        #expect(try agent.record("a")?.isNotKept == true)
        let refused = #expect(throws: StoreError.self) { try agent.store.undo(key, by: agent.app, at: agent.now) }
        #expect(refused?.problem?.code == "not-kept")
        #expect(try agent.store.verify() == [])
    }

    // MARK: - Fetching

    @Test("A fetched record is here in full, in its version, and ages again from then on", arguments: [10, 70])
    func fetched(_ version: Int64) throws {
        let agent = try agent()
        try settle(agent)
        let old = HybridTime(
            milliseconds: UInt64(agent.now.wall.milliseconds - 200 * 86_400_000), counter: 0, node: "1b2c11ab")
        try agent.store.bringBack(hubs("a", version, Self.done, stamp: old), of: Self.audit, at: agent.now)
        #expect(try agent.view("a") == #"{"status":"done","site":"s-1"}"#)
        #expect(try agent.record("a")?.version == version && keptIDs(agent) == ["a", "b"] && notKept(agent) == 0)
        agent.wait(.seconds(89 * 86_400))
        try settle(agent)
        #expect(try agent.view("a") != nil)
        agent.wait(.seconds(3 * 86_400))
        try settle(agent)
        #expect(try agent.record("a")?.isNotKept == true)
        #expect(try agent.store.verify() == [])
    }

    // Fault: an answer that was on its way for long takes the record back to an older state.
    @Test("A fetched record that is older, or that has open work by now, changes nothing")
    func lateAnswer() throws {
        let agent = try agent()
        try settle(agent)
        try agent.store.bringBack(hubs("a", 9, ["status": "open"]), of: Self.audit, at: agent.now)
        #expect(try agent.record("a")?.isNotKept == true)
        try agent.delete("a")
        try agent.store.bringBack(hubs("a", 10, Self.done), of: Self.audit, at: agent.now)
        #expect(try agent.record("a")?.isDeleted == true)
        try agent.store.bringBack(hubs("b", 99, Self.done), of: Self.audit, at: agent.now)
        #expect(try agent.record("b")?.version == 11)
        try agent.store.bringBack(hubs("z", 99, Self.done), of: Self.audit, at: agent.now)
        #expect(try agent.record("z") == nil)
        #expect(try agent.store.verify() == [])
    }
}
