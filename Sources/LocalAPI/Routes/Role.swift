/// The role of a peer, by its credentials and the access rules. Each role includes the ones before it. The raw value is the word in the
/// configuration and in messages.
package enum Role: String, Sendable, CaseIterable, Comparable {
    /// Read the mirror, the mutations, the status and the events.
    case read
    /// Enqueue changes, and cancel and retry one's own.
    case enqueue
    /// Force a sync, pause, resume, set the cost of a link, and change the mutations of others.
    case operate
    /// Check and reload the configuration.
    case admin

    package static func < (left: Role, right: Role) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .read: 1
        case .enqueue: 2
        case .operate: 3
        case .admin: 4
        }
    }
}
