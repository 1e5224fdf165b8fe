import SyncCore
import SyncStore
import Testing

@Suite("Files: rows, links, placeholders, the gate")
struct BlobTests {
    private static func digest(_ text: String) -> BlobDigest { BlobDigest(bytes: SHA256.hash(Array(text.utf8)))! }

    @discardableResult
    private func add(
        _ agent: TestAgent, _ text: String, size: Int64 = 1_000, capacity: BlobCapacity = BlobCapacity()
    ) throws -> (row: BlobRow, isNew: Bool) {
        try agent.store.addBlob(
            Self.digest(text), size: size, type: "image/jpeg", filename: "\(text).jpg", by: agent.app, capacity: capacity, at: agent.now)
    }

    private func show(
        _ agent: TestAgent, _ blobs: [(field: String, id: BlobID)], on id: String = "a-1", action: NewMutation.Action = .create,
        priority: Priority? = nil, data: JSONObject = ["n": .int(1)]
    ) throws -> Enqueued {
        var mutation = TestAgent.mutation(action, id, data, priority: priority)
        mutation.blobs = blobs.map { .object(["field": .string($0.field), "blob": .string($0.id.description)]) }
        return try agent.store.enqueue([mutation], by: agent.app, at: agent.now)[0]
    }

    private func uploaded(_ agent: TestAgent, _ id: BlobID, url: String? = nil) throws -> Bool {
        try agent.store.endUpload(id, isVerified: true, remoteURL: url, capacity: BlobCapacity(), note: "{}", at: agent.now)
    }

    /// The hub has said that it has the file.
    private func spare(_ agent: TestAgent, _ id: BlobID, named: Int64 = 0) throws -> UploadJob? {
        try agent.store.endOffer(id, named: named, capacity: BlobCapacity(), note: "{}", at: agent.now)
    }

    private func view(_ agent: TestAgent, _ id: String = "a-1") throws -> JSONObject {
        let text = try #require(try agent.store.reads.record(TestAgent.name(id))?.view)
        return try #require(try JSONReader.read(text).object)
    }

    private let limits = BatchLimits(mutations: 50, bytes: 1 << 20)

    @Test("The same bytes twice are one blob, whichever app brings them")
    func dedupe() throws {
        let agent = try TestAgent()
        let first = try add(agent, "a"), second = try add(agent, "a"), other = try add(agent, "b")
        #expect(first.isNew && !second.isNew && other.isNew)
        #expect(first.row.id == second.row.id && first.row.id != other.row.id)
        #expect(try agent.store.reads.blobCounts().pending == 2)
        #expect(try agent.store.reads.blobCounts().pendingBytes == 2_000)
    }

    // Fault: a device that could not read a file any more, when the hub got the record that shows it, went on without bringing the file.
    @Test("A file that the hub had is offered again as soon as the hub has a change that shows it")
    func offeredAgain() throws {
        let agent = try TestAgent()
        let id = try add(agent, "a").row.id
        #expect(try spare(agent, id) == nil)
        let row = try #require(try agent.store.reads.blob(id))
        #expect(row.state == .uploaded && row.isVerified && row.hasFile && row.progress.offset == 1_000)
        for number: Int64 in 1...2 {
            let key = try show(agent, [("photo", id)], on: "a-\(number)").key
            #expect(try agent.store.reads.waitingBlobs(limit: 9).isEmpty)
            _ = try agent.claim()
            let offers = try agent.answer(.accepted(key, 10 + number)).offers
            #expect(try offers.map(\.id) == [id] && agent.store.reads.waitingBlobs(limit: 9) == offers)
            // This offer is the last one, also after a change that shows no file.
            #expect(try spare(agent, id, named: try #require(offers.first).named) == nil)
            let other = try agent.update("a-\(number)", ["n": 7]).key
            _ = try agent.claim()
            #expect(try agent.answer(.accepted(other, 20 + number)).offers.isEmpty)
        }
        var reading = TestAgent.mutation(.create, nil, ["t": 20], entity: "reading")
        reading.blobs = [["field": "photo", "blob": .string(id.description)]]
        let event = try agent.enqueue(reading).key
        _ = try agent.claim()
        #expect(try agent.answer(.accepted(event, 30)).offers.map(\.id) == [id])
        #expect(try agent.store.verify() == [])
    }

