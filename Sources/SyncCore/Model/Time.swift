/// Wall time, milliseconds since 1970-01-01 UTC. It may be wrong and may jump. It is used for display, for `lww` stamps and for retention,
/// never for timers.
package struct Timestamp: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var milliseconds: Int64

    package init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    package static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.milliseconds < right.milliseconds
    }

    package func advanced(by duration: Duration) -> Timestamp {
        Timestamp(milliseconds: milliseconds.saturatingAdd(duration.milliseconds))
    }

    package func duration(to other: Timestamp) -> Duration {
        .milliseconds(other.milliseconds.saturatingSubtract(milliseconds))
    }

    /// RFC 3339 in UTC with milliseconds: `2026-11-20T21:04:05.120Z`.
    package var description: String { RFC3339.text(self) }
}

/// Boot time, nanoseconds of `CLOCK_BOOTTIME`. It never steps, counts through suspend, and has no meaning after a reboot. All timers use
/// it.
package struct Instant: Hashable, Comparable, Sendable {
    package var nanoseconds: Int64

    package init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    package static func < (left: Instant, right: Instant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    package func advanced(by duration: Duration) -> Instant {
        Instant(nanoseconds: nanoseconds.saturatingAdd(duration.nanoseconds))
    }

    package func duration(to other: Instant) -> Duration {
        .nanoseconds(other.nanoseconds.saturatingSubtract(nanoseconds))
    }
}

/// Both clocks at one moment. Every decision receives one and reads no clock itself.
package struct Moment: Hashable, Sendable {
    package var instant: Instant
    package var wall: Timestamp

    package init(instant: Instant, wall: Timestamp) {
        self.instant = instant
        self.wall = wall
    }
}

extension Duration {
    /// Whole milliseconds, rounded towards zero, limited to `Int64`.
    package var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds.saturatingMultiply(1_000).saturatingAdd(attoseconds / 1_000_000_000_000_000)
    }

    package var magnitude: Duration { self < .zero ? .zero - self : self }

    /// Whole nanoseconds, limited to `Int64` (292 years).
    package var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds.saturatingMultiply(1_000_000_000).saturatingAdd(attoseconds / 1_000_000_000)
    }
}

extension Int64 {
    /// The number as a database row may hold it, limited so that sums and differences of two such numbers cannot overflow. No count or
    /// measurement comes near these limits; a number beyond them was edited by hand, or is damaged.
    package var asStored: Int64 { Swift.min(Swift.max(self, -(1 << 62) + 1), (1 << 62) - 1) }

    package func saturatingAdd(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other > 0 ? .max : .min) : sum
    }

    package func saturatingSubtract(_ other: Int64) -> Int64 {
        let (difference, overflow) = subtractingReportingOverflow(other)
        return overflow ? (other < 0 ? .max : .min) : difference
    }

    package func saturatingMultiply(_ other: Int64) -> Int64 {
        let (product, overflow) = multipliedReportingOverflow(by: other)
        return overflow ? ((self < 0) == (other < 0) ? .max : .min) : product
    }
}
