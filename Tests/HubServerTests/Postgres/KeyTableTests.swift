import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// Keys in the tables of a server: both forms, and the way there from the table of before.
@Suite("Tables of keys on a server", .needsPostgres)
struct KeyTableTests {
    /// Keys of both forms: `u-7` is a UUID in canonical form.
    static func key(_ n: Int) -> String { n.isMultiple(of: 2) ? KeysBefore.uuid(n) : "k-\(n)" }

    static func sent(_ n: Int, of device: DeviceID = .one, value: Int = 0) -> Sent {
        Sent(key(n), seq: Int64(n), .create, id: "\(device.text)-\(n)", data: ["n": .int(value)])
    }

    /// Accepted mutations of two devices, and one that is rejected with a text.
    static func fill(_ hub: HubBench, _ numbers: ClosedRange<Int>) throws {
        for device in [DeviceID.one, .two] {
            for n in numbers { #expect(try hub.verdict(sent(n, of: device), device: device).word == "accepted") }
        }
        for key in ["k-refused", KeysBefore.uuid(900)] {
            let refused = Sent(key, seq: 900, .update, id: "none", data: ["n": 1])
            #expect(try hub.verdict(refused).word.hasPrefix("rejected"))
        }
    }

    /// Every mutation is a duplicate, another content under its key is not, and the text of the rejection is still told.
    static func check(_ hub: HubBench, _ numbers: ClosedRange<Int>, _ when: String) throws {
        let head = hub.hub.head
        for device in [DeviceID.one, .two] {
            for n in numbers {
                #expect(try hub.verdict(sent(n, of: device), device: device).word == "duplicate", "\(when): \(n)")
            }
            let other = try hub.verdict(sent(numbers.lowerBound, of: device, value: 9), device: device).word
            #expect(other == "rejected idempotency-mismatch", "\(when)")
        }
        for key in ["k-refused", KeysBefore.uuid(900)] {
            let refused = try hub.verdicts([Sent(key, seq: 900, .update, id: "none", data: ["n": 1])])[0]
            #expect(refused.verdict.word == "duplicate" && refused.notes.problem?.code == "deleted", "\(when): \(key)")
        }
        #expect(hub.hub.head == head, "\(when)")
        #expect(try hub.hub.stats().keys == Int64(numbers.count * 2 + 2), "\(when)")
    }

    static func isMoved(_ bench: ReplicaBench) throws -> Bool {
        try bench.server.query("SELECT to_regclass('mutation_key_13') IS NULL", schema: bench.schema) == [["t"]]
    }

    // MARK: Forms of keys

    @Test("Keys are the same when their bytes are: another spelling of a UUID is another key")
    func spellings() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        let plain = "0199c3f2-a1b4-7abc-8def-00000000000a"
        let keys = [
            plain, plain.uppercased(), plain.replacing("-", with: ""), plain + "-", "urn:uuid:" + plain,
            plain.replacing("abc", with: "aBc"),
        ]
        for (n, key) in keys.enumerated() {
            #expect(try hub.verdict(Sent(key, seq: Int64(n + 1), .create, id: "a-\(n)")).word == "accepted", "\(key)")
        }
        for (n, key) in keys.enumerated() {
            #expect(try hub.verdict(Sent(key, seq: Int64(n + 1), .create, id: "a-\(n)")).word == "duplicate", "\(key)")
        }
        #expect(try bench.server.query("SELECT key FROM mutation_key", schema: bench.schema) == [[plain]])
        #expect(try bench.server.query("SELECT count(*) FROM mutation_key_text", schema: bench.schema) == [["5"]])
        // Not a key at all, on every engine.
        _ = hub.push([Sent("{\(plain)}", seq: 9, .create, id: "b")])
        #expect(try hub.hub.stats().keys == 6)
    }

    @Test(
        "The form of a key is read without a thought of other letters",
        arguments: [
            ("0199c3f2-a1b4-7abc-8def-00000000000a", true), ("0199C3F2-a1b4-7abc-8def-00000000000a", false),
            ("0199c3f2a1b4-7abc-8def-00000000000a-", false), ("0199c3f2-a1b4-7abc-8def-00000000000g", false),
            ("0199c3f2-a1b4-7abc-8def-0000000000a", false), ("", false), ("0199c3f2-a1b4-7abc-8def-00000000000à", false),
        ])
    func form(_ text: String, _ isUUID: Bool) {
        #expect(KeyTables.isCanonicalUUID(text) == isUUID)
    }

