/// The language of a hub (PROTOCOL A): one request and one answer for each call, with the hub's position in the headers.
struct HubDialect: Dialect {
    let fixedHistory: String? = nil
    let isOneRequest = true
    let tellsKnown = true

    func isServers(_ refusal: HubReply.Refusal) -> Bool {
        refusal.facts?.version != nil
    }

    func limit(_ batch: BatchLimits, by pace: LinkPace) -> BatchLimits {
        var limits = batch
        limits.bytes = min(limits.bytes, pace.up.bytes)
        return limits
    }

    func push(_ batch: Batch, config: Int64?) -> CallContent {
        CallContent(body: PushMessages.request(batch, config: config))
    }

    func pull(_ request: PullRequest) -> CallContent {
        CallContent(body: PullMessages.request(request))
    }

    // MARK: Answers

    static func read(_ result: Result<HTTPResponse, TransportError>, to kind: HubCall.Kind, now: Timestamp) -> ServerAnswer {
        switch result {
        case .failure(let error):
            var answer = ServerAnswer(traffic: error.traffic)
            answer.broken = error
            answer.refusal = HubReply.Refusal(.transport(error.code), error.description)
            return answer
        case .success(let response):
            var answer = ServerAnswer(traffic: response.traffic)
            switch HubReply.read(response, now: now) {
            case .refused(let refusal): answer.refusal = refusal
            case .answered(let facts, let body):
                (answer.facts, answer.size) = (facts, body.count)
                do throws(ReplyError) { answer.message = try message(body, to: kind) } catch { answer.refusal = .notAsAgreed(error, facts) }
            }
            return answer
        }
    }

    private static func message(_ body: [UInt8], to kind: HubCall.Kind) throws(ReplyError) -> ServerMessage {
        switch kind {
        case .hello: .hello(try HelloMessages.readResponse(body))
        case .settle, .push: .verdicts(.hub(try PushMessages.readResponse(body)))
        case .pull: .pages(try PullMessages.readStreams(body))
        case .snapshot: .listing(try SnapshotMessages.readResponse(body))
        case .verify: .comparison(try VerifyMessages.readResponse(body))
        case .known: .unknown(try KnownMessages.readResponse(body))
        }
    }
}

extension HubReply.Refusal {
    /// An answer of the hub that cannot be used.
    static func notAsAgreed(_ error: ReplyError, _ facts: HubHeaders) -> HubReply.Refusal {
        HubReply.Refusal(.nonsense, "the hub's answer is not as agreed: \(error)", facts: facts)
    }
}
