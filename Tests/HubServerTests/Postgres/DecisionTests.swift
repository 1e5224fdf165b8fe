import Foundation
import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// Pushes are decided without the lock of the hub. Another replica may act between a decision and its commit. The answers and the rows must
/// be those of two pushes one after the other.
@Suite("Decisions without the lock", .needsPostgres)
struct DecisionTests {
    /// Two hubs over one database that have begun to write.
    private struct Pair {
        let bench: ReplicaBench
        let a: HubBench
        let b: HubBench
        let counted = Counted()

        final class Counted { var decisions = 0 }

        init(rules: RuleBook = RuleBook(), tokens: TokenBook? = nil, change: (inout Hub.Settings) -> Void = { _ in }) throws {
            bench = try ReplicaBench()
            let place = Hub.Place.shared(try PostgresPlace.unhurried(bench.url))
            a = try HubBench(rules: rules, tokens: tokens, seed: 1, place: place, change: change)
            b = try HubBench(rules: rules, tokens: tokens, seed: 2, place: place, change: change)
            for hub in [a, b] { _ = hub.push([], device: "gw-0") }
        }

        /// Runs `act` on the first hub, and `meanwhile` when its first decision is made.
        func overtake<T>(_ meanwhile: () throws -> Void, act: (HubBench) throws -> T) throws -> T {
            try withoutActuallyEscaping(meanwhile) { meanwhile in
                var outcome: Result<Void, any Error>?
                a.hub.beforeCommit = {
                    counted.decisions += 1
                    if outcome == nil { outcome = Result { try meanwhile() } }
                    return true
                }
                defer { a.hub.beforeCommit = nil }
                let result = try act(a)
                try #require(outcome).get()
                return result
            }
        }
    }

    // MARK: Standing still

    @Test("A hub that stands still between its decision and its commit holds nothing: another one writes, and its numbers come first")
    func standsStill() throws {
        let pair = try Pair()
        let answer = try pair.overtake { () throws in
            let locks = "SELECT count(*) FROM pg_locks WHERE relation = 'hub'::regclass AND mode <> 'AccessShareLock'"
            #expect(try pair.bench.server.query(locks, schema: pair.bench.schema) == [["0"]])
            #expect(try pair.b.verdict(Sent("k-1", .create, id: "quick"), device: .two).version == 1)
        } act: {
            $0.push([Sent("k-1", .create, id: "slow")])
        }
        #expect(pair.counted.decisions == 1, "nothing that it has read has changed")
        let told = try PushMessages.readResponse(answer.body)
        #expect(told.head == 2 && told.results.map(\.verdict.version) == [2] && answer.headers[HubHeader.head] == "2")
        #expect(pair.a.hub.head == 2)
        #expect(try pair.b.follow("audits").pages.flatMap(\.records).map(\.id.text) == ["quick", "slow"])
        // The receipt is of the final number: a hub that knew only the first commit would take it for evidence of a loss.
        let receipt = try #require(answer.headers[HubHeader.receipt])
        let hello = pair.b.send("POST", "/v1/sync/hello", ["device_id": "gw-1"], headers: [(HubHeader.receipt, receipt)])
        #expect(hello.status == 200 && pair.b.hub.epoch == pair.a.hub.epoch)
        #expect(Receipt.read(receipt, secret: pair.a.hub.state.secret)?.position.head == 2)
    }

    @Test("A group of pushes costs two round trips, alone and beside another hub that has written")
    func roundTrips() throws {
        let pair = try Pair()
        func group(_ name: String) -> [HubRequest] {
            (0..<8).map { index in
                var headers: HTTPHeaders = [:]
                HubRequestHeaders(device: DeviceID(trusted: "d-\(index)"), replica: "r").write(to: &headers)
                let sent = [
                    Sent("\(name)-1", .create, id: "\(name)-\(index)"), Sent("\(name)-2", seq: 2, .create, id: "\(name)-also-\(index)"),
                ]
                let body: JSON = ["mutations": .array(sent.map { .object($0.json) })]
                return HubRequest("POST", "/v1/sync/push", headers: headers, body: body.bytes)
            }
        }
        func trips(_ name: String) -> Int {
            let before = pair.a.hub.store.database.roundTrips
            #expect(pair.a.hub.handle(group(name), at: pair.a.now).map(\.status) == Array(repeating: 200, count: 8))
            return pair.a.hub.store.database.roundTrips - before
        }
        // The first group reads the line of openings, to which the other hub has added its own.
        _ = trips("first")
        #expect(trips("second") == 2)
        let beside = try pair.overtake { () throws in
            _ = try pair.b.verdict(Sent("k-1", .create, id: "other"))
        } act: { _ in
            trips("third")
        }
        #expect(beside == 2)
        #expect(pair.counted.decisions == 1)
    }

