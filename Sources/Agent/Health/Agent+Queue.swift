import NIOCore
import SyncCore
import SyncHTTP
import SyncStore

// History of the queue over the last hours, for later readers.
extension Agent {
    /// Takes a sample now and every five minutes.
    func watchQueue() {
        guard !hasStopped else { return }
        fromReader { reads, now throws(StoreError) in
            try reads.facts(at: now).open
        } then: { agent, result in
            // A sample that cannot be read now counts as unchanged at the next one.
            if case .success(let open) = result, agent.observed.queue.isDue(at: agent.environment.time.now().instant) {
                agent.observed.queue.note(open, at: agent.environment.time.now())
            }
            agent.observed.queueWake?.cancel()
            agent.observed.queueWake = agent.schedule(after: QueueHistory.step) { $0.watchQueue() }
        }
    }
}
