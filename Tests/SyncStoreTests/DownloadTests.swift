import SyncCore
import SyncStore
import Testing

@Suite("Files from the hub: rows, wishes, room")
struct DownloadTests {
    private static func digest(_ text: String) -> BlobDigest { BlobDigest(bytes: SHA256.hash(Array(text.utf8)))! }

    private static func photo(_ text: String, size: Int64 = 1_000, isUploaded: Bool = true) -> JSON {
        Placeholder(digest: digest(text), size: size, type: "image/jpeg", isUploaded: isUploaded).json
    }

    private static let ahead: RuleBook = {
        var rules = EntityRules()
        rules.declaredFiles = .ahead
        return RuleBook([EntityName(trusted: "audit"): rules])
    }()

    private func search(_ agent: TestAgent, _ text: String, _ entities: Set<EntityName>? = nil) throws -> ShownFile? {
        var after: Int64 = 0
        while true {
            let slice = try agent.store.reads.slice(showing: Self.digest(text), entities: entities, after: after)
            if let file = slice.file, file.isUploaded { return file }
            guard let next = slice.next else { return slice.file }
            after = next
        }
    }

    private func want(_ agent: TestAgent, _ text: String, capacity: BlobCapacity = BlobCapacity()) throws -> BlobRow {
        try agent.store.wantBlob(
            Self.digest(text), shown: try search(agent, text), isAsked: true, by: agent.app, capacity: capacity, at: agent.now)
    }

    @discardableResult
    private func fetch(_ agent: TestAgent, _ text: String, size: Int64 = 1_000, capacity: BlobCapacity = BlobCapacity()) throws -> BlobRow {
        let row = try want(agent, text, capacity: capacity)
        _ = try agent.store.endDownload(row.id, size: size, capacity: capacity, note: "{}", at: agent.now)
        return try #require(try agent.store.reads.blob(row.id))
    }

    @Test("A file that a record shows as uploaded can be wanted; one that is still to come, or is not shown, cannot")
    func shown() throws {
        let agent = try TestAgent()
        try agent.pull([
            ("a", 5, ["photo": Self.photo("p")]), ("b", 6, ["photos": .array([Self.photo("q"), Self.photo("r", isUploaded: false)])]),
        ])
        let row = try want(agent, "p")
        #expect(row.fetch == .fetching && row.state == .uploaded && !row.hasFile && row.size == 1_000 && row.type == "image/jpeg")
        #expect(row.links == [BlobLink(TestAgent.name("a"), field: "photo")])
        #expect(try want(agent, "q").links == [BlobLink(TestAgent.name("b"), field: "photos")])
        #expect(try search(agent, "r")?.isUploaded == false)
        #expect(throws: StoreError.self) { try want(agent, "r") }
        #expect(throws: StoreError.self) { try want(agent, "nowhere") }
        #expect(try search(agent, "p", [EntityName(trusted: "template")]) == nil, "a caller sees what records of its entities show")
        #expect(try agent.store.reads.wantedBlobs(limit: 10).map(\.digest) == [Self.digest("p"), Self.digest("q")])
        #expect(try agent.store.verify() == [])
    }

