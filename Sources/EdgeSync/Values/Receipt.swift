/// The agent has stored a mutation.
public struct Receipt: Sendable, Equatable, Identifiable {
    /// Id of the mutation.
    public var id: String
    /// Its place in the outbox.
    public var sequence: Int
    public var state: MutationState
    public var entity: String
    /// Id of the record; the agent's own where the mutation gave none.
    public var recordID: String
    /// Idempotency key under which it was sent; `nil` for a member of an atomic list.
    public var key: String?
    /// The agent had stored it before, under the same key.
    public var isRepeat: Bool
    public var durability: Mutation.Durability
    /// State of the record after the change; `nil` for events, which are not in the local copy.
    public var etag: String?
    public var version: Int?
    public var syncStatus: String?
    /// Document of the record after the change; `nil` for an event or a deletion.
    public var data: JSONObject?
    /// Violations of the entity's schema. The agent accepted the mutation all the same.
    public var warnings: [EdgeSyncError.FieldError]
    /// Why no form judged the change although its record names one: `absent` or `unusable`. The hub judges it when it arrives. `nil` if a
    /// form judged it, or if none had to.
    public var form: FormState?
    /// Values that `max` or `min` has kept because the change does not exceed them, by field.
    public var kept: JSONObject
    /// The whole answer, with members that this library does not know.
    public var raw: JSONObject

    init(_ members: Members, key: String?, isRepeat: Bool) throws(EdgeSyncError) {
        let record = try members.inside("record")
        id = try members.text("id")
        sequence = try members.number("seq")
        state = MutationState(rawValue: try members.text("state"))
        entity = try record.text("entity")
        recordID = try record.text("id")
        self.key = key
        self.isRepeat = isRepeat
        durability = try members.optionalText("durability").flatMap { Mutation.Durability(rawValue: $0) } ?? .flash
        etag = try record.optionalText("etag")
        version = try record.optionalNumber("version")
        syncStatus = try record.optionalText("sync_status")
        data = try record.document("data")
        warnings = EdgeSyncError.FieldError.list(members.object["warnings"])
        form = try members.optionalText("form").map { FormState(rawValue: $0) }
        kept = try members.document("kept") ?? [:]
        raw = members.object
    }
}

/// The result of one mutation of ``AgentClient/enqueue(contentsOf:keyPrefix:deadline:)``.
public struct LineResult: Sendable, Equatable {
    /// Place of the mutation in the list, from 0.
    public var index: Int
    public var key: String
    /// Id of the mutation, or the refusal. Later mutations were stored all the same.
    public var result: Result<String, EdgeSyncError>
    /// The agent had stored it before, under the same key.
    public var isRepeat: Bool
}

/// The fields that ``AgentClient/undo(_:dryRun:deadline:)`` takes back.
public struct UndoReport: Sendable, Equatable {
    /// A field that stays as it is.
    public struct Left: Sendable, Equatable {
        /// Name of the field; empty for the whole record.
        public var field: String
        /// `changed-since`, `not-kept`, `one-way` or `record`.
        public var reason: String
    }

    public var entity: String
    public var recordID: String
    /// Fields that are taken back; empty for the whole record.
    public var fields: [String]
    public var left: [Left]
    /// The mutation that takes them back; `nil` for a dry run.
    public var mutation: Receipt?

    init(_ members: Members) throws(EdgeSyncError) {
        entity = try members.text("entity")
        recordID = try members.text("id")
        fields = try members.texts("fields")
        left = try members.list("left") { left throws(EdgeSyncError) in
            Left(field: try left.text("field"), reason: try left.text("reason"))
        }
        mutation = nil
        if let made = try members.optionalInside("mutation") { mutation = try Receipt(made, key: nil, isRepeat: false) }
    }
}
