import SyncCore
import SyncStore
import Testing

/// PROTOCOL B1, backpressure: where work is refused, what makes room, and what time to live does.
@Suite("Capacity and time to live")
struct CapacityTests {
    @Test("The last tenth is for critical mutations, and then all is full")
    func reserve() throws {
        let agent = try TestAgent(capacity: TestAgent.capacity(20))
        for number in 0..<18 { try agent.create("r\(number)") }
        let refused = agent.refusal(TestAgent.mutation(.create, "x"))
        #expect(refused?.code == "queue-full")
        #expect(refused?.detail == "18 mutations are open, the limit is 20, and its last tenth is for critical mutations")
        #expect(agent.refusal(TestAgent.mutation(.create, nil, entity: "reading"))?.status == 507)
        try agent.create("c1", priority: .critical)
        try agent.create("c2", priority: .critical)
        let full = agent.refusal(TestAgent.mutation(.create, "c3", priority: .critical))
        #expect(full?.code == "queue-full" && full?.detail == "20 mutations are open, the limit is 20")
        // Settled mutations make room again.
        try agent.drain()
        try agent.create("x")
        #expect(try agent.store.verify() == [])
    }

    @Test("An app has its own limit of open mutations")
    func quota() throws {
        let agent = try TestAgent()
        let limited = Requester(app: AppName(trusted: "limited"), uid: 7, quotaMutations: 2)
        func enqueue(_ id: String) -> Problem? {
            StoreError.problem { _ = try agent.store.enqueue([TestAgent.mutation(.create, id)], by: limited, at: agent.now) }
        }
        #expect(enqueue("a") == nil && enqueue("b") == nil)
        #expect(enqueue("c")?.code == "queue-full")
        try agent.create("c")
        #expect(try agent.store.reads.facts(at: agent.now).openByApp[limited.app] == 2)
        try agent.drain()
        #expect(enqueue("d") == nil)
        let none = Requester(app: AppName(trusted: "nobody"), uid: 8, quotaMutations: 0)
        #expect(StoreError.problem { _ = try agent.store.enqueue([TestAgent.mutation(.create, "e")], by: none, at: agent.now) } != nil)
    }

    @Test("A disk that is nearly full refuses all but critical mutations, and then those too")
    func freeBytes() throws {
        let agent = try TestAgent()
        agent.store.freeBytes = 65_000_000
        #expect(agent.refusal(TestAgent.mutation(.create, "a"))?.code == "disk-full")
        try agent.create("a", priority: .critical)
        agent.store.freeBytes = 63_000_000
        #expect(agent.refusal(TestAgent.mutation(.create, "b", priority: .critical))?.code == "disk-full")
        agent.store.freeBytes = nil
        try agent.create("b")
    }

