package import SyncCore

/// Whether the service manager may be told that all is well: the loop turns, because it asks, and the store's thread has
/// answered lately.
///
/// An fsync of a worn flash card may take half a minute, and killing the agent would not make it quicker. So the store has
/// long; it is one that never answers again that a restart mends.
package struct Pulse: Hashable, Sendable {
    /// How long the store may be silent.
    package static let patience: Duration = .seconds(600)

    /// When the question was asked that the store has not answered; `nil` while it owes none.
    private var askedAt: Instant?

    package init() {}

    /// - Returns: Whether it is to be asked now.
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
