/// A change that an app requests: its form was checked, but it was not yet decided against the mirror.
package struct NewMutation: Hashable, Sendable {
    /// `upsert` becomes `create` or `update` inside the enqueue transaction.
    package enum Action: String, Sendable, CaseIterable { case create, update, upsert, delete }

    package var entity: EntityName
    /// The record's id; `nil` on a create: the agent makes one.
    package var recordID: RecordID?
    package var action: Action
    package var data: JSONObject
    package var unset: [String]
    package var operations: [FieldOperation]
    /// The priority; `nil` means that of the entity.
    package var priority: Priority?
    /// The hub's version that the app has seen; if another version is present, the mutation is refused. It does not distinguish two apps of
    /// one device, ``ifMatch`` does.
    package var expectedVersion: Int64?
    /// The tags of the record as the app has read it; if the record has changed since, the mutation is refused.
    package var ifMatch: EntityTags?
    package var dependsOn: [MutationKey]
    package var coalesces: Bool
    package var ttl: Duration?
    package var author: String?
    package var durability: EntityRules.Durability?
    /// The version of the entity's schema that it is written in; `nil`: the one that apps of this device use.
    package var schema: Int?
    /// Files that the record shows: field and file id.
    package var blobs: [JSON]
    /// See ``MutationContent/base``; only for a mutation that takes the place of another.
    package var base: JSONObject = [:]
    /// See ``MutationContent/stamps``; only for a mutation that takes the place of another, or that was converted.
    package var stamps: [JSONString: HybridTime] = [:]
    /// Size of the mutation as sent, bytes, for quotas.
    package var size: Int

    package init(
        _ action: Action, _ entity: EntityName, _ recordID: RecordID?, data: JSONObject = [:], unset: [String] = [],
        operations: [FieldOperation] = [], priority: Priority? = nil, expectedVersion: Int64? = nil,
        dependsOn: [MutationKey] = [], coalesces: Bool = true, ttl: Duration? = nil, author: String? = nil,
        durability: EntityRules.Durability? = nil, blobs: [JSON] = [], ifMatch: EntityTags? = nil, size: Int = 0
    ) {
        self.action = action
        self.entity = entity
        self.recordID = recordID
        self.data = data
        self.unset = unset
        self.operations = operations
        self.priority = priority
        self.expectedVersion = expectedVersion
        self.dependsOn = dependsOn
        self.coalesces = coalesces
        self.ttl = ttl
        self.author = author
        self.durability = durability
        self.blobs = blobs
        self.ifMatch = ifMatch
        self.size = size
    }
}

/// The requesting app and user, as the access rules see them.
package struct Requester: Hashable, Sendable {
    package var app: AppName
    package var uid: UInt32
    /// Largest number of open mutations of this app; `nil` means no separate limit.
    package var quotaMutations: Int?

    package init(app: AppName, uid: UInt32, quotaMutations: Int? = nil) {
        self.app = app
        self.uid = uid
        self.quotaMutations = quotaMutations
    }
}

/// The app's own idempotency key with a digest of its body.
package struct AppKey: Hashable, Sendable {
    /// 1 to 255 bytes of visible ASCII.
    package var key: String
    /// The first 16 bytes of the SHA-256 of the body.
    package var fingerprint: [UInt8]

    package init(key: String, fingerprint: [UInt8]) {
        self.key = key
        self.fingerprint = fingerprint
    }
}

/// The result of an enqueue. It leaves the agent after the commit, or before it for `relaxed`, and says so then.
package struct Enqueued: Hashable, Sendable {
    package var key: MutationKey
    package var seq: Int64
    package var state: MutationState
    /// The merged view after this mutation; `nil` for an event.
    package var record: RecordSnapshot?
    package var recordName: RecordName
    /// The same app key came before with the same body: this is the first answer again.
    package var isRepeat: Bool
    package var durability: EntityRules.Durability
    /// Violations of the entity's schema. The hub may refuse the mutation for them.
    package var warnings: [Problem.Pointer] = []
    /// Why no form judged the change, although its record names one.
    package var form: FormVerdict.Unjudged?
    /// Values that stay because the mutation's `max` or `min` does not beat them, by the name that the mutation uses.
    package var kept: JSONObject = [:]
    /// The older mutation that this one was merged into, or cancelled with.
    package var into: MutationKey?

    package init(
        key: MutationKey, seq: Int64, state: MutationState, record: RecordSnapshot?, recordName: RecordName,
        isRepeat: Bool, durability: EntityRules.Durability
    ) {
        self.key = key
        self.seq = seq
        self.state = state
        self.record = record
        self.recordName = recordName
        self.isRepeat = isRepeat
        self.durability = durability
    }
}

/// One record of the mirror as apps see it.
package struct RecordSnapshot: Hashable, Sendable {
    package enum SyncStatus: Int, Sendable, CaseIterable {
        case synced = 0
        case pending = 1
        case conflict = 2
        case error = 3

        package var name: String {
            switch self {
            case .synced: "synced"
            case .pending: "pending"
            case .conflict: "conflict"
            case .error: "error"
            }
        }
    }

    package var name: RecordName
    package var serverID: String?
    /// The hub's version of `base`; 0 when the hub never had it.
    package var version: Int64
    package var status: SyncStatus
    package var isDeleted: Bool
    /// The device has dropped the document and keeps a stub of it (``KeepRule``).
    package var isNotKept = false
    /// JSON text of the view (the base with open mutations applied); `nil` when the record does not exist in it.
    package var view: String?
    /// JSON text of the hub's document; `nil` when the hub has none.
    package var base: String?
    package var syncedAt: Timestamp?
    /// Time at which this device first had the record.
    package var createdAt: Timestamp
    package var updatedAt: Timestamp
    /// Keys of the open mutations of this record, oldest first.
    package var pending: [MutationKey]
    /// The oldest conflict of this record that waits for a decision, such as `c-12`.
    package var conflict: String?
    /// Entity tag in quotation marks, which changes whenever any of the above does: see ``EntityTags``.
    package var etag: String

    package init(
        name: RecordName, serverID: String?, version: Int64, status: SyncStatus, isDeleted: Bool, view: String?,
        base: String?, syncedAt: Timestamp?, createdAt: Timestamp, updatedAt: Timestamp, pending: [MutationKey], etag: String
    ) {
        self.name = name
        self.serverID = serverID
        self.version = version
        self.status = status
        self.isDeleted = isDeleted
        self.view = view
        self.base = base
        self.syncedAt = syncedAt
        self.createdAt = createdAt
        self.updatedAt = updatedAt
        self.pending = pending
        self.etag = etag
    }

    /// The answer to a read or a change that needs a document which this device has dropped.
    package static func notKept(_ name: RecordName) -> Problem {
        Problem(
            "not-kept", status: 409, detail: "the record \(name) is not kept on this device",
            members: [
                "entity": .string(name.entity.text), "record_id": .string(name.id.text),
                "fetch": .string("/v1/records/\(name.entity)/\(name.id)?fetch=1"),
            ])
    }
}