    @Test("Where the oldest events make room, they expire one for one, and only those that were never sent")
    func dropOldest() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.whenFull = .dropOldest }, capacity: TestAgent.capacity(10))
        let first = try (0..<9).map { _ in try agent.event().key }
        _ = try agent.claim(2)
        let tenth = try agent.event().key
        #expect(try agent.states(first) == ["in_flight", "in_flight", "expired"] + [String](repeating: "pending", count: 6))
        #expect(try agent.state(tenth) == .pending)
        #expect(try agent.store.reads.facts(at: agent.now).open == 9)
        // A record makes no room for itself.
        #expect(agent.refusal(TestAgent.mutation(.create, "a"))?.code == "queue-full")
        for _ in 0..<7 { try agent.event() }
        #expect(try agent.states(first).filter { $0 == "expired" }.count == 7)
        // When nothing is left to drop, the event is refused like everything else.
        _ = try agent.claim(50)
        #expect(agent.refusal(TestAgent.mutation(.create, nil, entity: "reading"))?.code == "queue-full")
        #expect(try agent.store.verify() == [])
    }

    @Test("A limit that was lowered is reached in steps, so one event does not pay for all")
    func lowered() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.whenFull = .dropOldest })
        for _ in 0..<50 {
            _ = try agent.store.enqueueEach(
                (0..<50).map { _ in TestAgent.mutation(.create, nil, ["t": 1], entity: "reading") }, by: agent.app, at: agent.now)
        }
        agent.store.capacity.mutations = 100
        try agent.event()
        #expect(try agent.store.reads.facts(at: agent.now).open == 2_500 - 1_000 + 1)
        for _ in 0..<2 { try agent.event() }
        #expect(try agent.store.reads.facts(at: agent.now).open == 90)
        #expect(try agent.store.verify() == [])
    }

    @Test("Finding the event that makes room costs the same whatever waits before and after it")
    func dropCosts() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.whenFull = .dropOldest }, capacity: TestAgent.capacity(4_000))
        // Settled records and waiting records of another entity stand before the events.
        for number in 0..<1_500 { try agent.create("done\(number)") }
        try agent.drain()
        for number in 0..<1_500 { try agent.create("open\(number)") }
        while try agent.store.reads.facts(at: agent.now).open < 3_600 { try agent.event() }
        func steps() throws -> Int {
            let before = agent.database.stepsTaken
            _ = StoreError.problem { try agent.event() }
            return agent.database.stepsTaken - before
        }
        _ = try (0..<5).map { _ in try steps() }
        let cost = try (0..<20).map { _ in try steps() }.max() ?? 0
        #expect(cost < 2_000, "\(cost) steps for one event")
    }

    // MARK: - Time to live

    @Test("A mutation that waits longer than its time to live expires unsent, unless it is critical or was sent")
    func unsentMutationExpiresAfterItsTimeToLive() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.ttl = .seconds(3_600) })
        let plain = try agent.event().key
        let critical = try agent.event(priority: .critical).key
        let sent = try agent.event(priority: .normal).key
        #expect(try agent.claim(2).count == 2)
        var own = TestAgent.mutation(.create, "a", ["v": 1])
        own.ttl = .seconds(60)
        let record = try agent.enqueue(own).key
        let update = try agent.update("a", ["v": 2]).key
        agent.wait(.seconds(61))
        _ = try agent.store.housekeep(at: agent.now)
        // An update of what will not be created cannot go on, and has no time to live of its own: it is told.
        #expect(try agent.states([plain, critical, sent, record, update]) == ["pending", "in_flight", "in_flight", "expired", "rejected"])
        #expect(try agent.record("a")?.view == nil)
        agent.wait(.seconds(3_600))
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try agent.states([plain, critical, sent]) == ["expired", "in_flight", "in_flight"])
        #expect(try agent.store.verify() == [])
    }

    @Test("Expiry goes on in slices until all is looked at")
    func expiresInSlices() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.ttl = .seconds(60) })
        for _ in 0..<14 {
            _ = try agent.store.enqueueEach(
                (0..<250).map { _ in TestAgent.mutation(.create, nil, ["t": 1], entity: "reading") }, by: agent.app, at: agent.now)
        }
        agent.wait(.seconds(61))
        #expect(try agent.store.housekeep(at: agent.now))
        #expect(try agent.store.reads.facts(at: agent.now).count(.expired) == 1_000)
        var slices = 1
        while try agent.store.housekeep(at: agent.now) { slices += 1 }
        #expect(try agent.store.reads.facts(at: agent.now).count(.expired) == 3_500)
        #expect(slices < 10)
        #expect(try agent.store.verify() == [])
    }

    @Test("Time to live follows the database's own clock: a jump of the wall clock expires nothing")
    func wallJumps() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.ttl = .seconds(3_600) })
        let key = try agent.event().key
        agent.now.wall = agent.now.wall.advanced(by: .seconds(400 * 86_400))
        agent.now.instant = agent.now.instant.advanced(by: .seconds(700))
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try agent.state(key) == .pending)
    }

    struct Boot: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var wallGap: Int64
        var isExpired: Bool
    }

    @Test(
        "From one boot to the next wall time counts while it is plausible",
        arguments: [
            Boot(testDescription: "an hour off", wallGap: 3_600, isExpired: true),
            Boot(testDescription: "a minute off", wallGap: 60, isExpired: false),
            Boot(testDescription: "a clock that went back", wallGap: -86_400, isExpired: false),
            Boot(testDescription: "a clock that lost 50 years and found them again", wallGap: 50 * 365 * 86_400, isExpired: false),
        ])
    func boots(_ boot: Boot) throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.ttl = .seconds(3_000) })
        let key = try agent.event().key
        try agent.store.close(at: agent.now)
        agent.options.bootID = "boot-2"
        agent.now = Moment(instant: Instant(nanoseconds: 1), wall: agent.now.wall.advanced(by: .seconds(boot.wallGap)))
        try agent.crash()
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try agent.state(key) == (boot.isExpired ? .expired : .pending))
    }

    @Test("A dropped event with an app's key is not answered as done, even when its row had to go for space")
    func droppedKey() throws {
        let agent = try TestAgent(rules: TestAgent.rulesWithReadings { $0.whenFull = .dropOldest }, capacity: TestAgent.capacity(10))
        agent.store.capacity.bytes = 1_000_000
        let key = AppKey(key: "k", fingerprint: [UInt8](repeating: 1, count: 16))
        let mutation = TestAgent.mutation(.create, nil, ["t": 1], entity: "reading")
        try agent.enqueue(mutation, appKey: key)
        for _ in 0..<20 { try agent.event() }
        // With less than twice the space that must stay free, settled events go before their time.
        agent.store.freeBytes = 100_000_000
        _ = try agent.store.housekeep(at: agent.now)
        #expect(try agent.store.reads.facts(at: agent.now).pruned == 11, "of twelve dropped events all but the one with a key")
        #expect(try agent.enqueue(mutation, appKey: key).state == .expired)
        #expect(try agent.store.verify() == [])
    }
}
