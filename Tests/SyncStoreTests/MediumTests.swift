import Foundation
import Glibc
import SyncCore
import SyncStore
import Synchronization
import Testing

/// Errors of the medium that mean less than they say: an error that passes is no damage, and a quota is no failing disk.
@Suite("The medium", .serialized)
struct MediumTests {
    private func writer(
        _ path: String, _ heard: HeardIncidents, retryAfter: Duration = .milliseconds(1), boot: String = "boot-1"
    ) -> StoreWriter {
        StoreWriter(
            time: FixedTime(), retryAfter: retryAfter, deliver: { calls in for call in calls { call() } },
            incident: { heard.add($0) },
            open: { now throws(StoreError) in
                let options = StoreOptions(device: DeviceID(trusted: "gw-17"), bootID: boot, rules: TestAgent.rules, seed: 1)
                return try Store(Database.open(path: path), options, at: now)
            })
    }

    /// As a crash has left it, so that the whole file is checked when it is opened.
    private func used(_ folder: TemporaryFolder) throws -> TestAgent {
        let agent = try TestAgent(on: Database.open(path: folder.database))
        let text = String(repeating: "x", count: 300)
        for number in 0..<60 { try agent.create("r\(number)", ["n": .int(Int64(number)), "t": .string(text)]) }
        return agent
    }

    private func count(_ path: String) throws -> Int64 { try RawDatabase(path).number("SELECT count(*) FROM payload") ?? 0 }

    @Test(
        "Whichever read of an opening fails once, the database is opened, is the same, and nothing is missing",
        arguments: ["image.db", "image.db-wal"])
    func opening(_ file: String) throws {
        let folder = try TemporaryFolder()
        let agent = try used(folder)
        if file == "image.db" { try agent.database.checkpoint(truncating: true) }
        let replica = agent.store.replica
        var number = 0
        var reads = 1
        while number < reads {
            number += 1
            let path = try folder.image()
            unlink(path + "-shm")
            let writer = writer(path, HeardIncidents())
            let medium = FailingMedium(.init(call: .read, file: "/" + file, error: EIO, first: number, count: 1))
            let opening = try writer.start()
            reads = medium.made
            #expect(!opening.isNew && opening.lostTail == 0, "read \(number)")
            let facts = try settled { writer.run({ store, now throws(StoreError) in try store.reads.facts(at: now) }, completion: $0) }
                .get()
            #expect(facts.replica == replica && facts.lastSeq == 60, "read \(number)")
            try writer.close()
        }
        #expect(reads > 10, "the file was hardly read")
    }

