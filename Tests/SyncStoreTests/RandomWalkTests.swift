import SyncCore
import SyncStore
import Testing

/// Random operations on the store and on ``NaiveStore``, side by side.
@Suite("A random walk")
struct RandomWalkTests {
    @Test("The store agrees with a naive model after every step", arguments: 0..<60)
    func agrees(_ seed: Int) throws {
        var walk = try Walk(seed: UInt64(seed))
        for step in 0..<120 {
            try walk.step()
            try walk.close()
            try walk.compare(step)
        }
        try walk.settleAll()
        try walk.compare(-1)
        #expect(!walk.model.mutations.contains { $0.state == .pending || $0.state == .inFlight }, "nothing is stuck")
    }
}

private struct Walk {
    var random: SeededRandom
    let agent: TestAgent
    var model = NaiveStore()
    var version: Int64 = 0
    let ids = ["a", "b", "c", "d"]

    init(seed: UInt64) throws {
        random = SeededRandom(seed: seed)
        var rules = TestAgent.rules
        rules.entities[EntityName(trusted: "audit")]?.declaredIndexes = [RecordIndex("v"), RecordIndex("x,updated_at")].compactMap { $0 }
        agent = try TestAgent(rules: rules, seed: seed)
        // The first pull is a listing, and what it does not contain is deleted.
        try agent.pull([], head: 0)
    }

    private mutating func pick<Value>(_ values: [Value]) -> Value { values[Int(random.next() % UInt64(values.count))] }
    private mutating func chance(_ percent: UInt64) -> Bool { random.next() % 100 < percent }
    private mutating func next() -> Int64 {
        version += 1
        return version
    }

    mutating func step() throws {
        switch random.next() % 100 {
        case 0..<38: try enqueue()
        case 38..<45: try enqueueList()
        case 45..<62: try claim()
        case 62..<82: try answer()
        case 82..<88: try pull()
        case 88..<91: try cancel()
        case 91..<94: try discard()
        case 94..<96: try pass(.seconds(1_000))
        case 96: try crash()
        case 97: try adopt()
        case 98: try settleUnknown()
        default:
            _ = try agent.store.housekeep(at: agent.now)
            _ = try agent.store.tendIndexes(at: agent.now)
        }
    }

    // MARK: - Steps

    private mutating func mutation(_ entity: String = "audit") -> NewMutation {
        let data: JSONObject = ["v": .int(Int64(random.next() % 1_000)), pick(["x", "y"]): .string("t")]
        if chance(25) { return TestAgent.mutation(.create, nil, data, entity: "reading", priority: pick([nil, .normal, .critical])) }
        var mutation = TestAgent.mutation(
            pick([.create, .update, .update, .upsert, .delete]), pick(ids), data, priority: pick([nil, nil, .bulk, .critical]))
        if mutation.action == .delete { mutation.data = [:] }
        if mutation.action == .update, chance(30) { mutation.operations = [FieldOperation("n", .increment, 1)] }
        return mutation
    }

    /// Returns the content of an accepted mutation in the model.
    private func content(_ mutation: NewMutation, existed: Bool) -> MutationContent {
        let action: MutationAction =
            switch mutation.action {
            case .create: .create
            case .update: .update
            case .upsert: existed ? .update : .create
            case .delete: .delete
            }
        return MutationContent(action, data: mutation.data, operations: mutation.operations)
    }

    private func allowed(_ mutation: NewMutation, exists: Bool) -> Bool {
        switch mutation.action {
        case .create: !exists
        case .update, .delete: exists
        case .upsert: true
        }
    }

    private mutating func enqueue() throws {
        let mutation = mutation()
        let record = mutation.entity.text == "reading" ? nil : mutation.recordID?.text
        let exists = record.map { model.view($0) != nil } ?? false
        let priority = mutation.priority ?? TestAgent.rules[mutation.entity]?.priority ?? .normal
        guard allowed(mutation, exists: exists) else {
            #expect(agent.refusal(mutation) != nil)
            return
        }
        model.add(try agent.enqueue(mutation), record: record, content(mutation, existed: exists), priority)
    }

