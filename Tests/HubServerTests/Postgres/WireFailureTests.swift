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

        init() throws {
            bench = try ReplicaBench()
            wire = try ServerWire(to: bench.server)
            var rules = EntityRules()
            rules.fields = ["count": .counter]
            hub = try HubBench(
                rules: RuleBook(["audits": rules, "notes": EntityRules()]), place: .shared(try PostgresPlace(wire.url(of: bench.url))))
            guard let reader = try hub.hub.reader() else { throw PostgresServer.Failure(description: "there is no reader") }
            self.reader = reader
            _ = try hub.verdict(Sent("k-0", .create, id: "counted", data: ["count": 0]))
        }

        deinit { wire.close() }

        func request(_ path: String, _ body: JSON, device: DeviceID = .one) -> HubRequest {
            var headers: HTTPHeaders = [:]
            var said = HubRequestHeaders(device: device, replica: "r-1")
            said.abilities = AgentAbility.all
            said.write(to: &headers)
            return HubRequest("POST", path, headers: headers, body: body.bytes)
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
            func answer() -> HubResponse {
                reader.answer([pull], tokens: nil, at: hub.now)?[0] ?? hub.hub.handle(pull, at: hub.now)
            }
            breaking()
            let first = answer()
            mended()
            wait()
            let last = first.status == 200 ? first : answer()
            #expect([200, 503].contains(first.status))
            let page = try #require(try PullMessages.readResponse(last.body).pages.first)
            if cursor != nil { #expect(page.records.map(\.id.text) == [id]) }
            cursor = page.cursor
        }

        func housekeep(_ breaking: () -> Void, _ mended: () -> Void) throws {
            breaking()
            let isDone = (try? hub.hub.housekeep(at: hub.now)) != nil  // It is repeated.
            mended()
            wait()
            // A push opens the database again, as it may be that no connection is there.
            _ = hub.push([])
            if !isDone { try hub.hub.housekeep(at: hub.now) }
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
        case push, hello, pull, housekeep, reopen
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
        case .housekeep: try stand.housekeep(breaking, mended)
        case .reopen: try stand.reopen(breaking, mended)
        }
    }
}
