package import SyncCore

/// One event of the persistent journal, in the shape of the local API's stream (PROTOCOL B6).
package struct JournalEvent: Hashable, Sendable {
    /// Increases by one from event to event; a reader continues after the last one it has seen.
    package var id: Int64
    package var at: Timestamp
    package var body: Body

    package enum Body: Hashable, Sendable {
        case mutation(MutationEvent)
        case record(RecordEvent)
        /// Any other type, with its JSON payload as written.
        case note(type: String, json: String)
    }
}

package struct MutationEvent: Hashable, Sendable {
    package var key: MutationKey
    package var seq: Int64
    /// The state that the mutation entered with this event.
    package var state: MutationState
    package var record: RecordName
    /// The present problem of the mutation.
    package var problem: Problem?
    package var into: MutationKey?
}

package struct RecordEvent: Hashable, Sendable {
    package enum Change: String, Hashable, Sendable {
        case upsert, delete
        /// The record has left the share of this device. For apps it is deleted.
        case revoke
    }
    package enum Source: String, Hashable, Sendable { case local, remote }

    package var record: RecordName
    package var change: Change
    package var source: Source
    /// The present version and status.
    package var version: Int64
    package var status: RecordSnapshot.SyncStatus
}

package struct JournalPage: Hashable, Sendable {
    package var events: [JournalEvent]
    /// Id after which to read on. It may be past the last event, where others were filtered out.
    package var next: Int64
    /// The oldest id that is still kept. A reader whose last id is older must read everything again.
    package var oldest: Int64
    /// The newest id; equal to ``next`` when everything is read.
    package var newest: Int64
    /// An event is missing because its mutation has been pruned.
    package var isGapped: Bool
}

package struct JournalFilter: Hashable, Sendable {
    /// `mutation`, `record`, or the type of a note; empty means any.
    package var types: Set<String> = []
    /// Only events about these entities. Notes pass, except those about conflicts of other entities. Empty means any.
    package var entities: Set<EntityName> = []

    package init() {}
}
