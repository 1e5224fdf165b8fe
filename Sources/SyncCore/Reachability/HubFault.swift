/// What stands between this device and its hub, as the last request or probe found it.
///
/// There is one at a time. Status, `why`, `plan`, `doctor`, `links` and `readyz` all show this one, through ``PresentCause``.
package struct HubFault: Hashable, Sendable {
    /// Fixed codes. Programs act on them; people read ``HubFault/detail``.
    package enum Code: String, Hashable, Sendable, CaseIterable {
        /// The hub's name, or its proxy's, has no address.
        case unresolved = "dns"
        /// No connection: refused, no route, or the interface is gone.
        case unreachable = "no_connection"
        case timedOut = "timeout"
        case broken = "connection_lost"
        /// The certificate does not prove that this is the hub: its name, its issuer or the pin.
        case untrusted = "tls"
        /// The certificate is not valid at this time; a wrong clock of ours explains that as well.
        case untrustedDate = "tls_date"
        case clientCertificate = "client_certificate"
        /// Our own token, or the proxy's credentials, cannot be read. Nothing was sent.
        case credentials = "credentials_file"
        /// The hub refuses the token.
        case refused = "token_refused"
        /// An operator of the hub has shut this device out.
        case blocked = "device_blocked"
        /// The network wants a login, or something else answers in the hub's place.
        case portal
        /// A server answers that is not the hub: a proxy without a server behind it, or a wrong address.
        case otherServer = "not_the_hub"
        /// The hub itself has no such endpoint.
        case wrongAddress = "wrong_address"
        /// No common version of the protocol.
        case incompatible = "version"
        /// The hub, or something in front of it, asks to come again later.
        case overloaded
        /// The hub failed over the request.
        case failed = "hub_failed"
        /// The hub's answer cannot be used, or it cannot use our request.
        case nonsense = "bad_answer"
        /// The hub has another history, or remembers more of this device than the device itself.
        case history
    }

    package var code: Code
    /// What was found, in words that say where.
    package var detail: String

    package init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    package init(_ refusal: HubReply.Refusal) {
        let isHubs = refusal.facts?.version != nil
        let code: Code =
            switch refusal.kind {
            case .transport(let code): Code(code)
            case .foreign: refusal.status.map { (400...499).contains($0) } ?? false ? .otherServer : .portal
            case .auth: .refused
            case .blocked: .blocked
            case .misconfigured: .wrongAddress
            case .incompatible: .incompatible
            case .overloaded: .overloaded
            case .failed: isHubs ? .failed : .overloaded
            case .regressed, .gone: .history
            case .malformed, .tooLarge, .encoding, .nonsense: .nonsense
            }
        self.init(code, Printable.text(refusal.detail))
    }

    package init(_ error: TransportError) {
        self.init(Code(error.code), Printable.text(error.description))
    }
}

extension HubFault.Code {
    package init(_ code: TransportError.Code) {
        self =
            switch code {
            case .unresolved: .unresolved
            case .unreachable: .unreachable
            case .timedOut: .timedOut
            case .broken, .cancelled: .broken
            case .untrusted: .untrusted
            case .untrustedDate: .untrustedDate
            case .clientCertificate: .clientCertificate
            case .tooLarge, .malformed: .nonsense
            case .credentials: .credentials
            }
    }

    /// TLS refused the peer, or the peer refused our certificate.
    package var isTLS: Bool { self == .untrusted || self == .untrustedDate || self == .clientCertificate }
}

/// Where the hub is, and what is shown to it: what a command needs to name real values.
package struct HubPlace: Hashable, Sendable {
    /// Without a slash at its end.
    package var url = "https://hub.example.com"
    package var host = "hub.example.com"
    package var port = 443
    /// `http://HOST:PORT` of the proxy that requests to the hub go through.
    package var proxy: String?
    package var proxyHost: String?
    /// Name of this device at the hub.
    package var device = "DEVICE"
    /// Where the token is read; `nil`: not known.
    package var tokenFile: String?
    package var proxyCredentialsFile: String?
    /// It is the proxy's credentials that cannot be read, and not the token.
    package var lacksProxyCredentials = false
    /// Where a portal wants people to go. From outside, and already made fit to be shown.
    package var portal: String?

    package init() {}

    /// Asks the hub the way the agent does: curl itself would look for a proxy in the environment.
    package var curl: String { "curl -v \(proxy.map { "--proxy \($0)" } ?? "--noproxy '*'") \(url)/v1/probe" }

    /// Shows the certificate that is presented.
    package var openssl: String {
        let way = proxy.map { " -proxy \($0.dropFirst("http://".count))" } ?? ""
        return "openssl s_client -connect \(host):\(port)\(way) -servername \(host) </dev/null"
    }

    /// Puts the token where the agent reads it; one that the service manager hands over is kept elsewhere.
    package var tokenCommand: String {
        guard let tokenFile, !tokenFile.hasPrefix("/run/credentials/") else {
            return "put the token into /etc/credstore/hub-token, mode 600, owned by root, then: systemctl restart agentd"
        }
        return "put the token into \(tokenFile), mode 600, owned by the agent's user, then: agentctl sync --force"
    }

    package var proxyCredentialsCommand: String {
        "put USER:PASSWORD into \(proxyCredentialsFile ?? "hub.proxy_credentials_file"), mode 600, owned by the agent's user, then: agentctl sync --force"
    }
}

extension HubFault {
    /// What to do next, with real values: a command, or the edit that it takes.
    package func command(at place: HubPlace) -> String {
        switch code {
        case .unresolved:
            let name = place.proxyHost ?? place.host
            return "resolvectl query \(name), or: getent hosts \(name); then look at /etc/resolv.conf"
        case .unreachable, .timedOut, .broken: return "\(place.curl); ask the hub's operator"
        case .untrusted: return "\(place.openssl); then look at hub.ca_file and hub.pin"
        case .untrustedDate: return "date; timedatectl set-ntp true; if the clock is right, renew the hub's certificate"
        case .clientCertificate:
            return "look at hub.client_cert_file and hub.client_key_file; ask the hub's operator for a new certificate"
        case .credentials: return place.lacksProxyCredentials ? place.proxyCredentialsCommand : place.tokenCommand
        case .refused: return admission(at: place)
        case .blocked: return "ask the hub's operator why \(place.device) is shut out: agenthub token list"
        case .portal: return place.portal.map { "log in at \($0), from a browser in this network" } ?? "\(place.curl); ask who runs this network"
        case .otherServer, .wrongAddress: return "\(place.curl); then look at hub.url"
        case .incompatible: return "agentctl --version; update agentd, or the hub"
        case .overloaded: return "agentctl status tells when it is tried again; if it lasts, ask the hub's operator"
        case .failed, .nonsense: return "agentctl diagnose, and send the file to the hub's operator"
        case .history: return "agentctl sync; agentctl status tells what was found"
        }
    }

    /// What lets a device in that the hub refuses: what the hub itself has said, where it has.
    private func admission(at place: HubPlace) -> String {
        let words = detail.split(separator: " ")
        if let index = words.firstIndex(of: "readmit"), index + 1 < words.endIndex {
            return "at the hub: agenthub token readmit \(words[index + 1].prefix { $0 != ")" && $0 != "," && $0 != ";" }); then: agentctl sync"
        }
        return "at the hub: agenthub token add \(place.device); put what it prints into \(place.tokenFile ?? "hub.token_file"), then: agentctl sync"
    }
}
