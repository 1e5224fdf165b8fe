/// Compares entities with the hub by digests (PROTOCOL A8), which avoids most complete listings.
struct DigestComparison: Hashable, Sendable {
    /// Entities to compare with the hub when their feeds are read.
    private var due: [StreamPosition] = []
    private var hasDifferences = false

    mutating func plan(_ streams: [StreamPosition]) {
        due = streams
        hasDifferences = false
    }

    /// Begins the next due comparison, after the last page of all feeds.
    mutating func next(_ reads: inout CycleReads, _ state: inout SyncState) -> NextRead {
        guard let next = due.first else {
            guard hasDifferences else { return .leave(.push) }
            hasDifferences = false
            return .loadStreams
        }
        guard reads.mayRead(next.entity, state), !state.isOverBudget, !state.pressure.isQuiet else { return .leave(.push) }
        due.removeFirst()
        state.ask(.digest(next.entity))
        return .wait(for: .digesting(next))
    }

    /// Sends the digest of an entity to the hub.
    func verify(_ position: StreamPosition, _ digest: EntityDigest, _ state: inout SyncState) -> NextRead {
        let request = VerifyRequest(entity: position.entity, cursor: position.cursor ?? "", digest: digest)
        guard let call = state.send(.verify, CallContent(body: VerifyMessages.request(request))) else { return .leave(state.halt()) }
        return .wait(for: .verifying(position, call: call))
    }

    mutating func handle(
        _ comparison: VerifyResponse, of position: StreamPosition, _ reads: inout CycleReads, _ state: inout SyncState
    ) -> NextRead {
        _ = state.readings.uncompared.release(position.entity, by: .end)
        reads.recordSuccess()
        if !comparison.differs.isEmpty { hasDifferences = true }
        state.report(.compared(position.entity, differing: comparison.differs.count))
        state.ask(.recordComparison(position.entity, differs: comparison.differs, shareMark: state.durable.memory.shareMark))
        return .wait(for: .recordingComparison)
    }

    /// Leaves an entity out of the comparisons until its next attempt. Its feed is read all the same.
    func leaveOut(
        _ position: StreamPosition, _ failure: FailedRead, _ reads: inout CycleReads, _ state: inout SyncState
    ) -> NextRead {
        state.readings.uncompared.add(
            position.entity, failure.refusal.detail, failure.cause, backoff: state.settings.backoff, at: state.now.instant,
            using: &state.random)
        state.recordFirstError("\(position.entity) was not compared: \(failure.refusal.detail)", failure.refusal.kind)
        return failure.isLast ? reads.pushInstead(&state) : .compare
    }
}

extension SyncState {
    /// Returns whether a comparison of the stream is due and may run.
    func mayCompare(_ stream: StreamPosition) -> Bool {
        stream.cursor != nil && mayCompare(stream.fullSync) && !readings.uncompared.holds(stream.entity, at: now.instant)
    }

    /// Returns whether a full comparison may run. It waits for an unmetered link and ample power; after its hard limit it runs in any case.
    private func mayCompare(_ fullSync: StreamPosition.FullSync) -> Bool {
        switch fullSync {
        case .notDue: false
        case .due: conditions.uplink?.isMetered != true && conditions.power == .ample
        case .overdue: true
        }
    }
}