    // MARK: Changed meanwhile

    @Test("A record that another hub changes meanwhile is decided about again: both changes are in it, and the later value of one field")
    func merge() throws {
        let pair = try Pair()
        _ = try pair.b.verdict(Sent("k-0", .create, data: ["x": 0, "y": 0, "z": 0]), device: .two)
        let verdict = try pair.overtake { () throws in
            let theirs = Sent("k-1", seq: 2, .update, data: ["y": 2, "z": 2], base: 1, ms: 900)
            #expect(try pair.b.verdict(theirs, device: .two).version == 2)
        } act: {
            try $0.verdict(Sent("k-1", .update, data: ["x": 1, "z": 1], base: 1, ms: 500))
        }
        #expect(verdict.version == 3 && pair.counted.decisions == 2)
        #expect(try pair.a.data("audits", "a-1") == ["x": 1, "y": 2, "z": 2])
        #expect(try pair.a.hub.lostValues("audits").map(\.value.field) == ["z"])
    }

    @Test("A key that another hub accepts meanwhile is a duplicate, and its change takes effect once")
    func keyTwice() throws {
        let pair = try Pair()
        let push = [Sent("k-1", .create, data: ["n": 1]), Sent("k-2", seq: 2, .create, id: "a-2")]
        let words = try pair.overtake { () throws in
            #expect(try pair.b.verdicts(push).map(\.verdict.word) == ["accepted", "accepted"])
        } act: {
            try $0.verdicts(push).map(\.verdict.word)
        }
        #expect(words == ["duplicate", "duplicate"] && pair.a.hub.head == 2)
    }

    @Test("A decision of a person that another hub accepts meanwhile stays: the one that would replace it is refused")
    func supersedes() throws {
        let pair = try Pair()
        _ = try pair.b.verdict(Sent("k-0", .create, data: ["finding": "open"]))
        let result = try pair.overtake { () throws in
            #expect(try pair.b.verdict(Sent("k-1", seq: 2, .create, id: "elsewhere")).word == "accepted")
        } act: {
            try $0.verdict(Sent("k-2", seq: 3, .update, data: ["finding": "fail"], base: 1).with("supersedes", ["k-1"]))
        }
        guard case .rejected(let problem, _) = result else {
            Issue.record("it was to be rejected: \(result)")
            return
        }
        #expect(problem.code == "already-decided")
        #expect(try pair.a.data("audits", "a-1") == ["finding": "open"])
    }

    @Test("A parent that another hub creates or deletes meanwhile decides about its children")
    func references() throws {
        var findings = EntityRules()
        findings.refs = ["audit": "audits"]
        let pair = try Pair(rules: RuleBook(["audits": EntityRules(), "findings": findings]))
        // The change of the parent fails where there is none, and the child waits for a parent that failed.
        let push = [
            Sent("k-1", .update, data: ["n": 1], base: 0), Sent("k-2", seq: 2, .create, "findings", id: "f-1", data: ["audit": "a-1"]),
        ]
        let words = try pair.overtake { () throws in
            #expect(try pair.b.verdict(Sent("k-1", .create, data: ["m": 2]), device: .two).word == "accepted")
        } act: {
            try $0.verdicts(push).map(\.verdict.word)
        }
        #expect(words == ["accepted", "accepted"])
        #expect(try pair.a.data("audits", "a-1") == ["m": 2, "n": 1])
        let deleted = try pair.overtake { () throws in
            #expect(try pair.b.verdict(Sent("k-2", seq: 2, .delete, base: pair.b.hub.head, ms: 5_000), device: .two).word == "accepted")
        } act: {
            try $0.verdict(Sent("k-3", seq: 3, .update, data: ["n": 3], base: 2, ms: 6_000))
        }
        // Two hubs that decided beside each other would leave a version of the document from before the deletion.
        let serial = try HubBench(rules: RuleBook(["audits": EntityRules(), "findings": findings]), place: .memory)
        _ = try serial.verdict(Sent("k-1", .create, data: ["m": 2]), device: .two)
        _ = try serial.verdicts(push)
        _ = try serial.verdict(Sent("k-2", seq: 2, .delete, base: serial.hub.head, ms: 5_000), device: .two)
        #expect(try serial.verdict(Sent("k-3", seq: 3, .update, data: ["n": 3], base: 2, ms: 6_000)).word == deleted.word)
        #expect(try pair.a.data("audits", "a-1") == (try serial.data("audits", "a-1")))
    }

