package import SyncCore

/// The files that connect a machine to a hub, and what they hold.
package struct JoinPlan: Hashable, Sendable {
    package struct File: Hashable, Sendable {
        /// For people: `settings`, `token`, `authorities`.
        package var name: String
        package var path: String
        package var bytes: [UInt8]
        package var mode: UInt32
    }

    /// In the order in which they are written. The settings come last: with them the agent begins.
    package var files: [File]

    /// - Parameters:
    ///   - url: Of the hub, as ``isAddress(_:)`` takes it.
    ///   - authorities: The file of certificates that vouch for the hub; `nil`: those of the system.
    ///   - device: `nil`: the name that the agent gives itself.
    ///   - root: Before each path; empty for this machine.
    package init(url: String, token: String, authorities: [UInt8]?, device: DeviceID?, root: String = "") {
        files = [File(name: "token", path: root + Self.tokenPath, bytes: Array((token + "\n").utf8), mode: 0o600)]
        if let authorities {
            files.append(File(name: "authorities", path: root + Self.authoritiesPath, bytes: authorities, mode: 0o644))
        }
        var lines = ["# Written by agentctl join, and written anew by the next one.", "hub:", "  url: \(Self.quoted(url))"]
        if authorities != nil { lines.append("  ca_file: \(Self.quoted(Self.authoritiesPath))") }
        if let device { lines.append("  device: \(Self.quoted(device.text))") }
        let text = lines.joined(separator: "\n") + "\n"
        files.append(File(name: "settings", path: root + Self.settingsPath, bytes: Array(text.utf8), mode: 0o644))
    }

    /// Read after the files that come with the package and those of most operators.
    package static let settingsPath = "/etc/agentd/conf.d/90-join.yaml"
    package static let authoritiesPath = "/etc/agentd/hub-ca.pem"
    /// The unit hands it over as a credential.
    package static let tokenPath = "/etc/credstore/hub-token"

    /// What differs from what is there.
    package func changes(from present: (String) -> [UInt8]?) -> [File] {
        files.filter { present($0.path) != $0.bytes }
    }

    /// `https://HOST`, `https://HOST:PORT`, or `http://` for this machine alone. The agent's own reader has the last word.
    package static func isAddress(_ url: String) -> Bool {
        guard let scheme = ["https://", "http://"].first(where: { url.hasPrefix($0) }) else { return false }
        let rest = url.dropFirst(scheme.count)
        return !rest.isEmpty && rest.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"\"\\@?#".utf8.contains($0) }
    }

    /// JSON strings are YAML.
    private static func quoted(_ text: String) -> String { JSON.string(JSONString(text)).json }
}
