package import SyncCore

/// Asks a hub whether this machine may join it, before anything is written.
package struct JoinTrial: Sendable {
    private let transport: any HTTPTransport
    private let time: any TimeSource
    private let url: String
    private let token: String
    private let device: DeviceID
    /// The name was given explicitly, so a one-time token must be for that name.
    private let isNamed: Bool
    private let tls: TLSIdentity
    private let proxy: HTTPProxy?

    /// - Parameters:
    ///   - caFile: Path of the authorities; `nil`: those of the system.
    ///   - proxy: Proxy for the hub; `nil`: none.
    package init(
        _ transport: any HTTPTransport, _ time: any TimeSource, url: ServiceURL, token: String, device: DeviceID, isNamed: Bool,
        caFile: String?, proxy: HTTPProxy? = nil
    ) {
        (self.transport, self.time, self.token, self.device, self.isNamed) = (transport, time, token, device, isNamed)
        self.url = url.text
        self.proxy = proxy
        tls = TLSIdentity(caFile: caFile)
    }

    /// The positive answer of the hub.
    package struct Welcome: Hashable, Sendable {
        /// The hub's name for this device.
        package var device: DeviceID
        /// Offset of the hub's clock from ours.
        package var clockOffset: Duration?
    }

    /// - Throws: The cause and the next action, as a problem with the code `join`.
    package func ask() async throws(Problem) -> Welcome {
        let probe = try await send(HTTPRequest(.get, url + "/v1/probe?nonce=join", headers: headers, tls: tls))
        guard (200...299).contains(probe.status) || !HubPlace.endsWithVersion(url) else {
            throw Self.refusal("there is no hub at \(url) (\(probe.status)); leave out /v1 at the end of the URL, because agentd adds it")
        }
        guard probe.headers[HubHeader.version] != nil else {
            throw Self.refusal(
                "the server at \(url) is no hub (\(probe.status), without Sync-Version); look at the URL, and at proxies and portals on "
                    + "the way")
        }
        let offset = probe.headers[HubHeader.time].flatMap { Int64($0) }.map { time.now().wall.duration(to: Timestamp(milliseconds: $0)) }
        // With a larger offset, its edits would lose their order.
        if let offset, offset.magnitude > HybridClock.aheadMax {
            let way = offset > .zero ? "behind" : "ahead of"
            throw Self.refusal(
                "the clock of this machine is \(DurationText.readable(offset.magnitude)) \(way) the hub's; "
                    + "set it (timedatectl set-ntp true, or: date --set), then join again")
        }
        return Welcome(device: try await isOneTime ? enrolled() : known(), clockOffset: offset)
    }

    private var isOneTime: Bool { DeviceMessages.isEnrolment(token) }

    private var headers: HTTPHeaders { [HubHeader.version: "1", "Accept": "application/json"] }

    /// The one-time token stays valid until the returned token is used: the agent enrols with it in a moment.
    private func enrolled() async throws(Problem) -> DeviceID {
        var request = HTTPRequest(
            .post, url + "/v1/devices/enroll", headers: headers, body: .bytes(DeviceMessages.enrolment(token)), tls: tls)
        request.headers["Content-Type"] = "application/json"
        let answer = try await send(request)
        guard answer.status == 201 else { throw refusal(of: answer) }
        let grant: TokenGrant
        do throws(ReplyError) {
            grant = try DeviceMessages.readGrant(answer.body)
        } catch {
            throw Self.refusal("the hub's answer to the one-time token cannot be read: \(error)")
        }
        if isNamed, grant.device != device {
            throw Self.refusal(
                "the one-time token is for the device \(grant.device), not for \(device); leave out --device, or have a token made for "
                    + "\(device): agenthub token enrol \(device)")
        }
        return grant.device
    }

    private func known() async throws(Problem) -> DeviceID {
        var request = HTTPRequest(.get, url + "/v1/config", headers: headers, tls: tls)
        request.headers["Authorization"] = "Bearer \(token)"
        request.headers[HubHeader.device] = device.text
        let answer = try await send(request)
        // A hub need not have a configuration for its devices.
        guard (200...299).contains(answer.status) || answer.status == 404 else { throw refusal(of: answer) }
        return device
    }

    private func refusal(of answer: HTTPResponse) -> Problem {
        // A device in between may answer with a page: its status is reported all the same.
        let said = (try? JSONReader.read(answer.body))?.object?["detail"]?.text.map { Printable.text($0, max: 300) }
        let words = said.map { ": \($0)" } ?? ""
        switch answer.status {
        case 401 where words.contains("another device"):
            return Self.refusal("the token is of another device than \(device); say whose it is: --device NAME")
        case 401: return Self.refusal("the hub refuses the token\(words); have a new one made at the hub: agenthub token enrol \(device)")
        case 403: return Self.refusal("the hub refuses the device\(words); ask the hub's operator")
        case 429: return Self.refusal("the hub was asked too often\(words); wait a minute, then join again")
        default: return Self.refusal("the hub answers \(answer.status)\(words); ask the hub's operator")
        }
    }

    private func send(_ request: HTTPRequest) async throws(Problem) -> HTTPResponse {
        var request = request
        request.proxy = proxy
        do throws(TransportError) {
            return try await transport.send(request)
        } catch {
            throw Self.refusal("\(error.doing): \(error.detail); \(next(after: error))")
        }
    }

    private func next(after error: TransportError) -> String {
        let code = error.code
        if proxy != nil, [.unresolved, .unreachable, .timedOut, .broken].contains(code) {
            return "look at --proxy and --proxy-credentials, and at the network: ip -brief address"
        }
        return switch code {
        case .unresolved: "look at the name in the URL, and at /etc/resolv.conf; behind a company's proxy: --proxy http://HOST:PORT"
        case .unreachable, .timedOut, .broken: "look at the URL, and at the network: ip -brief address"
        // OpenSSL's words for an answer that is no TLS, and libcurl's for a file without a certificate.
        case .untrusted where error.detail.contains("wrong version number"):
            "the server at this port does not speak TLS; look at the port of the URL"
        case .untrusted where error.detail.contains("error setting certificate file"):
            "the file of --ca must hold certificates in PEM, each beginning with -----BEGIN CERTIFICATE-----"
        case .untrusted where tls.caFile == nil: "name the file of the authority that signed the hub's certificate: --ca FILE"
        case .untrusted: "the hub's certificate must name the host of the URL, and the authority in the file of --ca must have signed it"
        case .untrustedDate: "look at the clock of this machine (date), then at the hub's certificate"
        case .clientCertificate: "the hub wants a client certificate: write hub.client_cert_file and hub.client_key_file by hand"
        case .credentials: "look at the file of --proxy-credentials"
        case .tooLarge, .malformed, .cancelled: "look at the URL"
        }
    }

    private static func refusal(_ detail: String) -> Problem { Problem("join", status: 0, detail: detail) }
}
