import SyncCore
import SyncHTTP
import SyncStore

/// Facts that the agent has collected since it started. They are for status and metrics, never for a decision about data.
struct Observations {
    /// Enqueues that were not reported to the engine yet: the most urgent priority, and the earliest expiry.
    var enqueued: (priority: Priority, expiry: Instant?)?
    var waiters: UInt64 = 0
    var waitingCountedAt: Instant?
    /// The last anchor that the store got.
    var anchor: ClockAnchor?
    /// The last result; `nil` before the first check.
    var wallIsSynchronised: Bool?
    var reachableSince: Timestamp?
    var cause: String?
    /// The fault that the last attempt at the hub found; `nil` after a successful cycle.
    var fault: HubFault?
    /// The last facts of files, disk and kernel, and the time of their collection.
    var system: DoctorFacts.System?
    var systemSeenAt: Instant?
    var queue = QueueHistory()
    var queueWake: LoopTimer?
}
