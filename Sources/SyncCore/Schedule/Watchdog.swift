/// Detects that no attempt is made although one should be: the policy allows it, work waits, and there was none for five minutes. No rule
/// of the schedule waits that long without a deferral in the policy's verdict, so the cause is a fault in this program or a lost answer. It
/// is reported, counted and repaired, because an unattended device has no other help.
package struct Watchdog: Hashable, Sendable {
    package static let patience: Duration = .seconds(300)
    /// Delay of a check after which the machine was probably suspended, so that nothing has stalled.
    package static let sleepMin: Duration = .seconds(60)

    /// Returns whether a check that was due at that time comes after a suspend.
    package static func wasAsleep(dueAt: Instant, now: Instant) -> Bool { dueAt.duration(to: now) > sleepMin }

    /// Priorities with waiting work, and the time since when it waits.
    package private(set) var waiting: [Priority: Instant] = [:]
    /// Time of the last sign of work: a call, or an answer of the store.
    private var triedAt: Instant?
    /// Time since which the policy allows some of the waiting work.
    private var allowedSince: Instant?
    /// Number of stalls since the start.
    package private(set) var stalls = 0

    package init() {}

    package mutating func enqueued(_ priority: Priority, at now: Instant) {
        waiting[priority] = waiting[priority] ?? now
    }

    /// A claim down to that priority found no work: the rest waits for something else, which has its own wake-up.
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

    /// - Parameter least: The least urgent priority that may go now; `nil` when none may, or a delay of the schedule holds it back.
    package mutating func look(allowed least: Priority?, at now: Instant) {
        let isAllowed = least.map { least in waiting.keys.contains { $0 <= least } } ?? false
        allowedSince = isAllowed ? allowedSince ?? now : nil
    }

    /// Time at which the patience ends, by the present state.
    package var endsAt: Instant? {
        guard let allowedSince else { return nil }
        return max(allowedSince, triedAt ?? allowedSince).advanced(by: Self.patience)
    }

    /// - Returns: `true` when the patience has ended. It begins again then, and after a suspend.
    package mutating func hasStalled(at now: Instant) -> Bool {
        guard let endsAt, endsAt <= now else { return false }
        allowedSince = now
        triedAt = now
        guard !Self.wasAsleep(dueAt: endsAt, now: now) else { return false }
        stalls += 1
        return true
    }
}
