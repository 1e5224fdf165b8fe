import Foundation
import StoreKit
import SyncCore
import SyncStore
import Testing

/// PROTOCOL C2: a database that cannot be opened is moved aside, and what can be read of it goes into a new one.
@Suite("Rescue")
struct RescueTests {
    /// A database with something of everything, and what it held.
    private struct Wreck {
        let folder: TemporaryFolder
        let replica: ReplicaID
        let options: StoreOptions
        /// Every payload that was in it, by `seq`: key and data.
        let payloads: [Int64: [String?]]
        let states: [Int64: String]
        let documents: [String: String]
        let now: Moment
        private let files: (database: [UInt8], log: [UInt8])

        init(_ count: Int = 150, closed: Bool = true, seed: UInt64 = 1) throws {
            let folder = try TemporaryFolder()
            self.folder = folder
            let agent = try TestAgent(in: folder) { $0.seed = seed }
            let text = String(repeating: "x", count: 150)
            try agent.pull((0..<count).map { ("p\($0)", Int64($0 + 1), ["v": .string("\(text)-\($0)")]) })
            for number in 0..<count {
                try agent.create("r\(number)", ["n": .int(Int64(number)), "t": .string(text)])
                try agent.event(["t": .int(Int64(number))])
            }
            // A third is done, one is refused, one is in flight, one is taken back, one is a list of two.
            for _ in 0..<(count / 3) {
                guard let next = try agent.claim(1).first else { break }
                try agent.answer(.accepted(next.key, 500 + next.seq))
            }
            if let next = try agent.claim(1).first {
                try agent.answer(
                    PushResult(key: next.key, verdict: .rejected(Problem("validation", status: 422, detail: "no"), current: nil)))
            }
            _ = try agent.claim(1)
            _ = try agent.store.cancel(try agent.create("taken-back").key, at: agent.now)
            _ = try agent.list([TestAgent.mutation(.create, "l1"), TestAgent.mutation(.update, "p1", ["v": "new"])])
            try agent.create("large", ["t": .string(String(repeating: "large ", count: 4_000))])
            agent.wait(.seconds(1))
            if closed { try agent.store.close(at: agent.now) }
            // Copied as a power cut leaves them: closing a connection in good order would move the log into the file.
            files = (folder.bytes(), folder.bytes("-wal"))
            replica = agent.store.replica
            now = agent.now
            var options = agent.options
            options.marker = StoreMarker(replica: replica, acknowledged: agent.store.lastSeq)
            self.options = options
            let raw = try RawDatabase(folder.database)
            payloads = Dictionary(
                uniqueKeysWithValues: try raw.rows("SELECT seq, key, data FROM payload").map { (Int64($0[0] ?? "") ?? 0, Array($0[1...])) })
            states = Dictionary(
                uniqueKeysWithValues: try raw.rows("SELECT seq, state FROM mutation").map { (Int64($0[0] ?? "") ?? 0, $0[1] ?? "") })
            documents = Dictionary(
                uniqueKeysWithValues: try raw.rows("SELECT id, base FROM record WHERE base IS NOT NULL").map { ($0[0] ?? "", $0[1] ?? "") })
        }

        /// Puts the files back as they were while the store was open.
        func lay() throws {
            try? FileManager.default.removeItem(atPath: folder.database + "-shm")  // it need not be there
            try folder.write(files.database)
            if !files.log.isEmpty { try folder.write(files.log, "-wal") }
        }

        var quarantine: String { folder.path + "/quarantine" }
        var rescue: DatabaseRescue { DatabaseRescue(path: folder.database, quarantine: quarantine, options: options) }

        func change(_ body: (inout [UInt8]) -> Void) throws {
            var bytes = folder.bytes()
            body(&bytes)
            try folder.write(bytes)
        }

        /// The error of an opening; `nil` when it succeeds.
        func complaint() -> StoreError? {
            do throws(StoreError) {
                _ = try Store(Database.open(path: folder.database), options, at: now)
                return nil
            } catch {
                return error
            }
        }

        func reopen() throws -> Store {
            let marker = options.marker.map { StoreMarker(replica: $0.replica, acknowledged: 0) }
            return try Store(Database.open(path: folder.database), options.with(marker), at: now)
        }

