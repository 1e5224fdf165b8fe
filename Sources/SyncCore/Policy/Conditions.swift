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
package enum PowerLevel: String, Hashable, Sendable, CaseIterable, Comparable {
    /// Mains, charging, or charge enough.
    case ample
    /// Discharging below `saver`: small transfers only.
    case saver
    /// Discharging below `low`: nothing but, where allowed, critical work.
    case low
    /// As `low`, and so empty that not even critical work goes.
    case exhausted

    /// Harder is more.
    package static func < (left: PowerLevel, right: PowerLevel) -> Bool { left.rank < right.rank }

    private var rank: Int { PowerLevel.allCases.firstIndex(of: self) ?? 0 }
}
