/// Reads feeds from their cursors on, page by page, all streams of a request at once.
struct FeedReading: Hashable, Sendable {
    /// Streams that did not fit into the request.
    private var unasked: [StreamPosition] = []
    /// The head of the first pull answer of this read: everything up to it has been read when the last page is in.
    private var head: Int64?
    /// The mark of the scopes of that answer.
    private var mark: String?
    private var pages = PageCheck()
    /// Reference data is read alone, because the records that a new device needs first come after it.
    private var readsReferences = false
    private var hasReadReferences = false
    /// The hub was asked for its entities: once a cycle is enough.
    private var hasAskedForEntities = false
    /// The hub has named entities that were not known before.
    private var hasFoundEntities = false

    /// The head of an earlier read of the cycle does not count for this one.
    mutating func beginWholeRead() { (head, mark) = (nil, nil) }

    // MARK: Requests

    /// No entity to pull is known: a pull without streams asks which ones the hub has.
    mutating func askForEntities(_ state: inout SyncState) -> NextRead {
        guard state.namesEntities, !hasAskedForEntities, state.allowed.pull?.entities == .all else { return .leave(.push) }
        unasked = []
        return request([], &state)
    }

    /// Reads the feeds of reference data alone. They are read once in a cycle, so that an unreadable one delays nothing else.
    ///
    /// - Returns: `nil` when there are none, or this cycle has read them.
    mutating func readReferences(
        _ references: [StreamPosition], _ reads: inout CycleReads, _ state: inout SyncState
    ) -> NextRead? {
        guard !references.isEmpty, !hasReadReferences else { return nil }
        (hasReadReferences, readsReferences) = (true, true)
        return pull(references, &reads, &state)
    }

    mutating func pull(_ streams: [StreamPosition], _ reads: inout CycleReads, _ state: inout SyncState) -> NextRead {
        // The hub limits the streams of one request; the others are asked for with the next page.
        var allowed: [StreamPosition] = []
        for stream in streams where reads.mayRead(stream.entity, state) { allowed.append(stream) }
        guard !allowed.isEmpty else { return .leave(.push) }
        // A stream that failed before is asked alone, after the others, so that it does not make their answer fail again.
        let (sound, doubtful) = state.settings.dialect.isOneRequest ? state.readings.held.split(allowed) : (allowed, [])
        let first = Array(sound.isEmpty ? doubtful.prefix(1) : sound.prefix(state.readings.width ?? PullMessages.streamsMax))
        unasked = Array((sound + doubtful).dropFirst(first.count))
        reads.recordAsked(first.map(\.entity))
        return request(first, &state)
    }

    private mutating func request(_ streams: [StreamPosition], _ state: inout SyncState) -> NextRead {
        var request = PullRequest(
            streams: streams, limit: state.hub.pullRecords, maxBytes: state.sizes.pace.down.bytes, maxSentSeq: state.marks.maxSentSeq,
            namesUnreadable: state.hub.namesUnreadable)
        request.namesEntities = state.namesEntities && !hasAskedForEntities
        if request.namesEntities { hasAskedForEntities = true }
        guard let call = state.send(.pull, state.settings.dialect.pull(request)) else { return .leave(state.halt()) }
        return .wait(for: .pulling(streams, call: call))
    }

    // MARK: Pages

