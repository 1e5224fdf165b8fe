import SyncCore
import Testing

/// PROTOCOL A1, A2, A3, A8: the scopes of this device at the hub change.
@Suite("Scopes that change")
struct EngineShareTests {
    typealias Rig = EngineRig

    private static func rescoped(_ entity: EntityName) -> StreamError {
        StreamError(
            entity: entity,
            problem: Problem(Problem.scopeChanged, status: 410, detail: "other scopes", members: ["resync": "snapshot"]))
    }

    private static func marked(_ response: HTTPResponse, _ mark: String) -> HTTPResponse {
        var response = response
        response.headers[HubHeader.scopes] = mark
        return response
    }

    private static func hello(_ members: String) -> HTTPResponse {
        Rig.ok(Array(#"{"device_id":"gw","epoch":"\#(Rig.hub)","head":10,"device_seq":0,\#(members)}"#.utf8))
    }

    /// A cycle that is about to pull.
    private func pulling(
        _ streams: [StreamPosition], hello: HTTPResponse = Rig.hello(), memory: EngineMemory = EngineMemory(epoch: Rig.hub)
    ) -> EngineRig {
        var rig = Rig()
        rig.start(memory: memory)
        rig.wake()
        rig.answer(hello)
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams(streams))
        return rig
    }

    // Fault: records that were taken away stay in the mirror, or count as deleted.
    @Test("A cursor of other scopes makes the share be listed anew; one that is only too old is listed as before")
    func stream() {
        var rig = pulling([Rig.position(Rig.sites, "s1"), Rig.position(Rig.works, "c1")])
        rig.answer(Rig.pull(errors: [Self.rescoped(Rig.works)]))
        rig.stored(.pullApplied(PullSummary()))
        guard case .restartShares([Rig.works])? = rig.command else {
            Issue.record("the share was to be listed, not \(rig.asked ?? "nothing")")
            return
        }
        rig.stored(.done)
        rig.stored(.streams([Rig.listing(Rig.works)]))
        rig.answer(Rig.snapshot(Rig.works, ["w-1"], start: "n1"))
        rig.stored(.snapshotApplied(PullSummary(), Rig.position(Rig.works, "n1")))
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "n2", hasMore: true)]))
        rig.stored(.pullApplied(PullSummary()))
        rig.answer(Rig.pull(errors: [Rig.expired(Rig.works)]))
        rig.stored(.pullApplied(PullSummary()))
        guard case .restartStreams([Rig.works])? = rig.command else {
            Issue.record("an ordinary listing was expected, not \(rig.asked ?? "nothing")")
            return
        }
    }

    @Test("A refusal of the whole request with scope-changed makes the agent list the share")
    func refusedRequestListsTheShare() {
        var rig = pulling([Rig.position(Rig.sites, nil), Rig.position(Rig.works, "c1")])
        rig.answer(Rig.problem(410, Problem.scopeChanged))
        guard case .restartShares([Rig.works])? = rig.command else {
            Issue.record("the share was to be listed, not \(rig.asked ?? "nothing")")
            return
        }
    }

    @Test("A refusal of a comparison with scope-changed makes the agent list the share")
    func refusedComparisonListsTheShare() {
        var position = Rig.position(Rig.works)
        position.fullSync = .overdue
        var rig = pulling([position], hello: Self.hello(#""capabilities":["digest"]"#))
        rig.answer(Rig.pull())
        rig.stored(.pullApplied(PullSummary()))
        rig.stored(.digest(EntityDigest()))
        #expect(rig.asked == "verify")
        rig.answer(Rig.problem(410, Problem.scopeChanged))
        guard case .restartShares([Rig.works])? = rig.command else {
            Issue.record("the share was to be listed, not \(rig.asked ?? "nothing")")
            return
        }
    }

    /// An engine whose scopes have changed, and which has listed its share, an empty one, and pulls behind it.
    private func listedAnew() -> Rig {
        var rig = pulling([Rig.position(Rig.works, "c1")])
        rig.answer(Rig.pull(errors: [Self.rescoped(Rig.works)]))
        rig.stored(.pullApplied(PullSummary()))
        rig.stored(.done)
        rig.stored(.streams([Rig.listing(Rig.works)]))
        rig.answer(Rig.snapshot(Rig.works, [], start: "n1"))
        rig.stored(.snapshotApplied(PullSummary(), Rig.position(Rig.works, "n1")))
        return rig
    }

    // Fault: the share is listed without end, or a person is alarmed over an ordinary act of an operator.
    @Test("Scopes that change once more during the listing make the stream wait, without an alarm")
    func again() {
        var rig = listedAnew()
        rig.answer(Rig.pull(errors: [Self.rescoped(Rig.works)]))
        rig.goOnWithoutIt()
        let held = rig.reports.compactMap { report -> String? in
            if case .streamHeld(let entity, let detail, let isAlarm) = report { "\(entity) \(isAlarm) \(detail)" } else { nil }
        }
        #expect(held == ["works false the scopes of this device have changed again"])
    }

    // Fault: a scope that is lost, granted again and lost once more looks like a feed that leads in a circle. The device keeps what it has
    // lost for half a minute, and a person is alarmed.
    @Test("Reads that come to the same cursor once more are no circle, if each of them has come to its end")
    func backAndForth() {
        var rig = Rig()
        rig.start()
        for cursor in ["of one", "of both", "of one", "of both", "of one"] {
            rig.begin()
            if rig.asked == "hello" { rig.answer(Rig.hello()) }
            for _ in 0..<2 where rig.asked == "loadInFlight" { rig.stored(.batch(nil, retryAt: nil)) }
            rig.stored(.streams([Rig.position(Rig.works, "before")]))
            rig.answer(Rig.pull([Rig.page(Rig.works, cursor: cursor, hasMore: true)]))
            guard case .applyPull(let response)? = rig.command else {
                Issue.record("the page was to be stored, not \(rig.asked ?? "nothing")")
                return
            }
            #expect(response.pages.map(\.cursor) == [cursor])
            rig.stored(.pullApplied(PullSummary()))
            // Nothing has changed behind it, so the hub leaves the stream out.
            rig.answer(Rig.pull())
            rig.stored(.pullApplied(PullSummary()))
            rig.stored(.batch(nil, retryAt: nil))
            rig.keepHouse()
        }
        #expect(!rig.reports.contains { if case .streamHeld = $0 { true } else { false } })
    }

    // Fault: a change of the scopes after a listing without news counted as one during that listing. The cycle failed, and the log warned.
    @Test("Scopes that change again after a pull without news are listed at once")
    func againLater() {
        var rig = listedAnew()
        rig.idleCycle()
        rig.handle(.requested(SyncRequest(isForced: true)))
        rig.begin()
        for _ in 0..<6 where rig.asked != "pull" {
            switch rig.asked {
            case "hello": rig.answer(Rig.hello())
            case "loadStreams": rig.stored(.streams([Rig.position(Rig.works, "n1")]))
            default: rig.stored(.batch(nil, retryAt: nil))
            }
        }
        rig.answer(Rig.pull(errors: [Self.rescoped(Rig.works)]))
        rig.stored(.pullApplied(PullSummary()))
        guard case .restartShares([Rig.works])? = rig.command else {
            Issue.record("the share was to be listed, not \(rig.asked ?? "nothing")")
            return
        }
    }

    // MARK: Hello

    // Fault: status and doctor tell scopes of another day.
    @Test("A hello tells scopes, roles and entities; the next one replaces them")
    func greeting() {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.answer(Self.hello(#""scopes":{"site":["s-3","s-4"]},"roles":["inspector"],"entities":["works"]"#))
        #expect(rig.engine.memory.share == DeviceShare(scopes: [.init("site", ["s-3", "s-4"])], roles: ["inspector"]))
        #expect(rig.engine.memory.hubEntities == [Rig.works])
        rig.idleCycle()
        rig.handle(.settings(SyncEngine.Settings()))
        rig.begin()
        #expect(rig.asked == "hello")
        rig.answer(Rig.hello())
        #expect(rig.engine.memory.share == nil)
    }

    // Fault: a device learns of a new grant only with its next periodic pull, or never tells its new scopes.
    @Test("A new mark of the scopes brings a hello and a pull within two seconds, whatever the hub's head is")
    func mark() {
        let batch = Rig.batch(1...1)
        var rig = Rig.pushing(batch)
        rig.answer(Self.marked(Rig.push(Rig.accepted(batch)), "m1"))
        rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil))
        rig.keepHouse()
        #expect(rig.untilWake.map { $0 <= .seconds(2) } == true)
        #expect(rig.engine.isShareOld)
        rig.begin()
        #expect(rig.asked == "hello" && !rig.engine.isShareOld)
        rig.answer(Self.marked(Rig.hello(head: 11), "m1"))
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadStreams")
        rig.stored(.streams([Rig.position(Rig.works)]))
        // A hub whose mark changes with every answer does not keep the device busy.
        rig.answer(Self.marked(Rig.pull(head: 11), "m2"))
        rig.stored(.pullApplied(PullSummary()))
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        #expect(rig.untilWake.map { $0 > .seconds(5) } == true)
    }

    @Test("The mark of the first hello is stored, and the same mark means nothing")
    func sameMark() {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.answer(Self.marked(Rig.hello(), "m1"))
        #expect(rig.engine.memory.shareMark == "m1")
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Self.marked(Rig.pull(), "m1"))
        rig.stored(.pullApplied(PullSummary()))
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        #expect(rig.untilWake.map { $0 > .seconds(5) } ?? true)
    }

    /// A device whose push was answered under the scopes `m1`, and whose next pull is answered under others.
    private func pulled(under mark: String) -> EngineRig {
        let batch = Rig.batch(1...1)
        var rig = Rig.pushing(batch)
        rig.answer(Self.marked(Rig.push(Rig.accepted(batch)), "m1"))
        guard case .applyResults(_, _, _, writtenUnder: ["m1"])? = rig.command else {
            Issue.record("the mark was to be stored with the verdicts, not \(rig.asked ?? "nothing")")
            return rig
        }
        rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil))
        rig.keepHouse()
        rig.begin()
        rig.answer(Self.marked(Rig.hello(head: 11), mark))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.sites, "s1"), Rig.position(Rig.works, "c1")]))
        rig.answer(Self.marked(Rig.pull(head: 11), mark))
        return rig
    }

    // Fault: a record that a verdict has shown stays in the mirror, because the cursors know neither its scope nor that it is lost.
    @Test("After verdicts under scopes that the next pull is not made under any more, the share is listed anew, once")
    func lostBetweenPulls() {
        var rig = pulled(under: "m2")
        guard case .restartShares([Rig.sites, Rig.works])? = rig.command else {
            Issue.record("the share was to be listed, not \(rig.asked ?? "nothing")")
            return
        }
        #expect(rig.engine.memory.writtenUnder == ["m1"], "a failure of the store must not forget it")
        rig.stored(.done)
        #expect(rig.engine.memory.writtenUnder == [])
        rig.stored(.streams([Rig.listing(Rig.works)]))
        rig.answer(Self.marked(Rig.snapshot(Rig.works, [], start: "n1"), "m2"))
        rig.stored(.snapshotApplied(PullSummary(), Rig.position(Rig.works, "n1")))
        rig.answer(Self.marked(Rig.pull(head: 11), "m2"))
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "claim")
        #expect(rig.engine.memory.readUnder == "m2")
    }

    // Fault: the record was there before, and others changed it after this device, so the feed of the hub cannot name it.
    @Test("A verdict that shows a record is stored with its mark, although the last pull had the same")
    func shownRecord() {
        var rig = pulled(under: "m1")
        rig.stored(.pullApplied(PullSummary()))
        let batch = Rig.batch(2...2)
        rig.stored(.batch(batch, retryAt: nil))
        var shown = Rig.accepted(batch)
        shown[0].verdict = .accepted(version: 12, serverID: nil, record: HubRecord(version: 12, data: ["v": 1]), merged: [])
        rig.answer(Self.marked(Rig.push(shown), "m1"))
        guard case .applyResults(_, _, _, writtenUnder: ["m1"])? = rig.command else {
            Issue.record("the mark was to be stored with the verdicts, not \(rig.asked ?? "nothing")")
            return
        }
    }

    // Fault: a record that the device has made moved from a lost scope into a gained one. When that was lost in the middle of the pull, no
    // cursor knew the record.
    @Test("Scopes that change once more in the middle of a pull make the share be listed anew, also after a crash")
    func lostWithinPull() {
        let first = firstPage(under: "m2")
        var rig = first.rig
        #expect(first.page?.writtenUnder == ["m2"])
        rig.stored(.pullApplied(PullSummary()))
        rig.answer(Self.marked(Rig.pull([Rig.page(Rig.works, cursor: "c3")]), "m3"))
        guard case .restartShares([Rig.works])? = rig.command else {
            Issue.record("the share was to be listed, not \(rig.asked ?? "nothing")")
            return
        }
    }

    @Test("A pull in several pages under one mark stores nothing beside its pages, and needs no listing")
    func pagesUnderOneMark() throws {
        let (rig, page) = firstPage(under: "m1")
        #expect(try #require(page).writtenUnder == nil && rig.engine.memory.writtenUnder == [])
    }

    /// A device whose last whole pull was under the scopes `m1`, and the first of several pages that it gets under others, as it is to be
    /// stored.
    private func firstPage(under mark: String) -> (rig: EngineRig, page: PullResponse?) {
        var memory = EngineMemory(epoch: Rig.hub)
        (memory.shareMark, memory.readUnder) = ("m1", "m1")
        var rig = pulling([Rig.position(Rig.works, "c1")], hello: Self.marked(Rig.hello(), mark), memory: memory)
        rig.answer(Self.marked(Rig.pull([Rig.page(Rig.works, cursor: "c2", hasMore: true)]), mark))
        guard case .applyPull(let page)? = rig.command else {
            Issue.record("the page was to be stored, not \(rig.asked ?? "nothing")")
            return (rig, nil)
        }
        return (rig, page)
    }

    @Test("A pull under the scopes of the verdicts needs no listing, and later verdicts under the same scopes are not stored")
    func readAsWritten() {
        var rig = pulled(under: "m1")
        #expect(rig.asked == "applyPull")
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.engine.memory.readUnder == "m1")
        #expect(rig.engine.memory.writtenUnder == [])
        let batch = Rig.batch(2...2)
        rig.stored(.batch(batch, retryAt: nil))
        rig.answer(Self.marked(Rig.push(Rig.accepted(batch)), "m1"))
        guard case .applyResults(_, _, _, writtenUnder: nil)? = rig.command else {
            Issue.record("nothing was to be stored but the verdicts, not \(rig.asked ?? "nothing")")
            return
        }
    }
}
