// Handles pages, listings and comparisons that cannot be used. The affected stream is left out (``StreamQuarantine``); other streams and
// the push continue.
extension PullPhase {
    /// Number of failed reads in a row after which a cycle reads no more. Halving 256 streams down to one takes nine.
    private static let badReadsMax = 9

    // MARK: Streams that are left out

    /// Leaves a stream out until its next attempt.
    private mutating func hold(
        _ entity: EntityName, _ detail: String, _ cause: StreamQuarantine.Cause, kind: HubReply.Kind = .nonsense,
        until relief: StreamQuarantine.Relief = .page, _ state: inout SyncState
    ) {
        let before = state.readings.held[entity]
        state.readings.held.add(
            entity, detail, cause, until: relief, backoff: state.settings.backoff, at: state.now.instant, using: &state.random)
        state.readings.circles[entity] = nil
        failedStreams.insert(entity)
        asked.remove(entity)
        state.recordFirstError("\(entity) was not read: \(detail)", kind)
        guard let now = state.readings.held[entity] else { return }
        // A server's error may be gone a moment later; content stays as it is.
        let isAlarm = cause == .content || now.failures >= 3
        if before?.detail == now.detail, !(isAlarm && now.failures == 3 && cause == .error) { return }
        state.report(.streamHeld(entity, detail: now.detail, isAlarm: isAlarm))
    }

    /// Selects the streams with an expired cursor that are started again. One that was restarted a moment ago and has brought no page since
    /// would be listed without end.
    private mutating func startAgain(_ expired: [EntityName], _ state: inout SyncState) -> [EntityName] {
        var again: [EntityName] = []
        for entity in expired {
            if state.readings.restarted.insert(entity).inserted {
                again.append(entity)
            } else {
                state.readings.restarted.remove(entity)
                // An operator may change the scopes once more while the share is listed.
                let isRescoped = state.readings.rescoped.contains(entity)
                let detail =
                    isRescoped
                    ? "the scopes of this device have changed again" : "its cursor has expired again, although the feed was restarted"
                hold(entity, detail, isRescoped ? .error : .content, kind: .gone, until: .end, &state)
            }
        }
        return again
    }

    // MARK: Pages

    /// The pages of an answer that can be applied. The streams of the others are left out.
    ///
    /// - Throws: When the answer does not match the request; nothing of it may be used then.
    mutating func sortOut(
        _ response: PullResponse, against requested: [StreamPosition], _ state: inout SyncState
    ) throws(ReplyError) -> (usable: PullResponse, expired: [EntityName]) {
        let cursors = Dictionary(requested.map { ($0.entity, $0.cursor) }, uniquingKeysWith: { first, _ in first })
        let seen = try response.entities(of: cursors)
        var usable = response
        usable.pages = []
        // A page with more to come and a cursor that does not move is a loop without an end. One stream alone may stand still while another
        // one fills the answers.
        let moves = response.pages.contains { $0.cursor != cursors[$0.entity] ?? nil }
        let standsStill = response.pages.contains { $0.hasMore && $0.cursor == cursors[$0.entity] ?? nil }
        let stuck = standsStill && !moves ? stuckPages + 1 : 0
        for (index, page) in response.pages.enumerated() {
            let count = page.records.count + page.deletions.count + page.unreadable.count
            if count > Limits.pullRecordsMax * 2 {
                let expected = ReplyError("/streams/\(index)", "at most \(Limits.pullRecordsMax * 2) records in a page")
                hold(page.entity, "\(expected)", .content, &state)
            } else if stuck >= 3, page.hasMore {
                let expected = ReplyError("/streams/\(index)/cursor", "a cursor that moves when more is to come")
                hold(page.entity, "\(expected)", .content, until: .end, &state)
            } else if page.hasMore, page.cursor != cursors[page.entity] ?? nil,
                state.readings.circles[page.entity, default: CircleDetector()].visits(page.cursor)
            {
                let expected = ReplyError("/streams/\(index)/cursor", "a cursor that has not been there before")
                hold(page.entity, "its feed leads in a circle: \(expected)", .content, until: .end, &state)
            } else {
                if !page.hasMore { state.readings.circles[page.entity] = nil }
                state.readings.restarted.remove(page.entity)
                state.readings.rescoped.remove(page.entity)
                received += count
                if let leftOut = state.durable.recordLeftOut(page) {
                    usable.leftOut = leftOut
                    state.reportLeftOut()
                }
                usable.pages.append(page)
                state.release(page.entity, by: page.hasMore ? .page : .end)
            }
        }
        // A stream that is not in the answer has nothing new: it was read to its end.
        for position in requested where !seen.contains(position.entity) { state.release(position.entity, by: .end) }
        stuckPages = stuck >= 3 ? 0 : stuck
        return (usable, sortOut(response.errors, cursors, &state))
    }

