import Agent
import LocalAPI
import SyncCore
import Testing

@Suite("Hints about links")
struct LinkHintTests {
    @Test("A hint outlives a restart of the agent, and not one of the machine", arguments: [true, false])
    func restart(_ isSameBoot: Bool) async throws {
        let stand = try await AgentStand.start { $0.links = FixedSurroundings() }
        let answer = try await stand.send(.put, "/v1/links/eth0", #"{"metered":true,"roaming":true}"#)
        #expect(answer.status == 200 && answer["roaming"] == true, "\(answer.text)")
        _ = try await stand.send(.get, "/v1/status")
        try await stand.stop(keepingFolder: true)
        let again = try await AgentStand.start(hub: stand.hub, in: stand.folder) { environment in
            environment.links = FixedSurroundings()
            if !isSameBoot { environment.bootID = "boot-2" }
        }
        // The first answer that asks the engine comes once the store has told what it keeps.
        _ = try await again.send(.get, "/v1/status")
        let links = try #require(try await again.send(.get, "/v1/links").json.flatMap { LinksAnswer($0) })
        let link = try #require(links.items.first)
        #expect(link.meteredBy == (isSameBoot ? "hint" : "kind") && link.isRoaming == isSameBoot)
        #expect((link.expiresAt != nil) == isSameBoot)
        try await again.stop()
    }
}
