/// Writes a new identity before anything else happens: a new replica id of this database, or the history of the hub that is ours now.
package struct AdoptPhase: Hashable, Sendable {
    private enum Step: Hashable, Sendable {
        case replica(ReplicaID)
        case history
    }

    private var step = Step.history

    /// Takes a new replica id, because this database had gone back.
    mutating func beginReplica(_ seen: Int64, _ state: inout SyncState) -> NextPhase {
        state.cycle?.hasAdoptedReplica = true
        state.report(.regressed(hubSeq: seen, ours: state.marks.maxSentSeq))
        let adopted = ReplicaID(trusted: UUIDv7.make(at: state.now.wall, using: &state.random))
        step = .replica(adopted)
        state.ask(.adoptReplica(adopted))
        return .wait
    }

    /// Records the first history ever. It is on flash before any other answer of that hub: mutations that it accepts must not count as
    /// accepted by a later hub.
    mutating func beginFirstHistory(_ epoch: String, _ state: inout SyncState) -> NextPhase {
        state.durable.learnHistory(epoch)
        state.saveMemory()
        return .wait
    }

    /// The database now looks like one without knowledge of the new history, so that can become ours.
    mutating func beginNewHistory(_ state: inout SyncState) -> NextPhase {
        guard let healing = state.memory.healing else { return .wait }
        state.report(.historyAdopted(epoch: healing.epoch, requeued: healing.requeued))
        state.durable.adopt(healing, withStanding: !state.ablations.contains(.proofIgnored))
        state.cycle?.isHealing = false
        state.hub.requireHello()
        state.saveMemory()
        return .wait
    }

    func handle(_ answer: StoreAnswer, _ state: inout SyncState) -> NextPhase {
        switch step {
        case .replica(let adopted):
            guard case .done = answer else { return state.fail(answer) }
            // Only now: if the store had refused, the hub would see a new replica while the mutations in flight stay unsettled.
            state.marks = ReplicaMarks(adopted)
            state.hub.requireHello()
            // The history of the coming verdicts has to be known before them.
            return state.memory.epoch == nil && state.settings.dialect.fixedHistory == nil ? .greet : .settle
        case .history:
            state.durable.recordSaved(answer)
            if case .failed(let text) = answer {
                if state.durable.forgetUnsavedHistory() { state.hub.requireHello() }
                return state.fail("the store could not: \(text)", retry: .seconds(30))
            }
            // Mutations in flight, old ones and those offered again, are settled before any page of the new listing.
            return .settle
        }
    }
}
