import RepetitionOracle
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    @Suite("Fake servers that count")
    struct WatchedServerTests {
        @Test("A client that asks the relay the same without a wait is noticed; one that does not is not")
        func control() async throws {
            try await Stand.with(agent: false) { stand in
                let relay = try TamperingRelay(hubPort: await stand.hubPort)
                let client = try CurlTransport()
                defer { client.close() }
                func ask(_ times: Int) async throws {
                    for _ in 0..<times { _ = try await client.send(HTTPRequest(.get, "http://127.0.0.1:\(relay.port)/healthz")) }
                }
                try await ask(20)
                #expect(WatchedServers.take() == [])
                // Above the limit within any half of the window, so it does not matter where the window's edge falls.
                try await ask(3 * WatchedServers.limits.same)
                #expect(WatchedServers.take().contains { $0.contains("/healthz") })
            }
        }
    }
}
