import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// A failure of each single round trip between hub and server: whatever it was, the request is answered or may be repeated, nothing counts
/// twice, nothing is lost, and the next request is served.
///
/// The wire counts the round trips, so a new one is tried by itself.
@Suite("Failures in each round trip", .needsPostgres)
struct WireFailureTests {
    /// Two connections of one hub over a wire, and what was done so far.
    private final class Stand {
        let bench: ReplicaBench
        let wire: ServerWire
        let hub: HubBench
        let reader: HubReader
        var rounds = 0
        private var cursor: String?
        /// Further hubs over the same wire: with tokens, and with entity settings in the database.
        private var others: [Operation: HubBench] = [:]

        init() throws {
            bench = try ReplicaBench()
            wire = try ServerWire(to: bench.server)
            var rules = EntityRules()
            rules.fields = ["count": .counter]
            var log = EntityRules()
            (log.kind, log.keepEvents) = (.event, .seconds(7 * 86_400))
            let book = RuleBook(["audits": rules, "notes": EntityRules(), "log": log])
            hub = try HubBench(rules: book, place: .shared(try PostgresPlace(wire.url(of: bench.url))))
            guard let reader = try hub.hub.reader() else { throw PostgresServer.Failure(description: "there is no reader") }
            self.reader = reader
            _ = try hub.verdict(Sent("k-0", .create, id: "counted", data: ["count": 0]))
        }

        deinit { wire.close() }

        func request(_ path: String, _ body: JSON?, method: String = "POST", device: DeviceID = .one) -> HubRequest {
            var headers: HTTPHeaders = [:]
            var said = HubRequestHeaders(device: device, replica: "r-1")
            said.abilities = AgentAbility.all
            said.write(to: &headers)
            return HubRequest(method, path, headers: headers, body: body?.bytes ?? [])
        }

        private func other(_ operation: Operation, _ make: (Hub.Place) throws -> HubBench) throws -> HubBench {
            if let known = others[operation] { return known }
            let made = try make(.shared(try PostgresPlace(wire.url(of: bench.url))))
            others[operation] = made
            return made
        }

        /// The pauses between two attempts to open the database are by this clock.
        func wait() { hub.now = hub.now.advanced(by: .seconds(10)) }

        /// Pushes of two devices in one group; each counts one, and creates a record.
        func push(_ breaking: () -> Void, _ mended: () -> Void) throws {
            rounds += 1
            let requests = [DeviceID.one, .two].map { device in
                let name = "\(device.text)-\(rounds)"
                let sent = [
                    Sent("k-\(name)-1", seq: Int64(2 * rounds), .create, id: "a-\(name)", data: ["n": 1]),
                    Sent(
                        "k-\(name)-2", seq: Int64(2 * rounds + 1), .update, id: "counted",
                        ops: [["field": "count", "op": "inc", "value": 1]], base: 1),
                ]
                return request("/v1/sync/push", ["mutations": .array(sent.map { .object($0.json) })], device: device)
            }
            breaking()
            let first = hub.hub.handle(requests, at: hub.now)
            mended()
            #expect(first.allSatisfy { [200, 503].contains($0.status) }, "\(first.map(\.status))")
            wait()
            for (request, answer) in zip(requests, first) {
                let last = answer.status == 200 ? answer : hub.hub.handle(request, at: hub.now)
                let words = try PushMessages.readResponse(last.body).results.map(\.verdict.word)
                #expect(words.allSatisfy { answer.status == 200 ? $0 == "accepted" : ["accepted", "duplicate"].contains($0) }, "\(words)")
            }
        }

        func hello(_ breaking: () -> Void, _ mended: () -> Void) throws {
            let hello = request("/v1/sync/hello", ["device_id": "gw-1", "replica": "r-1"])
            breaking()
            let first = hub.hub.handle(hello, at: hub.now)
            mended()
            wait()
            let last = first.status == 200 ? first : hub.hub.handle(hello, at: hub.now)
            #expect([200, 503].contains(first.status) && last.status == 200, "\(first.status), then \(last.status)")
        }

