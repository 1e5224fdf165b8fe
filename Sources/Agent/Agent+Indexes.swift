import Logging
import SyncCore
import SyncHTTP
import SyncStore

/// The work on the declared indexes of the mirror.
struct IndexUpkeep {
    /// A slice is with the store, or the next one is due.
    var isBusy = false
    var wake: LoopTimer?
    /// The declarations changed while a slice was with the store.
    var isAskedAgain = false
}

// Indexes are built and removed a slice at a time, with as long a pause after each as it took: apps are served between them.
extension Agent {
    /// Makes the indexes what the configuration declares.
    func tendIndexes() {
        guard hasBegun, !hasStopped else { return }
        if indexes.isBusy { return indexes.isAskedAgain = true }
        indexes.isBusy = true
        tendSlice()
    }

    private func tendSlice() {
        let began = environment.time.now().instant
        store.run { store, now throws(StoreError) in
            try store.tendIndexes(at: now)
        } completion: { [self] result in
            assumeIsolated { agent in
                let took = began.duration(to: agent.environment.time.now().instant)
                switch result {
                case .success(true): agent.tendLater(max(took, Self.sliceGap))
                case .success(false):
                    agent.indexes.isBusy = false
                    guard agent.indexes.isAskedAgain else { return }
                    agent.indexes.isAskedAgain = false
                    agent.tendIndexes()
                case .failure(let error):
                    agent.log.warning("the work on the indexes of the mirror is tried again in a minute", metadata: ["error": "\(error)"])
                    agent.tendLater(.seconds(60))
                }
            }
        }
    }

    private func tendLater(_ pause: Duration) {
        indexes.wake = executor.schedule(after: pause) { [weak self] in
            self?.assumeIsolated { agent in
                agent.indexes.wake = nil
                if !agent.hasStopped { agent.tendSlice() }
            }
        }
    }

    func stopTendingIndexes() {
        indexes.wake?.cancel()
        indexes.wake = nil
    }

    private static let sliceGap: Duration = .milliseconds(5)
}