    @Test("A scope that a record grants, and that another hub takes away meanwhile, is gone for the change that rests on it")
    func grants() throws {
        var orders = EntityRules()
        orders.declaredScope = ["site"]
        var assignments = EntityRules()
        assignments.fieldRights = ["device": .role("office"), "site": .role("office")]
        let pair = try Pair(rules: RuleBook(["orders": orders, "assignments": assignments])) {
            $0.access.sources = [GrantSource(entity: "assignments", device: "device", scope: "site")]
            $0.access.devices["office", default: Grants()].scopes["site"] = ["s-1"]
            $0.access.devices["office"]?.roles = ["office"]
        }
        let given = Sent("k-1", .create, "assignments", id: "m-1", data: ["device": "gw-1", "site": "s-1"])
        #expect(try pair.b.verdict(given, device: "office").word == "accepted")
        #expect(try pair.a.verdict(Sent("k-1", .create, "orders", id: "o-1", data: ["site": "s-1"])).word == "accepted")
        let word = try pair.overtake { () throws in
            let taken = Sent("k-2", seq: 2, .delete, "assignments", id: "m-1", base: pair.b.hub.head)
            #expect(try pair.b.verdict(taken, device: "office").word == "accepted")
        } act: {
            try $0.verdict(Sent("k-2", seq: 2, .create, "orders", id: "o-2", data: ["site": "s-1"])).word
        }
        #expect(word == "rejected forbidden")
        #expect(pair.counted.decisions == 2)
    }

    @Test("A token that another hub revokes meanwhile is good no more, and a new history of another hub is one of this decision")
    func tokensAndHistory() throws {
        var book = TokenBook()
        var random = SeededRandom(seed: 3)
        let token = book.add(.one, at: Timestamp(milliseconds: 1_795_208_400_000), using: &random)
        let pair = try Pair(tokens: book)
        func push(_ hub: HubBench, _ key: String, _ extra: [(String, String)] = []) -> HubResponse {
            let body: JSON = ["mutations": [.object(Sent(key, .create, id: key).json)]]
            return hub.send("POST", "/v1/sync/push", body, headers: [("Authorization", "Bearer \(token)")] + extra)
        }
        _ = push(pair.a, "k-0")
        let epoch = pair.a.hub.epoch
        let moved = try pair.overtake { () throws in
            try pair.b.hub.startEpoch()
        } act: {
            push($0, "k-1", [(HubHeader.epoch, epoch)])
        }
        #expect(moved.status == 410 && pair.a.hub.epoch == pair.b.hub.epoch && pair.a.hub.epoch != epoch)
        let refused = try pair.overtake { () throws in
            try pair.b.hub.changeTokens { _ = $0.revoke(.one, at: pair.b.now) }
        } act: {
            push($0, "k-2")
        }
        #expect(refused.status == 403)
        #expect(try pair.bench.server.query("SELECT id FROM record ORDER BY id", schema: pair.bench.schema) == [["k-0"]])
    }

    @Test("A hub that is overtaken again and again takes the lock first, and its push goes through")
    func overtakenAgain() throws {
        let pair = try Pair()
        _ = try pair.b.verdict(Sent("k-0", .create, data: ["n": 0]), device: .two)
        var others = 0
        pair.a.hub.beforeCommit = {
            pair.counted.decisions += 1
            // The third one is the only writer, and the other hub would wait for it.
            guard pair.counted.decisions <= Hub.decisionsMax else { return true }
            others += 1
            let theirs = Sent("k-\(others)", seq: Int64(others + 1), .update, data: ["n": .int(others)], base: pair.b.hub.head)
            return (try? pair.b.verdict(theirs, device: .two).word) == "accepted"
        }
        #expect(try pair.a.verdict(Sent("k-1", .update, data: ["m": 1], base: 1)).version == 4)
        #expect(pair.counted.decisions == Hub.decisionsMax + 1)
        pair.a.hub.beforeCommit = nil
        #expect(try pair.a.data("audits", "a-1") == ["n": 2, "m": 1])
    }

