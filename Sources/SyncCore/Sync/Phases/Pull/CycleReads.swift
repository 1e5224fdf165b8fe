/// The streams that a cycle has asked for, left out or missed, and the number of its pages and of its failures. Feeds, listings and
/// comparisons share it.
struct CycleReads: Hashable, Sendable {
    /// Number of failed reads in a row after which a cycle reads no more. Halving 256 streams down to one takes nine.
    private static let failuresMax = 9
    /// Number of pages after which a cycle whose pages were all empty, with more to come, delays the next one.
    private static let emptyPagesMax = 3

    /// Entities that were asked for, except the refused ones.
    private var asked: Set<EntityName> = []
    /// All streams, when they were loaded last.
    private var loaded: [EntityName] = []
    /// They are about to be listed, because of records that no pull takes away.
    private var listsShares = false
    /// Streams that failed in this cycle: none of them is asked for twice.
    private var failed: Set<EntityName> = []
    /// Some streams were not read, so the pull is incomplete.
    private var hasMissedStreams = false
    /// Number of failed reads in a row.
    private var failures = 0
    private var pages = 0
    /// Number of records and deletions of all pages.
    private var received = 0

    // MARK: Streams

    /// Begins a read of all streams.
    mutating func begin(_ streams: [EntityName]) {
        (asked, loaded) = ([], streams)
    }

    /// Lists all streams, because of records of scopes that neither the cursors nor the present answer were made under
    /// (``EngineMemory/writtenUnder``).
    ///
    /// - Returns: `nil` when there is no stream.
    mutating func listShares(_ state: inout SyncState) -> NextRead? {
        let entities = loaded.isEmpty ? asked.sorted() : loaded
        guard !entities.isEmpty else { return nil }
        listsShares = true
        state.readings.rescoped.formUnion(entities)
        return .restart(entities)
    }

    /// The streams were started again.
    mutating func restarted(_ state: inout SyncState) {
        if listsShares { state.durable.recordSharesRead(under: nil) }
        listsShares = false
    }

    /// Asked before each page. An entity that is left out does not count as read up to the hub's head.
    mutating func mayRead(_ entity: EntityName, _ state: SyncState) -> Bool {
        switch state.allowed.pull?.entities {
        case .all: return true
        // A caller that may push may also read the results.
        case .critical where state.settings.criticalEntities.contains(entity) || state.cycle?.conflicted.contains(entity) == true:
            return true
        case .critical, nil:
            hasMissedStreams = true
            asked.remove(entity)
            return false
        }
    }

    /// Returns whether a stream may not be asked in this cycle. A requested cycle makes one attempt, but not two.
    func isHeld(_ entity: EntityName, _ state: SyncState) -> Bool {
        if failed.contains(entity) { return true }
        return state.cycle?.isRequested != true && state.readings.held.holds(entity, at: state.now.instant)
    }

    mutating func recordAsked(_ entities: [EntityName]) {
        asked.formUnion(entities)
    }

    /// The hub has answered for these entities with an error of their own.
    mutating func recordRefused(_ entities: [EntityName]) {
        asked.subtract(entities)
    }

    mutating func recordMissedStreams() {
        hasMissedStreams = true
    }

    /// The feeds of the asked entities were read to their end.
    func recordPulled(_ state: inout SyncState) {
        state.hub.recordPulled(asked, at: state.now.wall)
    }

    /// Returns whether everything up to the hub's head was read. A second read of a few entities does not bring everything, nor does one
    /// that missed some.
    func isWhole(_ state: SyncState) -> Bool {
        state.cycle?.hasPulledForConflicts == false && !hasMissedStreams
    }

    // MARK: Streams that are left out

    /// Leaves a stream out until its next attempt.
    mutating func hold(
        _ entity: EntityName, _ detail: String, _ cause: StreamQuarantine.Cause, kind: HubReply.Kind = .nonsense,
        until relief: StreamQuarantine.Relief = .page, _ state: inout SyncState
    ) {
        let before = state.readings.held[entity]
        state.readings.held.add(
            entity, detail, cause, until: relief, backoff: state.settings.backoff, at: state.now.instant, using: &state.random)
        state.readings.circles[entity] = nil
        failed.insert(entity)
        asked.remove(entity)
        state.recordFirstError("\(entity) was not read: \(detail)", kind)
        guard let now = state.readings.held[entity] else { return }
        // A server's error may be gone a moment later; content stays as it is.
        let isAlarm = cause == .content || now.failures >= 3
        if before?.detail == now.detail, !(isAlarm && now.failures == 3 && cause == .error) { return }
        state.report(.streamHeld(entity, detail: now.detail, isAlarm: isAlarm))
    }

