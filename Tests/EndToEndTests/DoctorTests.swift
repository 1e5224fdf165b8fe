import Foundation
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    @Suite("Doctor")
    struct DoctorTests {
        static func findings(_ output: Output) throws -> [DoctorFinding] {
            try #require(DoctorAnswer(JSONReader.read(output.text)), "\(output.talk)").findings
        }

        @Test("With an agent every check is made or says why not, and the exit status follows")
        func running() async throws {
            try await Stand.with { stand in
                let output = try await stand.agentctl("doctor", "--json")
                let findings = try Self.findings(output)
                #expect(findings.map(\.id) == Doctor.checks.map(\.id))
                let faults = findings.filter { $0.severity == .warn || $0.severity == .bad }
                #expect(output.status == (faults.isEmpty ? 0 : 1))
                for id in ["agent", "configuration", "state_folder", "disk", "inodes", "database", "token", "hub_url"] {
                    let finding = try #require(findings.first { $0.id == id })
                    #expect(finding.severity == .ok || finding.severity == .note, "\(id): \(finding.detail)")
                }
                let plain = try await stand.agentctl("doctor", "--all")
                #expect(plain.text.contains("checks are OK"))
                #expect(plain.text.split(separator: "\n").allSatisfy { PlainText.columns(String($0)) <= 80 })
            }
        }

        @Test("Without an agent agentd itself looks at files, disk and database, which stays as it is")
        func absent() async throws {
            try await Stand.with { stand in
                let reading = NewMutation(.create, EntityName(trusted: "readings"), nil, data: ["n": 1])
                _ = try await stand.client.enqueue(reading)
                await stand.stopAgent()
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: "\(stand.folder)/agent")
                let before = try Data(contentsOf: URL(fileURLWithPath: "\(stand.folder)/agent/agent.db"))
                let output = try await stand.agentctl("doctor", "--json", "--config", "\(stand.folder)/agentd.yaml")
                #expect(output.status == 2)
                let findings = try Self.findings(output)
                func finding(_ id: String) -> DoctorFinding? { findings.first { $0.id == id } }
                #expect(finding("agent")?.severity == .bad)
                #expect(finding("state_folder")?.severity == .bad)
                #expect(finding("database")?.severity == .ok, "\(finding("database")?.detail ?? "")")
                #expect(finding("backlog")?.severity == .ok)
                #expect(finding("hub")?.severity == .unknown)
                #expect(try Data(contentsOf: URL(fileURLWithPath: "\(stand.folder)/agent/agent.db")) == before)
            }
        }
    }
}
