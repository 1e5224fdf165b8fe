import SyncCore
import SyncStore
import Testing

/// Frequent work must not cost more because more mutations wait: none of its statements scans a table, and none sorts.
@Suite("Work in proportion")
struct PlanTests {
    /// Every kind of hot work once, so that its statements are prepared.
    private func work(_ agent: TestAgent) throws {
        try agent.pull([("p", 5, ["v": 1])], deleted: [("gone", 6)])
        let first = try agent.create("a").key
        let key = AppKey(key: "k", fingerprint: [UInt8](repeating: 1, count: 16))
        for _ in 0..<2 { try agent.enqueue(TestAgent.mutation(.upsert, "b", ["v": 1]), appKey: key) }
        try agent.update("a", ["v": 2], priority: .critical)
        try agent.event()
        let list = try agent.list([TestAgent.mutation(.create, "c"), TestAgent.mutation(.update, "a", ["v": 3])])
        try agent.update("c", ["v": 4], priority: .critical)
        let batch = try agent.claim()
        _ = try agent.inFlight()
        try agent.answer(.retry(first))
        let results = batch.dropFirst().enumerated().map { index, mutation -> PushResult in
            switch index {
            case 0: .rejected(mutation.key)
            case 1: .conflict(mutation.key, ["v"], .absent)
            default: .accepted(mutation.key, Int64(10 + index))
            }
        }
        _ = try agent.store.applyResults(Array(results), next: TestAgent.anyBatch, at: agent.now)
        agent.wait(.seconds(3_600))
        try agent.drain(from: 50)
        _ = try? agent.store.cancel(list[0].key, at: agent.now)  // too late, and that is an answer as well
        _ = try agent.store.loadStreams(at: agent.now)
        _ = try agent.record("a")
        _ = try agent.state(first)
        _ = try agent.store.reads.journal(after: 0, limit: 10, filter: JournalFilter())
    }

