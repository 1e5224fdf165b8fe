import Foundation
import SyncCore
import SyncStore
import Testing

/// PROTOCOL C2: what is set, in which order, and what is found at the start.
@Suite("Opening")
struct OpeningTests {
    struct Setting: Sendable, CustomTestStringConvertible {
        var name: String
        var value: String
        var testDescription: String { name }

        init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    @Test(
        "Every setting is what was asked for, read back on the writing connection, at the first opening and later",
        arguments: [
            Setting("page_size", "4096"), Setting("auto_vacuum", "2"), Setting("journal_mode", "wal"),
            Setting("synchronous", "2"), Setting("busy_timeout", "5000"), Setting("foreign_keys", "1"),
            Setting("temp_store", "2"), Setting("cache_size", "-4000"), Setting("mmap_size", "0"),
            Setting("journal_size_limit", "16777216"), Setting("wal_autocheckpoint", "0"), Setting("cell_size_check", "1"),
            Setting("trusted_schema", "0"), Setting("secure_delete", "2"), Setting("application_id", "1163084135"),
            Setting("user_version", "20"),
        ])
    func settings(_ setting: Setting) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        #expect(try agent.database.pragma(setting.name) == setting.value)
        try agent.reopen()
        #expect(try agent.database.pragma(setting.name) == setting.value)
    }

    @Test(
        "A reader cannot write, keeps its sorts in memory and leaves the log alone",
        arguments: [
            Setting("query_only", "1"), Setting("temp_store", "2"), Setting("wal_autocheckpoint", "0"), Setting("mmap_size", "0"),
            Setting("busy_timeout", "1000"), Setting("trusted_schema", "0"), Setting("cell_size_check", "1"),
        ])
    func readerSettings(_ setting: Setting) throws {
        let folder = try TemporaryFolder()
        _ = try TestAgent(in: folder)
        let reader = try Database.openReader(path: folder.database)
        #expect(try reader.pragma(setting.name) == setting.value)
    }

    @Test("A database in which nothing was ever made is taken for none: the power went in the middle of the first start")
    func unfinished() throws {
        let folder = try TemporaryFolder()
        let raw = try RawDatabase(folder.database)
        // The first page, without the name.
        _ = try raw.rows("PRAGMA auto_vacuum = FULL")
        #expect(folder.bytes().count == 4_096)
        let agent = try TestAgent(in: folder)
        #expect(agent.store.opening.isNew)
        #expect(try agent.database.pragma("auto_vacuum") == "2" && agent.database.pragma("journal_mode") == "wal")
        #expect(try agent.database.pragma("application_id") == "1163084135")
        try agent.create("a")
        try agent.reopen()
        #expect(try agent.document("a") != nil)
    }

