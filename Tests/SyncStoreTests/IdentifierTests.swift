import SyncCore
import Testing

@testable import SyncStore

/// Ids that callers keep: each is given once for the life of a database, whatever happens to what it named.
@Suite("Ids that are given once")
struct IdentifierTests {
    /// Gives ids of one kind and lets what they name vanish.
    struct Kind: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// - Returns: A number that must rise.
        var give: @Sendable (TestAgent, Int) throws -> Int64
        /// Removes everything that was given so far, by what an operator or the retention does.
        var remove: @Sendable (TestAgent) throws -> Void
    }

    static let kinds: [Kind] = [
        Kind(
            testDescription: "mutation",
            give: { agent, step in try agent.create("m\(step)").seq },
            remove: { agent in
                try agent.drain(from: 1 + agent.store.lastSeq * 10)
                try Self.age(agent)
            }),
        Kind(
            testDescription: "event",
            give: { agent, step in
                try agent.store.addNote(type: "config", json: "{\"step\":\(step)}", at: agent.now)
                return try agent.store.reads.journal(after: 0, limit: 1_000, filter: JournalFilter()).newest
            }, remove: { agent in try Self.age(agent) }),
        Kind(
            testDescription: "file",
            give: { agent, step in
                let digest = BlobDigest(bytes: SHA256.hash(Array("file \(step)".utf8)))!
                return try agent.store.addBlob(
                    digest, size: 10, type: "image/jpeg", filename: "", by: agent.app, capacity: BlobCapacity(), at: agent.now
                ).row.id.number
            },
            remove: { agent in
                for row in try agent.store.reads.blobs(nil, after: 0, limit: 100) {
                    _ = try agent.store.removeBlob(row.id, at: agent.now)
                }
            }),
        Kind(
            testDescription: "conflict",
            give: { agent, step in
                let id = "c\(step)", version = Int64(1_000 + step * 10)
                try agent.pull([(id, version, ["v": 1])], head: version)
                let key = try agent.update(id, ["v": 2]).key
                while case let batch = try agent.claim(), !batch.isEmpty {
                    for sent in batch where sent.key != key { try agent.answer(.accepted(sent.key, version + 1)) }
                }
                try agent.answer(.conflict(key, ["v"], .record(HubRecord(version: version + 5, data: ["v": 3]))))
                return try #require(try agent.store.reads.conflicts(ConflictQuery()).items.map(\.number).max())
            },
            remove: { agent in
                for conflict in try agent.store.reads.conflicts(ConflictQuery()).items {
                    _ = try agent.store.resolve(conflict.number, ConflictDecision(.all(.remote)), by: agent.app, at: agent.now)
                }
                try Self.age(agent)
            }),
        Kind(
            testDescription: "entry of the audit trail",
            give: { agent, step in
                try agent.store.audit("test", "t-\(step)", uid: 0, [:], at: agent.now)
                return try #require(try agent.database.number("SELECT max(n) FROM audit"))
            }, remove: { agent in try Self.age(agent) }),
        Kind(
            testDescription: "row of a record",
            give: { agent, step in
                let version = Int64(2_000 + step * 10)
                try agent.pull([("r", version, ["v": .int(step)])], head: version)
                let etag = try #require(try agent.record("r")?.etag)
                return try #require(Int64(etag.dropFirst().prefix { $0 != "." }))
            },
            remove: { agent in
                guard let version = try agent.record("r")?.version else { return }
                try agent.pull([], deleted: [("r", version + 1)], head: version + 1)
                try Self.age(agent)
            }),
    ]

    /// Everything that may be pruned by age is gone after this.
    private static func age(_ agent: TestAgent) throws {
        for _ in 0..<6 {
            agent.wait(.seconds(60 * 86_400))
            while try agent.store.housekeep(at: agent.now) {}
        }
    }

    @Test(
        "No id is given twice: after its thing is gone, after a restart, after an older copy was put back, after a rescue", arguments: kinds
    )
    func once(_ kind: Kind) throws {
        let folder = try TemporaryFolder()
        var agent = try TestAgent(in: folder)
        var highest: Int64 = 0
        var step = 0
        func give(_ after: String) throws {
            for _ in 0..<3 {
                step += 1
                let id = try kind.give(agent, step)
                // A row keeps its number as long as it is there; everything else is new with each call.
                #expect(id > highest, "\(kind) \(id) was given again after \(after)")
                highest = max(highest, id)
                if kind.testDescription == "row of a record" { try kind.remove(agent) }
            }
        }
        try give("nothing")
        try kind.remove(agent)
        try give("a removal")
        try kind.remove(agent)
        try agent.crash()
        try give("a restart")
        try kind.remove(agent)
        try agent.store.close(at: agent.now)
        let copy = folder.bytes()

        agent = try agent.again(in: folder)
        try give("a restart in good order")
        // The copy does not know these three; the hub says so, and the agent takes another name.
        try agent.store.close(at: agent.now)
        try folder.write(copy)
        agent = try agent.again(in: folder)
        try agent.store.adoptReplica(ReplicaID(trusted: "0199c3f3-0000-7000-8000-000000000001"), at: agent.now)
        // The number of a mutation may come again there. A mutation is named by its key, which also holds 62 random bits, and the hub
        // compares keys.
        if kind.testDescription == "mutation" { highest = agent.store.lastSeq }
        try give("an older copy")

        // The first page is lost, and with it every counter that stands on it.
        try agent.store.close(at: agent.now)
        var bytes = folder.bytes()
        for index in 0..<100 { bytes[index] = 0 }
        try folder.write(bytes)
        _ = try DatabaseRescue(path: folder.database, quarantine: folder.path + "/quarantine", options: agent.options)
            .run(reason: "test", at: agent.now)
        agent = try agent.again(in: folder)
        try give("a rescue")
        #expect(try agent.store.verify() == [])
    }

    @Test("A number that is made from what is there now would be noticed")
    func control() throws {
        let files = try #require(Self.kinds.first { $0.testDescription == "file" })
        let counted = Kind(
            testDescription: "how many files there are",
            give: { agent, step in
                _ = try files.give(agent, step)
                return Int64(try agent.store.reads.blobs(nil, after: 0, limit: 100).count)
            }, remove: files.remove)
        withKnownIssue { try once(counted) }
    }

    private static let known: [([String], Int64)] = [
        ([], 1),
        (["INSERT INTO audit (age, at_ms, uid, verb, target) VALUES (1, 1, 0, 'remove', 'b-7')"], 1_007),
        (["INSERT INTO audit (age, at_ms, uid, verb, target) VALUES (1, 1, 0, 'remove', 'b-999999999999999999999')"], 1),
        (["INSERT INTO audit (age, at_ms, uid, verb, target) VALUES (1, 1, 0, 'discard', 'b-7')"], 1),
        (["INSERT INTO tie (seq, on_seq) VALUES (1, -12)"], 1_012),
    ]

    @Test("A file of an earlier version gets a counter above every number that it knows of", arguments: known)
    func migrated(_ rows: [String], _ next: Int64) throws {
        let folder = try TemporaryFolder()
        var agent = try TestAgent(in: folder)
        try agent.store.close(at: agent.now)
        let raw = try RawDatabase(folder.database)
        try raw.goBack(to: 9)
        for row in rows { try raw.rows(row) }
        agent = try agent.again(in: folder)
        #expect(try agent.database.number("SELECT n FROM counter WHERE name = 'next_blob'") == next)
    }

    @Test("Readers of events are told to look at everything anew when the database went back, wherever they stood", arguments: [-2, 0, 40])
    func events(_ ahead: Int64) throws {
        let agent = try TestAgent()
        for number in 1...5 { try agent.create("m\(number)") }
        func page(_ position: Int64) throws -> JournalPage {
            try agent.store.reads.journal(after: position, limit: 100, filter: JournalFilter())
        }
        let position = try page(0).newest + ahead
        try agent.store.adoptReplica(ReplicaID(trusted: "0199c3f3-0000-7000-8000-000000000001"), at: agent.now)
        let next = try page(position)
        #expect(position + 1 < next.oldest, "events between were shown in a life that this database does not know")
        #expect(next.events.allSatisfy { $0.id > position } && next.newest > position)
        #expect(try agent.store.verify() == [])
    }

    @Test("Names whose rows were lost leave a gap that no new name falls into")
    func names() throws {
        let folder = try TemporaryFolder()
        var agent = try TestAgent(in: folder)
        try agent.create("a")
        try agent.event()
        try agent.store.close(at: agent.now)
        // After a rescue the first of two names may be gone.
        let raw = try RawDatabase(folder.database)
        try raw.rows("PRAGMA foreign_keys = OFF")
        try raw.rows("DELETE FROM payload")
        try raw.rows("DELETE FROM mutation")
        try raw.rows("DELETE FROM record")
        try raw.rows("DELETE FROM stream")
        try raw.rows("DELETE FROM counter WHERE name = 'mutations' OR name = 'enqueued'")
        try raw.rows("DELETE FROM entity WHERE name = 'audit'")
        agent = try agent.again(in: folder)
        try agent.create("b")
        #expect(try agent.view("b") == #"{"n":1}"#)
        #expect(try agent.event().seq > 0)
    }
}

extension TestAgent {
    /// Another process on the file of this folder, whatever became of it.
    func again(in folder: TemporaryFolder) throws -> TestAgent {
        database = try Database.inMemory()
        store = try Store(database, StoreOptions(device: options.device, bootID: options.bootID, seed: 0), at: now)
        let time = now
        let next = try TestAgent(in: folder) { $0.seed = UInt64(truncatingIfNeeded: time.wall.milliseconds) }
        next.wait(next.now.wall.duration(to: time.wall) + .seconds(1))
        return next
    }
}
