package import SyncCore

/// Authenticates the caller from the head of a request alone. The HTTP server asks before it reads a body, the hub before it acts.
package struct HubGate: Sendable {
    /// The caller, as far as it is authenticated.
    package struct Caller: Sendable, Hashable {
        package var device: DeviceID
        package var replica: ReplicaID?
        /// The token that was shown; `nil` when it was a certificate, or no credential is required.
        package var token: TokenBook.Entry?
        /// Its scopes and roles, which the hub adds; `nil` where the hub shares nothing out.
        var share: DeviceAccess?
        /// The versions of the schemas in which it writes and reads.
        var schemas = SchemaNumbers()
        /// The abilities of its agent.
        var abilities: Set<AgentAbility> = []
    }

    /// `nil` requires no credential.
    package var tokens: TokenBook?
    /// Time after its end in which a token may still request a refresh.
    private let grace: Duration
    private let now: Timestamp

    init(tokens: TokenBook?, grace: Duration, now: Timestamp) {
        self.tokens = tokens
        self.grace = grace
        self.now = now
    }

    /// Returns whether a token was shown that is not in the book. When several hubs share the tokens, another one may just have issued it,
    /// and only the database can tell.
    func lacksToken(_ headers: HTTPHeaders) -> Bool {
        guard let tokens, let header = headers["Authorization"] else { return false }
        let parts = header.split(separator: " ")
        return parts.count == 2 && tokens.find(String(parts[1])) == nil
    }

    /// The entry of a one-time token that is still valid.
    ///
    /// - Throws: A refusal with `auth` or `device-blocked`.
    func enrolling(_ token: String) throws(HubRefusal) -> TokenBook.Entry {
        guard let entry = tokens?.find(token), entry.use == .enrolment else {
            throw HubGate.unauthenticated("the enrolment token is not known here")
        }
        if entry.revokedAt != nil { throw HubGate.blocked }
        guard !entry.isOver(at: now) else { throw HubGate.unauthenticated("the enrolment token was used, or has expired") }
        return entry
    }

    /// - Parameter endpoint: The requested endpoint. An expired token may only request the next one.
    /// - Throws: A refusal with `unsupported-sync-version`, `auth` or `device-blocked`.
    func caller(_ request: HubRequest, at endpoint: Endpoint) throws(HubRefusal) -> Caller {
        let said = request.hubHeaders
        try HubGate.checkVersion(said, isTus: endpoint.isTus)
        let token = try self.token(request.headers, request.certificateDevice, at: endpoint)
        guard let device = token?.device ?? request.certificateDevice ?? said.device else {
            throw HubGate.unauthenticated("Sync-Device is missing")
        }
        // A credential speaks for one device; the header can only repeat it.
        if let named = request.headers[HubHeader.device], named != device.text {
            throw HubGate.unauthenticated("the credential belongs to another device")
        }
        guard said.schemas.isReadable else {
            throw HubRefusal(Problem("malformed", status: 400, detail: "the header Schema: expected \(SchemaNumbers.expected)"))
        }
        return Caller(device: device, replica: said.replica, token: token, schemas: said.schemas, abilities: said.abilities)
    }

    static func checkVersion(_ said: HubRequestHeaders, isTus: Bool = false) throws(HubRefusal) {
        guard said.version.flatMap({ Int($0) }) == HubHeader.currentVersion || (isTus && said.version == nil) else {
            throw HubRefusal(
                Problem(
                    "unsupported-sync-version", status: 400,
                    detail: said.version == nil ? "Sync-Version is missing" : "this hub does not speak that Sync-Version",
                    members: ["supported": .array(HubHeader.supportedVersions.map { .int($0) })]))
        }
    }

    /// - Returns: `nil` when no token is required, or a certificate replaces it.
    private func token(
        _ headers: HTTPHeaders, _ certificate: DeviceID?, at endpoint: Endpoint
    ) throws(HubRefusal) -> TokenBook.Entry? {
        guard let tokens else { return nil }
        if let certificate, tokens.isBlocked(certificate) { throw HubGate.blocked }
        guard let header = headers["Authorization"] else {
            if certificate != nil { return nil }
            throw HubGate.unauthenticated("a bearer token is missing")
        }
        let parts = header.utf8.split(separator: UInt8(ascii: " ")).map { String(Substring($0)) }
        guard parts.count == 2, asciiCaseEqual(parts[0], "Bearer"), let entry = tokens.find(parts[1]),
            entry.use == .device
        else {
            throw HubGate.unauthenticated("the token is not known here")
        }
        if entry.revokedAt != nil { throw HubGate.blocked }
        if let end = entry.endsAt, end <= now {
            let mayReturn = tokens.mayReturn(entry, within: grace, at: now)
            guard mayReturn, endpoint == .token else { throw HubGate.ended(entry, end, mayReturn: mayReturn) }
        }
        if let certificate, certificate != entry.device {
            throw HubGate.unauthenticated("certificate and token belong to different devices")
        }
        return entry
    }

    static var blocked: HubRefusal {
        HubRefusal(Problem("device-blocked", status: 403, detail: "an operator has revoked the tokens of this device"))
    }

    /// Only the holder of the token's secret gets this answer. By the time of the refresh the device knows that it may request the next
    /// one.
    private static func ended(_ entry: TokenBook.Entry, _ end: Timestamp, mayReturn: Bool) -> HubRefusal {
        let next =
            mayReturn
            ? "it can still be exchanged for the next one" : "an operator can let the device in: agenthub token readmit \(entry.device)"
        return unauthenticated("the token of this device expired at \(end); \(next)") { headers in
            guard mayReturn else { return }
            headers[HubHeader.tokenEnds] = String(end.milliseconds)
            headers[HubHeader.tokenRefresh] = String((entry.refreshAt ?? end).milliseconds)
        }
    }

    static func unauthenticated(_ detail: String, adding: (inout HTTPHeaders) -> Void = { _ in }) -> HubRefusal {
        var response = HubResponse(Problem("auth", status: 401, detail: detail))
        response.headers["WWW-Authenticate"] = "Bearer"
        adding(&response.headers)
        return HubRefusal(response)
    }
}

/// The early end of a request: an answer, or a failed database.
struct HubRefusal: Error {
    private let outcome: Result<HubResponse, DatabaseError>

    init(_ response: HubResponse) { outcome = .success(response) }
    init(_ problem: Problem) { outcome = .success(HubResponse(problem)) }
    init(_ error: DatabaseError) { outcome = .failure(error) }

    func answer() throws(DatabaseError) -> HubResponse { try outcome.get() }
}
