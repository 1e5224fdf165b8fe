import SyncCore
import SyncStore

// The room on the disk, for the store.
extension Agent {
    /// Tells the store the free space, at most once a second while work arrives: it refuses work before the disk does.
    func measureSpace() {
        guard let measurement = diskSpace.measure(at: environment.time.now().instant) else { return }
        lookAtClock()
        let free = environment.freeBytes()
        tellStore { store, _ in
            store.freeBytes = free
            if measurement.restoresBallast { store.options.restoreBallast?(free) }
        }
    }

    /// Handles a disk that was full just now.
    func reportFullDisk() {
        let store = loaded.configuration.store
        diskSpace.wasFull(
            free: environment.freeBytes(), reserve: Int64(store.minFreeBytes) + 2 * Int64(store.ballastBytes),
            at: environment.time.now().instant)
        measureSpace()
    }
}
