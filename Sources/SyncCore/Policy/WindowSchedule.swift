/// The configured time windows on the real time line.
///
/// The core has no time zone. The caller passes the offset of local time from UTC at a given moment, in seconds, so that the hour that a
/// change to summer time skips or repeats is the one of local time.
package struct WindowSchedule: Hashable, Sendable {
    package typealias Offset = (Timestamp) -> Int

    package var windows: [TimeWindow]

    package init(_ windows: [TimeWindow]) {
        self.windows = windows
    }

    /// Returns whether traffic may go; without windows it always may.
    package func isOpen(at time: Timestamp, offset: Offset) -> Bool {
        isOpen(minute: WindowSchedule.minute(of: time), offset)
    }

    /// The first moment after `time` at which ``isOpen(at:offset:)`` changes. `nil` when that is not within the next eight days, which
    /// means never, because windows repeat every week.
    package func nextChange(after time: Timestamp, offset: Offset) -> Timestamp? {
        guard !windows.isEmpty else { return nil }
        let first = WindowSchedule.minute(of: time)
        let isOpenNow = isOpen(minute: first, offset)
        // Minute by minute, because windows and offsets change at whole minutes. The 11,520 checks take milliseconds, once for each change.
        for minute in (first + 1)...(first + 8 * 1_440) where isOpen(minute: minute, offset) != isOpenNow {
            return Timestamp(milliseconds: minute * 60_000)
        }
        return nil
    }

    private func isOpen(minute: Int64, _ offset: Offset) -> Bool {
        if windows.isEmpty { return true }
        let hours = min(max(offset(Timestamp(milliseconds: minute * 60_000)), -86_400), 86_400)
        let local = minute + Int64(hours) / 60
        let day = local.quotientAndRemainder(flooringBy: 1_440)
        // 1970-01-01 was a Thursday.
        let weekday = (day.quotient + 3).quotientAndRemainder(flooringBy: 7).remainder
        guard let name = TimeWindow.Day(rawValue: Int(weekday)) else { return false }
        return windows.contains { $0.contains(name, minute: Int(day.remainder)) }
    }

    /// Minutes since 1970, limited so that arithmetic on them cannot overflow.
    private static func minute(of time: Timestamp) -> Int64 {
        min(max(time.milliseconds, -(1 << 60)), 1 << 60).quotientAndRemainder(flooringBy: 60_000).quotient
    }
}

extension Int64 {
    fileprivate func quotientAndRemainder(flooringBy divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
