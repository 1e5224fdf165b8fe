import CSQLite
import Foundation
import SyncCore
import SyncStore
import Synchronization
import Testing

/// The pages of the database say by themselves whether they are as they were written (`Seal.h`).
@Suite("Seals")
struct SealTests {
    private static let page = 4_096

    /// A closed database with something in its tables, on more than one level and with long rows.
    private func closed(_ folder: TemporaryFolder) throws -> TestAgent {
        let agent = try TestAgent(in: folder)
        let text = String(repeating: "x", count: 300)
        try agent.pull((0..<60).map { ("p\($0)", Int64($0 + 1), ["v": .string("\(text)-\($0)")]) }, cursor: "c-7", head: 60)
        for number in 0..<60 { try agent.create("r\(number)", ["n": .int(Int64(number)), "t": .string(text)]) }
        try agent.create("large", ["t": .string(String(repeating: "large ", count: 4_000))])
        try agent.store.close(at: agent.now)
        agent.database = try Database.inMemory()
        agent.store = try TestAgent().store
        return agent
    }

    private func broken(_ bytes: [UInt8]) -> [Int] {
        (1...bytes.count / Self.page).filter { csqlite_is_sealed(Array(bytes[($0 - 1) * Self.page..<$0 * Self.page]), UInt32($0)) == 0 }
    }

    /// Returns whether a check of the whole file finds no fault.
    private func isSound(_ folder: TemporaryFolder) -> Bool {
        (try? StoreReads(database: Database.openReader(path: folder.database)).check().isEmpty) ?? false
    }

    @Test("Every page of the file has its seal")
    func sealed() throws {
        let folder = try TemporaryFolder()
        _ = try closed(folder)
        #expect(folder.bytes().count > 20 * Self.page)
        #expect(broken(folder.bytes()) == [])
        #expect(isSound(folder))
    }

    @Test("One bit anywhere is told, also in an index, a counter or the map of the pages")
    func bits() throws {
        let folder = try TemporaryFolder()
        _ = try closed(folder)
        let whole = folder.bytes()
        var random = SeededRandom(seed: 7)
        for number in 1...whole.count / Self.page {
            var bytes = whole
            let place = (number - 1) * Self.page + Int.random(in: 0..<Self.page, using: &random)
            bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            #expect(broken(bytes) == [number])
            try folder.write(bytes)
            #expect(!isSound(folder), "the bit at \(place)")
        }
    }

    @Test("A page at the place of another one, and a page of zeros, are told")
    func places() throws {
        let folder = try TemporaryFolder()
        _ = try closed(folder)
        let whole = folder.bytes()
        for number in 2..<whole.count / Self.page {
            var bytes = whole
            bytes.replaceSubrange((number - 1) * Self.page..<number * Self.page, with: whole[number * Self.page..<(number + 1) * Self.page])
            #expect(broken(bytes) == [number])
            bytes.replaceSubrange((number - 1) * Self.page..<number * Self.page, with: [UInt8](repeating: 0, count: Self.page))
            #expect(broken(bytes) == [number])
        }
        try folder.write(Array(whole[..<(whole.count - Self.page / 2)]))
        #expect(!isSound(folder), "half a page")
    }

    @Test("A header without the mark of seals is damage", arguments: [0, 4, 16])
    func header(_ reserved: UInt8) throws {
        let folder = try TemporaryFolder()
        let agent = try closed(folder)
        var bytes = folder.bytes()
        bytes[20] = reserved
        try folder.write(bytes)
        #expect(StoreError.code { _ = try Store(Database.open(path: folder.database), agent.options, at: agent.now) } == .corrupt)
    }

    @Test("Damage that a read meets is reported to the store's owner")
    func reader() throws {
        let folder = try TemporaryFolder()
        let agent = try closed(folder)
        let root = try #require(try RawDatabase(folder.database).number("SELECT rootpage FROM sqlite_schema WHERE name = 'counter'"))
        var bytes = folder.bytes()
        bytes[Int(root - 1) * Self.page + 4_000] ^= 1
        try folder.write(bytes)
        let told = Mutex<StoreError?>(nil)
        let reader = StoreReader(path: folder.database, time: FixedTime(moment: agent.now), deliver: { for work in $0 { work() } }) {
            damage in
            told.withLock { $0 = damage }
        }
        let code = Mutex<StoreError.Code?>(nil)
        reader.read { reads, now throws(StoreError) in
            try reads.facts(at: now)
        } completion: { result in
            if case .failure(let error) = result { code.withLock { $0 = error.code } }
        }
        reader.close()
        #expect(code.withLock { $0 } == .corrupt)
        #expect(told.withLock { $0?.code } == .corrupt)
    }

    @Test("A database that an earlier version has made gets seals, and keeps all that is in it")
    func earlier() throws {
        let folder = try TemporaryFolder()
        let agent = try closed(folder)
        let plain = folder.path + "/plain.db"
        try copyWithoutSeals(folder.database, to: plain)
        #expect(!broken(FileManager.default.contents(atPath: plain).map { Array($0) } ?? []).isEmpty)
        let database = try Database.open(path: plain)
        let store = try Store(database, agent.options, at: agent.now)
        #expect(database.checksSeals)
        #expect(try store.verify() == [])
        #expect(try database.pragma("auto_vacuum") == "2")
        #expect(try store.reads.record(RecordName(EntityName(trusted: "audit"), RecordID(trusted: "p7")))?.view?.hasSuffix("-7\"}") == true)
        #expect(try store.reads.mutations(MutationQuery(), at: agent.now).items.count == 61)
        try store.close(at: agent.now)
        #expect(broken(FileManager.default.contents(atPath: plain).map { Array($0) } ?? []) == [])
    }

    /// Makes a copy as SQLite alone would have written it.
    private func copyWithoutSeals(_ path: String, to plain: String) throws {
        let raw = try RawDatabase(plain)
        let application = try #require(try RawDatabase(path).number("PRAGMA application_id"))
        let version = try #require(try RawDatabase(path).number("PRAGMA user_version"))
        try raw.rows("PRAGMA auto_vacuum = INCREMENTAL")
        try raw.rows("PRAGMA application_id = \(application)")
        try raw.rows("ATTACH '\(path)' AS old")
        let objects = try raw.rows("SELECT type, name, sql FROM old.sqlite_schema WHERE sql IS NOT NULL ORDER BY type = 'index'")
        for object in objects {
            try raw.rows(object[2] ?? "")
            if object[0] == "table" { try raw.rows("INSERT INTO main.\"\(object[1] ?? "")\" SELECT * FROM old.\"\(object[1] ?? "")\"") }
        }
        try raw.rows("DELETE FROM meta WHERE k = 'sealed'")
        try raw.rows("PRAGMA user_version = \(version)")
    }
}