    /// - Returns: Streams to start again, because the hub no longer knows their cursor. The others with an error are left out.
    private mutating func sortOut(
        _ errors: [StreamError], _ cursors: [EntityName: String?], _ state: inout SyncState
    ) -> [EntityName] {
        for error in errors where !error.isExpired {
            hold(
                error.entity, error.problem.detail, error.isUnreadable ? .content : .error,
                kind: error.isUnreadable ? .nonsense : .failed, &state)
        }
        var expired: [EntityName] = []
        for error in errors where error.isExpired {
            // The reaction is a fresh start; for a stream that was just started, that would be a loop.
            if cursors[error.entity] ?? nil == nil {
                hold(error.entity, "its cursor has expired, and none was sent", .content, &state)
            } else {
                if error.problem.code == Problem.scopeChanged { state.readings.rescoped.insert(error.entity) }
                expired.append(error.entity)
            }
        }
        return startAgain(expired, &state)
    }

    // MARK: Failed reads

    /// Handles a call without a usable answer. When the reason lies in the request, not in the way to the hub, its stream is left out, or
    /// the one stream is searched that makes the answer fail for others. Otherwise the failure is one of the whole hub.
    mutating func failed(_ refusal: HubReply.Refusal, _ state: inout SyncState) -> NextPhase {
        leaveOut(refusal, &state) ?? end(refusal, &state)
    }

    /// Ends the cycle over a read. Pushes must not wait longer, so the next cycle begins with them.
    func end(_ refusal: HubReply.Refusal, _ state: inout SyncState) -> NextPhase {
        if call != nil {
            state.readings.failures += 1
            switch refusal.kind {
            case .transport(.timedOut), .transport(.broken), .transport(.tooLarge), .transport(.malformed), .overloaded, .failed,
                .nonsense, .malformed, .tooLarge, .misconfigured, .gone, .foreign:
                state.readings.owesPush = true
            case .transport, .auth, .blocked, .incompatible, .encoding, .regressed: break
            }
        }
        return state.fail(refusal)
    }

    /// The server says that what was asked for is gone.
    mutating func gone(_ refusal: HubReply.Refusal, _ state: inout SyncState) -> NextPhase {
        switch step {
        case .pulling(let requested, _) where requested.contains { $0.cursor != nil }:
            // The whole request failed instead of one stream: none of its cursors can be used.
            let expired = requested.filter { $0.cursor != nil }.map(\.entity)
            if refusal.problem?.code == Problem.scopeChanged { state.readings.rescoped.formUnion(expired) }
            return restart(startAgain(expired, &state), &state)
        case .verifying(let position, _):
            if refusal.problem?.code == Problem.scopeChanged { state.readings.rescoped.insert(position.entity) }
            return restart([position.entity], &state)
        case .pulling, .listing, .seeding, .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot,
            .applyingSeed, .digesting, .recordingComparison:
            return failed(refusal, &state)
        }
    }