    @Test("A key that is answered for by another mutation keeps its content, in each form, wherever it is", arguments: [false, true])
    func answeredFor(_ isOfBefore: Bool) throws {
        let bench = try ReplicaBench()
        var rules = EntityRules()
        rules.fields = ["finding": .manual]
        func open() throws -> HubBench { try HubBench(rules: RuleBook(["audits": rules]), place: .shared(try PostgresPlace(bench.url))) }
        var hub = try open()
        for n in [1, 2] {
            let first = Sent(Self.key(n + 10), seq: Int64(n + 10), .create, id: "a-\(n)", data: ["finding": "pass"])
            #expect(try hub.verdict(first, device: .two).word == "accepted")
            let disputed = Sent(Self.key(n), seq: Int64(n), .update, id: "a-\(n)", data: ["finding": "fail"])
            #expect(try hub.verdict(disputed).word == "conflict")
        }
        if isOfBefore {
            try KeysBefore.goBack(bench)
            hub = try open()
        }
        for n in [1, 2] {
            let decision = Sent(Self.key(n + 20), seq: Int64(n + 20), .update, id: "a-\(n)", data: ["finding": "fail"], base: Int64(n))
            #expect(try hub.verdict(decision.with("supersedes", [.string(Self.key(n)), .string(Self.key(n + 30))])).word == "accepted")
        }
        for isMoved in [false, true] {
            if isMoved { try hub.hub.housekeep(at: hub.now) }
            for n in [1, 2] {
                let disputed = Sent(Self.key(n), seq: Int64(n), .update, id: "a-\(n)", data: ["finding": "fail"])
                #expect(try hub.verdicts([disputed])[0].verdict.word == "duplicate", "\(n), moved: \(isMoved)")
                #expect(try hub.verdicts([disputed])[0].notes.fields.isEmpty, "it is not in dispute any more")
                let other = Sent(Self.key(n), seq: Int64(n), .update, id: "a-\(n)", data: ["finding": "both"])
                #expect(try hub.verdict(other).word == "rejected idempotency-mismatch", "\(n), moved: \(isMoved)")
                // It never arrived: any content is the one.
                #expect(try hub.verdict(Sent(Self.key(n + 30), seq: 40, .update, id: "a-\(n)", data: ["n": 1])).word == "duplicate")
            }
        }
        #expect(try Self.isMoved(bench))
        #expect(try hub.hub.stats().keys == 8)
    }

    // MARK: The way from schema 13

    @Test("One of several starting hubs migrates an older database, and its keys count before, while and after they move")
    func oneHubMigratesTheKeys() throws {
        let bench = try ReplicaBench()
        do { try Self.fill(try bench.hub(), 1...9) }
        try KeysBefore.goBack(bench)
        let workers = (0..<3).map { index in Worker { try bench.hub(seed: UInt64(index)).hub.head } }
        #expect(try workers.map { try $0.join() } == [18, 18, 18])
        let hub = try bench.hub()
        #expect(try bench.server.query("SELECT version, oldest_reader FROM hub_schema", schema: bench.schema) == [["17", "16"]])
        #expect(try bench.server.query("SELECT count(*) FROM mutation_key_13", schema: bench.schema) == [["20"]])
        try Self.check(hub, 1...9, "not moved")
        var run = try hub.hub.beginHousekeeping(at: hub.now)
        run.keysMax = 3
        while !run.isOver { try hub.hub.housekeep(&run) }
        #expect(try Self.isMoved(bench))
        try Self.check(hub, 1...9, "moved")
        #expect(try bench.server.query("SELECT count(*) FROM mutation_key", schema: bench.schema) == [["9"]])
        // A session that knows the statements of before goes on with the empty view.
        #expect(try hub.verdict(Self.sent(10)).word == "accepted" && hub.verdict(Self.sent(11)).word == "accepted")
    }

