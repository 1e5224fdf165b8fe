/// Notices that nothing happens although something should: the policy allows it, work waits, and for five minutes nobody
/// tried. No rule of the schedule waits that long without saying so in the policy's verdict, so this is a mistake of ours
/// or an answer that got lost. It is reported, counted and repaired, because an unattended device has nobody else.
package struct Watchdog: Hashable, Sendable {
    package static let patience: Duration = .seconds(300)
    /// Whoever looks so long after the time to look was asleep: the machine was suspended, and nothing stood still meanwhile.
    package static let sleepMin: Duration = .seconds(60)

    /// Whether a look that was due then comes after a sleep.
    package static func wasAsleep(dueAt: Instant, now: Instant) -> Bool { dueAt.duration(to: now) > sleepMin }

    /// Priorities of which something is known to wait, and since when.
    package private(set) var waiting: [Priority: Instant] = [:]
    /// The last sign of work: a call, or an answer of the store.
    private var triedAt: Instant?
    /// Since when the policy lets something of it go.
    private var allowedSince: Instant?
    /// How often it had to help since the start.
    package private(set) var stalls = 0

    package init() {}

    package mutating func enqueued(_ priority: Priority, at now: Instant) {
        waiting[priority] = waiting[priority] ?? now
    }

    /// A claim down to that priority found nothing to take: what is left waits for something else, and that has its own
    /// wake-up.
    package mutating func drained(downTo least: Priority) {
        for priority in Priority.allCases where priority <= least { waiting[priority] = nil }
    }

    package mutating func tried(at now: Instant) {
        triedAt = now
    }

    /// A job was never answered.
    package mutating func hung() {
        stalls += 1
    }

    /// - Parameter least: What may go now; `nil` when nothing may, or a wait that the schedule wants holds it back.
    package mutating func look(allowed least: Priority?, at now: Instant) {
        let isAllowed = least.map { least in waiting.keys.contains { $0 <= least } } ?? false
        allowedSince = isAllowed ? allowedSince ?? now : nil
    }

    /// When patience ends, as things are.
    package var endsAt: Instant? {
        guard let allowedSince else { return nil }
        return max(allowedSince, triedAt ?? allowedSince).advanced(by: Self.patience)
    }

    /// - Returns: Whether patience has ended. It begins anew then, and after a sleep.
    package mutating func hasStalled(at now: Instant) -> Bool {
        guard let endsAt, endsAt <= now else { return false }
        allowedSince = now
        triedAt = now
        guard !Self.wasAsleep(dueAt: endsAt, now: now) else { return false }
        stalls += 1
        return true
    }
}
