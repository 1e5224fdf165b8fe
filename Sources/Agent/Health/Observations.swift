import SyncCore

/// What the agent has seen of itself since it started: for status and metrics, never for a decision about data.
struct Observations {
    /// The most urgent priority of enqueues that the engine has not been told of yet.
    var enqueued: Priority?
    var waiters: UInt64 = 0
    var spaceMeasuredAt: Instant?
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
    var bytesUp: Int64 = 0
    var bytesDown: Int64 = 0
    var reachableSince: Timestamp?
    var cause: String?
    /// `ok`, or what the last check of the database complained about.
    var integrity = "ok"
    /// What was lost or repaired when the store was opened, in words.
    var recovery: String?
    /// A commit failed and the store could not be opened again.
    var storeIsReadOnly = false
    /// Things that a person should look at, by code; the newest sentence of each.
    var attention: [String: String] = [:]
}
