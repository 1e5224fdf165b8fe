import SyncCore
import SyncStore

// Decisions of people at an agent: an operator decides about parked and disputed mutations, and an app cancels its own ones.
extension Simulation {
    /// Decides about waiting mutations. A conflict gets one side, the other side, another value or no decision. A parked mutation is
    /// retried.
    func decide(_ agent: SimAgent) throws(Broken) {
        guard try acceptDeletions(agent) else { return }
        try checkConflicts(of: agent)
        for conflict in try conflicts(of: agent) where !chance(0.2) {
            guard try resolve(conflict, agent) else { return }
        }
        for conflict in try mutations(of: agent, .conflicted) where chance(0.3) {
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
        try retryRevoked(agent)
        if scenario.faults.contains(.repeated), !isHealed {
            for refused in try mutations(of: agent, .rejected) where chance(0.2) {
                // The hub has said that the mutation took effect, so a retry would apply it twice.
                if refused.problem?.code == "already-decided" { continue }
                guard try repeatRefused(refused, agent) else { return }
            }
        }
        if let held = try mutations(of: agent, .held).first {
            throw Broken("no row is damaged", "agent \(agent.index) holds \(name(of: held.key)): \(held.problem?.detail ?? "")")
        }
    }

    /// - Returns: `false` if it was not done, so that nothing else is decided either.
    private func acceptDeletions(_ agent: SimAgent) throws(Broken) -> Bool {
        guard let store = agent.store else { return true }
        guard try Broken.none({ try store.reads.entities() }).contains(where: { $0.sweepHeld > 0 }) else {
            agent.heldUnder = agent.heldUnder ?? [:]
            return true
        }
        let before = try sharedDocuments(of: agent)
        let isDone = try act(agent) { (store, moment) throws(StoreError) in try store.acceptDeletions(uid: 0, at: moment) }
        guard isDone else { return false }
        say("the operator of agent \(agent.index) accepts deletions")
        count("deletions accepted")
        try checkAccepted(agent, before)
        return true
    }

    /// - Returns: `true` if the agent lives and goes on.
    private func resolve(_ conflict: ConflictSnapshot, _ agent: SimAgent) throws(Broken) -> Bool {
        let word = pick(["local", "remote", "value"])
        var scope = ConflictDecision.Scope.all(word == "remote" ? .remote : .local)
        if conflict.kind == .field, word == "value" {
            // A decision never sets a counter, because its right value would be unknown then.
            let value = JSON.string("decided-\(now.nanoseconds)")
            let choices = conflict.sides.map { ($0.field, $0.field == "m" ? ConflictDecision.Choice.value(value) : .local) }
            scope = .fields(Dictionary(choices, uniquingKeysWith: { first, _ in first }))
        }
        let version = conflict.remoteVersion
        let number = conflict.number
        let decision = ConflictDecision(scope, comment: "simulated", expectedRemoteVersion: chance(0.5) ? version : nil)
        let isDone = try act(agent) { (store, moment) throws(StoreError) in
            _ = try store.resolve(number, decision, by: Requester(app: AppName(trusted: "operator"), uid: 0), at: moment)
        }
        guard isDone else { return agent.store != nil }
        learnSuccessors(of: agent)
        say("the operator of agent \(agent.index) decides c-\(number) (\(conflict.kind.name)) by \(word)")
        count("conflicts resolved by \(word)")
        count("conflicts of \(conflict.kind.name)")
        try feed(.enqueued(.normal), to: agent)
        return true
    }

    /// - Returns: `true` if the agent lives and goes on.
    private func repeatRefused(_ refused: MutationSnapshot, _ agent: SimAgent) throws(Broken) -> Bool {
        let cascades = chance(0.5)
        let isDone = try act(agent) { (store, moment) throws(StoreError) in
            _ = try store.retry(refused.key, cascades: cascades, by: Requester(app: refused.app, uid: 0), at: moment)
        }
        guard isDone else { return agent.store != nil }
        learnSuccessors(of: agent)
        say("the operator of agent \(agent.index) repeats \(name(of: refused.key))\(cascades ? " with what fell with it" : "")")
        count("refused ones repeated")
        try feed(.enqueued(.normal), to: agent)
        return true
    }

    private func mutation(_ key: MutationKey, of agent: SimAgent) throws(Broken) -> MutationSnapshot? {
        guard let store = agent.store else { return nil }
        return try Broken.none { try store.reads.mutation(key, at: agent.moment(at: now)) }
    }

    func conflicts(of agent: SimAgent) throws(Broken) -> [ConflictSnapshot] {
        guard let store = agent.store else { return [] }
        var query = ConflictQuery()
        query.limit = 1_000
        return try Broken.none { try store.reads.conflicts(query).items }
    }

    /// Checks that both sides and the base of every dispute were real values.
    func checkConflicts(of agent: SimAgent) throws(Broken) {
        for conflict in try conflicts(of: agent) where conflict.record.entity == Entities.works {
            for side in conflict.sides where side.field == "m" {
                // The value stays unless the record is deleted. The base of a mutation that was frozen when it was sent is unknown.
                if conflict.kind == .field, side.base == nil, !oracle.everDeleted.contains(conflict.record),
                    oracle.values.history[conflict.record]?.dropFirst().contains(where: { $0.value == nil }) != true,
                    scenario.faults.isDisjoint(with: [.hubRestore, .rollback, .restore, .clone]), let key = conflict.mutation,
                    let number = byKey[key], operations[number].sawDisputed, operations[number].action == .update,
                    try mutation(key, of: agent)?.isSent == false
                {
                    throw Broken(
                        "a conflict shows what both had seen",
                        "c-\(conflict.number) of agent \(agent.index), \(conflict.record): it shows nothing, and \(operations[number].token) had seen a value"
                    )
                }
                let known = oracle.values.history[conflict.record] ?? []
                let remoteVersion = hub.commit(conflict.remoteVersion, of: conflict.record)
                // The creator of a record had no base, and the base of a long frozen mutation is unknown.
                var isBlind = side.base == nil
                if isBlind, let key = conflict.mutation, let number = byKey[key], [.update, .delete].contains(operations[number].action) {
                    // The change is to a record that this agent itself created.
                    let isOwn = operations[..<number].contains {
                        agents[$0.agent].identity == agent.identity && $0.record == conflict.record
                            && [.create, .upsert].contains($0.action)
                    }
                    let isSent = try mutation(key, of: agent)?.isSent == true
                    isBlind = isOwn || isSent
                }
                // A value that was never written before was never seen.
                if side.base == nil, known.allSatisfy({ $0.value == nil || $0.version >= remoteVersion }) { isBlind = true }
                // A device that creates a record anew after deleting it has seen what the hub still holds.
                if side.base == side.remote.value { isBlind = true }
                // A version of a history that ended is in no history any more.
                if !scenario.faults.isDisjoint(with: [.hubRestore, .rollback]) { isBlind = true }
                // The time of a deletion is unknown once a listing does not name the record any more.
                let before = side.remote.isDeleted ? remoteVersion + 1 : remoteVersion
                guard isBlind || known.contains(where: { $0.value == side.base && $0.version < before }) else {
                    throw Broken(
                        "a conflict shows what both had seen",
                        "c-\(conflict.number) of agent \(agent.index), \(conflict.record): \(side.base?.json ?? "nothing") was never there")
                }
                let view = seen(conflict.record, agent)
                guard conflict.kind == .deleteUpdate || view == nil || side.local.value == view?["m"] else {
                    throw Broken(
                        "a conflict shows what is written here",
                        "c-\(conflict.number) of agent \(agent.index), \(conflict.record): \(side.local.value?.json ?? "nothing")")
                }
                guard isBlind || side.remote.isDeleted || known.contains(where: { $0.value == side.remote.value }) else {
                    throw Broken(
                        "a conflict shows what the hub has",
                        "c-\(conflict.number) of agent \(agent.index), \(conflict.record): \(side.remote.value?.json ?? "nothing")")
                }
            }
        }
        let open = Set(try conflicts(of: agent).compactMap(\.mutation))
        for conflicted in try mutations(of: agent, .conflicted) where !open.contains(conflicted.key) {
            throw Broken("every conflict is listed", "agent \(agent.index): \(name(of: conflicted.key))")
        }
    }

    /// An app cancels one of its last changes, if that was not sent yet.
    func appCancels(_ agent: SimAgent) throws(Broken) {
        let mine = operations.filter { $0.agent == agent.index && !$0.isLost && $0.key != nil }.suffix(3)
        guard !mine.isEmpty, case let operation = pick(Array(mine)), let key = operation.key else { return }
        hasCommitted = false
        let isDone = try act(agent) { (store, moment) throws(StoreError) in
            defer { if hasCommitted { recordCancelled(store, moment) } }
            _ = try store.cancel(key, at: moment)
        }
        guard isDone else { return }
        say("agent \(agent.index) takes \(operation.token) back")
        count("taken back")
        try feed(.enqueued(.normal), to: agent)
    }

    /// Marks what a cancellation ends: the rest of an atomic list, and changes of a record that the mutation was to create.
    private func recordCancelled(_ store: Store, _ moment: Moment) {
        acknowledgements += 1
        var query = MutationQuery()
        query.states = [.cancelled]
        query.limit = 1_000
        // A store that cannot be read fails its next check.
        for cancelled in (try? store.reads.mutations(query, at: moment))?.items ?? [] {
            guard let number = byKey[cancelled.key], operations[number].cancellation == 0 else { continue }
            operations[number].cancellation = acknowledgements
        }
    }

    /// Carries out a decision. It may be refused, hit a full disk, or end with the death of the process.
    ///
    /// - Returns: `true` if it is done and the process lives.
    func act(
        _ agent: SimAgent, as commit: Commit = .decision, _ decision: (Store, Moment) throws(StoreError) -> Void
    ) throws(Broken) -> Bool {
        guard let store = agent.store else { return false }
        hasRefusedCommit = false
        committing = commit
        do throws(StoreError) {
            try decision(store, agent.moment(at: now))
            return true
        } catch {
            if dying == agent.index {
                die(agent)
            } else if error.problem == nil, !hasRefusedCommit {
                throw Broken("the store fails only with its disk", "agent \(agent.index): \(error)")
            }
            try reopenIfNeeded(agent)
            return false
        }
    }
}
