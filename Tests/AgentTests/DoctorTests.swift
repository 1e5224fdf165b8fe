import LocalAPI
import SyncCore
import Testing

@Suite("The checklist of a running agent")
struct ChecklistTests {
    @Test("Every check is answered, with what the agent alone knows")
    func answered() async throws {
        let stand = try await AgentStand.start("entities: { audits: { kind: record }, readings: { kind: event } }\n")
        _ = try await stand.enqueue(#"{"entity":"visits","record_id":"v-1","action":"create","data":{"n":1}}"#)
        try await stand.sync()
        let answer = try await stand.send(.get, "/v1/checklist")
        #expect(answer.status == 200)
        let findings = try #require(answer.json.flatMap { DoctorAnswer($0) }).findings
        #expect(findings.map(\.id) == Doctor.checks.map(\.id))
        func severity(_ id: String) -> DoctorFinding.Severity? { findings.first { $0.id == id }?.severity }
        #expect(severity("agent") == .ok)
        #expect(severity("configuration") == .ok)
        #expect(severity("strategies") == .warn)
        #expect(severity("hub") == .ok)
        #expect(severity("hub_version") == .ok)
        #expect(severity("durability") == .ok)
        #expect(severity("counters") == .ok)
        #expect(severity("backlog") == .ok)
        // This stand has no means to examine the disk.
        #expect(severity("disk") == .unknown)
        let status = try await stand.send(.get, "/v1/status")
        #expect(status["checklist"]?.object?["failed"]?.array?.contains("strategies") == true)
        try await stand.stop()
    }

    @Test("A configuration that was not taken, and a hub that is away, are found")
    func faults() async throws {
        let stand = try await AgentStand.start()
        stand.outside.write("sync: { pull_intervall: 60s }\n")
        _ = try await stand.send(.post, "/v1/config/reload")
        stand.hub.weather = .fails(TransportError(.untrusted, doing: "TLS handshake with hub", detail: "self-signed certificate"))
        try await stand.sync()
        let findings = try #require(try await stand.send(.get, "/v1/checklist").json.flatMap { DoctorAnswer($0) }).findings
        let configuration = findings.first { $0.id == "configuration" }
        #expect(configuration?.severity == .bad)
        #expect(configuration?.detail.contains("pull_intervall") == true)
        #expect(findings.first { $0.id == "hub" }?.severity != .ok)
        #expect(findings.first { $0.id == "last_sync" }?.detail.contains("self-signed") == true)
        try await stand.stop()
    }
}
