import SyncCore

/// One run of housekeeping: the rows that have outlived their time, removed in slices of one transaction each.
///
/// Between two slices the hub's other work has its turn. A run that ends early loses nothing: the next one begins with the oldest rows that
/// are left.
package struct HousekeepingRun: Sendable {
    /// Rows of one kind.
    enum Task: Hashable, Sendable {
        case tombstones(before: Timestamp)
        case pastScopes(before: Timestamp)
        case refusals(before: Timestamp)
        case events(EventWalk, keep: Duration)
        /// Keys in the table of an earlier schema, from a page on: they are moved, not removed.
        case earlierKeys(from: Int64)
    }

    /// The result of one slice.
    struct Slice: Hashable, Sendable {
        var removed = 0
        /// The task as it goes on; `nil`: it is over.
        var next: Task?
    }

    /// The time by which the rows are judged, and the name of the run.
    let at: Timestamp
    private var tasks: [Task]
    /// Largest number of rows of one slice that are deleted one by one: some milliseconds.
    var rowsMax = 500
    /// Largest number of events of one slice, which are deleted as one range.
    var eventsMax = 1_000
    /// Largest number of keys of one slice, which are moved together.
    var keysMax = 500

    init(at: Timestamp, _ tasks: [Task]) {
        self.at = at
        self.tasks = tasks
    }

    /// The task of the next slice; `nil`: the run is over.
    var task: Task? { tasks.first }
    /// There is nothing left to do.
    package var isOver: Bool { tasks.isEmpty }

    /// Goes on after a slice.
    mutating func advance(after slice: Slice) {
        guard !tasks.isEmpty else { return }
        tasks.replaceSubrange(0..<1, with: slice.next.map { [$0] } ?? [])
    }

    /// Tasks for deletions before a time.
    static func deletions(before: Timestamp) -> [Task] {
        // Scopes first: a horizon then rises once for most of the rows.
        [.pastScopes(before: before), .tombstones(before: before), .refusals(before: before)]
    }
}

/// Says when the next slice of a run may begin, so that housekeeping takes at most half of the thread, and at most ``timeMax`` a day.
struct HousekeepingPace: Hashable, Sendable {
    let began: Instant

    static let timeMax: Duration = .seconds(3_600)
    static let pauses: ClosedRange<Duration> = .milliseconds(1)...(.seconds(1))

    /// - Parameters:
    ///   - elapsed: Time that the last slice took.
    /// - Returns: The pause before the next slice; `nil`: the run ends here.
    func pause(after elapsed: Duration, at now: Instant) -> Duration? {
        guard began.duration(to: now) < HousekeepingPace.timeMax else { return nil }
        return min(max(elapsed, HousekeepingPace.pauses.lowerBound), HousekeepingPace.pauses.upperBound)
    }
}
