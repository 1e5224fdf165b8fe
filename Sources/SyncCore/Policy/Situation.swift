/// All inputs of a policy decision. The operator's settings are part of it, so that the engine, `why`, `plan` and `status` cannot decide by
/// different ones.
package struct Situation: Hashable, Sendable {
    package var settings = PolicySettings()
    package var reachability: Reachability
    /// The fault that the last attempt at the hub found; `nil`: the hub answered, or there was no attempt. It is shown to people and
    /// decides nothing.
    package var fault: HubFault?
    package var pause: EngineMemory.Pause?
    /// Wall time before which no attempt is made, because of backoff or a delay that the server asked for.
    package var retryAt: Timestamp?
    /// The hub has failed for so long that only a probe is sent (PROTOCOL G3).
    package var isBreakerOpen = false
    /// The link that carries the sync; `nil`: none, or not known yet.
    package var uplink: Uplink?
    package var power = PowerLevel.ample
    /// Budgets of the uplink for the day and the month, as far as they are limited.
    package var budgets: [Budget] = []
    /// Time at which an unmetered link was last usable. An installation that never saw one counts from its first start. `nil`: not known,
    /// and only the age of the waiting work can end the wait.
    package var unmeteredSeenAt: Timestamp?
    /// Time at which the oldest waiting mutation of normal priority was enqueued.
    package var oldestNormalAt: Timestamp?
    /// The configured time windows are open now; `windowOpensAt` is when they open next. Without windows they are always open.
    package var isWindowOpen = true
    package var windowOpensAt: Timestamp?
    /// An app reads the events, so it may be waiting for changes by others.
    package var isActive = false
    /// Size of the diagnostics that were sent over metered links since the day (UTC) began, bytes.
    package var diagnosticsSentToday = 0
    /// An operator asked for this cycle with `--force`.
    package var isForced = false

    package init(reachability: Reachability, pause: EngineMemory.Pause? = nil, retryAt: Timestamp? = nil) {
        self.reachability = reachability
        self.pause = pause
        self.retryAt = retryAt
    }

    /// The strictest level among the budgets.
    package var budget: BudgetLevel { budgets.map(\.level).max() ?? .open }

    /// Time at which all budgets of at least that level are open again; `nil` when it is unknown for one of them.
    package func budgetResets(from level: BudgetLevel) -> Timestamp? {
        let hard = budgets.filter { $0.level >= level }
        let known = hard.compactMap(\.resetsAt)
        return known.count == hard.count ? known.max() : nil
    }

    /// Deducts bytes as if they were sent.
    package mutating func spend(_ bytes: Int, _ traffic: TrafficClass) {
        for index in budgets.indices { budgets[index].spend(bytes) }
        if traffic == .diagnostics { diagnosticsSentToday = diagnosticsSentToday.saturatingAdd(max(0, bytes)) }
    }
}

/// The part of the configuration that the policy uses.
package struct PolicySettings: Hashable, Sendable {
    /// Small critical work is sent on a low battery too.
    package var allowsCritical = false
    /// Charge at which low, and saver, end, percent. Used only in sentences: ``PowerLevel`` is decided elsewhere.
    package var lowEndsAtPercent = 18
    package var saverEndsAtPercent = 33
    /// Longest time that normal work waits for an unmetered link before it uses a metered one.
    package var meteredMaxAge: Duration = .seconds(86_400)
    package var pullInterval: Duration = .seconds(60)
    package var meteredPullInterval: Duration = .seconds(1_800)
    /// Outside the time windows nothing is sent, whatever its priority.
    package var windowsHoldAll = false
    /// Longest time that files wait for an unmetered link.
    package var mediaMaxAge: Duration = .seconds(7 * 86_400)

    package init() {}
}
