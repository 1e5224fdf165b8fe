/// What an HTTP answer to a ``HubCall`` means (PROTOCOL A5).
///
/// Portals answer 200, proxies answer for a dead server, and a wrong server may be anything. So an answer counts as the
/// hub's only when it says so by `Sync-Version` and carries JSON; everything else is evidence of something in between,
/// and never changes data.
package enum HubReply: Sendable {
    case answered(HubFacts, body: [UInt8])
    case refused(Refusal)

    package struct Refusal: Error, Hashable, Sendable {
        package var kind: Kind
        /// For people: what was said, by whom.
        package var detail: String
        /// The hub's own facts, when it was the hub that spoke.
        package var facts: HubFacts?
        package var problem: Problem?

        package init(_ kind: Kind, _ detail: String, facts: HubFacts? = nil, problem: Problem? = nil) {
            self.kind = kind
            self.detail = detail
            self.facts = facts
            self.problem = problem
        }
    }

    package enum Kind: Hashable, Sendable {
        /// No answer at all.
        case transport(TransportError.Code)
        /// An answer that is not the hub's: HTML, a redirect, no `Sync-Version`.
        case foreign
        /// The hub's answer, but not as agreed; nothing of it was used.
        case nonsense
        case auth
        /// An operator of the hub has locked this device out.
        case blocked
        /// There is no such endpoint there, or another 4xx: wrong address or a proxy.
        case misconfigured
        /// No common version of the protocol.
        case incompatible
        /// The hub says our request is not valid: a mutation in it may be the reason.
        case malformed
        case tooLarge
        /// The hub does not read gzip.
        case encoding
        /// The hub has seen more of this replica than this database remembers.
        case regressed
        /// Cursors of another history.
        case gone
        /// Later, please: 408, 425, 429, 503 and other 5xx that speak of load or a proxy.
        case overloaded
        /// 500 and its like: the server failed over this very request.
        case failed
    }

    package static func read(_ response: HTTPResponse) -> HubReply {
        let facts = HubFacts(response.headers)
        if (200...299).contains(response.status) {
            guard let facts else {
                return .refused(Refusal(.foreign, "answer \(response.status) without Sync-Version\(hint(response))"))
            }
            guard isJSON(response.headers["Content-Type"]) else {
                return .refused(Refusal(.foreign, "answer \(response.status) is not JSON\(hint(response))", facts: facts))
            }
            guard facts.version == "1" else {
                return .refused(
                    Refusal(.incompatible, "the hub answered in protocol version \(facts.version.prefix(16))", facts: facts))
            }
            return .answered(facts, body: response.body)
        }
        return .refused(refusal(response, facts))
    }

    private static func refusal(_ response: HTTPResponse, _ facts: HubFacts?) -> Refusal {
        let problem = problem(response)
        let said = problem.map { $0.detail.isEmpty ? $0.title : $0.detail } ?? "answer \(response.status)\(hint(response))"
        let kind: Kind
        switch (response.status, problem?.code) {
        case (300...399, _), (511, _): kind = .foreign
        case (400, "unsupported-sync-version"?): kind = .incompatible
        // Without a word of the hub's own, a 4xx is as likely a proxy's or a portal's.
        case (400, _), (422, _): kind = facts == nil ? .misconfigured : .malformed
        case (401, _): kind = .auth
        case (403, "device-blocked"?): kind = .blocked
        case (403, _): kind = .auth
        case (409, "replica-regressed"?): kind = .regressed
        case (410, _): kind = .gone
        case (413, _): kind = .tooLarge
        case (415, _): kind = .encoding
        case (408, _), (425, _), (429, _), (502, _), (503, _), (504, _): kind = .overloaded
        case (500...599, _): kind = .failed
        default: kind = .misconfigured
        }
        return Refusal(kind, said, facts: facts ?? HubFacts(retryAfterIn: response.headers), problem: problem)
    }

    private static func problem(_ response: HTTPResponse) -> Problem? {
        guard let type = response.headers["Content-Type"], type.hasPrefix("application/problem+json") else { return nil }
        // Not JSON after all: then it is no problem document, and the status alone has to do.
        guard let json = try? JSONReader.read(response.body), json.object != nil else { return nil }
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

/// The hub's response headers (PROTOCOL A1).
package struct HubFacts: Hashable, Sendable {
    package var version: String
    /// The hub's wall clock; a hint, never used to set ours.
    package var time: Timestamp?
    package var epoch: String?
    package var head: Int64?
    /// Highest outbox `seq` that the hub has seen from this replica.
    package var deviceSeq: Int64?
    package var config: Int64?
    package var retryAfter: RetryAfter?

    /// - Returns: `nil` when the answer does not claim to be a hub's.
    package init?(_ headers: HTTPHeaders) {
        guard let version = headers["Sync-Version"] else { return nil }
        self.version = version
        time = headers["Sync-Time"].flatMap { Int64($0) }.map { Timestamp(milliseconds: $0) }
        epoch = headers["Sync-Epoch"].flatMap { $0.isEmpty || $0.utf8.count > 64 ? nil : $0 }
        head = headers["Sync-Head"].flatMap { Int64($0) }
        deviceSeq = headers["Sync-Device-Seq"].flatMap { Int64($0) }
        config = headers["Sync-Config"].flatMap { Int64($0) }
        retryAfter = headers["Retry-After"].flatMap { RetryAfter($0) }
    }

    /// A `Retry-After` counts also when a proxy in front of the hub says it.
    init?(retryAfterIn headers: HTTPHeaders) {
        guard let after = headers["Retry-After"].flatMap({ RetryAfter($0) }) else { return nil }
        version = ""
        retryAfter = after
    }
}

/// `Retry-After` (RFC 9110, 10.2.3): seconds, or a date.
package enum RetryAfter: Hashable, Sendable {
    case seconds(Int64)
    case date(Timestamp)

    /// - Returns: `nil` for garbage and negative seconds; then our own backoff decides.
    package init?(_ text: String) {
        let value = text.trimmingSpaces
        if let seconds = Int64(value) {
            guard seconds >= 0 else { return nil }
            self = .seconds(seconds)
        } else if !value.isEmpty, value.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }) {
            self = .seconds(.max)
        } else if let date = HTTPDate.timestamp(value) {
            self = .date(date)
        } else {
            return nil
        }
    }

    /// How long from now. A date is taken against the hub's own clock when it was sent along, so that a wrong clock of
    /// ours does not matter.
    package func delay(hubTime: Timestamp?, now: Timestamp) -> Duration {
        switch self {
        case .seconds(let seconds): .seconds(min(seconds, 31_536_000))
        case .date(let date): max(.zero, (hubTime ?? now).duration(to: date))
        }
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the one form of RFC 9110, 5.6.7 that may be sent.
package enum HTTPDate {
    package static func timestamp(_ text: String) -> Timestamp? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT",
            let month = months.firstIndex(of: String(parts[2])), parts[1].utf8.count == 2, parts[3].utf8.count == 4
        else { return nil }
        let number = month + 1
        return RFC3339.timestamp("\(parts[3])-\(number < 10 ? "0" : "")\(number)-\(parts[1])T\(parts[4])Z")
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
}

/// Text from outside on its way to a log, a terminal or an error: control characters escaped, length cut.
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
