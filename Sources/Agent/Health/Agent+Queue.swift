import SyncCore
import SyncHTTP
import SyncStore

/// The samples of the queue, and the timer of the next one.
struct QueueWatch {
    var history = QueueHistory()
    var wake: LoopTimer?
}

// History of the queue over the last hours, for later readers.
extension Agent {
    /// Takes a sample now and every five minutes.
    func watchQueue() {
        guard !hasStopped else { return }
        fromReader { reads, now throws(StoreError) in
            try reads.facts(at: now).open
        } then: { agent, result in
            // A sample that cannot be read now counts as unchanged at the next one.
            if case .success(let open) = result, agent.queue.history.isDue(at: agent.environment.time.now().instant) {
                agent.queue.history.record(open, at: agent.environment.time.now())
            }
            agent.queue.wake?.cancel()
            agent.queue.wake = agent.schedule(after: QueueHistory.step) { $0.watchQueue() }
        }
    }
}
