import Foundation
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// Records need no object store. So a store that never comes to an end may keep the hub from nothing but files.
    @Suite("An object store that hangs")
    struct HangingStoreTests {
        @Test(
            "The hub gives the store five seconds, then listens and serves records; files wait, and what is wrong is told",
            arguments: HangingStore.Manner.allCases)
        func listens(_ manner: HangingStore.Manner) async throws {
            let store = try HangingStore(manner)
            try await Stand.with(entities: "      audits: { kind: record }", hub: false, agent: false) { stand in
                await stand.setEnvironment(agent: [:], hub: ["AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"])
                await stand.setHubArguments(["--blobs", "s3://files/hub", "--s3-endpoint", "http://127.0.0.1:\(store.port)"])
                // Returns with the line in which the hub says where it listens.
                try await stand.startHub()
                if manner == .silent || manner == .begun {
                    // The store has the rest of the five seconds. Otherwise the limits of a single request would end it later.
                    let log = try String(contentsOfFile: "\(stand.folder)/hub.log", encoding: .utf8)
                    #expect(log.contains(/not done within [0-5](\.[0-9]+)? seconds/), "\(log)")
                }
                #expect(store.requests.first?.hasPrefix("GET /files") == true, "the store was asked: \(store.requests)")
                try await stand.startAgent()
                #expect(try await stand.agentctl("enqueue", "audits", "a-1", "--data", #"{"n":1}"#).status == 0)
                #expect(try await stand.sync() == "ok")
                #expect(try await stand.hubRecords("audits").map(\.id) == ["a-1"])
                #expect(try await stand.hub(.get, "/readyz").status == 200)
                let metrics = String(decoding: try await stand.hub(.get, "/metrics").body, as: UTF8.self)
                // A store that answers with pages is there, whatever is in them.
                if manner == .silent || manner == .begun {
                    #expect(metrics.contains("agenthub_object_store_up 0\n"), "\(metrics.prefix(300))")
                }
                #expect(store.requests.count < 2_500, "\(store.requests.count) requests")
            }
        }
    }
}
