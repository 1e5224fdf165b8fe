package import SyncCore

/// Lets work begin at most once in an interval.
package struct Throttle: Hashable, Sendable {
    private let interval: Duration
    private var beganAt: Instant?

    package init(_ interval: Duration) {
        self.interval = interval
    }

    /// - Returns: `true` when the work may begin; it counts as begun then.
    package mutating func begin(at now: Instant) -> Bool {
        if let beganAt, beganAt.duration(to: now) < interval { return false }
        beganAt = now
        return true
    }

    /// Counts work that began for another reason.
    package mutating func began(at now: Instant) {
        beganAt = now
    }

    /// Lets the next work begin at once.
    package mutating func reset() {
        beganAt = nil
    }
}
