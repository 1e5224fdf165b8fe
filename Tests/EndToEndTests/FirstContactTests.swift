import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// The first hour of a new user.
    @Suite("First contact")
    struct FirstContactTests {
        @Test("Two gateways that know no more than URL and token: what one writes the other has after its next pull")
        func twoGateways() async throws {
            try await Stand.with(entities: "", hubEntities: "") { stand in
                let neighbour = try await Neighbour("gw-2", on: stand)
                do {
                    // Nothing is there yet, and that is said.
                    let early = try await neighbour.agentctl("sync", "--wait", "--force")
                    #expect(
                        early.status == 0 && early.text.contains("Nothing was pulled: the hub has no records for this device yet."),
                        "\(early.talk)")
                    let unknown = try await neighbour.agentctl("get", "work_orders")
                    #expect(unknown.status == 1, "\(unknown.talk)")
                    #expect(unknown.talk.contains("Neither this device nor its hub knows an entity work_orders."), "\(unknown.talk)")

                    let written = try await stand.agentctl("enqueue", "work_orders", "wo-1", "--data", #"{"status":"open"}"#, "--wait")
                    #expect(written.status == 0, "\(written.talk)")
                    let synced = try await neighbour.agentctl("sync", "--wait", "--force")
                    #expect(synced.status == 0 && synced.text.contains("pulled 1"), "\(synced.talk)")
                    let listed = try await neighbour.agentctl("get", "work_orders")
                    #expect(listed.status == 0 && listed.text.contains("wo-1") && listed.text.contains("open"), "\(listed.talk)")
                    // A second entity, and the way back.
                    let other = try await neighbour.agentctl("enqueue", "sites", "s-1", "--data", #"{"name":"Yard"}"#, "--wait")
                    #expect(other.status == 0, "\(other.talk)")
                    _ = try await stand.agentctl("sync", "--wait", "--force")
                    #expect(try await stand.agentctl("get", "sites", "s-1").text.contains("Yard"))
                    for words in [["get", "work_order"], ["query", "work_order"], ["get", "work_order", "wo-1"]] {
                        let misspelt = try await stand.agentctl(words)
                        #expect(misspelt.status != 0 && misspelt.talk.contains("Did you mean work_orders?"), "\(words): \(misspelt.talk)")
                    }
                } catch {
                    let log = neighbour.log
                    await neighbour.stop()
                    throw StandError("\(error)\nthe end of the neighbour's log:\n\(log)")
                }
                await neighbour.stop()
            }
        }
    }
}
