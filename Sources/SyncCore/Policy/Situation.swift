/// Everything that a policy decision looks at. The operator's settings belong to it, so that the engine, `why`, `plan`
/// and `status` cannot decide by different ones.
package struct Situation: Hashable, Sendable {
    package var settings = PolicySettings()
    package var reachability: Reachability
    /// What the last attempt at the hub found; `nil`: it answered, or there was none. It decides nothing: it is what people are told.
    package var fault: HubFault?
    package var pause: EngineMemory.Pause?
    /// Wall time before which no attempt is made: backoff, or the server's wish.
    package var retryAt: Timestamp?
    /// The hub has failed for so long that only a probe is sent (PROTOCOL G3).
    package var isBreakerOpen = false
    /// `nil`: none, or not known yet.
    package var uplink: Uplink?
    package var power = PowerLevel.ample
    /// Day and month of the uplink, as far as they are limited.
    package var budgets: [Budget] = []
    /// When an unmetered link was last usable. An installation that never saw one counts from its first start; `nil`: not
    /// known, and only the age of what waits can end the waiting.
    package var unmeteredSeenAt: Timestamp?
    /// When the oldest waiting mutation of normal priority was enqueued.
    package var oldestNormalAt: Timestamp?
    /// Whether the configured time windows are open now, and when that changes. Without windows they are always open.
    package var isWindowOpen = true
    package var windowOpensAt: Timestamp?
    /// An app follows the events: somebody may be waiting for what others do.
    package var isActive = false
    /// Bytes of diagnostics sent over metered links since the day (UTC) began.
    package var diagnosticsSentToday = 0
    /// An operator asked for this cycle with `--force`.
    package var isForced = false

    package init(reachability: Reachability, pause: EngineMemory.Pause? = nil, retryAt: Timestamp? = nil) {
        self.reachability = reachability
        self.pause = pause
        self.retryAt = retryAt
    }

    /// The hardest level among the budgets.
    package var budget: BudgetLevel { budgets.map(\.level).max() ?? .open }

    /// When all budgets of at least that level are open again; `nil` when one of them does not say.
    package func budgetResets(from level: BudgetLevel) -> Timestamp? {
        let hard = budgets.filter { $0.level >= level }
        let known = hard.compactMap(\.resetsAt)
        return known.count == hard.count ? known.max() : nil
    }

    /// As it will be when that many bytes more were sent.
    package mutating func spend(_ bytes: Int, _ traffic: TrafficClass) {
        for index in budgets.indices { budgets[index].spend(bytes) }
        if traffic == .diagnostics { diagnosticsSentToday = diagnosticsSentToday.saturatingAdd(max(0, bytes)) }
    }
}

/// What of the configuration the policy decides by.
package struct PolicySettings: Hashable, Sendable {
    /// Small critical work goes on a low battery too.
    package var allowsCritical = false
    /// Percent of charge at which low, and saver, end. For the sentences only: ``PowerLevel`` is decided elsewhere.
    package var lowEndsAtPercent = 18
    package var saverEndsAtPercent = 33
    /// Normal work waits this long for an unmetered link, then goes over a metered one.
    package var meteredMaxAge: Duration = .seconds(86_400)
    package var pullInterval: Duration = .seconds(60)
    package var meteredPullInterval: Duration = .seconds(1_800)
    /// Outside the time windows nothing goes, whatever its priority.
    package var windowsHoldAll = false
    /// Files wait this long.
    package var mediaMaxAge: Duration = .seconds(7 * 86_400)

    package init() {}
}