    @Test("A record that another hub changes again and again sends no push but its own to the lock")
    func hotRecord() throws {
        let pair = try Pair()
        _ = try pair.b.verdict(Sent("k-0", .create, id: "hot", data: ["n": 0]), device: .two)
        // Eight devices push together, and the fourth one changes the record.
        let pushes = (0..<8).map { index in
            let mine = Sent("k-\(index)", index == 3 ? .update : .create, id: index == 3 ? "hot" : "r-\(index)", data: ["m": 1], base: 1)
            let body: JSON = ["acked_seq": 0, "mutations": [.object(mine.json)]]
            var headers: HTTPHeaders = [:]
            HubRequestHeaders(device: DeviceID(trusted: "d-\(index)"), replica: "r-1").write(to: &headers)
            return HubRequest("POST", "/v1/sync/push", headers: headers, body: body.bytes)
        }
        var theirs = 0
        pair.a.hub.beforeCommit = {
            pair.counted.decisions += 1
            // All eight, the first four, two, two, one, and twice the one that changes the record; that one then has the lock.
            guard pair.counted.decisions != 8 else { return true }
            theirs += 1
            let change = Sent("t-\(theirs)", seq: Int64(theirs + 1), .update, id: "hot", data: ["n": .int(theirs)], base: pair.b.hub.head)
            return (try? pair.b.verdict(change, device: .two).word) == "accepted"
        }
        let answers = pair.a.hub.handle(pushes, at: pair.a.now)
        pair.a.hub.beforeCommit = nil
        #expect(pair.counted.decisions == 9)
        let words = try answers.map { try PushMessages.readResponse($0.body).results.map(\.verdict.word) }
        #expect(words == [[String]](repeating: ["accepted"], count: 8))
        #expect(try pair.a.data("audits", "hot") == ["n": .int(theirs), "m": 1])
    }

    // MARK: The same as one after the other

