/// Decides when the agent reports faults to the hub: after an outage that is over, or after an alarm, and then not again for an hour. Such
/// a report may be lost, so it is tried three times at most.
package struct DiagnosticsWatch: Hashable, Sendable {
    package enum Event: Hashable, Sendable {
        case reachability(Reachability)
        /// An alarm that a person should know of.
        case raised
        case sent
        case failed
    }

    /// Shortest outage that is reported; a shorter one is a flap.
    package static let outageMin: Duration = .seconds(60)
    package static let interval: Duration = .seconds(3_600)
    package static let attemptsMax = 3

    private var awaySince: Instant?
    private var isWanted = false
    private var attempts = 0
    private var sentAt: Instant?

    package init() {}

    package mutating func handle(_ event: Event, now: Instant) {
        switch event {
        case .reachability(.online):
            if let awaySince, awaySince.duration(to: now) >= Self.outageMin { want() }
            awaySince = nil
        case .reachability: awaySince = awaySince ?? now
        case .raised: want()
        case .sent:
            isWanted = false
            sentAt = now
        case .failed:
            attempts += 1
            if attempts >= Self.attemptsMax { isWanted = false }
        }
    }

    /// Returns whether a report is due by its content; the policy makes the final decision.
    package func isDue(at now: Instant) -> Bool {
        isWanted && (sentAt.map { $0.duration(to: now) >= Self.interval } ?? true)
    }

    private mutating func want() {
        isWanted = true
        attempts = 0
    }
}
