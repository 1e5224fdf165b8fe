package import SyncCore

/// Number of open changes over the last hours, one sample for each ``step``. The graph of `status --watch` shows it for the time before the
/// watch. It is lost when the agent ends.
package struct QueueHistory: Hashable, Sendable {
    package static let step: Duration = .seconds(300)
    /// Largest number of samples: eight hours.
    package static let samplesMax = 96

    /// Samples, oldest first; the last one was taken at ``lastAt``.
    package private(set) var open: [Int64] = []
    package private(set) var lastAt: Timestamp?
    private var dueAt: Instant?

    package init() {}

    package func isDue(at now: Instant) -> Bool { dueAt.map { $0 <= now } ?? true }

    /// - Parameter open: Number of mutations that are open now.
    package mutating func record(_ open: Int64, at now: Moment) {
        // After a suspend, the missed steps repeat the last sample.
        if let dueAt, let last = self.open.last {
            let missed = dueAt.duration(to: now.instant).nanoseconds / Self.step.nanoseconds
            self.open += Array(repeating: last, count: Int(min(max(0, missed), Int64(Self.samplesMax))))
        }
        self.open.append(open)
        if self.open.count > Self.samplesMax { self.open.removeFirst(self.open.count - Self.samplesMax) }
        lastAt = now.wall
        dueAt = now.instant.advanced(by: Self.step)
    }
}