    @Test("No hot statement looks through payload, mutation, record or event, and none sorts")
    func plans() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try work(agent)
        let raw = try RawDatabase(folder.database)
        let statements = agent.database.keptSQL.filter { sql in
            ["SELECT", "UPDATE", "DELETE", "INSERT"].contains { sql.hasPrefix($0) }
        }
        #expect(statements.count > 30)
        for sql in statements {
            let steps = try raw.rows("EXPLAIN QUERY PLAN " + sql).compactMap { $0.last ?? nil }
            for step in steps {
                let words = step.split(separator: " ").map(String.init)
                // A few rows, or a walk in the order of the index that the statement ends early.
                let isSmall = ["stream", "record_index", "entity", "app", "counter", "meta", "CONSTANT"].contains { words.contains($0) }
                let isBounded = sql.contains("absorbed") || step.contains("USING INDEX mutation_") || step.contains("event_settled")
                let isOldest = sql == "SELECT n FROM event ORDER BY n LIMIT 1"
                #expect(words.first != "SCAN" || isSmall || isBounded || isOldest, "\(step) in: \(sql)")
                // The new events, of which there are at most 1,024, are added up by app when the store is opened.
                #expect(!step.contains("TEMP B-TREE") || sql.contains("GROUP BY aid, eid, priority"), "\(step) in: \(sql)")
            }
        }
    }

    private func steps(_ agent: TestAgent, _ work: () throws -> Void) throws -> Int {
        let before = agent.database.stepsTaken
        try work()
        return agent.database.stepsTaken - before
    }

    @Test("An enqueue costs the same with a hundred and with ten thousand waiting", arguments: ["audit", "reading"])
    func enqueueCost(_ entity: String) throws {
        let agent = try TestAgent()
        func fill(_ count: Int) throws {
            for _ in 0..<(count / 100) {
                _ = try agent.store.enqueueEach(
                    (0..<100).map { _ in TestAgent.mutation(.create, nil, ["t": 1], entity: entity) }, by: agent.app, at: agent.now)
            }
            _ = try agent.claim(1)
        }
        func cost() throws -> Int {
            try (0..<10).map { _ in
                try steps(agent) { try agent.enqueue(TestAgent.mutation(.create, nil, ["t": 1], entity: entity)) }
            }.min() ?? 0
        }
        try fill(100)
        let few = try cost()
        try fill(10_000)
        #expect(try cost() <= few + few / 4)
    }

    @Test("An update costs the same however many wait before it on its record", arguments: [Priority.bulk, .normal, .critical])
    func hotRecordEnqueue(_ priority: Priority) throws {
        let agent = try TestAgent()
        try agent.create("hot", priority: priority)
        func cost() throws -> Int {
            try (0..<10).map { number in try steps(agent) { try agent.update("hot", ["v": .int(Int64(number))], priority: priority) } }
                .min() ?? 0
        }
        for number in 0..<150 { try agent.update("hot", ["v": .int(number)], priority: priority) }
        let few = try cost()
        for number in 0..<3_000 { try agent.update("hot", ["v": .int(Int64(number))], priority: priority) }
        #expect(try cost() <= few + few / 4)
        #expect(try agent.store.verify() == [])
    }

    @Test(
        "Settling one of many on a record costs the same however many follow, also while something else is rejected",
        arguments: [false, true])
    func hotRecordResults(_ hasRejected: Bool) throws {
        let agent = try TestAgent()
        if hasRejected {
            let key = try agent.create("other").key
            _ = try agent.claim()
            try agent.answer(.rejected(key))
        }
        try agent.create("hot")
        var version: Int64 = 100
        func settleOne() throws -> Int {
            let key = try agent.claim(1)[0].key
            version += 1
            return try steps(agent) { try agent.answer(.accepted(key, version)) }
        }
        for number in 0..<50 { try agent.update("hot", ["v": .int(number)]) }
        let few = try (0..<5).map { _ in try settleOne() }.max() ?? 0
        for number in 0..<3_000 { try agent.update("hot", ["v": .int(Int64(number))]) }
        #expect(try settleOne() <= few + few / 4)
        #expect(try agent.store.verify() == [])
    }

    @Test("A claim costs what it takes, whatever waits behind it or stands blocked before it")
    func claimCost() throws {
        let agent = try TestAgent()
        let stuck = try agent.create("hot").key
        _ = try agent.claim()
        try agent.answer(.conflict(stuck, ["v"], .absent))
        func cost() throws -> Int {
            var taken = 0
            let cost = try steps(agent) { taken = try agent.claim(5).count }
            #expect(taken == 5)
            return cost
        }
        for number in 0..<20 { try agent.create("a\(number)") }
        let few = try cost()
        for number in 0..<3_000 { try agent.update("hot", ["v": .int(Int64(number))]) }
        for number in 0..<3_000 { try agent.create("b\(number)") }
        #expect(try cost() <= few + few / 2)
    }

    @Test("Waiting mutations are counted without reading their content")
    func waitingBytes() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let large = JSON.string(JSONString(String(repeating: "x", count: 1_000)))
        for number in 0..<20 { try agent.create("r\(number)", ["p": large]) }
        try agent.event()
        let raw = try RawDatabase(folder.database)
        let all = try raw.number("SELECT sum(bytes) FROM payload")
        #expect(try agent.store.reads.facts(at: agent.now).waitingBytes == all)
        _ = try agent.claim(5)
        #expect(try agent.store.reads.facts(at: agent.now).waitingBytes == all)
        try agent.drain()
        #expect(
            try agent.store.reads.facts(at: agent.now).waitingBytes
                == raw.number("SELECT sum(p.bytes) FROM payload p JOIN mutation m USING (seq) WHERE m.state = 1"))
        #expect(try raw.number("SELECT count(*) FROM payload p JOIN mutation m USING (seq) WHERE p.bytes <> m.bytes") == 0)
    }
}
