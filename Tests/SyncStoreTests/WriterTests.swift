import Dispatch
import Foundation
import SyncCore
import SyncStore
import Synchronization
import Testing

/// The store's own thread: one commit for all that has gathered, and what it does when a commit fails.
@Suite("The store's thread")
struct WriterTests {
    /// Fails the commits that it was told to fail, as a medium would.
    private final class Fault: Sendable {
        let stage = Mutex<CommitStage?>(nil)
        let error = Mutex(StoreError(.unknownOutcome, doing: "commit"))
    }

    private func writer(
        _ folder: TemporaryFolder, _ heard: HeardIncidents, _ fault: Fault, quietAfter: Duration = StoreWriter.quietAfter
    ) throws -> StoreWriter {
        let path = folder.database
        let writer = StoreWriter(
            time: FixedTime(), retryAfter: .milliseconds(1), quietAfter: quietAfter,
            deliver: { calls in for call in calls { call() } }, incident: { heard.add($0) },
            open: { now throws(StoreError) in
                let options = StoreOptions(device: DeviceID(trusted: "gw-17"), bootID: "boot-1", rules: TestAgent.rules, seed: 1)
                let store = try Store(Database.open(path: path), options, at: now)
                store.gate = { at throws(StoreError) in
                    let isNow = fault.stage.withLock { stage in
                        guard let wanted = stage, wanted == at else { return false }
                        stage = nil
                        return true
                    }
                    if isNow { throw fault.error.withLock { $0 } }
                }
                return store
            })
        _ = try writer.start()
        return writer
    }

    @Test(
        "A commit whose outcome is unknown: the store is opened again, and what is there decides", arguments: [CommitStage.before, .after])
    func unknownOutcome(_ stage: CommitStage) throws {
        let folder = try TemporaryFolder()
        let (heard, fault) = (HeardIncidents(), Fault())
        let writer = try writer(folder, heard, fault)
        _ = try enqueue(writer, "a").get()
        fault.stage.withLock { $0 = stage }
        let answer = enqueue(writer, "b")
        #expect(throws: StoreError.self) { try answer.get() }
        // Work goes on with the store that was opened again.
        #expect(try enqueue(writer, "c").get()[0].seq == (stage == .after ? 3 : 2))
        #expect(heard.incidents == [stage == .after ? "survived" : "gone"])
        try writer.close()
        #expect(try RawDatabase(folder.database).number("SELECT count(*) FROM payload") == (stage == .after ? 3 : 2))
        #expect(folder.bytes("-wal").isEmpty)
    }

    @Test("A second failure in a row: the database is left alone, everything is refused, and later it goes on by itself")
    func rests() throws {
        let folder = try TemporaryFolder()
        let (heard, fault) = (HeardIncidents(), Fault())
        let writer = try writer(folder, heard, fault)
        for id in ["a", "b"] {
            fault.stage.withLock { $0 = .before }
            #expect(throws: StoreError.self) { try enqueue(writer, id).get() }
        }
        heard.usable.wait()
        #expect(try enqueue(writer, "c").get()[0].seq == 1)
        #expect(heard.incidents == ["gone", "unusable", "usable"])
        // A commit that succeeds ends the story: the next failure is a first one again.
        fault.stage.withLock { $0 = .before }
        #expect(throws: StoreError.self) { try enqueue(writer, "d").get() }
        #expect(try enqueue(writer, "e").get()[0].seq == 2)
        #expect(heard.incidents.last == "gone")
        try writer.close()
    }

    @Test(
        "The thread itself ends mutations that fall with a refused one: right after its start, and after a commit that failed",
        arguments: [nil, StoreError(.unknownOutcome, doing: "commit"), StoreError(.diskFull, doing: "commit")])
    func goesOn(_ failure: StoreError?) throws {
        let folder = try TemporaryFolder()
        let keys = try leaveFalling(in: folder)
        let (heard, fault) = (HeardIncidents(), Fault())
        if let failure {
            fault.error.withLock { $0 = failure }
            fault.stage.withLock { $0 = .before }
        }
        // The one that fails is the first slice: to open does not ask.
        let writer = try writer(folder, heard, fault)
        for _ in 0..<2 { heard.wentOn.wait() }
        let left = try settled {
            writer.run(
                { store, now throws(StoreError) in
                    var states: [String] = []
                    for key in keys { states.append(try store.reads.mutation(key, at: now)?.state.name ?? "gone") }
                    return states.filter { $0 != "rejected" } + (try store.verify())
                }, completion: $0)
        }.get()
        #expect(left == [])
        // No mutation is new in it, so none of those that were acknowledged is gone.
        let failures = failure?.code == .unknownOutcome ? ["survived"] : []
        #expect(heard.incidents == failures + ["went on", "went on"])
        try writer.close()
    }

