import HubPostgres
import PostgresStand
import SyncCore
import Testing

@testable import HubServer

/// The number of times that a pull waits for a server.
@Suite("Round trips of a pull", .needsPostgres)
struct PullTripTests {
    private static let entities: [EntityName] = ["audits", "notes", "orders"]

    /// A device that pulls three entities over a hub's reader.
    private final class Stand {
        let hub: HubBench
        let reader: HubReader
        private var cursors: [EntityName: String] = [:]
        private var seq: Int64 = 0

        init() throws {
            let rules = RuleBook(Dictionary(uniqueKeysWithValues: PullTripTests.entities.map { ($0, EntityRules()) }))
            hub = try HubBench(rules: rules, place: .shared(try PostgresPlace(try ReplicaBench().url)))
            guard let reader = try hub.hub.reader() else { throw PostgresServer.Failure(description: "there is no reader") }
            self.reader = reader
        }

        func create(_ entity: EntityName, count: Int = 1) throws {
            for _ in 0..<count {
                seq += 1
                _ = try hub.verdict(
                    Sent("k-\(seq)", seq: seq, .create, entity.text, id: "r-\(seq)", data: ["n": .int(Int(seq))]), device: .two)
            }
        }

        /// Pulls once.
        ///
        /// - Returns: The ids by entity, and the number of round trips.
        func pull(limit: Int = 500) throws -> (ids: [EntityName: [String]], trips: Int) {
            let streams = PullTripTests.entities.map { StreamPosition(entity: $0, cursor: cursors[$0]) }
            let wanted = PullRequest(streams: streams, limit: limit, maxBytes: 1 << 20, maxSentSeq: 0, namesUnreadable: false)
            var headers: HTTPHeaders = [:]
            HubRequestHeaders(device: .one, replica: "r-1").write(to: &headers)
            let request = HubRequest("POST", "/v1/sync/pull", headers: headers, body: PullMessages.request(wanted))
            let before = reader.hub.store.database.roundTrips
            let answer = try #require(reader.answer([request], tokens: nil, at: hub.now)?.first)
            let trips = reader.hub.store.database.roundTrips - before
            var ids: [EntityName: [String]] = [:]
            for page in try PullMessages.readResponse(answer.body).pages {
                cursors[page.entity] = page.cursor
                ids[page.entity] = page.records.map(\.id.text)
            }
            return (ids, trips)
        }
    }

    @Test("A pull without news waits for the server once, and one with news of any number of entities twice")
    func trips() throws {
        let stand = try Stand()
        // The hub opens the database with its first push, and the reader reads that once.
        try stand.create("orders")
        _ = try stand.pull()
        #expect(try stand.pull().trips == 1)
        try stand.create("audits")
        let one = try stand.pull()
        #expect(one.ids == ["audits": ["r-2"]] && one.trips == 2)
        for entity in Self.entities { try stand.create(entity) }
        let all = try stand.pull()
        #expect(all.ids == ["audits": ["r-3"], "notes": ["r-4"], "orders": ["r-5"]] && all.trips == 2)
        #expect(try stand.pull().trips == 1)
    }

    @Test("Devices that are at the same place and pull in one transaction have their news read once, and each gets all of it")
    func sameNews() throws {
        let stand = try Stand()
        try stand.create("audits")
        let devices = (1...5).map { DeviceID(trusted: "gw-\($0)") }
        var cursors: [DeviceID: String] = [:]
        func answers() throws -> (pages: [[StreamPage]], trips: Int) {
            let requests = devices.map { device in
                let wanted = PullRequest(
                    streams: [StreamPosition(entity: "audits", cursor: cursors[device])], limit: 500, maxBytes: 1 << 20, maxSentSeq: 0)
                var headers: HTTPHeaders = [:]
                HubRequestHeaders(device: device, replica: "r-1").write(to: &headers)
                return HubRequest("POST", "/v1/sync/pull", headers: headers, body: PullMessages.request(wanted))
            }
            let before = stand.reader.hub.store.database.roundTrips
            let found = try #require(stand.reader.answer(requests, tokens: nil, at: stand.hub.now))
            let trips = stand.reader.hub.store.database.roundTrips - before
            let pages = try found.map { try PullMessages.readResponse($0.body).pages }
            for (device, pages) in zip(devices, pages) { if let page = pages.first { cursors[device] = page.cursor } }
            return (pages, trips)
        }
        _ = try answers()
        for _ in 0..<3 { try stand.create("audits") }
        let news = try answers()
        #expect(news.trips == 2)
        #expect(news.pages.map { $0.flatMap(\.records).map(\.id.text) } == [[String]](repeating: ["r-2", "r-3", "r-4"], count: 5))
        try stand.create("notes")
        #expect(try answers().pages.allSatisfy(\.isEmpty))
    }

    @Test("Many news of one entity beside few of others come page by page, each once")
    func manyNews() throws {
        let stand = try Stand()
        _ = try stand.pull()
        try stand.create("audits", count: 70)
        try stand.create("notes", count: 3)
        var found: [EntityName: [String]] = [:]
        for _ in 0..<20 { found.merge(try stand.pull(limit: 10).ids) { $0 + $1 } }
        #expect(found["audits"] == (1...70).map { "r-\($0)" } && found["notes"] == (71...73).map { "r-\($0)" })
    }
}
