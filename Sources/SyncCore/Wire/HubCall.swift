/// One request to the hub as the engine decides it. The shell adds address, credentials and compression, and carries it.
package struct HubCall: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        case hello, settle, pull, push, snapshot, known, verify

        /// Its content comes with the answer.
        package var isReading: Bool {
            switch self {
            case .pull, .snapshot: true
            case .hello, .settle, .push, .known, .verify: false
            }
        }
    }

    /// Names the call within this run of the agent; its answer comes back with it.
    package var id: UInt64
    package var kind: Kind
    /// One per cycle; joins the agent's and the hub's logs.
    package var session: String
    package var body: [UInt8]
    /// Of a `GET`: what stands behind the question mark.
    package var query: String?
    /// Of a push: the hub's history that it is meant for. Another one refuses it, so that what it has forgotten comes first.
    package var epoch: String?
    /// Of a hello and a push: the newest ``Receipt`` of the hub, by which it finds out when its database went back.
    package var receipt: String?
    /// What is asked of an existing backend instead; there is no body then.
    package var rest: RestQuestion?
    /// Bytes of the answer that were asked for; 0: a few.
    package var answerBytes = 0
    /// The longest time that it may take in all (``LinkPace/timeLimit(for:rate:)``).
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
        case .known: "ask the hub what it knows"
        case .verify: "compare an entity with the hub"
        }
    }
}
