/// The result of a sync request for the way to the hub, whatever its content.
package enum HubContact: Hashable, Sendable {
    /// The hub itself answered, possibly with an error.
    case answered
    /// The hub itself answered and refuses this device, or there are no credentials to send.
    case refused(HubFault)
    /// No server answered.
    case silent(HubFault)
    /// A server answered that could not prove to be the hub: a portal that intercepts TLS, or a hub with a broken certificate.
    case untrusted(HubFault)
    /// A server answered that is not the hub.
    case foreign(HubFault)

    /// - Returns: `nil` when the refusal says nothing about the way, because the call was cancelled.
    package init?(_ refusal: HubReply.Refusal) {
        let fault = HubFault(refusal)
        switch refusal.kind {
        case .transport(.cancelled): return nil
        case .transport(.credentials), .transport(.clientCertificate), .auth, .blocked: self = .refused(fault)
        case .transport(.untrusted): self = .untrusted(fault)
        case .transport, .misconfigured: self = .silent(fault)
        // An error status without the hub's headers comes from a proxy: the hub itself is not reachable.
        case .foreign where refusal.status.map({ (400...499).contains($0) }) ?? false: self = .silent(fault)
        case .foreign: self = .foreign(fault)
        // Without the hub's own headers a proxy has answered: the hub itself is not reachable.
        case .overloaded, .failed, .malformed, .tooLarge, .encoding:
            self = refusal.facts?.version == nil ? .silent(fault) : .answered
        case .nonsense, .incompatible, .regressed, .gone: self = .answered
        }
    }
}

/// The reason why the reachability changed.
package enum ReachabilityCause: Hashable, Sendable {
    case link(LinkCause)
    case probeGood, hubAnswered, refused, portal, silent
    /// No probe can show whether the portal is still there, so a sync request may try.
    case portalWaited

    /// Fixed codes, for events and status.
    package var code: String {
        switch self {
        case .link(let cause): cause.rawValue
        case .probeGood: "probe_ok"
        case .hubAnswered: "hub_answered"
        case .refused: "refused"
        case .portal: "portal"
        case .silent: "no_answer"
        case .portalWaited: "portal_waited"
        }
    }
}
