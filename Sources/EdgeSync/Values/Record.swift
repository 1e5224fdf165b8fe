/// A record of the local copy.
public struct Record: Sendable, Equatable, Identifiable {
    /// The documents that a read returns.
    public enum View: String, Sendable {
        /// The hub's document with the open mutations applied.
        case merged
        /// The hub's document alone.
        case server
        /// The merged document in ``Record/data`` and the hub's in ``Record/base``.
        case both
    }

    public var entity: String
    public var id: String
    /// Version of the hub's record; 0 before the hub has one.
    public var version: Int
    /// `synced`, `pending`, `conflict` or `error`.
    public var syncStatus: String
    public var isDeleted: Bool
    /// The document; `nil` if there is none in this view.
    public var data: JSONObject?
    /// The hub's document, with the view `both`.
    public var base: JSONObject?
    /// Tag of this state, for ``Mutation/ifMatch``.
    public var etag: String
    public var serverID: String?
    /// Times are texts of RFC 3339 in UTC.
    public var syncedAt: String?
    public var createdAt: String?
    public var updatedAt: String?
    /// Ids of the open mutations.
    public var pending: [String]
    /// Id of the conflict that waits for a decision.
    public var conflict: String?
    /// The whole answer, with members that this library does not know.
    public var raw: JSONObject

    init(_ members: Members) throws(EdgeSyncError) {
        entity = try members.text("entity")
        id = try members.text("id")
        version = try members.number("version")
        syncStatus = try members.text("sync_status")
        isDeleted = try members.flag("deleted")
        data = try members.document("data")
        base = try members.document("base")
        etag = try members.text("etag")
        serverID = try members.optionalText("server_id")
        syncedAt = try members.optionalText("synced_at")
        createdAt = try members.optionalText("created_at")
        updatedAt = try members.optionalText("updated_at")
        pending = try members.texts("pending")
        conflict = try members.optionalText("conflict")
        raw = members.object
    }

    /// The document as a type of the app.
    ///
    /// - Throws: `DecodingError` if the document does not fit, or if there is none.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try (data.map { JSONValue.object($0) } ?? .null).decode(type)
    }
}

/// A type of record that the device has.
public struct Entity: Sendable, Equatable {
    public var name: String
    /// `record`, `event` or `reference`.
    public var kind: String
    /// `write`, `append` or `read`.
    public var access: String
    public var records: Int
    /// Open mutations.
    public var pending: Int
    public var raw: JSONObject

    init(_ members: Members) throws(EdgeSyncError) {
        name = try members.text("name")
        kind = try members.text("kind")
        access = try members.text("access")
        records = try members.number("records")
        pending = try members.number("pending")
        raw = members.object
    }
}
