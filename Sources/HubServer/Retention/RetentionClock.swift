package import SyncCore

/// The time of the hub, as far as something may be removed for good by it.
///
/// A wall clock that has jumped into the future makes everything old at once. So a run of housekeeping believes its clock only within
/// ``stepMax`` of the run before. Beyond that it waits: until the clock is right again, or has gone on from its new place for
/// ``confirmation`` without another jump, as after a hub was switched off for months. The clock is kept in the database, because a
/// clock jumps at a start more often than while a hub runs.
package struct RetentionClock: Hashable, Sendable {
    /// Time of the newest run that believed its clock; `nil`: no run has looked at the clock yet.
    package var believed: Timestamp?
    /// Time of the first run after a jump; `nil`: there is no doubt.
    package var doubtedSince: Timestamp?
    /// Time of the newest run, believed or not.
    package var seen: Timestamp?

    package init(believed: Timestamp? = nil, doubtedSince: Timestamp? = nil, seen: Timestamp? = nil) {
        (self.believed, self.doubtedSince, self.seen) = (believed, doubtedSince, seen)
    }

    package enum Verdict: Hashable, Sendable {
        case believed
        /// The first run of a database notes the time: there is nothing to compare it with.
        case noted
        /// The clock has jumped.
        ///
        /// - Parameter isNew: No earlier run has said so.
        case doubted(isNew: Bool)
    }

    /// Largest step between two runs, which come once a day and at each start.
    package static let stepMax: Duration = .seconds(7 * 86_400)
    /// Time for which a clock must have gone on after a jump.
    package static let confirmation: Duration = .seconds(7 * 86_400)

    /// Judges the time of a run, and keeps it for the next one.
    ///
    /// A clock that went back is believed: what it calls old has been old for longer.
    package mutating func judge(_ now: Timestamp) -> Verdict {
        defer { seen = now }
        guard let believed else {
            self.believed = now
            return .noted
        }
        if now <= believed.advanced(by: RetentionClock.stepMax) || isConfirmed(now) {
            (self.believed, doubtedSince) = (now, nil)
            return .believed
        }
        // Another jump begins another doubt.
        let goesOn = doubtedSince != nil && isStep(to: now)
        if !goesOn { doubtedSince = now }
        return .doubted(isNew: !goesOn)
    }

    private func isStep(to now: Timestamp) -> Bool {
        guard let seen else { return false }
        return now >= seen && now <= seen.advanced(by: RetentionClock.stepMax)
    }

    private func isConfirmed(_ now: Timestamp) -> Bool {
        guard let doubtedSince else { return false }
        return isStep(to: now) && now >= doubtedSince.advanced(by: RetentionClock.confirmation)
    }

    /// The time at which a clock in doubt is believed, if it goes on; `nil`: there is no doubt.
    package var waitsUntil: Timestamp? { doubtedSince?.advanced(by: RetentionClock.confirmation) }
}
