/// The present reachability of the hub (PROTOCOL E1).
package enum Reachability: String, Hashable, Sendable, CaseIterable {
    /// No link with carrier, address and route.
    case offline
    /// There is a link; the hub has not answered over it yet.
    case connecting
    /// Another server answers in the hub's place.
    case captive
    /// The link works, but the hub does not answer.
    case degraded
    /// The hub answers and refuses this device.
    case auth
    case online
}

/// The traffic that the battery allows (PROTOCOL E3, with hysteresis).
package enum PowerLevel: String, Hashable, Sendable, CaseIterable, Comparable {
    /// On mains, charging, or sufficiently charged.
    case ample
    /// Discharging below `saver`: only small transfers are allowed.
    case saver
    /// Discharging below `low`: nothing is allowed except, where configured, critical work.
    case low
    /// Like `low`, but so empty that not even critical work is allowed.
    case exhausted

    /// The stricter level is the greater one.
    package static func < (left: PowerLevel, right: PowerLevel) -> Bool { left.rank < right.rank }

    private var rank: Int { PowerLevel.allCases.firstIndex(of: self) ?? 0 }
}