    /// Selects the streams with an expired cursor that are started again. One that was restarted a moment ago and has not been answered
    /// since would be listed without end.
    mutating func startAgain(_ expired: [EntityName], _ state: inout SyncState) -> [EntityName] {
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

    mutating func recordPage() {
        pages += 1
    }

    mutating func recordReceived(_ count: Int) {
        received += count
    }

    /// Ends the reading of a cycle that must not read on now.
    ///
    /// - Returns: The phase that follows; `nil` when the cycle may read on.
    func endIfDue(_ state: inout SyncState) -> NextPhase? {
        if state.pressure.isQuiet { return state.goOnLater() }
        // Local changes must not wait without limit behind a huge backlog, so reading goes on in the next cycle.
        guard pages >= Limits.pullPagesPerCycle || state.isOverBudget else { return nil }
        state.trigger(.again(at: goOnReadingAt(&state)))
        return .push
    }

    /// Time of the cycle that continues with the remaining pages. A server that announces more and sends nothing is asked less and less
    /// often.
    private func goOnReadingAt(_ state: inout SyncState) -> Instant {
        guard received == 0, pages >= Self.emptyPagesMax else {
            state.readings.emptyCycles = 0
            return state.now.instant
        }
        state.readings.emptyCycles += 1
        let delay = state.settings.backoff.delay(afterFailures: state.readings.emptyCycles + 1, using: &state.random)
        return state.now.instant.advanced(by: delay)
    }

    /// Loads the next streams from the store, if the hub may be asked for more.
    func goOnSeeding(_ state: inout SyncState) -> NextRead {
        if let end = endIfDue(&state) { return .leave(end) }
        return .loadStreams
    }

    /// Reads nothing in this cycle: the settings of the hub come first.
    mutating func learnFirst(_ state: inout SyncState) -> NextRead {
        hasMissedStreams = true
        state.cycle?.outcome.interruption = .schemasOffered
        return .leave(.push)
    }

    /// Leaves the read to the next cycle, because the answer to the pull that waited is on its way, and would be fetched twice.
    mutating func readAfterNews(_ state: inout SyncState) -> NextRead {
        hasMissedStreams = true
        // A read for conflicts, or for other scopes, needs no request, or one to push. What it frees is pushed after it.
        var request = state.cycle?.outcome.request ?? SyncRequest()
        if request.scope == .push { request.scope = .all }
        state.handOn(request, because: .newsArriving)
        state.trigger(.requested(isForced: request.isForced))
        return .leave(.push)
    }

    // MARK: Failed reads

    /// Counts a bad answer whose reason may lie in the request. One to another phase counts as well, so that the cycle gives up its reads
    /// the sooner.
    ///
    /// - Returns: `nil` when the reason lies elsewhere.
    mutating func recordFailure(_ refusal: HubReply.Refusal, hasFailedBefore: Bool, _ state: SyncState) -> FailedRead? {
        guard refusal.mayLieInRequest else { return nil }
        // The hub itself may be in trouble, not the requested stream: then more requests are the wrong reaction.
        if refusal.kind == .failed, !hasFailedBefore, state.readings.failures < 2 { return nil }
        failures += 1
        return FailedRead(refusal: refusal, isLast: failures >= Self.failuresMax || refusal.kind == .failed)
    }

    /// A usable answer ends the row of failures.
    mutating func recordSuccess() {
        failures = 0
    }

    mutating func pushInstead(_ state: inout SyncState) -> NextRead {
        // The streams that were not asked come with another cycle, and not at once.
        let failures = max(1, state.memory.failures + 1)
        let delay = state.settings.backoff.delay(afterFailures: failures, using: &state.random)
        state.trigger(.again(at: state.now.instant.advanced(by: delay)))
        hasMissedStreams = true
        return .leave(.push)
    }
}

/// A read without a usable answer, whose reason may lie in the request.
struct FailedRead {
    let refusal: HubReply.Refusal
    /// The cycle reads no more after it.
    let isLast: Bool

    var isServersError: Bool { refusal.kind == .failed }

    var cause: StreamQuarantine.Cause { isServersError ? .error : .content }
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