    @Test("An offer that may be older than the change at the hub is made again")
    func offeredTooEarly() throws {
        let agent = try TestAgent()
        let id = try add(agent, "a").row.id
        let key = try show(agent, [("photo", id)]).key
        let job = try #require(try agent.store.reads.waitingBlobs(limit: 9).first)
        _ = try agent.claim()
        #expect(try job.named == 0 && agent.answer(.accepted(key, 7)).offers.isEmpty)
        let again = try #require(try spare(agent, id, named: job.named))
        #expect(try again.named != 0 && agent.store.reads.waitingBlobs(limit: 9) == [again])
        #expect(try spare(agent, id, named: again.named) == nil)
        #expect(try agent.store.reads.blob(id)?.state == .uploaded && agent.store.reads.waitingBlobs(limit: 9).isEmpty)
    }

    // Fault: the newest number of such a change did not tell that an older one was accepted after it.
    @Test("An offer that may be older than a change is made again, although a newer change was there before")
    func offeredBetween() throws {
        let agent = try TestAgent()
        let id = try add(agent, "a").row.id
        let older = try show(agent, [("photo", id)], on: "a-1").key
        let newer = try show(agent, [("photo", id)], on: "a-2").key
        _ = try agent.claim()
        _ = try agent.answer(.accepted(newer, 7))
        let job = try #require(try agent.store.reads.waitingBlobs(limit: 9).first)
        #expect(try agent.answer(.accepted(older, 8)).offers.isEmpty)
        let again = try #require(try spare(agent, id, named: job.named))
        #expect(try again.named != job.named && spare(agent, id, named: again.named) == nil)
    }

    @Test("A file that this device has brought is not offered again, and neither is one whose bytes are gone")
    func notOfferedAgain() throws {
        let agent = try TestAgent()
        let (own, gone) = (try add(agent, "own").row.id, try add(agent, "gone").row.id)
        _ = try uploaded(agent, own)
        #expect(try spare(agent, gone) == nil)
        let key = try show(agent, [("one", own), ("two", gone)]).key
        try agent.store.forgetCopy(gone, at: agent.now)
        _ = try agent.claim()
        #expect(try agent.answer(.accepted(key, 7)).offers.isEmpty)
    }

    @Test("The bytes of a file that the hub had stay while a change waits that shows it")
    func sparedStays() throws {
        let agent = try TestAgent()
        let (spared, own) = (try add(agent, "spared").row.id, try add(agent, "own").row.id)
        #expect(try spare(agent, spared) == nil)
        _ = try uploaded(agent, own)
        let key = try show(agent, [("one", spared), ("two", own)]).key
        #expect(try agent.store.pruneBlobs(isShort: true, at: agent.now) == [Self.digest("own")])
        _ = try agent.store.cancel(key, at: agent.now)
        #expect(try agent.store.pruneBlobs(isShort: true, at: agent.now) == [Self.digest("spared")])
    }

    @Test("A decision about a conflict shows the files of the change in whose place it is sent")
    func decidedWithFile() throws {
        let agent = try ConflictTests.agent()
        let id = try add(agent, "a").row.id
        #expect(try spare(agent, id) == nil)
        var mutation = TestAgent.mutation(.update, "a", ["finding": "fail"])
        mutation.blobs = [["field": "photo", "blob": .string(id.description)]]
        try agent.enqueue(mutation)
        try agent.pull([("a", 7, ["finding": "flagged", "note": "old", "visits": 3, "tags": ["x"], "notes": "rail"])])
        let decided = try #require(try ConflictTests.resolve(agent, .all(.local)).mutation)
        let sent = try agent.claim()
        #expect(sent.map(\.key) == [decided])
        #expect(try agent.answer(.accepted(decided, 8)).offers.map(\.id) == [id])
    }

    @Test("A file that was found in the folder gets its row though there is no room for one that comes")
    func found() throws {
        let agent = try TestAgent()
        var capacity = BlobCapacity()
        (capacity.bytes, capacity.files) = (1_500, 1)
        try add(agent, "a", capacity: capacity)
        agent.store.freeBytes = 0
        #expect(throws: StoreError.self) { try add(agent, "b", capacity: capacity) }
        let found = try agent.store.addBlob(
            Self.digest("b"), size: 1_000, type: "application/octet-stream", filename: "recovered", by: agent.app, capacity: capacity,
            isFound: true, at: agent.now)
        #expect(found.isNew && found.row.state == .pending)
        #expect(try agent.store.reads.blobCounts().pending == 2)
        #expect(try agent.store.verify() == [])
    }

