package import SyncCore

/// The files that connect a machine to a hub, with their contents.
package struct JoinPlan: Hashable, Sendable {
    package struct File: Hashable, Sendable {
        /// Name for people: `settings`, `token`, `authorities`.
        package var name: String
        package var path: String
        package var bytes: [UInt8]
        package var mode: UInt32
    }

    /// Files in the order of writing. The settings come last, because the agent starts with them.
    package var files: [File]

    /// - Parameters:
    ///   - authorities: Content of the file of certificate authorities for the hub; `nil`: those of the system.
    ///   - device: Id of the device; `nil`: the agent's default.
    ///   - proxy: Proxy for the hub; `nil`: none.
    ///   - root: Prefix of each path; empty for this machine.
    package init(url: ServiceURL, token: String, authorities: [UInt8]?, device: DeviceID?, proxy: Proxy? = nil, root: String = "") {
        files = [File(name: "token", path: root + Self.tokenPath, bytes: Array((token + "\n").utf8), mode: 0o600)]
        if let credentials = proxy?.credentials {
            files.append(File(name: "proxy", path: root + Self.proxyCredentialsPath, bytes: credentials, mode: 0o600))
        }
        if let authorities {
            files.append(File(name: "authorities", path: root + Self.authoritiesPath, bytes: authorities, mode: 0o644))
        }
        var lines = ["# Written by agentctl join, and overwritten by the next one.", "hub:", "  url: \(Self.quoted(url.text))"]
        if authorities != nil { lines.append("  ca_file: \(Self.quoted(Self.authoritiesPath))") }
        if let device { lines.append("  device: \(Self.quoted(device.text))") }
        if let proxy { lines.append("  proxy: \(Self.quoted(proxy.url.text))") }
        let text = lines.joined(separator: "\n") + "\n"
        files.append(File(name: "settings", path: root + Self.settingsPath, bytes: Array(text.utf8), mode: 0o644))
    }

    /// Path of the settings, which are read after the files of the package and of most operators.
    package static let settingsPath = "/etc/agentd/conf.d/90-join.yaml"
    package static let authoritiesPath = "/etc/agentd/hub-ca.pem"
    /// Path of the token; the unit passes it as a credential.
    package static let tokenPath = "/etc/credstore/hub-token"

    package static let proxyCredentialsPath = "/etc/credstore/\(HTTPProxy.credentialName)"

    package struct Proxy: Hashable, Sendable {
        /// URL, `http://HOST:PORT`.
        package var url: ServiceURL
        /// Content of the file with `USER:PASSWORD`; `nil`: the proxy needs none.
        package var credentials: [UInt8]?

        package init(url: ServiceURL, credentials: [UInt8]?) {
            self.url = url
            self.credentials = credentials
        }
    }

    /// The files that differ from the present ones.
    package func changes(from present: (String) -> [UInt8]?) -> [File] {
        files.filter { present($0.path) != $0.bytes }
    }

    /// JSON strings are valid YAML.
    private static func quoted(_ text: String) -> String { JSON.string(JSONString(text)).json }
}