        /// A pull that has one new record, as the service answers it.
        func pull(_ breaking: () -> Void, _ mended: () -> Void) throws {
            rounds += 1
            let id = "n-\(rounds)"
            _ = try hub.verdict(Sent("k-\(id)", .create, "notes", id: id), device: "gw-3")
            let wanted = PullRequest(
                streams: [StreamPosition(entity: "notes", cursor: cursor)], limit: 500, maxBytes: 100_000, maxSentSeq: 0,
                namesUnreadable: false)
            let pull = request("/v1/sync/pull", try JSONReader.read(PullMessages.request(wanted)))
            let last = read(pull, breaking, mended)
            let page = try #require(try PullMessages.readResponse(last.body).pages.first)
            if cursor != nil { #expect(page.records.map(\.id.text) == [id]) }
            cursor = page.cursor
        }

        /// A request that only reads, as the service answers it.
        private func read(_ request: HubRequest, _ breaking: () -> Void, _ mended: () -> Void) -> HubResponse {
            func answer() -> HubResponse {
                reader.answer([request], tokens: nil, at: hub.now)?[0] ?? hub.hub.handle(request, at: hub.now)
            }
            breaking()
            let first = answer()
            mended()
            wait()
            let last = first.status == 200 ? first : answer()
            #expect([200, 503].contains(first.status) && last.status == 200, "\(first.status), then \(last.status)")
            return last
        }

        func list(_ breaking: () -> Void, _ mended: () -> Void) throws {
            let query = SnapshotMessages.query(SnapshotRequest(entity: "audits", after: nil, limit: 500))
            let last = read(request("/v1/sync/snapshot?" + query, nil, method: "GET"), breaking, mended)
            #expect(try SnapshotMessages.readResponse(last.body).records.map(\.id.text) == ["counted"])
        }

        /// A comparison whose rows come in two parts.
        func verify(_ breaking: () -> Void, _ mended: () -> Void) throws {
            if cursor == nil {
                try bench.server.query(
                    """
                    INSERT INTO record(entity, id, version, data, hlc, writer, origin_key, updated_at_ms)
                    SELECT 'notes', 'r-' || n, 1, '{}', '0199c3f2a1b4-0007-9f2c11ab', 'gw', 'k', 1 FROM generate_series(1, 600) n
                    """, schema: bench.schema)
                cursor = try hub.pull([("notes", nil)]).pages.first?.cursor
            }
            var digest = EntityDigest()
            for n in 1...600 { digest.add(RecordID(trusted: "r-\(n)"), version: n == 600 ? 2 : 1) }
            let wanted = VerifyRequest(entity: "notes", cursor: try #require(cursor), digest: digest)
            let last = read(request("/v1/sync/verify", try JSONReader.read(VerifyMessages.request(wanted))), breaking, mended)
            #expect(try VerifyMessages.readResponse(last.body).differs == [EntityDigest.bucket(of: "r-600")])
        }

        /// A one-time token is exchanged; an answer that was lost is asked for again.
        func enrol(_ breaking: () -> Void, _ mended: () -> Void) throws {
            rounds += 1
            let guarded = try other(.enrol) { try HubBench(tokens: TokenBook(), seed: 2, place: $0) }
            let device = DeviceID(trusted: "gw-e\(rounds)")
            var random = SeededRandom(seed: UInt64(rounds))
            var oneTime = ""
            try guarded.hub.changeTokens { book in
                oneTime = book.add(device, .enrolment, life: .seconds(3_600), at: guarded.now, using: &random)
            }
            func ask() -> HubResponse {
                guarded.send("POST", "/v1/devices/enroll", ["token": .string(oneTime)], device: device)
            }
            breaking()
            let first = ask()
            mended()
            guarded.now = guarded.now.advanced(by: .seconds(10))
            let last = first.status == 201 ? first : ask()
            #expect([201, 503].contains(first.status) && last.status == 201, "\(first.status), then \(last.status)")
            let token = try DeviceMessages.readGrant(last.body).token
            let pulled = guarded.send(
                "POST", "/v1/sync/pull", ["streams": []], device: device, headers: [("Authorization", "Bearer \(token)")])
            #expect(pulled.status == 200)
        }

        /// A command of an operator fails as a whole, or has taken effect as a whole.
        func publish(_ breaking: () -> Void, _ mended: () -> Void) throws {
            rounds += 1
            let name = RecordName("notes", RecordID(trusted: "p-\(rounds)"))
            breaking()
            let isDone = (try? hub.hub.publish(name, ["n": 1], at: hub.now)) != nil  // It is repeated.
            mended()
            repeatOnceOpen(hub, isDone) { _ = try hub.hub.publish(name, ["n": 1], at: hub.now) }
            let published: JSONObject? = try hub.data("notes", name.id)
            #expect(published == ["n": 1])
        }

        /// Entity settings that are applied, and count for the next request.
        func apply(_ breaking: () -> Void, _ mended: () -> Void) throws {
            rounds += 1
            let settings = try other(.apply) { try HubBench(file: nil, place: $0, seed: 2) }
            let text = EntityTexts.audits("v\(rounds)")
            breaking()
            let isDone = (try? settings.hub.apply(EntityTexts.text(text))) != nil  // It is repeated.
            mended()
            repeatOnceOpen(settings, isDone) { _ = try settings.hub.apply(EntityTexts.text(text)) }
            let wanted = try EntityTexts.config(text)
            #expect(settings.toldConfig == wanted)
        }

        /// Repeats a command of an operator until it is done. A push opens the database again, as it may be that no connection is there.
        /// The push may be the first to notice that, and so may the command.
        private func repeatOnceOpen(_ hub: HubBench, _ wasDone: Bool, _ command: () throws -> Void) {
            var isDone = wasDone
            for round in 0..<10 where round == 0 || !isDone {
                hub.now = hub.now.advanced(by: .seconds(10))
                _ = hub.push([])
                if !isDone { isDone = (try? command()) != nil }  // It is repeated.
            }
            #expect(isDone)
        }

        /// The daily work, with deletions and events to forget.
        func housekeep(_ breaking: () -> Void, _ mended: () -> Void) throws {
            rounds += 1
            try bench.server.query(
                """
                INSERT INTO record(entity, id, version, data, hlc, writer, origin_key, updated_at_ms)
                SELECT e, 'old-\(rounds)-' || n, 1, d, '0199c3f2a1b4-0007-9f2c11ab', 'gw', 'k', 1
                FROM generate_series(1, 3) n, (VALUES('notes', NULL), ('log', '{}')) AS v(e, d)
                """, schema: bench.schema)
            breaking()
            let isDone = (try? hub.hub.housekeep(at: hub.now)) != nil  // It is repeated.
            mended()
            repeatOnceOpen(hub, isDone) { _ = try hub.hub.housekeep(at: hub.now) }
            let old = "SELECT count(*) FROM record WHERE id LIKE 'old-%' AND data IS NULL"
            #expect(try bench.server.query(old, schema: bench.schema) == [["0"]])
        }

        /// The first request after all connections have ended.
        func reopen(_ breaking: () -> Void, _ mended: () -> Void) throws {
            wire.cut()
            try push(breaking, mended)
        }

        /// Each mutation is there once.
        func check() throws {
            let inc = try #require(try hub.data("audits", "counted"))
            // Most of them are no UUIDs.
            let count = "SELECT (SELECT count(*) FROM mutation_key) + (SELECT count(*) FROM mutation_key_text)"
            let keys = try bench.server.query(count, schema: bench.schema)[0][0]
            #expect(keys == "\(try hub.hub.stats().counters.applied)")
            let pushes = try bench.server.query("SELECT count(*) FROM record WHERE id LIKE 'a-gw-%'", schema: bench.schema)[0][0]
            #expect(inc["count"]?.int.map { "\($0)" } == pushes)
        }
    }

    enum Operation: String, CaseIterable {
        case push, hello, pull, list, verify, enrol, publish, apply, housekeep, reopen
    }

    static let faults: [ServerWire.Fault] = [
        .cutBefore, .cutAfter, .refuse("40001"), .refuse("40P01"), .refuse("25006"), .refuse("55P03"), .refuse("57014"), .end("57P01"),
    ]

    @Test("Each round trip fails in each way", arguments: Operation.allCases)
    func each(_ operation: Operation) throws {
        let stand = try Stand()
        // Opening the database again takes many round trips.
        for fault in operation == .reopen ? [.cutBefore, .cutAfter, .refuse("40001")] : Self.faults {
            var trips = 0
            while true {
                var isHit = false
                try Self.run(operation, stand) {
                    stand.wire.fail(after: trips, fault)
                } mended: {
                    isHit = stand.wire.endFault()
                }
                guard isHit else { break }
                trips += 1
                try #require(trips < 200, "it does not end")
            }
            #expect(trips >= 2, "\(operation), \(fault): \(trips) round trips")
        }
        try stand.check()
    }

    private static func run(
        _ operation: Operation, _ stand: Stand, breaking: () -> Void, mended: () -> Void
    ) throws {
        switch operation {
        case .push: try stand.push(breaking, mended)
        case .hello: try stand.hello(breaking, mended)
        case .pull: try stand.pull(breaking, mended)
        case .list: try stand.list(breaking, mended)
        case .verify: try stand.verify(breaking, mended)
        case .enrol: try stand.enrol(breaking, mended)
        case .publish: try stand.publish(breaking, mended)
        case .apply: try stand.apply(breaking, mended)
        case .housekeep: try stand.housekeep(breaking, mended)
        case .reopen: try stand.reopen(breaking, mended)
        }
    }
}
