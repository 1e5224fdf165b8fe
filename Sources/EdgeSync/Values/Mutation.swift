/// One change of one record that an app asks for.
///
///     var change = Mutation.update("work_orders", "wo-1", ["status": "done"])
///     change.key = "inspection-7781"
public struct Mutation: Sendable, Equatable {
    public enum Action: String, Sendable {
        case create, update, upsert, delete
    }

    public enum Priority: String, Sendable {
        case critical, normal, bulk
    }

    public enum Durability: String, Sendable {
        /// The answer comes when the change is on flash.
        case flash
        /// The change is on flash within a second after the answer. The entity must allow it.
        case relaxed
    }

    /// A change of one field that says what to do instead of what results.
    public struct Operation: Sendable, Equatable {
        public enum Operator: String, Sendable {
            case append, increment = "inc", add, remove, max, min
        }

        /// Name of the field. It may be a member of an object, such as `form.count`.
        public var field: String
        public var `operator`: Operator
        public var value: JSONValue

        public init(_ field: String, _ operator: Operator, _ value: JSONValue) {
            self.field = field
            self.operator = `operator`
            self.value = value
        }
    }

    /// A file that a field of a record shows.
    public struct Attachment: Sendable, Equatable {
        public var field: String
        /// Id of the file, from ``AgentClient/addFile(at:filename:type:deadline:)``.
        public var file: String

        public init(_ field: String, _ file: String) {
            self.field = field
            self.file = file
        }
    }

    /// Type of the record, as the configuration names it.
    public var entity: String
    public var action: Action
    /// Id of the record. A `create` without one gets an id from the agent.
    public var recordID: String?
    /// Fields to set.
    public var data: JSONObject?
    /// Fields to remove.
    public var unset: [String] = []
    public var operations: [Operation] = []
    public var attachments: [Attachment] = []
    /// Idempotency key, 1 to 255 characters of visible ASCII, unique for the app. The agent applies all requests with one key
    /// once, for 30 days. Without a key the client makes one. That protects the retries of one call, but not a repeat after a
    /// restart of the app.
    public var key: String?
    /// `nil` gives the change the priority of its entity.
    public var priority: Priority?
    /// Etag of the read that this change is based on. The agent refuses the change (`preconditionFailed`) if the record is in
    /// another state.
    public var ifMatch: String?
    /// Version of the hub's record that this change is based on.
    public var expectVersion: Int?
    /// Ids of mutations that must be at the hub before this one is sent.
    public var dependsOn: [String] = []
    /// The agent may merge this change with others of the same record that were not sent yet.
    public var coalesces = true
    /// The change expires after this time, in whole seconds, if it was not sent.
    public var timeToLive: Duration?
    /// The person who made the change, for conflicts and the audit trail.
    public var author: String?
    public var durability: Durability?
    /// Version of the entity's schema in which this change is written, from 1 to 1,000,000. `nil` stands for the version that the client
    /// names (``AgentClient/init(socket:schemas:deadline:policy:)``).
    public var schema: Int?

    public init(_ action: Action, _ entity: String, _ recordID: String? = nil, _ data: JSONObject? = nil) {
        self.action = action
        self.entity = entity
        self.recordID = recordID
        self.data = data
    }

    /// Creates a record. The agent chooses the id if there is none.
    public static func create(_ entity: String, _ recordID: String? = nil, _ data: JSONObject) -> Mutation {
        Mutation(.create, entity, recordID, data)
    }

    /// Sets fields of a record that exists.
    public static func update(_ entity: String, _ recordID: String, _ data: JSONObject) -> Mutation {
        Mutation(.update, entity, recordID, data)
    }

    /// Changes fields of a record that exists by operations, such as adding to a counter.
    public static func update(_ entity: String, _ recordID: String, operations: [Operation]) -> Mutation {
        var mutation = Mutation(.update, entity, recordID)
        mutation.operations = operations
        return mutation
    }

    /// Sets fields of a record, and creates the record if it does not exist.
    public static func upsert(_ entity: String, _ recordID: String, _ data: JSONObject) -> Mutation {
        Mutation(.upsert, entity, recordID, data)
    }

    public static func delete(_ entity: String, _ recordID: String) -> Mutation { Mutation(.delete, entity, recordID) }

    /// Appends to an entity of the kind `event`, such as a series of readings. Events are sent and not kept in the local copy.
    public static func event(_ entity: String, _ data: JSONObject) -> Mutation { Mutation(.create, entity, nil, data) }
}

extension Mutation {
    /// The mutation as the agent reads it. The order of members is fixed, because a repeated key needs the same bytes.
    func body() throws(EdgeSyncError) -> JSONObject {
        var body: JSONObject = ["entity": .string(entity)]
        if let recordID { body["record_id"] = .string(recordID) }
        body["action"] = .string(action.rawValue)
        if let data { body["data"] = .object(data) }
        if !unset.isEmpty { body["unset"] = .array(unset.map { .string($0) }) }
        if !operations.isEmpty {
            body["ops"] = .array(
                operations.map {
                    ["field": .string($0.field), "op": .string($0.operator.rawValue), "value": $0.value]
                })
        }
        if !attachments.isEmpty {
            body["blobs"] = .array(attachments.map { ["field": .string($0.field), "blob": .string($0.file)] })
        }
        if let priority { body["priority"] = .string(priority.rawValue) }
        if let ifMatch { body["if_match"] = .string(ifMatch) }
        if let expectVersion { body["expect_version"] = .integer(Int64(expectVersion)) }
        if !dependsOn.isEmpty { body["depends_on"] = .array(dependsOn.map { .string($0) }) }
        if !coalesces { body["coalesce"] = false }
        if let timeToLive {
            guard timeToLive.components.attoseconds == 0 else {
                throw .invalidArgument("the time to live of a mutation is a number of whole seconds, and not \(timeToLive)")
            }
            body["ttl"] = .integer(timeToLive.components.seconds)
        }
        if let author { body["author"] = .string(author) }
        if let durability { body["durability"] = .string(durability.rawValue) }
        if let schema { body["schema"] = .integer(Int64(schema)) }
        return body
    }
}
