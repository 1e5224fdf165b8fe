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
        #expect(try again.database.pragma("user_version") == "3")
        try again.create("a")
        #expect(try again.store.verify() == [])
    }

    @Test("The schema itself refuses rows that contradict themselves", arguments: [
        "UPDATE mutation SET state = 13", "UPDATE mutation SET state = 1, sent = 0", "UPDATE mutation SET ready = 1, next_age = 5",
        "UPDATE mutation SET state = 6", "UPDATE mutation SET prune_age = 1", "UPDATE record SET view = '{}', status = 0",
        "UPDATE record SET deleted = 0, base = NULL, view = NULL", "UPDATE payload SET priority = 3",
        "INSERT INTO record SELECT 99, eid, id, 0, 0, 1, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, NULL FROM record",
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
