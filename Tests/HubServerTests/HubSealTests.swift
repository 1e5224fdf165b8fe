import Foundation
import SyncCore
import SyncSQLite
import Testing

@testable import HubServer

/// The pages of a hub's database say by themselves whether they are as they were written (`Seal.h`).
@Suite("Seals of a hub's database")
final class HubSealTests {
    private let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("seals-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }  // a folder left behind does no harm

    private var file: String { folder.appendingPathComponent("hub.db").path }

    private func bytes(_ path: String) throws -> [UInt8] { try [UInt8](Data(contentsOf: URL(fileURLWithPath: path))) }

    private func write(_ bytes: [UInt8], _ path: String) throws { try Data(bytes).write(to: URL(fileURLWithPath: path)) }

    /// Numbers of the pages that do not end with their seal.
    private func broken(_ path: String) throws -> [Int] {
        let bytes = try bytes(path), size = PageSeal.pageBytes
        return (1...bytes.count / size).filter { !PageSeal.isIntact(Array(bytes[($0 - 1) * size..<$0 * size]), number: $0) }
    }

    /// A closed hub with records on more than one level.
    private func closedHub() throws {
        let bench = try HubBench(place: .file(file))
        let text = String(repeating: "x", count: 300)
        let sent = (1...120).map {
            Sent("k-\($0)", seq: Int64($0), .create, id: "a-\($0)", data: ["n": .int(Int64($0)), "t": .string(text)])
        }
        _ = try bench.verdicts(sent)
        _ = try bench.verdict(Sent("k-long", seq: 121, .create, id: "long", data: ["t": .string(String(repeating: "long ", count: 4_000))]))
    }

    /// Everything of it, as it is exported.
    private func export(_ path: String) throws -> [String] {
        var lines: [String] = []
        try HubInspector(file: path).export("audits") {
            lines.append(String(decoding: $0, as: UTF8.self))
            return true
        }
        return lines
    }

    private func damage(_ body: () throws(HubError) -> Void) -> HubError? {
        do throws(HubError) {
            try body()
            return nil
        } catch {
            return error
        }
    }

    @Test("Every page of a new hub's database has its seal, and of a copy beside it, too")
    func sealed() throws {
        try closedHub()
        let copy = folder.appendingPathComponent("copy.db").path
        #expect(try bytes(file).count > 20 * PageSeal.pageBytes)
        #expect(try broken(file) == [])
        let bench = try HubBench(seed: 2, place: .file(file))
        // Some pages of the copy come from the log.
        _ = try bench.verdict(Sent("k-122", seq: 122, .update, id: "a-60", data: ["n": 0], base: 60))
        let facts = try HubBackup.copy(file, to: copy)
        #expect(try broken(copy) == [])
        #expect(try HubBackup.check(copy) == facts)
        #expect(try export(copy) == export(file))
    }

    @Test("One bit anywhere in the file is damage, and no copy is made of it")
    func bits() throws {
        try closedHub()
        // A check reads no page that is free.
        try SQLiteConnection(.writing(file)).execute("PRAGMA incremental_vacuum")
        let whole = try bytes(file)
        var random = SeededRandom(seed: 7)
        let (copy, size) = (folder.appendingPathComponent("copy.db").path, PageSeal.pageBytes)
        for number in 1...whole.count / size {
            var bytes = whole
            let place = (number - 1) * size + Int.random(in: 0..<size, using: &random)
            bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            let path = folder.appendingPathComponent("damaged-\(number).db").path
            try write(bytes, path)
            #expect(try broken(path) == [number])
            #expect(damage { () throws(HubError) in _ = try HubBackup.check(path) }?.isDamage == true, "the bit at \(place)")
            #expect(damage { () throws(HubError) in _ = try HubBackup.copy(path, to: copy) }?.isDamage == true, "the bit at \(place)")
            try? FileManager.default.removeItem(atPath: copy)  // there may be a part of one
        }
    }

    @Test("A hub does not start on a damaged first page, and says what it is")
    func firstPage() throws {
        try closedHub()
        var bytes = try bytes(file)
        bytes[2_000] ^= 4
        try write(bytes, file)
        let place = Hub.Place.file(file)
        let error = damage { () throws(HubError) in _ = try Hub(place, settings: Hub.Settings(), random: SeededRandom(seed: 1)) }
        #expect(error?.isDamage == true)
        #expect(error?.detail.contains("not as it was written") == true, "\(String(describing: error))")
        #expect(try self.bytes(file) == bytes)
    }

    @Test("A damaged page that a request meets is told as damage, and nothing of it is served")
    func request() throws {
        try closedHub()
        let root = try #require(try rootOfRecords())
        var bytes = try bytes(file)
        bytes[(root - 1) * PageSeal.pageBytes + 4_000] ^= 1
        try write(bytes, file)
        let bench = try HubBench(seed: 2, place: .file(file))
        var told: [HubError] = []
        bench.hub.report = { told.append($0) }
        #expect(bench.send("POST", "/v1/sync/pull", ["streams": [["entity": "audits", "cursor": nil]], "limit": 500]).status == 503)
        #expect(!told.isEmpty && told.allSatisfy { $0.isDamage && $0.detail.contains("not as it was written") }, "\(told)")
    }

    private func rootOfRecords() throws -> Int? {
        let connection = try SQLiteConnection(.reading(file))
        let statement = try connection.statement("SELECT rootpage FROM sqlite_schema WHERE name = 'record'")
        defer { statement.reset() }
        return try statement.step() ? Int(statement.int(0)) : nil
    }

    @Test("A header without the mark of seals is damage", arguments: [0, 4, 16])
    func header(_ reserved: UInt8) throws {
        try closedHub()
        var bytes = try bytes(file)
        bytes[20] = reserved
        try write(bytes, file)
        let (place, path) = (Hub.Place.file(file), file)
        let opened = damage { () throws(HubError) in _ = try Hub(place, settings: Hub.Settings(), random: SeededRandom(seed: 1)) }
        #expect(opened?.isDamage == true)
        #expect(damage { () throws(HubError) in _ = try HubInspector(file: path) }?.isDamage == true)
        #expect(damage { () throws(HubError) in _ = try HubBackup.check(path) }?.isDamage == true)
        #expect(try self.bytes(file) == bytes)
    }

    @Test("A database in memory has pages of the same form, without room for seals")
    func memory() throws {
        // The second one is a copy of the tables that were made for the first one.
        for place in [SQLiteDatabase.Place.memory, .memory, .file(file)] {
            let database = try SQLiteSchema.open(place)
            #expect(try database.number("PRAGMA page_size") == Int64(PageSeal.pageBytes))
            #expect(try database.number("PRAGMA auto_vacuum") == 2)
            #expect(database.reservedBytes == (place == .memory ? 0 : PageSeal.bytes))
        }
    }

    // MARK: Databases of earlier versions

    @Test("A database without seals gets them at a start, and keeps all that is in it")
    func earlier() throws {
        try closedHub()
        let plain = folder.appendingPathComponent("plain.db").path
        try copyWithoutSeals(to: plain)
        #expect(try !broken(plain).isEmpty)
        let before = try export(plain)
        #expect(try before == export(file))
        do {
            let bench = try HubBench(seed: 2, place: .file(plain))
            #expect(bench.hub.head == 121)
            #expect(try bench.verdict(Sent("k-60", seq: 60, .create, id: "a-60")).word != "accepted", "the keys are all there")
        }
        #expect(try broken(plain) == [])
        #expect(try export(plain) == before)
        #expect(try SQLiteConnection(.reading(plain)).pragma("auto_vacuum") == "2")
    }

    @Test("A large database without seals stays as it is, and is served; a restore gives its copy seals")
    func large() throws {
        try closedHub()
        let plain = folder.appendingPathComponent("plain.db").path
        try copyWithoutSeals(to: plain)
        try SQLiteConnection(.writing(plain)).execute(
            "CREATE TABLE filler(b); INSERT INTO filler VALUES (zeroblob(\(PageSeal.sealedAtOnce)))")
        let bench = try HubBench(seed: 2, place: .file(plain))
        #expect(try bench.verdict(Sent("k-122", seq: 122, .create, id: "new")).word == "accepted")
        #expect(try SQLiteConnection(.reading(plain)).reservedBytes == 0)
        let copy = folder.appendingPathComponent("copy.db").path
        #expect(try HubBackup.copy(plain, to: copy).head == 122)
        #expect(try !broken(copy).isEmpty)
        let rows = try export(copy)
        #expect(try HubBackup.seal(copy))
        _ = try HubBackup.renew(copy, random: SeededRandom(seed: 3))
        #expect(try broken(copy) == [])
        #expect(try export(copy).filter { $0.contains("a-60") } == rows.filter { $0.contains("a-60") })
        #expect(try HubBackup.check(copy).head == 122)
    }

    /// Makes the database as an earlier version would have made it.
    private func copyWithoutSeals(to plain: String) throws {
        let connection = try SQLiteConnection(.writing(plain))
        try connection.execute("PRAGMA auto_vacuum = INCREMENTAL; ATTACH '\(file)' AS old")
        let version = try connection.pragma("old.user_version"), application = try connection.pragma("old.application_id")
        var objects: [(type: String, name: String, sql: String)] = []
        let statement = try connection.statement(
            "SELECT type, name, sql FROM old.sqlite_schema WHERE sql IS NOT NULL ORDER BY type = 'index'")
        while try statement.step() { objects.append((statement.text(0), statement.text(1), statement.text(2))) }
        statement.reset()
        for object in objects {
            try connection.execute(object.sql)
            if object.type == "table" { try connection.execute("INSERT INTO main.\"\(object.name)\" SELECT * FROM old.\"\(object.name)\"") }
        }
        try connection.execute("PRAGMA application_id = \(application); PRAGMA user_version = \(version); PRAGMA journal_mode = WAL")
    }
}
