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
    /// The version of the configuration that the hub named last, and the one that was refused.
    var offeredConfig: Int64?
    var refusedConfig: Int64?
    var fetchesConfig = false
    /// The last result; `nil` before the first check.
    var wallIsSynchronised: Bool?
    var reachableSince: Timestamp?
    var cause: String?
    /// The fault that the last attempt at the hub found; `nil` after a successful cycle.
    var fault: HubFault?
    /// The last facts of files, disk and kernel, and the time of their collection.
    var system: DoctorFacts.System?
    var systemSeenAt: Instant?
    /// State of the trial of the connection settings.
    var trial = ConfigurationTrial()
    var hasReadTrial = false
    /// Name of the settings in force; `nil` as long as trials are not stored.
    var way: ConfigurationTrial.Name?
    var trialKeys: [String] = []
    var revertedKeys: [String] = []
    var trialWake: LoopTimer?
    var asksInTrial = false
    /// Configuration keys whose values take effect after a restart.
    var restartNeeded: [String] = []
    var queue = QueueHistory()
    var queueWake: LoopTimer?
}