    /// A parent was taken back and two and a half thousand others fall with it, a thousand of which have.
    private func leaveFalling(in folder: TemporaryFolder) throws -> [MutationKey] {
        let agent = try TestAgent(in: folder)
        let parent = try agent.create("parent").key
        let children = try (0..<2_500).map { number in
            var child = TestAgent.mutation(.create, "c\(number)")
            child.dependsOn = [parent]
            return try agent.enqueue(child).key
        }
        _ = try agent.store.cancel(parent, at: agent.now)
        try agent.store.close(at: agent.now)
        return children
    }

    @Test("A read that contradicts itself ends the use of the database, and waiting callers hear that nothing was stored")
    func contradicts() throws {
        let folder = try TemporaryFolder()
        let (heard, fault) = (HeardIncidents(), Fault())
        let writer = try writer(folder, heard, fault)
        _ = try enqueue(writer, "a").get()
        let done = DispatchSemaphore(value: 0)
        writer.run { _, _ throws(StoreError) in
            throw StoreError(.corrupt, doing: "read")
        } completion: { (_: Result<Void, StoreError>) in
            done.signal()
        }
        done.wait()
        #expect(throws: StoreError.self) { try enqueue(writer, "b").get() }
        #expect(heard.incidents == ["fatal"])
        try writer.close()
        #expect(try RawDatabase(folder.database).number("SELECT count(*) FROM payload") == 1)
    }

    @Test("Relaxed answers that were lost are told and counted, for good")
    func relaxedLost() throws {
        let folder = try TemporaryFolder()
        let (heard, fault) = (HeardIncidents(), Fault())
        let writer = try writer(folder, heard, fault)
        fault.error.withLock { $0 = StoreError(.diskFull, doing: "commit") }
        fault.stage.withLock { $0 = .before }
        _ = try enqueue(writer, "a", durability: .relaxed).get()
        // Shares the commit that fails, unless that was made for the relaxed one alone before.
        _ = enqueue(writer, "b")
        _ = try enqueue(writer, "c").get()
        #expect(heard.lost == 1)
        try writer.close()
        let reader = try Database.openReader(path: folder.database)
        let facts = try StoreReads(database: reader).facts(at: FixedTime().now())
        #expect(facts.relaxedLost == 1)
    }

