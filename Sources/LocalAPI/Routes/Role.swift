/// What a peer may do, from its credentials and the access rules. Each role includes the ones before it.
package enum Role: Int, Sendable, CaseIterable, Comparable {
    /// Read the mirror, the mutations, the status and the events.
    case read = 1
    /// Ask for changes, take back and repeat one's own.
    case enqueue = 2
    /// Force a sync, pause, resume.
    case operate = 3
    /// Check and reload the configuration.
    case admin = 4

    package static func < (left: Role, right: Role) -> Bool { left.rawValue < right.rawValue }

    /// The word in the configuration and in messages.
    package var name: String {
        switch self {
        case .read: "read"
        case .enqueue: "enqueue"
        case .operate: "operate"
        case .admin: "admin"
        }
    }

    package init?(name: String) {
        guard let found = Role.allCases.first(where: { $0.name == name }) else { return nil }
        self = found
    }
}