        /// The new database is in order, and nothing in it is anything but what was in the old one.
        @discardableResult
        func check(_ result: StoreRescue) throws -> Store {
            let store = try reopen()
            #expect(try store.verify() == [])
            #expect(store.replica != replica)
            #expect(store.lastSeq >= options.marker?.acknowledged ?? 0, "numbers that apps were given are not given again")
            let raw = try RawDatabase(folder.database)
            let found = try raw.rows("SELECT p.seq, p.key, p.data, m.state FROM payload p JOIN mutation m ON m.seq = p.seq")
            for row in found {
                let seq = Int64(row[0] ?? "") ?? 0
                #expect(payloads[seq] == Array(row[1...2]), "mutation \(seq) is not what it was")
            }
            #expect(Int64(found.count) == result.mutations)
            for row in try raw.rows("SELECT id, base, base_version FROM record WHERE base IS NOT NULL") {
                #expect(documents[row[0] ?? ""] == row[1], "record \(row[0] ?? "") is not what it was")
                #expect(row[2] == "-1", "whatever the hub has is newer")
            }
            #expect(try raw.number("SELECT count(*) FROM mutation WHERE state = 0") == 0, "what waited may have been sent")
            let facts = try store.reads.facts(at: now)
            #expect(facts.enqueued == facts.counts.values.reduce(0) { $0 + $1.values.reduce(0, +) })
            return store
        }
    }

    private static let page = 4_096

    @Test("With nothing but its beginning lost, everything else comes back", arguments: [100, 4_096])
    func header(_ bytes: Int) throws {
        let wreck = try Wreck()
        try wreck.change { for index in 0..<bytes { $0[index] = 0 } }
        let complaint = try #require(wreck.complaint())
        #expect(complaint.code == .notADatabase)
        #expect(DatabaseRescue.helps(against: complaint))
        let result = try wreck.rescue.run(reason: complaint.description, at: wreck.now)
        #expect(result.mutations == Int64(wreck.payloads.count))
        #expect(result.lost == 0)
        let store = try wreck.check(result)
        let raw = try RawDatabase(wreck.folder.database)
        for row in try raw.rows("SELECT seq, state FROM mutation") {
            let before = wreck.states[Int64(row[0] ?? "") ?? 0] ?? "0"
            #expect(row[1] == (before == "0" ? "1" : before), "states are kept; what waited is in flight")
        }
        #expect(try raw.number("SELECT count(*) FROM record WHERE base IS NOT NULL") == Int64(wreck.documents.count))
        let batch = try #require(try store.loadInFlight(BatchLimits(mutations: 500, bytes: 1 << 20), at: wreck.now))
        #expect(batch.mutations.map(\.seq) == batch.mutations.map(\.seq).sorted())
    }

    @Test("A file that lost a third gives back what the rest holds, and says how much is missing")
    func cut() throws {
        let wreck = try Wreck()
        try wreck.change { $0.removeLast($0.count / 3 / Self.page * Self.page + 1_000) }
        #expect(wreck.complaint() != nil)
        let result = try wreck.rescue.run(reason: "cut", at: wreck.now)
        #expect(result.mutations > 0)
        // The last number that was given out may have been in the lost part. Mutations after the last known one cannot be counted, so the
        // result never names more than are missing.
        let missing = Int64(wreck.payloads.count) - result.mutations
        #expect((1...missing).contains(result.lost))
        #expect(result.mutations < Int64(wreck.payloads.count))
        try wreck.check(result)
    }

    struct Damage: Sendable, CustomTestStringConvertible {
        var seed: UInt64
        var pages: Int
        var testDescription: String { "seed \(seed), \(pages) pages" }
    }