    @Test("Requests that were refused are no mutations that were lost")
    func refusedIsNotLost() throws {
        let folder = try TemporaryFolder()
        let (heard, fault) = (HeardIncidents(), Fault())
        let writer = try writer(folder, heard, fault)
        fault.error.withLock { $0 = StoreError(.diskFull, doing: "commit") }
        let (entered, go, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        // The thread is held while the others gather; its own commit is the last one that succeeds.
        writer.run { _, _ throws(StoreError) in
            entered.signal()
            go.wait()
        } completion: { (_: Result<Void, StoreError>) in
            fault.stage.withLock { $0 = .before }
        }
        entered.wait()
        var relaxed = TestAgent.mutation(.create, "a")
        relaxed.durability = .relaxed
        let app = Requester(app: AppName(trusted: "inspector"), uid: 1_000)
        for mutation in [
            TestAgent.mutation(.update, "none"), relaxed, TestAgent.mutation(.delete, "none"),
            TestAgent.mutation(.create, "t", entity: "template"),
        ] {
            writer.enqueue([mutation], by: app) { _ in done.signal() }
        }
        go.signal()
        for _ in 0..<4 { done.wait() }
        _ = enqueue(writer, "b")
        _ = try enqueue(writer, "c").get()
        #expect(heard.lost == 1)
        try writer.close()
    }

    @Test("The time for which a job holds the thread is reported meanwhile, and the longest job afterwards")
    func held() throws {
        let folder = try TemporaryFolder()
        let writer = try writer(folder, HeardIncidents(), Fault())
        let (entered, go, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        writer.run { _, _ throws(StoreError) in
            entered.signal()
            go.wait()
        } completion: { (_: Result<Void, StoreError>) in
            done.signal()
        }
        entered.wait()
        let first = try #require(writer.heldFor)
        let second = try #require(writer.heldFor)
        #expect(first >= .zero && second >= first)
        #expect(writer.jobTimes.times.count == 0)
        go.signal()
        done.wait()
        // The commit is over when the answer is given.
        #expect(writer.heldFor == nil)
        let times = writer.jobTimes
        #expect(times.times.count == 1 && times.longest >= second && times.overBound == 0)
        try writer.close()
    }

    @Test(
        "A job counts as too long only beyond the bound",
        arguments: [
            (Duration.zero, 0), (StoreJobTimes.bound, 0), (StoreJobTimes.bound + .nanoseconds(1), 1),
        ])
    func overBound(_ duration: Duration, _ count: Int) {
        var times = StoreJobTimes()
        times.add(duration)
        times.add(.milliseconds(1))
        #expect(times.overBound == count && times.times.count == 2)
        #expect(times.longest == max(duration, .milliseconds(1)))
    }

    @Test("All that gathered shares a commit, and each is answered for itself")
    func groups() throws {
        let folder = try TemporaryFolder()
        let writer = try writer(folder, HeardIncidents(), Fault())
        let (entered, go) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let commits = Mutex<[Int]>([])
        // The thread is held in its first piece of work while the others gather.
        writer.run { store, _ throws(StoreError) in
            commits.withLock { $0.append(store.database.commits) }
            entered.signal()
            go.wait()
        } completion: { _ in
        }
        entered.wait()
        let answers = Mutex<[Bool]>([])
        let done = DispatchSemaphore(value: 0)
        for id in ["a", "b", "a", "c"] {
            writer.enqueue([TestAgent.mutation(.create, id)], by: Requester(app: AppName(trusted: "inspector"), uid: 1_000)) { result in
                answers.withLock { $0.append((try? result.get()) != nil) }
                done.signal()
            }
        }
        go.signal()
        for _ in 0..<4 { done.wait() }
        #expect(answers.withLock { $0 } == [true, true, false, true])
        writer.run { store, _ throws(StoreError) in
            commits.withLock { $0.append(store.database.commits) }
            done.signal()
        } completion: { _ in
        }
        done.wait()
        let counted = commits.withLock { $0 }
        #expect(counted[1] - counted[0] == 2, "the one that the thread was held in, and one for all four")
        try writer.close()
    }

    @Test("When no work comes, the memory of what was read is given back, and the next work reads it again")
    func quiet() throws {
        let folder = try TemporaryFolder()
        let writer = try writer(folder, HeardIncidents(), Fault(), quietAfter: .zero)
        for number in 0..<100 { _ = try enqueue(writer, "r\(number)").get() }
        try expectRelease { answer in
            writer.run({ store, _ throws(StoreError) in try CachedBytes(around: store.reads) }, completion: answer)
        }
        try writer.close()
    }

    // Fault: only housekeeping moves the log, and a device that waits for news has that once a day.
    @Test("What was erased leaves the log without further work, as soon as no read delays it", arguments: [false, true])
    func wipes(_ isDelayed: Bool) throws {
        let folder = try TemporaryFolder()
        let writer = try writer(folder, HeardIncidents(), Fault(), quietAfter: .zero)
        func pull(_ page: PullResponse) throws {
            try settled { writer.run({ store, now throws(StoreError) in _ = try store.applyPull(page, at: now) }, completion: $0) }.get()
        }
        func holdsSecret() -> Bool { ["", "-wal"].contains { Data(folder.bytes($0)).range(of: Data("hubs-secret".utf8)) != nil } }
        try pull(TestAgent.page([("a", 5, ["v": "hubs-secret"])]))
        let reader = try RawDatabase(folder.database)
        if isDelayed {
            try reader.rows("BEGIN")
            try reader.rows("SELECT count(*) FROM record")
        }
        let left = StreamPage.Deletion(id: RecordID(trusted: "a"), version: 6, reason: Problem.revoked)
        let page = StreamPage(entity: EntityName(trusted: "audit"), cursor: "r", hasMore: false, records: [], deletions: [left])
        try pull(PullResponse(epoch: "e", head: 6, pages: [page]))
        if isDelayed {
            #expect(holdsSecret())
            try reader.rows("COMMIT")
        }
        // The thread cuts the log after its answer, or when it has found no other work.
        var looks = 0
        while holdsSecret(), looks < 50_000 {
            looks += 1
            sched_yield()
        }
        #expect(!holdsSecret())
        try writer.close()
    }

    @Test("After it was closed, everything is refused")
    func closed() throws {
        let folder = try TemporaryFolder()
        let writer = try writer(folder, HeardIncidents(), Fault())
        try writer.close()
        #expect(throws: StoreError.self) { try enqueue(writer, "a").get() }
    }
}

@Suite("The reader's thread")
struct ReaderTests {
    @Test("It sees one moment in each read, and what was committed before it")
    func snapshots() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a")
        let reader = StoreReader(path: folder.database, time: FixedTime(), deliver: { calls in for call in calls { call() } })
        defer { reader.close() }
        let count: Int = try settled {
            reader.read(
                { reads, _ throws(StoreError) in try reads.records(RecordQuery(EntityName(trusted: "audit"))).items.count }, completion: $0)
        }.get()
        #expect(count == 1)
        try agent.create("b")
        let page: RecordPage = try settled {
            reader.read({ reads, _ throws(StoreError) in try reads.records(RecordQuery(EntityName(trusted: "audit"))) }, completion: $0)
        }.get()
        #expect(page.items.count == 2)
    }

    @Test("A short read does not wait for a long one")
    func apart() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a")
        let reader = StoreReader(path: folder.database, time: FixedTime(), deliver: { calls in for call in calls { call() } })
        defer { reader.close() }
        let goesOn = DispatchSemaphore(value: 0), begun = DispatchSemaphore(value: 0)
        let long = DispatchSemaphore(value: 0)
        reader.read(isLong: true) { _, _ throws(StoreError) in
            begun.signal()
            goesOn.wait()
        } completion: { _ in
            long.signal()
        }
        begun.wait()
        // Would never come if it waited.
        let short: Bool = try settled { reader.read({ _, _ throws(StoreError) in true }, completion: $0) }.get()
        #expect(short)
        goesOn.signal()
        long.wait()
    }

