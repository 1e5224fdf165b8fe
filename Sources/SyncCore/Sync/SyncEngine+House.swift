// Housekeeping (PROTOCOL C9), after a completed cycle, and alone where there are none. Expired work is removed also while the hub is away
// for weeks, sync is paused or the link costs too much. So nothing here asks whether sending is allowed.
extension SyncEngine {
    /// Shortest time between two rounds of housekeeping by cycles.
    static let housekeepingInterval: Duration = .seconds(600)
    /// Longest time between two rounds.
    static let housekeepingMax: Duration = .seconds(24 * 3600)
    /// Shortest time between two rounds for expiry. Telemetry that is enqueued once a second also expires once a second; this groups it.
    static let expirySpacing: Duration = .seconds(60)
    /// Time between two slices.
    static let sliceSpacing: Duration = .seconds(5)

    struct House: Hashable, Sendable {
        var began: Instant?
        /// Start of the last slice.
        var keptAt: Instant?
        /// Time of the next slice, because the last one left work, or the store refused it.
        var againAt: Instant?
        /// A lower bound of the earliest end of a time to live among waiting mutations: mutations that were sent in time are not reported.
        var expiry: Instant?
        /// A slice is running outside of a cycle.
        var isUnderWay = false

        /// Time at which housekeeping is due without a cycle. Without work for it that is once a day, so that an idle device sleeps.
        var dueAt: Instant? {
            guard let began else { return nil }
            // The first time is soon after the start, because a device that starts every day would never reach it.
            let daily = keptAt?.advanced(by: SyncEngine.housekeepingMax) ?? began.advanced(by: SyncEngine.housekeepingInterval)
            var overdue = expiry
            if let wished = expiry, let keptAt { overdue = max(wished, keptAt.advanced(by: SyncEngine.expirySpacing)) }
            return [daily, againAt, overdue].compactMap { $0 }.min()
        }

        func isDue(at now: Instant) -> Bool { dueAt.map { $0 <= now } ?? false }

        mutating func expires(at moment: Instant?) {
            guard let moment else { return }
            expiry = min(expiry ?? moment, moment)
        }
    }

    /// `true` when no store command and no call is running, also outside of a cycle.
    var isFree: Bool { cycle == nil && !durable.isSaving && !house.isUnderWay }

    /// Runs housekeeping as the last step of a cycle.
    mutating func keepHouse(at moment: Moment, _ effects: inout [SyncEffect]) {
        let isRecent = house.keptAt.map { $0.duration(to: moment.instant) < Self.housekeepingInterval } ?? false
        if isRecent, !house.isDue(at: moment.instant) { return succeed(at: moment, &effects) }
        advance(to: .housekeeping)
        beginHousekeeping(at: moment, &effects)
    }

    mutating func keepHouseIfDue(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard house.isDue(at: moment.instant) else { return }
        house.isUnderWay = true
        beginHousekeeping(at: moment, &effects)
    }

    private mutating func beginHousekeeping(at moment: Moment, _ effects: inout [SyncEffect]) {
        house.keptAt = moment.instant
        house.againAt = nil
        effects.append(.store(.housekeep))
    }

    /// Handles the answer to a slice outside of a cycle.
    mutating func housekept(_ answer: StoreAnswer, at moment: Moment) {
        house.isUnderWay = false
        if case .housekept(let more, let expiry) = answer { return housekept(more: more, expiry: expiry, at: moment) }
        // The disk is full or fails; the store reports it in status.
        house.againAt = moment.instant.advanced(by: Self.housekeepingInterval)
    }

    /// The store's value for all waiting mutations replaces the known one.
    mutating func housekept(more: Bool, expiry: Instant?, at moment: Moment) {
        house.expiry = expiry
        if more { house.againAt = moment.instant.advanced(by: Self.sliceSpacing) }
    }
}
