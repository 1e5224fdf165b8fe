/// What a sync request told about the way to the hub, whatever it said about its content.
package enum HubContact: Hashable, Sendable {
    /// The hub itself spoke, be it an error.
    case answered
    /// The hub itself spoke, and refuses this device; or we have no credentials to show.
    case refused(HubFault)
    /// Nobody answered.
    case silent(HubFault)
    /// Somebody answered who could not prove to be the hub: a portal that intercepts TLS, or a hub with a broken certificate.
    case untrusted(HubFault)
    /// Somebody answered, and it was not the hub.
    case foreign(HubFault)

    /// - Returns: `nil` when the refusal says nothing about the way: the call was cancelled.
    package init?(_ refusal: HubReply.Refusal) {
        let fault = HubFault(refusal)
        switch refusal.kind {
        case .transport(.cancelled): return nil
        case .transport(.credentials), .transport(.clientCertificate), .auth, .blocked: self = .refused(fault)
        case .transport(.untrusted): self = .untrusted(fault)
        case .transport, .misconfigured: self = .silent(fault)
        // An error status without the hub's headers is a proxy's: the hub itself is not there.
        case .foreign where refusal.status.map({ (400...499).contains($0) }) ?? false: self = .silent(fault)
        case .foreign: self = .foreign(fault)
        // Without the hub's own headers it was a proxy that spoke: the hub itself is not there.
        case .overloaded, .failed, .malformed, .tooLarge, .encoding:
            self = refusal.facts?.version == nil ? .silent(fault) : .answered
        case .nonsense, .incompatible, .regressed, .gone: self = .answered
        }
    }
}

/// Why the reachability changed.
package enum ReachabilityCause: Hashable, Sendable {
    case link(LinkCause)
    case probeGood, hubAnswered, refused, portal, silent
    /// No probe can tell whether the portal still is there, so a sync request may try.
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
