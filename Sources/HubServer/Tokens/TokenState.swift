package import SyncCore

/// The state of a device's credential.
package enum TokenState: Hashable, Sendable {
    /// The device never had a token: it shows a certificate, or the hub requires none.
    case none
    case revoked
    case ended(Timestamp)
    /// `nil`: it does not expire. Overdue: nine tenths of its life are over; a device requests the next one after eight.
    case valid(until: Timestamp?, isOverdue: Bool)

    package init(_ entries: [TokenBook.Entry], at now: Timestamp) {
        let valid = entries.filter { $0.revokedAt == nil && !$0.isOver(at: now) }
        if entries.isEmpty {
            self = .none
        } else if valid.isEmpty {
            let ends = entries.filter { $0.revokedAt == nil }.compactMap(\.endsAt)
            self = ends.max().map { .ended($0) } ?? .revoked
        } else {
            let last = valid.max { ($0.endsAt ?? Timestamp(milliseconds: .max)) < ($1.endsAt ?? Timestamp(milliseconds: .max)) }
            let end = last?.endsAt
            let isOverdue = last.flatMap { last in end.map { now.duration(to: $0) * 10 < last.createdAt.duration(to: $0) } } ?? false
            self = .valid(until: end, isOverdue: isOverdue)
        }
    }

    package var word: String {
        switch self {
        case .none: "none"
        case .revoked: "revoked"
        case .ended: "ended"
        case .valid: "valid"
        }
    }
}
