// Handles pages, listings and comparisons that cannot be used. The affected stream is left out (``StreamQuarantine``); other streams and
// the push continue.
extension SyncEngine {
    /// Number of failed reads in a row after which a cycle reads no more. Halving 256 streams down to one takes nine.
    static let badReadsMax = 9
    /// Number of pages after which a cycle whose pages were all empty, with more to come, delays the next one.
    static let emptyPagesMax = 3

    /// State of reading that the engine keeps from cycle to cycle.
    package struct ReadingMemory: Hashable, Sendable {
        /// Streams that are left out.
        var held = StreamQuarantine()
        /// Entities whose comparison with the hub failed; their feeds are read all the same.
        var uncompared = StreamQuarantine()
        /// Detectors for feeds that are read over several pages.
        var circles: [EntityName: CircleDetector] = [:]
        /// Feeds that were started again because their cursor had expired, and that brought no page since.
        var restarted: Set<EntityName> = []
        /// Entities whose cursor was made under other scopes, until they are listed again.
        var rescoped: Set<EntityName> = []
        /// Number of streams in one request; `nil`: as many as the protocol allows. It is smaller during a search for the one stream that
        /// makes the answer fail for all.
        var width: Int?
        /// Number of cycles that ended over a read, since the last complete read.
        var failures = 0
        /// The last cycle ended over a read, before it came to its push.
        var owesPush = false
        /// Number of cycles in a row whose pages announced more and were empty.
        var emptyCycles = 0
    }

    /// Streams that are left out, with the reasons.
    package var heldStreams: StreamQuarantine { readings.held }

    /// Records that the hub has and could not show.
    package var leftOutRecords: LeftOutRecords { memory.leftOut }

    /// Returns whether a stream may not be asked in this cycle. A requested cycle makes one attempt, but not two.
    func isHeld(_ entity: EntityName, at moment: Moment) -> Bool {
        guard let cycle else { return false }
        if cycle.failedStreams.contains(entity) { return true }
        return !cycle.isRequested && readings.held.holds(entity, at: moment.instant)
    }

    /// Leaves a stream out until its next attempt.
    mutating func hold(
        _ entity: EntityName, _ detail: String, _ cause: StreamQuarantine.Cause, kind: HubReply.Kind = .nonsense,
        until relief: StreamQuarantine.Relief = .page, at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        let before = readings.held[entity]
        readings.held.add(
            entity, detail, cause, until: relief, backoff: settings.backoff, at: moment.instant, using: &random)
        readings.circles[entity] = nil
        cycle?.failedStreams.insert(entity)
        cycle?.asked.remove(entity)
        if cycle?.outcome.error == nil {
            cycle?.outcome.error = Printable.text("\(entity) was not read: \(detail)")
            cycle?.outcome.errorKind = kind
        }
        guard let now = readings.held[entity] else { return }
        // A server's error may be gone a moment later; content stays as it is.
        let isAlarm = cause == .content || now.failures >= 3
        if before?.detail == now.detail, !(isAlarm && now.failures == 3 && cause == .error) { return }
        effects.append(.report(.streamHeld(entity, detail: now.detail, isAlarm: isAlarm)))
    }

    /// Ends the quarantine of a stream after a successful read.
    mutating func release(_ entity: EntityName, by relief: StreamQuarantine.Relief, _ effects: inout [SyncEffect]) {
        if readings.held.release(entity, by: relief) { effects.append(.report(.streamResumed(entity))) }
    }

    /// Selects the streams with an expired cursor that are started again. One that was restarted a moment ago and has brought no page since
    /// would be listed without end.
    mutating func startAgain(_ expired: [EntityName], at moment: Moment, _ effects: inout [SyncEffect]) -> [EntityName] {
        var again: [EntityName] = []
        for entity in expired {
            if readings.restarted.insert(entity).inserted {
                again.append(entity)
            } else {
                readings.restarted.remove(entity)
                // An operator may change the scopes once more while the share is listed.
                let isRescoped = readings.rescoped.contains(entity)
                let detail =
                    isRescoped
                    ? "the scopes of this device have changed again" : "its cursor has expired again, although the feed was started anew"
                hold(entity, detail, isRescoped ? .error : .content, kind: .gone, until: .end, at: moment, &effects)
            }
        }
        return again
    }

    /// Reports records that the hub has and cannot read. They stay here unchanged, and a person should know.
    func tellLeftOut(_ effects: inout [SyncEffect]) {
        effects.append(.report(.recordsLeftOut(memory.leftOut)))
    }

    // MARK: Pages

