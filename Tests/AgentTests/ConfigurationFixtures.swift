import Agent
import Foundation
import SyncCore
import SyncYAML
import Testing

enum ConfigurationFixtures {
    static let accounts = Accounts(
        ownUser: 991, user: { ["root": 0, "agentd": 991, "ines": 1_001, "nobody": 65_534][$0] },
        group: { ["agentd": 900, "inspectors": 901, "technicians": 902, "nogroup": 65_534][$0] })

    static func loaded(_ files: [ConfigurationFile]) throws -> LoadedConfiguration {
        try ConfigurationLoader.read(files, accounts: accounts)
    }

    /// One file `agentd.yaml`, with a hub.
    static func configuration(_ text: String) throws -> AgentConfiguration {
        try loaded([ConfigurationFile(name: "agentd.yaml", text: "hub: { url: https://hub.example.com }\n" + text)])
            .configuration
    }

    static func errors(_ files: [ConfigurationFile]) -> [String] {
        do throws(ConfigurationErrors) {
            _ = try ConfigurationLoader.read(files, accounts: accounts)
            return []
        } catch {
            return error.errors.map(\.description)
        }
    }

    static func errors(_ text: String) -> [String] {
        errors([ConfigurationFile(name: "agentd.yaml", text: text)])
    }

    static func defaults() throws -> AgentConfiguration {
        AgentConfiguration(hub: try ServiceURL("https://hub.example.com"), accounts: accounts)
    }

    /// A file of the project, as text.
    static func projectFile(_ path: String) throws -> String {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }
}
