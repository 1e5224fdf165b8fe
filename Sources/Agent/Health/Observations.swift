import SyncCore
import SyncHTTP
import SyncStore

/// What the agent has seen of itself since it started: for status and metrics, never for a decision about data.
struct Observations {
    /// Of enqueues that the engine has not been told of yet: the most urgent priority, and when the first of them expires.
    var enqueued: (priority: Priority, expiry: Instant?)?
    var waiters: UInt64 = 0
    var spaceMeasuredAt: Instant?
    /// When the disk was last full although its file system has room: of a quota, or of the largest size of a file, nobody can ask
    /// how much is left.
    var quotaMetAt: Instant?
    /// Nothing was taken since then.
    var isQuotaUsedUp = false
    var waitingCountedAt: Instant?
    /// The last one that the store was told.
    var anchor: ClockAnchor?
    /// The configuration that the hub has last named, and the one of them that was no good.
    var offeredConfig: Int64?
    var refusedConfig: Int64?
    var fetchesConfig = false
    /// `nil` before the first look.
    var wallIsSynchronised: Bool?
    /// Refusals of the local API by code.
    var refusals: [String: Int64] = [:]
    var cycles = 0
    var failedCycles = 0
    var badReplies: Int64 = 0
    /// Bytes since the start, as the ledger counts them.
    var bytes: [TrafficSeries: (up: Int64, down: Int64)] = [:]
    var enqueueTimes = DurationHistogram()
    var pullTimes = DurationHistogram()
    var pushTimes = DurationHistogram()
    var reachableSince: Timestamp?
    var cause: String?
    /// What the last attempt at the hub found; `nil` once a cycle has gone well.
    var fault: HubFault?
    /// `ok`, or what the last check of the database complained about.
    var integrity = "ok"
    /// What went wrong last with the database or its disk, and passed.
    var recovery: Recovery?
    /// A commit failed and the store could not be opened again.
    var storeIsReadOnly = false
    /// Why the database cannot be used at the moment; `nil` while it can.
    var storeFault: StoreError?
    /// What files, disk and kernel said last, and when they were asked.
    var system: DoctorFacts.System?
    var systemSeenAt: Instant?
    /// Of the hub, by its answers since the start.
    var hubAnsweredAt: Instant?
    var certificateEndsAt: Timestamp?
    var syncVersion: Int?
    var foreignVersions: [Int] = []
    /// Of the token that was shown last, as the hub says.
    var tokenEndsAt: Timestamp?
    var tokenRefreshAt: Timestamp?
    var refreshesToken = false
    var refreshTriedAt: Instant?
    /// When the hub is told what had gone wrong.
    var diagnostics = DiagnosticsWatch()
    var sendsDiagnostics = false
    /// `nil` before the first lookup.
    var isHubResolved: Bool?
    /// The way to the hub: what of it is on trial, and what was taken back.
    var trial = ConfigurationTrial()
    var hasReadTrial = false
    /// The name of the way in force; `nil` as long as nobody writes trials down.
    var way: ConfigurationTrial.Name?
    var trialKeys: [String] = []
    var revertedKeys: [String] = []
    var trialWake: LoopTimer?
    var asksInTrial = false
    /// Keys of the files whose values wait for a restart.
    var restartNeeded: [String] = []
    var queue = QueueHistory()
    var queueWake: LoopTimer?
    /// What happened and nobody has acknowledged.
    var alarms = AlarmHistory()
    /// Things that a person should look at, by code; the newest sentence of each.
    var attention: [String: String] = [:]
}

/// What one row of `agentd_bytes_total` is about.
struct TrafficSeries: Hashable, Comparable {
    var link: String
    var purpose: UsagePurpose

    static func < (left: TrafficSeries, right: TrafficSeries) -> Bool {
        (left.link, left.purpose.rawValue) < (right.link, right.purpose.rawValue)
    }
}
