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
    ///   - authorities: The file of certificates that vouch for the hub; `nil`: those of the system.
    ///   - device: `nil`: the name that the agent gives itself.
    ///   - proxy: What leads to the hub; `nil`: nothing does.
    ///   - root: Before each path; empty for this machine.
    package init(url: ServiceURL, token: String, authorities: [UInt8]?, device: DeviceID?, proxy: Proxy? = nil, root: String = "") {
        files = [File(name: "token", path: root + Self.tokenPath, bytes: Array((token + "\n").utf8), mode: 0o600)]
        if let credentials = proxy?.credentials {
            files.append(File(name: "proxy", path: root + Self.proxyCredentialsPath, bytes: credentials, mode: 0o600))
        }
        if let authorities {
            files.append(File(name: "authorities", path: root + Self.authoritiesPath, bytes: authorities, mode: 0o644))
        }
        var lines = ["# Written by agentctl join, and written anew by the next one.", "hub:", "  url: \(Self.quoted(url.text))"]
        if authorities != nil { lines.append("  ca_file: \(Self.quoted(Self.authoritiesPath))") }
        if let device { lines.append("  device: \(Self.quoted(device.text))") }
        if let proxy { lines.append("  proxy: \(Self.quoted(proxy.url.text))") }
        let text = lines.joined(separator: "\n") + "\n"
        files.append(File(name: "settings", path: root + Self.settingsPath, bytes: Array(text.utf8), mode: 0o644))
    }

    /// Read after the files that come with the package and those of most operators.
    package static let settingsPath = "/etc/agentd/conf.d/90-join.yaml"
    package static let authoritiesPath = "/etc/agentd/hub-ca.pem"
    /// The unit hands it over as a credential.
    package static let tokenPath = "/etc/credstore/hub-token"

    package static let proxyCredentialsPath = "/etc/credstore/\(HTTPProxy.credentialName)"

    package struct Proxy: Hashable, Sendable {
        /// `http://HOST:PORT`
        package var url: ServiceURL
        /// The content of the file with `USER:PASSWORD`; `nil`: it asks for none.
        package var credentials: [UInt8]?

        package init(url: ServiceURL, credentials: [UInt8]?) {
            self.url = url
            self.credentials = credentials
        }
    }

    /// What differs from what is there.
    package func changes(from present: (String) -> [UInt8]?) -> [File] {
        files.filter { present($0.path) != $0.bytes }
    }

    /// JSON strings are YAML.
    private static func quoted(_ text: String) -> String { JSON.string(JSONString(text)).json }
}
