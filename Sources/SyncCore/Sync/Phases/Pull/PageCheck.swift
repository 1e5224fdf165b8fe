/// Checks the pages of a pull's answer before they are applied. The stream of a page that cannot be used is left out
/// (``StreamQuarantine``); other streams and the push continue.
struct PageCheck: Hashable, Sendable {
    /// Number of answers in a row after which a cursor that stands still counts as a fault.
    private static let stuckMax = 3

    /// Number of answers in a row whose cursor stood still although more was to come.
    private var stuckAnswers = 0

    /// Selects the pages of an answer that can be applied, and the streams to start again.
    ///
    /// - Throws: When the answer does not match the request; nothing of it may be used then.
    mutating func select(
        from response: PullResponse, to requested: [StreamPosition], _ reads: inout CycleReads, _ state: inout SyncState
    ) throws(ReplyError) -> (usable: PullResponse, expired: [EntityName]) {
        let cursors = Dictionary(requested.map { ($0.entity, $0.cursor) }, uniquingKeysWith: { first, _ in first })
        let seen = try response.entities(of: cursors)
        var usable = response
        usable.pages = []
        // A page with more to come and a cursor that does not move is a loop without an end. One stream alone may stand still while another
        // one fills the answers.
        let moves = response.pages.contains { $0.cursor != cursors[$0.entity] ?? nil }
        let standsStill = response.pages.contains { $0.hasMore && $0.cursor == cursors[$0.entity] ?? nil }
        let stuck = standsStill && !moves ? stuckAnswers + 1 : 0
        for (index, page) in response.pages.enumerated() {
            let count = page.records.count + page.deletions.count + page.unreadable.count
            if count > Limits.pullRecordsMax * 2 {
                let expected = ReplyError("/streams/\(index)", "at most \(Limits.pullRecordsMax * 2) records in a page")
                reads.hold(page.entity, "\(expected)", .content, &state)
            } else if stuck >= Self.stuckMax, page.hasMore {
                let expected = ReplyError("/streams/\(index)/cursor", "a cursor that moves when more is to come")
                reads.hold(page.entity, "\(expected)", .content, until: .end, &state)
            } else if page.hasMore, page.cursor != cursors[page.entity] ?? nil,
                state.readings.circles[page.entity, default: CircleDetector()].visits(page.cursor)
            {
                let expected = ReplyError("/streams/\(index)/cursor", "a cursor that has not been there before")
                reads.hold(page.entity, "its feed leads in a circle: \(expected)", .content, until: .end, &state)
            } else {
                if !page.hasMore { state.readings.circles[page.entity] = nil }
                state.readings.restarted.remove(page.entity)
                state.readings.rescoped.remove(page.entity)
                reads.recordReceived(count)
                if let leftOut = state.durable.recordLeftOut(page) {
                    usable.leftOut = leftOut
                    state.reportLeftOut()
                }
                usable.pages.append(page)
                state.release(page.entity, by: page.hasMore ? .page : .end)
            }
        }
        // A stream that is not in the answer has nothing new: it was read to its end. A later read may pass the same places, where scopes
        // were lost, granted again and lost once more.
        for position in requested where !seen.contains(position.entity) {
            state.readings.circles[position.entity] = nil
            state.readings.restarted.remove(position.entity)
            state.release(position.entity, by: .end)
        }
        stuckAnswers = stuck >= Self.stuckMax ? 0 : stuck
        return (usable, Self.expired(in: response.errors, cursors, &reads, &state))
    }

    /// - Returns: Streams to start again, because the hub no longer knows their cursor. The others with an error are left out.
    private static func expired(
        in errors: [StreamError], _ cursors: [EntityName: String?], _ reads: inout CycleReads, _ state: inout SyncState
    ) -> [EntityName] {
        for error in errors where !error.isExpired {
            reads.hold(
                error.entity, error.problem.detail, error.isUnreadable ? .content : .error,
                kind: error.isUnreadable ? .nonsense : .failed, &state)
        }
        var expired: [EntityName] = []
        for error in errors where error.isExpired {
            // The reaction is a fresh start; for a stream that was just started, that would be a loop.
            if cursors[error.entity] ?? nil == nil {
                reads.hold(error.entity, "its cursor has expired, and none was sent", .content, &state)
            } else {
                if error.problem.code == Problem.scopeChanged { state.readings.rescoped.insert(error.entity) }
                expired.append(error.entity)
            }
        }
        return reads.startAgain(expired, &state)
    }
}

extension PullResponse {
    /// - Returns: The entities of pages and errors.
    /// - Throws: When one of them was not asked for, or comes twice.
    fileprivate func entities(of cursors: [EntityName: String?]) throws(ReplyError) -> Set<EntityName> {
        var seen: Set<EntityName> = []
        for (index, page) in pages.enumerated() {
            guard cursors[page.entity] != nil, seen.insert(page.entity).inserted else {
                throw ReplyError("/streams/\(index)/entity", "an entity that was asked for, once")
            }
        }
        for (index, error) in errors.enumerated() {
            guard cursors[error.entity] != nil, seen.insert(error.entity).inserted else {
                throw ReplyError("/errors/\(index)/entity", "an entity that was asked for, once")
            }
        }
        return seen
    }
}
