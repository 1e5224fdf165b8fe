import Glibc
package import SyncCore

/// The offset of the wall clock from UTC, from the system's time zone.
package enum LocalTime {
    /// Seconds that local time is ahead of UTC at that moment, daylight saving included; negative west of Greenwich.
    package static func offset(at time: Timestamp) -> Int {
        var seconds = time_t(time.milliseconds.quotientAndRemainder(dividingBy: 1_000).quotient)
        var local = tm()
        // localtime_r need not check whether the zone has changed (localtime(3)), and a device may be moved while it runs.
        tzset()
        guard localtime_r(&seconds, &local) != nil else { return 0 }
        return local.tm_gmtoff
    }
}
