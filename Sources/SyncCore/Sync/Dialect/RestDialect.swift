/// The language of an existing backend (PROTOCOL A13). There is no hello, each mutation is a request of its own, and a pull is a list of
/// each entity. Answers are values made by ``RestExchange`` and ``RestListing``.
struct RestDialect: Dialect {
    let fixedHistory: String? = RestMapping.epoch
    let isOneRequest = false
    let tellsKnown = false

    /// An existing backend has no header that distinguishes its answers from a proxy's.
    func isServers(_ refusal: HubReply.Refusal) -> Bool { true }

    func limit(_ batch: BatchLimits, by pace: LinkPace) -> BatchLimits {
        var limits = batch
        limits.mutations = Limits.restParallel
        return limits
    }

    func push(_ batch: Batch, config: Int64?) -> CallContent {
        CallContent(rest: .push(batch))
    }

    func pull(_ request: PullRequest) -> CallContent {
        CallContent(rest: .pull(request.streams))
    }

    // MARK: Answers

    static func read(_ reply: RestReply) -> ServerAnswer {
        var answer = ServerAnswer(traffic: reply.traffic)
        answer.isBackends = reply.wasAnswered
        answer.refusal = reply.refusal
        switch reply.content {
        case .pushed(let results): answer.message = .verdicts(.backend(results))
        case .pulled(var response):
            response.head = 0
            answer.message = .pages(response)
        }
        return answer
    }
}
