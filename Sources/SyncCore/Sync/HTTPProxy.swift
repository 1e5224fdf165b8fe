/// A proxy between this machine and the servers. For https it receives a `CONNECT`, so that it carries bytes that it cannot read (RFC 9110,
/// section 9.3.6); for http it receives the whole URL.
package struct HTTPProxy: Hashable, Sendable {
    /// `http://HOST:PORT`
    package var url: ServiceURL
    /// Path of a file that holds `USER:PASSWORD` in one line. `nil`: the systemd credential ``credentialName``, where there is one.
    package var credentialsFile: String?
    /// Servers for which it is not used.
    package var exceptions: [Exception]

    /// Name of the credential that the service manager passes.
    package static let credentialName = "hub-proxy"

    package init(url: ServiceURL, credentialsFile: String? = nil, exceptions: [Exception] = []) {
        self.url = url
        self.credentialsFile = credentialsFile
        self.exceptions = exceptions
    }

    /// The finding of a 407, in words for people. ``HubFault`` recognises it by them, because the error of a request has no other place for
    /// it.
    package enum Demand: String, Hashable, Sendable, CaseIterable {
        /// No credentials were shown to it.
        case credentials = "the proxy wants a user name and a password (407)"
        /// It does not accept those it was shown.
        case otherCredentials = "the proxy refuses the configured user name and password (407)"
    }

    /// Returns whether requests to a server go through the proxy. Requests to this machine never do.
    ///
    /// - Parameter host: The host as in a URL: an IPv6 address may have its brackets.
    package func carries(_ host: String) -> Bool {
        var host = host.lowercased()
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        if host.hasSuffix(".") { host.removeLast() }
        return !ServiceURL.isLoopback(host) && !exceptions.contains { $0.covers(host) }
    }

    /// Servers that are reached without the proxy.
    package enum Exception: Hashable, Sendable, CustomStringConvertible {
        /// A name, in lower case, and all names below it.
        case name(String)
        /// Addresses with the same leading bits. They are compared with the host of a URL; names are not resolved for this.
        case network(address: [UInt8], bits: Int, text: String)

        /// - Parameter text: `example.com`, `.example.com`, `192.0.2.7`, `10.0.0.0/8`, `2001:db8::/32`.
        package init?(_ text: String) {
            let parts = text.split(separator: "/", omittingEmptySubsequences: false)
            if let address = Self.bytes(String(parts[0])) {
                let all = address.count * 8
                let digits = parts.count > 1 ? parts[1] : "\(all)"
                guard parts.count < 3, digits.utf8.allSatisfy({ (48...57).contains($0) }), let bits = Int(digits), bits <= all else {
                    return nil
                }
                self = .network(address: address, bits: bits, text: text)
                return
            }
            let name = text.hasPrefix(".") ? String(text.dropFirst()) : text
            // A text that cannot be the host of a URL never matches one.
            guard parts.count == 1, let url = try? ServiceURL("https://" + name), url.path.isEmpty, url.host == name.lowercased() else {
                return nil
            }
            self = .name(url.host)
        }

        package var description: String {
            switch self {
            case .name(let name): name
            case .network(_, _, let text): text
            }
        }

        func covers(_ host: String) -> Bool {
            switch self {
            case .name(let name): return host == name || host.hasSuffix("." + name)
            case .network(let address, let bits, _):
                guard let other = Self.bytes(host), other.count == address.count else { return false }
                return (0..<bits).allSatisfy { bit in (address[bit / 8] ^ other[bit / 8]) & (0x80 >> (bit % 8)) == 0 }
            }
        }

        private static func bytes(_ text: String) -> [UInt8]? { IPv4Address(text)?.bytes ?? IPv6Address(text)?.bytes }
    }
}
