/// The fault between this device and its hub, as the last request or probe found it.
///
/// There is one at a time. Status, `why`, `plan`, `doctor`, `links` and `readyz` all show it, through ``PresentCause``.
package struct HubFault: Hashable, Sendable {
    /// Fixed codes. Programs act on them; people read ``HubFault/detail``.
    package enum Code: String, Hashable, Sendable, CaseIterable {
        /// The hub's name, or its proxy's, has no address.
        case unresolved = "dns"
        /// No connection: refused, no route, or the interface is gone.
        case unreachable = "no_connection"
        case timedOut = "timeout"
        case broken = "connection_lost"
        /// The certificate does not prove that this is the hub: wrong name, issuer or pin.
        case untrusted = "tls"
        /// The certificate is not valid at this time; a wrong local clock may be the reason.
        case untrustedDate = "tls_date"
        case clientCertificate = "client_certificate"
        /// Our token, or the proxy's credentials, cannot be read. Nothing was sent.
        case credentials = "credentials_file"
        /// The hub refuses the token.
        case refused = "token_refused"
        /// An operator of the hub has blocked this device.
        case blocked = "device_blocked"
        /// The network requires a login, or another server answers in the hub's place.
        case portal
        /// A server answers that is not the hub: a proxy without a server behind it, or a wrong address.
        case otherServer = "not_the_hub"
        /// The hub itself has no such endpoint.
        case wrongAddress = "wrong_address"
        /// No common version of the protocol.
        case incompatible = "version"
        /// The hub, or a proxy in front of it, asks for a later attempt.
        case overloaded
        /// The hub failed over the request.
        case failed = "hub_failed"
        /// The hub's answer cannot be used, or the hub cannot use our request.
        case nonsense = "bad_answer"
        /// The hub has another history, or knows more of this device than the device itself.
        case history
    }

    package var code: Code
    /// The finding, in words that name the place.
    package var detail: String
    /// `true` when the proxy on the way wants credentials, or refuses the configured ones.
    package private(set) var isProxyAsking: Bool

    package init(_ code: Code, _ detail: String) {
        self.init(code, detail, saying: detail)
    }

    /// - Parameter full: The detail before it was cut for people.
    private init(_ code: Code, _ detail: String, saying full: String) {
        self.code = code
        self.detail = detail
        isProxyAsking = (code == .unreachable || code == .otherServer) && HTTPProxy.Demand.allCases.contains { full.hasSuffix($0.rawValue) }
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
        self.init(code, Printable.text(refusal.detail), saying: refusal.detail)
    }

    package init(_ error: TransportError) {
        self.init(Code(error.code), Printable.text(error.description), saying: error.description)
    }
}

extension HubFault.Code {
    init(_ code: TransportError.Code) {
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

    /// `true` when TLS refused the peer, or the peer refused our certificate.
    package var isTLS: Bool { self == .untrusted || self == .untrustedDate || self == .clientCertificate }
}

/// The address of the hub and the credentials for it, for commands with real values.
package struct HubPlace: Hashable, Sendable {
    /// The hub's URL, without a slash at its end.
    package var url = "https://hub.example.com"
    package var host = "hub.example.com"
    package var port = 443
    /// URL of the proxy for requests to the hub, `http://HOST:PORT`.
    package var proxy: String?
    package var proxyHost: String?
    /// Name of this device at the hub.
    package var device = "DEVICE"
    /// Path of the token file; `nil`: not known.
    package var tokenFile: String?
    package var proxyCredentialsFile: String?
    /// The proxy's credentials cannot be read, rather than the token.
    package var lacksProxyCredentials = false
    /// Address of the portal's page. It comes from outside and is already safe to print.
    package var portal: String?

    package init() {}

    /// Returns whether a URL has the beginning of each path of a hub already. It is right only behind a server that has such a path.
    package static func endsWithVersion(_ url: String) -> Bool { url.hasSuffix("/v1") }

    /// A command that asks the hub the way the agent does. curl alone would look for a proxy in the environment.
    package var curl: String { "curl -v \(proxy.map { "--proxy \($0)" } ?? "--noproxy '*'") \(url)/v1/probe" }

    /// A command that shows the presented certificate.
    package var openssl: String {
        let way = proxy.map { " -proxy \($0.dropFirst("http://".count))" } ?? ""
        return "openssl s_client -connect \(host):\(port)\(way) -servername \(host) </dev/null"
    }

    /// A command that writes the token where the agent reads it. A token that the service manager passes is stored elsewhere.
    package var tokenCommand: String {
        guard let tokenFile, !tokenFile.hasPrefix("/run/credentials/") else {
            return "put the token into /etc/credstore/hub-token, mode 600, owned by root, then: systemctl restart agentd"
        }
        return "put the token into \(tokenFile), mode 600, owned by the agent's user, then: agentctl sync --force"
    }

    /// A command that writes the proxy's credentials where the agent reads them.
    package var proxyCredentialsCommand: String {
        guard let proxyCredentialsFile, !proxyCredentialsFile.hasPrefix("/run/credentials/") else {
            return "put USER:PASSWORD into /etc/credstore/hub-proxy, mode 600, owned by root, then: systemctl restart agentd; another file "
                + "needs hub.proxy_credentials_file in agentd.yaml"
        }
        return "put USER:PASSWORD into \(proxyCredentialsFile) (hub.proxy_credentials_file), mode 600, owned by the agent's user, then: "
            + "agentctl sync --force"
    }
}

extension HubFault {
    /// The next action with real values: a command, or the necessary edit.
    package func command(at place: HubPlace) -> String {
        // Without a proxy in the configuration, credentials for one would not be used.
        if isProxyAsking, place.proxy != nil { return place.proxyCredentialsCommand }
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
        case .portal:
            return place.portal.map { "log in at \($0), from a browser in this network" } ?? "\(place.curl); ask who runs this network"
        case .otherServer, .wrongAddress:
            let advice = HubPlace.endsWithVersion(place.url) ? ": leave out /v1 at its end, because agentd adds it" : ""
            return "\(place.curl); then look at hub.url\(advice)"
        case .incompatible: return "agentctl --version; update agentd, or the hub"
        case .overloaded: return "agentctl status shows the time of the next try; if it lasts, ask the hub's operator"
        case .failed, .nonsense: return "agentctl diagnose, and send the file to the hub's operator"
        case .history: return "agentctl sync; agentctl status shows the result"
        }
    }

    /// The action that readmits a device which the hub refuses; the hub's own advice if there is one.
    private func admission(at place: HubPlace) -> String {
        let words = detail.split(separator: " ")
        if let index = words.firstIndex(of: "readmit"), index + 1 < words.endIndex {
            return
                "at the hub: agenthub token readmit \(words[index + 1].prefix { $0 != ")" && $0 != "," && $0 != ";" }); then: agentctl sync"
        }
        return
            "at the hub: agenthub token add \(place.device); put the printed token into \(place.tokenFile ?? "hub.token_file"), then: "
            + "agentctl sync"
    }
}
