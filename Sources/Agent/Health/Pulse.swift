package import SyncCore

/// Decides whether the service manager may be told that the agent is healthy: the loop runs, because it asks, and the store's thread has
/// answered recently.
///
/// An fsync of a worn flash card may take half a minute, and killing the agent would not make it faster. So the store has a long time; only
/// a store that never answers again is fixed by a restart.
package struct Pulse: Hashable, Sendable {
    /// Longest time that the store may take for an answer.
    package static let patience: Duration = .seconds(600)

    /// Time of the question that the store has not answered; `nil` if there is none.
    private var askedAt: Instant?

    package init() {}

    /// - Returns: `true` when the store must be asked now.
    package mutating func ask(at now: Instant) -> Bool {
        guard askedAt == nil else { return false }
        askedAt = now
        return true
    }

    package mutating func answered() {
        askedAt = nil
    }

    package func isWell(at now: Instant) -> Bool {
        askedAt.map { $0.duration(to: now) < Self.patience } ?? true
    }
}
