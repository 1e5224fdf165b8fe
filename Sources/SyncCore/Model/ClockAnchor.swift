/// How boot time relates to wall time that can be trusted (PROTOCOL A11). Holds for one boot: boot time begins anew with the
/// next.
///
/// It comes from the hub's answers, or from a kernel that says its clock is synchronised. Stamps are made from boot time and
/// this, so a step of the wall clock, or one that shows 1970 or 2106, changes nothing about them.
package struct ClockAnchor: Hashable, Sendable {
    /// Wall time minus boot time, milliseconds.
    package var difference: Int64
    package var error: Duration

    package init(difference: Int64, error: Duration) {
        self.difference = difference
        self.error = error
    }

    /// The wall clock of now, for what it is worth.
    package init(wall moment: Moment, error: Duration) {
        difference = moment.wall.milliseconds.saturatingSubtract(moment.instant.nanoseconds / 1_000_000)
        self.error = error
    }

    package func wall(at instant: Instant) -> Timestamp {
        Timestamp(milliseconds: difference.saturatingAdd(instant.nanoseconds / 1_000_000))
    }

    /// Whether it says something else than `known`. Crystals drift by seconds a day, and each change is written to flash.
    package func isNews(after known: ClockAnchor?) -> Bool {
        guard let known else { return true }
        return difference.saturatingSubtract(known.difference).magnitude >= 500
    }
}

extension SyncEngine {
    /// By the hub's answers since the start; `nil` before the first.
    package var anchor: ClockAnchor? {
        clock.best.map { ClockAnchor(difference: $0.difference, error: $0.error) }
    }
}
