/// Rows of the policy table (PROTOCOL F), in the order of evaluation.
package enum PolicyRule: String, Hashable, Sendable, CaseIterable {
    /// Pause, reachability, refused credentials, backoff and breaker.
    case readiness
    case lowBattery = "low_battery"
    case budget, roaming, metered
    case batterySaver = "battery_saver"
    case window
    case otherwise

    /// Number of the row, 1 to 8.
    package var row: Int { (PolicyRule.allCases.firstIndex(of: self) ?? 0) + 1 }
}

/// A change that would let deferred traffic go.
package enum Relief: Hashable, Sendable {
    /// It goes at this time by itself, if no other objection has come up.
    case time(Timestamp)
    /// `agentctl resume`
    case resume
    case link, unmeteredLink, home, answer, login, credentials
    case charge(percent: Int)
    /// At most this many bytes may be sent at once.
    case fewerBytes(Int)
    /// A larger budget, for users who cannot wait until the count begins again.
    case budget
    /// `agentctl sync --force`
    case force

    package var code: String {
        switch self {
        case .time: "time"
        case .resume: "resume"
        case .link: "link_up"
        case .unmeteredLink: "unmetered_link"
        case .home: "home_network"
        case .answer: "hub_answers"
        case .login: "portal_passed"
        case .credentials: "credentials"
        case .charge: "battery"
        case .fewerBytes: "fewer_bytes"
        case .budget: "budget"
        case .force: "force"
        }
    }

    /// `true` when it happens by itself at an unknown time.
    package var isEvent: Bool {
        switch self {
        case .link, .unmeteredLink, .home, .answer, .login, .credentials, .charge: true
        case .time, .resume, .fewerBytes, .budget, .force: false
        }
    }

    /// Completes "it goes …".
    package var sentence: String {
        switch self {
        case .time(let time): "at \(time)"
        case .resume: "when the sync is resumed"
        case .link: "when a link with a route to the hub is up"
        case .unmeteredLink: "when an unmetered link is up"
        case .home: "when the modem is in its home network"
        case .answer: "when the hub answers"
        case .login: "after a login on the network's page"
        case .credentials: "when the hub accepts this device's credentials"
        case .charge(let percent): "when the battery is at \(percent) % or charging"
        case .fewerBytes(let bytes): "if it has at most \(bytes) bytes"
        case .budget: "when the budget is raised"
        case .force: "with `agentctl sync --force`"
        }
    }
}

/// The reason why traffic goes or waits, as `agentctl why`, `plan` and `status` show it.
package struct Explanation: Hashable, Sendable {
    package var traffic: TrafficClass
    package var verdict: Verdict
    /// The row that decided.
    package var rule: PolicyRule
    /// The changes that would end the deferral by this row; each alone is enough. Empty when the verdict is to allow.
    package var reliefs: [Relief]
    /// Objections of later rows: without the first one, these hold the traffic back.
    package var others: [Other] = []

    package struct Other: Hashable, Sendable {
        package var rule: PolicyRule
        package var deferral: Deferral
    }

    /// Name of the uplink, where the row concerns it.
    var link: String?
    /// The fault that the last attempt at the hub found.
    package var fault: HubFault?
    /// The pause, when there is one.
    var pause: EngineMemory.Pause?

    /// Completes "… waits because".
    package var reason: String {
        guard let deferral else { return "" }
        let text = reason(deferral.reason)
        if deferral.reason == .paused, let pause {
            let said = pause.isSafeMode ? "the agent itself paused the sync" : "an operator paused the sync"
            return pause.reason.isEmpty ? said : "\(said) (\(Printable.text(pause.reason)))"
        }
        guard deferral.reason.isAboutHub, let fault else { return text }
        return "\(text) (\(fault.detail))"
    }

    package var deferral: Deferral? {
        if case .defer(let deferral) = verdict { deferral } else { nil }
    }

    /// The latest known end of all objections; the traffic does not go by itself before it.
    package var end: Timestamp? {
        ([deferral?.until] + others.map(\.deferral.until)).compactMap { $0 }.max()
    }

    /// "the data budget of wwan0 does not allow it (until 2026-11-21T00:00:00.000Z)", one for each of ``others``.
    package var also: [String] {
        others.map { other in reason(other.deferral.reason) + (other.deferral.until.map { " (until \($0))" } ?? "") }
    }

    /// One sentence: "normal mutations wait because the link wwan0 is metered; they go when an unmetered link is up, at
    /// 2026-11-21T20:59:00.000Z, or with `agentctl sync --force`".
    package var sentence: String {
        guard deferral != nil else { return "\(traffic.subject) may go" }
        var text = "\(traffic.subject) wait because \(reason)"
        if !reliefs.isEmpty { text += "; they go " + Self.listed(reliefs.map(\.sentence)) }
        return text
    }

    private func reason(_ reason: Deferral.Reason) -> String {
        guard let link else { return reason.sentence }
        return switch reason {
        case .metered: "the link \(link) is metered"
        case .roaming: "the modem \(link) is roaming"
        case .budget: "the data budget of \(link) does not allow it"
        case .offline, .captive, .degraded, .auth, .paused, .backoff, .breaker, .lowBattery, .batterySaver, .window, .order, .dependency,
            .conflict, .blobWait:
            reason.sentence
        }
    }

    private static func listed(_ parts: [String]) -> String {
        guard parts.count > 1, let last = parts.last else { return parts.first ?? "" }
        return parts.dropLast().joined(separator: ", ") + (parts.count > 2 ? ", or " : " or ") + last
    }
}
