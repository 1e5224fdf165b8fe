import NIOCore
import SyncCore
import SyncHTTP
import SyncStore

// The queue over the last hours, for whoever looks later.
extension Agent {
    /// Takes a sample now and every five minutes.
    func watchQueue() {
        guard !hasStopped else { return }
        reader.read { reads, now throws(StoreError) in
            try reads.facts(at: now).open
        } completion: { [self] result in
            assumeIsolated { agent in
                // What cannot be read now is taken for unchanged with the next sample.
                if case .success(let open) = result, agent.observed.queue.isDue(at: agent.environment.time.now().instant) {
                    agent.observed.queue.note(open, at: agent.environment.time.now())
                }
                agent.observed.queueWake?.cancel()
                agent.observed.queueWake = agent.executor.schedule(after: QueueHistory.step) { [weak agent] in
                    agent?.assumeIsolated { $0.watchQueue() }
                }
            }
        }
    }
}
