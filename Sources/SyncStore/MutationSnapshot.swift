package import SyncCore

/// One mutation with all that is known about it.
package struct MutationSnapshot: Hashable, Sendable {
    package var seq: Int64
    package var key: MutationKey
    package var record: RecordName
    package var action: MutationAction
    package var state: MutationState
    package var priority: Priority
    package var app: AppName
    package var uid: UInt32
    package var author: String?
    /// JSON text, as it was enqueued: an object, an array of names, an array of operations, an array of keys.
    package var data: String?
    package var unset: String?
    package var operations: String?
    package var dependsOn: String?
    package var group: GroupID?
    package var baseVersion: Int64
    package var createdAt: Timestamp
    /// Its bytes have left, or may have: key and payload are frozen.
    package var isSent: Bool
    package var firstSentAt: Timestamp?
    /// Failures that the hub answered about this one.
    package var attempts: Int
    /// Not before this time, by the present wall clock.
    package var nextAttempt: Timestamp?
    /// When its time to live is over, by the present wall clock; `nil` when nothing can expire: it was sent, it is critical, it
    /// is settled.
    package var expiresAt: Timestamp?
    /// Why it is where it is, as a problem document; `fields` and `current` are in it for a conflict.
    package var problem: Problem?
    /// The mutation that answers for this one: a newer one, or the older one that it went into.
    package var into: MutationKey?
    /// Where that stands.
    package var intoState: MutationState?
    /// The older mutation that this one answers for.
    package var supersedes: MutationKey?
    package var bytes: Int

    /// What became of what was asked for: of a mutation that went into an older one, where that stands.
    package var presentState: MutationState { state == .coalesced ? intoState ?? .done : state }
}

package struct MutationHistory: Hashable, Sendable {
    package var at: Timestamp
    package var state: MutationState

    package init(at: Timestamp, state: MutationState) {
        self.at = at
        self.state = state
    }
}

/// Which mutations to list, in the order of `seq`.
package struct MutationQuery: Hashable, Sendable {
    /// Empty means any.
    package var states: Set<MutationState> = []
    package var entity: EntityName?
    package var recordID: RecordID?
    package var app: AppName?
    /// Only those after this `seq`.
    package var after: Int64 = 0
    /// 1 to 1,000. A page also ends after ``StoreReads/pageBytes``.
    package var limit = 100

    package init() {}
}

package struct MutationPage: Hashable, Sendable {
    package var items: [MutationSnapshot]
    /// What to go on after; `nil` after the last.
    package var next: Int64?

    package init(items: [MutationSnapshot], next: Int64?) {
        self.items = items
        self.next = next
    }
}
