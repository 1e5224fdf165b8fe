/// What the engine asks of an existing backend, in place of a ``HubCall``'s body.
package enum RestQuestion: Hashable, Sendable {
    case push(Batch)
    case pull([StreamPosition])
}

/// What became of it.
package struct RestReply: Sendable {
    package enum Content: Sendable {
        /// Of those whose outcome is known. The others stay in flight.
        case pushed([RestResult])
        case pulled(PullResponse)
    }

    package var content: Content
    /// Why nothing more should be sent now. What ``content`` says is true all the same.
    package var refusal: HubReply.Refusal?
    package var traffic = Traffic()
    /// The backend itself has answered, whatever it said.
    package var wasAnswered = false
    /// When the first certificate of the backend's chain ends, where a new connection showed it.
    package var certificateEndsAt: Timestamp?

    package init(_ content: Content, refusal: HubReply.Refusal? = nil) {
        self.content = content
        self.refusal = refusal
    }

    /// Of several exchanges. A backend that fails over everything is in trouble itself; one that fails over one mutation and
    /// takes another is not.
    package static func pushed(
        _ ends: [(key: MutationKey, verdict: RestResult.Verdict?, refusal: HubReply.Refusal?)]
    ) -> RestReply {
        let results = ends.compactMap { end in end.verdict.map { RestResult(end.key, $0) } }
        let hasGood = results.contains { result in
            switch result.verdict {
            case .accepted, .moved, .rejected: true
            case .retry, .notSent, .unsure, .held: false
            }
        }
        let refusals = ends.compactMap(\.refusal)
        // That a single request failed says nothing when another one went well; that nobody answers does.
        let refusal = refusals.first { !hasGood || !($0.kind == .failed || $0.kind == .overloaded && $0.facts?.asked == nil) }
        return RestReply(.pushed(results), refusal: refusal)
    }
}