    @Test("The quota and the free space hold before a row is written")
    func quota() throws {
        let agent = try TestAgent()
        var capacity = BlobCapacity()
        capacity.bytes = 1_500
        try add(agent, "a", capacity: capacity)
        #expect { try add(agent, "b", capacity: capacity) } throws: { ($0 as? StoreError)?.problem?.code == "queue-full" }
        agent.store.freeBytes = 64_000_500
        #expect { try add(agent, "c") } throws: { ($0 as? StoreError)?.problem?.code == "disk-full" }
        #expect(try agent.store.reads.blobCounts().pending == 1)
        capacity.bytes = 1 << 40
        capacity.files = 1
        agent.store.freeBytes = nil
        #expect { try add(agent, "d", capacity: capacity) } throws: { ($0 as? StoreError)?.problem?.code == "queue-full" }
    }

    @Test("A mutation that names a blob shows its placeholder at once, and does not wait for the bytes")
    func placeholder() throws {
        let agent = try TestAgent()
        let blob = try add(agent, "a").row
        let made = try show(agent, [("photo", blob.id)])
        let photo = try #require(try view(agent)["photo"]?.object)
        #expect(photo["$blob"]?.text == blob.digest.description)
        #expect(photo["state"]?.text == "pending")
        #expect(photo["size"]?.int == 1_000)
        #expect(photo["type"]?.text == "image/jpeg")
        #expect(try view(agent)["n"]?.int == 1)
        let batch = try #require(try agent.store.claim(limits, at: agent.now))
        #expect(batch.mutations.map(\.key) == [made.key])
        #expect(batch.mutations[0].data?.contains("$blob") == true)
        #expect(try agent.store.reads.blob(blob.id)?.links == [BlobLink(TestAgent.name("a-1"), field: "photo")])
    }

    @Test("Several blobs in one field are a list; one that is uploaded already says so")
    func several() throws {
        let agent = try TestAgent()
        let first = try add(agent, "a").row, second = try add(agent, "b").row
        #expect(try uploaded(agent, first.id) == false)
        _ = try show(agent, [("photos", first.id), ("photos", second.id)])
        let states = try view(agent)["photos"]?.array?.map { $0.object?["state"]?.text }
        #expect(states == ["uploaded", "pending"])
    }

