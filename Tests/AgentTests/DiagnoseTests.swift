import Foundation
import LocalAPI
import SyncCore
import SyncLinux
import Testing

@Suite("Diagnostics of a running agent")
struct DiagnoseTests {
    /// None of them may be in anything that leaves the site, in any case.
    private static let canaries = [
        "CANARYtoken0123456789abcdef", "canary-payload", "canary-record", "canary-user", "canary-password", "canary-config",
        "canary-rejection",
    ]

    /// An agent that has seen every secret there is: in its token, in documents, in what the hub said, in its configuration.
    private static func stand() async throws -> AgentStand {
        let stand = try await AgentStand.start()
        stand.outside.token = canaries[0]
        _ = try await stand.enqueue(#"{"entity":"notes","record_id":"canary-record","action":"create","data":{"text":"canary-payload"}}"#)
        stand.hub.weather = .changesResults { results in
            results.map { result in
                [
                    "idempotency_key": result.object?["idempotency_key"] ?? .null, "status": "rejected",
                    "problem": ["type": "urn:edge-sync:validation", "title": "Validation", "status": 422, "detail": "canary-rejection"],
                ]
            }
        }
        try await stand.sync()
        stand.hub.weather = .fine
        for settings in [
            #"hub: { url: "https://canary-user:canary-password@hub.example.com" }"#, "log: { level: canary-config }",
            "token: canary-config",
        ] {
            stand.outside.write(settings + "\n")
            #expect(try await stand.send(.post, "/v1/config/reload").status == 422)
        }
        return stand
    }

    private static func leaks(_ bytes: [UInt8]) -> [String] {
        let text = String(decoding: bytes, as: UTF8.self).lowercased()
        return canaries.filter { text.contains($0.lowercased()) }
    }

    @Test("The bundle has all its files, and no canary secret in any of them")
    func bundle() async throws {
        let stand = try await Self.stand()
        let response = try await stand.client.send(
            HTTPRequest(.post, "http://localhost/v1/diagnostics/bundle", socketPath: stand.socket))
        #expect(response.status == 200)
        #expect(response.headers["Content-Type"] == "application/gzip")
        let archive = try #require(ZlibCompressor().gunzip(response.body, maxBytes: 4 << 20, maxRatio: 10_000))
        let names = ["summary.json", "status.json", "checklist.json", "config.txt", "metrics.txt", "events.ndjson", "ledger.ndjson"]
        let text = String(decoding: archive, as: UTF8.self)
        for name in names { #expect(text.contains("agentd-gw-test/" + name)) }
        #expect(Self.leaks(archive) == [])
        // Facts about the records are there all the same.
        #expect(text.contains("\"rejected\": 1"))
        #expect(text.contains("validation"))
        #expect(text.contains("conf.d/test.yaml:1:"))
        try await stand.stop()
    }

    @Test("The canaries are in the agent's own words to the operator, so the test above looks for something")
    func canariesAreThere() async throws {
        let stand = try await Self.stand()
        let status = try await stand.send(.get, "/v1/status").text
        #expect(status.contains("canary-record"))
        #expect(status.contains("canary-rejection"))
        try await stand.stop()
    }

    @Test("After something was raised, the hub is told with the next good cycle, once, without a canary")
    func report() async throws {
        let stand = try await Self.stand()
        // A configuration of the hub's that is no good is something to raise.
        stand.hub.offer(["hub": ["url": "https://canary-user:canary-password@elsewhere.example.com"]])
        try await stand.sync()
        try await stand.sync()
        var reports: [HTTPRequest] = []
        for _ in 0..<200 {
            reports = stand.hub.requests.filter { $0.url.hasSuffix("/v1/diagnostics") }
            if !reports.isEmpty { break }
            try await stand.sync()
        }
        let report = try #require(reports.first)
        #expect(report.headers["Content-Encoding"] == "gzip")
        guard case .bytes(let packed) = report.body else { throw Missing() }
        #expect(packed.count <= 256 << 10)
        let lines = try #require(ZlibCompressor().gunzip(packed, maxBytes: 4 << 20, maxRatio: 10_000))
        #expect(Self.leaks(lines) == [])
        let objects = try String(decoding: lines, as: UTF8.self).split(separator: "\n").map { try JSONReader.read(String($0)) }
        #expect(objects.first?.object?["type"] == "summary")
        #expect(objects.contains { $0.object?["data"]?.object?["code"] == "config_rejected" })
        try await stand.sync()
        #expect(stand.hub.requests.filter { $0.url.hasSuffix("/v1/diagnostics") }.count == 1)
        try await stand.stop()
    }

    private struct Missing: Error {}
}
