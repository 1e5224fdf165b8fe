import SyncCore
import SyncStore
import Testing

/// The mutations that go when there is no room: an app's own ones, and overdue ones before others.
@Suite("Capacity that apps share")
struct SharedCapacityTests {
    private func requester(_ name: String, quota: Int? = nil) -> Requester {
        Requester(app: AppName(trusted: name), uid: 7, quotaMutations: quota)
    }

    private func event(_ agent: TestAgent, by requester: Requester) throws -> MutationKey {
        try agent.store.enqueue([TestAgent.mutation(.create, nil, ["t": 1], entity: "reading")], by: requester, at: agent.now)[0].key
    }

    @Test("An app over its own limit gives up its own oldest events, and none of another app")
    func quotaTakesOwn() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.whenFull = .dropOldest })
        let (quiet, greedy) = (requester("quiet", quota: 5), requester("greedy", quota: 5))
        let kept = try (0..<4).map { _ in try event(agent, by: quiet) }
        let own = try (0..<10).map { _ in try event(agent, by: greedy) }
        #expect(try agent.states(kept) == Array(repeating: "pending", count: 4))
        #expect(try agent.states(own) == Array(repeating: "expired", count: 5) + Array(repeating: "pending", count: 5))
        #expect(try agent.store.reads.facts(at: agent.now).openByApp == [quiet.app: 4, greedy.app: 5])
        #expect(try agent.store.verify() == [])
    }

    @Test("An app whose limit is used up by records has no event to give up: it is refused, whatever others have waiting")
    func quotaOfRecords() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.whenFull = .dropOldest })
        let (quiet, greedy) = (requester("quiet"), requester("greedy", quota: 2))
        let kept = try (0..<4).map { _ in try event(agent, by: quiet) }
        for id in ["a", "b"] { _ = try agent.store.enqueue([TestAgent.mutation(.create, id)], by: greedy, at: agent.now) }
        let problem = StoreError.problem { _ = try event(agent, by: greedy) }
        #expect(problem?.code == "queue-full" && problem?.members["setting"] == "access[].quota_mutations")
        #expect(try agent.states(kept) == Array(repeating: "pending", count: 4))
    }

    @Test("In a full store an app's own events make room first, then the oldest of the others")
    func fullTakesOwnFirst() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.whenFull = .dropOldest }, capacity: TestAgent.capacity(20))
        let (quiet, late) = (requester("quiet"), requester("late"))
        let kept = try (0..<18).map { _ in try event(agent, by: quiet) }
        // It has none: another app's oldest goes.
        var own = [try event(agent, by: late)]
        #expect(try agent.states(Array(kept.prefix(2))) == ["expired", "pending"])
        // From now on the app's own events make room.
        for _ in 0..<5 { own.append(try event(agent, by: late)) }
        #expect(try agent.states(own) == Array(repeating: "expired", count: 5) + ["pending"])
        #expect(try agent.states(Array(kept.dropFirst())) == Array(repeating: "pending", count: 17))
        let critical = TestAgent.mutation(.create, "c", priority: .critical)
        for number in 0..<2 {
            var own = critical
            own.recordID = RecordID(trusted: "c\(number)")
            _ = try agent.store.enqueue([own], by: quiet, at: agent.now)
        }
        #expect(agent.refusal(TestAgent.mutation(.create, "x"))?.members["setting"] == "store.max_mutations")
        // Both at once: the two that are too many by the share of what is not critical, and the one for itself.
        own.append(try event(agent, by: late))
        #expect(try agent.states(own).filter { $0 == "pending" }.count == 1)
        #expect(try agent.states(kept) == Array(repeating: "expired", count: 3) + Array(repeating: "pending", count: 15))
        #expect(try agent.store.verify() == [])
    }

    @Test("Mutations that a refused list would have dropped wait on, and are found again")
    func refusedListDropsNothing() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.whenFull = .dropOldest })
        let greedy = requester("greedy", quota: 3)
        let own = try (0..<3).map { _ in try event(agent, by: greedy) }
        let list = [
            TestAgent.mutation(.create, nil, entity: "reading"), TestAgent.mutation(.create, nil, entity: "reading"),
            TestAgent.mutation(.update, "nowhere", ["v": 1]),
        ]
        #expect(StoreError.problem { _ = try agent.store.enqueue(list, by: greedy, at: agent.now) } != nil)
        #expect(try agent.states(own) == ["pending", "pending", "pending"])
        for dropped in 1...2 {
            _ = try event(agent, by: greedy)
            #expect(try agent.states(own) == Array(repeating: "expired", count: dropped) + Array(repeating: "pending", count: 3 - dropped))
        }
        #expect(try agent.store.verify() == [])
    }

    @Test("Looking for an app's own events costs little each time, whatever others have waiting", arguments: [false, true])
    func ownDropCosts(_ isRefused: Bool) throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.whenFull = .dropOldest })
        let (quiet, greedy) = (requester("quiet"), requester("greedy", quota: 2))
        if isRefused {
            for id in ["a", "b"] { _ = try agent.store.enqueue([TestAgent.mutation(.create, id)], by: greedy, at: agent.now) }
        } else {
            for _ in 0..<2 { _ = try event(agent, by: greedy) }
        }
        func steps() throws -> Int {
            for _ in 0..<100 { _ = try event(agent, by: quiet) }
            // Their narrow rows are not counted here.
            _ = try agent.store.housekeep(at: agent.now)
            let before = agent.database.stepsTaken
            let isDropped = StoreError.problem { _ = try event(agent, by: greedy) } == nil
            #expect(isDropped != isRefused)
            return agent.database.stepsTaken - before
        }
        let costs = try (0..<50).map { _ in try steps() }
        let (first, last) = (costs[5..<15].max() ?? 0, costs[40...].max() ?? 0)
        #expect(last < 2 * first, "\(costs)")
    }

    // MARK: - Time to live

    @Test("Overdue mutations make room before anything is refused: in an app's limit, and in a full store", arguments: [true, false])
    func overdueMakesRoom(_ isQuota: Bool) throws {
        let agent = try TestAgent(capacity: TestAgent.capacity(isQuota ? 1_000 : 6))
        let app = requester("app", quota: isQuota ? 5 : nil)
        var keys: [MutationKey] = []
        for number in 0..<5 {
            var mutation = TestAgent.mutation(.create, "r\(number)", ["v": 1])
            mutation.ttl = number < 3 ? .seconds(60) : nil
            keys.append(try agent.store.enqueue([mutation], by: app, at: agent.now)[0].key)
        }
        if !isQuota { agent.store.capacity.mutations = 5 }
        let more = TestAgent.mutation(.create, "more", ["v": 1])
        #expect(StoreError.problem { _ = try agent.store.enqueue([more], by: app, at: agent.now) }?.code == "queue-full")
        agent.wait(.seconds(60))
        _ = try agent.store.enqueue([more], by: app, at: agent.now)
        #expect(try agent.states(keys) == ["expired", "expired", "expired", "pending", "pending"])
        #expect(try agent.record("r0")?.view == nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("An overdue mutation is dropped before an event that could still be sent")
    func overdueBeforeOldest() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.whenFull = .dropOldest })
        let app = requester("app", quota: 2)
        let lasting = try event(agent, by: app)
        var short = TestAgent.mutation(.create, nil, ["t": 1], entity: "reading")
        short.ttl = .seconds(1)
        let overdue = try agent.store.enqueue([short], by: app, at: agent.now)[0].key
        agent.wait(.seconds(2))
        let newest = try event(agent, by: app)
        #expect(try agent.states([lasting, overdue, newest]) == ["pending", "expired", "pending"])
    }

    @Test("A change of a record whose creation is overdue is judged after that has gone")
    func overdueCreation() throws {
        let agent = try TestAgent()
        let app = requester("app", quota: 1)
        var creation = TestAgent.mutation(.create, "a", ["v": 1])
        creation.ttl = .seconds(1)
        let key = try agent.store.enqueue([creation], by: app, at: agent.now)[0].key
        agent.wait(.seconds(2))
        // As the store's thread does it: what was begun goes on, whatever one request is answered.
        try agent.store.begin(at: agent.now)
        let update = TestAgent.mutation(.update, "a", ["v": 2])
        #expect(StoreError.problem { _ = try agent.store.enqueue([update], by: app, at: agent.now) } != nil)
        try agent.store.commit()
        #expect(try agent.state(key) == .expired)
        #expect(try agent.store.verify() == [])
    }

    @Test("The store knows when the next time to live is over, on the clock of the boot")
    func nextExpiry() throws {
        let agent = try TestAgent()
        func ends() throws -> Duration? { try agent.store.nextExpiry(at: agent.now).map { agent.now.instant.duration(to: $0) } }
        func add(_ ttl: Int64?, _ entity: String = "reading", priority: Priority? = nil) throws {
            var mutation = TestAgent.mutation(.create, nil, ["t": 1], entity: entity, priority: priority)
            mutation.ttl = ttl.map { .seconds($0) }
            try agent.enqueue(mutation)
        }
        #expect(try ends() == nil)
        try add(nil)
        try add(5, priority: .critical)
        #expect(try ends() == nil, "neither can expire")
        try add(100)
        #expect(try ends() == .seconds(100), "of an event that has no narrow row yet")
        try add(60, "audit")
        agent.wait(.seconds(10))
        #expect(try ends() == .seconds(50))
        // A wall clock that steps changes nothing.
        agent.now.wall = agent.now.wall.advanced(by: .seconds(86_400))
        #expect(try ends() == .seconds(50))
        try agent.crash()
        #expect(try ends() == .seconds(49))
        agent.wait(.seconds(60))
        #expect(try ends() == .seconds(-11), "overdue")
        guard case .housekept(false, let expiry) = agent.store.perform(.housekeep, at: agent.now) else {
            Issue.record("housekeeping says when it is needed again")
            return
        }
        #expect(expiry.map { agent.now.instant.duration(to: $0) } == .seconds(29))
        #expect(try agent.claim().count == 3)
        #expect(try ends() == nil, "what was sent does not expire")
    }
}
