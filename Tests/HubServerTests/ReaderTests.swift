import SyncCore
import Testing

@testable import HubServer

/// Requests that only read are answered beside the connection that writes.
@Suite("Reading beside the hub", .eachEngine)
struct ReaderTests {
    private let rows: HubRows
    private let bench: HubBench
    private let reader: HubReader

    init() throws {
        rows = try HubRows()
        bench = try HubBench(place: rows.place)
        reader = try #require(try bench.hub.reader())
    }

    private func ask(
        _ method: String, _ target: String, _ body: JSON? = nil, headers extra: [(String, String)] = []
    ) -> HubResponse? {
        var headers: HTTPHeaders = [:]
        HubRequestHeaders(device: .one, replica: "r-1").write(to: &headers)
        for (name, value) in extra { headers[name] = value }
        return reader.answer([HubRequest(method, target, headers: headers, body: body?.bytes ?? [])], tokens: nil, at: bench.now)?[0]
    }

    private func pull(_ cursor: String? = nil, headers: [(String, String)] = []) throws -> HubResponse? {
        let request = PullRequest(
            streams: [StreamPosition(entity: "audits", cursor: cursor)], limit: 500, maxBytes: 1 << 20, maxSentSeq: 0, namesUnreadable: true
        )
        return ask("POST", "/v1/sync/pull", try JSONReader.read(PullMessages.request(request)), headers: headers)
    }

