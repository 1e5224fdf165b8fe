/// One request to the hub as the engine decides it. The shell adds address, credentials and compression, and carries it.
package struct HubCall: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable { case hello, settle, pull, push }

    /// Names the call within this run of the agent; its answer comes back with it.
    package var id: UInt64
    package var kind: Kind
    /// One per cycle; joins the agent's and the hub's logs.
    package var session: String
    package var body: [UInt8]

    package init(id: UInt64, kind: Kind, session: String, body: [UInt8]) {
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
        }
    }

    /// For the log and for errors: `push to the hub`.
    package var doing: String {
        switch kind {
        case .hello: "greet the hub"
        case .settle: "settle a batch with the hub"
        case .pull: "pull from the hub"
        case .push: "push to the hub"
        }
    }
}
