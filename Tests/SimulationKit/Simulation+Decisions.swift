import SyncCore
import SyncStore

// What people decide at an agent: its operator about what waits for one, an app about what it asked for.
extension Simulation {
    /// Answers what waits for a person: conflicts by "remote", parked mutations by "again".
    func decide(_ agent: SimAgent) throws(Broken) {
        if let store = agent.store, try Broken.none({ try store.reads.entities() }).contains(where: { $0.sweepHeld > 0 }) {
            let isDone = try act(agent) { (store, moment) throws(StoreError) in try store.acceptDeletions(at: moment) }
            guard isDone else { return }
            say("the operator of agent \(agent.index) accepts deletions")
            count("deletions accepted")
        }
        for conflict in try mutations(of: agent, .conflicted) {
            try checkListed(conflict)
            let isDone = try act(agent) { (store, moment) throws(StoreError) in
                try store.discard(conflict.key, reason: "remote", uid: 0, at: moment)
            }
            guard isDone else { return }
            say("the operator of agent \(agent.index) discards \(name(of: conflict.key))")
            count("conflicts discarded")
            try feed(.enqueued(.normal), to: agent)
        }
        for parked in try mutations(of: agent, .failed) {
            try checkListed(parked)
            let isDone = try act(agent) { (store, moment) throws(StoreError) in
                _ = try store.retry(parked.key, by: Requester(app: parked.app, uid: 0), at: moment)
            }
            guard isDone else { return }
            say("the operator of agent \(agent.index) retries \(name(of: parked.key))")
            count("parked")
            try feed(.enqueued(.normal), to: agent)
        }
        if let held = try mutations(of: agent, .held).first {
            throw Broken("no row is damaged", "agent \(agent.index) holds \(name(of: held.key)): \(held.problem?.detail ?? "")")
        }
    }

    /// An app takes back one of the last things it asked for, if that was not sent yet.
    func appCancels(_ agent: SimAgent) throws(Broken) {
        let mine = operations.filter { $0.agent == agent.index && !$0.isLost && $0.key != nil }.suffix(3)
        guard !mine.isEmpty, case let operation = pick(Array(mine)), let key = operation.key else { return }
        hasCommitted = false
        let isDone = try act(agent) { (store, moment) throws(StoreError) in
            defer { if hasCommitted { noteCancelled(store, moment) } }
            _ = try store.cancel(key, at: moment)
        }
        guard isDone else { return }
        say("agent \(agent.index) takes \(operation.token) back")
        count("taken back")
        try feed(.enqueued(.normal), to: agent)
    }

    /// With a mutation, its atomic list goes, and what was to be done with a record that it was to create.
    private func noteCancelled(_ store: Store, _ moment: Moment) {
        acknowledgements += 1
        var query = MutationQuery()
        query.states = [.cancelled]
        query.limit = 1_000
        // A store that cannot be read any more fails the next check of it.
        for cancelled in (try? store.reads.mutations(query, at: moment))?.items ?? [] {
            guard let number = byKey[cancelled.key], operations[number].cancellation == 0 else { continue }
            operations[number].cancellation = acknowledgements
        }
    }

    /// A decision may be refused, hit a full disk, or be the last thing that the process did.
    ///
    /// - Returns: Whether it is done and the process lives.
    private func act(
        _ agent: SimAgent, _ decision: (Store, Moment) throws(StoreError) -> Void
    ) throws(Broken) -> Bool {
        guard let store = agent.store else { return false }
        hasRefusedCommit = false
        committing = .decision
        do throws(StoreError) {
            try decision(store, agent.moment(at: now))
            return true
        } catch {
            if dying == agent.index {
                die(agent)
            } else if error.problem == nil, !hasRefusedCommit {
                throw Broken("the store fails only with its disk", "agent \(agent.index): \(error)")
            }
            return false
        }
    }
}
