import SyncCore
import Testing

/// The steps of one cycle (PROTOCOL G0), with a store and a hub that answer as agreed.
@Suite("Engine: one cycle, step by step")
struct EngineCycleTests {
    typealias Rig = EngineRig

    @Test("The first cycle greets, settles, pulls, pushes, keeps house, and plans the next pull")
    func wholeCycle() {
        var rig = Rig()
        rig.start()
        #expect(rig.asked == nil)
        rig.wake()
        #expect(rig.call?.path == "/v1/sync/hello")
        rig.answer(Rig.hello())
        #expect(rig.asked == "loadInFlight")
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadStreams")
        rig.stored(.streams([Rig.position(Rig.sites, nil), Rig.position(Rig.works, "c1")]))
        #expect(rig.call?.path == "/v1/sync/pull")
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2")]))
        #expect(rig.asked == "applyPull")
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "claim")
        let batch = Rig.batch(1...3)
        rig.stored(.batch(batch, retryAt: nil))
        #expect(rig.call?.path == "/v1/sync/push")
        rig.answer(Rig.push(Rig.accepted(batch), head: 13))
        #expect(rig.asked == "applyResults")
        rig.stored(.resultsApplied(Rig.summary(done: 3), next: nil))
        #expect(rig.asked == "housekeep")
        rig.stored(.housekept(more: false))
        #expect(rig.asked == "remember")
        rig.stored(.done)
        #expect(rig.engine.cycle == nil)
        #expect(rig.outcome?.error == nil)
        #expect(rig.outcome?.pushed == 3)
        #expect(rig.untilWake == .seconds(60))
        #expect(rig.engine.memory.failures == 0)
        #expect(rig.engine.memory.lastSuccess != nil)
    }

    /// A device without configured entities, after its hello.
    private static func untold(_ capabilities: [String] = [EntityList.capability]) -> Rig {
        var settings = SyncEngine.Settings()
        settings.pullsAll = true
        var rig = Rig(settings: settings)
        rig.start()
        rig.wake()
        rig.answer(Rig.hello(capabilities: capabilities))
        rig.stored(.batch(nil, retryAt: nil))
        return rig
    }

    @Test("A device without configured entities asks the hub for their names, and pulls them in the same cycle")
    func pullsAll() throws {
        var rig = Self.untold()
        #expect(rig.asked == "loadStreams")
        rig.stored(.streams([]))
        #expect(rig.call?.path == "/v1/sync/pull")
        #expect(try JSONReader.read(rig.call?.body ?? []).object?["entities"] == "named")
        rig.answer(Rig.pull(entities: [Rig.works]))
        rig.stored(.pullApplied(PullSummary()))
        guard case .store(.loadStreams(let also))? = rig.effects.last else {
            Issue.record("what the hub has was not looked up: \(rig.effects)")
            return
        }
        #expect(also == [Rig.works])
        rig.stored(.streams([Rig.position(Rig.works, nil)]))
        #expect(rig.call?.path == "/v1/sync/pull")
        #expect(try JSONReader.read(rig.call?.body ?? []).object?["entities"] == nil, "once a cycle is enough")
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2")]))
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "claim")
        #expect(rig.engine.memory.hubEntities == [Rig.works])
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.housekept(more: false))
        rig.stored(.done)
        #expect(rig.outcome?.hadNoStreams == false)
    }

    @Test("A hub that has nothing is asked once a cycle; one that does not name its entities is not asked, and the outcome says so")
    func pullsNothing() throws {
        for (capabilities, known) in [([EntityList.capability], []), ([], nil)] as [([String], [EntityName]?)] {
            var rig = Self.untold(capabilities)
            rig.stored(.streams([]))
            if known != nil {
                rig.answer(Rig.pull(entities: []))
                rig.stored(.pullApplied(PullSummary()))
            }
            #expect(rig.asked == "claim")
            rig.stored(.batch(nil, retryAt: nil))
            rig.stored(.housekept(more: false))
            rig.stored(.done)
            #expect(rig.outcome?.hadNoStreams == true && rig.engine.memory.hubEntities == known)
        }
    }

    @Test("A requested stream without news is fresh as of that pull, without a write for it")
    func pulledAt() {
        var rig = Rig.settled()
        let first = rig.engine.pulledAt(Rig.works)
        #expect(first != nil && rig.engine.pulledAt(Rig.sites) == first, "all of it was read")
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Rig.pull())
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "claim")
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == nil && rig.engine.cycle == nil, "nothing is remembered for it")
        guard let first, let second = rig.engine.pulledAt(Rig.works) else { return }
        #expect(first.duration(to: second) >= .seconds(59))
        #expect(rig.engine.memory.pulledAt == second)
        // A pull that breaks off says nothing, and neither does one of which the hub left a stream unread.
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.sites), Rig.position(Rig.works)]))
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2", hasMore: true)], head: 11))
        rig.stored(.pullApplied(PullSummary()))
        rig.fail()
        rig.keepHouse()
        #expect(rig.engine.pulledAt(Rig.works) == second)
        rig.begin()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.sites), Rig.position(Rig.works)]))
        let refused = StreamError(entity: Rig.works, problem: Problem("busy", status: 503, detail: "later"))
        rig.answer(Rig.pull(errors: [refused], head: 11))
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.engine.pulledAt(Rig.works) == second)
        #expect(rig.engine.pulledAt(Rig.sites) == rig.wall)
        #expect(rig.engine.memory.pulledAt == second)
    }

    @Test("After a restart the mirror is as old as the last whole pull that was remembered")
    func pulledBefore() {
        var memory = EngineMemory(epoch: Rig.hub)
        memory.pulledAt = Timestamp(milliseconds: 1_795_000_000_000)
        var rig = Rig()
        rig.start(memory: memory)
        #expect(rig.engine.pulledAt(Rig.works) == memory.pulledAt)
        rig.wake()
        rig.idleCycle()
        #expect(rig.engine.pulledAt(Rig.works).map { $0 > Timestamp(milliseconds: 1_795_000_000_000) } == true)
    }

    @Test("All calls of a cycle carry its one session, and the next cycle has another")
    func session() {
        var rig = Rig()
        rig.start()
        rig.wake()
        let session = rig.call?.session
        #expect(session?.utf8.count == 36)
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        #expect(rig.call?.session == session)
        rig.answer(Rig.pull())
        rig.stored(.pullApplied(PullSummary()))
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        rig.wake()
        #expect(rig.engine.cycle != nil)
        #expect(rig.engine.cycle?.session != session)
    }

    @Test("The hello is not repeated within a day, and is after it, and after a change of the settings")
    func hello() {
        var rig = Rig.settled()
        rig.wake()
        #expect(rig.asked == "loadInFlight")
        rig.idleCycle()
        rig.advance(.seconds(24 * 3600))
        rig.wake()
        #expect(rig.asked == "hello")
        rig.idleCycle()
        rig.handle(.settings(SyncEngine.Settings()))
        rig.wake()
        #expect(rig.asked == "hello")
    }

    @Test("The hello says who we are and how far we got")
    func helloBody() throws {
        var settings = SyncEngine.Settings()
        settings.agent = "1.0.0"
        settings.platform = "linux/arm64"
        settings.entities = [Rig.works]
        var rig = Rig(settings: settings)
        rig.start(maxSentSeq: 412)
        rig.wake()
        let body = try JSONReader.read(try #require(rig.call).body).object
        #expect(body?["agent"] == "1.0.0")
        #expect(body?["platform"] == "linux/arm64")
        #expect(body?["replica"] == "replica-1")
        #expect(body?["max_sent_seq"] == 412)
        #expect(body?["entities"] == ["works"])
    }

    @Test("All mutations in flight are settled, unchanged, before anything is pulled")
    func settleFirst() throws {
        var rig = Rig()
        rig.start(maxSentSeq: 9)
        rig.wake()
        rig.greet()
        let first = Rig.batch(4...6), second = Rig.batch(7...9)
        rig.stored(.batch(first, retryAt: nil))
        #expect(rig.call?.kind == .settle)
        #expect(try #require(rig.call).body == PushMessages.request(first, config: nil))
        rig.answer(Rig.push(Rig.accepted(first)))
        #expect(rig.asked == "applyResults")
        if case .applyResults(_, let next, _, _)? = rig.command { #expect(next == nil, "nothing is claimed while settling") }
        rig.stored(.resultsApplied(Rig.summary(done: 3), next: nil))
        #expect(rig.asked == "loadInFlight")
        rig.stored(.batch(second, retryAt: nil))
        #expect(rig.call?.kind == .settle)
        rig.answer(Rig.push(Rig.accepted(second, from: 14)))
        rig.stored(.resultsApplied(Rig.summary(done: 3), next: nil))
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadStreams")
    }

    @Test("A settle that outlasts the cycle's time goes on in the next cycle, before any pull")
    func longSettle() {
        var rig = Rig()
        rig.start(maxSentSeq: 9)
        rig.wake()
        rig.greet()
        rig.stored(.batch(Rig.batch(1...2), retryAt: nil))
        rig.answer(Rig.push(Rig.accepted(Rig.batch(1...2))), after: .seconds(26))
        rig.stored(.resultsApplied(Rig.summary(done: 2), next: nil))
        #expect(rig.asked == "housekeep")
        // The trigger for more is due at once.
        rig.stored(.housekept(more: false))
        rig.stored(.done)
        #expect(rig.asked == "loadInFlight")
    }

    @Test("Pages are asked for until the hub has no more, only for the streams that have")
    func pages() throws {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.sites, nil), Rig.position(Rig.works, "c1")]))
        rig.answer(Rig.pull([Rig.page(Rig.sites, cursor: "s9"), Rig.page(Rig.works, cursor: "c2", hasMore: true)]))
        rig.stored(.pullApplied(PullSummary()))
        let streams = try JSONReader.read(try #require(rig.call).body).object?["streams"]
        #expect(streams == [["entity": "works", "cursor": "c2"]])
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c3")]))
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "claim")
    }

    @Test("More streams than one request may name are asked for one request after the other")
    func manyStreams() throws {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        let entities = (0..<600).map { EntityName(trusted: "e-\($0)") }
        rig.stored(.streams(entities.map { Rig.position($0) }))
        var asked: [String] = []
        while let call = rig.call {
            let streams = try JSONReader.read(call.body).object?["streams"]?.array ?? []
            #expect(streams.count <= PullMessages.streamsMax)
            asked += streams.compactMap { $0.object?["entity"]?.text }
            rig.answer(Rig.pull())
            rig.stored(.pullApplied(PullSummary()))
        }
        #expect(asked == entities.map(\.text))
        #expect(rig.asked == "claim")
        #expect(rig.engine.isCaughtUp)
    }

    @Test("After 20 pages local changes get their turn, and the rest follows in the next cycle, at once")
    func pageLimit() {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet(head: 1_000)
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works, "c0")]))
        for page in 1...20 {
            #expect(rig.asked == "pull")
            let records = [Rig.record("w-\(page)", version: Int64(page))]
            rig.answer(
                Rig.pull([Rig.page(Rig.works, cursor: "c\(page)", hasMore: true, records: records)], head: 1_000), after: .milliseconds(10))
            rig.stored(.pullApplied(PullSummary()))
        }
        #expect(rig.asked == "claim")
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.housekept(more: false))
        rig.stored(.done)
        #expect(rig.asked == "loadInFlight", "the next cycle begins at once")
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadStreams", "and pulls, although the head is no news")
    }

    @Test("After 25 s of pages local changes get their turn as well")
    func pageTime() {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet(head: 1_000)
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works, "c0")]))
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c1", hasMore: true)], head: 1_000), after: .seconds(25))
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "claim")
    }

    @Test("Batches follow one another; the next is claimed with the results of the one before")
    func batches() {
        var rig = Rig.pushing(Rig.batch(1...50))
        rig.answer(Rig.push(Rig.accepted(Rig.batch(1...50)), head: 60))
        guard case .applyResults(let results, let next?, _, _)? = rig.command else {
            Issue.record("results with a claim were expected")
            return
        }
        #expect(results.count == 50)
        #expect(next.mutations == 100, "the answer was quick, so the batch doubles")
        rig.stored(.resultsApplied(Rig.summary(done: 50), next: Rig.batch(51...60)))
        #expect(rig.call?.kind == .push)
        rig.answer(Rig.push(Rig.accepted(Rig.batch(51...60), from: 61), head: 70))
        rig.stored(.resultsApplied(Rig.summary(done: 10), next: nil))
        rig.keepHouse()
        #expect(rig.outcome?.pushed == 60)
    }

    @Test("When the cycle's time is up nothing more is claimed, and the next cycle begins at once")
    func budget() {
        var rig = Rig.pushing(Rig.batch(1...50))
        rig.answer(Rig.push(Rig.accepted(Rig.batch(1...50)), head: 60), after: .seconds(25))
        if case .applyResults(_, let next, _, _)? = rig.command { #expect(next == nil) }
        rig.stored(.resultsApplied(Rig.summary(done: 50), next: nil))
        if rig.asked == "housekeep" { rig.stored(.housekept(more: false)) }
        if rig.asked == "remember" { rig.stored(.done) }
        #expect(rig.asked == "loadInFlight")
    }

    @Test("A conflict brings one more pull of its entities and one more push, never a third round")
    func conflicts() throws {
        let batch = Rig.batch(1...2)
        var rig = Rig.pushing(batch)
        let results = batch.mutations.map { PushResult(key: $0.key, verdict: .conflict(fields: ["a"], current: .absent)) }
        rig.answer(Rig.push(results))
        rig.stored(.resultsApplied(Rig.summary(conflicted: [Rig.works, Rig.works]), next: nil))
        #expect(rig.asked == "loadStreams")
        rig.stored(.streams([Rig.position(Rig.sites), Rig.position(Rig.works)]))
        let streams = try JSONReader.read(try #require(rig.call).body).object?["streams"]
        #expect(streams == [["entity": "works", "cursor": "c1"]])
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2")], head: 11))
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "claim")
        let second = Rig.batch(3...3)
        rig.stored(.batch(second, retryAt: nil))
        rig.answer(Rig.push([PushResult(key: second.mutations[0].key, verdict: .conflict(fields: ["a"], current: .absent))]))
        rig.stored(.resultsApplied(Rig.summary(conflicted: [Rig.works]), next: nil))
        rig.keepHouse()
    }

    @Test("A second look at some entities does not count as having everything")
    func conflictPullIsPartial() {
        let batch = Rig.batch(1...1)
        var rig = Rig.pushing(batch)
        rig.answer(Rig.push([PushResult(key: batch.mutations[0].key, verdict: .conflict(fields: ["a"], current: .absent))], head: 14))
        rig.stored(.resultsApplied(Rig.summary(conflicted: [Rig.works]), next: nil))
        rig.stored(.streams([Rig.position(Rig.sites), Rig.position(Rig.works)]))
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2")], head: 14))
        rig.stored(.pullApplied(PullSummary()))
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        #expect(!rig.engine.isCaughtUp)
        rig.handle(.enqueued(.critical))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadStreams", "the other entities may have news")
    }

    @Test("A pull is spared while the hub has said within the last minute that there is nothing newer")
    func sparedPull() {
        var rig = Rig.settled()
        rig.handle(.enqueued(.critical))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "claim", "the head was seen a moment ago")
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        rig.advance(.seconds(61))
        rig.handle(.enqueued(.critical))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadStreams")
    }

    @Test("A newer head in any answer calls for a pull in the next cycle")
    func newHead() {
        let batch = Rig.batch(1...1)
        var rig = Rig.pushing(batch)
        // This device's commit is 12; commit 11 of another device came in between.
        rig.answer(Rig.push(Rig.accepted(batch, from: 12), head: 12))
        rig.stored(.resultsApplied(Rig.summary(done: 1), next: nil))
        rig.keepHouse()
        #expect(!rig.engine.isCaughtUp)
        rig.handle(.enqueued(.critical))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadStreams")
    }

    @Test("The device's own commits are no news: if no other device wrote, the next cycle spares the pull")
    func ownCommits() {
        let batch = Rig.batch(1...2)
        var rig = Rig.pushing(batch)
        rig.answer(Rig.push(Rig.accepted(batch, from: 11), head: 12))
        rig.stored(.resultsApplied(Rig.summary(done: 2), next: nil))
        rig.keepHouse()
        #expect(rig.engine.isCaughtUp)
        rig.handle(.enqueued(.critical))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "claim")
    }

    @Test("The version of a record is no place in the feed: whether a commit is our own is counted, and not read off its number")
    func ownCommitsAreCounted() {
        let batch = Rig.batch(1...2)
        for (version, commits, isCaughtUp) in [(1, 2, true), (1 << 40, 2, true), (11, 1, false)] as [(Int64, Int, Bool)] {
            var rig = Rig.pushing(batch)
            rig.answer(Rig.push(Rig.accepted(batch, from: version), head: 12))
            rig.stored(.resultsApplied(Rig.summary(done: 2, commits: commits), next: nil))
            rig.keepHouse()
            #expect(rig.engine.isCaughtUp == isCaughtUp, "from version \(version), \(commits) commits")
        }
    }

    @Test("A stream that answers with an error of its own means that we do not have everything")
    func missedStream() {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.sites), Rig.position(Rig.works)]))
        let forbidden = StreamError(entity: Rig.sites, problem: Problem("forbidden", status: 403, detail: "no"))
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2")], errors: [forbidden]))
        rig.stored(.pullApplied(PullSummary()))
        #expect(rig.asked == "claim")
        #expect(!rig.engine.isCaughtUp)
    }

    @Test("An expired cursor restarts its stream, is reported, and the listing is pulled from the beginning")
    func expiredCursor() throws {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.sites, "s1"), Rig.position(Rig.works, "c1")]))
        rig.answer(Rig.pull([Rig.page(Rig.sites, cursor: "s2", hasMore: true)], errors: [Rig.expired(Rig.works)]))
        #expect(rig.asked == "applyPull")
        rig.stored(.pullApplied(PullSummary()))
        guard case .restartStreams(let entities)? = rig.command else {
            Issue.record("a restart was expected")
            return
        }
        #expect(entities == [Rig.works])
        #expect(rig.reports.contains(.streamsRestarted([Rig.works])))
        rig.stored(.done)
        #expect(rig.asked == "loadStreams")
        rig.stored(.streams([Rig.position(Rig.sites, "s2"), Rig.listing(Rig.works)]))
        #expect(rig.call?.target == "/v1/sync/snapshot?entity=works&limit=1000&max_bytes=65536")
        rig.answer(Rig.snapshot(Rig.works, ["w-1"], start: "n1"))
        #expect(rig.asked == "applySnapshot")
        rig.stored(.snapshotApplied(PullSummary(), Rig.position(Rig.works, "n1")))
        let streams = try JSONReader.read(try #require(rig.call).body).object?["streams"]
        #expect(streams == [["entity": "sites", "cursor": "s2"], ["entity": "works", "cursor": "n1"]])
    }

    @Test("A whole request answered 410 restarts every stream that had a cursor")
    func expiredRequest() throws {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.sites, nil), Rig.position(Rig.works, "c1")]))
        rig.answer(Rig.problem(410, "cursor-expired"))
        guard case .restartStreams(let entities)? = rig.command else {
            Issue.record("a restart was expected")
            return
        }
        #expect(entities == [Rig.works])
        rig.stored(.done)
        rig.stored(.streams([Rig.position(Rig.sites, nil), Rig.listing(Rig.works)]))
        // And if that is gone, too, there is nothing left to try at once, and the others are read.
        rig.answer(Rig.problem(410, "cursor-expired"))
        #expect(rig.asked == "pull" && rig.engine.heldStreams[Rig.works] != nil)
        rig.answer(Rig.pull([Rig.page(Rig.sites, cursor: "s1")]))
        rig.stored(.pullApplied(PullSummary()))
        rig.stored(.batch(nil, retryAt: nil))
        rig.keepHouse()
        #expect(rig.outcome?.error?.contains("works was not read") == true)
    }

    @Test("A fresh listing that is said to have expired is nonsense, not a reason to start afresh for ever")
    func expiredBeginning() {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works, nil)]))
        rig.answer(Rig.pull(errors: [Rig.expired(Rig.works)]))
        rig.goOnWithoutIt()
        #expect(rig.outcome?.errorKind == .nonsense && rig.engine.heldStreams[Rig.works] != nil)
    }

    @Test("A listing that is cut off by the page limit goes on at once, not with the next periodic pull")
    func longRestart() {
        var rig = Rig.settled()
        rig.handle(.requested(SyncRequest(scope: .full)))
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        #expect(rig.asked == "restartStreams")
        rig.stored(.done)
        rig.stored(.streams([Rig.listing(Rig.works)]))
        for page in 1...20 {
            rig.answer(Rig.snapshot(Rig.works, ["w-\(100 + page)"], hasMore: true), after: .milliseconds(10))
            rig.stored(.snapshotApplied(PullSummary(), Rig.listing(Rig.works, after: "w-\(100 + page)")))
        }
        rig.stored(.batch(nil, retryAt: nil))
        if rig.asked == "remember" { rig.stored(.done) }
        #expect(rig.asked == "loadInFlight")
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "loadStreams", "the head is no news, but the listing is not complete")
    }

    @Test("A mass deletion that was held back is reported")
    func massDelete() {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        rig.answer(Rig.pull([Rig.page(Rig.works, cursor: "c2")]))
        var summary = PullSummary()
        summary.massDeletes = [Rig.works]
        rig.stored(.pullApplied(summary))
        #expect(rig.reports.contains(.massDelete([Rig.works])))
    }

    @Test("Housekeeping comes every ten minutes, and again in 5 s while there is more to do")
    func housekeeping() {
        var rig = Rig()
        rig.start()
        rig.wake()
        rig.greet()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([]))
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "housekeep")
        rig.stored(.housekept(more: true))
        rig.stored(.done)
        #expect(rig.untilWake == .seconds(5))
        // Housekeeping needs no cycle.
        rig.wake()
        #expect(rig.asked == "housekeep" && rig.engine.cycle == nil)
        rig.stored(.housekept(more: false))
        rig.wake()
        rig.idleCycle()
        rig.advance(.seconds(600))
        rig.wake()
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([]))
        rig.stored(.batch(nil, retryAt: nil))
        #expect(rig.asked == "housekeep")
    }

    @Test("The hub's limits bound the batches and the pages")
    func hubLimits() throws {
        var rig = Rig()
        rig.start()
        rig.wake()
        let hello = #"{"device_id":"gw","epoch":"7f3a","head":1,"limits":{"push_mutations":7,"push_bytes":200000,"pull_records":3}}"#
        rig.answer(Rig.ok(Array(hello.utf8)))
        guard case .loadInFlight(let limits)? = rig.command else {
            Issue.record("loadInFlight was expected")
            return
        }
        #expect(limits.mutations == 7)
        #expect(limits.bytes == TransferSizer.first)
        rig.stored(.batch(nil, retryAt: nil))
        rig.stored(.streams([Rig.position(Rig.works)]))
        #expect(try JSONReader.read(try #require(rig.call).body).object?["limit"] == 3)
    }

    @Test("Answers of the hub tell its clock")
    func clock() throws {
        var rig = Rig()
        rig.start()
        rig.wake()
        var response = Rig.hello()
        response.headers["Sync-Time"] = String(rig.wall.advanced(by: .seconds(90)).milliseconds)
        rig.answer(response, after: .milliseconds(100))
        let offset = try #require(rig.engine.clock.offset(at: rig.moment))
        // The hub read its clock in the middle of the round trip.
        #expect(offset.offset == .milliseconds(89_950))
        #expect(offset.error == .milliseconds(50))
    }
}
