import HubServer
import SyncCore
import SyncHTTP
import SyncLinux
import Synchronization
import Testing

/// Pulls that wait at a running hub for news (PROTOCOL A3). The clock of the hub stands still until a test moves it, so no wait ends by
/// itself.
@Suite("Pulls that wait for news", .eachEngine)
struct PullWaitTests {
    final class Clock: TimeSource {
        private let seconds = Atomic<Int64>(0)

        func now() -> Moment {
            let seconds = Duration.seconds(seconds.load(ordering: .relaxed))
            return Moment(
                instant: Instant(nanoseconds: 0).advanced(by: seconds),
                wall: Timestamp(milliseconds: 1_795_208_400_000).advanced(by: seconds))
        }

        func advance(_ seconds: Int64) { self.seconds.add(seconds, ordering: .relaxed) }
    }

    struct Stand {
        var running: ServiceTests.Running
        let clock: Clock

        func pull(
            _ cursor: String?, of entity: EntityName = "audits", prefer: String? = "wait=55", device: DeviceID = .one
        ) async throws -> HTTPResponse {
            let request = PullRequest(
                streams: [StreamPosition(entity: entity, cursor: cursor)], limit: 500, maxBytes: 1 << 20, maxSentSeq: 0)
            return try await running.send(
                .post, "/v1/sync/pull", body: PullMessages.request(request), device: device,
                headers: prefer.map { [("Prefer", $0)] } ?? [])
        }

        func cursor(_ entity: EntityName = "audits", device: DeviceID = .one) async throws -> String {
            let answer = try await pull(nil, of: entity, prefer: nil, device: device)
            return try #require(try PullMessages.readResponse(answer.body).pages.first?.cursor)
        }

        /// Waits until this number of pulls waits.
        func waiting(_ count: Int) async throws {
            while true {
                do {
                    if try await running.figures().contains("\nagenthub_pulls_waiting \(count)\n") { return }
                } catch let error as TransportError where error.code == .broken {
                    // A hub that is full may make room by closing the connection that asks.
                }
                await Task.yield()
            }
        }
    }

    static func ids(_ response: HTTPResponse) throws -> [String] {
        try PullMessages.readResponse(response.body).pages.flatMap(\.records).map(\.id.text)
    }

    /// - Parameter place: The place of the database; `nil`: a new one.
    static func with(
        place: Hub.Place? = nil, rules: RuleBook = RuleBook(), access: AccessBook = AccessBook(),
        limits: ServiceTests.ChangeLimits = { _ in }, stopsItself: Bool = false, _ body: (Stand) async throws -> Void
    ) async throws {
        let rows = place == nil ? try HubRows() : nil
        var settings = Hub.Settings(rules: rules, compressor: ZlibCompressor())
        settings.access = access
        let hub = try Hub(try place ?? #require(rows).place, settings: settings, random: SeededRandom(seed: 1))
        var options = HubService.Options(host: "127.0.0.1", port: 0)
        // A hub with scopes has its figures there alone.
        if !rules.entities.isEmpty { options.metrics = .init(host: "127.0.0.1", port: 0) }
        limits(&options.limits)
        let clock = Clock()
        try await ServiceTests.serving(hub, options, time: clock) { running in
            running.transport.close()
            if !stopsItself { await running.service.stop(within: .seconds(5)) }
        } _: {
            try await body(Stand(running: $0, clock: clock))
        }
        withExtendedLifetime(rows) {}
    }

    @Test("A pull without news waits until another device has pushed, and then brings that")
    func woken() async throws {
        try await Self.with { stand in
            let cursor = try await stand.cursor()
            async let answer = stand.pull(cursor)
            try await stand.waiting(1)
            _ = try await stand.running.push([Sent("k-1", .create, id: "a-1", data: ["n": 1])], device: .two)
            let response = try await answer
            #expect(try response.status == 200 && Self.ids(response) == ["a-1"])
            #expect(response.headers["Preference-Applied"] == "wait=55" && response.headers["Sync-Head"] == "1")
            try await stand.waiting(0)
        }
    }

    @Test("A pull with news does not wait")
    func news() async throws {
        try await Self.with { stand in
            let cursor = try await stand.cursor()
            _ = try await stand.running.push([Sent("k-1", .create, id: "a-1")])
            let response = try await stand.pull(cursor, prefer: "wait=600")
            #expect(try Self.ids(response) == ["a-1"] && response.headers["Preference-Applied"] == "wait=55")
        }
    }

    @Test("When its time is over, a waiting pull brings the ordinary answer without news")
    func timeIsOver() async throws {
        try await Self.with { stand in
            let cursor = try await stand.cursor()
            async let answer = stand.pull(cursor, prefer: "wait=30")
            try await stand.waiting(1)
            stand.clock.advance(30)
            let response = try await answer
            #expect(try response.status == 200 && PullMessages.readResponse(response.body).pages.isEmpty)
            #expect(response.headers["Preference-Applied"] == "wait=30")
            #expect(response.headers["Sync-Time"] == "1795208430000")
        }
    }

    @Test("At the end of its wait a pull tells the numbers of this moment, because the device may have pushed meanwhile")
    func endTellsThePresent() async throws {
        try await Self.with { stand in
            let cursor = try await stand.cursor()
            async let answer = stand.pull(cursor, prefer: "wait=30")
            try await stand.waiting(1)
            _ = try await stand.running.push([Sent("k-1", seq: 7, .create, "sites", id: "s-1")])
            stand.clock.advance(30)
            let response = try await answer
            let pulled = try PullMessages.readResponse(response.body)
            #expect(pulled.pages.isEmpty && pulled.head == 1 && response.headers["Preference-Applied"] == "wait=30")
            #expect(response.headers["Sync-Head"] == "1" && response.headers["Sync-Device-Seq"] == "7")
        }
    }

    @Test("Waits that end together are answered in one transaction")
    func endTogether() async throws {
        let rows = try HubRows()
        let place = WatchedPlace(rows.place.database)
        try await Self.with(place: .shared(place)) { stand in
            let cursor = try await stand.cursor()
            try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
                for number in 0..<100 {
                    group.addTask { try await stand.pull(cursor, device: DeviceID(trusted: "gw-\(100 + number)")) }
                }
                try await stand.waiting(100)
                place.forget()
                stand.clock.advance(55)
                for try await response in group {
                    #expect(try response.status == 200 && PullMessages.readResponse(response.body).pages.isEmpty)
                    #expect(response.headers["Sync-Head"] == "0" && response.headers["Preference-Applied"] == "wait=55")
                }
            }
            #expect(place.begun == [1])
        }
        withExtendedLifetime(rows) {}
    }

