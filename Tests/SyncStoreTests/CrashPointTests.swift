import SyncCore
import SyncStore
import Testing

/// PROTOCOL C8: the power goes, and what is found at the next start.
@Suite("Crash points")
struct CrashPointTests {
    private func stop(_ agent: TestAgent, _ stage: CommitStage) {
        agent.store.gate = { at throws(StoreError) in if at == stage { throw StoreError(.stopped, doing: "commit") } }
    }

    private let key = AppKey(key: "insp-1", fingerprint: [UInt8](repeating: 1, count: 16))

    @Test(
        "Before the commit of an enqueue there is nothing; after it, a repeat finds the same mutation",
        arguments: [CommitStage.before, .after], ["audit", "reading"])
    func enqueue(_ stage: CommitStage, _ entity: String) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        stop(agent, stage)
        let mutation = TestAgent.mutation(.create, nil, ["v": 1], entity: entity)
        #expect(StoreError.code { try agent.enqueue(mutation, appKey: key) } == .stopped)
        try agent.reopen()
        #expect(try agent.store.reads.facts(at: agent.now).enqueued == (stage == .after ? 1 : 0))
        #expect(try agent.enqueue(mutation, appKey: key).isRepeat == (stage == .after))
        #expect(try agent.store.reads.facts(at: agent.now).enqueued == 1)
        #expect(try agent.store.verify() == [])
    }

    @Test(
        "Before the commit of a claim all of it waits; after it, the same keys and bytes are in flight",
        arguments: [CommitStage.before, .after])
    func claim(_ stage: CommitStage) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        for id in ["a", "b"] { try agent.create(id) }
        try agent.event()
        stop(agent, stage)
        #expect(StoreError.code { _ = try agent.claim() } == .stopped)
        try agent.reopen()
        let flying = try agent.inFlight()
        #expect(flying.count == (stage == .after ? 3 : 0))
        let waiting = try agent.claim()
        #expect(waiting.count == (stage == .after ? 0 : 3))
        #expect((flying + waiting).map(\.seq) == [1, 2, 3])
        #expect(try agent.store.verify() == [])
    }

    @Test("A batch whose answer was lost is loaded with the same bytes, however often", arguments: 1...3)
    func settle(_ crashes: Int) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a", ["price": 1])
        try agent.update("a", ["price": 2])
        let sent = try agent.claim()
        for _ in 0..<crashes {
            try agent.reopen()
            #expect(try agent.inFlight() == sent)
        }
        try agent.answer(
            .duplicate(sent[0].key, .accepted, .record(HubRecord(version: 8, data: ["price": 2]))),
            .duplicate(sent[1].key, .accepted, .record(HubRecord(version: 8, data: ["price": 2]))))
        #expect(try agent.view("a") == #"{"price":2}"#)
        #expect(try agent.record("a")?.status == .synced)
        #expect(try agent.store.verify() == [])
    }

    @Test(
        "Before the commit of results all is in flight; after it, a repeat of the answer is ignored",
        arguments: [CommitStage.before, .after])
    func results(_ stage: CommitStage) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let key = try agent.create("a").key
        let event = try agent.event().key
        _ = try agent.claim()
        stop(agent, stage)
        #expect(StoreError.code { try agent.answer(.accepted(key, 7), .accepted(event, 8)) } == .stopped)
        try agent.reopen()
        #expect(try agent.state(key) == (stage == .after ? .done : .inFlight))
        let again = try agent.answer(.accepted(key, 7), .accepted(event, 8))
        #expect(again.done == (stage == .after ? 0 : 2))
        #expect(try agent.record("a")?.version == 7)
        #expect(try agent.store.verify() == [])
    }

    @Test("The files as they are at any commit open, agree with themselves and hold every answer that was given", arguments: 0..<8)
    func anyCommit(_ seed: UInt64) throws {
        let folder = try TemporaryFolder()
        var rules = TestAgent.rules
        rules.entities[EntityName(trusted: "audit")]?.declaredIndexes = [RecordIndex("v"), RecordIndex("p,updated_at")].compactMap { $0 }
        rules.entities[EntityName(trusted: "audit")]?.declaredUndo = true
        let agent = try TestAgent(in: folder, rules: rules)
        var random = SeededRandom(seed: seed)
        var answered: [MutationKey] = []
        var version: Int64 = 1
        for step in 0..<60 {
            version += 1
            switch random.next() % 6 {
            case 0: answered.append(try agent.event().key)
            case 1: answered.append(try agent.enqueue(TestAgent.mutation(.upsert, "r\(random.next() % 3)", ["v": .int(version)])).key)
            case 2: _ = try agent.claim(Int(random.next() % 4) + 1)
            case 3:
                for (offset, mutation) in try agent.inFlight().enumerated() {
                    try agent.answer(random.next() % 4 == 0 ? .retry(mutation.key) : .accepted(mutation.key, version * 100 + Int64(offset)))
                }
            case 4:
                try agent.pull([("r\(random.next() % 3)", version * 100 + 50, ["p": .int(version)])], cursor: "c\(version)", hasMore: true)
            default:
                if step % 3 == 0 { _ = try agent.database.pragma("wal_checkpoint(PASSIVE)") }
                _ = try agent.store.housekeep(at: agent.now)
                _ = try agent.store.tendIndexes(at: agent.now)
            }
            guard step % 5 == 0 else { continue }
            let image = try Store(Database.open(path: try folder.image()), agent.options, at: agent.now)
            #expect(try image.verify() == [])
            #expect(image.lastSeq == agent.store.lastSeq)
            for key in answered { #expect(try image.reads.mutation(key, at: agent.now) != nil) }
        }
    }

    @Test("A log that ends in the middle of a commit loses that commit and nothing else")
    func tornLog() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        _ = try agent.database.pragma("wal_checkpoint(TRUNCATE)")
        var ends: [Int] = []
        for number in 0..<6 {
            try agent.create("r\(number)")
            ends.append(folder.bytes("-wal").count)
        }
        for (index, end) in ends.enumerated() {
            let path = try folder.image("torn\(index).db")
            try RawFile.truncate(path + "-wal", to: end - 1)
            let image = try Store(Database.open(path: path), agent.options, at: agent.now)
            #expect(image.lastSeq == Int64(index))
            #expect(try image.verify() == [])
        }
    }

    @Test("A full disk refuses the commit, leaves nothing behind, and works again with room")
    func fullDisk() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a")
        let pages = try #require(Int(try agent.database.pragma("page_count")))
        _ = try agent.database.pragma("max_page_count = \(pages + 1)")
        let large = JSON.string(JSONString(String(repeating: "x", count: 50_000)))
        let error = #expect(throws: StoreError.self) { try agent.create("b", ["p": large]) }
        #expect(error?.code == .diskFull)
        #expect(error?.isRetryable == true)
        #expect(try agent.store.reads.facts(at: agent.now).enqueued == 1)
        #expect(try agent.store.verify() == [])
        _ = try agent.database.pragma("max_page_count = 1000000")
        #expect(try agent.create("b", ["p": large]).seq == 2)
        try agent.reopen()
        #expect(try agent.store.verify() == [])
    }

    @Test("An older copy of the database under a new replica freezes what waits, and keys never repeat")
    func olderCopy() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a")
        let image = try folder.image()
        let late = [try agent.create("b").key, try agent.create("c").key]
        agent.options.marker = StoreMarker(replica: agent.store.replica, acknowledged: 3)
        try agent.reopen(image)
        #expect(agent.store.opening.lostTail == 2)
        #expect(try agent.inFlight().map(\.seq) == [1])
        let fresh = try agent.create("b")
        #expect(fresh.seq == 4 && !late.contains(fresh.key))
        for key in late { #expect(try agent.state(key) == nil) }
        #expect(try agent.store.verify() == [])
    }
}