    private func page(_ response: HubResponse?) throws -> StreamPage? { try PullMessages.readResponse(#require(response).body).pages.first }

    @Test("Committed records are read at once, as the hub itself answers them")
    func reads() throws {
        #expect(try page(pull())?.records.isEmpty != false)
        #expect(try bench.verdict(Sent("k-1", .create)).word == "accepted")
        let first = try pull()
        #expect(try page(first)?.records.map(\.id.text) == ["a-1"])
        #expect(first?.headers["Sync-Head"] == "1")
        #expect(try bench.verdict(Sent("k-2", seq: 2, .create, id: "a-2")).word == "accepted")
        let cursor = try page(first)?.cursor
        #expect(try page(pull(cursor))?.records.map(\.id.text) == ["a-2"])
        for target in ["/v1/sync/snapshot?entity=audits", "/v1/config"] {
            #expect(ask("GET", target)?.body == bench.send("GET", target).body, "\(target)")
        }
        let known: JSON = ["keys": ["k-1", "k-9"]]
        #expect(ask("POST", "/v1/sync/known", known)?.body == bench.send("POST", "/v1/sync/known", known).body)
    }

    @Test("A refusal is a refusal here, too")
    func refusals() throws {
        #expect(try pull("nonsense").map { try PullMessages.readResponse($0.body).errors.count } == 1)
        #expect(ask("POST", "/v1/sync/pull", "text")?.status == 400)
        #expect(ask("DELETE", "/v1/sync/pull")?.status == 405)
    }

    @Test("A proof that the database is an older copy is left to the hub that writes")
    func proof() throws {
        #expect(try bench.verdict(Sent("k-1", .create)).word == "accepted")
        let backup = try bench.backUp()
        guard case .schema = backup else { return }  // A file is only put back while no hub runs.
        #expect(try bench.verdict(Sent("k-2", seq: 2, .create, id: "a-2")).word == "accepted")
        let cursor = try #require(try page(pull())?.cursor)
        try bench.restore(backup, startingEpoch: false)
        let before = bench.hub.epoch
        #expect(try pull(cursor) == nil)
        let answer = try bench.pull([("audits", cursor)])
        #expect(answer.errors.map(\.problem.code) == ["epoch-changed"] && bench.hub.epoch != before)
        #expect(try pull(cursor).map { try PullMessages.readResponse($0.body).errors.map(\.problem.code) } == ["epoch-changed"])
    }

    @Test("A damaged row is told by the hub that writes, and is read beside the others from then on")
    func damage() throws {
        #expect(try bench.verdict(Sent("k-1", .create)).word == "accepted")
        #expect(try bench.verdict(Sent("k-2", seq: 2, .create, id: "a-2")).word == "accepted")
        try rows.run("UPDATE record SET data = '{' WHERE id = 'a-1'")
        #expect(try pull() == nil)
        let page = try page(pull())
        #expect(page?.records.map(\.id.text) == ["a-2"])
        #expect(page?.unreadable.map(\.text) == ["a-1"])
    }

    @Test("The first use of a token is left to the hub that writes")
    func token() throws {
        var book = TokenBook()
        var random = SystemRandomNumberGenerator()
        let token = book.add(.one, at: bench.now, using: &random)
        func status(_ token: String) -> Int? {
            var headers: HTTPHeaders = [:]
            HubRequestHeaders(device: .one, replica: "r-1").write(to: &headers)
            headers["Authorization"] = "Bearer \(token)"
            return reader.answer([HubRequest("GET", "/v1/config", headers: headers)], tokens: book, at: bench.now)?[0].status
        }
        #expect(status("est_nobody") == 401)
        #expect(status(token) == nil)
        book.confirm(try #require(book.find(token)), at: bench.now)
        #expect(status(token) == 200)
    }

    @Test("After any changes, deletions and forgotten deletions the reader answers what the hub itself answers", arguments: UInt64(1)...12)
    func same(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let entities: [EntityName] = ["audits", "notes", "photos"]
        var cursors: [EntityName: [String?]] = [:]
        for step in 1...60 {
            let entity = entities[Int(random.next() % 3)]
            switch random.next() % 5 {
            case 0, 1:
                let id = "r-\(random.next() % 6)"
                let action: MutationAction = random.next() % 3 == 0 ? .delete : .create
                _ = try bench.verdict(Sent("k-\(step)", seq: Int64(step), action, entity.text, id: id))
            case 2 where random.next() % 4 == 0:
                bench.now = bench.now.advanced(by: .seconds(200 * 86_400))
                _ = try bench.hub.housekeep(at: bench.now)
            default:
                // Cursors of any age, and none.
                let known = cursors[entity, default: [nil]]
                let cursor = known[Int(random.next() % UInt64(known.count))]
                let limit = Int(random.next() % 3) + 1
                let request = PullRequest(
                    streams: [StreamPosition(entity: entity, cursor: cursor)], limit: limit, maxBytes: 1 << 20, maxSentSeq: 0,
                    namesUnreadable: true)
                let body = try JSONReader.read(PullMessages.request(request))
                let (own, its) = (bench.send("POST", "/v1/sync/pull", body), ask("POST", "/v1/sync/pull", body))
                #expect(own.body == its?.body && own.headers == its?.headers, "step \(step)")
                if let next = try PullMessages.readResponse(own.body).pages.first?.cursor { cursors[entity, default: [nil]].append(next) }
            }
        }
    }

    @Test("A large entity is counted once in a while, and its first page says about how many records there are")
    func totals() throws {
        let rows = try Self.largeEntity()
        let bench = try HubBench(place: rows.place)
        func total() throws -> Int64? { try bench.pull([("audits", nil)], limit: 1).pages.first?.total }
        #expect(try total() == 20_000)
        #expect(try bench.verdict(Sent("k-1", .create)).word == "accepted")
        #expect(try total() == 20_000)
        let more = (2...200).map { Sent("k-\($0)", seq: Int64($0), .create, id: "a-\($0)") }
        #expect(try bench.verdicts(more).allSatisfy { $0.verdict.word == "accepted" })
        #expect(try total() == 20_200)
    }

    @Test("Where a reader counts, no page waits for the number of records of a large entity")
    func totalsLater() throws {
        let rows = try Self.largeEntity()
        let bench = try HubBench(place: rows.place)
        let reader = try #require(try bench.hub.reader())
        bench.hub.totals.isServed = true
        func total(_ entity: EntityName = "audits") throws -> Int64? { try bench.pull([(entity, nil)], limit: 1).pages.first?.total }
        #expect(try total() == nil && reader.lacksTotals)
        reader.countNext(at: bench.now)
        #expect(try total() == 20_000 && !reader.lacksTotals)
        let more = (1...199).map { Sent("k-\($0)", seq: Int64($0), .create, id: "a-\($0)") }
        #expect(try bench.verdicts(more).allSatisfy { $0.verdict.word == "accepted" })
        #expect(try total() == 20_000 && !reader.lacksTotals)
        #expect(try bench.verdict(Sent("k-200", seq: 200, .create, id: "a-200")).word == "accepted")
        // The number of before stands until the new one is there.
        #expect(try total() == 20_000 && reader.lacksTotals)
        reader.countNext(at: bench.now)
        #expect(try total() == 20_200 && !reader.lacksTotals)
        // One in ten is too much.
        let many = (201...2_300).map { Sent("k-\($0)", seq: Int64($0), .create, id: "a-\($0)") }
        for start in stride(from: 0, to: many.count, by: 500) {
            #expect(try bench.verdicts(Array(many[start..<min(start + 500, many.count)])).allSatisfy { $0.verdict.word == "accepted" })
        }
        #expect(try total() == nil && reader.lacksTotals)
        reader.countNext(at: bench.now)
        #expect(try total() == 22_300)
    }

    @Test("An entity that cannot be counted is left alone for ten minutes, and a number belongs to one history")
    func uncounted() {
        let totals = EntityTotals()
        let start = Timestamp(milliseconds: 1_000_000)
        totals.demand("audits")
        #expect(totals.nextDue(at: start) == "audits" && !totals.isDue)
        totals.fail("audits", at: start)
        totals.demand("audits")
        totals.demand("orders")
        #expect(totals.nextDue(at: start.advanced(by: .seconds(599))) == "orders")
        #expect(totals.nextDue(at: start.advanced(by: .seconds(599))) == nil && !totals.isDue)
        totals.demand("audits")
        #expect(totals.nextDue(at: start.advanced(by: .seconds(600))) == "audits")
        totals.keep(20_000, of: "audits", at: 7, of: "one")
        #expect(totals.records(of: "audits", at: 7, of: "one") == 20_000)
        #expect(totals.records(of: "audits", at: 7, of: "two") == nil && totals.records(of: "audits", at: 6, of: "one") == nil)
        totals.keep(10_000, of: "audits", at: 8, of: "one")
        #expect(totals.records(of: "audits", at: 8, of: "one") == nil)
    }

    /// A hub's database with 20,000 records of `audits`.
    private static func largeEntity() throws -> HubRows {
        let rows = try HubRows()
        _ = try HubBench(place: rows.place)
        try rows.run(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
            INSERT INTO record(entity, id, version, data, hlc, writer, origin_key, updated_at_ms)
            SELECT 'audits', 'r-' || i, i, '{}', '0199c3f2a1b4-0007-9f2c11ab', 'gw', 'k', 1 FROM n
            """)
        return rows
    }

    @Test("A database in memory has one connection, and no reader")
    func memory() throws {
        #expect(try HubBench(place: .memory).hub.reader() == nil)
    }
}
