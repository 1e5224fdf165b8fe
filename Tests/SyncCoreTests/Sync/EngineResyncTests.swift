import SyncCore
import Testing

private typealias Rig = EngineRig

/// PROTOCOL A6 and A8: listings, comparisons, and a hub with another history, as the engine decides them.
@Suite("Engine: listings and histories")
struct EngineResyncTests {
    /// At its streams, after the greeting.
    private func atStreams(
        _ streams: [StreamPosition], hello: HTTPResponse = Rig.hello(), settings: SyncEngine.Settings = .init(),
        memory: EngineMemory = EngineMemory(epoch: Rig.hub)
    ) -> EngineRig {
        var rig = Rig(settings: settings)
        rig.start(memory: memory)
        rig.wake()
        rig.answer(hello)
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams(streams))
        return rig
    }

    private static let digesting = Rig.ok(
        Array(#"{"device_id":"gw","epoch":"\#(Rig.hub)","head":10,"device_seq":0,"capabilities":["digest"]}"#.utf8))

    // MARK: - Listings

    @Test("Listings come before feeds, go on where they were, and what they end with is pulled at once")
    func listing() throws {
        var rig = atStreams([Rig.position(Rig.sites, "s1"), Rig.listing(Rig.works, after: "w-5", buckets: [7, 203])])
        #expect(rig.call?.method == .get)
        #expect(rig.call?.target == "/v1/sync/snapshot?entity=works&limit=1000&after=w-5&bucket=7,203&max_bytes=65536")
        // Ids of the buckets that were asked for, in order.
        let ids = (1_000..<5_000).map { "x-\($0)" }.filter { [7, 203].contains(EntityDigest.bucket(of: RecordID(trusted: $0))) }.prefix(2)
        rig.answer(Rig.snapshot(Rig.works, Array(ids), hasMore: true))
        guard case .applySnapshot(let page)? = rig.command else {
            Issue.record("the page was to be stored")
            return
        }
        #expect(ids.count == 2 && page.records.map(\.id.text) == Array(ids))
        rig.stored(.snapshotApplied(PullSummary(), Rig.listing(Rig.works, after: "w-7", buckets: [7, 203])))
        #expect(rig.call?.query?.contains("after=w-7") == true)
        rig.answer(Rig.snapshot(Rig.works, []))
        rig.stored(.snapshotApplied(PullSummary(), Rig.position(Rig.works, "n1")))
        #expect(rig.asked == "pull")
        let streams = try JSONReader.read(try #require(rig.call).body).object?["streams"]
        #expect(streams == [["entity": "sites", "cursor": "s1"], ["entity": "works", "cursor": "n1"]])
    }

    private static let naming = Rig.ok(
        Array(#"{"device_id":"gw","epoch":"\#(Rig.hub)","head":10,"device_seq":0,"capabilities":["unreadable"]}"#.utf8))

    private static func left(_ ids: [String], records: [String] = [], hasMore: Bool = false) -> HTTPResponse {
        var page = SnapshotPage(
            entity: Rig.works, startCursor: "s", startVersion: 1, records: records.map { Rig.record($0, version: 1) },
            after: (ids + records).max().map { RecordID(trusted: $0) }, hasMore: hasMore)
        page.unreadable = ids.map { RecordID(trusted: $0) }
        return Rig.ok(SnapshotMessages.response(page))
    }

    @Test("A hub that says so leaves a damaged record out of a listing; it is told until it comes")
    func unreadable() throws {
        var rig = atStreams([Rig.listing(Rig.works, after: "w-5")], hello: Self.naming)
        #expect(rig.call?.target == "/v1/sync/snapshot?entity=works&limit=1000&after=w-5&unreadable=named&max_bytes=65536")
        rig.answer(Self.left(["w-6", "w-8"], records: ["w-7"], hasMore: true))
        guard case .applySnapshot(let page)? = rig.command else {
            Issue.record("the page was to be stored")
            return
        }
        #expect(page.unreadable.map(\.text) == ["w-6", "w-8"] && page.records.map(\.id.text) == ["w-7"])
        #expect(page.leftOut?.json.json == #"{"works":["w-6","w-8"]}"#, "it is kept with the page")
        #expect(rig.engine.leftOutRecords.sentence == "2 of works (w-6, w-8)")
        rig.stored(.snapshotApplied(PullSummary(), Rig.position(Rig.works, "n1")))
        #expect(try JSONReader.read(try #require(rig.call).body).object?["unreadable"] == "named")
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "n2", records: [Rig.record("w-6", version: 20)])]))
        #expect(rig.engine.leftOutRecords.sentence == "1 of works (w-8)")
        guard case .applyPull(let pulled)? = rig.command else {
            Issue.record("the page was to be stored")
            return
        }
        #expect(pulled.leftOut?.sentence == "1 of works (w-8)")
    }

    @Test(
        "A restart keeps the report of skipped records while their entity is read; a page without them writes nothing")
    func restartKeepsTheReportOfSkippedRecords() {
        var memory = EngineMemory(epoch: Rig.hub)
        memory.leftOut = LeftOutRecords(["works": ["w-1", "w-7"], "gone": ["g-1"], "no name": [1], "sites": "s"])
        #expect(memory.leftOut.sentence == "1 of gone (g-1), 2 of works (w-1, w-7)")
        func told(_ rig: EngineRig) -> [String] {
            rig.reports.compactMap { if case .recordsLeftOut(let records) = $0 { records.sentence } else { nil } }
        }
        var rig = EngineRig()
        rig.start(memory: memory)
        #expect(told(rig) == ["1 of gone (g-1), 2 of works (w-1, w-7)"])
        rig = atStreams([Rig.position(Rig.works, "w1"), Rig.position(Rig.sites, "s1")], memory: memory)
        #expect(told(rig).last == "2 of works (w-1, w-7)")
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "w2", records: [Rig.record("w-9", version: 20)])]))
        guard case .applyPull(let pulled)? = rig.command else {
            Issue.record("the page was to be stored")
            return
        }
        #expect(pulled.leftOut == nil && rig.engine.leftOutRecords.sentence == "2 of works (w-1, w-7)")
    }

    @Test("A page names only records that belong to it", arguments: [["w-5"], ["w-8", "w-6"], ["w-7"], ["w-6", "w-6"]])
    func unreadableElsewhere(_ ids: [String]) {
        var rig = atStreams([Rig.listing(Rig.works, after: "w-5")], hello: Self.naming)
        rig.answer(Self.left(ids, records: ["w-7"]))
        rig.goOnWithoutIt()
    }

    @Test("A hub without the capability is not asked for anything that it may not know")
    func unreadableUnasked() {
        let rig = atStreams([Rig.listing(Rig.works)])
        #expect(rig.call?.target == "/v1/sync/snapshot?entity=works&limit=1000&max_bytes=65536")
    }

    @Test("Skipped records are known by their place: a page that is read again speaks only for its own range and buckets")
    func pageSpeaksOnlyForItsOwnRange() {
        var known = LeftOutRecords()
        func page(_ ids: [String], end: String?) -> SnapshotPage {
            var page = SnapshotPage(
                entity: Rig.works, startCursor: "s", startVersion: 1, records: [], after: end.map { RecordID(trusted: $0) },
                hasMore: end != nil)
            page.unreadable = ids.map { RecordID(trusted: $0) }
            return page
        }
        #expect(known.record(page(["a", "c"], end: "c"), after: nil, only: nil) == true)
        #expect(known.record(page(["e"], end: nil), after: RecordID(trusted: "c"), only: nil) == true)
        #expect(known.sentence == "3 of works (a, c, e)")
        #expect(known.record(page([], end: nil), after: RecordID(trusted: "c"), only: nil) == true)
        #expect(known.sentence == "2 of works (a, c)")
        let bucket = EntityDigest.bucket(of: RecordID(trusted: "a"))
        #expect(known.record(page([], end: nil), after: nil, only: [bucket]) == true)
        #expect(known.sentence == "1 of works (c)")
        #expect(known.record(page([], end: nil), after: nil, only: nil) == true)
        #expect(known.isEmpty && known.record(page([], end: nil), after: nil, only: nil) == false)
        // Records beyond the limit are missing in the sentence, and the count stays right.
        #expect(known.record(page((0..<1_500).map { "r-\(10_000 + $0)" }, end: nil), after: nil, only: nil) == true)
        #expect(known.sentence.hasPrefix("1000 of works (r-10000, "))
        #expect(known.record(page([], end: nil), after: nil, only: nil) == true)
        #expect(known.isEmpty)
    }

    @Test("A listing that stands still, goes back or is of something else is nonsense", arguments: [0, 1, 2, 3, 4])
    func badListing(_ kind: Int) {
        var rig = atStreams([
            Rig.listing(Rig.works, after: "w-5", buckets: kind == 4 ? [EntityDigest.bucket(of: RecordID(trusted: "w-7")) ^ 1] : nil)
        ])
        switch kind {
        case 0: rig.answer(Rig.snapshot(Rig.works, ["w-5"], hasMore: true))
        case 1: rig.answer(Rig.snapshot(Rig.works, ["w-7", "w-6"]))
        case 2: rig.answer(Rig.snapshot(Rig.sites, ["w-7"]))
        case 4: rig.answer(Rig.snapshot(Rig.works, ["w-7"]))
        default:
            var page = SnapshotPage(entity: Rig.works, startCursor: "s", startVersion: 1, records: [], after: nil, hasMore: true)
            page.after = RecordID(trusted: "w-4")
            rig.answer(Rig.ok(SnapshotMessages.response(page)))
        }
        rig.goOnWithoutIt()
        #expect(rig.outcome?.errorKind == .nonsense)
    }

    // MARK: - Comparing

    private func due(_ entity: EntityName, _ fullSync: StreamPosition.FullSync = .due) -> StreamPosition {
        var position = Rig.position(entity)
        position.fullSync = fullSync
        return position
    }

    @Test("A due entity is compared after its feed was read; without differences nothing is listed")
    func compared() throws {
        var rig = atStreams([due(Rig.works)], hello: Self.digesting)
        rig.answer(Rig.pull())
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "digest")
        var digest = EntityDigest()
        digest.add(RecordID(trusted: "w-1"), version: 3)
        rig.stored(.digest(digest))
        let asked = try VerifyMessages.readRequest(try #require(rig.call).body)
        #expect(asked == VerifyRequest(entity: Rig.works, cursor: "c1", digest: digest))
        rig.answer(Rig.ok(VerifyMessages.response(VerifyResponse(differs: [], startCursor: "s", startVersion: 10))))
        guard case .recordComparison(Rig.works, differs: [], shareMark: nil)? = rig.command else {
            Issue.record("the comparison was to be stored")
            return
        }
        rig.stored(.done)
        #expect(rig.asked == "claim")
        #expect(rig.reports.contains(.compared(Rig.works, differing: 0)))
    }

    @Test("Differing buckets are listed in the same cycle")
    func differs() {
        var rig = atStreams([due(Rig.works)], hello: Self.digesting)
        rig.answer(Rig.pull())
        rig.stored(.pullApplied(PullSummary()))
        rig.stored(.digest(EntityDigest()))
        rig.answer(Rig.ok(VerifyMessages.response(VerifyResponse(differs: [7], startCursor: "s", startVersion: 10))))
        rig.stored(.done)
        #expect(rig.asked == "loadStreams")
        rig.stored(.streams([Rig.listing(Rig.works, buckets: [7])]))
        #expect(rig.call?.query?.contains("bucket=7") == true)
    }

    @Test("A hub that cannot compare is listed whole, once in a cycle")
    func withoutDigest() {
        var rig = atStreams([due(Rig.works)])
        guard case .restartStreams([Rig.works])? = rig.command else {
            Issue.record("a restart was expected")
            return
        }
        rig.stored(.done)
        rig.stored(.streams([due(Rig.works)]))
        #expect(rig.asked == "pull")
    }

    struct Terms: Sendable {
        var fullSync: StreamPosition.FullSync
        var isMetered = false
        var power = PowerLevel.ample
        var compares: Bool
    }

    @Test(
        "The weekly comparison waits for a link and for power that cost nothing, after a month for nothing",
        arguments: [
            Terms(fullSync: .notDue, compares: false), Terms(fullSync: .due, compares: true),
            Terms(fullSync: .due, power: .saver, compares: false), Terms(fullSync: .overdue, power: .saver, compares: true),
        ])
    func waits(_ terms: Terms) {
        var rig = Rig()
        rig.start()
        var conditions = Conditions(reachability: .connecting, uplink: Uplink(name: "eth0", isMetered: terms.isMetered))
        conditions.power = terms.power
        rig.handle(.conditions(conditions))
        rig.wake()
        rig.answer(Self.digesting)
        while rig.asked == "loadInFlight" { rig.stored(.batch(nil, retryAt: nil)) }
        rig.stored(.streams([due(Rig.works, terms.fullSync)]))
        rig.answer(Rig.pull())
        rig.stored(.pullApplied(PullSummary()))
        #expect((rig.asked == "digest") == terms.compares)
    }

    // MARK: - Another history

    /// Returns an engine at its first question which mutations the hub knows.
    private func restored() -> EngineRig {
        var rig = Rig()
        rig.start(maxSentSeq: 900)
        rig.wake()
        rig.answer(Rig.hello(epoch: "b000"))
        #expect(rig.asked == "loadSettled")
        return rig
    }

    private func ok(_ body: [UInt8]) -> HTTPResponse { Rig.ok(body, epoch: "b000") }

    @Test("Mutations that the hub forgot are in flight again and settled before any pull; then the new history is adopted")
    func healed() throws {
        var rig = restored()
        let keys = (1...3).map { Rig.mutation($0).key }
        rig.stored(.settled(keys, upTo: 7))
        #expect(try KnownMessages.readRequest(try #require(rig.call).body) == keys)
        rig.answer(ok(KnownMessages.response(unknown: [keys[2], keys[0], MutationKey(trusted: "never-asked")])))
        guard case .requeue(let unknown)? = rig.command else {
            Issue.record("they were to be offered again")
            return
        }
        #expect(unknown == [keys[0], keys[2]], "in the order of seq, and nothing that was not asked about")
        rig.stored(.requeued(2))
        guard case .loadSettled(after: 7)? = rig.command else {
            Issue.record("the rest was to be asked about")
            return
        }
        rig.stored(.settled([], upTo: 7))
        #expect(rig.asked == "forgetHistory")
        rig.stored(.historyForgotten(more: true))
        #expect(rig.asked == "forgetHistory")
        rig.stored(.historyForgotten(more: false))
        #expect(rig.remembered?.epoch == "b000" && rig.remembered?.healing == nil)
        rig.stored(.done)
        #expect(rig.asked == "loadInFlight")
        rig.stored(.batch(Rig.batch(1...3), retryAt: nil))
        #expect(rig.asked == "settle")
        #expect(rig.reports.contains(.historyAdopted(epoch: "b000", requeued: 2)))
    }

    @Test("An older copy of the hub that takes its place while it is asked is asked about everything; two that take turns end the cycle")
    func olderCopyWhileAsked() {
        var rig = restored()
        rig.stored(.settled([Rig.mutation(1).key], upTo: 5))
        rig.answer(Rig.ok(KnownMessages.response(unknown: []), head: 12, epoch: "b000"))
        rig.stored(.settled([Rig.mutation(6).key], upTo: 9))
        rig.answer(Rig.ok(KnownMessages.response(unknown: []), head: 7, epoch: "b000"))
        guard case .loadSettled(after: 0)? = rig.command else {
            Issue.record("what the copy knows is not what the hub knew")
            return
        }
        rig.stored(.settled([Rig.mutation(1).key, Rig.mutation(6).key], upTo: 9))
        rig.answer(Rig.ok(KnownMessages.response(unknown: []), head: 6, epoch: "b000"))
        #expect(rig.asked != "loadSettled" && rig.engine.memory.healing?.askedSeq == 0)
        #expect(rig.engine.memory.epoch == Rig.hub, "and the history is not ours yet")
    }

    @Test("A break in the middle goes on with what was not asked about yet, and another history begins anew")
    func interrupted() {
        var rig = restored()
        rig.stored(.settled([Rig.mutation(1).key], upTo: 5))
        rig.answer(ok(KnownMessages.response(unknown: [])))
        rig.stored(.settled([Rig.mutation(6).key], upTo: 9))
        rig.fail()
        #expect(rig.remembered?.healing?.epoch == "b000" && rig.remembered?.healing?.askedSeq == 5)
        #expect(rig.remembered?.epoch == Rig.hub)
        rig.keepHouse()
        rig.begin()
        rig.answer(Rig.hello(epoch: "b000"))
        guard case .loadSettled(after: 5)? = rig.command else {
            Issue.record("it was to go on after 5")
            return
        }
        rig.stored(.failed("disk full"))
        rig.keepHouse()
        rig.begin()
        rig.answer(Rig.hello(epoch: "c000"))
        guard case .loadSettled(after: 0)? = rig.command else {
            Issue.record("another history knows other things")
            return
        }
    }

    @Test("The hub that we knew comes back: what was asked of the other one meanwhile counts for nothing")
    func cameBack() {
        var rig = restored()
        rig.stored(.settled([Rig.mutation(1).key], upTo: 5))
        rig.answer(ok(KnownMessages.response(unknown: [])))
        rig.stored(.failed("disk full"))
        rig.keepHouse()
        rig.begin()
        rig.answer(Rig.hello())
        #expect(rig.asked == "loadInFlight")
        #expect(rig.engine.memory.healing == nil)
    }

    @Test("Two hubs that take turns are an error, not work for ever")
    func turns() {
        var rig = restored()
        rig.stored(.settled([Rig.mutation(1).key], upTo: 5))
        rig.answer(Rig.ok(KnownMessages.response(unknown: []), epoch: "c000"))
        rig.keepHouse()
        #expect(rig.outcome?.errorKind == .gone)
        #expect(rig.engine.memory.epoch == Rig.hub)
    }

    @Test("Databases that use our name in turns are reported, and so is their end")
    func twins() {
        var rig = Rig.settled()
        for (twins, expected) in [(Int64(2), 1), (2, 1), (0, 2)] {
            rig.handle(.requested(SyncRequest()))
            rig.begin()
            rig.stored(.batch(nil, retryAt: nil))
            rig.stored(.streams([Rig.position(Rig.works)]))
            var response = Rig.pull()
            if twins > 0 { response.headers["Sync-Twins"] = String(twins) }
            rig.answer(response)
            rig.stored(.pullApplied(PullSummary()))
            rig.stored(.batch(nil, retryAt: nil))
            rig.keepHouse()
            let told = rig.reports.filter { if case .twins = $0 { true } else { false } }
            #expect(told.count == expected)
        }
        #expect(rig.engine.twins == 1)
    }
}
