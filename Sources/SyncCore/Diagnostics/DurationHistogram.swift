/// Durations, counted by fixed upper bounds. They cover the range from a fast disk to a worn card, and from a near hub to one behind a
/// satellite. Memory and work are constant.
package struct DurationHistogram: Hashable, Sendable {
    /// Upper bounds, shortest first.
    package static let bounds: [Duration] = [
        .microseconds(250), .milliseconds(1), .milliseconds(5), .milliseconds(25), .milliseconds(100), .milliseconds(500),
        .seconds(2), .seconds(10), .seconds(30),
    ]

    /// Counts by bound, with those above the last one at the end; not cumulative.
    private var counts = [Int64](repeating: 0, count: bounds.count + 1)
    /// Sum of all durations.
    package private(set) var sum: Duration = .zero

    package init() {}

    package var count: Int64 { counts.reduce(0, +) }

    /// Number of durations that are no longer than each of ``bounds``.
    package var cumulative: [Int64] {
        var sum: Int64 = 0
        return counts.dropLast().map { count in
            sum += count
            return sum
        }
    }

    /// Adds a duration. A clock that was set back gives a negative duration, which counts as zero.
    package mutating func add(_ duration: Duration) {
        let duration = max(.zero, duration)
        counts[Self.bounds.firstIndex { duration <= $0 } ?? Self.bounds.count] += 1
        sum += duration
    }
}
