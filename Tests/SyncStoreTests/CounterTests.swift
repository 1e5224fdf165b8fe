import SyncCore
import SyncStore
import Testing

/// SPEC section 4: enqueued = open + every terminal state, at every moment and over restarts.
@Suite("Counters")
struct CounterTests {
    @Test("The counters are those of a plain list of states after every operation, rollback, power cut and pruning", arguments: 0..<24)
    func addUp(_ seed: UInt64) throws {
        let folder = try TemporaryFolder()
        var rules = TestAgent.rules
        var reading = rules.entities[EntityName(trusted: "reading")] ?? EntityRules()
        reading.whenFull = .dropOldest
        reading.ttl = .seconds(5_000)
        rules.entities[EntityName(trusted: "reading")] = reading
        var capacity = StoreCapacity()
        capacity.mutations = 40
        var walk = CounterWalk(random: SeededRandom(seed: seed), agent: try TestAgent(in: folder, rules: rules, capacity: capacity))
        for _ in 0..<150 {
            try walk.step()
            try walk.compare()
        }
    }
}

/// Events and single creates only: with them each operation has one outcome that is told at once.
private struct CounterWalk {
    struct Mutation {
        var key: MutationKey
        var isEvent: Bool
        var state = MutationState.pending
        var isSent = false
        var enqueued: Int64
        var attempts = 0
        var dueAt: Int64 = 0
    }

    var random: SeededRandom
    let agent: TestAgent
    var list: [Mutation] = []
    var time: Int64 = 0
    var version: Int64 = 0
    /// A second connection, as questions have it. It goes with the process that it stands for.
    private var reader: StoreReads?

    init(random: SeededRandom, agent: TestAgent) {
        self.random = random
        self.agent = agent
    }

    private mutating func reopen() throws {
        reader = nil
        try agent.reopen()
    }

    private mutating func asReader() throws -> StoreReads {
        let reads = try reader ?? StoreReads(database: Database.openReader(path: agent.database.path ?? ""))
        reader = reads
        return reads
    }

    private mutating func below(_ limit: Int) -> Int { Int(random.next() % UInt64(limit)) }

    mutating func step() throws {
        switch below(100) {
        case 0..<40: try enqueue(isEvent: below(3) > 0)
        case 40..<55: try claim()
        case 55..<75: try answer()
        case 75..<80: try stopped()
        case 80..<85: try cancel()
        case 85..<90: try discard()
        case 90..<94: try reopen()
        case 94..<97: try pass(below(2) == 0 ? 2_000 : 700_000)
        default: try enqueueMany()
        }
    }

    private var open: Int { list.count { !$0.state.isTerminal } }

    private mutating func enqueue(isEvent: Bool) throws {
        let mutation = TestAgent.mutation(.create, nil, ["v": .int(Int64(list.count))], entity: isEvent ? "reading" : "audit")
        let isFull = open + 1 > 36
        let victim = isFull && isEvent ? list.firstIndex { $0.isEvent && $0.state == .pending && !$0.isSent } : nil
        if isFull, victim == nil {
            #expect(agent.refusal(mutation)?.code == "queue-full")
            return
        }
        let made = try agent.enqueue(mutation)
        if let victim { list[victim].state = .expired }
        list.append(Mutation(key: made.key, isEvent: isEvent, enqueued: time))
    }

    private mutating func enqueueMany() throws {
        let count = below(4) + 1
        guard open + count <= 36 else { return }
        let made = try agent.list((0..<count).map { _ in TestAgent.mutation(.create, nil, ["t": 1]) })
        guard count == 1 else {
            // Lists share their fate: settle it here, so that every other step is about one mutation.
            for one in made { list.append(Mutation(key: one.key, isEvent: false, state: .cancelled, enqueued: time)) }
            #expect(try agent.store.cancel(made[0].key, at: agent.now).contains(made[0].key))
            return
        }
        list.append(Mutation(key: made[0].key, isEvent: false, enqueued: time))
    }

