import Logging
import SyncCore
import SyncHTTP
import SyncStore

/// State of the work on the declared indexes of the mirror.
struct IndexUpkeep {
    /// The store is processing a slice, or the next one is planned.
    var isBusy = false
    var wake: LoopTimer?
    /// The declarations changed while the store was processing a slice.
    var isAskedAgain = false
}

// Builds and removes indexes in slices, with a pause after each that is as long as the slice took, so that apps are served in between.
extension Agent {
    /// Brings the indexes to what the configuration declares.
    func tendIndexes() {
        guard hasBegun, !hasStopped else { return }
        if indexes.isBusy { return indexes.isAskedAgain = true }
        indexes.isBusy = true
        tendSlice()
    }

    private func tendSlice() {
        let began = environment.time.now().instant
        fromStore { store, now throws(StoreError) in
            try store.tendIndexes(at: now)
        } then: { agent, result in
            let took = began.duration(to: agent.environment.time.now().instant)
            switch result {
            case .success(true): agent.tendLater(max(took, Self.sliceGap))
            case .success(false):
                agent.indexes.isBusy = false
                guard agent.indexes.isAskedAgain else { return }
                agent.indexes.isAskedAgain = false
                agent.tendIndexes()
            case .failure(let error):
                agent.log.warning(
                    "an index of the mirror could not be built or removed; agentd retries in a minute", metadata: ["error": "\(error)"])
                agent.tendLater(.seconds(60))
            }
        }
    }

    private func tendLater(_ pause: Duration) {
        indexes.wake = schedule(after: pause) { agent in
            agent.indexes.wake = nil
            if !agent.hasStopped { agent.tendSlice() }
        }
    }

    func stopTendingIndexes() {
        indexes.wake?.cancel()
        indexes.wake = nil
    }

    private static let sliceGap: Duration = .milliseconds(5)
}
