/// Something happened on this device, or came from the hub.
public struct FeedEvent: Sendable, Equatable {
    /// The kinds of events that a feed can be restricted to.
    public enum Kind: String, Sendable {
        case record, mutation, conflict, blob, sync, link, connectivity, policy, power, config, attention
    }

    /// Place of this event in the feed. Store it when the event is handled, and pass it as `after` to go on behind this event.
    public struct Position: RawRepresentable, Sendable, Hashable, Comparable, Codable, CustomStringConvertible {
        public var rawValue: Int

        public init(rawValue: Int) { self.rawValue = rawValue }

        /// - Returns: `nil` if the text is not the description of a position.
        public init?(_ text: String) {
            guard let number = Int(text), number >= 0 else { return nil }
            rawValue = number
        }

        public var description: String { String(rawValue) }
        public static func < (one: Position, other: Position) -> Bool { one.rawValue < other.rawValue }
    }

    public enum Content: Sendable, Equatable {
        /// The feed begins here, so the app must now read what it needs. The first event of a feed without `after` is this one.
        /// It comes again, with a gap, when a position is older than what the agent keeps (50,000 events, 30 days).
        case reload(isGap: Bool)
        case record(RecordChange)
        case mutation(MutationChange)
        case conflict(ConflictChange)
        case file(FileChange)
        /// An event of another type; ``FeedEvent/raw`` has its members.
        case other
    }

    /// A record of the local copy has changed. ``AgentClient/record(_:_:view:deadline:)`` reads it.
    public struct RecordChange: Sendable, Equatable {
        public var entity: String
        public var id: String
        public var isDeletion: Bool
        /// The record has left the share of this device, and others may still have it. ``isDeletion`` is `true` as well.
        public var isRevoked: Bool
        /// The change came from the hub, and not from an app of this device.
        public var isRemote: Bool
        public var version: Int
        public var syncStatus: String
    }

    /// A mutation has a new state.
    public struct MutationChange: Sendable, Equatable {
        public var id: String
        public var state: MutationState
        public var entity: String
        public var recordID: String
        public var problem: MutationItem.Problem?
        /// Id of the mutation that this one was merged into.
        public var into: String?
    }

    /// A conflict was opened, or has a new state.
    public struct ConflictChange: Sendable, Equatable {
        public var id: String
        public var entity: String
        public var recordID: String
        public var state: String
        public var fields: [String]
    }

    /// A file has a new state, or the server has more of it.
    public struct FileChange: Sendable, Equatable {
        public var id: String
        public var state: String
        public var offset: Int
        public var size: Int
    }

    public var position: Position
    /// The agent's word for the kind of event.
    public var type: String
    public var content: Content
    /// The event as the agent sent it.
    public var raw: JSONObject
}

extension FeedEvent {
    /// Reads one block of the feed. An event of a type that is not known becomes `other`.
    init(_ block: EventBlock, at position: Int) throws(EdgeSyncError) {
        let value: JSONValue
        do { value = try JSONParser.parse(block.data) } catch {
            throw .badAnswer("the event \(position) is not JSON: \(error)")
        }
        let members = try Members(value, "the event \(position)")
        self.position = Position(rawValue: position)
        type = block.type
        raw = members.object
        switch block.type {
        case EventBlock.start: content = .reload(isGap: false)
        case "reset": content = .reload(isGap: true)
        case "record":
            content = .record(
                RecordChange(
                    entity: try members.text("entity"), id: try members.text("id"),
                    isDeletion: try members.text("change") == "delete", isRevoked: try members.optionalText("reason") == "revoked",
                    isRemote: try members.text("source") == "remote", version: try members.number("version"),
                    syncStatus: try members.text("sync_status")))
        case "mutation":
            var problem: MutationItem.Problem?
            if let note = try members.optionalInside("problem") { problem = try MutationItem.Problem(note) }
            content = .mutation(
                MutationChange(
                    id: try members.text("id"), state: MutationState(rawValue: try members.text("state")),
                    entity: try members.text("entity"), recordID: try members.text("record_id"), problem: problem,
                    into: try members.optionalText("into")))
        case "conflict":
            content = .conflict(
                ConflictChange(
                    id: try members.text("id"), entity: try members.text("entity"), recordID: try members.text("record_id"),
                    state: try members.text("state"), fields: try members.texts("fields")))
        case "blob":
            content = .file(
                FileChange(
                    id: try members.text("id"), state: try members.text("state"), offset: try members.number("offset"),
                    size: try members.number("size")))
        default: content = .other
        }
    }
}
