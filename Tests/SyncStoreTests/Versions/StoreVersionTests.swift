import SyncCore
import Testing

@testable import SyncStore

/// PROTOCOL D7 on the device: new rules convert everything that is stored of an entity, in one transaction.
@Suite("Versions of schemas in the store")
struct StoreVersionTests {
    private static let audit = EntityName(trusted: "audit")

    private static func rules(_ present: Int, _ change: (inout EntityRules) -> Void = { _ in }) throws -> RuleBook {
        var versions: [Int: SchemaVersions.Version] = [1: .init()]
        if present > 1 {
            versions[2] = .init(up: [
                .rename("site", to: "site_id"), .values("severity", ["minor": "low"]), .fill("inspector", "unknown"),
            ])
        }
        if present > 2 { versions[3] = .init(up: [.drop("legacy"), .wrap("tags")], down: [.unwrap("tags")]) }
        var rules = EntityRules()
        rules.versions = try SchemaVersions(present: present, versions: versions, accepts: nil)
        change(&rules)
        var book = TestAgent.rules
        book.entities[audit] = rules
        return book
    }

    private func view(_ agent: TestAgent, _ id: String) throws -> JSONObject? {
        try agent.store.reads.record(TestAgent.name(id))?.view.flatMap { try JSONReader.read($0).object }
    }

    @Test("Records, waiting changes and what apps see have the new version, and the view stays the fold")
    func converts() throws {
        let agent = try TestAgent(rules: try Self.rules(1))
        try agent.store.use(try Self.rules(1), at: agent.now)
        try agent.pull([("a", 5, ["site": "s-1", "severity": "minor"]), ("b", 6, ["site": "s-2", "legacy": 1])])
        try agent.update("a", ["severity": "major"])
        try agent.create("c", ["site": "s-3"])
        try agent.store.use(try Self.rules(2), at: agent.now)
        #expect(try view(agent, "a") == ["site_id": "s-1", "severity": "major", "inspector": "unknown"])
        #expect(try view(agent, "b") == ["site_id": "s-2", "legacy": 1, "inspector": "unknown"])
        #expect(try view(agent, "c") == ["site_id": "s-3", "inspector": "unknown"])
        let batch = try agent.claim()
        #expect(Set(batch.map(\.data)) == [#"{"severity":"major"}"#, #"{"site_id":"s-3","inspector":"unknown"}"#])
        #expect(try agent.store.documentSchemas()[Self.audit] == 2)
        #expect(try agent.store.verify().isEmpty)
        try agent.answer(.accepted(batch[0].key, 7), .accepted(batch[1].key, 8))
        #expect(try view(agent, "c") == ["site_id": "s-3", "inspector": "unknown"])
        #expect(try agent.store.verify().isEmpty)
    }

    @Test("A change that the hub has put off in one version is due at once in the next")
    func putOff() throws {
        let agent = try TestAgent(rules: try Self.rules(1))
        try agent.store.use(try Self.rules(1), at: agent.now)
        try agent.pull([("a", 5, ["site": "s-1"])])
        try agent.update("a", ["site": "s-2"])
        let sent = try #require(try agent.claim().first)
        try agent.answer(.retry(sent.key, "schema-too-old", after: .seconds(300)))
        #expect(try agent.claim().isEmpty)
        try agent.store.use(try Self.rules(2), at: agent.now)
        #expect(try agent.claim().map(\.data) == [#"{"site_id":"s-2"}"#])
        #expect(try agent.store.verify().isEmpty)
    }

