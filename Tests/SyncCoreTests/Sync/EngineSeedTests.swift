import SyncCore
import Testing

private typealias Rig = EngineRig

/// PROTOCOL A8, "first-sync seeding": reference data, then what this device needs, then everything.
@Suite("Engine: what a new device needs first")
struct EngineSeedTests {
    private static let templates = EntityName(trusted: "templates")

    private static func seed(after: String? = nil) -> StreamPosition {
        var position = Rig.position(Rig.works, nil)
        position.seed = StreamPosition.Seed(after: after.map { RecordID(trusted: $0) })
        return position
    }

    private static func reference(_ cursor: String?) -> StreamPosition {
        var position = Rig.position(templates, cursor)
        position.isReference = true
        return position
    }

    private func atStreams(_ streams: [StreamPosition]) -> EngineRig {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.answer(Rig.hello())
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams(streams))
        return rig
    }

    private func asked(_ rig: EngineRig) throws -> JSON? {
        try JSONReader.read(try #require(rig.call).body).object?["streams"]
    }

    private func isLoadingStreams(_ rig: EngineRig) -> Bool {
        if case .loadStreams? = rig.command { true } else { false }
    }

    @Test("Reference data is pulled alone, then pages of the filter, each stored before the next, then all feeds")
    func order() throws {
        var rig = atStreams([Self.reference(nil), Rig.position(Rig.sites, nil), Self.seed()])
        #expect(rig.asked == "pull")
        #expect(try asked(rig) == [["entity": "templates", "cursor": nil]])
        rig.answer(Rig.pull([Rig.page(Self.templates, cursor: "t1")]))
        rig.stored(.pullApplied(PullSummary()))
        #expect(isLoadingStreams(rig))
        rig.stored(.streams([Self.reference("t1"), Rig.position(Rig.sites, nil), Self.seed()]))
        #expect(rig.call?.target == "/v1/sync/snapshot?entity=works&limit=1000&filter=seed&max_bytes=65536")
        rig.answer(Rig.snapshot(Rig.works, ["w-3", "w-9"], hasMore: true))
        guard case .applySnapshot(let page)? = rig.command else {
            Issue.record("the page was to be stored")
            return
        }
        #expect(page.isSeed && page.records.map(\.id.text) == ["w-3", "w-9"])
        rig.stored(.snapshotApplied(PullSummary(), Self.seed(after: "w-9")))
        #expect(isLoadingStreams(rig))
        rig.stored(.streams([Self.reference("t1"), Rig.position(Rig.sites, nil), Self.seed(after: "w-9")]))
        #expect(rig.call?.target == "/v1/sync/snapshot?entity=works&limit=1000&after=w-9&filter=seed&max_bytes=65536")
        rig.answer(Rig.snapshot(Rig.works, []))
        rig.stored(.snapshotApplied(PullSummary(), Rig.position(Rig.works, nil)))
        rig.stored(.streams([Self.reference("t1"), Rig.position(Rig.sites, nil), Rig.position(Rig.works, nil)]))
        #expect(rig.asked == "pull")
        #expect(
            try asked(rig) == [
                ["entity": "templates", "cursor": "t1"], ["entity": "sites", "cursor": nil], ["entity": "works", "cursor": nil],
            ])
    }

    @Test("Reference data that cannot be read holds up nothing else")
    func unreadableReference() throws {
        var rig = atStreams([Self.reference(nil), Self.seed()])
        rig.answer(
            Rig.pull([], errors: [StreamError(entity: Self.templates, problem: Problem("forbidden", status: 403, detail: "not yours"))]))
        rig.stored(.pullApplied(PullSummary()))
        rig.stored(.streams([Self.reference(nil), Self.seed()]))
        #expect(rig.call?.query?.contains("filter=seed") == true)
    }

    @Test("A hub that wants a pause after the reference data is asked for nothing more in that cycle")
    func pause() {
        var rig = atStreams([Self.reference(nil), Self.seed()])
        var answer = Rig.pull([Rig.page(Self.templates, cursor: "t1")])
        answer.headers["RateLimit"] = #""default";r=0;t=30"#
        rig.answer(answer)
        rig.stored(.pullApplied(PullSummary()))
        #expect(!isLoadingStreams(rig))
        rig.keepHouse()
        #expect(rig.outcome != nil && rig.outcome?.error == nil)
    }

    @Test("Streams that are known already, or listed as a whole, are not asked for by the filter")
    func notNeeded() throws {
        var rig = atStreams([Rig.position(Rig.sites, "s1"), Rig.position(Rig.works, "w1")])
        #expect(rig.asked == "pull")
        var listed = Self.seed()
        listed.listing = StreamPosition.Listing()
        rig = atStreams([listed])
        #expect(rig.call?.target == "/v1/sync/snapshot?entity=works&limit=1000&max_bytes=65536")
    }

    @Test("A page that goes back or is of something else is nonsense, and nothing of it is stored", arguments: [0, 1])
    func nonsense(_ kind: Int) {
        var rig = atStreams([Self.seed(after: "w-5")])
        rig.answer(kind == 0 ? Rig.snapshot(Rig.works, ["w-4"]) : Rig.snapshot(Rig.sites, ["w-7"]))
        rig.goOnWithoutIt()
        #expect(rig.outcome?.errorKind == .nonsense)
    }
}
