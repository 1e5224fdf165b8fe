/// Decides when the agent tells the hub what had gone wrong: after an outage that is over, or after something was raised, and
/// then not again for an hour. Losing such a report is allowed, so it is tried three times at most.
package struct DiagnosticsWatch: Hashable, Sendable {
    package enum Event: Hashable, Sendable {
        case reachability(Reachability)
        /// Something that a person should know of.
        case raised
        case sent
        case failed
    }

    /// A shorter one is a flap, and its end is news to nobody.
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

    /// Whether a report should go now, as far as its content is concerned; the policy has the last word.
    package func isDue(at now: Instant) -> Bool {
        isWanted && (sentAt.map { $0.duration(to: now) >= Self.interval } ?? true)
    }

    private mutating func want() {
        isWanted = true
        attempts = 0
    }
}
