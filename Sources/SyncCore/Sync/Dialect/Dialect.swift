/// The language of the server: it builds the requests and reads the answers. A cycle takes the same steps with each of them.
protocol Dialect: Sendable {
    /// The one history that all records of such a server belong to; `nil`: the server names its history in a hello.
    var fixedHistory: String? { get }
    /// A call is one request. Its size and time then measure the link, and one stream can make the answer fail for the others.
    var isOneRequest: Bool { get }
    /// The server can be asked which mutations it knows.
    var tellsKnown: Bool { get }

    /// Returns whether a refusal is certainly the server's own, not that of a proxy before it.
    func isServers(_ refusal: HubReply.Refusal) -> Bool
    func limit(_ batch: BatchLimits, by pace: LinkPace) -> BatchLimits
    func push(_ batch: Batch, config: Int64?) -> CallContent
    func pull(_ request: PullRequest) -> CallContent
}

/// The content of a call: a body or a query for a hub, a question for an existing backend.
struct CallContent: Sendable {
    var body: [UInt8] = []
    var query: String?
    var rest: RestQuestion?
}

/// An answer of the server, as its dialect reads it.
struct ServerAnswer: Sendable {
    var traffic: Traffic
    /// Headers of a good answer. A backend sends none.
    var facts: HubHeaders?
    /// Size of the content, bytes.
    var size = 0
    /// No answer came.
    var broken: TransportError?
    /// An existing backend has answered, whatever the answer was.
    var isBackends = false
    /// `nil` when there is nothing that can be used.
    var message: ServerMessage?
    /// The reason why there is no message, or why no more may be sent after this one.
    var refusal: HubReply.Refusal?
}

/// The content of a good answer.
enum ServerMessage: Sendable {
    case hello(HelloResponse)
    case verdicts(Verdicts)
    case pages(PullResponse)
    case listing(SnapshotPage)
    case comparison(VerifyResponse)
    /// Keys of the mutations that the hub does not know.
    case unknown([MutationKey])

    /// Returns whether it answers such a call.
    func answers(_ kind: HubCall.Kind) -> Bool {
        switch (self, kind) {
        case (.hello, .hello), (.verdicts, .settle), (.verdicts, .push), (.pages, .pull), (.listing, .snapshot), (.comparison, .verify),
            (.unknown, .known):
            true
        case (.hello, _), (.verdicts, _), (.pages, _), (.listing, _), (.comparison, _), (.unknown, _): false
        }
    }
}

/// Results of the mutations of a push.
enum Verdicts: Sendable {
    case hub(PushResponse)
    case backend([RestResult])
}

extension SyncEngine.Settings {
    var dialect: any Dialect { isRest ? RestDialect() : HubDialect() }
}
