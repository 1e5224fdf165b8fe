/// Durations as text: `500ms`, `30s`, `5m`, `2h`, `7d` are read and written; `3 h 04 min` is shown to people.
package enum DurationText {
    private static let units: [(name: String, factor: Int64)] = [
        ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000),
    ]

    /// 10,000 years: a time that is this far from any wall time can still be computed.
    private static let millisecondsMax: Int64 = 3_650_000 * 86_400_000

    /// - Returns: `nil` for any other text, for a negative duration, and for more than 10,000 years.
    package static func parse(_ text: String) -> Duration? {
        guard let milliseconds = quantity(text, units), milliseconds <= millisecondsMax else { return nil }
        return .milliseconds(milliseconds)
    }

    /// The duration in the form that ``parse(_:)`` reads, in the largest unit that gives a whole number, except `60s` and `24h` instead of
    /// `1m` and `1d`, which are more usual.
    package static func exact(_ duration: Duration) -> String {
        let milliseconds = duration.milliseconds
        if milliseconds == 60_000 { return "60s" }
        if milliseconds == 86_400_000 { return "24h" }
        if milliseconds == 0 { return "0s" }
        let unit = units.last { milliseconds % $0.factor == 0 } ?? units[0]
        return String(milliseconds / unit.factor) + unit.name
    }

    /// The duration for people: `38 s`, `41 min`, `3 h 04 min`, `3 d 04 h`; never negative.
    package static func readable(_ duration: Duration) -> String {
        let seconds = max(0, duration.components.seconds)
        switch seconds {
        case ..<120: return "\(seconds) s"
        case ..<7_200: return "\(seconds / 60) min"
        case ..<172_800: return "\(seconds / 3_600) h \(PlainText.digits(seconds / 60 % 60, 2)) min"
        default: return "\(seconds / 86_400) d \(PlainText.digits(seconds / 3_600 % 24, 2)) h"
        }
    }

    /// The first part of ``readable(_:)``, for a quick look: `38 s`, `41 min`, `3 h`, `3 d`.
    package static func rough(_ duration: Duration) -> String {
        readable(duration).split(separator: " ").prefix(2).joined(separator: " ")
    }

    /// The time since `time`, for people: `41 min ago`.
    package static func age(of time: Timestamp, at now: Timestamp) -> String { readable(time.duration(to: now)) + " ago" }
}