    @Test("Rows and answers of decisions that were overtaken are those of the same pushes one after the other", arguments: 0..<4)
    func sameAsSerial(_ seed: Int) throws {
        var rules = EntityRules()
        rules.fields = ["set": .set, "log": .append, "object": .merge, "count": .counter, "max": .max, "finding": .manual]
        let book = RuleBook(["audits": rules])
        let (beside, serial) = (try Pair(rules: book), try Pair(rules: book))
        for hub in [serial.a, serial.b] { hub.hub.locksFirst = true }
        var random = SeededRandom(seed: UInt64(seed))
        for round in 0..<12 {
            // The second hub writes records of its own, and now and then one that the first one decides about.
            let shared = Int.random(in: 0..<4, using: &random) == 0 ? "a-1" : "b-3"
            let theirs = Self.push("b-\(round)", round, ["b-1", "b-2", shared], upTo: serial.a.hub.head, &random)
            let mine = Self.push("a-\(round)", round, ["a-1", "a-2", "a-3"], upTo: serial.a.hub.head, &random)
            for hub in [beside.a, beside.b, serial.a, serial.b] { hub.now = hub.now.advanced(by: .seconds(1)) }
            let quick = serial.b.push(theirs, device: .two)
            let slow = serial.a.push(mine)
            var overtaking: HubResponse?
            let overtaken = try beside.overtake { () throws in
                overtaking = beside.b.push(theirs, device: .two)
            } act: {
                $0.push(mine)
            }
            #expect(overtaking.map { String(decoding: $0.body, as: UTF8.self) } == String(decoding: quick.body, as: UTF8.self))
            #expect(String(decoding: overtaken.body, as: UTF8.self) == String(decoding: slow.body, as: UTF8.self), "round \(round)")
            #expect(overtaken.headers[HubHeader.head] == slow.headers[HubHeader.head])
        }
        for table in [
            "record", "mutation_key", "mutation_key_text", "device_number", "lost_value", "replica", "device", "refused_create",
            "record_scope",
        ] {
            let order = "SELECT * FROM \(table) ORDER BY 1, 2" + (table == "device_number" ? "" : ", 3")
            #expect(
                try beside.bench.server.query(order, schema: beside.bench.schema)
                    == (try serial.bench.server.query(order, schema: serial.bench.schema)), "\(table)")
        }
        let stamps = "SELECT count(*) FROM record WHERE exceptions LIKE '%' || chr(1) || '%' OR additions LIKE '%' || chr(1) || '%'"
        #expect(try beside.bench.server.query(stamps, schema: beside.bench.schema) == [["0"]])
        let written = "SELECT count(*) > 0 FROM record WHERE exceptions IS NOT NULL"
        #expect(try beside.bench.server.query(written, schema: beside.bench.schema) == [["t"]], "nothing had stamps of its own")
    }

    private static func push(_ name: String, _ round: Int, _ ids: [String], upTo head: Int64, _ random: inout SeededRandom) -> [Sent] {
        (0..<Int.random(in: 2...6, using: &random)).map { index in
            let field = ["plain", "other", "set", "log", "count", "max", "finding"].randomElement(using: &random) ?? ""
            var data: JSONObject = [:]
            var ops: [JSON] = []
            let number = Int.random(in: 0..<50, using: &random)
            switch field {
            case "set", "log":
                ops = [
                    [
                        "field": .string(field), "op": .string(field == "set" ? "add" : "append"),
                        "value": field == "set" ? .int(number) : [.int(number)],
                    ]
                ]
            case "count": ops = [["field": "count", "op": "inc", "value": 1]]
            default: data = [field: .int(number)]
            }
            let id = ids.randomElement(using: &random) ?? ""
            let action: MutationAction =
                [.create, .update, .update, .update, .update, .update, .delete].randomElement(using: &random) ?? .update
            return Sent(
                index.isMultiple(of: 2) ? "\(name)-\(index)" : KeysBefore.uuid(round * 100 + index), seq: Int64(round * 10 + index + 1),
                action, id: id,
                data: action == .delete ? nil : .object(data), ops: action == .delete ? [] : ops,
                base: Int64.random(in: 0...head, using: &random), ms: UInt64(Int.random(in: 1...5_000, using: &random)))
        }
    }

    // MARK: The log of commits

    @Test("A database of before goes on with its numbers, and locks out programs that would give them out again")
    func migration() throws {
        let bench = try ReplicaBench()
        do {
            let old = try bench.hub()
            for seq in 1...3 as ClosedRange<Int64> { _ = try old.verdict(Sent("k-\(seq)", seq: seq, .create, id: "a-\(seq)")) }
        }
        try KeysBefore.goBack(bench)
        try bench.server.query(
            """
            UPDATE hub SET head = c.head, linked = c.linked, applied = c.applied FROM (SELECT * FROM commit_log ORDER BY n DESC LIMIT 1) c;
            DROP TABLE commit_log; UPDATE hub_schema SET version = 12, oldest_reader = 1
            """, schema: bench.schema)
        let workers = (0..<3).map { index in Worker { try bench.hub(seed: UInt64(index)).hub.head } }
        #expect(try workers.map { try $0.join() } == [3, 3, 3])
        let hub = try bench.hub()
        #expect(try hub.verdict(Sent("k-4", seq: 4, .create, id: "a-4")).version == 4)
        #expect(try hub.hub.stats().counters.applied == 4)
        #expect(try bench.server.query("SELECT oldest_reader FROM hub_schema", schema: bench.schema) == [["16"]])
    }

    @Test("The log keeps its newest rows, and the row of the hub is never written")
    func trimmed() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        _ = try hub.verdict(Sent("k-1", .create))
        let row = try bench.server.query("SELECT ctid, xmin FROM hub", schema: bench.schema)
        try bench.server.query(
            """
            INSERT INTO commit_log SELECT c.n + g, c.head, c.linked, c.granted, c.applied, 0, 0, 0, 0
            FROM (SELECT * FROM commit_log ORDER BY n DESC LIMIT 1) c, generate_series(1, \(CommitLog.keptMax)) g
            """, schema: bench.schema)
        for seq in 2...9 as ClosedRange<Int64> { _ = try hub.verdict(Sent("k-\(seq)", seq: seq, .create, id: "a-\(seq)")) }
        let newest = try #require(try bench.server.query("SELECT max(n) FROM commit_log", schema: bench.schema)[0][0].flatMap { Int64($0) })
        let end = newest - Int64(CommitLog.keptMax)
        let old = "SELECT count(*) FROM commit_log WHERE n <= \(end) AND n > \(end - 8)"
        #expect(try bench.server.query(old, schema: bench.schema) == [["0"]])
        #expect(try bench.server.query("SELECT ctid, xmin FROM hub", schema: bench.schema) == row)
        #expect(hub.hub.head == 9)
    }
}
