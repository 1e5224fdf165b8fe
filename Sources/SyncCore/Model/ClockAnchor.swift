/// The relation between boot time and trusted wall time (PROTOCOL A11). It holds for one boot, because boot time begins again with the
/// next.
///
/// It comes from the hub's answers, or from a kernel that reports its clock as synchronised. Stamps are made from boot time and this
/// anchor, so a wall clock that steps, or shows 1970 or 2106, does not affect them.
package struct ClockAnchor: Hashable, Sendable {
    /// Wall time minus boot time, milliseconds.
    package var difference: Int64
    package var error: Duration

    package init(difference: Int64, error: Duration) {
        self.difference = difference
        self.error = error
    }

    /// Makes an anchor of the present wall clock, whether that is right or not.
    package init(wall moment: Moment, error: Duration) {
        difference = moment.wall.milliseconds.saturatingSubtract(moment.instant.nanoseconds / 1_000_000)
        self.error = error
    }

    package func wall(at instant: Instant) -> Timestamp {
        Timestamp(milliseconds: difference.saturatingAdd(instant.nanoseconds / 1_000_000))
    }

    /// Returns whether it differs from `known` enough to be stored. Crystals drift by seconds a day, and each change is written to flash.
    package func isNews(after known: ClockAnchor?) -> Bool {
        guard let known else { return true }
        return difference.saturatingSubtract(known.difference).magnitude >= 500
    }
}

extension SyncEngine {
    /// The anchor by the hub's answers since the start; `nil` before the first.
    package var anchor: ClockAnchor? {
        state.hub.clock.best.map { ClockAnchor(difference: $0.difference, error: $0.error) }
    }
}