    /// - Returns: `nil` when the failure is one of the whole hub.
    private mutating func leaveOut(_ refusal: HubReply.Refusal, _ state: inout SyncState) -> NextPhase? {
        guard count(refusal, hasFailedBefore: hasFailedBefore(state), state) else { return nil }
        let isOver = badReads >= Self.badReadsMax || refusal.kind == .failed
        let cause: StreamQuarantine.Cause = refusal.kind == .failed ? .error : .content
        switch step {
        case .pulling(let requested, _):
            let rest = unasked
            guard requested.count == 1 || isOver && refusal.kind != .failed else {
                state.readings.width = max(1, requested.count / 2)
                // A hub in trouble is asked for half of it in the next cycle.
                return refusal.kind == .failed ? nil : pull(requested + rest, &state)
            }
            let given = isOver && refusal.kind != .failed ? requested + rest : requested
            for stream in given { hold(stream.entity, refusal.detail, cause, kind: refusal.kind, &state) }
            unasked = []
            return isOver ? pushInstead(&state) : goOn(rest, &state)
        case .listing(let position, _):
            hold(position.entity, refusal.detail, cause, kind: refusal.kind, until: .listing, &state)
            plan.listings.removeAll { $0.entity == position.entity }
            return isOver ? pushInstead(&state) : goOnReading(&state)
        case .seeding(let position, _):
            hold(position.entity, refusal.detail, cause, kind: refusal.kind, until: .listing, &state)
            return isOver ? pushInstead(&state) : loadStreams(&state)
        case .verifying(let position, _):
            state.readings.uncompared.add(
                position.entity, refusal.detail, cause, backoff: state.settings.backoff, at: state.now.instant, using: &state.random)
            state.recordFirstError("\(position.entity) was not compared: \(refusal.detail)", refusal.kind)
            return isOver ? pushInstead(&state) : compare(&state)
        case .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot, .applyingSeed, .digesting,
            .recordingComparison:
            return nil
        }
    }

    /// Counts a bad answer whose reason may lie in the request. One to another phase counts as well, so that the cycle gives up its reads
    /// the sooner.
    ///
    /// - Returns: `false` when the reason lies elsewhere.
    mutating func count(_ refusal: HubReply.Refusal, hasFailedBefore: Bool, _ state: SyncState) -> Bool {
        guard refusal.mayLieInRequest else { return false }
        // The hub itself may be in trouble, not the requested stream: then more requests are the wrong reaction.
        if refusal.kind == .failed, !hasFailedBefore, state.readings.failures < 2 { return false }
        badReads += 1
        return true
    }

    /// Returns whether the step asks for one stream alone that has failed before.
    private func hasFailedBefore(_ state: SyncState) -> Bool {
        switch step {
        case .pulling(let requested, _): requested.count == 1 && requested.allSatisfy { state.readings.held[$0.entity] != nil }
        case .listing(let position, _), .seeding(let position, _): state.readings.held[position.entity] != nil
        case .verifying(let position, _): state.readings.uncompared[position.entity] != nil
        case .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot, .applyingSeed, .digesting,
            .recordingComparison:
            false
        }
    }

    private mutating func pushInstead(_ state: inout SyncState) -> NextPhase {
        // The streams that were not asked come with another cycle, and not at once.
        let failures = max(1, state.memory.failures + 1)
        let delay = state.settings.backoff.delay(afterFailures: failures, using: &state.random)
        state.trigger(.again(at: state.now.instant.advanced(by: delay)))
        missedStreams = true
        return .push
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

extension HubReply.Refusal {
    /// The reason may lie in the requested streams.
    fileprivate var mayLieInRequest: Bool {
        switch kind {
        case .nonsense, .transport(.tooLarge), .transport(.malformed): true
        case .failed, .malformed, .tooLarge, .misconfigured, .gone: facts?.version != nil
        case .transport, .foreign, .auth, .blocked, .incompatible, .encoding, .regressed, .overloaded: false
        }
    }
}

extension SyncState {
    /// Ends the quarantine of a stream after a successful read.
    mutating func release(_ entity: EntityName, by relief: StreamQuarantine.Relief) {
        if readings.held.release(entity, by: relief) { report(.streamResumed(entity)) }
    }

    /// An error that does not end the cycle is shown when it is the first.
    fileprivate mutating func recordFirstError(_ detail: String, _ kind: HubReply.Kind) {
        guard let cycle, cycle.outcome.error == nil else { return }
        self.cycle?.outcome.error = Printable.text(detail)
        self.cycle?.outcome.errorKind = kind
    }

    /// Plans the cycle of the next attempt for a stream that is left out.
    mutating func planHeldStreams() {
        guard let next = readings.held.nextAt, allowed.pull?.entities == .all else { return }
        trigger(.again(at: max(next, now.instant.advanced(by: .seconds(1)))))
    }
}