    @Test("Without a preference to wait, or with one that is no time, the answer comes at once", arguments: [nil, "wait=soon", "wait=0"])
    func atOnce(_ prefer: String?) async throws {
        try await Self.with { stand in
            let response = try await stand.pull(try await stand.cursor(), prefer: prefer)
            #expect(response.status == 200 && response.headers["Preference-Applied"] == nil)
        }
    }

    @Test("A client that leaves is forgotten at once")
    func leaves() async throws {
        try await Self.with { stand in
            let cursor = try await stand.cursor()
            let waiting = Task { try await stand.pull(cursor) }
            try await stand.waiting(1)
            waiting.cancel()
            try await stand.waiting(0)
            await #expect(throws: TransportError.self) { try await waiting.value }
        }
    }

    @Test("A hub that stops answers waiting pulls at once")
    func stops() async throws {
        try await Self.with(stopsItself: true) { stand in
            let cursor = try await stand.cursor()
            async let answer = stand.pull(cursor)
            try await stand.waiting(1)
            // A stop that waited for the pull would last for ever: the clock stands still.
            await stand.running.service.stop(within: .seconds(3_600))
            let response = try await answer
            #expect(try response.status == 200 && PullMessages.readResponse(response.body).pages.isEmpty)
        }
    }

    @Test("A waiting connection counts as an idle one: it is closed to make room, and its pull is forgotten")
    func makesRoom() async throws {
        try await Self.with(limits: { $0.connections = 2 }) { stand in
            let cursor = try await stand.cursor()
            let waiting = Task { try await stand.pull(cursor) }
            try await stand.waiting(1)
            // The first of these takes the place of the connection that asked for the metrics, whose caller is unknown. The second finds
            // two known ones, of which the waiting one has been idle for longer.
            let head = "GET /v1/sync/pull?entity=audits HTTP/1.1\r\nHost: hub\r\nSync-Version: 1\r\nSync-Device: gw-2\r\n\r\n"
            let accepted = stand.running.service.connectionCounts.accepted
            let first = try RawClient(port: stand.running.service.port)
            try first.send(head)
            while true {
                let counts = stand.running.service.connectionCounts
                if counts.accepted > accepted, counts.known == 2, counts.strangers == 0 { break }
                await Task.yield()
            }
            let second = try RawClient(port: stand.running.service.port)
            try second.send(head)
            let error = await #expect(throws: TransportError.self) { try await waiting.value }
            #expect(error?.code == .broken)
            // The connection for the metrics may have been known already, and counts then, too.
            #expect(stand.running.service.connectionCounts.closedIdle >= 1)
            withExtendedLifetime((first, second)) {}
            try await stand.waiting(0)
        }
    }

    @Test("One change answers all waiting pulls of a fleet")
    func fleet() async throws {
        try await Self.with { stand in
            let cursor = try await stand.cursor()
            try await withThrowingTaskGroup(of: [String].self) { group in
                for number in 0..<100 {
                    group.addTask { try Self.ids(try await stand.pull(cursor, device: DeviceID(trusted: "gw-\(100 + number)"))) }
                }
                try await stand.waiting(100)
                _ = try await stand.running.push([Sent("k-1", .create, id: "a-1")])
                for try await ids in group { #expect(ids == ["a-1"]) }
            }
        }
    }

    // MARK: Scopes

    @Test("A change outside of a device's scopes does not end its wait, and one inside of them does")
    func scopes() async throws {
        var access = AccessBook()
        access.devices[.one, default: Grants()].scopes["site"] = ["s-1"]
        access.devices[.two, default: Grants()].scopes["site"] = ["s-2"]
        try await Self.with(rules: ScopeBench.rules, access: access) { stand in
            let orders = ScopeBench.orders
            let (first, second) = (try await stand.cursor(orders), try await stand.cursor(orders, device: .two))
            async let answer = stand.pull(first, of: orders)
            async let others = stand.pull(second, of: orders, device: .two)
            try await stand.waiting(2)
            _ = try await stand.running.push([Sent("k-1", .create, "work_orders", id: "w-2", data: ["site": "s-2"])], device: .two)
            // The look that has found this change has found it for both.
            #expect(try Self.ids(await others) == ["w-2"])
            try await stand.waiting(1)
            _ = try await stand.running.push([Sent("k-2", .create, "work_orders", id: "w-1", data: ["site": "s-1"])])
            #expect(try Self.ids(await answer) == ["w-1"])
        }
    }
}
