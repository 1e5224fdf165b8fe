import SyncCore
import SyncStore

// The time after the faults. An operator decides about waiting mutations now and then, and at the end everything is compared.
extension Simulation {
    func look() throws(Broken) {
        for agent in agents { try decide(agent) }
        if !isDrained {
            let waiting = try waiting()
            if waiting.isEmpty {
                say("everything is drained")
                isDrained = true
                // Agents are reminded to pull only now, because draining must work without it.
                return try remind()
            }
            guard now < drainUntil else { throw Broken("everything drains", waiting.joined(separator: "; ")) }
            return plan(.operatorLooks, in: scenario.isShort ? .seconds(20) : .seconds(30))
        }
        let behind = agents.filter {
            $0.engine?.cycle != nil || $0.engine?.isCaughtUp != true || !knowsSchemas($0) || hasJustFailed($0)
        }
        let left = try waiting()
        if behind.isEmpty, left.isEmpty {
            // An agent learned of a new history late and offered its records, after the others had pulled.
            if oracle.appliedCount != appliedWhenReminded || configsTaken != configsWhenReminded { return try remind() }
            try compare()
            isOver = true
            return
        }
        guard now < drainUntil else {
            throw Broken("everybody catches up", "behind: \(behind.map { "agent \($0.index): \(describe($0))" })")
        }
        for agent in behind where agent.engine?.cycle == nil { try feed(.requested(SyncRequest()), to: agent) }
        plan(.operatorLooks, in: .seconds(10))
    }

    /// An agent that has not heard of the newest commit counts itself as caught up. A call may time out that late, and after refused
    /// credentials no request hastens the next attempt.
    private func hasJustFailed(_ agent: SimAgent) -> Bool { agent.engine?.memory.lastError != nil }

    private func remind() throws(Broken) {
        (appliedWhenReminded, configsWhenReminded) = (oracle.appliedCount, configsTaken)
        for agent in agents {
            // A device that starts shows its receipt. A hub that does not know that its database went back may learn so by nothing else:
            // another copy of the device has used the same numbers.
            if hub.isUnnoticed { die(agent) }
            try feed(.requested(SyncRequest()), to: agent)
        }
        plan(.operatorLooks, in: .seconds(5))
    }

    /// The mutations that are unsent or unanswered.
    private func waiting() throws(Broken) -> [String] {
        // A late copy of a request may change a record after all devices have pulled.
        var waiting = flying == 0 ? [] : ["\(flying) requests are on their way"]
        for agent in agents {
            guard agent.store != nil else {
                waiting.append("agent \(agent.index) is down")
                continue
            }
            waiting += try waitingFiles(of: agent)
            let open = try mutations(of: agent, .pending, .inFlight, .conflicted, .failed)
            if !open.isEmpty {
                waiting.append("agent \(agent.index) (\(describe(agent))): \(open.map { "\(name(of: $0.key)) \($0.state.name)" })")
            }
        }
        return waiting
    }

    private func describe(_ agent: SimAgent) -> String {
        guard let engine = agent.engine else { return "down" }
        let next =
            engine.nextCycleAt(at: agent.moment(at: now)).map { "next cycle in \(agent.boot(now).duration(to: $0).milliseconds / 1_000) s" }
            ?? "nothing planned"
        return "\(engine.phase.map { "in \($0)" } ?? "idle"), \(next), \(engine.memory.lastError ?? "no error")"
    }

    // MARK: The end

    private func compare() throws(Broken) {
        try hub.observe(at: hubTime)
        let truth = hub.records.mapValues(\.data)
        try oracle.check(truth)
        for agent in agents {
            try verify(agent)
            try checkMirror(of: agent)
            try checkConflicts(of: agent)
            try checkVersions(of: agent)
            try checkStubs(of: agent)
            try compare(agent, with: truth.filter { oracle.shares.includes($0.key, $0.value, agent.device) })
        }
        for operation in operations { try checkFate(of: operation) }
        try checkFiles()
        say("all is well: \(operations.count) operations, \(oracle.appliedCount) applied")
    }

    /// Checks that the agent's view of every record is the hub's record.
    private func compare(_ agent: SimAgent, with truth: [RecordName: JSONObject]) throws(Broken) {
        guard let store = agent.store else { throw Broken("everybody is up", "agent \(agent.index) is down") }
        for entity in Entities.mirrored(scenario.extras) {
            var query = RecordQuery(entity)
            query.limit = 1_000
            let page = try Broken.none { try store.reads.records(query) }
            var views: [RecordName: JSONObject] = [:]
            // A hub that does not know that its database went back has counted to the same version once more. No program can tell.
            var ambiguous: Set<RecordName> = []
            for item in page.items {
                let view = try Broken.none { try JSONReader.read(item.view ?? item.base ?? "null") }
                views[item.name] = view.object
                if hub.isUnnoticed, hub.versions != nil,
                    hub.records[item.name].flatMap({ hub.shown($0.version, of: item.name) }) == item.version
                {
                    ambiguous.insert(item.name)
                }
            }
            let names = Set(views.keys).union(truth.keys.filter { $0.entity == entity })
            for name in names.sorted() where views[name] != truth[name] && !ambiguous.contains(name) {
                if views[name] == nil, let document = truth[name], mayLack(name, document) { continue }
                throw Broken(
                    "agents and hub agree",
                    "agent \(agent.index) \(name): \(views[name]?.json ?? "nothing"), the hub has \(truth[name]?.json ?? "nothing")")
            }
        }
    }