    @Test(
        "Flipped bits and overwritten pages cost what they hit, and nothing else is lost or made up",
        arguments: (1...40).map { Damage(seed: $0, pages: [1, 1, 2, 4, 10][Int($0) % 5]) })
    func flips(_ damage: Damage) throws {
        let wreck = try Wreck(60)
        var random = SeededRandom(seed: damage.seed)
        try wreck.change { bytes in
            for _ in 0..<damage.pages {
                let page = Int.random(in: 0..<(bytes.count / Self.page), using: &random) * Self.page
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[page + Int.random(in: 0..<Self.page, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                case 1: for index in 0..<Self.page { bytes[page + index] = 0 }
                default: for index in 0..<Self.page { bytes[page + index] = UInt8.random(in: 0...255, using: &random) }
                }
            }
        }
        let result = try wreck.rescue.run(reason: "flips", at: wreck.now)
        let store = try wreck.check(result)
        #expect(result.records + result.mutations > 0)
        // It goes on as any store does.
        let app = Requester(app: AppName(trusted: "inspector"), uid: 1000)
        _ = try store.enqueue([TestAgent.mutation(.create, "afterwards", ["n": 1])], by: app, at: wreck.now)
        #expect(try store.verify() == [])
    }

    @Test("One damaged inner page hides nothing that is below it")
    func innerPage() throws {
        let wreck = try Wreck(400)
        let root = try #require(try RawDatabase(wreck.folder.database).number("SELECT rootpage FROM sqlite_schema WHERE name = 'payload'"))
        try wreck.change { bytes in for index in 0..<Self.page { bytes[Int(root - 1) * Self.page + index] = 0xA5 } }
        let result = try wreck.rescue.run(reason: "inner page", at: wreck.now)
        #expect(result.mutations == Int64(wreck.payloads.count))
        try wreck.check(result)
    }

    @Test("Rows that are only in the log come back as well, and a log of another database is recognised")
    func log() throws {
        let wreck = try Wreck(closed: false)
        try wreck.lay()
        #expect(!wreck.folder.bytes("-wal").isEmpty)
        try wreck.change { for index in 0..<Self.page { $0[index] = 0 } }
        let result = try wreck.rescue.run(reason: "log", at: wreck.now)
        #expect(result.mutations == Int64(wreck.payloads.count))
        try wreck.check(result)

        let other = try Wreck(30)
        let foreign = try Wreck(20, closed: false, seed: 2)
        try foreign.lay()
        try other.folder.write(foreign.folder.bytes("-wal"), "-wal")
        let second = try other.rescue.run(reason: "another log", at: other.now)
        #expect(second.mutations == Int64(other.payloads.count))
        try other.check(second)
    }

    @Test("A log that only takes away is newer than the file without it: what was cancelled in it is not sent")
    func logThatTakesAway() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.pull((0..<5).map { ("p\($0)", Int64($0 + 1), ["n": 1]) })
        let key = try agent.create("a").key
        // Closing it in good order moves the log into the file.
        try agent.store.close(at: agent.now)
        try agent.reopen(folder.database)
        _ = try agent.store.cancel(key, at: agent.now)
        try agent.pull([], deleted: [("p0", 9)])
        var file = folder.bytes()
        let log = folder.bytes("-wal")
        try agent.store.close(at: agent.now)
        // Nothing may still hold the old connection.
        agent.database = try EmptyDatabase.copy()
        agent.store = try Store(agent.database, agent.options, at: agent.now)
        for index in 0..<Self.page { file[index] = 0 }
        try folder.write(file)
        try folder.write(log, "-wal")
        let rescue = DatabaseRescue(path: folder.database, quarantine: folder.path + "/quarantine", options: agent.options)
        _ = try rescue.run(reason: "log", at: agent.now)
        try agent.reopen(folder.database)
        #expect(try agent.states([key]) == ["cancelled"])
        #expect(try agent.view("p0") == nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("Nothing at all, no length and garbage give an empty database that goes on with the numbers", arguments: [0, 1, 2])
    func nothing(_ kind: Int) throws {
        let wreck = try Wreck(20)
        switch kind {
        case 0: try FileManager.default.removeItem(atPath: wreck.folder.database)
        case 1: try wreck.folder.write([])
        default: try wreck.folder.write([UInt8](repeating: 0x5A, count: 50_000))
        }
        let complaint = try #require(wreck.complaint())
        #expect(DatabaseRescue.helps(against: complaint))
        let result = try wreck.rescue.run(reason: complaint.description, at: wreck.now)
        #expect(result.mutations == 0)
        #expect(result.lost == wreck.options.marker?.acknowledged)
        let store = try wreck.check(result)
        #expect(try store.reads.facts(at: wreck.now).tailLost == result.lost)
    }

    @Test("The damaged file is kept as it was, in a folder that names its replica; three are kept")
    func kept() throws {
        let wreck = try Wreck(20)
        for round in 1...5 {
            try wreck.change { for index in 0..<100 { $0[index] = 0 } }
            let bytes = wreck.folder.bytes()
            let result = try wreck.rescue.run(reason: "round \(round)", at: wreck.now)
            #expect(result.folder == wreck.quarantine + "/\(wreck.replica)-\(round)")
            #expect(FileManager.default.contents(atPath: result.folder + "/agent.db").map { Array($0) } == bytes)
            _ = try wreck.reopen()
        }
        let folders = try FileManager.default.contentsOfDirectory(atPath: wreck.quarantine).sorted()
        #expect(folders == [3, 4, 5].map { "\(wreck.replica)-\($0)" })
    }

    @Test("A power cut at any step of a rescue ends with the next start", arguments: 0..<6)
    func isRepeated(_ step: Int) throws {
        let wreck = try Wreck(30)
        try wreck.change { for index in 0..<100 { $0[index] = 0 } }
        let files = FileManager.default
        let folder = wreck.quarantine + "/\(wreck.replica)-1"
        try files.createDirectory(atPath: folder, withIntermediateDirectories: true)
        #expect(files.createFile(atPath: folder + "/unsalvaged", contents: nil))
        if step >= 1 {
            // The log is moved first.
            #expect(files.createFile(atPath: folder + "/agent.db-wal", contents: nil))
        }
        if step >= 2 { try files.moveItem(atPath: wreck.folder.database, toPath: folder + "/agent.db") }
        if step >= 3 { #expect(files.createFile(atPath: wreck.folder.database + ".new", contents: Data([1, 2, 3]))) }
        if step >= 4 {
            try? files.removeItem(atPath: wreck.folder.database + ".new")
            #expect(try wreck.rescue.isUnfinished())
            let result = try wreck.rescue.run(reason: "again", at: wreck.now)
            try wreck.check(result)
            // Everything is done but for the mark.
            #expect(files.createFile(atPath: folder + "/unsalvaged", contents: nil))
            #expect(try !wreck.rescue.isUnfinished())
            #expect(!files.fileExists(atPath: folder + "/unsalvaged"))
            return
        }
        #expect(try wreck.rescue.isUnfinished())
        let result = try wreck.rescue.run(reason: "again", at: wreck.now)
        #expect(result.mutations == Int64(wreck.payloads.count))
        #expect(result.folder == folder)
        try wreck.check(result)
        #expect(try !wreck.rescue.isUnfinished())
    }

    @Test("A log that was cut opens at its last good frame, and the witness beside it tells what is missing")
    func lostTail() throws {
        let wreck = try Wreck(closed: false)
        try wreck.lay()
        let log = wreck.folder.bytes("-wal")
        var flipped = log
        flipped[log.count / 2] ^= 0x10
        try wreck.folder.write(flipped, "-wal")
        let store = try Store(Database.open(path: wreck.folder.database), wreck.options, at: wreck.now)
        #expect(store.opening.lostTail > 0)
        #expect(store.replica != wreck.replica)
        #expect(try store.verify() == [])
    }

    /// Closes the store, and opens it again on a database that was made of what is left of its rows.
    private static func rescue(_ agent: TestAgent, in folder: TemporaryFolder, losing statements: [String] = []) throws -> StoreRescue {
        try agent.store.close(at: agent.now)
        // Nothing may still hold the old connection.
        agent.database = try EmptyDatabase.copy()
        agent.store = try Store(agent.database, agent.options, at: agent.now)
        do {
            let raw = try RawDatabase(folder.database)
            for sql in statements { try raw.rows(sql) }
            try raw.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        }
        let rescue = DatabaseRescue(path: folder.database, quarantine: folder.path + "/quarantine", options: agent.options)
        let result = try rescue.run(reason: "a test", at: agent.now)
        try agent.reopen(folder.database)
        return result
    }

    struct Dispute: Sendable, CustomTestStringConvertible {
        let action: NewMutation.Action
        /// The row of the conflict was lost as well.
        var losesConflict: Bool
        /// The new listing has been read, and the record is not in it.
        var isListed: Bool
        var testDescription: String { "\(action)\(losesConflict ? ", no conflict" : "")\(isListed ? ", listed" : "")" }

        static let all = [NewMutation.Action.update, .delete].flatMap { action in
            [false, true].flatMap { loses in
                [false, true].map { Dispute(action: action, losesConflict: loses, isListed: $0) }
            }
        }
    }

    // Fault: a decision to keep a change counted as one about a record that this device had deleted at the hub, so nothing was sent.
    @Test("A decision for this side is sent also where the row of its record was lost: the hub knows the record", arguments: Dispute.all)
    func decisionAboutLostRecord(_ dispute: Dispute) throws {
        var rules = EntityRules()
        rules.fields = ["finding": .manual]
        rules.onDeleted = .manual
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: RuleBook([EntityName(trusted: "audit"): rules]))
        try agent.pull([("a", 5, ["finding": "pass", "n": 0]), ("b", 6, ["finding": "pass"])])
        let data: JSONObject = dispute.action == .delete ? [:] : ["finding": "fail", "n": 1]
        let old = try agent.enqueue(TestAgent.mutation(dispute.action, "a", data)).key
        try agent.pull([("a", 7, ["finding": "flagged", "n": 0])])
        #expect(try agent.state(old) == .conflicted)
        let result = try Self.rescue(
            agent, in: folder, losing: ["DELETE FROM record WHERE id = 'a'"] + (dispute.losesConflict ? ["DELETE FROM conflict"] : []))
        #expect(result.mutations == 1 && result.records == 1)
        if dispute.isListed {
            let page = SnapshotPage(
                entity: EntityName(trusted: "audit"), startCursor: "c", startVersion: 9,
                records: [.init(id: RecordID(trusted: "b"), record: HubRecord(version: 6, data: ["finding": "pass"]))], after: nil,
                hasMore: false)
            _ = try agent.store.applySnapshot(page, at: agent.now)
        }
        let conflict = try #require(try agent.conflicts().first)
        let answer = try ConflictTests.resolve(agent, .all(.local), id: conflict.number)
        #expect(answer.state == "resolving" && answer.mutation != nil)
        #expect(try agent.store.verify() == [])
        let batch = try agent.claim()
        #expect(batch.map(\.key) == [answer.mutation] && batch.map(\.baseVersion) == [0] && batch.first?.supersedes == [old])
        let sent = try batch.first?.data.flatMap { try JSONReader.read($0).object }
        #expect(dispute.action == .delete ? sent == nil : sent == ["finding": "fail", "n": 1])
        // The hub asks again, if it must, and shows the record.
        let key = try #require(answer.mutation)
        try agent.answer(.conflict(key, ["finding"], .record(HubRecord(version: 7, data: ["finding": "flagged", "n": 0]))))
        #expect(try agent.store.verify() == [])
        let again = try #require(try agent.conflicts().first)
        try ConflictTests.resolve(agent, .all(.local), id: again.number)
        #expect(try agent.claim().map(\.baseVersion) == [7])
    }

    /// A lost table beside a change that waits for its file.
    enum LostBesideFile: String, CaseIterable { case nothing, counter, blob }

    // Fault: the change came back as in flight, so the hub got it before its file.
    @Test(
        "A change that waits for its file waits for it again, with all that must not overtake it, unless the file is lost as well",
        arguments: LostBesideFile.allCases)
    func gated(_ lost: LostBesideFile) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        agent.store.gatesBlobs = true
        let digest = try #require(BlobDigest(bytes: SHA256.hash([1])))
        let blob = try agent.store.addBlob(
            digest, size: 1_000, type: "image/jpeg", filename: "a.jpg", by: agent.app, capacity: BlobCapacity(), at: agent.now
        ).row.id
        var change = TestAgent.mutation(.create, "a")
        change.blobs = [["field": "photo", "blob": .string(blob.description)]]
        let gated = try agent.enqueue(change).key
        let later = try agent.update("a", ["n": 2]).key
        var dependent = TestAgent.mutation(.create, "b")
        dependent.dependsOn = [gated]
        let tied = try agent.enqueue(dependent).key
        let list = try agent.list([TestAgent.mutation(.update, "a", ["n": 3]), TestAgent.mutation(.create, "c")]).map(\.key)
        let behindList = try agent.update("c", ["n": 1]).key
        let free = try agent.create("free").key
        let held = [gated, later, tied] + list + [behindList]
        let result = try Self.rescue(agent, in: folder, losing: lost == .nothing ? [] : ["DELETE FROM \(lost)"])
        #expect(result.mutations == 7 && result.open == 7)
        #expect(try agent.store.verify() == [])
        guard lost != .blob else {
            // Nothing would end the wait.
            #expect(try agent.inFlight().map(\.key) == held + [free])
            return
        }
        #expect(try agent.inFlight().map(\.key) == [free])
        #expect(try agent.states(held) == held.map { _ in "pending" } && agent.blocked(gated) == Deferral(.blobWait))
        #expect(try agent.claim().isEmpty)
        // They may have been sent in the lost time.
        #expect(StoreError.problem { _ = try agent.store.cancel(behindList, at: agent.now) } != nil)
        try agent.answer(.accepted(free, 50))
        _ = try agent.store.endUpload(
            blob, isVerified: true, remoteURL: nil, capacity: BlobCapacity(), note: "{}", at: agent.now)
        #expect(try agent.store.verify() == [])
        #expect(try agent.claim(1).map(\.key) == [gated])
        try agent.answer(.accepted(gated, 60))
        try agent.drain()
        #expect(try agent.states(held) == held.map { _ in "done" })
        #expect(try agent.store.verify() == [])
    }

