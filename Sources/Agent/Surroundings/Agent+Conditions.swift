import LocalAPI
import Logging
import SyncCore
import SyncHTTP
import SyncStore

// Collects the conditions for the engine's decisions, and reports changes.
extension Agent {
    /// Interval at which a lasting unmetered link is recorded.
    private static let unmeteredSaveInterval: Duration = .seconds(6 * 3600)

    /// Tells the engine if any condition has changed.
    func tellConditions() {
        let now = environment.time.now()
        recordUnmetered(now)
        let conditions = conditions(at: now)
        guard conditions != around.told else { return }
        around.told = conditions
        handle(.conditions(conditions))
    }

    func conditions(at now: Moment) -> Conditions {
        var conditions = environment.links == nil ? Conditions.plain : Conditions(reachability: reachability)
        conditions.uplink = around.connectivity.uplink
        conditions.power = around.power.level
        if let uplink = conditions.uplink {
            conditions.budgets = around.book.budgets(
                of: uplink.name, loaded.configuration.budget(of: uplink), isRoaming: uplink.isRoaming, at: now)
        }
        conditions.unmeteredSeenAt = around.unmeteredSeenAt
        conditions.oldestNormalAt = around.oldestNormalAt
        conditions.isActive = events.count > 0
        let windows = loaded.configuration.windowSchedule
        conditions.isWindowOpen = windows.isOpen(at: now.wall, offset: environment.localOffset)
        if !conditions.isWindowOpen {
            conditions.windowOpensAt = windows.nextChange(after: now.wall, offset: environment.localOffset)
        }
        return conditions
    }

    /// The reachability for the engine. A hub without a probe may be tried although its presence is not proven.
    private var reachability: Reachability {
        let found = around.connectivity.reachability
        return found == .degraded && around.connectivity.allowsAttempts ? .connecting : found
    }

    private func recordUnmetered(_ now: Moment) {
        guard let uplink = around.connectivity.uplink, !uplink.isMetered else { return }
        // Hours are precise enough for a rule of a day, and equal conditions are no news.
        let hour = Timestamp(milliseconds: now.wall.milliseconds / 3_600_000 * 3_600_000)
        if around.unmeteredSeenAt.map({ $0 < hour || $0 > now.wall }) ?? true { around.unmeteredSeenAt = hour }
        if let saved = around.unmeteredSavedAt, saved.duration(to: now.instant) < Self.unmeteredSaveInterval { return }
        around.unmeteredSavedAt = now.instant
        tellStore { store, moment throws(StoreError) in try store.saveUnmetered(at: hour, now: moment) }
    }

    // MARK: Review

    /// Checks conditions that change with time alone: windows, budgets, the age of waiting work.
    func review() {
        around.reviewWake?.cancel()
        around.reviewWake = nil
        guard !hasStopped else { return }
        let now = environment.time.now()
        around.book.look(now, isTrusted: isClockTrusted)
        let windows = loaded.configuration.windowSchedule
        let conditions = conditions(at: now)
        let change = windows.nextChange(after: now.wall, offset: environment.localOffset)
        let resets = conditions.budgets.filter { $0.level > .open }.compactMap(\.resetsAt)
        tellConditions()
        let refresh = refreshTokenInPause(now)
        guard let next = ([change, refresh].compactMap { $0 } + resets).filter({ $0 > now.wall }).min() else { return }
        // The wait is at most an hour, because the wall clock may be corrected meanwhile.
        let wait = min(now.wall.duration(to: next), .seconds(3600)) + .milliseconds(20)
        around.reviewWake = schedule(after: wait) { $0.review() }
    }

    /// Called when the wall clock was set, or the machine was suspended: planned times are wrong now.
    package func clockStepped() {
        log.notice("the clock was set, or the machine was suspended")
        lookAtClock()
        handle(.clockChanged)
        feed(.timer)
        feed(blob: .timer)
        feed(download: .timer)
        review()
    }

    /// `true` when the hub agrees with the clock within five minutes.
    var isClockTrusted: Bool {
        guard let offset = engine.clock.offset(at: environment.time.now())?.offset else { return false }
        return offset <= HybridClock.aheadMax && offset >= .zero - HybridClock.aheadMax
    }

    /// Loads the age of the oldest normal work, which matters on a metered link only.
    func lookForOldestNormal() {
        guard around.connectivity.uplink?.isMetered == true else { return }
        fromReader { reads, _ throws(StoreError) in
            try reads.oldestNormalAt()
        } then: { agent, result in
            guard case .success(let oldest) = result, oldest != agent.around.oldestNormalAt else { return }
            agent.around.oldestNormalAt = oldest
            agent.tellConditions()
        }
    }
}
