import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// Other servers at the address of the hub.
    @Suite("In the hub's place", .disabled(if: Namespaces.obstacle != nil, Comment(rawValue: Namespaces.obstacle ?? "")))
    struct StandInTests {
        @Test("A captive portal, and a machine that never answers, get neither work nor credentials; what waited goes when they are gone")
        func standIns() async throws {
            // Side by side, because most of it is waiting for deadlines.
            try await withThrowingTaskGroup(of: Void.self) { group in
                for manner in ["page", "redirect", "empty"] {
                    group.addTask { try await portal(manner) }
                }
                group.addTask { try await silence() }
                try await group.waitForAll()
            }
        }

        private func portal(_ manner: String) async throws {
            let cable = Namespaces.Cable.wan
            try await FieldStand.with([cable]) { stand in
                try await stand.network.pull(cable)
                try await stand.until("offline") { $0.connectivity.state == "offline" }
                try await stand.standIn(manner)
                // Critical work does not wait for the probe: this may be tried before the portal is known, and fail at TLS.
                try await stand.enqueue(1, .critical)
                try await stand.network.plug(cable)
                try await stand.until("captive by \(manner)") { $0.connectivity.state == "captive" }
                let waiting = try await stand.enqueue(2, .critical)
                let status = try await stand.until("a deferral by \(manner)") { !$0.outbox.deferred.isEmpty }
                #expect(status.outbox.deferred.map(\.reason) == ["captive"], "\(manner)")
                #expect(status.outbox.open == 2, "\(manner)")
                if manner == "redirect" { #expect(status.connectivity.portalURL == "http://login.example/") }
                #expect(try await stand.ask("why", waiting).object?["reason"]?.text == "captive", "\(manner)")
                #expect(try await stand.agentctl("status").text.contains("portal"), "\(manner)")

                let log = await stand.standInLog
                #expect(log.contains("GET /v1/probe?n="), "\(manner): \(log)")
                for secret in ["Authorization", "Bearer", "POST", "Sync-Device"] {
                    #expect(!log.contains(secret), "\(manner): \(log)")
                }
                #expect(try await stand.hubMutations("applied") == 0, "\(manner)")

                try await stand.endStandIn()
                // The person who has logged in asks for a sync; otherwise the next look comes after half a minute.
                _ = try await stand.agentctl("sync")
                try await stand.until("online without the portal") { $0.connectivity.state == "online" }
                try await stand.untilHubHas(2)
                #expect(try await stand.hubRecords("readings").count == 2, "\(manner)")
            }
        }

        /// Accepts, and never says a word.
        private func silence() async throws {
            try await FieldStand.with([.wan]) { stand in
                try await stand.enqueue(1, .critical)
                try await stand.untilHubHas(1)
                // A hub that ends makes the link degraded, and then nothing is sent.
                await stand.freezeHub()
                try await stand.enqueue(2, .critical)
                try await stand.until("a mutation under way") { $0.outbox.count(.inFlight) == 1 }
                try await stand.standIn("silence")
                // The mutation may have arrived, so it counts as sent until the hub says.
                let status = try await stand.until("a mutation sent to a hub that does not answer") {
                    $0.connectivity.state == "degraded" && $0.outbox.count(.inFlight) == 1
                }
                #expect(status.outbox.open == 1)
                // A mutation from now on was never sent, and waits.
                try await stand.enqueue(3)
                let held = try await stand.until("a deferral") { !$0.outbox.deferred.isEmpty }
                #expect(held.outbox.deferred.allSatisfy { ["backoff", "degraded"].contains($0.reason) })
                #expect(status.sync.lastError?.isEmpty == false)
                try await stand.untilStandInLogs("connection to \(FieldStand.port)")

                try await stand.endStandIn()
                try await stand.untilHubHas(3)
                let settled = try await stand.until("everything settled") { $0.outbox.open == 0 }
                #expect(settled.outbox.count(.done) == 3)
                #expect(try await stand.hubRecords("readings").count == 3)
            }
        }
    }
}
