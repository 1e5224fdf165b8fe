/// Brings the hub's changes, page by page, each with its cursor in one transaction. A new device reads in this order: reference data, then
/// the records that pass the seed filters, then everything.
///
/// Each part of the reading owns its state: ``FeedReading``, ``ListingReading``, ``DigestComparison``, and ``CycleReads`` for what they
/// share. A part handles an answer and names the read that comes next (``NextRead``).
///
/// Unlike the other phases it is kept for the whole cycle: pushes may come between its reads, and a later read must know of the ones
/// before.
package struct PullPhase: Hashable, Sendable {
    private var step = ReadStep.loadingStreams
    private var reads = CycleReads()
    private var feeds = FeedReading()
    private var listings = ListingReading()
    private var comparisons = DigestComparison()
    /// Streams were started again in this cycle because it was due.
    private var hasRestarted = false

    var call: UInt64? { step.call }

    /// `true` when the content of the call is in its answer.
    var isReading: Bool { step.isReading }

    /// The awaited answer, for people.
    var awaited: String { step.awaited }

    // MARK: Beginning

    /// Mutations that cannot be settled now must not be part of a pulled base either.
    mutating func lookForUnsettled(_ state: inout SyncState) -> NextPhase {
        state.ask(.loadInFlight(BatchLimits(mutations: 1, bytes: 1)))
        return go(on: .wait(for: .lookingForUnsettled), &state)
    }

    mutating func loadStreams(_ state: inout SyncState) -> NextPhase {
        go(on: .loadStreams, &state)
    }

    /// A read of all streams begins. It may be the second one of its cycle.
    mutating func beginWholeRead() { feeds.beginWholeRead() }

    /// Goes on as if it had just asked for these streams: the answer to a pull that waited for news begins the cycle.
    mutating func beginWithAnswer(to streams: [StreamPosition], call: UInt64) {
        reads.recordAsked(streams.map(\.entity))
        step = .pulling(streams, call: call)
    }

    /// Begins reads until one waits for an answer, or the cycle goes on in another phase.
    private mutating func go(on next: NextRead, _ state: inout SyncState) -> NextPhase {
        var next = next
        while true {
            switch next {
            case .wait(let step):
                self.step = step
                return .wait
            case .loadStreams: next = load(&state)
            case .restart(let entities): next = restart(entities, &state)
            case .list: next = listings.next(&reads, &state)
            case .pull(let streams): next = feeds.pull(streams, &reads, &state)
            case .compare: next = comparisons.next(&reads, &state)
            case .leave(let phase): return phase
            }
        }
    }

    // MARK: Answers of the store

    mutating func handle(_ answer: StoreAnswer, _ state: inout SyncState) -> NextPhase {
        switch step {
        case .lookingForUnsettled:
            guard case .batch(let unsettled, _, _) = answer else { return state.fail(answer) }
            return unsettled == nil ? loadStreams(&state) : .push
        case .loadingStreams:
            guard case .streams(let streams) = answer else { return state.fail(answer) }
            return go(on: read(from: streams, &state), &state)
        case .applyingPull(let next, let gone):
            guard case .pullApplied(let summary) = answer else { return state.fail(answer) }
            return go(on: feeds.applied(summary, next, gone, &reads, &state), &state)
        case .restartingStreams:
            guard case .done = answer else { return state.fail(answer) }
            reads.restarted(&state)
            return loadStreams(&state)
        case .applyingSnapshot:
            guard case .snapshotApplied(let summary, let position) = answer else { return state.fail(answer) }
            return go(on: listings.listed(summary, position, &reads, &state), &state)
        case .applyingSeed:
            guard case .snapshotApplied(let summary, _) = answer else { return state.fail(answer) }
            return go(on: listings.seeded(summary, &reads, &state), &state)
        case .digesting(let position):
            guard case .digest(let digest) = answer else { return state.fail(answer) }
            return go(on: comparisons.verify(position, digest, &state), &state)
        case .recordingComparison:
            guard case .done = answer else { return state.fail(answer) }
            return go(on: .compare, &state)
        case .pulling, .listing, .seeding, .verifying: return state.fail(answer)
        }
    }

    private mutating func load(_ state: inout SyncState) -> NextRead {
        if state.mustLearnSchemas { return reads.learnFirst(&state) }
        if state.news.isArriving { return reads.readAfterNews(&state) }
        // Its cursors are about to be old.
        state.endWait()
        state.ask(.loadStreams(also: state.settings.pullsAll ? state.memory.hubEntities ?? [] : []))
        return .wait(for: .loadingStreams)
    }

    private mutating func read(from streams: [StreamPosition], _ state: inout SyncState) -> NextRead {
        reads.begin(streams.map(\.entity))
        if state.durable.keepLeftOut(only: Set(streams.map(\.entity))) { state.reportLeftOut() }
        let isSecondLook = state.cycle?.hasPulledForConflicts == true
        var wanted: [StreamPosition] = []
        for stream in streams {
            let isWanted = !isSecondLook || state.cycle?.conflicted.contains(stream.entity) == true
            if isWanted, reads.mayRead(stream.entity, state), !reads.isHeld(stream.entity, state) { wanted.append(stream) }
        }
        if state.cycle?.scope == .full {
            state.cycle?.scope = .all
            return .restart(wanted.map(\.entity))
        }
        state.cycle?.outcome.hadNoStreams = streams.isEmpty
        guard wanted.isEmpty else { return read(wanted, &state) }
        return streams.isEmpty ? feeds.askForEntities(&state) : .leave(.push)
    }

    /// Decides which streams to list, to pull and to compare.
    private mutating func read(_ wanted: [StreamPosition], _ state: inout SyncState) -> NextRead {
        if let seed = seed(from: wanted, &state) { return seed }
        let due = wanted.filter { $0.listing == nil && state.mayCompare($0) }
        if !state.hub.hasDigests, !due.isEmpty, !hasRestarted {
            hasRestarted = true
            return .restart(due.map(\.entity))
        }
        listings.plan(wanted)
        comparisons.plan(state.hub.hasDigests ? due : [])
        return .list
    }

    /// Asks for the next part of the seed; `nil` when there is none.
    private mutating func seed(from wanted: [StreamPosition], _ state: inout SyncState) -> NextRead? {
        func isNew(_ stream: StreamPosition) -> Bool { stream.listing == nil && stream.cursor == nil }
        guard let next = wanted.first(where: { $0.seed != nil && isNew($0) }) else { return nil }
        let references = wanted.filter { $0.isReference && isNew($0) }
        return feeds.readReferences(references, &reads, &state) ?? listings.seed(next, &state)
    }

    /// Lists these entities again; the others continue.
    private func restart(_ entities: [EntityName], _ state: inout SyncState) -> NextRead {
        guard !entities.isEmpty else { return .leave(.push) }
        state.hub.forgetReadHead()
        state.report(.streamsRestarted(entities))
        // Where some cursors were made under other scopes, the others of the same answer were, too.
        let isOfShare = !state.readings.rescoped.isDisjoint(with: entities)
        state.readings.rescoped.subtract(entities)
        state.ask(isOfShare ? .restartShares(entities) : .restartStreams(entities))
        return .wait(for: .restartingStreams)
    }

    // MARK: Answers of the server

    /// - Parameter isHubs: A hub has answered, with its head; an existing backend knows none.
    mutating func handle(_ response: PullResponse, isHubs: Bool, _ state: inout SyncState) throws(ReplyError) -> NextPhase {
        guard case .pulling(let requested, _) = step else { return .wait }
        return go(on: try feeds.handle(response, to: requested, isHubs: isHubs, &reads, &state), &state)
    }

    mutating func handle(_ page: SnapshotPage, _ state: inout SyncState) throws(ReplyError) -> NextPhase {
        switch step {
        case .listing(let asked, _): go(on: try listings.handle(page, ofListing: asked, &reads, &state), &state)
        case .seeding(let asked, _): go(on: try listings.handle(page, ofSeed: asked, &reads, &state), &state)
        case .lookingForUnsettled, .loadingStreams, .pulling, .applyingPull, .restartingStreams, .applyingSnapshot, .applyingSeed,
            .digesting, .verifying, .recordingComparison:
            .wait
        }
    }

    mutating func handle(_ comparison: VerifyResponse, _ state: inout SyncState) -> NextPhase {
        guard case .verifying(let position, _) = step else { return .wait }
        return go(on: comparisons.handle(comparison, of: position, &reads, &state), &state)
    }

    // MARK: Failed reads

    /// Handles a call without a usable answer. When the reason lies in the request, not in the way to the hub, its stream is left out, or
    /// the one stream is searched that makes the answer fail for others. Otherwise the failure is one of the whole hub.
    mutating func failed(_ refusal: HubReply.Refusal, _ state: inout SyncState) -> NextPhase {
        let hasFailedBefore = step.hasFailedBefore(state.readings)
        guard let failure = reads.recordFailure(refusal, hasFailedBefore: hasFailedBefore, state),
            let next = leaveOut(failure, &state)
        else { return end(refusal, &state) }
        return go(on: next, &state)
    }

    /// - Returns: `nil` when the failure is one of the whole hub.
    private mutating func leaveOut(_ failure: FailedRead, _ state: inout SyncState) -> NextRead? {
        switch step {
        case .pulling(let requested, _): feeds.leaveOut(requested, failure, &reads, &state)
        case .listing(let position, _): listings.leaveOut(listing: position, failure, &reads, &state)
        case .seeding(let position, _): listings.leaveOut(seed: position, failure, &reads, &state)
        case .verifying(let position, _): comparisons.leaveOut(position, failure, &reads, &state)
        case .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot, .applyingSeed, .digesting,
            .recordingComparison:
            nil
        }
    }

    /// Counts a bad answer to another phase, so that the cycle gives up its reads the sooner.
    mutating func recordFailureElsewhere(_ refusal: HubReply.Refusal, _ state: SyncState) {
        _ = reads.recordFailure(refusal, hasFailedBefore: false, state)
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
            return go(on: .restart(reads.startAgain(expired, &state)), &state)
        case .verifying(let position, _):
            if refusal.problem?.code == Problem.scopeChanged { state.readings.rescoped.insert(position.entity) }
            return go(on: .restart([position.entity]), &state)
        case .pulling, .listing, .seeding, .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot,
            .applyingSeed, .digesting, .recordingComparison:
            return failed(refusal, &state)
        }
    }
}
