package enum ConflictKind: Int, Hashable, Sendable, CaseIterable {
    /// Both sides gave a field different values.
    case field = 0
    /// Deleted on this device, changed at the hub.
    case deleteUpdate = 1
    /// Changed on this device, deleted at the hub.
    case updateDelete = 2

    package var name: String {
        switch self {
        case .field: "field"
        case .deleteUpdate: "delete_update"
        case .updateDelete: "update_delete"
        }
    }

    package init?(name: String) {
        guard let found = ConflictKind.allCases.first(where: { $0.name == name }) else { return nil }
        self = found
    }
}