    private mutating func enqueueList() throws {
        let list = (0..<(2 + random.next() % 3)).map { _ in mutation() }
        var trial = model
        let first = Int64((model.mutations.last?.seq ?? 0) + 1)
        let group = first...(first + Int64(list.count) - 1)
        let priority = list.map { $0.priority ?? TestAgent.rules[$0.entity]?.priority ?? .normal }.min() ?? .normal
        var contents: [(String?, MutationContent)] = []
        var isAllowed = true
        for (index, mutation) in list.enumerated() {
            let record = mutation.entity.text == "reading" ? nil : mutation.recordID?.text
            let exists = record.map { trial.view($0) != nil } ?? false
            isAllowed = isAllowed && allowed(mutation, exists: exists)
            contents.append((record, content(mutation, existed: exists)))
            trial.mutations.append(
                NaiveStore.Mutation(
                    seq: first + Int64(index), key: MutationKey(trusted: "t"), record: record, content: contents[index].1,
                    priority: priority, group: group))
        }
        do {
            let answers = try agent.list(list)
            #expect(isAllowed)
            for (answer, content) in zip(answers, contents) {
                model.add(answer, record: content.0, content.1, priority, group: (answers[0].seq)...(answers[answers.count - 1].seq))
            }
        } catch let error as StoreError {
            #expect(error.problem != nil && !isAllowed, "\(error)")
        }
    }

    private mutating func claim() throws {
        let limits = BatchLimits(
            mutations: pick([1, 2, 3, 8, 50]), bytes: 1 << 20, leastPriority: pick([.bulk, .bulk, .normal, .critical]))
        let expected = model.nextBatch(limits)
        let batch = try agent.store.claim(limits, at: agent.now)
        #expect(batch?.mutations.map(\.seq) ?? [] == expected)
        model.claim(expected)
    }

    private mutating func answer() throws {
        // As the hub decides them: in the order in which they went.
        let flying = model.mutations.filter { $0.state == .inFlight }.sorted { ($0.turn, $0.seq) < ($1.turn, $1.seq) }
        guard !flying.isEmpty else { return }
        var results: [PushResult] = []
        var blocked: Set<String> = []
        for mutation in flying where chance(85) {
            if let record = mutation.record, blocked.contains(record) {
                results.append(.retry(mutation.key, "blocked-by-earlier", after: .seconds(100)))
                continue
            }
            let known = mutation.record.flatMap { model.records[$0]?.version } ?? 0
            switch random.next() % 20 {
            case 0..<12: results.append(.accepted(mutation.key, next()))
            case 12: results.append(.accepted(mutation.key, next(), record: HubRecord(version: version, data: ["h": .int(version)])))
            case 13: results.append(.rejected(mutation.key, current: chance(50) ? nil : .deleted(version: next())))
            case 14: results.append(.rejected(mutation.key))
            case 15:
                results.append(.conflict(mutation.key, ["v"], .record(HubRecord(version: next(), data: ["v": "theirs"]))))
                if let record = mutation.record { blocked.insert(record) }
            case 16: results.append(.duplicate(mutation.key, .accepted, .record(HubRecord(version: max(known, next()), data: ["d": 1]))))
            default:
                results.append(.retry(mutation.key, "deadlock", after: .seconds(100)))
                if let record = mutation.record { blocked.insert(record) }
            }
        }
        // A late answer changes nothing.
        if let old = model.mutations.first(where: { $0.state == .done }) { results.append(.rejected(old.key)) }
        _ = try agent.store.applyResults(results, next: nil, at: agent.now)
        model.apply(results)
    }

    private mutating func pull() throws {
        let id = pick(ids)
        let data: JSONObject? = chance(75) ? ["p": .int(next())] : nil
        if data == nil { version += 1 }
        let old = chance(20) ? max(0, version - 5) : version
        // A deletion of what was never here says nothing.
        if data == nil, try agent.record(id) == nil { return }
        try agent.pull(data.map { [(id, old, $0)] } ?? [], deleted: data == nil ? [(id, old)] : [], head: version)
        model.pull(id, old, data)
    }

    /// Conflicts without anything left to decide have gone on by themselves, under a new key.
    mutating func close() throws {
        let moot = model.moot
        model.moot = []
        for seq in moot {
            guard let index = model.mutations.firstIndex(where: { $0.seq == seq }), model.mutations[index].state == .conflicted,
                let stored = try agent.store.reads.mutation(model.mutations[index].key, at: agent.now)
            else { continue }
            try #require([.resolved, .superseded, .discarded].contains(stored.state), "mutation \(seq) is \(stored.state.name)")
            model.mutations[index].state = stored.state
            guard let key = stored.into, let next = try agent.store.reads.mutation(key, at: agent.now) else {
                #expect(stored.state != .resolved)
                continue
            }
            #expect(next.supersedes == stored.key)
            let operations = (try JSONReader.read(next.operations ?? "[]")).array ?? []
            let content = MutationContent(
                next.action, data: try JSONReader.read(next.data ?? "{}").object ?? [:],
                unset: (try JSONReader.read(next.unset ?? "[]")).array?.compactMap(\.text) ?? [],
                operations: operations.compactMap { operation in
                    guard let field = operation.object?["field"]?.text, let value = operation.object?["value"] else { return nil }
                    return FieldOperation(field, .increment, value)
                })
            var successor = NaiveStore.Mutation(
                seq: next.seq, key: key, record: model.mutations[index].record, content: content, priority: next.priority)
            successor.baseVersion = next.baseVersion
            // A decision about a member of an atomic list goes with the rest of the list, in the place of that member.
            if next.group != nil {
                successor.group = model.mutations[index].group
                successor.place = model.mutations[index].place
            }
            model.mutations.append(successor)
            model.raise()
        }
    }

