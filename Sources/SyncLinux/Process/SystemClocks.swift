import CSyncLinux
import Glibc
package import SyncCore

/// `CLOCK_BOOTTIME` and `CLOCK_REALTIME`.
package struct SystemClocks: TimeSource {
    package init() {}

    package func now() -> Moment {
        Moment(instant: Self.instant(), wall: Self.wall())
    }

    /// The kernel says that somebody, NTP as a rule, keeps the wall clock right.
    package static var isSynchronised: Bool { csl_clock_is_synchronised() == 1 }

    static func instant() -> Instant {
        Instant(nanoseconds: nanoseconds(of: CLOCK_BOOTTIME))
    }

    /// Milliseconds, rounded down: a moment never lies before the one it was rounded from, also before 1970.
    private static func wall() -> Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(
            milliseconds: Int64(time.tv_sec).saturatingMultiply(1_000)
                .saturatingAdd(Int64(time.tv_nsec) / 1_000_000))
    }

    /// Both clocks exist on every kernel that we run on (2.6.39 for `CLOCK_BOOTTIME`), so reading them cannot fail.
    static func nanoseconds(of clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec).saturatingMultiply(1_000_000_000).saturatingAdd(Int64(time.tv_nsec))
    }
}
