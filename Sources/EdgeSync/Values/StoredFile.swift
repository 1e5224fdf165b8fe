/// A file that an app gave to the agent, which uploads it, or one that the agent fetches from the hub.
public struct StoredFile: Sendable, Equatable, Identifiable {
    /// A field of a record that shows the file.
    public struct Link: Sendable, Equatable {
        public var entity: String
        public var recordID: String
        public var field: String

        public init(entity: String, recordID: String, field: String) {
            self.entity = entity
            self.recordID = recordID
            self.field = field
        }
    }

    public var id: String
    /// `sha256:` and 64 hexadecimal digits.
    public var digest: String
    /// Bytes of the file.
    public var size: Int
    /// Media type.
    public var type: String
    public var filename: String
    /// `pending`, `uploading`, `verifying`, `uploaded`, `failed` or `missing`; of a file from the hub `fetching`, `fetched` or `failed`.
    public var state: String
    /// Bytes that the server has; of a file from the hub, bytes that are on this device.
    public var offset: Int
    public var attempts: Int
    public var links: [Link]
    /// The server has proved that it has these bytes.
    public var isVerified: Bool
    /// The bytes are on this device.
    public var isKept: Bool
    /// The file comes from the hub; otherwise an app of this device brought it.
    public var isFromHub: Bool
    /// Its bytes do not leave this device when others need room.
    public var isPinned: Bool
    /// Code of the reason why it waits now, and the time until which it waits.
    public var deferred: String?
    public var deferredUntil: String?
    /// Reason why the last attempt failed.
    public var error: String?
    public var raw: JSONObject

    init(_ members: Members) throws(EdgeSyncError) {
        id = try members.text("id")
        digest = try members.text("digest")
        size = try members.number("size")
        type = try members.text("type")
        filename = try members.text("filename")
        state = try members.text("state")
        offset = try members.number("offset")
        attempts = try members.number("attempts")
        links = try members.list("links") { link throws(EdgeSyncError) in
            Link(entity: try link.text("entity"), recordID: try link.text("id"), field: try link.text("field"))
        }
        isVerified = try members.flag("verified")
        isKept = try members.flag("kept")
        // An older agent does not say it.
        isFromHub = try members.optionalText("direction") == "down"
        isPinned = try members.optionalFlag("pinned") ?? false
        let deferral = try members.optionalInside("deferred")
        deferred = try deferral?.text("reason")
        deferredUntil = try deferral?.optionalText("until")
        error = try members.optionalText("error")
        raw = members.object
    }
}