    @Test("A blob that is not known here, and a delete that shows one, are refused", arguments: ["b-9", "b-x", "nothing"])
    func unknown(_ name: String) throws {
        let agent = try TestAgent()
        var mutation = TestAgent.mutation(.create, "a-1", [:])
        mutation.blobs = [.object(["field": .string("photo"), "blob": .string(name)])]
        #expect { try agent.store.enqueue([mutation], by: agent.app, at: agent.now) } throws: {
            ($0 as? StoreError)?.problem?.code == "validation"
        }
        #expect(try agent.store.reads.record(TestAgent.name("a-1")) == nil)
    }

    @Test("With the gate a mutation waits for its files, says so, and goes when the last of them is there")
    func gate() throws {
        let agent = try TestAgent()
        agent.store.gatesBlobs = true
        let first = try add(agent, "a").row, second = try add(agent, "b").row
        let made = try show(agent, [("before", first.id), ("after", second.id)])
        let other = try show(agent, [], on: "a-2")
        #expect(try agent.store.claim(limits, at: agent.now)?.mutations.map(\.key) == [other.key])
        #expect(try agent.store.reads.obstacle(to: made.key, at: agent.now) == .blob(first.id))
        #expect(try agent.blocked(made.key) == Deferral(.blobWait) && agent.blocked(other.key) == nil)
        _ = try uploaded(agent, first.id)
        #expect(try agent.store.claim(limits, at: agent.now) == nil)
        #expect(try agent.store.reads.obstacle(to: made.key, at: agent.now) == .blob(second.id))
        try agent.crash()
        #expect(try agent.store.verify() == [])
        _ = try uploaded(agent, second.id)
        #expect(try agent.store.claim(limits, at: agent.now)?.mutations.map(\.key) == [made.key])
        #expect(try agent.store.verify() == [])
    }

    /// A way in which a change that waits for its file gets another one in its place.
    enum Successor: CaseIterable { case decision, comeback, carried, madeAgain, retry }

    // Fault: a decision of a conflict did not wait for the file of the disputed change, or of a change that it carried.
    @Test("With the gate, what takes the place of a waiting mutation waits for its files as well", arguments: Successor.allCases)
    func gateOfSuccessors(_ way: Successor) throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        agent.store.gatesBlobs = way != .retry
        try agent.pull([("a-1", 5, ["finding": "pass"])])
        let blob = try add(agent, "a").row
        let isLater = way == .carried || way == .madeAgain
        if isLater { try agent.update("a-1", ["finding": "fail"]) }
        if way == .madeAgain {
            try agent.list([TestAgent.mutation(.update, "a-1", ["note": "first"]), TestAgent.mutation(.create, "b", ["n": 1])])
            var change = TestAgent.mutation(.update, "a-1", ["n": 1])
            change.blobs = [.object(["field": "photo", "blob": .string(blob.id.description)])]
            try agent.list([change, TestAgent.mutation(.create, "c", ["n": 1])])
        } else {
            let made = try show(
                agent, [("photo", blob.id)], on: "a-1", action: .update, data: isLater ? ["n": 1] : ["finding": "fail", "n": 1])
            if way == .retry {
                _ = try agent.claim()
                try agent.answer(.rejected(made.key))
                agent.store.gatesBlobs = true
                _ = try agent.store.retry(made.key, by: agent.app, at: agent.now)
            }
        }
        if way == .decision {
            try agent.pull([("a-1", 7, ["finding": "flagged"])])
        } else if way != .retry {
            try agent.pull([], deleted: [("a-1", 7)])
        }
        if way != .retry { try ConflictTests.resolve(agent, .all(.local)) }
        #expect(try agent.store.verify() == [])
        let before = try agent.claim()
        #expect(!before.contains { $0.data?.contains("$blob") == true }, "the file is not at the hub")
        _ = try agent.store.applyResults(before.map { .accepted($0.key, 20) }, next: nil, at: agent.now)
        _ = try uploaded(agent, blob.id)
        #expect(try agent.claim().contains { $0.data?.contains("$blob") == true && $0.record.id.text == "a-1" })
        #expect(try agent.store.verify() == [])
    }

    /// A change of `a-1` with the file in the field `photo`, which the hub has refused.
    private func refused(_ agent: TestAgent, _ blob: BlobRow) throws -> MutationKey {
        try agent.pull([("a-1", 5, ["finding": "pass"])])
        let key = try show(agent, [("photo", blob.id)], action: .update).key
        _ = try agent.claim()
        try agent.answer(.rejected(key))
        return key
    }

    // Fault: the retry wrote the placeholder again, over the value that a person had given, and where the file was to be left out.
    @Test("A retry with another value in place of a file, or without the file, is sent as the person has corrected it")
    func correctedFile() throws {
        for (fix, without, sent) in [(["photo": "none"], [], #"{"n":1,"photo":"none"}"#), ([:], ["photo"], #"{"n":1}"#)]
            as [(JSONObject, [String], String)]
        {
            let agent = try TestAgent()
            let blob = try add(agent, "a").row
            let key = try refused(agent, blob)
            // The bytes may be gone by now, which is a reason to do so.
            try agent.store.loseBlob(blob.id, why: "gone", note: "{}", at: agent.now)
            let refusal = StoreError.problem { _ = try agent.store.retry(key, by: agent.app, at: agent.now) }
            #expect(refusal?.code == "validation" && refusal?.errors.map(\.pointer) == ["/data/photo"])
            let new = try agent.store.retry(key, fix: fix, without: without, by: agent.app, at: agent.now)
            #expect(try agent.claim().map(\.data) == [sent])
            try agent.answer(.accepted(new.key, 8))
            #expect(try agent.store.removeBlob(blob.id, at: agent.now).removal == .forgotten)
            #expect(try agent.store.verify() == [])
        }
    }

    // Fault: the retry also sent the whole list, without what others have added to it.
    @Test("A retry of files that were added to a set adds them, and does not write the set")
    func filesOfASet() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        let blobs = try ["a", "b"].map { try add(agent, $0).row.id }
        try agent.pull([("a-1", 5, ["tags": ["x"]])])
        let key = try show(agent, blobs.map { ("tags", $0) }, action: .update, data: ["n": 1]).key
        let first = try #require(try agent.claim().first)
        try agent.answer(.rejected(key))
        let new = try agent.store.retry(key, by: agent.app, at: agent.now).key
        let second = try #require(try agent.claim().first)
        #expect(second.data == first.data && second.operations == first.operations && first.operations != nil)
        #expect(throws: StoreError.self) { try agent.store.removeBlob(blobs[0], at: agent.now) }
        #expect(try agent.state(new) == .inFlight && agent.store.verify() == [])
    }

    // Fault: the file belonged to the refused decision still, so it could be removed while the retry waited.
    @Test("The retry of a refused decision shows its file, and as uploaded if it is at the server by then")
    func retriedDecisionShowsItsFile() throws {
        let agent = try TestAgent(rules: ConflictTests.rules)
        let blob = try add(agent, "a").row
        try agent.pull([("a-1", 5, ["finding": "pass"])])
        _ = try show(agent, [("photo", blob.id)], action: .update, data: ["finding": "fail"])
        try agent.pull([("a-1", 7, ["finding": "flagged"])])
        let decision = try #require(try ConflictTests.resolve(agent, .all(.local)).mutation)
        _ = try agent.claim()
        try agent.answer(.rejected(decision))
        _ = try uploaded(agent, blob.id, url: "https://files/1")
        let new = try agent.store.retry(decision, by: agent.app, at: agent.now).key
        let photo = try #require(try view(agent)["photo"]?.object)
        #expect(photo["state"] == "uploaded" && photo["remote_url"] == "https://files/1")
        let refusal = StoreError.problem { _ = try agent.store.removeBlob(blob.id, at: agent.now) }
        #expect(refusal?.members["mutation"]?.text == new.text)
    }

    @Test("Files that a critical mutation references go first, then those with the least left to send")
    func filesOfCriticalMutationsGoFirst() throws {
        let agent = try TestAgent()
        let large = try add(agent, "a", size: 5_000).row, small = try add(agent, "b", size: 100).row
        let middle = try add(agent, "c", size: 2_000).row
        #expect(try agent.store.reads.waitingBlobs(limit: 10).map(\.id) == [small.id, middle.id, large.id])
        _ = try show(agent, [("photo", large.id)], priority: .critical)
        var progress = UploadProgress()
        progress.offset = 1_950
        progress.url = "https://h/7"
        try agent.store.saveUpload(middle.id, progress, note: nil, at: agent.now)
        let waiting = try agent.store.reads.waitingBlobs(limit: 10)
        #expect(waiting.map(\.id) == [large.id, middle.id, small.id])
        #expect(waiting[1].progress.url == "https://h/7" && waiting[1].remaining == 50)
        #expect(waiting[0].link == BlobLink(TestAgent.name("a-1"), field: "photo"))
    }

    @Test("Another server's files: one update replaces all placeholders of a record, when the last file is there, once")
    func reconcile() throws {
        let agent = try TestAgent()
        let first = try add(agent, "a").row, second = try add(agent, "b").row
        _ = try show(agent, [("before", first.id), ("after", second.id)])
        _ = try agent.store.claim(limits, at: agent.now)
        #expect(try uploaded(agent, first.id, url: "https://files/1") == false)
        #expect(try uploaded(agent, second.id, url: "https://files/2") == true)
        let document = try view(agent)
        for (field, url) in [("before", "https://files/1"), ("after", "https://files/2")] {
            #expect(document[field]?.object?["state"]?.text == "uploaded")
            #expect(document[field]?.object?["remote_url"]?.text == url)
        }
        let open = try agent.store.reads.record(TestAgent.name("a-1"))?.pending ?? []
        #expect(open.count == 2)
        // The same word twice changes nothing.
        #expect(try uploaded(agent, second.id, url: "https://files/2") == false)
        #expect(try agent.store.reads.record(TestAgent.name("a-1"))?.pending == open)
    }

    @Test("A parked file is tried again after a day, or by word; progress survives a crash")
    func parked() throws {
        let agent = try TestAgent()
        let blob = try add(agent, "a").row
        var progress = UploadProgress()
        progress.offset = 400
        progress.attempts = 5
        progress.url = "https://h/1"
        let problem = Problem("no-progress", status: 502, detail: "the server answered 500")
        try agent.store.parkUpload(blob.id, problem, progress, note: "{}", at: agent.now)
        try agent.crash()
        let parked = try #require(try agent.store.reads.blob(blob.id))
        #expect(parked.state == .failed && parked.progress.error == "the server answered 500" && parked.progress.offset == 400)
        #expect(try agent.store.reads.waitingBlobs(limit: 10).isEmpty)
        #expect(try agent.store.rearmBlobs(nil, isDueOnly: true, at: agent.now).isEmpty)
        agent.wait(.seconds(86_401))
        let again = try agent.store.rearmBlobs(nil, isDueOnly: true, at: agent.now)
        #expect(again.map(\.id) == [blob.id] && again[0].progress.attempts == 0 && again[0].progress.offset == 400)
        try agent.store.parkUpload(blob.id, problem, progress, note: "{}", at: agent.now)
        #expect(try agent.store.rearmBlobs(blob.id, isDueOnly: false, at: agent.now).count == 1)
    }

    @Test("A file that an open mutation shows cannot be removed; afterwards it goes with its row")
    func remove() throws {
        let agent = try TestAgent()
        let blob = try add(agent, "a").row
        let made = try show(agent, [("photo", blob.id)])
        #expect { try agent.store.removeBlob(blob.id, at: agent.now) } throws: { ($0 as? StoreError)?.problem?.status == 409 }
        _ = try agent.store.cancel(made.key, at: agent.now)
        #expect(try agent.store.removeBlob(blob.id, at: agent.now) == (blob.digest, .forgotten))
        #expect(try agent.store.reads.blob(blob.id) == nil)
        #expect { try agent.store.removeBlob(blob.id, at: agent.now) } throws: { ($0 as? StoreError)?.problem?.status == 404 }
    }

    /// A way in which a record comes to show a file, and whether the file may then be removed without force.
    struct Holder: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var mayGo: Bool
        var isEvent = false
        var apply: @Sendable (TestAgent, MutationKey) throws -> Void
    }

    static let holders: [Holder] = [
        Holder(testDescription: "the change waits", mayGo: false) { _, _ in },
        Holder(testDescription: "the change is in flight", mayGo: false) { agent, _ in _ = try agent.claim() },
        Holder(testDescription: "the hub has the record", mayGo: false) { agent, _ in try agent.drain() },
        Holder(testDescription: "the change was refused", mayGo: false) { agent, key in
            _ = try agent.claim()
            try agent.answer(.rejected(key))
        },
        Holder(testDescription: "the change was refused and given up", mayGo: true) { agent, key in
            _ = try agent.claim()
            try agent.answer(.rejected(key))
            try agent.store.discard(key, reason: "", uid: 0, at: agent.now)
        },
        Holder(testDescription: "the change was taken back", mayGo: true) { agent, key in _ = try agent.store.cancel(key, at: agent.now) },
        Holder(testDescription: "the hub has the record, and another file took the place", mayGo: true) { agent, _ in
            try agent.drain()
            try agent.update("a-1", ["photo": "none"])
            try agent.drain(from: 200)
        },
        Holder(testDescription: "another file is to take the place, and the hub has not heard of it", mayGo: false) { agent, _ in
            try agent.drain()
            try agent.update("a-1", ["photo": "none"])
        },
        Holder(testDescription: "the record is deleted at the hub", mayGo: true) { agent, _ in
            try agent.drain()
            try agent.pull([], deleted: [("a-1", 300)])
        },
        Holder(testDescription: "the hub has an event", mayGo: false, isEvent: true) { agent, _ in try agent.drain() },
        Holder(testDescription: "an event was taken back", mayGo: true, isEvent: true) { agent, key in
            _ = try agent.store.cancel(key, at: agent.now)
        },
    ]

    @Test("A file that a record still waits for is not removed before its bytes are at the server", arguments: holders)
    func linked(_ holder: Holder) throws {
        let agent = try TestAgent()
        let blob = try add(agent, "a").row
        var mutation =
            holder.isEvent
            ? TestAgent.mutation(.create, nil, ["n": 1], entity: "reading") : TestAgent.mutation(.create, "a-1", ["n": 1])
        mutation.blobs = [.object(["field": .string("photo"), "blob": .string(blob.id.description)])]
        let made = try agent.enqueue(mutation)
        try holder.apply(agent, made.key)
        guard !holder.mayGo else {
            #expect(try agent.store.removeBlob(blob.id, at: agent.now) == (blob.digest, .forgotten))
            return
        }
        let problem = StoreError.problem { _ = try agent.store.removeBlob(blob.id, at: agent.now) }
        #expect(problem?.code == "linked" && problem?.status == 409 && problem?.members["blob"]?.text == "b-1")
        #expect(problem?.members["mutation"] != nil || problem?.members["record_id"] != nil)
        #expect(try agent.store.reads.blob(blob.id)?.state == .pending)
        // By force the loss is told, and stays told.
        #expect(
            try agent.store.removeBlob(blob.id, isForced: true, why: "removed by uid 7", note: "{}", at: agent.now) == (blob.digest, .lost))
        let lost = try #require(try agent.store.reads.blob(blob.id))
        #expect(lost.state == .missing && !lost.hasFile && lost.progress.error == "removed by uid 7" && !lost.links.isEmpty)
        #expect(try agent.store.reads.blobCounts().missing == 1)
        // The same bytes heal it.
        let again = try add(agent, "a").row
        #expect(again.id == blob.id && again.state == .pending)
        // With the bytes at the server nothing is lost by the removal.
        _ = try uploaded(agent, blob.id)
        let isOpen = try agent.state(made.key).map { !$0.isTerminal } ?? false
        #expect(try agent.store.removeBlob(blob.id, isForced: isOpen, at: agent.now).removal == (isOpen ? .dropped : .forgotten))
        #expect(try agent.store.verify() == [])
    }

    @Test("Bytes that are lost are said to be missing, and a file that is added again heals that")
    func missing() throws {
        let agent = try TestAgent()
        let blob = try add(agent, "a").row
        try agent.store.loseBlob(blob.id, why: "gone", note: "{}", at: agent.now)
        #expect(try agent.store.reads.blobCounts().missing == 1)
        #expect(try agent.store.reads.keptDigests().isEmpty)
        let again = try add(agent, "a")
        #expect(again.row.id == blob.id && again.row.state == .pending)
        #expect(try agent.store.reads.waitingBlobs(limit: 10).map(\.id) == [blob.id])
    }

    @Test("Uploaded files are kept for their time, or for as long as there is room, and their rows for longer")
    func prune() throws {
        let agent = try TestAgent()
        let blob = try add(agent, "a").row, waiting = try add(agent, "b").row
        _ = try uploaded(agent, blob.id)
        #expect(try agent.store.pruneBlobs(isShort: false, at: agent.now).isEmpty)
        #expect(try agent.store.pruneBlobs(isShort: true, at: agent.now) == [blob.digest])
        agent.wait(.seconds(8 * 86_400))
        #expect(try agent.store.pruneBlobs(isShort: false, at: agent.now).isEmpty)
        #expect(try agent.store.reads.blob(blob.id)?.hasFile == false)
        #expect(try agent.store.reads.blob(waiting.id)?.hasFile == true)
    }

    @Test("The row of a file that is at the server goes 90 days after its bytes, unless a waiting change shows it")
    func forget() throws {
        let agent = try TestAgent()
        let blob = try add(agent, "a").row, shown = try add(agent, "b").row, waiting = try add(agent, "c").row
        let lost = try add(agent, "d").row, last = try add(agent, "e").row
        _ = try show(agent, [("photo", shown.id)])
        for id in [blob.id, shown.id, last.id] { _ = try uploaded(agent, id) }
        try agent.store.loseBlob(lost.id, why: "gone", note: "{}", at: agent.now)
        #expect(try agent.store.pruneBlobs(isShort: true, at: agent.now).count == 3)
        func there() throws -> [BlobID] {
            try [blob, shown, waiting, lost, last].map(\.id).filter { try agent.store.reads.blob($0) != nil }
        }
        agent.wait(.seconds(90 * 86_400))
        _ = try agent.store.pruneBlobs(isShort: false, at: agent.now)
        #expect(try there().count == 5)
        agent.wait(.seconds(8 * 86_400))
        _ = try agent.store.pruneBlobs(isShort: false, at: agent.now)
        #expect(try there() == [shown, waiting, lost, last].map(\.id))
        // The same bytes are another file then.
        #expect(try add(agent, "a").row.id > last.id)
        #expect(try agent.store.verify() == [])
    }

    @Test("An upload's offset never leaves the file, whatever is written")
    func clamps() throws {
        let agent = try TestAgent()
        let blob = try add(agent, "a").row
        for offset in [-5, 2_000, Int64.max, .min] {
            var progress = UploadProgress()
            progress.offset = offset
            try agent.store.saveUpload(blob.id, progress, note: nil, at: agent.now)
            #expect((0...1_000).contains(try #require(try agent.store.reads.blob(blob.id)).progress.offset))
        }
    }
}
