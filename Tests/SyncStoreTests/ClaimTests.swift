import SyncCore
import SyncStore
import Testing

/// PROTOCOL C6: what goes next.
@Suite("Claim")
struct ClaimTests {
    @Test("By priority, then in the order in which they were made")
    func order() throws {
        let agent = try TestAgent()
        let bulk = try agent.event().key
        let normal = try agent.create("a").key
        let critical = try agent.create("b", priority: .critical).key
        let late = try agent.create("c").key
        #expect(try agent.claim().map(\.key) == [critical, normal, late, bulk])
    }

    @Test("The mutations of one record go in their order, whatever their priorities")
    func recordOrder() throws {
        let agent = try TestAgent()
        let created = try agent.create("a", priority: .bulk).key
        let updated = try agent.update("a", ["v": 2], priority: .normal).key
        let deleted = try agent.enqueue(TestAgent.mutation(.delete, "a", priority: .critical)).key
        let other = try agent.create("b").key
        #expect(try agent.claim().map(\.key) == [created, updated, deleted, other])
    }

    @Test("A critical mutation pulls older ones of its record, what it depends on, and its parents' creates")
    func inheritance() throws {
        var site = EntityRules()
        site.priority = .bulk
        var order = EntityRules()
        order.refs = ["site": EntityName(trusted: "site")]
        let agent = try TestAgent(rules: RuleBook([EntityName(trusted: "site"): site, EntityName(trusted: "order"): order]))
        let parent = try agent.enqueue(TestAgent.mutation(.create, "s1", entity: "site")).key
        let stranger = try agent.enqueue(TestAgent.mutation(.create, "s2", entity: "site")).key
        let needed = try agent.enqueue(TestAgent.mutation(.create, "s3", entity: "site")).key
        let older = try agent.enqueue(TestAgent.mutation(.create, "o1", entity: "order", priority: .bulk)).key
        var urgent = TestAgent.mutation(.update, "o1", ["site": "s1"], entity: "order", priority: .critical)
        urgent.dependsOn = [needed]
        let key = try agent.enqueue(urgent).key
        #expect(try agent.claim(50, .critical).map(\.key) == [parent, needed, older, key])
        #expect(try agent.claim().map(\.key) == [stranger])
        #expect(try agent.store.verify() == [])
    }

    @Test("A list that is pulled comes whole")
    func listIsPulled() throws {
        let agent = try TestAgent()
        let list = try agent.list([TestAgent.mutation(.create, "a", priority: .bulk), TestAgent.mutation(.create, "b", priority: .bulk)])
        let urgent = try agent.update("b", ["v": 2], priority: .critical)
        #expect(try agent.claim(50, .critical).map(\.key) == list.map(\.key) + [urgent.key])
        #expect(try agent.store.verify() == [])
    }

    @Test("Only priorities that may go are taken")
    func leastPriority() throws {
        let agent = try TestAgent()
        try agent.event()
        let normal = try agent.create("a").key
        #expect(try agent.claim(50, .critical).isEmpty)
        #expect(try agent.claim(50, .normal).map(\.key) == [normal])
        #expect(try agent.claim(50, .bulk).count == 1)
    }

    @Test("A batch ends at its count or its bytes, and holds one mutation however large")
    func limits() throws {
        let agent = try TestAgent()
        for number in 0..<5 { try agent.create("r\(number)", ["p": .string(JSONString(String(repeating: "x", count: 10_000)))]) }
        #expect(try agent.claim(2).count == 2)
        #expect(try agent.claim(50, bytes: 100).count == 1)
        #expect(try agent.claim(50, bytes: 25_000).count == 2)
        #expect(try agent.claim().isEmpty)
    }

    @Test("A list that does not fit waits for a batch of its own; nothing behind it overtakes it")
    func listFits() throws {
        let agent = try TestAgent()
        let first = try agent.create("x").key
        let list = try agent.list((0..<4).map { TestAgent.mutation(.create, "l\($0)") }).map(\.key)
        let last = try agent.create("y").key
        #expect(try agent.claim(3).map(\.key) == [first])
        #expect(try agent.claim(3).map(\.key) == list)
        #expect(try agent.claim(3).map(\.key) == [last])
    }

    @Test("Nothing goes behind a mutation of its record that is in flight, parked or in conflict; others do")
    func blocked() throws {
        let agent = try TestAgent()
        let first = try agent.create("a").key
        _ = try agent.claim()
        let behind = try agent.update("a", ["v": 2]).key
        let other = try agent.create("b").key
        #expect(try agent.claim().map(\.key) == [other])
        try agent.answer(.conflict(first, ["v"], .absent), .accepted(other, 5))
        #expect(try agent.claim().isEmpty)
        try agent.store.discard(first, reason: "test", uid: 0, at: agent.now)
        #expect(try agent.claim().map(\.key) == [behind])
        #expect(try agent.store.verify() == [])
    }