    @Test("A first page that SQLite takes back leaves no database")
    func takenBack() throws {
        let folder = try TemporaryFolder()
        _ = try TestAgent(in: folder)
        // As the cut leaves it: the page with its name, and a journal which says that there was none before.
        var page = Array(folder.bytes().prefix(4_096))
        page[18] = 1
        page[19] = 1
        for name in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: folder.database + name) }
        try Data(page).write(to: URL(fileURLWithPath: folder.database))
        // https://www.sqlite.org/fileformat.html, 3: magic, no records, nonce, 0 pages before, sector and page size.
        var journal: [UInt8] = [
            0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 16, 0,
        ]
        journal += [UInt8](repeating: 0, count: 512 - journal.count)
        try Data(journal).write(to: URL(fileURLWithPath: folder.database + "-journal"))
        let agent = try TestAgent(in: folder)
        #expect(agent.store.opening.isNew)
        #expect(try agent.database.pragma("auto_vacuum") == "2" && agent.database.pragma("application_id") == "1163084135")
    }

    @Test("The first page is in the file itself as soon as the store is open, so a foreign file is told by it")
    func firstPage() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let header = Array(folder.bytes().prefix(100))
        #expect(header.starts(with: Array("SQLite format 3\0".utf8)))
        #expect(Array(header[68..<72]) == Array("ESAg".utf8))
        #expect(
            agent.store.opening
                == {
                    var opening = StoreOpening(); opening.isNew = true; return opening
                }())
    }

    @Test("Opening an existing database writes one transaction, the mark that it is in use")
    func opensWithOneWrite() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.event()
        try agent.store.close(at: agent.now)
        try agent.reopen()
        #expect(agent.database.commits == 1)
    }

    @Test("A store that was closed is clean, one that was not is checked")
    func cleanOrNot() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a")
        try agent.reopen()
        #expect(agent.store.opening.wasUnclean)
        #expect(!agent.store.opening.needsCheck, "a small one was checked before it was opened")
        #expect(!agent.store.opening.isNew)
        try agent.store.close(at: agent.now)
        #expect(folder.bytes("-wal").isEmpty, "the log is in the database")
        try agent.reopen()
        #expect(!agent.store.opening.wasUnclean)
        #expect(try agent.store.verify() == [])
    }

    // MARK: - The marker beside the database

    private func open(_ folder: TemporaryFolder, acknowledged: Int64? = nil, replica: String = "r-old") throws -> TestAgent {
        try TestAgent(in: folder) { options in
            options.marker = acknowledged.map { StoreMarker(replica: ReplicaID(trusted: replica), acknowledged: $0) }
        }
    }

    @Test("Without a marker, no file and a file of no length are a first boot", arguments: [false, true])
    func firstBoot(_ isThere: Bool) throws {
        let folder = try TemporaryFolder()
        if isThere { try folder.write([]) }
        #expect(try open(folder).store.opening.isNew)
    }

    @Test("With a marker, no file and a file of no length are a loss, and nothing is made in their place", arguments: [false, true])
    func lost(_ isThere: Bool) throws {
        let folder = try TemporaryFolder()
        if isThere { try folder.write([]) }
        #expect(StoreError.code { _ = try open(folder, acknowledged: 7) } == .lostDatabase)
        #expect(folder.bytes().isEmpty)
    }

    @Test("A database with tables and no facts, next to a marker, is a loss too")
    func emptied() throws {
        let folder = try TemporaryFolder()
        try open(folder).store.close(at: TestAgent().now)
        try RawDatabase(folder.database).rows("DELETE FROM meta")
        #expect(StoreError.code { _ = try open(folder, acknowledged: 7) } == .lostDatabase)
    }

    @Test("A file that SQLite did not write is refused, and stays as it is")
    func notADatabase() throws {
        let folder = try TemporaryFolder()
        for bytes in [Array("hello".utf8), [UInt8](repeating: 0, count: 4_096), Array(String(repeating: "x", count: 9_000).utf8)] {
            try folder.write(bytes)
            #expect(StoreError.code { _ = try open(folder) } == .notADatabase)
            #expect(folder.bytes() == bytes)
        }
    }

    @Test("The database of another program is refused, and stays as it is")
    func foreign() throws {
        let folder = try TemporaryFolder()
        try RawDatabase(folder.database).rows("CREATE TABLE theirs (x)")
        let before = folder.bytes()
        #expect(StoreError.code { _ = try open(folder) } == .foreignFile)
        #expect(folder.bytes() == before)
        #expect(try RawDatabase(folder.database).rows("PRAGMA journal_mode") == [["delete"]])
    }

    @Test("A database that another process holds is locked, not lost", arguments: ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
    func locked(_ begin: String) throws {
        let folder = try TemporaryFolder()
        let agent = try open(folder)
        try agent.create("a")
        let other = try RawDatabase(folder.database)
        try other.rows(begin)
        _ = try agent.database.pragma("busy_timeout = 10")
        let error = #expect(throws: StoreError.self) { try agent.create("b") }
        #expect(error?.code == .locked)
        #expect(error?.isRetryable == true)
        try other.rows("ROLLBACK")
        try agent.create("b")
        #expect(try agent.store.verify() == [])
    }

    @Test("A marker that knows of later mutations: the tail is lost, counted, and the replica is a new one")
    func lostTail() throws {
        let folder = try TemporaryFolder()
        let agent = try open(folder)
        for id in ["a", "b", "c"] { try agent.create(id) }
        let replica = agent.store.replica
        agent.options.marker = StoreMarker(replica: replica, acknowledged: 5)
        try agent.reopen()
        #expect(agent.store.opening.lostTail == 2)
        #expect(agent.store.replica != replica)
        #expect(try agent.store.reads.facts(at: agent.now).tailLost == 2)
        // Waiting mutations may have been sent in the lost time.
        #expect(try agent.store.reads.facts(at: agent.now).count(.inFlight) == 3)
        #expect(try agent.create("d").seq == 6, "the lost numbers were given to apps and are not given again")
        #expect(try agent.store.verify() == [])
    }

    @Test("A marker that knows no more than the database changes nothing")
    func soundTail() throws {
        let folder = try TemporaryFolder()
        let agent = try open(folder)
        for id in ["a", "b", "c"] { try agent.create(id) }
        let replica = agent.store.replica
        agent.options.marker = StoreMarker(replica: replica, acknowledged: 3)
        try agent.reopen()
        #expect(agent.store.opening.lostTail == 0)
        #expect(agent.store.replica == replica)
    }

    @Test("Clock stamps go on after the last life, whatever the wall clock says by then")
    func clockGoesOn() throws {
        let folder = try TemporaryFolder()
        let agent = try open(folder)
        let events = [try agent.event().key, try agent.event().key]
        agent.now.wall = Timestamp(milliseconds: 1_000)
        try agent.reopen()
        let created = try agent.create("a").key
        let stamps = try agent.claim().reduce(into: [:]) { $0[$1.key] = $1.hlc }
        let last = try #require(stamps[created])
        for event in events { #expect(try #require(stamps[event]) < last) }
    }
}
