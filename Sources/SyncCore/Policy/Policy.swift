/// What traffic is decided about.
package enum TrafficClass: Hashable, Sendable, CaseIterable {
    case critical, normal, bulk, pull

    package init(_ priority: Priority) {
        switch priority {
        case .critical: self = .critical
        case .normal: self = .normal
        case .bulk: self = .bulk
        }
    }

    package var name: String {
        switch self {
        case .critical: "critical"
        case .normal: "normal"
        case .bulk: "bulk"
        case .pull: "pull"
        }
    }
}

/// "Yes", or "not now" with a fixed reason and, where known, until when.
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
            case .paused: "an operator paused the sync"
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
            case .conflict: "its record has a conflict that somebody must resolve"
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

/// What can be reached right now (PROTOCOL E1).
package enum Reachability: String, Hashable, Sendable, CaseIterable {
    /// No link with carrier, address and route.
    case offline
    /// A link is there; the hub has not answered on it yet.
    case connecting
    /// Something else answers in the hub's place.
    case captive
    /// The link works, the hub does not answer.
    case degraded
    /// The hub answers, and refuses us.
    case auth
    case online
}

/// How much the battery allows (PROTOCOL E3, with hysteresis).
package enum PowerLevel: String, Hashable, Sendable, CaseIterable {
    /// Mains, charging, or charge enough.
    case ample
    /// Discharging below `saver`: small transfers only.
    case saver
    /// Discharging below `low`: nothing but, where allowed, critical work.
    case low
    /// As `low`, and so empty that not even critical work goes.
    case exhausted
}

/// How much of a link's budget is left (PROTOCOL F). The harder of day and month counts.
package enum BudgetLevel: String, Hashable, Sendable, CaseIterable {
    case open
    /// 80 % are used: the starvation rule is off, pulls are half as frequent.
    case soft
    /// All but the tenth that is kept for critical work is used.
    case reserve
    case spent
}

/// Everything that a policy decision looks at.
package struct Situation: Hashable, Sendable {
    package var reachability: Reachability
    package var pause: EngineMemory.Pause?
    /// Wall time before which no attempt is made: backoff, or the server's wish.
    package var retryAt: Timestamp?
    /// The hub has failed for so long that only a probe is sent (PROTOCOL G3).
    package var isBreakerOpen = false
    /// `nil`: none, or not known yet.
    package var uplink: Uplink?
    package var power = PowerLevel.ample
    package var budget = BudgetLevel.open
    /// When the used-up period ends.
    package var budgetResetsAt: Timestamp?
    /// When an unmetered link was last usable; `nil`: never seen by this installation.
    package var unmeteredSeenAt: Timestamp?
    /// When the oldest waiting mutation of normal priority was enqueued.
    package var oldestNormalAt: Timestamp?
    /// Whether the configured time windows are open now, and when that changes. Without windows they are always open.
    package var isWindowOpen = true
    package var windowOpensAt: Timestamp?

    package init(reachability: Reachability, pause: EngineMemory.Pause? = nil, retryAt: Timestamp? = nil) {
        self.reachability = reachability
        self.pause = pause
        self.retryAt = retryAt
    }
}

/// The policy table of PROTOCOL F, as far as its inputs exist: first matching rule decides.
package enum Policy {
    package static func decide(_ traffic: TrafficClass, in situation: Situation, now: Timestamp) -> Verdict {
        if let pause = situation.pause, pause.until.map({ $0 > now }) ?? true {
            return .defer(Deferral(.paused, until: pause.until))
        }
        let retryAt = situation.retryAt.flatMap { $0 > now ? $0 : nil }
        switch situation.reachability {
        case .offline: return .defer(Deferral(.offline))
        case .captive: return .defer(Deferral(.captive, until: retryAt))
        case .auth: return .defer(Deferral(.auth, until: retryAt))
        case .degraded: return .defer(Deferral(.degraded, until: retryAt))
        case .connecting, .online: return retryAt.map { .defer(Deferral(.backoff, until: $0)) } ?? .allow
        }
    }
}
