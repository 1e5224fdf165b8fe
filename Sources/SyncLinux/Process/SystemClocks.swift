import CSyncLinux
import Glibc
package import SyncCore

/// `CLOCK_BOOTTIME` and `CLOCK_REALTIME`.
package struct SystemClocks: TimeSource {
    package init() {}

    package func now() -> Moment {
        Moment(instant: Self.instant(), wall: Self.wall())
    }

    /// `true` when the kernel reports that a program, usually NTP, keeps the wall clock right.
    package static var isSynchronised: Bool { csl_clock_is_synchronised() == 1 }

    static func instant() -> Instant {
        Instant(nanoseconds: nanoseconds(of: CLOCK_BOOTTIME))
    }

    /// Wall clock in milliseconds, rounded down: the result never lies after the exact time, also before 1970.
    private static func wall() -> Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(
            milliseconds: Int64(time.tv_sec).saturatingMultiply(1_000)
                .saturatingAdd(Int64(time.tv_nsec) / 1_000_000))
    }

    /// Time of a clock. Both clocks exist on every supported kernel (2.6.39 for `CLOCK_BOOTTIME`), so reading them cannot fail.
    static func nanoseconds(of clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec).saturatingMultiply(1_000_000_000).saturatingAdd(Int64(time.tv_nsec))
    }
}
