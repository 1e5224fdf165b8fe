// Housekeeping (PROTOCOL C9): after a cycle that came to its end, and by itself where none does. A hub that is away for weeks, a
// pause or a link that costs too much is no reason to keep what is over: so nothing here asks what may be sent.
extension SyncEngine {
    /// Cycles do not keep house more often than this.
    static let housekeepingInterval: Duration = .seconds(600)
    /// At the latest this long after the last time.
    static let housekeepingMax: Duration = .seconds(24 * 3600)
    /// Telemetry that is enqueued once a second also expires once a second: what is over in so long goes together.
    static let expirySpacing: Duration = .seconds(60)
    /// From one slice to the next.
    static let sliceSpacing: Duration = .seconds(5)

    struct House: Hashable, Sendable {
        var began: Instant?
        /// When the last slice was begun.
        var keptAt: Instant?
        /// The last slice left something to do, or the store refused it.
        var againAt: Instant?
        /// When the first time to live of what waits is over, or earlier: what was sent in time is not told.
        var expiry: Instant?
        /// A slice is under way outside of a cycle.
        var isUnderWay = false

        /// When it has to be done without a cycle. Without work for it that is once a day, so that an idle device sleeps.
        var dueAt: Instant? {
            guard let began else { return nil }
            // A device that starts every day would never come to it: so soon after the start, for once.
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

    /// No store command and no call is under way outside of a cycle either.
    var isFree: Bool { cycle == nil && saving == nil && !house.isUnderWay }

    /// The last step of a cycle.
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

    /// The answer to a slice outside of a cycle.
    mutating func housekept(_ answer: StoreAnswer, at moment: Moment) {
        house.isUnderWay = false
        if case .housekept(let more, let expiry) = answer { return housekept(more: more, expiry: expiry, at: moment) }
        // A full or a failing disk; the store says it in status.
        house.againAt = moment.instant.advanced(by: Self.housekeepingInterval)
    }

    /// What the store knows of all that waits replaces what was known.
    mutating func housekept(more: Bool, expiry: Instant?, at moment: Moment) {
        house.expiry = expiry
        if more { house.againAt = moment.instant.advanced(by: Self.sliceSpacing) }
    }
}