    @Test("Claimed mutations are marked as sent before the batch is handed out, with the highest seq")
    func marksSent() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let keys = [try agent.event().key, try agent.event().key]
        let batch = try #require(try agent.store.claim(TestAgent.anyBatch, at: agent.now))
        #expect(batch.maxSentSeq == 2 && batch.ackedSeq == 0)
        let raw = try RawDatabase(folder.database)
        #expect(try raw.rows("SELECT state, sent, ready, claim FROM mutation") == [["1", "1", "0", "1"], ["1", "1", "0", "1"]])
        #expect(try raw.number("SELECT n FROM counter WHERE name = 'max_sent_seq'") == 2)
        try agent.answer(.accepted(keys[0], 1), .accepted(keys[1], 2))
        try agent.event()
        #expect(try agent.store.claim(TestAgent.anyBatch, at: agent.now)?.ackedSeq == 2)
    }

    @Test("Mutations in flight are loaded as they were claimed, bounded by count and bytes, in whole lists")
    func mutationsInFlightAreLoadedAsClaimed() throws {
        let agent = try TestAgent()
        let large = JSON.string(JSONString(String(repeating: "x", count: 50_000)))
        var keys = try (0..<4).map { try agent.create("r\($0)", ["p": large]).key }
        keys += try agent.list((0..<4).map { TestAgent.mutation(.create, "l\($0)", ["p": large]) }).map(\.key)
        keys += try (0..<4).map { try agent.create("s\($0)", ["p": large]).key }
        _ = try agent.claim(50, bytes: 10_000_000)
        func load(_ count: Int, _ bytes: Int) throws -> [MutationKey] {
            try agent.store.loadInFlight(BatchLimits(mutations: count, bytes: bytes), at: agent.now)?.mutations.map(\.key) ?? []
        }
        #expect(try load(50, 10_000_000) == keys)
        #expect(try load(3, 10_000_000) == Array(keys[..<3]))
        #expect(try load(6, 10_000_000) == Array(keys[..<4]), "a list is not cut")
        #expect(try load(50, 120_000) == Array(keys[..<2]))
        #expect(try load(50, 1) == Array(keys[..<1]))
        try agent.answer(.accepted(keys[0], 1), .accepted(keys[1], 2), .accepted(keys[2], 3), .accepted(keys[3], 4))
        #expect(try load(2, 1) == Array(keys[4..<8]), "a list goes whole, however large")
        // Two batches in flight come in the order in which they were claimed.
        try agent.crash()
        #expect(try load(50, 10_000_000) == Array(keys[4...]))
    }

    @Test("Many that become due at once are woken in slices, and none is forgotten")
    func wakesInSlices() throws {
        let agent = try TestAgent()
        for _ in 0..<10 {
            _ = try agent.store.enqueueEach(
                (0..<250).map { _ in TestAgent.mutation(.create, nil, ["t": 1], entity: "reading") }, by: agent.app, at: agent.now)
        }
        while case let batch = try agent.claim(500), !batch.isEmpty {
            _ = try agent.store.applyResults(batch.map { .retry($0.key, after: .seconds(60)) }, next: nil, at: agent.now)
        }
        agent.wait(.seconds(3_600))
        var seen = 0
        while true {
            let answer = try agent.store.answer(.claim(BatchLimits(mutations: 500, bytes: 1 << 20)), at: agent.now)
            guard case .batch(let batch, let retryAt, _) = answer else { break }
            seen += batch?.mutations.count ?? 0
            if batch == nil, retryAt.map({ $0 > agent.now.wall }) ?? true { break }
        }
        #expect(seen == 2_500)
        #expect(try agent.store.verify() == [])
    }

    @Test("Each class has its own rest of a budget: what fits goes, what does not stays and is counted")
    func sizes() throws {
        let agent = try TestAgent()
        func enqueue(_ id: String, _ priority: Priority, _ bytes: Int) throws {
            let text = JSON.string(JSONString(String(repeating: "x", count: bytes)))
            try agent.create(id, ["t": text], priority: priority)
        }
        try enqueue("large", .normal, 5_000)
        try enqueue("small", .normal, 500)
        try enqueue("urgent", .critical, 6_000)
        try enqueue("late", .bulk, 1_600)
        let sizes = MutationSizes([.critical: 8_000, .normal: 2_000, .bulk: 2_000])
        let limits = BatchLimits(mutations: 50, bytes: 8_000, sizes: sizes)
        guard case .batch(let first?, _, let withheld) = try agent.store.answer(.claim(limits), at: agent.now) else {
            Issue.record("nothing is claimed")
            return
        }
        #expect(first.mutations.map(\.record.id.text) == ["urgent"], "with it, all of the batch is beyond the rest of the others")
        #expect(withheld.classes[.normal]?.count == 1)
        guard case .batch(let second?, _, _) = try agent.store.answer(.claim(limits), at: agent.now) else {
            Issue.record("nothing is claimed")
            return
        }
        #expect(second.mutations.map(\.record.id.text) == ["small"], "both together are more than what is left")
        guard case .batch(let third?, _, _) = try agent.store.answer(.claim(limits), at: agent.now) else {
            Issue.record("nothing is claimed")
            return
        }
        #expect(third.mutations.map(\.record.id.text) == ["late"])
        guard case .batch(nil, _, let rest) = try agent.store.answer(.claim(limits), at: agent.now) else {
            Issue.record("something is claimed")
            return
        }
        #expect(rest.classes.keys.sorted() == [.normal] && rest.classes[.normal]?.count == 1)
        #expect((5_000...5_100).contains(rest.classes[.normal]?.smallest ?? 0))
    }
}
