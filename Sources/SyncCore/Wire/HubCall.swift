/// One request to the hub, as the engine decides it. The shell adds address, credentials and compression, and sends it.
package struct HubCall: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        case hello, settle, pull, push, snapshot, known, verify

        /// `true` when its content comes with the answer.
        package var isReading: Bool {
            switch self {
            case .pull, .snapshot: true
            case .hello, .settle, .push, .known, .verify: false
            }
        }
    }

    /// Identifies the call within this run of the agent; its answer carries the same id.
    package var id: UInt64
    package var kind: Kind
    /// One per cycle; links the agent's and the hub's logs.
    package var session: String
    package var body: [UInt8]
    /// The query of a `GET`, after the question mark.
    package var query: String?
    /// For a push: the hub's history that it is meant for. Another history refuses it, so that the changes that the hub has forgotten come
    /// first.
    package var epoch: String?
    /// The ``Receipt`` of the hub that reveals that its database went back.
    package var receipt: String?
    /// The versions of the schemas in which this device writes and reads.
    package var schemas = SchemaNumbers()
    /// The question to an existing backend instead of a hub; there is no body then.
    package var rest: RestQuestion?
    /// A pull without news may be answered after this time (``WaitPreference``), seconds; `nil`: at once.
    package var waitSeconds: Int?
    /// Requested size of the answer, bytes; 0: a small one.
    package var answerBytes = 0
    /// Time limit for the whole call (``LinkPace/timeLimit(for:rate:)``).
    package var timeLimit = LinkPace.timeLimit(for: 0)

    package init(id: UInt64, kind: Kind, session: String, body: [UInt8], query: String? = nil, epoch: String? = nil) {
        self.query = query
        self.epoch = epoch
        self.id = id
        self.kind = kind
        self.session = session
        self.body = body
    }

    package var path: String {
        switch kind {
        case .hello: "/v1/sync/hello"
        case .pull: "/v1/sync/pull"
        case .settle, .push: "/v1/sync/push"
        case .snapshot: "/v1/sync/snapshot"
        case .known: "/v1/sync/known"
        case .verify: "/v1/sync/verify"
        }
    }

    /// Path and query.
    package var target: String { query.map { path + "?" + $0 } ?? path }
    package var method: HTTPRequest.Method { kind == .snapshot ? .get : .post }

    /// For the log and for errors: `push to the hub`.
    package var doing: String {
        switch kind {
        case .hello: "greet the hub"
        case .settle: "settle a batch with the hub"
        case .pull: "pull from the hub"
        case .push: "push to the hub"
        case .snapshot: "list an entity of the hub"
        case .known: "ask the hub which mutations it has"
        case .verify: "compare an entity with the hub"
        }
    }
}
