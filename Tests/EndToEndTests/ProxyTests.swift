import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// A proxy as companies have it between their machines and the internet.
    @Suite("Proxies", .disabled(if: SquidProxy.obstacle != nil, Comment(rawValue: SquidProxy.obstacle ?? "")))
    struct ProxyTests {
        private static let tunnel = "CONNECT \(Namespaces.hubAddress):\(FieldStand.port)"

        @Test(
            "Everything goes through the proxy, whatever the environment says; without it the agent says what is missing, and goes on later"
        )
        func tunnel() async throws {
            try await FieldStand.with([.wan], proxy: .open) { stand in
                try await stand.enqueue(1, .critical)
                try await stand.untilHubHas(1)
                try await Self.expect(check: "proxy", .ok, "http://\(Namespaces.hubAddress):3128, with the credentials of", at: stand)
                try await Self.expect(check: "dns", .ok, "hub.proxy is an address; there is no name to look up", at: stand)

                await stand.stopProxy()
                let proxied = await stand.proxied
                #expect(!proxied.isEmpty && proxied.allSatisfy { $0.hasSuffix(Self.tunnel) }, "\(proxied)")
                try await stand.enqueue(2)
                let status = try await stand.until("the proxy's absence") {
                    $0.connectivity.state == "degraded"
                        && $0.connectivity.cause?.contains("through the proxy \(Namespaces.hubAddress):3128") == true
                }
                #expect(status.outbox.count(.done) == 1)
                try await Self.expect(check: "hub", .bad, "the hub does not answer", at: stand)
                try await stand.startProxy(.open)
                _ = try await stand.agentctl("sync", "--force")
                try await stand.untilHubHas(2)
            }
        }

        @Test("A proxy that lets nothing through, or wants other credentials, is named as the cause; a new file counts without a reload")
        func credentials() async throws {
            try await FieldStand.with([.wan], proxy: .open) { stand in
                try await stand.startProxy(.closed)
                try await stand.enqueue(1)
                try await stand.until("the refusal") { $0.connectivity.cause?.contains("lets nothing through") == true }

                try await stand.startProxy(.asking(credentials: "pump:se:cret word"))
                _ = try await stand.agentctl("sync", "--force")
                try await stand.until("the question for credentials") {
                    $0.connectivity.cause?.contains("the proxy refuses the configured user name and password (407)") == true
                }
                try await stand.showCredentials("pump:wrong")
                _ = try await stand.agentctl("sync", "--force")
                #expect(try await stand.hubMutations("applied") == 0)
                try await stand.showCredentials("pump:se:cret word")
                _ = try await stand.agentctl("sync", "--force")
                try await stand.untilHubHas(1)
                // Neither secret is in the log.
                #expect(await !stand.agentLog.contains("cret"))
            }
        }

        @Test(
            "A proxy that opens connections is not trusted before its authority is in ca_file, and gets neither data nor token until then")
        func interception() async throws {
            try await FieldStand.with([.wan], proxy: .open) { stand in
                try await stand.startProxy(.intercepting)
                try await stand.enqueue(1)
                let status = try await stand.until("the distrust") { $0.connectivity.cause?.contains("certificate") == true }
                #expect(status.connectivity.state != "online")
                #expect(await stand.proxied.allSatisfy { !$0.contains("/v1/") })
                try await stand.trustProxy()
                _ = try await stand.agentctl("sync", "--force")
                try await stand.untilHubHas(1)
                try await stand.untilProxied("POST https://\(Namespaces.hubAddress):\(FieldStand.port)/v1/")
            }
        }

        private static func expect(
            check: String, _ severity: DoctorFinding.Severity, _ words: String, at stand: FieldStand
        ) async throws {
            let findings = try DoctorTests.findings(try await stand.agentctl("doctor", "--json"))
            let found = try #require(findings.first { $0.id == check })
            #expect(found.severity == severity && found.detail.contains(words), "\(found)")
        }
    }
}
