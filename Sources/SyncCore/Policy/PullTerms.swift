/// The entities that a pull may ask for, and the interval between pulls (the column "pull" of the policy table).
package struct PullTerms: Hashable, Sendable {
    package enum Entities: String, Hashable, Sendable, CaseIterable {
        case all
        /// Only entities whose configured priority is critical.
        case critical
    }

    package var entities: Entities
    /// Time between two periodic pulls.
    package var interval: Duration

    package init(entities: Entities, interval: Duration) {
        self.entities = entities
        self.interval = interval
    }
}

extension Policy {
    /// Interval between pulls while roaming.
    static let roamingPullInterval: Duration = .seconds(3_600)
    /// Interval between pulls while an app reads the events (PROTOCOL G1).
    static let activePullInterval: Duration = .seconds(30)

    /// - Returns: `nil` when ``decide(_:in:now:bytes:since:)`` defers pulls.
    package static func pullTerms(in situation: Situation, now: Timestamp) -> PullTerms? {
        guard case .allow = decide(.pull, in: situation, now: now) else { return nil }
        let settings = situation.settings
        var terms = PullTerms(entities: .all, interval: situation.freePullInterval)
        if let uplink = situation.uplink {
            if uplink.isMetered || uplink.isRoaming {
                terms.interval = max(settings.pullInterval, settings.meteredPullInterval)
                // A device that only has metered links would otherwise never receive entities that are not critical.
                let isStarved = !uplink.isRoaming && situation.budget < .soft && isStarved(situation, now)
                if !situation.isForced && !isStarved { terms.entities = .critical }
            }
            if uplink.isRoaming { terms.interval = max(terms.interval, roamingPullInterval) }
        }
        if situation.budget >= .soft { terms.interval *= 2 }
        if situation.budget >= .reserve { terms.entities = .critical }
        return terms
    }
}

extension Situation {
    /// Interval between pulls over an unmetered link. It is shorter while an app reads the events, as long as the battery does not matter.
    var freePullInterval: Duration {
        isActive && power == .ample ? min(settings.pullInterval, Policy.activePullInterval) : settings.pullInterval
    }
}