    /// The pages of an answer that can be applied. The streams of the others are left out.
    ///
    /// - Throws: When the answer does not match the request; nothing of it may be used then.
    mutating func sortOut(
        _ response: PullResponse, against asked: [StreamPosition], at moment: Moment, _ effects: inout [SyncEffect]
    ) throws(ReplyError) -> (usable: PullResponse, expired: [EntityName]) {
        let cursors = Dictionary(asked.map { ($0.entity, $0.cursor) }, uniquingKeysWith: { first, _ in first })
        var seen: Set<EntityName> = []
        for (index, page) in response.pages.enumerated() {
            guard cursors[page.entity] != nil, seen.insert(page.entity).inserted else {
                throw ReplyError("/streams/\(index)/entity", "an entity that was asked for, once")
            }
        }
        for (index, error) in response.errors.enumerated() {
            guard cursors[error.entity] != nil, seen.insert(error.entity).inserted else {
                throw ReplyError("/errors/\(index)/entity", "an entity that was asked for, once")
            }
        }
        var usable = response
        usable.pages = []
        // A page with more to come and a cursor that does not move is a loop without an end. One stream alone may stand still while another
        // one fills the answers.
        let moves = response.pages.contains { $0.cursor != cursors[$0.entity] ?? nil }
        let standsStill = response.pages.contains { $0.hasMore && $0.cursor == cursors[$0.entity] ?? nil }
        let stuck = standsStill && !moves ? (cycle?.stuckPages ?? 0) + 1 : 0
        cycle?.stuckPages = stuck
        for (index, page) in response.pages.enumerated() {
            let count = page.records.count + page.deletions.count + page.unreadable.count
            if count > Limits.pullRecordsMax * 2 {
                let expected = ReplyError("/streams/\(index)", "at most \(Limits.pullRecordsMax * 2) records in a page")
                hold(page.entity, "\(expected)", .content, at: moment, &effects)
            } else if stuck >= 3, page.hasMore {
                let expected = ReplyError("/streams/\(index)/cursor", "a cursor that moves when more is to come")
                hold(page.entity, "\(expected)", .content, until: .end, at: moment, &effects)
            } else if page.hasMore, page.cursor != cursors[page.entity] ?? nil,
                readings.circles[page.entity, default: CircleDetector()].visits(page.cursor)
            {
                let expected = ReplyError("/streams/\(index)/cursor", "a cursor that has not been there before")
                hold(page.entity, "its feed leads in a circle: \(expected)", .content, until: .end, at: moment, &effects)
            } else {
                if !page.hasMore { readings.circles[page.entity] = nil }
                readings.restarted.remove(page.entity)
                readings.rescoped.remove(page.entity)
                cycle?.received += count
                if let leftOut = durable.recordLeftOut(page) {
                    usable.leftOut = leftOut
                    tellLeftOut(&effects)
                }
                usable.pages.append(page)
                release(page.entity, by: page.hasMore ? .page : .end, &effects)
            }
        }
        // A stream that is not in the answer has nothing new: it was read to its end.
        for position in asked where !seen.contains(position.entity) { release(position.entity, by: .end, &effects) }
        if stuck >= 3 { cycle?.stuckPages = 0 }
        for error in response.errors where !error.isExpired {
            hold(
                error.entity, error.problem.detail, error.isUnreadable ? .content : .error,
                kind: error.isUnreadable ? .nonsense : .failed, at: moment, &effects)
        }
        var expired: [EntityName] = []
        for error in response.errors where error.isExpired {
            // The reaction is a fresh start; for a stream that was just started, that would be a loop.
            if cursors[error.entity] ?? nil == nil {
                hold(error.entity, "its cursor has expired, and none was sent", .content, at: moment, &effects)
            } else {
                if error.problem.code == Problem.scopeChanged { readings.rescoped.insert(error.entity) }
                expired.append(error.entity)
            }
        }
        return (usable, startAgain(expired, at: moment, &effects))
    }

    // MARK: Failed reads

    /// Handles a reading call without a usable answer whose reason lies in the request, not in the way to the hub. The stream is left out,
    /// or the one stream is searched that makes the answer fail for others.
    ///
    /// - Returns: `true` when the cycle continues; otherwise the failure is one of the whole hub.
    mutating func readFailed(_ refusal: HubReply.Refusal, at moment: Moment, _ effects: inout [SyncEffect]) -> Bool {
        guard let step = cycle?.step, lies(in: refusal) else { return false }
        if refusal.kind == .failed, !hasFailedBefore(step) {
            // The hub itself may be in trouble, not the requested stream: then more requests are the wrong reaction.
            guard readings.failures >= 2 else { return false }
        }
        cycle?.badReads += 1
        let isOver = (cycle?.badReads ?? 0) >= Self.badReadsMax || refusal.kind == .failed
        let cause: StreamQuarantine.Cause = refusal.kind == .failed ? .error : .content
        switch step {
        case .pulling(let asked, _):
            let rest = cycle?.unasked ?? []
            guard asked.count == 1 || isOver && refusal.kind != .failed else {
                readings.width = max(1, asked.count / 2)
                // A hub in trouble is asked for half of it in the next cycle.
                if refusal.kind == .failed { return false }
                pull(asked + rest, at: moment, &effects)
                return true
            }
            let given = isOver && refusal.kind != .failed ? asked + rest : asked
            for stream in given { hold(stream.entity, refusal.detail, cause, kind: refusal.kind, at: moment, &effects) }
            cycle?.unasked = []
            if isOver { return pushInstead(cause, at: moment, &effects) }
            goOnPulling(rest, at: moment, &effects)
        case .listing(let position, _):
            hold(position.entity, refusal.detail, cause, kind: refusal.kind, until: .listing, at: moment, &effects)
            cycle?.reading.listings.removeAll { $0.entity == position.entity }
            if isOver { return pushInstead(cause, at: moment, &effects) }
            goOnReading(at: moment, &effects)
        case .seeding(let position, _):
            hold(position.entity, refusal.detail, cause, kind: refusal.kind, until: .listing, at: moment, &effects)
            if isOver { return pushInstead(cause, at: moment, &effects) }
            loadStreams(&effects)
        case .verifying(let position, _):
            readings.uncompared.add(
                position.entity, refusal.detail, cause, backoff: settings.backoff, at: moment.instant, using: &random)
            if cycle?.outcome.error == nil {
                cycle?.outcome.error = Printable.text("\(position.entity) was not compared: \(refusal.detail)")
                cycle?.outcome.errorKind = refusal.kind
            }
            if isOver { return pushInstead(cause, at: moment, &effects) }
            compare(at: moment, &effects)
        default: return false
        }
        return true
    }

