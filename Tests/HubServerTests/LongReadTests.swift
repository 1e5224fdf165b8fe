import HubServer
import SyncCore
import SyncHTTP
import Testing

/// Listings and comparisons may take seconds. Nothing else waits for them.
@Suite("Long requests beside pulls", .eachEngine)
struct LongReadTests {
    enum Long: CaseIterable {
        case listing, comparison

        func ask(_ stand: PullWaitTests.Stand, _ cursor: String) async throws -> HTTPResponse {
            switch self {
            case .listing: return try await stand.running.send(.get, "/v1/sync/snapshot?entity=audits")
            case .comparison:
                let body = VerifyMessages.request(VerifyRequest(entity: "audits", cursor: cursor, digest: EntityDigest()))
                return try await stand.running.send(.post, "/v1/sync/verify", body: body)
            }
        }
    }

    @Test("While one occupies its connection, pulls are answered, and a waiting pull gets its news", arguments: Long.allCases)
    func beside(_ long: Long) async throws {
        let rows = try HubRows()
        let place = WatchedPlace(rows.place.database)
        try await PullWaitTests.with(place: .shared(place)) { stand in
            let cursor = try await stand.cursor()
            place.forget()
            place.gate.close()
            async let held = Self.ask(long, stand, cursor, place.gate)
            await place.gate.reached()
            #expect(place.begun == [2])
            #expect(try await stand.pull(cursor, prefer: nil, device: .two).status == 200)
            async let news = stand.pull(cursor, device: .two)
            try await stand.waiting(1)
            _ = try await stand.running.push([Sent("k-1", .create, id: "a-1")], device: "gw-3")
            #expect(try PullWaitTests.ids(await news) == ["a-1"])
            #expect(place.gate.open(), "the pulls were answered after the long request")
            #expect(try await held.status == 200)
            #expect(place.begun.count { $0 == 2 } == 1)
        }
        withExtendedLifetime(rows) {}
    }

    private static func ask(
        _ long: Long, _ stand: PullWaitTests.Stand, _ cursor: String, _ gate: WatchedPlace.Gate
    ) async throws -> HTTPResponse {
        defer { gate.giveUp() }
        return try await long.ask(stand, cursor)
    }

    @Test("A database that gives one connection for reading answers them over it")
    func shared() async throws {
        let rows = try HubRows()
        let place = WatchedPlace(rows.place.database, readersMax: 1)
        try await PullWaitTests.with(place: .shared(place)) { stand in
            let cursor = try await stand.cursor()
            place.forget()
            for long in Long.allCases { #expect(try await long.ask(stand, cursor).status == 200) }
            #expect(try await stand.pull(cursor, prefer: nil).status == 200)
            #expect(place.begun == [1, 1, 1])
        }
        withExtendedLifetime(rows) {}
    }
}
