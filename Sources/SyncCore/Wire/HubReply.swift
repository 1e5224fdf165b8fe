/// The meaning of an HTTP answer to a ``HubCall`` (PROTOCOL A5).
///
/// Portals answer 200, proxies answer for a dead server, and a wrong server may answer anything. An answer therefore counts as the hub's
/// only when it has `Sync-Version` and carries JSON. Everything else is evidence of an intermediary, and never changes data. This holds for
/// every status. Without `Sync-Version` a 401 says nothing about the credentials, a 410 nothing about cursors, and a 413 only that a
/// smaller request may pass the intermediary.
///
/// | answer without `Sync-Version` | kind | consequence |
/// |---|---|---|
/// | 408, 421, 425, 429, 5xx except 511 | `overloaded` | backoff, 1 to 60 s; after 408 smaller batches as well |
/// | 413 | `tooLarge` | smaller batches; a single mutation that is still too large waits alone, and is never rejected |
/// | another 4xx | `foreign` | backoff, 1 to 60 s |
/// | everything else | `foreign` | next attempt after 30 s, later after 5 min |
///
/// A `Retry-After` of such an answer causes a wait of 5 minutes at most, and does not forbid an attempt that a person requests
/// (``FailureCause``).
package enum HubReply: Sendable {
    case answered(HubHeaders, body: [UInt8])
    case refused(Refusal)

    package struct Refusal: Error, Hashable, Sendable {
        package var kind: Kind
        /// The message and its sender, for people.
        package var detail: String
        /// The values of the headers. Without a `version` the answer is not the hub's, but a proxy's `Retry-After` counts too.
        package var facts: HubHeaders?
        package var problem: Problem?
        /// Status of the HTTP answer, if there was one.
        package var status: Int?

        package init(
            _ kind: Kind, _ detail: String, facts: HubHeaders? = nil, problem: Problem? = nil, status: Int? = nil
        ) {
            self.status = status
            self.kind = kind
            self.detail = detail
            self.facts = facts
            self.problem = problem
        }
    }

    package enum Kind: Hashable, Sendable {
        /// No answer at all.
        case transport(TransportError.Code)
        /// An answer that is not the hub's: HTML, a redirect, no `Sync-Version`. It decides nothing about data.
        case foreign
        /// The hub's answer, but invalid; none of it was used.
        case nonsense
        /// The hub refuses the credentials.
        case auth
        /// An operator of the hub has locked this device out.
        case blocked
        /// The hub knows no such endpoint, or answers with another 4xx: a wrong address, or an older hub.
        case misconfigured
        /// No common version of the protocol.
        case incompatible
        /// The hub calls the request invalid: a mutation in it may be the reason.
        case malformed
        /// The request is too large for the hub or, without `facts.version`, for an intermediary.
        case tooLarge
        /// The hub does not read gzip.
        case encoding
        /// The hub has seen more of this replica than this database remembers.
        case regressed
        /// Cursors of another history.
        case gone
        /// The server asks to retry later: 408, 425, 429, 503 and other 5xx of an overloaded server or a proxy; 421 asks for another
        /// connection.
        case overloaded
        /// 500 and similar: the server failed over this very request.
        case failed
    }

    /// - Parameter now: The agent's wall clock, for a `Retry-After` date without any other clock beside it.
    package static func read(_ response: HTTPResponse, now: Timestamp) -> HubReply {
        let facts = HubHeaders(reading: response.headers, now: now)
        if (200...299).contains(response.status) {
            guard let version = response.headers[HubHeader.version] else {
                let detail = "answer \(response.status) without Sync-Version\(hint(response))"
                return .refused(Refusal(.foreign, detail, status: response.status))
            }
            guard isJSON(response.headers["Content-Type"]) else {
                let detail = "answer \(response.status) is not JSON\(hint(response))"
                return .refused(Refusal(.foreign, detail, facts: facts, status: response.status))
            }
            guard facts.version == HubHeader.currentVersion else {
                let said = Printable.text(version, max: 16)
                return .refused(Refusal(.incompatible, "the hub answered in protocol version \(said)", facts: facts))
            }
            return .answered(facts, body: response.body)
        }
        return .refused(facts.version == nil ? foreign(response, facts) : refusal(response, facts))
    }

    /// The longest wait that an answer without `Sync-Version` can request: an intermediary must not silence a device for hours.
    package static let foreignWaitMax: Duration = .seconds(300)

    /// An error that is not the hub's own. Its body is not read as a problem document, because its content must not count.
    private static func foreign(_ response: HTTPResponse, _ heard: HubHeaders) -> Refusal {
        var facts = HubHeaders(version: nil, supportedVersions: [])
        facts.retryAfter = heard.asked.map { min($0, foreignWaitMax) }
        let kind: Kind =
            switch response.status {
            case 511: .foreign
            case 408, 421, 425, 429, 500...599: .overloaded
            case 413: .tooLarge
            default: .foreign
            }
        let detail = "answer \(response.status) without Sync-Version\(hint(response))"
        return Refusal(kind, detail, facts: facts, status: response.status)
    }

    private static func refusal(_ response: HTTPResponse, _ facts: HubHeaders) -> Refusal {
        let problem = problem(response)
        let said = problem.map { $0.detail.isEmpty ? $0.title : $0.detail } ?? "answer \(response.status)\(hint(response))"
        let kind: Kind
        switch (response.status, problem?.code) {
        case (300...399, _), (511, _): kind = .foreign
        case (400, "unsupported-sync-version"?): kind = .incompatible
        case (400, _), (422, _): kind = .malformed
        case (401, _): kind = .auth
        case (403, "device-blocked"?): kind = .blocked
        case (403, _): kind = .auth
        case (409, "replica-regressed"?): kind = .regressed
        case (410, _): kind = .gone
        case (413, _): kind = .tooLarge
        case (415, _): kind = .encoding
        case (408, _), (421, _), (425, _), (429, _), (502, _), (503, _), (504, _): kind = .overloaded
        case (500...599, _): kind = .failed
        default: kind = .misconfigured
        }
        return Refusal(kind, said, facts: facts, problem: problem, status: response.status)
    }

    private static func problem(_ response: HTTPResponse) -> Problem? {
        guard let type = response.headers["Content-Type"], type.hasPrefix("application/problem+json") else { return nil }
        // `try?`: a body that is not JSON is no problem document, and only the status counts.
        guard let json = try? JSONReader.read(response.body, limits: .answer), json.object != nil else { return nil }
        return Problem(json)
    }

    private static func isJSON(_ contentType: String?) -> Bool {
        guard let type = contentType?.split(separator: ";").first else { return false }
        return asciiCaseEqual(type.trimmingSpaces, "application/json")
    }

    private static func hint(_ response: HTTPResponse) -> String {
        if let place = response.headers["Location"] { return ", redirected to \(Printable.text(place, max: 120))" }
        guard let type = response.headers["Content-Type"] else { return "" }
        return ", content type \(Printable.text(type, max: 60))"
    }
}

/// Foreign text for a log, a terminal or an error: control characters are escaped, and the length is limited.
package enum Printable {
    package static func text(_ text: String, max: Int = 200) -> String {
        var result = ""
        var count = 0
        for scalar in text.unicodeScalars {
            if count >= max {
                result += "…"
                break
            }
            // C0, DEL, C1, line separators and direction overrides can forge a line or hide text.
            switch scalar.value {
            case 0..<0x20, 0x7F..<0xA0, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069, 0xFEFF:
                result += "\\u{" + String(scalar.value, radix: 16) + "}"
            default: result.unicodeScalars.append(scalar)
            }
            count += 1
        }
        return result
    }
}

extension StringProtocol {
    /// Without blanks and tabs at both ends.
    package var trimmingSpaces: String {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        var rest = self[...].drop(while: isBlank)
        while let last = rest.last, isBlank(last) { rest.removeLast() }
        return String(rest)
    }
}
