/// When housekeeping is due (PROTOCOL C9): after a completed cycle, and alone where there are none. Expired work is removed also while the
/// hub is away for weeks, sync is paused or the link costs too much. So nothing here asks whether sending is allowed.
struct Housekeeping: Hashable, Sendable {
    /// Shortest time between two rounds of housekeeping by cycles.
    static let interval: Duration = .seconds(600)
    /// Longest time between two rounds.
    static let intervalMax: Duration = .seconds(24 * 3600)
    /// Shortest time between two rounds for expiry. Telemetry that is enqueued once a second also expires once a second; this groups it.
    static let expirySpacing: Duration = .seconds(60)
    /// Time between two slices.
    static let sliceSpacing: Duration = .seconds(5)

    private var began: Instant?
    /// Start of the last slice.
    private var keptAt: Instant?
    /// Time of the next slice, because the last one left work, or the store refused it.
    private var againAt: Instant?
    /// A lower bound of the earliest end of a time to live among waiting mutations: mutations that were sent in time are not reported.
    private var expiry: Instant?
    /// A slice is running outside of a cycle.
    private(set) var isUnderWay = false

    /// Time at which housekeeping is due without a cycle. Without work for it that is once a day, so that an idle device sleeps.
    var dueAt: Instant? {
        guard let began else { return nil }
        // The first time is soon after the start, because a device that starts every day would never reach it.
        let daily = keptAt?.advanced(by: Self.intervalMax) ?? began.advanced(by: Self.interval)
        var overdue = expiry
        if let wished = expiry, let keptAt { overdue = max(wished, keptAt.advanced(by: Self.expirySpacing)) }
        return [daily, againAt, overdue].compactMap { $0 }.min()
    }

    func isDue(at now: Instant) -> Bool { dueAt.map { $0 <= now } ?? false }

    /// Returns whether a completed cycle should end with housekeeping.
    func isDueAfterCycle(at now: Instant) -> Bool {
        let isRecent = keptAt.map { $0.duration(to: now) < Self.interval } ?? false
        return !isRecent || isDue(at: now)
    }

    mutating func start(at now: Instant) {
        began = now
    }

    mutating func expires(at moment: Instant?) {
        guard let moment else { return }
        expiry = min(expiry ?? moment, moment)
    }

    mutating func begin(at now: Instant) {
        keptAt = now
        againAt = nil
    }

    mutating func beginAlone(at now: Instant) {
        isUnderWay = true
        begin(at: now)
    }

    /// Handles the answer to a slice outside of a cycle.
    mutating func endedAlone(_ answer: StoreAnswer, at now: Instant) {
        isUnderWay = false
        if case .housekept(let more, let expiry) = answer { return ended(more: more, expiry: expiry, at: now) }
        // The disk is full or fails; the store reports it in status.
        againAt = now.advanced(by: Self.interval)
    }

    /// The store's value for all waiting mutations replaces the known one.
    mutating func ended(more: Bool, expiry: Instant?, at now: Instant) {
        self.expiry = expiry
        if more { againAt = now.advanced(by: Self.sliceSpacing) }
    }
}