    /// - Parameter isHubs: A hub has answered, with its head; an existing backend knows none.
    mutating func handle(
        _ response: PullResponse, to requested: [StreamPosition], isHubs: Bool, _ reads: inout CycleReads, _ state: inout SyncState
    ) throws(ReplyError) -> NextRead {
        if let epoch = response.epoch, state.isOtherHistory(epoch) { return .leave(.heal(to: epoch)) }
        if state.mustLearnSchemas { return reads.learnFirst(&state) }
        if state.durable.mustListShares, let listing = reads.listShares(&state) { return listing }
        var (usable, gone) = try pages.select(from: response, to: requested, &reads, &state)
        // New entities are pulled in the same cycle, so that a requested sync brings them.
        if let entities = response.entities, state.durable.recordEntities(entities) { hasFoundEntities = true }
        if head == nil { (head, mark) = (response.head, state.memory.shareMark) }
        if !usable.pages.isEmpty { reads.recordSuccess() }
        reads.recordRefused(response.errors.map(\.entity))
        if isHubs {
            state.endTrial()
            // Until these are read again, the head up to which everything is known is undefined.
            if !gone.isEmpty { state.hub.forgetReadHead() }
        } else {
            // There is no number of the newest change: a list that was just read to its end counts as complete.
            state.hub.recordHead(response.head, at: state.now.instant)
            if !gone.isEmpty { reads.recordMissedStreams() }
        }
        let more = usable.pages.filter(\.hasMore).map { StreamPosition(entity: $0.entity, cursor: $0.cursor) }
        let standing = state.stand(at: response.head)
        // A page without news needs no write.
        if !usable.pages.isEmpty { usable.standing = standing }
        usable.newerSchemas = state.newerSchemas
        if isHubs, !more.isEmpty { usable.writtenUnder = state.durable.recordPartOfPull() }
        state.ask(.applyPull(usable))
        return .wait(for: .applyingPull(unasked + more, restart: gone))
    }

    /// The pages were applied.
    ///
    /// - Parameters:
    ///   - next: Streams with more to read.
    ///   - gone: Streams to start again.
    mutating func applied(
        _ summary: PullSummary, _ next: [StreamPosition], _ gone: [EntityName], _ reads: inout CycleReads, _ state: inout SyncState
    ) -> NextRead {
        state.cycle?.outcome.pulled += summary.upserts + summary.deletions
        reads.recordPage()
        if !summary.massDeletes.isEmpty { state.report(.massDelete(summary.massDeletes)) }
        if next.isEmpty, gone.isEmpty { return readToTheEnd(&reads, &state) }
        // The next cycle restarts the streams in `gone`, after the hub has refused their cursors once more.
        if let end = reads.endIfDue(&state) { return .leave(end) }
        // The others continue with the cursors that were committed with their pages.
        return gone.isEmpty ? .pull(next) : .restart(gone)
    }

    private mutating func readToTheEnd(_ reads: inout CycleReads, _ state: inout SyncState) -> NextRead {
        if hasFoundEntities {
            hasFoundEntities = false
            return .loadStreams
        }
        let isWhole = reads.isWhole(state)
        reads.recordPulled(&state)
        // Only a complete read is stored: it takes few bytes, and the pages themselves hold the rest.
        if isWhole, !readsReferences, state.readings.held.isEmpty { state.durable.recordWholePull(at: state.now.wall) }
        if readsReferences {
            readsReferences = false
            return reads.goOnSeeding(&state)
        }
        (state.readings.width, state.readings.failures) = (nil, 0)
        guard isWhole else { return .compare }
        state.hub.recordWholeRead(upTo: head)
        if state.readings.held.isEmpty { state.durable.recordSharesRead(under: mark == state.memory.shareMark ? mark : nil) }
        return .compare
    }

    // MARK: Failed reads

    /// Leaves out the one stream of the request, or searches for the one that makes the answer fail for the others.
    ///
    /// - Returns: `nil` when the failure counts as one of the whole hub.
    mutating func leaveOut(
        _ requested: [StreamPosition], _ failure: FailedRead, _ reads: inout CycleReads, _ state: inout SyncState
    ) -> NextRead? {
        let rest = unasked
        let givesUpAll = failure.isLast && !failure.isServersError
        guard requested.count == 1 || givesUpAll else {
            state.readings.width = max(1, requested.count / 2)
            // A hub in trouble is asked for half of it in the next cycle.
            return failure.isServersError ? nil : .pull(requested + rest)
        }
        for stream in givesUpAll ? requested + rest : requested {
            reads.hold(stream.entity, failure.refusal.detail, failure.cause, kind: failure.refusal.kind, &state)
        }
        unasked = []
        if failure.isLast { return reads.pushInstead(&state) }
        return rest.isEmpty ? applied(PullSummary(), [], [], &reads, &state) : .pull(rest)
    }
}
