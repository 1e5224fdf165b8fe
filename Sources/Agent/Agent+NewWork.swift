import SyncCore
import SyncStore

// Work that apps have enqueued: the engine gets to know of it, and the hub its amount.
extension Agent {
    /// Counts the mutations that wait for the hub, for the next greeting or push. The count may be slightly outdated.
    func countWaiting() {
        waitingCounts.began(at: environment.time.now().instant)
        readWaitingCount()
    }

    /// Counts at most once a second, while work arrives.
    private func countWaitingSoon() {
        if waitingCounts.begin(at: environment.time.now().instant) { readWaitingCount() }
    }

    private func readWaitingCount() {
        fromReader { reads, _ throws(StoreError) in
            try reads.waitingCount()
        } then: { agent, result in
            // The failure of the store is reported elsewhere.
            if case .success(let count) = result { agent.hub.useWaiting(count) }
        }
    }

    /// Reports new work of unknown priority to the engine.
    func reportNewWork() {
        reportNewWork(.normal, ttl: loaded.configuration.rules.entities.values.compactMap(\.ttl).min())
    }

    /// Reports accepted mutations to the engine.
    func reportNewWork(_ mutations: [NewMutation]) {
        diskSpace.accepted()
        var mostUrgent: Priority?
        var shortest: Duration?
        for mutation in mutations {
            let rules = loaded.configuration.rules[mutation.entity]
            let priority = mutation.priority ?? rules?.priority ?? .normal
            mostUrgent = min(mostUrgent ?? priority, priority)
            guard priority != .critical, let ttl = mutation.ttl ?? rules?.ttl else { continue }
            shortest = min(shortest ?? ttl, ttl)
        }
        if let mostUrgent { reportNewWork(mostUrgent, ttl: shortest) }
    }

    /// Reports new work to the engine, once for all enqueues of one commit.
    ///
    /// - Parameter ttl: The shortest time to live among it; a value that is too short costs only one check.
    func reportNewWork(_ priority: Priority, ttl: Duration?) {
        let expiry = ttl.map { environment.time.now().instant.advanced(by: $0) }
        guard newWork.add(priority, expiry: expiry) else { return }
        onLoop { agent in
            guard let enqueued = agent.newWork.take() else { return }
            agent.measureSpace()
            agent.countWaitingSoon()
            agent.handle(.enqueued(enqueued.priority, expiry: enqueued.expiry))
            agent.events.sendNew()
            if agent.around.oldestNormalAt == nil { agent.lookForOldestNormal() }
        }
    }
}
