/// Brings the hub's changes, page by page, each with its cursor in one transaction.
///
/// Unlike the other phases it is kept for the whole cycle: pushes may come between its reads, and a later read must know of the ones
/// before.
package struct PullPhase: Hashable, Sendable {
    enum Step: Hashable, Sendable {
        /// Before a pull, when not everything may be settled: mutations in flight prevent the pull.
        case lookingForUnsettled
        case loadingStreams
        case pulling([StreamPosition], call: UInt64)
        case applyingPull([StreamPosition], restart: [EntityName])
        case restartingStreams
        case listing(StreamPosition, call: UInt64)
        case applyingSnapshot
        case seeding(StreamPosition, call: UInt64)
        case applyingSeed
        case digesting(StreamPosition)
        case verifying(StreamPosition, call: UInt64)
        case recordingComparison
    }

    /// The event that the phase waits for. The step of a call holds the request.
    var step = Step.loadingStreams
    /// The reads that are still to do.
    var plan = ReadingPlan()
    /// Streams that did not fit into the request.
    var unasked: [StreamPosition] = []
    /// The head of the cycle's first pull answer: everything up to it has been read when the last page is in.
    var head: Int64?
    /// A stream answered with an error of its own, so the pull is incomplete.
    var missedStreams = false
    /// Entities that were asked for, except the refused ones.
    var asked: Set<EntityName> = []
    /// Streams that failed in this cycle: none of them is asked for twice.
    var failedStreams: Set<EntityName> = []
    /// Number of failed reads in a row.
    var badReads = 0
    /// Number of answers whose cursor stood still although more was to come.
    var stuckPages = 0
    var pages = 0
    /// Number of records and deletions of all pages.
    var received = 0
    /// Reference data is read alone, because the records that a new device needs first come after it.
    var readsReferences = false
    var hasReadReferences = false
    /// The hub has named entities that were not known before, or has been asked in vain: once a cycle is enough.
    var hasAskedForEntities = false
    var hasFoundEntities = false
    /// Streams were started again in this cycle because it was due.
    var hasRestarted = false

    var call: UInt64? {
        switch step {
        case .pulling(_, let call), .listing(_, let call), .seeding(_, let call), .verifying(_, let call): call
        case .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot, .applyingSeed, .digesting,
            .recordingComparison:
            nil
        }
    }

    /// `true` when the content of the call is in its answer.
    var isReading: Bool {
        switch step {
        case .pulling, .listing, .seeding: true
        case .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot, .applyingSeed, .digesting,
            .verifying, .recordingComparison:
            false
        }
    }

    /// The awaited answer, for people.
    var awaited: String {
        switch step {
        case .pulling: "pull"
        case .listing: "listing"
        case .verifying: "comparison"
        case .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot, .seeding, .applyingSeed,
            .digesting, .recordingComparison:
            "the store"
        }
    }

    // MARK: Beginning

    /// Mutations that cannot be settled now must not be part of a pulled base either.
    mutating func lookForUnsettled(_ state: inout SyncState) -> NextPhase {
        step = .lookingForUnsettled
        state.ask(.loadInFlight(BatchLimits(mutations: 1, bytes: 1)))
        return .wait
    }

    mutating func loadStreams(_ state: inout SyncState) -> NextPhase {
        if state.mustLearnSchemas { return learnFirst(&state) }
        step = .loadingStreams
        // Its cursors are about to be old.
        state.endWait()
        state.ask(.loadStreams(also: state.settings.pullsAll ? state.memory.hubEntities ?? [] : []))
        return .wait
    }

    // MARK: Answers of the store

    mutating func handle(_ answer: StoreAnswer, _ state: inout SyncState) -> NextPhase {
        switch step {
        case .lookingForUnsettled:
            guard case .batch(let unsettled, _, _) = answer else { return state.fail(answer) }
            return unsettled == nil ? loadStreams(&state) : .push
        case .loadingStreams:
            guard case .streams(let streams) = answer else { return state.fail(answer) }
            return read(from: streams, &state)
        case .applyingPull(let next, let gone):
            guard case .pullApplied(let summary) = answer else { return state.fail(answer) }
            return applied(summary, next, gone, &state)
        case .restartingStreams:
            guard case .done = answer else { return state.fail(answer) }
            return loadStreams(&state)
        case .applyingSnapshot:
            guard case .snapshotApplied(let summary, let position) = answer else { return state.fail(answer) }
            return listed(summary, position, &state)
        case .applyingSeed:
            guard case .snapshotApplied(let summary, _) = answer else { return state.fail(answer) }
            state.cycle?.outcome.pulled += summary.upserts
            pages += 1
            return goOnSeeding(&state)
        case .digesting(let position):
            guard case .digest(let digest) = answer else { return state.fail(answer) }
            return verify(position, digest, &state)
        case .recordingComparison:
            guard case .done = answer else { return state.fail(answer) }
            return compare(&state)
        case .pulling, .listing, .seeding, .verifying: return state.fail(answer)
        }
    }

    private mutating func read(from streams: [StreamPosition], _ state: inout SyncState) -> NextPhase {
        asked = []
        if state.durable.keepLeftOut(only: Set(streams.map(\.entity))) { state.reportLeftOut() }
        let isSecondLook = state.cycle?.hasPulledForConflicts == true
        var wanted: [StreamPosition] = []
        for stream in streams {
            let isWanted = !isSecondLook || state.cycle?.conflicted.contains(stream.entity) == true
            if isWanted, mayPull(stream.entity, state), !isHeld(stream.entity, state) { wanted.append(stream) }
        }
        if state.cycle?.scope == .full {
            state.cycle?.scope = .all
            return restart(wanted.map(\.entity), &state)
        }
        state.cycle?.outcome.hadNoStreams = streams.isEmpty
        guard wanted.isEmpty else { return read(wanted, &state) }
        return streams.isEmpty ? askForEntities(&state) : .push
    }

    /// Asked before each page. An entity that is left out does not count as read up to the hub's head.
    mutating func mayPull(_ entity: EntityName, _ state: SyncState) -> Bool {
        switch state.allowed.pull?.entities {
        case .all: return true
        // A caller that may push may also read the results.
        case .critical where state.settings.criticalEntities.contains(entity) || state.cycle?.conflicted.contains(entity) == true:
            return true
        case .critical, nil:
            missedStreams = true
            asked.remove(entity)
            return false
        }
    }

    /// Returns whether a stream may not be asked in this cycle. A requested cycle makes one attempt, but not two.
    private func isHeld(_ entity: EntityName, _ state: SyncState) -> Bool {
        if failedStreams.contains(entity) { return true }
        return state.cycle?.isRequested != true && state.readings.held.holds(entity, at: state.now.instant)
    }

    // MARK: Requests

    /// No entity to pull is known: a pull without streams asks which ones the hub has.
    private mutating func askForEntities(_ state: inout SyncState) -> NextPhase {
        guard state.namesEntities, !hasAskedForEntities, state.allowed.pull?.entities == .all else { return .push }
        unasked = []
        return request([], &state)
    }

    mutating func pull(_ streams: [StreamPosition], _ state: inout SyncState) -> NextPhase {
        // The hub limits the streams of one request; the others are asked for with the next page.
        var allowed: [StreamPosition] = []
        for stream in streams where mayPull(stream.entity, state) { allowed.append(stream) }
        guard !allowed.isEmpty else { return .push }
        // A stream that failed before is asked alone, after the others, so that it does not make their answer fail again.
        let (sound, doubtful) = state.settings.dialect.isOneRequest ? state.readings.held.split(allowed) : (allowed, [])
        let first = Array(sound.isEmpty ? doubtful.prefix(1) : sound.prefix(state.readings.width ?? PullMessages.streamsMax))
        unasked = Array((sound + doubtful).dropFirst(first.count))
        asked.formUnion(first.map(\.entity))
        return request(first, &state)
    }

    private mutating func request(_ streams: [StreamPosition], _ state: inout SyncState) -> NextPhase {
        var request = PullRequest(
            streams: streams, limit: state.hub.pullRecords, maxBytes: state.sizes.pace.down.bytes, maxSentSeq: state.marks.maxSentSeq,
            namesUnreadable: state.hub.namesUnreadable)
        request.namesEntities = state.namesEntities && !hasAskedForEntities
        if request.namesEntities { hasAskedForEntities = true }
        guard let call = state.send(.pull, state.settings.dialect.pull(request)) else { return state.halt() }
        step = .pulling(streams, call: call)
        return .wait
    }

    /// Lists these entities again; the others continue.
    mutating func restart(_ entities: [EntityName], _ state: inout SyncState) -> NextPhase {
        guard !entities.isEmpty else { return .push }
        state.hub.forgetReadHead()
        state.report(.streamsRestarted(entities))
        step = .restartingStreams
        // Where some cursors were made under other scopes, the others of the same answer were, too.
        let isOfShare = !state.readings.rescoped.isDisjoint(with: entities)
        state.readings.rescoped.subtract(entities)
        state.ask(isOfShare ? .restartShares(entities) : .restartStreams(entities))
        return .wait
    }

    /// Reads nothing in this cycle: the settings of the hub come first.
    mutating func learnFirst(_ state: inout SyncState) -> NextPhase {
        missedStreams = true
        state.cycle?.outcome.interruption = .schemasOffered
        return .push
    }

    // MARK: Pages

    /// - Parameter isHubs: A hub has answered, with its head; an existing backend knows none.
    mutating func handle(_ response: PullResponse, isHubs: Bool, _ state: inout SyncState) throws(ReplyError) -> NextPhase {
        guard case .pulling(let requested, _) = step else { return .wait }
        if let epoch = response.epoch, state.isOtherHistory(epoch) { return .heal(to: epoch) }
        if state.mustLearnSchemas { return learnFirst(&state) }
        var (usable, gone) = try sortOut(response, against: requested, &state)
        // New entities are pulled in the same cycle, so that a requested sync brings them.
        if let entities = response.entities, state.durable.recordEntities(entities) { hasFoundEntities = true }
        head = head ?? response.head
        if !usable.pages.isEmpty { badReads = 0 }
        asked.subtract(response.errors.map(\.entity))
        if isHubs {
            state.endTrial()
            // Until these are read again, the head up to which everything is known is undefined.
            if !gone.isEmpty { state.hub.forgetReadHead() }
        } else {
            // There is no number of the newest change: a list that was just read to its end counts as complete.
            state.hub.recordHead(response.head, at: state.now.instant)
            if !gone.isEmpty { missedStreams = true }
        }
        let more = usable.pages.filter(\.hasMore).map { StreamPosition(entity: $0.entity, cursor: $0.cursor) }
        step = .applyingPull(unasked + more, restart: gone)
        let standing = state.stand(at: response.head)
        // A page without news needs no write.
        if !usable.pages.isEmpty { usable.standing = standing }
        usable.newerSchemas = state.newerSchemas
        state.ask(.applyPull(usable))
        return .wait
    }

    private mutating func applied(
        _ summary: PullSummary, _ next: [StreamPosition], _ gone: [EntityName], _ state: inout SyncState
    ) -> NextPhase {
        state.cycle?.outcome.pulled += summary.upserts + summary.deletions
        pages += 1
        if !summary.massDeletes.isEmpty { state.report(.massDelete(summary.massDeletes)) }
        if next.isEmpty, gone.isEmpty { return readToTheEnd(&state) }
        if state.pressure.isQuiet { return state.goOnLater() }
        // Streams whose cursor the hub no longer knows would be asked again then, and refused again.
        if hasReadEnough(&state) { return .push }
        // The others continue with the cursors that were committed with their pages.
        if !gone.isEmpty { return restart(gone, &state) }
        return pull(next, &state)
    }

    /// Pulls the next streams after one that was left out.
    mutating func goOn(_ streams: [StreamPosition], _ state: inout SyncState) -> NextPhase {
        streams.isEmpty ? applied(PullSummary(), [], [], &state) : pull(streams, &state)
    }

    private mutating func readToTheEnd(_ state: inout SyncState) -> NextPhase {
        if hasFoundEntities {
            hasFoundEntities = false
            return loadStreams(&state)
        }
        // A second read of a few entities, or a read that missed some, does not bring everything up to that head.
        let isWhole = state.cycle?.hasPulledForConflicts == false && !missedStreams
        state.hub.recordPulled(asked, at: state.now.wall)
        // Only a complete read is stored: it takes few bytes, and the pages themselves hold the rest.
        if isWhole, !readsReferences, state.readings.held.isEmpty { state.durable.recordWholePull(at: state.now.wall) }
        if readsReferences {
            readsReferences = false
            return goOnSeeding(&state)
        }
        (state.readings.width, state.readings.failures) = (nil, 0)
        if isWhole { state.hub.recordWholeRead(upTo: head) }
        return compare(&state)
    }

    /// Returns whether reading goes on in the next cycle, because local changes must not wait without limit behind a huge backlog.
    mutating func hasReadEnough(_ state: inout SyncState) -> Bool {
        guard pages >= Limits.pullPagesPerCycle || state.isOverBudget else { return false }
        state.trigger(.again(at: goOnReadingAt(&state)))
        return true
    }

    /// Number of pages after which a cycle whose pages were all empty, with more to come, delays the next one.
    private static let emptyPagesMax = 3

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
}
