package import SyncCore

/// The situation of a verdict in the form for people and programs: part of `why` and `plan`.
package struct SituationNote: Hashable, Sendable {
    /// Name of the ``Reachability``.
    package var reachability: String
    /// Name of the link that carries the sync; `nil`: none.
    package var uplink: String?
    package var isMetered: Bool
    package var isRoaming: Bool
    /// Name of the ``PowerLevel``.
    package var power: String
    package var batteryPercent: Int64?
    /// Name of the ``BudgetLevel``.
    package var budget: String
    /// Rest of the uplink's budget, bytes; `nil`: no limit, or not known.
    package var budgetLeft: Int64?
    package var isPaused: Bool
    package var isBreakerOpen: Bool
    package var isWindowOpen: Bool
    /// Earliest time of the next attempt.
    package var retryAt: Timestamp?

    package init(
        reachability: String, uplink: String? = nil, isMetered: Bool = false, isRoaming: Bool = false,
        power: String = PowerLevel.ample.rawValue, batteryPercent: Int64? = nil,
        budget: String = BudgetLevel.open.rawValue, budgetLeft: Int64? = nil, isPaused: Bool = false,
        isBreakerOpen: Bool = false, isWindowOpen: Bool = true, retryAt: Timestamp? = nil
    ) {
        self.reachability = reachability
        self.uplink = uplink
        self.isMetered = isMetered
        self.isRoaming = isRoaming
        self.power = power
        self.batteryPercent = batteryPercent
        self.budget = budget
        self.budgetLeft = budgetLeft
        self.isPaused = isPaused
        self.isBreakerOpen = isBreakerOpen
        self.isWindowOpen = isWindowOpen
        self.retryAt = retryAt
    }

    package init(_ situation: Situation, batteryPercent: Int64? = nil, now: Timestamp) {
        self.init(
            reachability: situation.reachability.rawValue, uplink: situation.uplink?.name,
            isMetered: situation.uplink?.isMetered ?? false, isRoaming: situation.uplink?.isRoaming ?? false,
            power: situation.power.rawValue, batteryPercent: batteryPercent, budget: situation.budget.rawValue,
            budgetLeft: situation.budgets.map { Int64($0.left(forCritical: true)) }.min(),
            isPaused: situation.pause.map { $0.until.map { $0 > now } ?? true } ?? false,
            isBreakerOpen: situation.isBreakerOpen, isWindowOpen: situation.isWindowOpen,
            retryAt: situation.retryAt.flatMap { $0 > now ? $0 : nil })
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("reachability", reachability)
            writer.name("uplink")
            if let uplink { writer.string(uplink) } else { writer.null() }
            writer.member("metered", isMetered)
            writer.member("roaming", isRoaming)
            writer.member("power", power)
            writer.member("battery_percent", batteryPercent)
            writer.member("budget", budget)
            writer.member("budget_left_bytes", budgetLeft)
            writer.member("paused", isPaused)
            writer.member("breaker_open", isBreakerOpen)
            writer.member("window_open", isWindowOpen)
            if let retryAt { writer.time("retry_at", retryAt) }
        }
    }

    init(_ reader: AnswerReader) {
        self.init(
            reachability: reader.text("reachability") ?? "unknown", uplink: reader.text("uplink"),
            isMetered: reader.bool("metered") ?? false, isRoaming: reader.bool("roaming") ?? false,
            power: reader.text("power") ?? "unknown", batteryPercent: reader.int("battery_percent"),
            budget: reader.text("budget") ?? "unknown", budgetLeft: reader.int("budget_left_bytes"),
            isPaused: reader.bool("paused") ?? false, isBreakerOpen: reader.bool("breaker_open") ?? false,
            isWindowOpen: reader.bool("window_open") ?? true, retryAt: reader.time("retry_at"))
    }
}
