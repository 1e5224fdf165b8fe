import Foundation
import Glibc

/// The real squid in the yard's namespace, on the hub's address: a proxy as companies have them.
struct SquidProxy {
    enum Manner: Sendable {
        /// Passes on whatever `CONNECT` asks for.
        case open
        /// Wants a user name and a password first.
        case asking(credentials: String)
        /// Opens each connection, and shows a certificate of its own.
        case intercepting
        /// Lets nothing through.
        case closed
    }

    private let child: Child
    /// Its log. Squid tells only there that it is ready.
    private let pipe: LinePipe

    private static let program = "/usr/sbin/squid"
    private static let port = 3128
    /// File in the stand's folder with the authority that signs the certificates of an intercepting proxy.
    static let authority = "squid-authority.pem"

    /// The obstacle on this machine, in a word; `nil`: none.
    static var obstacle: String? {
        let needed = [program, "/usr/lib/squid/basic_ncsa_auth", "/usr/bin/openssl"]
        return needed.first { !FileManager.default.isExecutableFile(atPath: $0) }.map { "\($0) is not installed" } ?? Namespaces.obstacle
    }

    /// Ready when this returns.
    init(_ manner: Manner, in folder: String, _ network: Namespaces) async throws {
        try Stand.write(try await Self.configuration(manner, in: folder), to: "\(folder)/squid.conf")
        pipe = try LinePipe()
        // Squid refuses to work as root, and the yard has no other user. So its user 0 is called 1 there.
        child = try Child(
            ["/bin/sh", "-c", "exec \"$@\" 2>&1", "squid"] + network.entering(.yard) + [
                "/usr/bin/unshare", "--user", "--map-user=1", "--map-group=1", Self.program, "-N", "-f", "\(folder)/squid.conf",
            ], log: "\(folder)/squid.log", output: pipe.writingEnd)
        var said: [String] = []
        while let line = await pipe.line() {
            if line.contains("Accepting") { return }
            said.append(line)
        }
        throw StandError("squid did not start:\n" + said.joined(separator: "\n"))
    }

    /// Its log has all connections then.
    func stop() async {
        await child.stop()
    }

    /// The lines below `hub:` that lead through it.
    static func settings(in folder: String) -> String {
        """
          proxy: "http://\(Namespaces.hubAddress):\(port)"
          proxy_credentials_file: "\(folder)/proxy-credentials"
        """
    }

    /// Method and place of each request that was let through.
    static func requests(in folder: String) -> [String] {
        let log = (try? String(contentsOfFile: "\(folder)/squid-access.log", encoding: .utf8)) ?? ""
        return log.split(separator: "\n").map { line in
            let words = line.split(separator: " ", omittingEmptySubsequences: true)
            return words.count > 6 ? "\(words[3]) \(words[5]) \(words[6])" : String(line)
        }
    }

    private static func configuration(_ manner: Manner, in folder: String) async throws -> String {
        var lines = [
            "pid_filename none", "cache_log stdio:/dev/stderr", "access_log stdio:\(folder)/squid-access.log", "coredump_dir \(folder)",
            "cache deny all", "shutdown_lifetime 0 seconds", "visible_hostname squid.test", "acl CONNECT method CONNECT",
            "acl hub port \(FieldStand.port)", "http_access deny CONNECT !hub",
        ]
        var listening = "http_port \(Namespaces.hubAddress):\(port)"
        switch manner {
        case .open: lines.append("http_access allow all")
        case .closed: lines.append("http_access deny all")
        case .asking(let credentials):
            let parts = credentials.split(separator: ":", maxSplits: 1).map(String.init)
            let hash = try await Child.run(["/usr/bin/openssl", "passwd", "-apr1", parts[1]], in: folder).text
            try Stand.write("\(parts[0]):\(hash)", to: "\(folder)/squid-users")
            lines += [
                "auth_param basic program /usr/lib/squid/basic_ncsa_auth \(folder)/squid-users", "auth_param basic children 1",
                "acl known proxy_auth REQUIRED", "http_access allow known", "http_access deny all",
            ]
        case .intercepting:
            // One certificate for the hub's address: squid makes some by itself, but for names only.
            let (certificate, key) = ("\(folder)/\(authority)", "\(folder)/squid-authority.key")
            let made = try await Child.run(
                [
                    "/usr/bin/openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-keyout", key, "-out", certificate, "-days", "2",
                    "-subj", "/CN=Squid Test Authority", "-addext", "subjectAltName=IP:\(Namespaces.hubAddress)",
                ], in: folder)
            guard made.status == 0 else { throw StandError("openssl req: \(made.talk)") }
            listening += " ssl-bump tls-cert=\(certificate) tls-key=\(key) generate-host-certificates=off"
            lines += [
                "tls_outgoing_options cafile=\(folder)/hub-issuer.pem", "ssl_bump bump all", "http_access allow all",
                // It finds no address in the hub's certificate, only names.
                "sslproxy_cert_error allow all",
            ]
            // The authorities that the agent trusts change, those of squid do not.
            try? FileManager.default.copyItem(atPath: "\(folder)/issuer.pem", toPath: "\(folder)/hub-issuer.pem")
        }
        return ([listening] + lines).joined(separator: "\n") + "\n"
    }
}