    /// Checks that every acknowledged operation has exactly one end, and that the agent shows it.
    private func checkFate(of operation: Operation) throws(Broken) {
        if operation.applied > 1 {
            throw Broken("each mutation takes effect once", "\(operation.token) was applied \(operation.applied) times")
        }
        guard let key = operation.key, !operation.isLost, let store = agents[operation.agent].store else { return }
        let moment = agents[operation.agent].moment(at: now)
        guard var found = try Broken.none({ try store.reads.mutation(key, at: moment) }) else {
            throw Broken("nothing acknowledged is missing", "\(operation.token) of agent \(operation.agent), \(operation.record)")
        }
        if found.state == .coalesced { count("coalesced into \(found.presentState.name)") }
        // Another mutation answers for it: the one that it was coalesced into, a decision, or one that restores its record.
        while found.state == .resolved || found.state == .coalesced, let into = found.into {
            guard let next = try Broken.none({ try store.reads.mutation(into, at: moment) }) else {
                throw Broken("nothing acknowledged is missing", "\(into), which answers for \(operation.token)")
            }
            found = next
        }
        let isApplied = oracle.applied.contains(found.key)
        switch found.state {
        case .superseded:
            // The operation had no effect of its own: a deletion of a deleted record, a value that the hub had changed, or a change that
            // waited for a decision when the same agent deleted the record.
            let isDeleted = try isDeletedLater(found, at: agents[operation.agent])
            guard isDeleted || found.action == .delete || operation.record.entity == Entities.prices else {
                throw Broken("nothing is dropped without a word", "\(operation.token) of agent \(operation.agent), \(operation.record)")
            }
            count("superseded")
        case .done:
            // A database that went back to before a decision gets the result from the hub, which has it under the decision's key.
            guard isApplied || operation.applied > 0 else {
                throw Broken("done is done at the hub", "\(operation.token) of agent \(operation.agent) was never applied")
            }
            if operation.record.entity == Entities.readings, oracle.events[operation.record.id] != operation.token {
                throw Broken("done is done at the hub", "the reading \(operation.token) is not there")
            }
        case .rejected, .discarded, .cancelled, .expired:
            if found.state == .expired, found.problem?.code == "queue-full" {
                guard operation.app == Entities.greedy else {
                    throw Broken("one app's quota is its own", "\(operation.token) of agent \(operation.agent) made room for another app")
                }
                count("dropped for a newer one")
            }
            // Either a database that had gone back cancelled it and could not know that it was sent. Or, after a database or hub went
            // back, a dispute was decided twice, and the first decision counts.
            if found.problem?.code == "already-decided" { return }
            // Mutations that depend on it are rejected with it.
            let codes: Set<String> = ["idempotency-mismatch", "parent-rejected", "parent-expired", Problem.revoked]
            if operation.isDoubtful, found.state == .cancelled || found.state == .expired || codes.contains(found.problem?.code ?? "") {
                return
            }
            // A later edit has a key of its own and is not joined with a mutation that the hub may have. With a twin, either database may
            // have sent it.
            if found.key != key, !operation.isDoubtful, found.problem?.code == "idempotency-mismatch",
                agents.count(where: { $0.identity == agents[operation.agent].identity }) == 1
            {
                throw Broken(
                    "an edit after a restore stands alone", "\(operation.token) of agent \(operation.agent) went into \(found.key)")
            }
            // The same holds for an edit that went into such a mutation.
            let isDoubtful = operation.isDoubtful || byKey[found.key].map { operations[$0].isDoubtful } ?? false
            if found.key != key, isDoubtful { return }
            // One history of the hub accepted it, the next one refused it, and a person settled that here. Then a backup of the first
            // history came back, and the mirror shows its record.
            if operation.wasApplied { return }
            // One history of the hub refused it and the next one accepted it, or a person decided for it. Then a copy of this database
            // from an earlier time came back.
            if operation.isDoubtful, hub.generation > 0 || found.state == .discarded { return count("refused in an older copy") }
            // Two databases under one name have one dispute, and a person at each decides it.
            let identity = agents[operation.agent].identity
            let hasTwin = agents.count { $0.identity == identity } > 1
            // Either twin may have sent a mutation that both held when the card was copied.
            if hasTwin, found.state == .discarded || operation.isDoubtful { return count("ended by one of two") }
            guard !isApplied, operation.applied == 0 else {
                throw Broken(
                    "refused is refused",
                    "\(operation.token) is \(found.state.name) (\(found.problem?.code ?? "-")) at agent \(operation.agent), and the hub applied it"
                )
            }
            try checkListed(found)
            count("listed as \(found.state.name)")
            if found.problem?.code == Problem.revoked { count("listed as revoked") }
        default:
            throw Broken("every mutation ends", "\(operation.token) of agent \(operation.agent) is \(found.state.name)")
        }
    }

    private func isDeletedLater(_ found: MutationSnapshot, at agent: SimAgent) throws(Broken) -> Bool {
        for other in agents where other.identity == agent.identity {
            let isLater = try mutations(of: other, .done).contains {
                $0.record == found.record && $0.action == .delete && (other !== agent || $0.seq > found.seq)
            }
            if isLater { return true }
        }
        return false
    }

    /// Checks that a mutation that cannot get through is listed with all its values.
    func checkListed(_ found: MutationSnapshot) throws(Broken) {
        guard let number = byKey[found.key] else { return }
        let operation = operations[number]
        // The audit trail holds values that an earlier contest decided. It holds operations unchanged.
        let kept = (found.data ?? "") + (found.operations ?? "")
        guard found.action == .delete || operation.record.entity == Entities.prices || kept.contains("\"\(operation.token)\"") else {
            throw Broken("what is refused keeps its value", "\(operation.token): \(kept)")
        }
    }
}
