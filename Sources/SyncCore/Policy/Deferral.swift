/// "Yes", or "not now" with a fixed reason and, where known, its end.
package enum Verdict: Hashable, Sendable {
    case allow
    case `defer`(Deferral)
}

package struct Deferral: Hashable, Sendable {
    /// Fixed codes (PROTOCOL F). Programs act on them; people read ``sentence``.
    package enum Reason: String, Hashable, Sendable, CaseIterable {
        case offline, captive, degraded, auth, paused, backoff, breaker
        case lowBattery = "low_battery"
        case batterySaver = "battery_saver"
        case metered, roaming, budget, window, order, dependency, conflict
        case blobWait = "blob_wait"

        /// Completes "… waits because".
        package var sentence: String {
            switch self {
            case .offline: "no link has carrier, an address and a route to the hub"
            case .captive: "the network answers in the hub's place (a captive portal or a proxy)"
            case .degraded: "the link is up, but the hub does not answer"
            case .auth: "this device has no credentials that the hub accepts"
            case .paused: "the sync is paused"
            case .backoff: "the last attempt failed and the next one is not due yet"
            case .breaker: "the hub has failed for a long time; only a small probe is sent"
            case .lowBattery: "the battery is low and not charging"
            case .batterySaver: "the battery is being saved for small transfers"
            case .metered: "the link is metered"
            case .roaming: "the modem is roaming"
            case .budget: "the data budget of the link is used up"
            case .window: "it is outside the time window for this traffic"
            case .order: "an earlier mutation of the same record must go first"
            case .dependency: "a mutation that it depends on has not been accepted yet"
            case .conflict: "its record has a conflict that a person must resolve"
            case .blobWait: "a file that it points to must be uploaded first"
            }
        }
    }

    package var reason: Reason
    package var until: Timestamp?

    package init(_ reason: Reason, until: Timestamp? = nil) {
        self.reason = reason
        self.until = until
    }
}