    @Test("A read that takes longer than it may ends, and the next one works")
    func tooSlow() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        for number in 0..<20 { try agent.create("r\(number)") }
        let reader = StoreReader(
            path: folder.database, time: FixedTime(), limit: .seconds(-1), deliver: { calls in for call in calls { call() } })
        defer { reader.close() }
        #expect(throws: StoreError.self) {
            let _: RecordPage = try settled {
                reader.read({ reads, _ throws(StoreError) in try reads.records(RecordQuery(EntityName(trusted: "audit"))) }, completion: $0)
            }.get()
        }
        let fine: Bool = try settled { reader.read({ _, _ throws(StoreError) in true }, completion: $0) }.get()
        #expect(fine)
        // The cost of a query is told all the same.
        var query = RecordQuery(EntityName(trusted: "audit"))
        query.sort = [RecordQuery.Sort(.version)]
        let costly = query
        let told: RecordAccess = try settled {
            reader.read({ reads, _ throws(StoreError) in try reads.explain(costly) }, completion: $0)
        }.get()
        #expect(told.isCutOff && told.way == .scan)
    }

    @Test("Without readers the memory of earlier reads is given back, and the next read is answered as before")
    func quiet() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        for number in 0..<100 { try agent.create("r\(number)") }
        let reader = StoreReader(
            path: folder.database, time: FixedTime(), quietAfter: .zero, deliver: { calls in for call in calls { call() } })
        defer { reader.close() }
        try expectRelease { answer in
            reader.read({ reads, _ throws(StoreError) in try CachedBytes(around: reads) }, completion: answer)
        }
    }

    @Test("The check of the whole file is not bound by the time of a read")
    func check() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        for number in 0..<200 { try agent.create("r\(number)") }
        let reader = StoreReader(
            path: folder.database, time: FixedTime(), limit: .seconds(-1), deliver: { calls in for call in calls { call() } })
        defer { reader.close() }
        #expect(try settled { reader.check(completion: $0) }.get() == [])
    }
}