    @Test("With files: ahead a pulled record makes its files wanted, and otherwise it does not")
    func ahead() throws {
        for rules in [TestAgent.rules, Self.ahead] {
            let agent = try TestAgent(rules: rules)
            let summary = try agent.pull([("a", 5, ["photo": Self.photo("p"), "later": Self.photo("q", isUploaded: false)])])
            #expect(summary.wantedFiles == (rules == Self.ahead ? 1 : 0))
            #expect(try agent.store.reads.blobCounts().fetching == (rules == Self.ahead ? 1 : 0))
            #expect(
                try agent.pull([("a", 6, ["photo": Self.photo("p"), "later": Self.photo("q")])]).wantedFiles
                    == (rules == Self.ahead ? 1 : 0))
        }
    }

    @Test("With files: ahead no more files become wanted than the agent may know, as it was told last")
    func aheadWithinLimits() throws {
        let agent = try TestAgent(rules: Self.ahead) { $0.fileCapacity.files = 2 }
        #expect(try agent.pull([("a", 5, ["photos": .array(["p", "q", "r"].map { Self.photo($0) })])]).wantedFiles == 2)
        #expect(try agent.pull([("a", 6, ["photos": .array(["p", "q", "r", "s"].map { Self.photo($0) })])]).wantedFiles == 0)
        agent.store.fileCapacity.files = 3
        #expect(try agent.pull([("a", 7, ["photos": .array(["p", "q", "r", "s", "t"].map { Self.photo($0) })])]).wantedFiles == 1)
        #expect(try agent.store.reads.blobCounts().fetching == 3)
    }

    @Test("With files: ahead a file that left with its record comes again with it, and one that left to make room does not")
    func aheadAgain() throws {
        let agent = try TestAgent(rules: Self.ahead)
        #expect(try agent.pull([("a", 5, ["photo": Self.photo("p")]), ("b", 6, ["photo": Self.photo("q")])]).wantedFiles == 2)
        for text in ["p", "q"] { try fetch(agent, text) }
        #expect(try agent.revoke("a").droppedFiles == [Self.digest("p")])
        try agent.store.forgetCopy(try #require(try agent.store.reads.blob(Self.digest("q"))).id, at: agent.now)
        let summary = try agent.pull([("a", 930, ["photo": Self.photo("p")]), ("b", 931, ["photo": Self.photo("q"), "n": 1])])
        #expect(summary.wantedFiles == 1)
        #expect(try agent.store.reads.wantedBlobs(limit: 10).map(\.digest) == [Self.digest("p")])
        #expect(try agent.store.reads.blob(Self.digest("p"))?.progress.error == nil && agent.store.verify() == [])
    }

    @Test("Records that came before files: ahead was set are looked through")
    func before() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["photo": Self.photo("p")]), ("b", 6, ["n": 1]), ("c", 7, ["photo": Self.photo("p")])])
        let slice = try agent.store.reads.slice(ofUnknownIn: [EntityName(trusted: "audit")], after: 0)
        #expect(slice.next == nil && slice.files.count == 2)
        #expect(try agent.store.wantAhead(slice.files, capacity: BlobCapacity(), at: agent.now) == 1)
        #expect(try agent.store.reads.slice(ofUnknownIn: [EntityName(trusted: "audit")], after: 0).files.isEmpty)
    }

    @Test("Progress survives a restart; the part of a wanted file is known by its name")
    func progress() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["photo": Self.photo("p")])])
        let row = try want(agent, "p")
        var progress = DownloadProgress()
        (progress.offset, progress.attempts, progress.error) = (700, 2, "cut")
        try agent.store.saveDownload(row.id, size: 1_200, progress, note: nil, at: agent.now)
        try agent.crash()
        let job = try #require(try agent.store.reads.wantedBlobs(limit: 10).first)
        #expect(job.progress == progress && job.size == 1_200 && job.isAsked)
        #expect(try agent.store.reads.partDigests() == [Self.digest("p")])
        #expect(try agent.store.reads.keptDigests().isEmpty, "a part is no file")
        _ = try agent.store.endDownload(row.id, size: 1_200, capacity: BlobCapacity(), note: "{}", at: agent.now)
        #expect(try agent.store.reads.partDigests().isEmpty)
        #expect(try agent.store.reads.keptDigests() == [Self.digest("p")])
        #expect(try agent.store.verify() == [])
    }

    @Test("A file that was set aside is tried again when its record changes, when conditions change, and after a day")
    func setAside() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["photo": Self.photo("p")])])
        let row = try want(agent, "p")
        func park() throws {
            try agent.store.parkDownload(row.id, size: 1_000, why: "404", DownloadProgress(), note: "{}", at: agent.now)
            #expect(try agent.store.reads.blob(row.id)?.fetch == .failed && agent.store.reads.blobCounts().fetchFailed == 1)
        }
        try park()
        #expect(try agent.store.rearmDownloads(isDueOnly: true, at: agent.now).isEmpty)
        #expect(try agent.pull([("a", 6, ["photo": Self.photo("p"), "n": 1])]).wantedFiles == 1)
        #expect(try agent.store.reads.blob(row.id)?.fetch == .fetching)
        try park()
        #expect(try agent.store.rearmDownloads(isDueOnly: false, at: agent.now).map(\.id) == [row.id])
        try park()
        agent.wait(.seconds(86_401))
        #expect(try agent.store.rearmDownloads(isDueOnly: true, at: agent.now).map(\.id) == [row.id])
    }

    @Test("Room is made by files that the server has, the least used first; never by one that is not uploaded or is pinned")
    func room() throws {
        let agent = try TestAgent()
        var capacity = BlobCapacity()
        capacity.bytes = 5_000
        try agent.pull(["p", "q", "r"].enumerated().map { ("a-\($0)", Int64($0 + 5), ["photo": Self.photo($1)]) })
        // Not uploaded: its bytes exist nowhere else.
        let own = try agent.store.addBlob(
            Self.digest("own"), size: 1_000, type: "a/b", filename: "x", by: agent.app, capacity: capacity, at: agent.now)
        let p = try fetch(agent, "p")
        agent.wait(.seconds(7_200))
        let q = try fetch(agent, "q")
        agent.wait(.seconds(7_200))
        let r = try fetch(agent, "r")
        _ = try agent.store.pinBlob(q.id, true, at: agent.now)
        agent.wait(.seconds(7_200))
        try agent.store.useBlob(p.id, at: agent.now)

        #expect(try agent.store.makeRoom(forBlob: 1_000, capacity, at: agent.now) == [])
        #expect(try agent.store.makeRoom(forBlob: 1_500, capacity, at: agent.now) == [r.digest], "p was read since")
        #expect(try agent.store.reads.blob(r.id)?.hasFile == false && agent.store.reads.blob(r.id)?.fetch == .fetched)
        #expect(throws: StoreError.self) { try agent.store.makeRoom(forBlob: 4_000, capacity, at: agent.now) }
        #expect(try agent.store.reads.blob(p.id)?.hasFile == true, "nothing leaves in vain")
        #expect(try agent.store.makeRoom(forBlob: 3_000, capacity, at: agent.now) == [p.digest])
        #expect(try agent.store.reads.blob(own.row.id)?.hasFile == true && agent.store.reads.blob(q.id)?.hasFile == true)
        // A file that left can be fetched again.
        #expect(try want(agent, "r").fetch == .fetching)
        #expect(try agent.store.verify() == [])
    }

    // Fault: a file of a site stays readable after the site was taken from the device.
    @Test("A fetched file that no record shows any more leaves; one that another record shows, and a pinned one, stay")
    func unshown() throws {
        let agent = try TestAgent()
        try agent.pull(["p", "q", "r"].enumerated().map { ("a-\($0)", Int64($0 + 5), ["photo": Self.photo($1)]) })
        for text in ["p", "q", "r"] { try fetch(agent, text) }
        let pinned = try #require(try agent.store.reads.blob(Self.digest("r")))
        _ = try agent.store.pinBlob(pinned.id, true, at: agent.now)
        #expect(try agent.store.dropUnshown(at: agent.now).isEmpty)
        // Another record shows q from now on.
        try agent.pull([("b", 20, ["photo": Self.photo("q")])], deleted: [("a-0", 21), ("a-1", 22), ("a-2", 23)])
        let row = try #require(try agent.store.reads.blob(Self.digest("p")))
        #expect(try agent.store.reads.stillShowing(row.digest, of: row.links).isEmpty)
        #expect(try agent.store.dropUnshown(at: agent.now) == [Self.digest("p")])
        #expect(try agent.store.reads.blob(row.id)?.hasFile == false && agent.store.verify() == [])
    }

    // Fault: a running download went on after its record had left the share of this device.
    @Test("A download is cut with the record that leaves the share, unless another record shows the file; a deletion alone cuts none")
    func cut() throws {
        let agent = try TestAgent()
        try agent.pull(["p", "q", "r", "s"].enumerated().map { ("a-\($0)", Int64($0 + 5), ["photo": Self.photo($1)]) })
        var rows: [BlobRow] = []
        for text in ["p", "q", "r"] { rows.append(try want(agent, text)) }
        try fetch(agent, "s")
        var progress = DownloadProgress()
        progress.offset = 700
        try agent.store.saveDownload(rows[0].id, size: 1_000, progress, note: nil, at: agent.now)
        // Another record shows q from now on.
        try agent.pull([("b", 20, ["photo": Self.photo("q")])])
        #expect(try agent.pull([], deleted: [("a-2", 23)]).cutDownloads.isEmpty)
        let summary = try agent.revoke("a-0", "a-1", "a-3")
        #expect(summary.cutDownloads == [CutDownload(rows[0].id, rows[0].digest)])
        let cut = try #require(try agent.store.reads.blob(rows[0].id))
        #expect(cut.standing == .fetchFailed && cut.gotBytes == 0 && !cut.isAsked && cut.progress.error == CutDownload.why)
        #expect(try agent.store.reads.partDigests().isEmpty, "its part goes, at the next start at the latest")
        #expect(try agent.store.reads.wantedBlobs(limit: 10).map(\.id) == [rows[1].id, rows[2].id])
        // The comparison had ended before the cut: its bytes go, and the row does not claim them.
        let going = try agent.store.endDownload(cut.id, size: 1_000, capacity: BlobCapacity(), note: "{}", at: agent.now)
        #expect(try going == [cut.digest] && agent.store.reads.blob(cut.id)?.standing == .fetchFailed)
        // The record is back, and with it the wish.
        #expect(try agent.pull([("a-0", 930, ["photo": Self.photo("p")])]).wantedFiles == 1)
        #expect(try agent.pull([("c", 931, [:])]).cutDownloads.isEmpty && agent.store.verify() == [])
    }

    // Fault: a fetched file stayed on flash after its record had left the share, a pinned one for good.
    @Test("A fetched file leaves with the record that leaves the share, a pinned one too, unless another record shows it")
    func leaves() throws {
        let agent = try TestAgent()
        let first = ["p", "q", "r", "s", "t"].enumerated().map { ("a-\($0)", Int64($0 + 5), ["photo": Self.photo($1)] as JSONObject) }
        try agent.pull(first)
        for text in ["p", "q", "r", "s", "t"] { try fetch(agent, text) }
        for text in ["q", "r", "s"] {
            _ = try agent.store.pinBlob(try #require(try agent.store.reads.blob(Self.digest(text))).id, true, at: agent.now)
        }
        try agent.pull([("b", 15, ["photo": Self.photo("r")]), ("c", 20, ["photo": Self.photo("s")])])
        let summary = try agent.revoke("a-0", "a-1", "a-2", "a-3")
        #expect(summary.droppedFiles == [Self.digest("p"), Self.digest("q")] && summary.cutDownloads.isEmpty)
        for text in ["p", "q"] {
            let row = try #require(try agent.store.reads.blob(Self.digest(text)))
            #expect(row.standing == .fetched(isHere: false) && !row.isPinned)
        }
        for text in ["r", "s"] {
            let row = try #require(try agent.store.reads.blob(Self.digest(text)))
            #expect(row.standing == .fetched(isHere: true) && row.isPinned)
        }
        #expect(try agent.store.reads.keptDigests() == Set(["r", "s", "t"].map { Self.digest($0) }))
        #expect(try agent.store.dropUnshown(at: agent.now).isEmpty)
        #expect(try agent.revoke("b", "c").droppedFiles == [Self.digest("r"), Self.digest("s")])
        // The record is back, and the file may come again, without its pin.
        try agent.pull([("a-1", 930, ["photo": Self.photo("q")])])
        let again = try want(agent, "q")
        #expect(again.fetch == .fetching && !again.isPinned)
        #expect(try agent.store.verify() == [])
    }

    @Test("A record of the same answer that shows the file keeps it")
    func movesOn() throws {
        let agent = try TestAgent()
        try agent.pull([("a-0", 5, ["photo": Self.photo("p")]), ("a-1", 6, ["photo": Self.photo("q")])])
        for text in ["p", "q"] { try fetch(agent, text) }
        let pages = [
            StreamPage(
                entity: EntityName(trusted: "audit"), cursor: "r", hasMore: false, records: [],
                deletions: ["a-0", "a-1"].map { .init(id: RecordID(trusted: $0), version: 9, reason: Problem.revoked) }),
            StreamPage(
                entity: EntityName(trusted: "template"), cursor: "t", hasMore: false,
                records: [.init(id: RecordID(trusted: "new"), record: HubRecord(version: 10, data: ["photo": Self.photo("p")]))],
                deletions: []),
        ]
        let summary = try agent.store.applyPull(PullResponse(epoch: "e", head: 10, pages: pages), at: agent.now)
        #expect(summary.deletions == 2 && summary.upserts == 1 && summary.droppedFiles == [Self.digest("q")])
        #expect(try agent.store.reads.keptDigests() == [Self.digest("p")])
        #expect(try agent.store.dropUnshown(at: agent.now).isEmpty && agent.store.verify() == [])
    }

    // Fault: an app added a file that had been fetched, was answered, and deleted its copy. The only copy left with the record.
    @Test("A fetched file that an app has added as well is the app's from then on, and stays when its record leaves")
    func addedByAnApp() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["photo": Self.photo("p")])])
        try fetch(agent, "p")
        let added = try agent.store.addBlob(
            Self.digest("p"), size: 1_000, type: "a/b", filename: "p", by: agent.app, capacity: BlobCapacity(), at: agent.now)
        #expect(added.isNew && added.row.state == .pending && added.row.fetch == nil && added.row.hasFile)
        #expect(try agent.revoke("a").droppedFiles.isEmpty)
        #expect(try agent.store.reads.keptDigests() == [Self.digest("p")])
        #expect(try agent.store.dropUnshown(at: agent.now).isEmpty && agent.store.verify() == [])
    }

    @Test("A pinned file, and one that left to make room, is taken up again when its bytes are found")
    func foundAgain() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["photo": Self.photo("p")])])
        let row = try fetch(agent, "p")
        _ = try agent.store.pinBlob(row.id, true, at: agent.now)
        try agent.store.forgetCopy(row.id, at: agent.now)
        try agent.pull([("a", 6, ["n": 1])])
        #expect(try agent.store.adoptFetched(row.digest, size: 1_000, at: agent.now) == .adopted)
        #expect(CutDownload.why == "no record on this device shows the file any more", "rows of earlier versions have this text")
    }

    // Fault: parked work lost the file that it names.
    @Test("Files that an app has brought stay, and a fetched one stays until the unsent work that names it is over")
    func namedByWork() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["photo": Self.photo("p")])])
        let fetched = try fetch(agent, "p")
        _ = try agent.store.pinBlob(fetched.id, true, at: agent.now)
        func add(_ text: String) throws -> BlobRow {
            try agent.store.addBlob(
                Self.digest(text), size: 1_000, type: "a/b", filename: text, by: agent.app, capacity: BlobCapacity(), at: agent.now
            ).row
        }
        let (unsent, sent) = (try add("unsent"), try add("sent"))
        _ = try agent.store.endUpload(
            sent.id, isVerified: true, remoteURL: nil, capacity: BlobCapacity(), note: "{}", at: agent.now)
        _ = try agent.store.pinBlob(sent.id, true, at: agent.now)
        var mutation = TestAgent.mutation(.update, "a", ["n": 1])
        mutation.blobs = zip(["one", "two", "three"], [fetched, unsent, sent]).map { field, row in
            ["field": .string(field), "blob": .string(row.id.description)]
        }
        let key = try agent.enqueue(mutation).key
        #expect(try agent.revoke("a").droppedFiles.isEmpty)
        #expect(try agent.state(key) == .rejected)
        #expect(try agent.store.reads.keptDigests() == [fetched.digest, unsent.digest, sent.digest])
        #expect(try agent.store.reads.blob(fetched.id)?.isPinned == false && agent.store.reads.blob(sent.id)?.isPinned == true)
        #expect(try agent.store.dropUnshown(at: agent.now).isEmpty)
        #expect(try agent.store.adoptFetched(fetched.digest, size: 1_000, at: agent.now) == .adopted)
        try agent.store.discard(key, reason: "seen", uid: 7, at: agent.now)
        #expect(try agent.store.dropUnshown(at: agent.now) == [fetched.digest])
        #expect(try agent.store.reads.keptDigests() == [unsent.digest, sent.digest])
        #expect(try agent.store.verify() == [])
    }

    // Fault: after a crash between the row and the file, the file came back as one that this device has.
    @Test("Bytes of a revoked file that outlived a crash are not taken up; those of a file that made room are")
    func crashedBeforeRemoval() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["photo": Self.photo("p")]), ("b", 6, ["photo": Self.photo("q")]), ("c", 7, ["photo": Self.photo("r")])])
        for text in ["p", "q"] { try fetch(agent, text) }
        let cut = try want(agent, "r")
        #expect(try agent.revoke("a", "c").droppedFiles == [Self.digest("p")])
        try agent.store.forgetCopy(try #require(try agent.store.reads.blob(Self.digest("q"))).id, at: agent.now)
        try agent.crash()
        #expect(try agent.store.reads.keptDigests().isEmpty)
        #expect(try agent.store.adoptFetched(Self.digest("p"), size: 1_000, at: agent.now) == .unwanted)
        #expect(try agent.store.adoptFetched(cut.digest, size: 1_000, at: agent.now) == .unwanted)
        #expect(try agent.store.adoptFetched(Self.digest("q"), size: 1_000, at: agent.now) == .adopted)
        #expect(try agent.store.reads.keptDigests() == [Self.digest("q")])
        #expect(try agent.store.verify() == [])
    }

    @Test("An app brings the file that was to come: it becomes an upload, which asks the hub first")
    func brought() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["photo": Self.photo("p")])])
        let row = try want(agent, "p")
        let added = try agent.store.addBlob(
            row.digest, size: 1_001, type: "a/b", filename: "x", by: agent.app, capacity: BlobCapacity(), at: agent.now)
        #expect(added.isNew && added.row.id == row.id && added.row.state == .pending && added.row.fetch == nil && added.row.hasFile)
        #expect(try agent.store.reads.waitingBlobs(limit: 10).map(\.id) == [row.id])
        #expect(try agent.store.reads.wantedBlobs(limit: 10).isEmpty)
        #expect(try agent.store.verify() == [])
    }

    @Test("Bytes that got their name before a crash are taken up; those of an upload are not")
    func adopted() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["photo": Self.photo("p")])])
        let row = try want(agent, "p")
        #expect(try agent.store.adoptFetched(row.digest, size: 900, at: agent.now) == .adopted)
        let found = try #require(try agent.store.reads.blob(row.id))
        #expect(found.fetch == .fetched && found.hasFile && found.size == 900)
        #expect(try agent.store.adoptFetched(Self.digest("own"), size: 900, at: agent.now) == .foreign)
        // A copy that is gone from the disk is not claimed to be here.
        try agent.store.forgetCopy(row.id, at: agent.now)
        #expect(try agent.store.reads.keptDigests().isEmpty)
    }

    @Test("A record that is changed here shows a fetched file as uploaded, and removing the file leaves the record alone")
    func shownHere() throws {
        let agent = try TestAgent()
        try agent.pull([("a", 5, ["photo": Self.photo("p")])])
        let row = try fetch(agent, "p")
        var mutation = TestAgent.mutation(.create, "b", ["n": 1])
        mutation.blobs = [["field": "photo", "blob": .string(row.id.description)]]
        try agent.enqueue(mutation)
        let text = try #require(try agent.store.reads.record(TestAgent.name("b"))?.view)
        #expect(try JSONReader.read(text).object?["photo"]?.object?["state"]?.text == "uploaded")
        #expect(throws: StoreError.self) { try agent.store.removeBlob(row.id, at: agent.now) }
        #expect(try agent.store.removeBlob(row.id, isForced: true, at: agent.now).removal == .dropped)
        #expect(try agent.store.reads.blob(row.id)?.hasFile == false)
        #expect(try agent.store.verify() == [])
    }
}
