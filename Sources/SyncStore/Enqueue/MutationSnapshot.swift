package import SyncCore

/// One mutation with all known facts about it.
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
    /// JSON texts as enqueued: an object, an array of names, an array of operations, an array of keys.
    package var data: String?
    package var unset: String?
    package var operations: String?
    package var dependsOn: String?
    package var group: GroupID?
    package var baseVersion: Int64
    package var createdAt: Timestamp
    /// Its bytes have left or may have left: key and payload are frozen.
    package var isSent: Bool
    package var firstSentAt: Timestamp?
    /// Number of failures that the hub reported for this mutation.
    package var attempts: Int
    /// Earliest time of the next attempt, by the present wall clock.
    package var nextAttempt: Timestamp?
    /// End of its time to live, by the present wall clock; `nil` for a mutation that cannot expire, because it was sent, is critical or is
    /// settled.
    package var expiresAt: Timestamp?
    /// The reason for its state, as a problem document. For a conflict, it holds `fields` and `current`.
    package var problem: Problem?
    /// The mutation that replaces this one: a newer one, or the older one that it was merged into.
    package var into: MutationKey?
    /// The state of that mutation.
    package var intoState: MutationState?
    /// The older mutation that this one replaces.
    package var supersedes: MutationKey?
    package var bytes: Int

    /// The state of the request: for a mutation that was merged into an older one, that one's state.
    package var presentState: MutationState { state == .coalesced ? intoState ?? .done : state }
}

package struct MutationHistory: Hashable, Sendable {
    package var at: Timestamp
    package var state: MutationState
}

/// Selects the mutations to list, in the order of `seq`.
package struct MutationQuery: Hashable, Sendable {
    /// Empty means any.
    package var states: Set<MutationState> = []
    package var entity: EntityName?
    package var recordID: RecordID?
    package var app: AppName?
    /// Only mutations after this `seq`.
    package var after: Int64 = 0
    /// 1 to 1,000. A page also ends after ``StoreReads/pageBytes``.
    package var limit = 100

    package init() {}
}

package struct MutationPage: Hashable, Sendable {
    package var items: [MutationSnapshot]
    /// The `seq` to continue after; `nil` after the last page.
    package var next: Int64?
}
