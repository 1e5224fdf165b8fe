/// The reason why work waits now, its end, and what to do about it.
///
/// Status, `why`, `plan`, `doctor`, `links` and `readyz` all show this one verdict: each of them builds it from the same ``Situation``, so
/// no two can disagree, and none can show an outdated one.
package struct PresentCause: Hashable, Sendable {
    /// ``HubFault/Code`` if the hub cannot be used, otherwise ``Deferral/Reason``.
    package var code: String
    /// One sentence for people.
    package var sentence: String
    /// Time at which it ends by itself, or is tried again; `nil`: not known.
    package var until: Timestamp?
    /// The next action, as a command with real values.
    package var command: String

    package init(code: String, sentence: String, until: Timestamp? = nil, command: String) {
        self.code = code
        self.sentence = sentence
        self.until = until
        self.command = command
    }

    /// - Returns: `nil` when no work is held back.
    package init?(_ why: Explanation, at place: HubPlace) {
        guard let deferral = why.deferral else { return nil }
        let fault = deferral.reason.isAboutHub ? why.fault : nil
        self.init(
            code: fault?.code.rawValue ?? deferral.reason.rawValue, sentence: why.reason, until: why.end,
            command: fault?.command(at: place) ?? Self.command(deferral.reason, why, at: place))
    }

    /// The reason of the deaths comes first: a sync that is resumed without a look at it may cause the next one.
    package static let safeModeCommand = "journalctl -u agentd -p err -n 50, then: agentctl resume"

    private static func command(_ reason: Deferral.Reason, _ why: Explanation, at place: HubPlace) -> String {
        switch reason {
        case .offline: "ip -brief address; ip route; agentctl links"
        case .captive: HubFault(.portal, "").command(at: place)
        case .degraded, .breaker: "\(place.curl); ask the hub's operator"
        case .auth: HubFault(.refused, "").command(at: place)
        case .paused: why.pause?.isSafeMode == true ? safeModeCommand : "agentctl resume"
        case .backoff, .metered, .roaming, .window, .lowBattery, .batterySaver: "agentctl sync --force"
        case .budget: "agentctl ledger shows what used it; raise links[].budget"
        case .order, .dependency, .conflict, .blobWait: "agentctl mutations list"
        }
    }
}

extension Deferral.Reason {
    /// `true` when the reason lies in what the last attempt at the hub found.
    package var isAboutHub: Bool {
        switch self {
        case .captive, .degraded, .auth, .backoff, .breaker: true
        case .offline, .paused, .lowBattery, .batterySaver, .metered, .roaming, .budget, .window, .order, .dependency, .conflict, .blobWait:
            false
        }
    }
}
