import RepetitionOracle
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    @Suite("Fake servers that count")
    struct WatchedServerTests {
        private struct FixedTime: TimeSource {
            func now() -> SyncCore.Moment { .init(instant: Instant(nanoseconds: 0), wall: Timestamp(milliseconds: 1_795_208_400_000)) }
        }

        @Test("A client that asks the relay the same without a wait is noticed; one that does not is not")
        func control() async throws {
            try await Stand.with(agent: false) { stand in
                // On a busy machine the window would be over before enough was asked.
                let relay = try TamperingRelay(hubPort: await stand.hubPort, time: FixedTime())
                let client = try CurlTransport()
                defer { client.close() }
                func ask(_ times: Int) async throws {
                    for _ in 0..<times { _ = try await client.send(HTTPRequest(.get, "http://127.0.0.1:\(relay.port)/healthz")) }
                }
                try await ask(20)
                #expect(WatchedServers.take() == [])
                try await ask(WatchedServers.limits.same)
                #expect(WatchedServers.take().contains { $0.contains("/healthz") })
            }
        }
    }
}
