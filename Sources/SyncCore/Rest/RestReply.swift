/// A question of the engine to an existing backend, in place of a ``HubCall``'s body.
package enum RestQuestion: Hashable, Sendable {
    case push(Batch)
    case pull([StreamPosition])
}

/// The answer to a question.
package struct RestReply: Sendable {
    package enum Content: Sendable {
        /// Results of the mutations whose outcome is known. The others stay in flight.
        case pushed([RestResult])
        case pulled(PullResponse)
    }

    package var content: Content
    /// The reason to send no more now. ``content`` is valid all the same.
    package var refusal: HubReply.Refusal?
    package var traffic = Traffic()
    /// The backend itself has answered, whatever the answer was.
    package var wasAnswered = false
    /// End of validity of the first certificate in the backend's chain, if a new connection showed it.
    package var certificateEndsAt: Timestamp?

    package init(_ content: Content, refusal: HubReply.Refusal? = nil) {
        self.content = content
        self.refusal = refusal
    }

    /// Combines several exchanges. A backend that fails for everything is in trouble itself; one that fails for one mutation and accepts
    /// another is not.
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
        // A single failed request has no meaning when another one succeeded; a missing answer has.
        let refusal = refusals.first { !hasGood || !($0.kind == .failed || $0.kind == .overloaded && $0.facts?.asked == nil) }
        return RestReply(.pushed(results), refusal: refusal)
    }
}
