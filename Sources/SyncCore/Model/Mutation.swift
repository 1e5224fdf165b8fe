/// The kind of change to a record.
package enum MutationAction: String, Sendable, CaseIterable {
    case create, update, delete
}

package enum Priority: Int, Sendable, CaseIterable, Comparable {
    case critical = 0
    case normal = 1
    case bulk = 2

    package static func < (left: Priority, right: Priority) -> Bool { left.rawValue < right.rawValue }

    /// The word on the wire and in the configuration.
    package var name: String {
        switch self {
        case .critical: "critical"
        case .normal: "normal"
        case .bulk: "bulk"
        }
    }

    package init?(name: String) {
        guard let found = Priority.allCases.first(where: { $0.name == name }) else { return nil }
        self = found
    }
}

/// The state of a mutation. Open states still ask for something. A terminal state is left in two cases: a retry makes
/// `expired` into `resolved`, and another history of the hub that lacks the mutation makes `done` into `inFlight`.
package enum MutationState: Int, Sendable, CaseIterable {
    /// It waits to be sent.
    case pending = 0
    /// It was handed to the network; the outcome is not known yet.
    case inFlight = 1
    /// The hub and the mirror disagree on a field that a person must decide.
    case conflicted = 2
    /// The hub refused it finally; the value is kept until it is acknowledged.
    case rejected = 3
    /// Parked, because it keeps failing alone.
    case failed = 4
    /// Parked, because its row is damaged or its outcome cannot be determined.
    case held = 5
    /// The hub has accepted it.
    case done = 6
    /// Replaced by a newer mutation that `supersedes` it.
    case resolved = 7
    case discarded = 8
    /// Merged into an older mutation before anything was sent.
    case coalesced = 9
    case cancelled = 10
    /// Nothing was left to send.
    case superseded = 11
    /// Its time to live ended before it was sent.
    case expired = 12

    /// The word in the local API, in events and in the log.
    package var name: String {
        switch self {
        case .pending: "pending"
        case .inFlight: "in_flight"
        case .conflicted: "conflicted"
        case .rejected: "rejected"
        case .failed: "failed"
        case .held: "held"
        case .done: "done"
        case .resolved: "resolved"
        case .discarded: "discarded"
        case .coalesced: "coalesced"
        case .cancelled: "cancelled"
        case .superseded: "superseded"
        case .expired: "expired"
        }
    }

    package init?(name: String) {
        guard let found = MutationState.allCases.first(where: { $0.name == name }) else { return nil }
        self = found
    }

    // MARK: Sets of states

    package var isTerminal: Bool { !traits.contains(.open) }

    /// `true` when the mutation is part of what apps see: `view` is `base` with these mutations applied. Leaving out a rejected one is its
    /// rollback.
    package var isFolded: Bool { traits.contains(.folded) }

    /// `true` when later mutations of the same record must wait behind it.
    package var blocksItsRecord: Bool { traits.contains(.blocking) }

    /// `true` when it waits for its turn or for the hub's answer, and nothing is wrong with it.
    package var isUnsettled: Bool { traits.contains(.unsettled) }

    /// `true` when the hub's answer is still to come, perhaps after another try.
    package var isUnanswered: Bool { traits.contains(.unanswered) }

    /// `true` when it goes on only after a decision or another try.
    package var isTroubled: Bool { traits.contains(.troubled) }

    private struct Traits: OptionSet {
        let rawValue: UInt8

        static let open = Traits(rawValue: 1 << 0)
        static let folded = Traits(rawValue: 1 << 1)
        static let blocking = Traits(rawValue: 1 << 2)
        static let unsettled = Traits(rawValue: 1 << 3)
        static let unanswered = Traits(rawValue: 1 << 4)
        static let troubled = Traits(rawValue: 1 << 5)
    }

    /// Everything that code asks about a state. SQL asks the same with numbers; `StateSet` of `SyncStore` holds it to this table.
    private var traits: Traits {
        switch self {
        case .pending: [.open, .folded, .unsettled, .unanswered]
        case .inFlight: [.open, .folded, .unsettled, .unanswered, .blocking]
        case .conflicted: [.open, .folded, .troubled, .blocking]
        case .rejected: [.open, .troubled]
        case .failed, .held: [.open, .folded, .troubled, .unanswered, .blocking]
        case .done, .resolved, .discarded, .coalesced, .cancelled, .superseded, .expired: []
        }
    }
}

/// The payload of a mutation. Frozen from its first transmission on.
package struct MutationContent: Hashable, Sendable {
    package var action: MutationAction
    /// Fields to set; empty for a delete.
    package var data: JSONObject
    /// Fields to remove.
    package var unset: [String]
    package var operations: [FieldOperation]
    /// The values that the author had seen in fields of `data`: for fields whose rule merges objects, and for all fields in a create that
    /// brings a deleted record back. Other fields do not need it.
    package var base: JSONObject
    /// Write times of fields in `data` and `unset` that differ from the time of the mutation, because an earlier mutation was merged into
    /// it (``Coalescing``). Operations carry their own times.
    package var stamps: [JSONString: HybridTime]

    package init(
        _ action: MutationAction, data: JSONObject = [:], unset: [String] = [], operations: [FieldOperation] = [],
        base: JSONObject = [:], stamps: [JSONString: HybridTime] = [:]
    ) {
        self.stamps = stamps
        self.action = action
        self.data = data
        self.unset = unset
        self.operations = operations
        self.base = base
    }

    /// All named fields, in the order set, removed, operated on.
    package var fields: [String] { data.names + unset + operations.map(\.top) }

    /// Removes all parts about some fields, including their base.
    package mutating func removeFields(_ names: Set<JSONString>) {
        for name in names {
            data[name.text] = nil
            base[name.text] = nil
            stamps[name] = nil
        }
        unset.removeAll { names.contains(JSONString($0)) }
        operations.removeAll { names.contains(JSONString($0.top)) }
    }

    /// `true` when there is no content besides the action.
    package var isEmpty: Bool { data.isEmpty && unset.isEmpty && operations.isEmpty }
}

/// A change of a field that commutes, so it needs no base: it states the action instead of the result.
package struct FieldOperation: Hashable, Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        /// Text or list: append `value`.
        case append
        /// Number: add `value`.
        case increment = "inc"
        /// Set: add `value` (one element).
        case add
        /// Set: remove `value`.
        case remove
        case max
        case min

        /// `true` when it operates on a set. Of two operations with the same element, only the later one has an effect.
        package var isOfSet: Bool { self == .add || self == .remove }
    }

    /// The name as given; dotted for a member (``path``).
    package var field: String
    package var kind: Kind
    package var value: JSON
    /// The names from a field of the document down to a member; empty when the operation is on a field. The rules decide which of the two a
    /// name with dots is (``MutationContent/placed(under:)``).
    package var path: [String] = []
    /// The time of the operation, where it differs from that of its mutation.
    package var hlc: HybridTime?

    /// The field of the document that changes.
    package var top: String { path.first ?? field }

    /// The field and the element of a set that the operation is about.
    package struct ElementName: Hashable, Sendable {
        var field: JSONString
        var element: JSON
    }

    package var elementName: ElementName { ElementName(field: JSONString(field), element: SetElement.key(value)) }

    package init(_ field: String, _ kind: Kind, _ value: JSON) {
        self.field = field
        self.kind = kind
        self.value = value
    }
}

/// The degree of trust in a wall-clock stamp.
package enum ClockTrust: String, Sendable {
    case synced, retro, unsynced
}