    /// Returns whether the step asks for one stream alone that has failed before.
    private func hasFailedBefore(_ step: Step) -> Bool {
        switch step {
        case .pulling(let asked, _): asked.count == 1 && asked.allSatisfy { readings.held[$0.entity] != nil }
        case .listing(let position, _), .seeding(let position, _): readings.held[position.entity] != nil
        case .verifying(let position, _): readings.uncompared[position.entity] != nil
        default: false
        }
    }

    /// Returns whether a refusal may be about the requested streams.
    private func lies(in refusal: HubReply.Refusal) -> Bool {
        let isHubs = refusal.facts?.version != nil
        switch refusal.kind {
        case .nonsense, .transport(.tooLarge), .transport(.malformed): return true
        case .failed, .malformed, .tooLarge, .misconfigured, .gone: return isHubs
        default: return false
        }
    }

    private mutating func pushInstead(
        _ cause: StreamQuarantine.Cause, at moment: Moment, _ effects: inout [SyncEffect]
    ) -> Bool {
        // The streams that were not asked come with another cycle, and not at once.
        let delay = settings.backoff.delay(afterFailures: max(1, memory.failures + 1), using: &random)
        pressure.wish(.again(at: moment.instant.advanced(by: delay)), at: moment.instant)
        cycle?.missedStreams = true
        push(at: moment, &effects)
        return true
    }

    /// Pulls the next streams after one that was left out.
    mutating func goOnPulling(_ streams: [StreamPosition], at moment: Moment, _ effects: inout [SyncEffect]) {
        if streams.isEmpty { return applied(PullSummary(), [], [], at: moment, &effects) }
        pull(streams, at: moment, &effects)
    }

    /// Ends the cycle over a read. Pushes must not wait longer, so the next cycle begins with them.
    mutating func noteFailedRead(_ kind: HubReply.Kind) {
        switch cycle?.step {
        case .pulling, .listing, .seeding, .verifying: break
        default: return
        }
        readings.failures += 1
        switch kind {
        case .transport(.timedOut), .transport(.broken), .transport(.tooLarge), .transport(.malformed), .overloaded, .failed,
            .nonsense, .malformed, .tooLarge, .misconfigured, .gone, .foreign:
            readings.owesPush = true
        case .transport, .auth, .blocked, .incompatible, .encoding, .regressed: break
        }
    }

    /// Decides the order of a cycle. If the one before ended over a read, this one pushes first and reads when nothing is left to push.
    ///
    /// - Returns: `true` when it begins with the push.
    mutating func pushesBeforeReading() -> Bool {
        guard readings.owesPush, cycle?.scope != .pull, cycle?.isTrial != true else { return false }
        readings.owesPush = false
        cycle?.owesPull = true
        return true
    }

    // MARK: Time of the next reading

    /// Plans the cycle of the next attempt for a stream that is left out.
    mutating func planHeldStreams(at moment: Moment) {
        guard let next = readings.held.nextAt, allowed(at: moment).pull?.entities == .all else { return }
        pressure.wish(.again(at: max(next, moment.instant.advanced(by: .seconds(1)))), at: moment.instant)
    }

    /// Time of the cycle that continues with the remaining pages. A server that announces more and sends nothing is asked less and less
    /// often.
    mutating func goOnReadingAt(_ moment: Moment) -> Instant {
        guard let cycle, cycle.received == 0, cycle.pages >= Self.emptyPagesMax else {
            readings.emptyCycles = 0
            return moment.instant
        }
        readings.emptyCycles += 1
        return moment.instant.advanced(by: settings.backoff.delay(afterFailures: readings.emptyCycles + 1, using: &random))
    }
}
