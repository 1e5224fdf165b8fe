/// Two sides changed the same, and a person or a rule of the app must decide.
public struct Conflict: Sendable, Equatable, Identifiable {
    /// One side of a disputed field.
    public struct Side: Sendable, Equatable {
        /// The value of this side, which may be `.null`; `nil` if this side does not have the field.
        public var value: JSONValue?
        public var isDeleted: Bool
        public var author: String?
        public var device: String?
        /// Text of RFC 3339 in UTC.
        public var at: String?

        init(_ members: Members) throws(EdgeSyncError) {
            value = members.object["value"]
            isDeleted = try members.optionalFlag("deleted") ?? false
            author = try members.optionalText("author")
            device = try members.optionalText("device")
            at = try members.optionalText("at")
        }
    }

    public struct Field: Sendable, Equatable {
        public var name: String
        public var base: JSONValue?
        public var local: Side
        public var remote: Side

        init(_ members: Members) throws(EdgeSyncError) {
            name = try members.text("field")
            base = members.object["base"]
            local = try Side(try members.inside("local"))
            remote = try Side(try members.inside("remote"))
        }
    }

    /// A decision about one field or about a whole conflict.
    public enum Choice: Sendable, Equatable {
        case local
        case remote
        /// Another value. It is possible for a single field only.
        case value(JSONValue)

        var json: JSONValue {
            switch self {
            case .local: "local"
            case .remote: "remote"
            case .value(let value): ["value": value]
            }
        }
    }

    public var id: String
    public var entity: String
    public var recordID: String
    /// Id of the mutation that is in dispute.
    public var mutation: String?
    /// `field`, `delete_update` or `update_delete`.
    public var kind: String
    /// `open`, `stale` (open, and the hub's side has changed since), `resolving`, `resolved` or `moot`.
    public var state: String
    public var openedAt: String?
    /// Argument `expectRemoteVersion` for ``AgentClient/resolveConflict(_:choice:comment:author:expectRemoteVersion:deadline:)``.
    public var remoteVersion: Int
    public var fields: [Field]
    public var raw: JSONObject

    init(_ members: Members) throws(EdgeSyncError) {
        id = try members.text("id")
        entity = try members.text("entity")
        recordID = try members.text("record_id")
        mutation = try members.optionalText("mutation")
        kind = try members.text("kind")
        state = try members.text("state")
        openedAt = try members.optionalText("opened_at")
        remoteVersion = try members.number("remote_version")
        fields = try members.list("fields") { field throws(EdgeSyncError) in try Field(field) }
        raw = members.object
    }
}