    @Test("A read that fails during work refuses that work alone; the database is opened again and goes on")
    func work() throws {
        let folder = try TemporaryFolder()
        let agent = try used(folder)
        try agent.database.checkpoint(truncating: true)
        let path = try folder.image()
        let heard = HeardIncidents()
        let writer = writer(path, heard)
        _ = try writer.start()
        _ = try enqueue(writer, "before").get()
        let refused: Result<Int, StoreError> = withExtendedLifetime(
            FailingMedium(.init(call: .read, file: "/image.db", error: EIO, first: 1, count: 1))
        ) {
            settled { done in
                writer.run(
                    { store, _ throws(StoreError) in
                        store.database.releaseMemory()
                        return try store.reads.check().count
                    }, completion: done)
            }
        }
        #expect(throws: StoreError.self) { try refused.get() }
        if case .failure(let error) = refused { #expect(error.isFailedRead, "\(error)") }
        #expect(heard.incidents == ["unread"])
        _ = try enqueue(writer, "after").get()
        try writer.close()
        #expect(try count(path) == 62)
    }

    @Test("A page that fails to be read again and again is damage; before that nothing is thrown away")
    func stays() throws {
        let folder = try TemporaryFolder()
        let agent = try used(folder)
        try agent.database.checkpoint(truncating: true)
        let path = try folder.image()
        let heard = HeardIncidents()
        try withExtendedLifetime(FailingMedium(.init(call: .read, file: "/image.db", error: EIO, first: 1, count: .max))) {
            let writer = writer(path, heard)
            do throws(StoreError) {
                _ = try writer.start()
                Issue.record("it was opened without being read")
            } catch {
                #expect(error.isPassing && error.isFailedRead, "\(error)")
                try writer.startResting(after: error)
            }
            heard.fatal.wait()
            try writer.close()
        }
        #expect(heard.incidents == ["fatal"])
        #expect(try count(path) == 60)
    }

    @Test("A question whose read fails once is answered all the same; one that fails twice says so and is no damage")
    func reader() throws {
        let folder = try TemporaryFolder()
        let agent = try used(folder)
        try agent.database.checkpoint(truncating: true)
        let path = try folder.image()
        let doubts = Mutex<[StoreError]>([])
        func ask(failing count: Int) -> Result<Int64, StoreError> {
            let reader = StoreReader(path: path, time: FixedTime(), deliver: { calls in for call in calls { call() } }) { error in
                doubts.withLock { $0.append(error) }
            }
            defer { reader.close() }
            return withExtendedLifetime(FailingMedium(.init(call: .read, file: "/image.db", error: EIO, first: 2, count: count))) {
                settled { done in
                    reader.read({ reads, now throws(StoreError) in try reads.facts(at: now).lastSeq }, completion: done)
                }
            }
        }
        #expect(try ask(failing: 1).get() == 60)
        #expect(doubts.withLock { $0 } == [])
        if case .failure(let error) = ask(failing: .max) { #expect(error.isFailedRead, "\(error)") } else { Issue.record("it was read") }
        #expect(doubts.withLock { $0.map(\.isFailedRead) } == [true])
        #expect(try ask(failing: 0).get() == 60)
    }

    @Test(
        "A quota and the largest size of a file are a full disk at a commit: nothing was stored, and that is known",
        arguments: [EDQUOT, EFBIG, ENOSPC])
    func quota(_ error: Int32) throws {
        let folder = try TemporaryFolder()
        _ = try used(folder)
        let path = try folder.image()
        let heard = HeardIncidents()
        let writer = writer(path, heard)
        _ = try writer.start()
        _ = try enqueue(writer, "before").get()
        let refused = withExtendedLifetime(FailingMedium(.init(call: .write, file: "/image.db-wal", error: error, first: 1, count: .max))) {
            enqueue(writer, "full")
        }
        if case .failure(let error) = refused { #expect(error.code == .diskFull, "\(error)") } else { Issue.record("it was stored") }
        #expect(heard.incidents == [])
        _ = try enqueue(writer, "after").get()
        try writer.close()
        #expect(try count(path) == 62)
    }

    @Test("A quota at a start is a full disk as well", arguments: [EDQUOT, EFBIG])
    func quotaAtStart(_ error: Int32) throws {
        let folder = try TemporaryFolder()
        _ = try used(folder)
        let path = try folder.image()
        // The first start of a boot writes that down.
        let writer = writer(path, HeardIncidents(), boot: "boot-2")
        withExtendedLifetime(FailingMedium(.init(call: .write, file: "/image.db-wal", error: error, first: 1, count: .max))) {
            do throws(StoreError) {
                _ = try writer.start()
                Issue.record("it was opened without a write")
            } catch {
                #expect(error.code == .diskFull, "\(error)")
            }
        }
        _ = try writer.start()
        try writer.close()
        #expect(try count(path) == 60)
    }

    @Test("A FIFO or a folder in the place of the database is told, and never waited for", arguments: ["fifo", "folder"])
    func noFile(_ kind: String) throws {
        let folder = try TemporaryFolder()
        if kind == "fifo" { mkfifo(folder.database, 0o600) } else { mkdir(folder.database, 0o700) }
        for isReader in [false, true] {
            do throws(StoreError) {
                if isReader { _ = try Database.openReader(path: folder.database) } else { _ = try Database.open(path: folder.database) }
                Issue.record("it was opened")
            } catch {
                #expect(error.code == .cannotOpen && error.detail.contains("regular file"), "\(error)")
            }
        }
    }
}
