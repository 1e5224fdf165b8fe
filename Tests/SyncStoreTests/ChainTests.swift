import SyncCore
import SyncStore
import Testing

/// Chains of dependencies, as long as apps make them.
@Suite("Chains")
struct ChainTests {
    private func agent() throws -> TestAgent { try TestAgent(rules: TieTests.rules) }

    private func step(_ id: String, after keys: [MutationKey] = [], _ priority: Priority? = nil) -> NewMutation {
        NewMutation(
            .create, EntityName(trusted: "site"), RecordID(trusted: id), data: ["n": 1], priority: priority, dependsOn: keys)
    }

    /// Enqueues a chain; each waits for the one before it.
    private func chain(_ agent: TestAgent, _ length: Int, _ prefix: String = "s") throws -> [MutationKey] {
        var keys: [MutationKey] = []
        for number in 0..<length { keys.append(try agent.enqueue(step("\(prefix)\(number)", after: keys.suffix(1))).key) }
        return keys
    }

    @Test("A chain of any length in the database is raised to the urgency of its end, without a call inside a call for each link")
    func raise() throws {
        let agent = try agent()
        // Each is the parent of the one before it, so no enqueue sees how long the chain becomes.
        let count = 20_000
        for number in 0..<count {
            let data: JSONObject = number + 1 < count ? ["above": .string("v\(number + 1)")] : [:]
            try agent.enqueue(TestAgent.mutation(.create, "v\(number)", data, entity: "visit", priority: .bulk))
        }
        try agent.enqueue(TestAgent.mutation(.update, "v0", ["n": 1], entity: "visit", priority: .critical))
        // A parent that was made after its child goes in a batch before it.
        for number in 1...3 {
            let urgent = try agent.claim(50, bytes: 1 << 20, .critical)
            #expect(urgent.map(\.record.id.text) == ["v\(count - number)"])
            for mutation in urgent { try agent.answer(.accepted(mutation.key, Int64(number))) }
        }
        #expect(try agent.store.verify() == [])
    }

    @Test("The store refuses a mutation that would end a chain of more than 1,000, and accepts one that fits")
    func chainEndsAtAThousandMutations() throws {
        let agent = try agent()
        let keys = try chain(agent, Limits.chainLinks)
        let problem = try #require(agent.refusal(step("late", after: keys.suffix(1))))
        #expect(problem.code == "validation" && problem.status == 422)
        #expect(problem.errors.map(\.pointer) == ["/depends_on"])
        #expect(problem.detail.contains("1000"))
        // It is also refused with other names beside it, and by a store that was just opened.
        #expect(agent.refusal(step("late", after: [keys[3], keys[keys.count - 1]]))?.code == "validation")
        try agent.crash()
        #expect(agent.refusal(step("late", after: keys.suffix(1)))?.code == "validation")
        try agent.enqueue(step("beside", after: [keys[keys.count - 2]]))
        // The front is accepted: the chain is shorter than it was.
        let first = try agent.claim(1)
        #expect(first.map(\.key) == [keys[0]])
        try agent.answer(.accepted(keys[0], 1))
        try agent.enqueue(step("late", after: keys.suffix(1)))
        #expect(try agent.store.verify() == [])
    }

    @Test("An app that always waits for its last mutation is not refused for those that were accepted long ago")
    func endless() throws {
        let agent = try agent()
        var last = try agent.enqueue(step("s0")).key
        for number in 1...(3 * Limits.chainLinks) {
            let next = try agent.enqueue(step("s\(number)", after: [last])).key
            #expect(try agent.claim(1).map(\.key) == [last])
            try agent.answer(.accepted(last, Int64(number)))
            last = next
        }
        #expect(try agent.store.verify() == [])
    }

    @Test("Dependencies that fan out and meet again count by their longest way")
    func diamonds() throws {
        let agent = try agent()
        var ends: [MutationKey] = []
        for level in 0..<(Limits.chainLinks / 2) {
            let left = try agent.enqueue(step("l\(level)", after: ends)).key, right = try agent.enqueue(step("r\(level)", after: ends)).key
            ends = [left, right]
        }
        try agent.crash()
        try agent.enqueue(step("end", after: ends))
        #expect(try agent.store.verify() == [])
    }

    @Test("With the first of a chain falls all of it, and a retry with cascade brings all of it back in its order")
    func fall() throws {
        let agent = try agent()
        let keys = try chain(agent, 300)
        _ = try agent.claim(1)
        try agent.answer(.rejected(keys[0]))
        #expect(try Set(agent.states(keys)) == ["rejected"])
        let again = try agent.store.retry(keys[0], cascades: true, by: agent.app, at: agent.now)
        #expect(try Set(agent.states(keys)) == ["resolved"])
        var ids: [String] = []
        var version: Int64 = 10
        while case let batch = try agent.claim(50), !batch.isEmpty {
            if ids.isEmpty { #expect(batch.first?.key == again.key) }
            ids += batch.map(\.record.id.text)
            for mutation in batch {
                version += 1
                try agent.answer(.accepted(mutation.key, version))
            }
        }
        #expect(ids == (0..<300).map { "s\($0)" })
        #expect(try agent.store.verify() == [])
    }

    @Test("Overdue changes of one record are given up in one pass, however many there are")
    func overdue() throws {
        let agent = try agent()
        try agent.enqueue(step("s"))
        try agent.drain()
        let count = 20_000
        for number in 0..<count {
            var change = NewMutation(
                .update, EntityName(trusted: "site"), RecordID(trusted: "s"), data: ["n": .int(number)], coalesces: false,
                ttl: .seconds(60))
            if number == count - 1 { change.ttl = nil }
            try agent.enqueue(change)
        }
        agent.wait(.seconds(120))
        let batch = try agent.claim()
        #expect(batch.map(\.data) == [#"{"n":\#(count - 1)}"#])
        #expect(try agent.store.verify() == [])
    }

    @Test("A claim looks at no more of a parent's children than its batch can hold")
    func children() throws {
        func cost(_ count: Int) throws -> Int {
            let agent = try agent()
            try agent.enqueue(step("s"))
            for number in 0..<count { try agent.enqueue(TestAgent.mutation(.create, "v\(number)", ["site": "s"], entity: "visit")) }
            let before = agent.database.stepsTaken
            let batch = try agent.claim(50)
            let cost = agent.database.stepsTaken - before
            #expect(batch.map(\.record.id.text) == ["s"] + (0..<49).map { "v\($0)" })
            try agent.answer(.accepted(batch[0].key, 1))
            for mutation in batch.dropFirst() { try agent.answer(.accepted(mutation.key, mutation.seq)) }
            #expect(try agent.claim(50).map(\.record.id.text) == (49..<99).map { "v\($0)" })
            #expect(try agent.store.verify() == [])
            return cost
        }
        #expect(try cost(3_000) <= cost(300) * 11 / 10)
    }
}