    private mutating func cancel() throws {
        guard let mutation = model.mutations.last(where: { $0.state == .pending }) else { return }
        do {
            _ = try agent.store.cancel(mutation.key, at: agent.now)
            #expect(!mutation.isSent)
            let unit = model.mutations.filter {
                $0.state == .pending && ($0.key == mutation.key || (mutation.group != nil && $0.group == mutation.group))
            }
            for member in unit { if let index = model.index(member.key) { model.mutations[index].state = .cancelled } }
            for member in unit { model.takeAlong(member, .cancelled) }
        } catch {
            let hasSent = model.mutations.contains {
                $0.isSent && !$0.state.isTerminal && ($0.key == mutation.key || (mutation.group != nil && $0.group == mutation.group))
            }
            #expect(error.problem?.code == "already-sent" && hasSent)
        }
    }

    private mutating func discard() throws {
        let parked = model.mutations.filter { [.rejected, .failed, .conflicted].contains($0.state) }
        guard !parked.isEmpty else { return }
        let mutation = pick(parked)
        try agent.store.discard(mutation.key, reason: "test", uid: 0, at: agent.now)
        if let index = model.index(mutation.key) { model.mutations[index].state = .discarded }
    }

    private mutating func pass(_ time: Duration) throws {
        agent.wait(time)
        for index in model.mutations.indices { model.mutations[index].isDelayed = false }
        // The store notices with the next claim.
        let expected = model.nextBatch(TestAgent.anyBatch)
        #expect(try agent.claim().map(\.seq) == expected)
        model.claim(expected)
    }

    private mutating func crash() throws {
        agent.store = try Store(agent.database, agent.options, at: agent.now)
    }

    private mutating func adopt() throws {
        try agent.store.adoptReplica(ReplicaID(trusted: "r-\(version)"), at: agent.now)
        // All of it counts as claimed together, in the order in which it was made.
        model.turns += 1
        for index in model.mutations.indices where model.mutations[index].state == .pending {
            model.mutations[index].turn = model.turns
            model.mutations[index].state = .inFlight
            model.mutations[index].isSent = true
            model.mutations[index].isDelayed = false
        }
    }

    private mutating func settleUnknown() throws {
        let flying = try agent.inFlight(1_000).map(\.key)
        #expect(Set(flying) == Set(model.mutations.filter { $0.state == .inFlight }.map(\.key)))
        let results = flying.map { PushResult.accepted($0, next()) }
        _ = try agent.store.applyResults(results, next: nil, at: agent.now)
        model.apply(results)
    }

    /// The hub accepts everything from now on, and people discard what is parked.
    mutating func settleAll() throws {
        for _ in 0..<200 {
            if let parked = model.mutations.first(where: { [.rejected, .failed, .conflicted].contains($0.state) }) {
                try agent.store.discard(parked.key, reason: "test", uid: 0, at: agent.now)
                if let index = model.index(parked.key) { model.mutations[index].state = .discarded }
                continue
            }
            try settleUnknown()
            try pass(.seconds(1_000))
            try close()
        }
    }

    // MARK: - Comparison

    /// Stops the walk at the first step where the two disagree.
    func compare(_ step: Int) throws {
        var found = try agent.store.verify()
        for mutation in model.mutations {
            let stored = try agent.store.reads.mutation(mutation.key, at: agent.now)
            if stored?.state != mutation.state || (!mutation.state.isTerminal && stored?.priority != mutation.priority) {
                found.append(
                    "mutation \(mutation.seq) is \(stored.map { "\($0.state.name) \($0.priority.name)" } ?? "gone") "
                        + "instead of \(mutation.state.name) \(mutation.priority.name)")
            }
        }
        for id in ids {
            let record = try agent.record(id)
            let view = record?.view.flatMap { try? JSONReader.read($0).object }
            if view != model.view(id) {
                found.append("record \(id) shows \(record?.view ?? "nothing") instead of \(model.view(id)?.json ?? "nothing")")
            }
            if record?.status ?? .synced != model.status(id) || record?.version ?? 0 != model.records[id]?.version ?? 0 {
                found.append("record \(id) is \(String(describing: record)) instead of \(model.status(id))")
            }
        }
        try #require(found == [], "step \(step)")
    }
}
