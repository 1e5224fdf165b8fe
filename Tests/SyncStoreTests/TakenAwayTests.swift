import Foundation
import SyncCore
import Testing

@testable import SyncStore

/// Files of the database that are moved, removed or replaced while it is open: SQLite notices nothing of that.
@Suite("Files that are taken away")
struct TakenAwayTests {
    private func writer(_ path: String, _ heard: HeardIncidents, retryAfter: Duration = .milliseconds(1)) throws -> StoreWriter {
        let writer = StoreWriter(
            time: FixedTime(), retryAfter: retryAfter, deliver: { calls in for call in calls { call() } },
            incident: { heard.add($0) },
            open: { now throws(StoreError) in
                let options = StoreOptions(device: DeviceID(trusted: "gw-17"), bootID: "boot-1", rules: TestAgent.rules, seed: 1)
                return try Store(Database.open(path: path), options, at: now)
            })
        _ = try writer.start()
        return writer
    }

    private func failure(_ writer: StoreWriter, _ id: String) -> StoreError.Code? {
        guard case .failure(let error) = enqueue(writer, id) else { return nil }
        return error.code
    }

    /// Returns the number of records in the file at the path, as a start would see it.
    private func count(_ path: String) throws -> Int64 {
        #expect(Database.isWhole(path: path))
        return try RawDatabase(path).number("SELECT count(*) FROM payload") ?? 0
    }

    @Test(
        "The content of any removed file of the database is written again before the next answer",
        arguments: [["", "-wal", "-shm"], [""], ["-wal"], ["", "-wal"], ["-wal", "-shm"]])
    func removed(_ endings: [String]) throws {
        let folder = try TemporaryFolder()
        let heard = HeardIncidents()
        let writer = try writer(folder.database, heard)
        for number in 1...40 { _ = try enqueue(writer, "a\(number)").get() }
        for ending in endings { try FileManager.default.removeItem(atPath: folder.database + ending) }
        #expect(try enqueue(writer, "b").get()[0].seq == 41)
        #expect(heard.incidents == ["restored"])
        // Nothing was closed: this is what a power cut would leave.
        #expect(try count(folder.image()) == 41)
        #expect(try enqueue(writer, "c").get()[0].seq == 42)
        #expect(heard.incidents == ["restored"])
        #expect(try count(folder.image()) == 42)
        try writer.close()
        #expect(try count(folder.database) == 42)
        #expect(!FileManager.default.fileExists(atPath: folder.database + "-restored"))
    }

    @Test("A reader asks the database that is there now")
    func reader() throws {
        let folder = try TemporaryFolder()
        let writer = try writer(folder.database, HeardIncidents())
        let reader = StoreReader(path: folder.database, time: FixedTime(), deliver: { calls in for call in calls { call() } })
        _ = try enqueue(writer, "a").get()
        #expect(try facts(reader).open == 1)
        for ending in ["", "-wal", "-shm"] { try FileManager.default.removeItem(atPath: folder.database + ending) }
        _ = try enqueue(writer, "b").get()
        reader.openAgain()
        #expect(try facts(reader).open == 2)
        reader.close()
        try writer.close()
    }

    private func facts(_ reader: StoreReader) throws -> StoreFacts {
        try settled { done in
            reader.read({ reads, now throws(StoreError) in try reads.facts(at: now) }, completion: done)
        }.get()
    }

    @Test("A folder that is moved away: nothing is taken any more, and all goes on when it is back")
    func moved() throws {
        let folder = try TemporaryFolder()
        let state = folder.path + "/state"
        try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: false)
        let heard = HeardIncidents()
        let writer = try writer(state + "/agent.db", heard)
        _ = try enqueue(writer, "a").get()
        try FileManager.default.moveItem(atPath: state, toPath: folder.path + "/away")
        #expect(failure(writer, "b") == .removed, "it is noticed before the commit, so there is no doubt about it")
        #expect(failure(writer, "c") == .removed)
        try FileManager.default.moveItem(atPath: folder.path + "/away", toPath: state)
        heard.usable.wait()
        #expect(try enqueue(writer, "d").get()[0].seq == 2)
        #expect(heard.incidents == ["unusable", "usable"])
        try writer.close()
        #expect(try count(state + "/agent.db") == 2)
    }

    @Test("A folder that stays away keeps all that was committed, and what stands in its place is left alone")
    func staysAway() throws {
        let folder = try TemporaryFolder()
        let state = folder.path + "/state"
        try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: false)
        let writer = try writer(state + "/agent.db", HeardIncidents(), retryAfter: .seconds(600))
        for number in 1...3 { _ = try enqueue(writer, "a\(number)").get() }
        try FileManager.default.moveItem(atPath: state, toPath: folder.path + "/away")
        #expect(failure(writer, "b") == .removed)
        // Another agent begins where the folder was.
        try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: false)
        let other = try self.writer(state + "/agent.db", HeardIncidents())
        _ = try enqueue(other, "x").get()
        try writer.close()
        #expect(FileManager.default.fileExists(atPath: state + "/agent.db-wal"))
        try other.close()
        #expect(try count(state + "/agent.db") == 1)
        #expect(try count(folder.path + "/away/agent.db") == 3)
    }

    @Test("Another database in its place is not written over: it is opened")
    func replaced() throws {
        let folder = try TemporaryFolder()
        let heard = HeardIncidents()
        let writer = try writer(folder.database, heard)
        _ = try enqueue(writer, "a").get()
        let copy = try folder.image()
        _ = try enqueue(writer, "b").get()
        for ending in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: folder.database + ending) }
        // An operator brings the saved files back.
        for ending in ["", "-wal"] { #expect(rename(copy + ending, folder.database + ending) == 0) }
        #expect(failure(writer, "c") == .removed)
        heard.usable.wait()
        #expect(try enqueue(writer, "d").get()[0].seq == 2)
        #expect(heard.incidents == ["unusable", "usable"])
        try writer.close()
        #expect(try count(folder.database) == 2)
    }
}
