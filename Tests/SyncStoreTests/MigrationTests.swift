import SyncCore
import SyncStore
import Testing

@Suite("Versions of the schema")
struct MigrationTests {
    @Test("A newer schema is refused and the file stays as it is, wherever the version stands", arguments: [true, false])
    func newer(_ isInLog: Bool) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a")
        if !isInLog { try agent.store.close(at: agent.now) }
        let raw = try RawDatabase(folder.database)
        try raw.rows("PRAGMA user_version = 99")
        if !isInLog { try raw.rows("PRAGMA wal_checkpoint(TRUNCATE)") }
        let before = folder.bytes()
        let log = folder.bytes("-wal")
        #expect(StoreError.code { _ = try TestAgent(in: folder) } == .newerSchema)
        #expect(folder.bytes() == before)
        #expect(folder.bytes("-wal") == log)
    }

    @Test("A step that was cut off leaves the version before it, and is done again")
    func stepIsRepeated() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.store.close(at: agent.now)
        // Version 0 with the first page written: where a first start may have ended.
        let raw = try RawDatabase(folder.database)
        for name in try raw.rows("SELECT name FROM sqlite_schema WHERE type = 'table'").compactMap(\.first) {
            try raw.rows("DROP TABLE \"\(name ?? "")\"")
        }
        try raw.rows("PRAGMA user_version = 0")
        let again = try TestAgent(in: folder)
        #expect(again.store.opening.isNew)
        #expect(try again.database.pragma("user_version") == "20")
        try again.create("a")
        #expect(try again.store.verify() == [])
    }

    @Test(
        "Every earlier version is brought up to date with its rows, also over several steps",
        arguments: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    func older(_ version: Int) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.pull((0..<30).map { ("p\($0)", Int64($0 + 1), ["v": .int(Int64($0))]) }, cursor: "c-7", head: 30)
        let done = try agent.create("a", ["n": 1]).key
        try agent.drain()
        let refused = try agent.create("b", ["n": 2]).key
        _ = try agent.claim()
        try agent.answer(PushResult(key: refused, verdict: .rejected(Problem("validation", status: 422, detail: "no"), current: nil)))
        let waits = try agent.update("p3", ["v": 99]).key
        let listed = try agent.list([TestAgent.mutation(.create, "l1"), TestAgent.mutation(.create, "l2")]).map(\.key)
        let event = try agent.event().key
        let inFlight = try agent.claim(1).map(\.key)
        let keys = [done, refused, waits] + listed + [event]
        let before = try agent.states(keys)
        let facts = try agent.store.reads.facts(at: agent.now)
        try agent.store.close(at: agent.now)
        try RawDatabase(folder.database).goBack(to: version)

        try agent.reopen()
        #expect(try agent.database.pragma("user_version") == "20")
        #expect(try agent.store.verify() == [])
        #expect(try agent.states(keys) == before)
        #expect(try agent.store.reads.facts(at: agent.now).enqueued == facts.enqueued)
        #expect(agent.store.replica == facts.replica)
        #expect(try agent.store.loadStreams(at: agent.now).first { $0.entity.text == "audit" }?.cursor == "c-7")
        #expect(try agent.inFlight().map(\.key) == inFlight)
        #expect(try agent.view("p3") == #"{"v":99}"#)
    }

    @Test(
        "The schema itself refuses rows that contradict themselves",
        arguments: [
            "UPDATE mutation SET state = 13", "UPDATE mutation SET state = 1, sent = 0", "UPDATE mutation SET ready = 1, next_age = 5",
            "UPDATE mutation SET state = 6", "UPDATE mutation SET prune_age = 1", "UPDATE record SET view = '{}', status = 0",
            "UPDATE record SET deleted = 0, base = NULL, view = NULL", "UPDATE payload SET priority = 3",
            "INSERT INTO record SELECT 99, eid, id, 0, 0, 1, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, NULL, 0 FROM record",
            "UPDATE counter SET n = -1", "INSERT INTO event VALUES (99, 0, 0, 0, 0, 0, NULL, NULL, NULL, '')",
            "UPDATE payload SET data = x'00'",
        ])
    func guards(_ sql: String) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a")
        let raw = try RawDatabase(folder.database)
        #expect(throws: RawDatabase.Failure.self) { try raw.rows(sql) }
    }
}

extension MigrationTests {
    @Test("Version 4 kept no conflicts: what waits for a decision is listed, with what is known of it")
    func conflicts() throws {
        let folder = try TemporaryFolder()
        let (first, second): (MutationKey, MutationKey)
        do {
            let agent = try TestAgent(in: folder)
            try agent.pull([("a", 5, ["v": 1]), ("b", 6, ["v": 1])])
            first = try agent.update("a", ["v": 2]).key
            second = try agent.enqueue(TestAgent.mutation(.delete, "b")).key
            _ = try agent.claim()
            try agent.answer(
                .conflict(first, ["v"], .record(HubRecord(version: 8, data: ["v": 3]))),
                .conflict(second, [HubMerge.wholeRecord], .record(HubRecord(version: 9, data: ["v": 4]))))
            try agent.store.close(at: agent.now)
        }
        try RawDatabase(folder.database).goBack(to: 4)
        let agent = try TestAgent(in: folder)
        let listed = try agent.store.reads.conflicts(ConflictQuery()).items
        #expect(listed.map(\.mutation) == [first, second])
        #expect(listed.map(\.kind) == [.field, .deleteUpdate])
        #expect(listed.map(\.remoteVersion) == [8, 9])
        let side = try #require(listed.first?.sides.first)
        #expect(side.field == "v" && side.base == nil && side.local.value == 2 && side.remote.value == 3)
        #expect(try agent.store.verify() == [])
        let decision = ConflictDecision(.all(.local))
        let sent = try agent.store.resolve(1, decision, by: agent.app, at: agent.now).mutation
        #expect(try agent.claim().map(\.key) == [sent].compactMap { $0 })
    }

    @Test("Version 2 gets the order of batches; what was in flight is settled, what waits goes on")
    func order() throws {
        let folder = try TemporaryFolder()
        var keys: [MutationKey] = []
        do {
            let agent = try TestAgent(in: folder)
            keys.append(try agent.create("a").key)
            keys.append(try agent.create("b").key)
            _ = try agent.claim()
            keys.append(try agent.update("a", ["v": 2]).key)
            try agent.store.close(at: agent.now)
        }
        try RawDatabase(folder.database).goBack(to: 2)
        let agent = try TestAgent(in: folder)
        #expect(try agent.store.verify() == [])
        #expect(try agent.inFlight().map(\.key) == [keys[0], keys[1]])
        try agent.answer(.accepted(keys[0], 1), .accepted(keys[1], 2))
        #expect(try agent.claim().map(\.key) == [keys[2]])
    }
}