    @Test("A hub that is killed between two slices has moved whole ones, and the next goes on")
    func killed() throws {
        let bench = try ReplicaBench()
        do { try Self.fill(try bench.hub(), 1...6) }
        try KeysBefore.goBack(bench)
        var left: Int64 = 14
        while left > 0 {
            let hub = try bench.hub(seed: UInt64(left))
            var run = try hub.hub.beginHousekeeping(at: hub.now)
            run.keysMax = 2
            while !run.isOver {
                guard case .earlierKeys? = run.task else {
                    try hub.hub.housekeep(&run)
                    continue
                }
                try hub.hub.housekeep(&run)
                break
            }
            left -= 2
            #expect(
                try bench.server.query("SELECT count(*) FROM mutation_key_13", schema: bench.schema) == [["\(left)"]])
            try Self.check(hub, 1...6, "\(left) left")
        }
    }

    @Test("A slice that breaks off has moved nothing, and hubs answer meanwhile; what it has locked, another one leaves")
    func brokenOff() throws {
        let bench = try ReplicaBench()
        do { try Self.fill(try bench.hub(), 1...6) }
        try KeysBefore.goBack(bench)
        let hub = try bench.hub()
        let database = try bench.session(.removing)
        let move = try #require(database.spelling.keys.move)
        let moved = try database.first(move.slice, 0, 1, 5) { $0.int(0) }
        #expect(moved == 5)
        try Self.check(hub, 1...6, "under way")
        try hub.hub.housekeep(at: hub.now)
        #expect(try bench.server.query("SELECT count(*) FROM mutation_key_13", schema: bench.schema) == [["5"]], "and the table stays")
        try database.rollback()
        try Self.check(hub, 1...6, "broken off")
        try hub.hub.housekeep(at: hub.now)
        #expect(try Self.isMoved(bench))
        try Self.check(hub, 1...6, "moved")
    }

    @Test("While a session reads the earlier table, it stays, and hubs answer; the next run removes it")
    func read() throws {
        let bench = try ReplicaBench()
        do { try Self.fill(try bench.hub(), 1...6) }
        try KeysBefore.goBack(bench)
        let hub = try bench.hub()
        let reader = try bench.session(.removing)
        #expect(try reader.number("SELECT count(*) FROM mutation_key_13") > 0)
        try hub.hub.housekeep(at: hub.now)
        #expect(try bench.server.query("SELECT count(*) FROM mutation_key_13", schema: bench.schema) == [["0"]])
        try Self.check(hub, 1...6, "read")
        try reader.rollback()
        try hub.hub.housekeep(at: hub.now)
        #expect(try Self.isMoved(bench))
        try Self.check(hub, 1...6, "moved")
    }

    @Test("Several hubs that move at once, while others push, move each key once")
    func together() throws {
        let bench = try ReplicaBench()
        do { try Self.fill(try bench.hub(), 1...40) }
        try KeysBefore.goBack(bench)
        let movers = (0..<3).map { index in
            Worker {
                let hub = try bench.hub(seed: UInt64(index + 1))
                var run = try hub.hub.beginHousekeeping(at: hub.now)
                run.keysMax = 3
                while !run.isOver { try hub.hub.housekeep(&run) }
            }
        }
        let pusher = Worker {
            let hub = try bench.hub(seed: 9)
            var words: Set<String> = []
            for _ in 0..<3 {
                for n in 1...40 { words.insert(try hub.verdict(Self.sent(n)).word) }
            }
            return words
        }
        for mover in movers { try mover.join() }
        #expect(try pusher.join() == ["duplicate"])
        let hub = try bench.hub(seed: 10)
        try hub.hub.housekeep(at: hub.now)
        #expect(try Self.isMoved(bench))
        try Self.check(hub, 1...40, "moved")
    }

    @Test("A decision that is overtaken by a move of its keys is the same")
    func overtaken() throws {
        let bench = try ReplicaBench()
        do { try Self.fill(try bench.hub(), 1...6) }
        try KeysBefore.goBack(bench)
        let (hub, mover) = (try bench.hub(seed: 1), try bench.hub(seed: 2))
        var failure: (any Error)?
        var moves = 0
        hub.hub.beforeCommit = {
            moves += 1
            guard moves == 1 else { return true }
            do {
                // The other tasks of a housekeeping may wait for the lock of this hub.
                var run = HousekeepingRun(at: mover.now, mover.hub.keyTasks)
                run.keysMax = 2
                // Only rows are moved: the removal of the table would wait for the snapshot of this decision.
                while try bench.server.query("SELECT count(*) FROM mutation_key_13", schema: bench.schema)[0][0] != "0", !run.isOver {
                    try mover.hub.housekeep(&run)
                }
            } catch { failure = error }
            return true
        }
        let new = Sent(Self.key(50), seq: 50, .create, id: "new", dependsOn: [Self.key(3), Self.key(4)])
        #expect(try hub.verdicts([Self.sent(1), Self.sent(2), new]).map(\.verdict.word) == ["duplicate", "duplicate", "accepted"])
        hub.hub.beforeCommit = nil
        #expect(failure == nil && moves > 0, "\(String(describing: failure))")
        #expect(try hub.verdict(new).word == "duplicate")
        try mover.hub.housekeep(at: mover.now)
        #expect(try Self.isMoved(bench))
        #expect(try hub.hub.stats().keys == 15)
    }

    @Test("After an older copy was put back, the numbers of devices are those of the copy, and no key is taken for another device's")
    func restored() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        #expect(try hub.verdict(Self.sent(2)).word == "accepted")
        let copy = try bench.server.backUp(schema: bench.schema)
        #expect(try hub.verdict(Self.sent(2, of: .two), device: .two).word == "accepted")
        try bench.server.restore(copy, schema: bench.schema)
        #expect(try hub.verdict(Self.sent(2, of: "gw-9"), device: "gw-9").word == "accepted")
        #expect(try hub.verdict(Self.sent(2, of: .two), device: .two).word == "accepted")
        #expect(try hub.verdict(Self.sent(2)).word == "duplicate")
        for device in [DeviceID.two, "gw-9"] { #expect(try hub.verdict(Self.sent(2, of: device), device: device).word == "duplicate") }
    }

    // MARK: Numbers of devices, and room

    @Test("The server puts a device into the same part as the hub, and each has a number of its own")
    func parts() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        let devices = (0..<60).map { DeviceID(trusted: "gw-\($0)") }
        for device in devices { #expect(try hub.verdict(Self.sent(2, of: device), device: device).word == "accepted") }
        let rows = try bench.server.query(
            """
            SELECT d.device, d.number >> 27, replace(k.tableoid::regclass::text, 'mutation_key_p', '') FROM mutation_key k
            JOIN device_number d ON d.number = k.device ORDER BY 1
            """, schema: bench.schema)
        #expect(rows.count == 60 && Set(rows.map { $0[1] }).count > 8)
        for row in rows {
            let part = "\(KeyTables.part(of: DeviceID(trusted: row[0] ?? ""), in: 16))"
            #expect(row[1] == part && row[2] == part, "\(row)")
        }
    }

    @Test("A key of a fleet takes at most 130 bytes with its indexes")
    func room() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        // All devices are of one part: the first pages of 16 parts would count for more than the keys.
        let devices = (0...).lazy.map { DeviceID(trusted: "gw-\($0)") }.filter { KeyTables.part(of: $0, in: 16) == 3 }.prefix(20)
        var random = SeededRandom(seed: 15)
        var made = 0
        for round in 0..<25 {
            for device in devices {
                let mutations = (1...20).map { n in
                    made += 1
                    let seq = Int64(round * 20 + n)
                    let key = UUIDv7.make(at: hub.now.advanced(by: .milliseconds(made)), carrying: seq, using: &random)
                    return Sent(key, seq: seq, .create, id: "\(device)-\(round)-\(n)")
                }
                #expect(hub.push(mutations, device: device).status == 200)
            }
        }
        let rows = try bench.server.query(
            """
            SELECT pg_relation_size('mutation_key_p3') + sum(pg_relation_size(indexrelid)), (SELECT count(*) FROM mutation_key)
            FROM pg_index WHERE indrelid = 'mutation_key_p3'::regclass
            """, schema: bench.schema)
        let numbers = rows[0].compactMap { $0.flatMap { Int($0) } }
        #expect(numbers.count == 2 && numbers[1] == 10_000)
        // Schema 13: 240, schema 14: 151.
        if numbers.count == 2 { #expect(numbers[0] / numbers[1] <= 130, "\(numbers)") }
    }
}

extension KeysBefore {
    static func goBack(_ bench: ReplicaBench) throws { try bench.server.query(statements, schema: bench.schema) }

    /// Schema 15 in the middle of the move: the keys of every second commit are in the table of schema 13.
    static func goHalfBack(_ bench: ReplicaBench) throws {
        try bench.server.query(
            """
            \(table("mutation_key_13", of: "k.version % 2 = 0"));
            DELETE FROM mutation_key WHERE version % 2 = 0; DELETE FROM mutation_key_text WHERE version % 2 = 0;
            CREATE OR REPLACE VIEW mutation_key_earlier AS
              SELECT device, key, fingerprint, seq, CAST(status AS SMALLINT) AS status, version, payload FROM mutation_key_13
            """, schema: bench.schema)
    }
}
