/// The result of a probe (PROTOCOL E4).
package enum ProbeOutcome: Hashable, Sendable {
    /// The hub itself answered: 204 with our nonce.
    case good(roundTrip: Duration?)
    /// Another server answers in the hub's place.
    ///
    /// - `portal`: the address of a redirect, if there was one. It comes from outside, so it must be shown with care.
    case captive(HubFault, portal: String?)
    /// No server answered, or a proxy that cannot reach the hub.
    case silent(HubFault)
    /// A server answers at the hub's address and has no probe: only a sync request can tell.
    case absent(HubFault)
}

/// Builds the probe and reads its answer. The probe is a `GET` that follows no redirect and carries no credentials. It costs about 0.7 KB
/// on the wire, with a TLS handshake about 4 KB.
///
/// It uses the way of sync requests, so its result holds for them and no other port needs to be open. Only when it fails, a second one goes
/// in plain HTTP to port 80, where a portal identifies itself. The second one can only find a portal: an answer of a hub without port 80,
/// or a refused connection, means nothing.
package struct ProbeClient: Hashable, Sendable {
    /// Largest part of the answer's body that is read, bytes; a good answer has none.
    package static let maxBodyBytes = 1_024

    /// `https://hub.example.com:8443/v1/probe`
    package let url: String
    /// URL of the second probe, such as `http://hub.example.com/v1/probe`; `nil` where ``url`` is plain HTTP itself, or not the hub's own.
    private var plainURL: String?
    package var connectTimeout: Duration = .seconds(3)
    package var totalTimeout: Duration = .seconds(5)
    /// An existing backend has no probe: every answer of its own is good, and TLS proves its identity.
    private var isBackend = false
    private var tls: TLSIdentity?
    /// The proxy for sync requests. A plain HTTP answer beside it says nothing about the way through it.
    package var proxy: HTTPProxy?

    /// - Parameter url: URL of the check, such as `https://api.example.org/healthz`.
    package init(backend url: String, tls: TLSIdentity) {
        self.init(url: url)
        isBackend = true
        self.tls = tls
    }

    /// - Parameters:
    ///   - url: Absolute URL, without query.
    ///   - tls: Trusted issuers and own certificate; not used in plain HTTP.
    package init(url: String, tls: TLSIdentity? = nil) {
        self.url = url
        self.tls = tls
    }

    /// The probe of the hub itself.
    ///
    /// - Parameter hubURL: URL of the hub, such as `https://hub.example.com:8443/base`, without a slash at the end.
    package init(hubURL: String, tls: TLSIdentity? = nil) {
        self.init(url: hubURL + "/v1/probe", tls: tls)
        guard hubURL.hasPrefix("https://"), let host = Self.host(of: hubURL) else { return }
        plainURL = "http://\(host)/v1/probe"
    }

    /// - Parameter interface: The link to check.
    package func request(nonce: String, interface: String?) -> HTTPRequest {
        request(url, tls: tls, nonce, interface)
    }

    /// The request that looks for a portal.
    ///
    /// - Parameter first: The outcome of the probe itself.
    /// - Returns: `nil` when there is no reason to look.
    package func portalRequest(after first: ProbeOutcome, nonce: String, interface: String?) -> HTTPRequest? {
        guard case .silent = first, let plainURL, let host = Self.host(of: url), proxy?.carries(host) != true else { return nil }
        return request(plainURL, tls: nil, nonce, interface)
    }

    /// - Returns: The portal, or the outcome of the probe itself.
    package func outcome(
        of result: Result<HTTPResponse, TransportError>, after first: ProbeOutcome, nonce: String
    ) -> ProbeOutcome {
        let second = outcome(of: result, nonce: nonce)
        if case .captive = second { return second }
        return first
    }

    private func request(_ url: String, tls: TLSIdentity?, _ nonce: String, _ interface: String?) -> HTTPRequest {
        var deadlines = HTTPRequest.Deadlines()
        deadlines.connect = min(connectTimeout, totalTimeout)
        deadlines.firstByte = totalTimeout
        deadlines.idle = totalTimeout
        deadlines.total = totalTimeout
        if isBackend {
            return HTTPRequest(
                .get, url, interface: interface, tls: tls, proxy: proxy, deadlines: deadlines, maxResponseBytes: 64 << 10,
                keepsConnection: false)
        }
        return HTTPRequest(
            .get, "\(url)?n=\(nonce)", interface: interface, tls: tls, proxy: proxy, deadlines: deadlines,
            maxResponseBytes: Self.maxBodyBytes, maxInflateRatio: 1, keepsConnection: false)
    }

    package func outcome(of result: Result<HTTPResponse, TransportError>, nonce: String) -> ProbeOutcome {
        switch result {
        case .success(let response): isBackend ? readBackend(response) : read(response, nonce)
        case .failure(let error):
            switch error.code {
            // The error page of a proxy that cannot reach the hub.
            case .tooLarge where (500...599).contains(error.status ?? 0) && error.status != 511:
                .silent(HubFault(.overloaded, "the probe's answer is \(error.status ?? 0)"))
            // The answer is longer than the hub's, or not HTTP: it does not come from the hub.
            case .tooLarge, .malformed: .captive(HubFault(.portal, "the probe's answer: \(error.detail)"), portal: nil)
            case .unresolved, .unreachable, .timedOut, .broken, .untrusted, .untrustedDate, .clientCertificate,
                .credentials, .cancelled:
                .silent(HubFault(error))
            }
        }
    }

    private func read(_ response: HTTPResponse, _ nonce: String) -> ProbeOutcome {
        let echo = response.headers[HubHeader.probe]
        let target = response.headers["Location"]
        switch response.status {
        case 204 where echo == nonce && response.body.isEmpty: return .good(roundTrip: response.traffic.roundTrip)
        // Portals know that browsers expect an empty 204, and serve one to convince a device.
        case 204: return .captive(HubFault(.portal, "the probe's answer lacks the agent's nonce"), portal: nil)
        // A proxy that serves only TLS redirects all plain HTTP there. A portal redirects to an address of its own.
        case 301, 302, 303, 307, 308:
            if let target, leadsToSamePlaceByTLS(target) {
                return .absent(HubFault(.otherServer, "redirected to \(Printable.text(target, max: 120))"))
            }
            return .captive(HubFault(.portal, "the probe was redirected (\(response.status))"), portal: target)
        // A proxy in front of the hub has no such page. A portal has a page for everything.
        case 404, 405, 410: return .absent(HubFault(.otherServer, "the probe's answer is \(response.status)"))
        case 511:
            return .captive(HubFault(.portal, "the network asks for a login (511, RFC 6585)"), portal: target)
        case 407:
            let demand: HTTPProxy.Demand = proxy?.credentialsFile == nil ? .credentials : .otherCredentials
            return .silent(HubFault(.otherServer, demand.rawValue))
        // A proxy in front of the hub cannot reach it.
        case 500...599: return .silent(HubFault(.overloaded, "the probe's answer is \(response.status)"))
        default: return .captive(HubFault(.portal, "the probe's answer is \(response.status) instead of 204"), portal: target)
        }
    }

    private func readBackend(_ response: HTTPResponse) -> ProbeOutcome {
        switch response.status {
        case 511: .captive(HubFault(.portal, "the network asks for a login (511, RFC 6585)"), portal: response.headers["Location"])
        case 502...504: .silent(HubFault(.overloaded, "the probe's answer is \(response.status)"))
        default: .good(roundTrip: response.traffic.roundTrip)
        }
    }

    private func leadsToSamePlaceByTLS(_ target: String) -> Bool {
        guard target.utf8.count <= 2_048, target.hasPrefix("https://"), let there = Self.host(of: target), let here = Self.host(of: url)
        else { return false }
        return asciiCaseEqual(there, here)
    }

    private static func host(of url: String) -> String? {
        guard let start = url.firstRange(of: "://")?.upperBound else { return nil }
        let authority = url[start...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard !authority.contains("@") else { return nil }
        // The port follows the last colon, unless that colon belongs to an IPv6 address: "[2001:db8::1]".
        let colon = authority.lastIndex(of: ":").flatMap { authority[$0...].contains("]") ? nil : $0 }
        return String(authority[..<(colon ?? authority.endIndex)])
    }
}

extension String {
    /// The standard library's own search needs the string-processing module; this does not.
    fileprivate func firstRange(of text: String) -> Range<String.Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
            start = index(after: start)
        }
        return nil
    }
}
