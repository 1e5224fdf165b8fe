import SyncCore

// Enrolment and token refresh (PROTOCOL A10).
extension Hub {
    /// Changes the book in its storage and returns the changed book; `nil` when that failed, and nothing changed.
    package typealias TokenChange = @Sendable (_ change: (inout TokenBook) -> Void) -> TokenBook?

    /// Exchanges a one-time token for a device token. The request may be repeated until the device token is shown for the first time.
    func enroll(_ request: HubRequest, at now: Timestamp) throws(HubRefusal) -> HubResponse {
        let token = try Hub.enrolmentToken(request)
        let entry = try HubGate(tokens: settings.tokens, grace: settings.tokenGrace, now: now).enrolling(token)
        return try issue(for: entry, status: 201, at: now)
    }

    /// Largest body of an enrolment, bytes. A token has 47 of them; the rest is room for members that this version does not know.
    static let enrolmentBytes = 4 << 10

    /// The one-time token of a request that needs no other credential. It must cost next to nothing, so it is small and never compressed.
    static func enrolmentToken(_ request: HubRequest) throws(HubRefusal) -> String {
        try HubGate.checkVersion(request.hubHeaders)
        guard asciiCaseEqual(request.headers["Content-Encoding"] ?? "identity", "identity") else {
            var response = HubResponse(
                Problem("encoding-unsupported", status: 415, detail: "an enrolment is not compressed: expected Content-Encoding identity"))
            response.headers["Accept-Encoding"] = "identity"
            throw HubRefusal(response)
        }
        guard request.body.count <= enrolmentBytes else {
            throw HubRefusal(Problem("too-large", status: 413, detail: "an enrolment may have at most \(enrolmentBytes) bytes"))
        }
        do throws(Problem) { return try DeviceMessages.readEnrolment(request.body) } catch { throw HubRefusal(error) }
    }

    /// The next token for a device that shows a valid one, or its last one if that ended recently enough.
    func refreshToken(_ request: HubRequest, at now: Timestamp) throws(HubRefusal) -> HubResponse {
        guard let header = request.headers["Authorization"], let token = header.split(separator: " ").last.map(String.init),
            let entry = settings.tokens?.find(token)
        else {
            throw HubRefusal(Problem("malformed", status: 400, detail: "the request shows no token that could be refreshed"))
        }
        return try issue(for: entry, status: 200, at: now)
    }

    private func issue(for entry: TokenBook.Entry, status: Int, at now: Timestamp) throws(HubRefusal) -> HubResponse {
        // The hub's own generator is not used: its seed has only 64 bits.
        var random = SystemRandomNumberGenerator()
        var token = ""
        let life = settings.tokenLife
        try change { token = $0.issue(for: entry, life: life, at: now, using: &random) }
        var response = HubResponse(
            json: DeviceMessages.grant(TokenGrant(device: entry.device, token: token, endsAt: life.map { now.advanced(by: $0) })))
        response.status = status
        response.headers["Cache-Control"] = "no-store"
        return response
    }

    func confirm(_ token: TokenBook.Entry, at now: Timestamp) throws(HubRefusal) {
        try change { $0.confirm(token, at: now) }
    }

    private func change(_ change: (inout TokenBook) -> Void) throws(HubRefusal) {
        if settings.keepsTokens {
            _ = try querying { () throws(DatabaseError) in try keepTokens(change) }
        } else if let keep = settings.changeTokens {
            guard let book = keep(change) else {
                throw HubRefusal(Problem("overloaded", status: 503, detail: "the tokens cannot be written at the moment", retryAfter: 30))
            }
            settings.tokens = book
        } else if var book = settings.tokens {
            change(&book)
            settings.tokens = book
        }
    }
}