    @Test("An app reads the same in its version before and after the conversion, also when the settings go back")
    func readsDuringConversion() throws {
        let agent = try TestAgent(rules: try Self.rules(1))
        try agent.store.use(try Self.rules(1), at: agent.now)
        try agent.pull([("a", 5, ["site": "s-1", "severity": "minor"])])

        func shown(_ version: Int, _ rules: RuleBook) throws -> JSONObject? {
            let rules = try #require(rules[Self.audit])
            let view = try SchemaView(version, rules, of: Self.audit)
            let stored = try agent.store.reads.documentSchema(of: Self.audit)
            let shape = try #require(view.over(stored, rules))
            // A condition finds the record whatever version its document has.
            var query = RecordQuery(Self.audit)
            query.filter = shape.lift(.test(try #require(FieldPath([version == 1 ? "site" : "site_id"])), .eq("s-1")))
            let found = try agent.store.reads.records(query).items.first?.view
            return try found.flatMap { try JSONReader.read($0).object }.map { shape.lower(document: $0) }
        }
        let first: JSONObject = ["site": "s-1", "severity": "minor"]
        let second: JSONObject = ["site_id": "s-1", "severity": "low", "inspector": "unknown"]
        for rules in [try Self.rules(2), try Self.rules(3), try Self.rules(2)] {
            for isConverted in [false, true] {
                if isConverted { try agent.store.use(rules, at: agent.now) }
                var oldest = try shown(1, rules)
                oldest?["inspector"] = nil
                #expect(oldest == first)
                #expect(try shown(2, rules) == second)
            }
        }
    }

    @Test("A mutation in flight keeps its identity: the hub knows it by the form in which it was sent")
    func inFlight() throws {
        let agent = try TestAgent(rules: try Self.rules(1))
        try agent.store.use(try Self.rules(1), at: agent.now)
        try agent.create("a", ["site": "s-1"])
        let sent = try #require(try agent.claim().first)
        let first: JSONObject = [
            "entity": "audit", "record_id": "a", "action": "create", "data": ["site": "s-1"],
        ]
        try agent.store.use(try Self.rules(2), at: agent.now)
        let again = try #require(try agent.inFlight().first)
        #expect(again.key == sent.key && again.data == #"{"site_id":"s-1","inspector":"unknown"}"#)
        #expect(again.firstDigest == Fingerprint.text(Fingerprint.of(first)))
    }

    @Test("Rejected changes, conflicts and values for undo are converted as well")
    func setAside() throws {
        func rules(_ present: Int) throws -> RuleBook {
            try Self.rules(present) {
                $0.criticalFields = ["severity"]
                $0.declaredUndo = true
            }
        }
        let agent = try TestAgent(rules: try rules(1))
        try agent.store.use(try rules(1), at: agent.now)
        try agent.pull([("a", 5, ["site": "s-1", "severity": "minor"]), ("b", 6, ["site": "s-2"]), ("c", 7, ["site": "s-3"])])
        let disputed = try agent.update("a", ["severity": "major"])
        let refused = try agent.update("b", ["site": "s-9"])
        let done = try agent.update("c", ["site": "s-4"])
        _ = try agent.claim()
        let current = HubState.record(HubRecord(version: 9, data: ["site": "s-1", "severity": "gone"]))
        try agent.answer(
            PushResult(key: disputed.key, verdict: .conflict(fields: ["severity"], current: current)),
            PushResult(key: refused.key, verdict: .rejected(Problem("validation", status: 422, detail: "no"), current: nil)),
            .accepted(done.key, 10))
        try agent.store.use(try rules(2), at: agent.now)
        let conflict = try #require(try agent.store.reads.conflicts(ConflictQuery()).items.first)
        let side = try #require(conflict.sides.first)
        #expect(side.field == "severity" && side.base == "low" && side.local.value == "major" && side.remote.value == "gone")
        #expect(try agent.store.reads.mutation(refused.key, at: agent.now)?.data == #"{"site_id":"s-9"}"#)
        let undone = try agent.store.undo(done.key, by: agent.app, at: agent.now)
        #expect(undone.undo.content?.data == ["site_id": "s-3"])
        #expect(try view(agent, "c")?["site_id"] == "s-3")
        #expect(try agent.store.verify().isEmpty)
    }

    // Fault: the retry also showed the file in the field of the earlier version, which the hub does not know.
    @Test("The retry of a refused change shows its file in the present field alone")
    func refusedFile() throws {
        let agent = try TestAgent(rules: try Self.rules(1))
        try agent.store.use(try Self.rules(1), at: agent.now)
        let digest = try #require(BlobDigest(bytes: SHA256.hash([1])))
        let blob = try agent.store.addBlob(
            digest, size: 9, type: "image/jpeg", filename: "a.jpg", by: agent.app, capacity: BlobCapacity(), at: agent.now
        ).row
        try agent.pull([("a", 5, ["severity": "low"])])
        var mutation = TestAgent.mutation(.update, "a")
        mutation.blobs = [.object(["field": "site", "blob": .string(blob.id.description)])]
        let refused = try agent.enqueue(mutation).key
        _ = try agent.claim()
        try agent.answer(PushResult(key: refused, verdict: .rejected(Problem("validation", status: 422, detail: "no"), current: nil)))
        try agent.store.use(try Self.rules(2), at: agent.now)
        _ = try agent.store.retry(refused, by: agent.app, at: agent.now)
        let sent = try #require(try agent.claim().first?.data.flatMap { StoredJSON.read($0)?.object })
        #expect(sent.names == ["site_id"] && sent["site_id"]?.object?["$blob"]?.text == digest.description)
        #expect(try agent.store.reads.blob(blob.id)?.links.map(\.field) == ["site_id"])
        #expect(try agent.store.verify().isEmpty)
    }

    // Fault: the former values of the present version were converted once more, as if an app had written them in its version.
    @Test("An undo, and the update after an upload, are in the present version, whatever the apps of the device write")
    func madeHereUnderOlderApps() throws {
        let up: SchemaSteps = [
            .drop("picture"), .rename("photo", to: "picture"), .values("severity", ["minor": "low", "low": "none"]),
        ]
        var audit = EntityRules()
        audit.versions = try SchemaVersions(present: 2, versions: [1: .init(), 2: .init(up: up)], accepts: nil)
        (audit.appVersion, audit.declaredUndo) = (1, true)
        var rules = TestAgent.rules
        rules.entities[Self.audit] = audit
        let agent = try TestAgent(rules: rules)
        try agent.store.use(rules, at: agent.now)
        try agent.pull([("a", 5, ["severity": "low"])])
        var mutation = TestAgent.mutation(.update, "a", ["severity": "high"])
        mutation.schema = 2
        let done = try agent.enqueue(mutation).key
        try agent.drain()
        _ = try agent.store.undo(done, by: agent.app, at: agent.now)
        #expect(try view(agent, "a") == ["severity": "low"])
        try agent.drain(from: 200)

        let digest = try #require(BlobDigest(bytes: SHA256.hash([1])))
        let blob = try agent.store.addBlob(
            digest, size: 9, type: "image/jpeg", filename: "a.jpg", by: agent.app, capacity: BlobCapacity(), at: agent.now
        ).row
        var shows = TestAgent.mutation(.update, "a")
        shows.schema = 2
        shows.blobs = [.object(["field": "picture", "blob": .string(blob.id.description)])]
        try agent.enqueue(shows)
        try agent.drain(from: 300)
        let hasMade = try agent.store.endUpload(
            blob.id, isVerified: true, remoteURL: "https://files/1", capacity: BlobCapacity(), note: "{}", at: agent.now)
        let picture = try view(agent, "a")?["picture"]?.object
        #expect(hasMade && picture?["state"] == "uploaded" && picture?["remote_url"] == "https://files/1")
        #expect(try agent.store.verify().isEmpty)
    }

    @Test("A conflict about nothing but dropped fields ends")
    func droppedConflict() throws {
        func rules(_ present: Int) throws -> RuleBook { try Self.rules(present) { $0.criticalFields = ["legacy"] } }
        let agent = try TestAgent(rules: try rules(2))
        try agent.store.use(try rules(2), at: agent.now)
        try agent.pull([("a", 5, ["legacy": 1])])
        let disputed = try agent.update("a", ["legacy": 2])
        _ = try agent.claim()
        let current = HubState.record(HubRecord(version: 9, data: ["legacy": 3]))
        try agent.answer(PushResult(key: disputed.key, verdict: .conflict(fields: ["legacy"], current: current)))
        try agent.store.use(try rules(3), at: agent.now)
        #expect(try agent.store.reads.conflicts(ConflictQuery()).items.isEmpty)
        #expect(try view(agent, "a")?["legacy"] == nil)
        #expect(try agent.store.verify().isEmpty)
    }

    @Test("A change of an app in an older version is judged by that version and converted")
    func appVersion() throws {
        let agent = try TestAgent(rules: try Self.rules(2))
        try agent.store.use(try Self.rules(2), at: agent.now)
        var mutation = TestAgent.mutation(.create, "a", ["site": "s-1", "severity": "minor"])
        mutation.schema = 1
        try agent.enqueue(mutation)
        #expect(try view(agent, "a") == ["site_id": "s-1", "severity": "low", "inspector": "unknown"])
        mutation.schema = 7
        #expect(agent.refusal(mutation)?.errors.map(\.pointer) == ["/schema"])
        // A device whose apps all write version 1 says so once.
        let other = try TestAgent(rules: try Self.rules(2) { $0.appVersion = 1 })
        try other.store.use(try Self.rules(2) { $0.appVersion = 1 }, at: other.now)
        try other.create("a", ["site": "s-1"])
        #expect(try view(other, "a") == ["site_id": "s-1", "inspector": "unknown"])
    }

    @Test("Documents that were taken while the hub had a newer version are fetched again after the conversion")
    func lowered() throws {
        let agent = try TestAgent(rules: try Self.rules(1))
        try agent.store.use(try Self.rules(1), at: agent.now)
        var page = TestAgent.page([("a", 5, ["site": "s-1"])])
        page.newerSchemas = SchemaNumbers([Self.audit: 2])
        _ = try agent.store.applyPull(page, at: agent.now)
        try agent.store.use(try Self.rules(2), at: agent.now)
        #expect(try agent.store.loadStreams(at: agent.now).first { $0.entity == Self.audit }?.listing != nil)
        let whole = SnapshotPage(
            entity: Self.audit, startCursor: "c", startVersion: 9,
            records: [
                .init(id: RecordID(trusted: "a"), record: HubRecord(version: 5, data: ["site_id": "s-1", "inspector": "Ann"]))
            ], after: nil, hasMore: false)
        _ = try agent.store.applySnapshot(whole, at: agent.now)
        #expect(try view(agent, "a")?["inspector"] == "Ann", "the hub's document counts, although its version was known")
        #expect(try agent.store.verify().isEmpty)
    }

    @Test("Without newer documents nothing is fetched again")
    func notLowered() throws {
        let agent = try TestAgent(rules: try Self.rules(1))
        try agent.store.use(try Self.rules(1), at: agent.now)
        try agent.pull([("a", 5, ["site": "s-1"])])
        try agent.store.use(try Self.rules(3), at: agent.now)
        let stream = try agent.store.loadStreams(at: agent.now).first { $0.entity == Self.audit }
        #expect(stream?.listing == nil && stream?.cursor == "c")
    }

    @Test("Rules that say nothing of versions leave the documents as they are")
    func silentRules() throws {
        let agent = try TestAgent(rules: try Self.rules(1))
        try agent.pull([("a", 5, ["site": "s-1"])])
        try agent.store.use(try Self.rules(2), at: agent.now)
        try agent.store.use(TestAgent.rules, at: agent.now)
        #expect(try view(agent, "a")?["site_id"] == "s-1" && agent.store.documentSchemas()[Self.audit] == 2)
        try agent.crash()
        try agent.store.use(try Self.rules(2), at: agent.now)
        #expect(try view(agent, "a")?["site_id"] == "s-1")
    }

    @Test("A conversion that fails changes nothing, and is tried again before the next command")
    func failure() throws {
        let agent = try TestAgent(rules: try Self.rules(1))
        try agent.store.use(try Self.rules(1), at: agent.now)
        try agent.pull([("a", 5, ["site": "s-1"])])
        agent.store.gate = { stage throws(StoreError) in
            if stage == .before { throw StoreError(.diskFull, doing: "commit", detail: "a test says so") }
        }
        #expect(throws: StoreError.self) { try agent.store.use(try Self.rules(2), at: agent.now) }
        #expect(try view(agent, "a") == ["site": "s-1"])
        guard case .failed = agent.store.perform(.loadStreams(), at: agent.now) else {
            Issue.record("a command ran on documents of another version")
            return
        }
        agent.store.gate = nil
        // The store has its rules of before, so a change needs no conversion: a small one may fit where that did not.
        try agent.update("a", ["site": "s-2"])
        #expect(try view(agent, "a") == ["site": "s-2"])
        #expect(try agent.store.documentSchemas()[Self.audit] == 1)
        _ = agent.store.perform(.loadStreams(), at: agent.now)
        #expect(try view(agent, "a")?["site_id"] == "s-2")
    }

    @Test("A conversion stores the settings that asked for it in its own transaction, also when it is tried again")
    func keepsSettings() throws {
        let agent = try TestAgent(rules: try Self.rules(1))
        try agent.store.use(try Self.rules(1), keeping: "one", at: agent.now)
        try agent.pull([("a", 5, ["site": "s-1"])])
        #expect(try agent.store.serverConfiguration() == "one")
        agent.store.gate = { stage throws(StoreError) in
            if stage == .before { throw StoreError(.diskFull, doing: "commit", detail: "no space left") }
        }
        #expect(throws: StoreError.self) { try agent.store.use(try Self.rules(2), keeping: "two", at: agent.now) }
        agent.store.gate = nil
        #expect(try agent.store.serverConfiguration() == "one")
        _ = agent.store.perform(.loadStreams(), at: agent.now)
        #expect(try agent.store.serverConfiguration() == "two")
        #expect(try agent.store.documentSchemas()[Self.audit] == 2)
    }

    @Test("Nothing is written in a version that the documents do not have: a conversion that failed at a start comes first")
    func convertsBeforeChanges() throws {
        let before = try TestAgent(rules: try Self.rules(1))
        try before.store.use(try Self.rules(1), at: before.now)
        try before.pull([("a", 5, ["site": "s-1"])])
        // The next process has the new rules from the beginning.
        let agent = try TestAgent(rules: try Self.rules(2), on: before.database)
        agent.store.gate = { stage throws(StoreError) in
            if stage == .before { throw StoreError(.diskFull, doing: "commit", detail: "a test says so") }
        }
        #expect(throws: StoreError.self) { try agent.store.use(try Self.rules(2), at: agent.now) }
        #expect(throws: StoreError.self) { try agent.update("a", ["site_id": "s-2"]) }
        agent.store.gate = nil
        try agent.update("a", ["site_id": "s-3"])
        #expect(try view(agent, "a") == ["site_id": "s-3", "inspector": "unknown"])
        #expect(try agent.store.documentSchemas()[Self.audit] == 2)
        #expect(try agent.store.verify().isEmpty)
    }

    @Test("Keys of indexes follow the new names")
    func indexes() throws {
        let agent = try TestAgent(rules: try Self.rules(1) { $0.declaredIndexes = [RecordIndex("site")!] })
        try agent.store.use(try Self.rules(1) { $0.declaredIndexes = [RecordIndex("site")!] }, at: agent.now)
        try agent.pull([("a", 5, ["site": "s-1"]), ("b", 6, ["site": "s-2"])])
        while try agent.store.tendIndexes(at: agent.now) {}
        try agent.store.use(try Self.rules(2) { $0.declaredIndexes = [RecordIndex("site_id")!] }, at: agent.now)
        while try agent.store.tendIndexes(at: agent.now) {}
        #expect(try agent.store.verify().isEmpty)
        var query = RecordQuery(Self.audit)
        query.filter = .test(FieldPath(dotted: "site_id")!, .eq("s-2"))
        #expect(try agent.store.reads.records(query).items.map(\.name.id.text) == ["b"])
    }
}