    private mutating func claim() throws {
        for mutation in try agent.claim(below(6) + 1) {
            guard let index = list.firstIndex(where: { $0.key == mutation.key }) else { throw RawDatabase.Failure(description: "unknown") }
            #expect(list[index].state == .pending || (list[index].state == .failed && list[index].dueAt <= time))
            list[index].state = .inFlight
            list[index].isSent = true
        }
        wake()
    }

    /// A claim wakes what is due.
    private mutating func wake() {
        for index in list.indices where list[index].state == .failed && list[index].dueAt <= time { list[index].state = .pending }
    }

    private mutating func answer() throws {
        for index in list.indices where list[index].state == .inFlight && below(3) > 0 {
            version += 1
            let key = list[index].key
            switch below(8) {
            case 0:
                try agent.answer(.rejected(key))
                list[index].state = .rejected
            case 1:
                try agent.answer(.conflict(key, ["v"], .absent))
                list[index].state = .conflicted
            case 2:
                try agent.answer(.retry(key, "deadlock"))
                list[index].attempts += 1
                list[index].state = list[index].attempts >= Limits.attempts ? .failed : .pending
                list[index].dueAt = time + 86_400
            default:
                try agent.answer(.accepted(key, version))
                list[index].state = .done
            }
        }
    }

    /// The power goes before or after the commit of an enqueue.
    private mutating func stopped() throws {
        guard open + 1 <= 36 else { return }
        let isAfter = below(2) == 0
        agent.store.gate = { at throws(StoreError) in
            let isNow = if case .after = at { isAfter } else { !isAfter }
            if isNow { throw StoreError(.stopped, doing: "commit") }
        }
        let seq = agent.store.lastSeq
        #expect(StoreError.code { try agent.create("s\(list.count)") } == .stopped)
        try reopen()
        #expect(agent.store.lastSeq == seq + (isAfter ? 1 : 0))
        guard isAfter else { return }
        var query = MutationQuery()
        query.after = seq
        let made = try agent.store.reads.mutations(query, at: agent.now).items
        #expect(made.count == 1)
        list.append(Mutation(key: made[0].key, isEvent: false, enqueued: time))
    }

    private mutating func cancel() throws {
        guard let index = list.lastIndex(where: { $0.state == .pending && !$0.isSent }) else { return }
        #expect(try agent.store.cancel(list[index].key, at: agent.now).contains(list[index].key))
        list[index].state = .cancelled
    }

    private mutating func discard() throws {
        guard let index = list.firstIndex(where: { [.rejected, .conflicted, .failed].contains($0.state) }) else { return }
        try agent.store.discard(list[index].key, reason: "test", uid: 0, at: agent.now)
        list[index].state = .discarded
    }

    private mutating func pass(_ seconds: Int64) throws {
        agent.wait(.seconds(seconds))
        time += seconds
        while try agent.store.housekeep(at: agent.now) {}
        wake()
        // Reopening lets a second pass, so exactly on the edge nothing is told: the steps are far from it.
        for index in list.indices where list[index].isEvent && list[index].state == .pending && !list[index].isSent {
            if time - list[index].enqueued >= 5_000 { list[index].state = .expired }
        }
    }

    mutating func compare() throws {
        for reads in [agent.store.reads, try asReader()] {
            let facts = try reads.facts(at: agent.now)
            #expect(facts.enqueued == Int64(list.count))
            let sum = facts.counts.values.flatMap { $0.values }.reduce(0, +)
            let openByApp = facts.openByApp.values.reduce(0, +)
            #expect(facts.enqueued == sum)
            #expect(facts.open == openByApp)
            for state in MutationState.allCases {
                let expected = Int64(list.count { $0.state == state })
                #expect(facts.count(state) == expected, "\(state.name)")
            }
        }
        try #require(try agent.store.verify() == [])
    }
}