    // Fault: the values stayed without their change, so they stayed also when the record left the share.
    @Test("Former values come back with their change, and go with it where it was lost")
    func formerValues() throws {
        var rules = EntityRules()
        rules.declaredUndo = true
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: RuleBook([EntityName(trusted: "audit"): rules]))
        try agent.pull([("a", 5, ["v": 1, "w": 1]), ("b", 6, ["v": "hubs-secret"])])
        let kept = try agent.update("a", ["v": 2]).key
        let lost = try agent.update("b", ["v": 2]).key
        try agent.drain()
        func secrets() throws -> Int64? {
            try RawDatabase(folder.database).number("SELECT count(*) FROM undo_value WHERE before LIKE '%hubs-secret%'")
        }
        #expect(try secrets() == 1)
        let result = try Self.rescue(agent, in: folder, losing: ["DELETE FROM payload WHERE key = '\(lost)'"])
        #expect(try result.mutations == 1 && secrets() == 0)
        _ = try agent.store.undo(kept, by: agent.app, at: agent.now)
        #expect(try agent.view("a") == #"{"v":1,"w":1}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("A record that was deleted while a change of it was under way comes back whole by a decision for the change")
    func deletedUnderWay() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: ConflictTests.rules)
        try agent.pull([("a", 5, ["finding": "pass", "note": "old"])])
        let key = try agent.update("a", ["finding": "fail"]).key
        #expect(try agent.claim().map(\.key) == [key])
        try agent.pull([], deleted: [("a", 9)])
        _ = try Self.rescue(agent, in: folder)
        try agent.answer(.conflict(key, ["$delete"], .deleted(version: 9)))
        let conflict = try #require(try agent.conflicts().first)
        try ConflictTests.resolve(agent, .all(.local), id: conflict.number)
        let sent = try #require(try agent.claim().first)
        #expect(sent.action == .create && sent.baseVersion == 9)
        #expect(try JSONReader.read(sent.data ?? "").object == ["finding": "fail", "note": "old"])
        #expect(try agent.store.verify() == [])
    }

    @Test("A fault that another database would not cure leaves the file alone")
    func leavesAlone() {
        for code: StoreError.Code in [.foreignFile, .newerSchema, .diskFull, .ioError, .locked, .readOnly, .notDurable, .cannotOpen] {
            #expect(!DatabaseRescue.helps(against: StoreError(code, doing: "open")))
        }
    }
}
