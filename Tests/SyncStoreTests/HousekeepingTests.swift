import SyncCore
import SyncStore
import Testing

/// PROTOCOL C9: what goes, when, and what never goes by itself.
@Suite("Housekeeping")
struct HousekeepingTests {
    private func settle(_ agent: TestAgent) throws {
        var slices = 0
        while try agent.store.housekeep(at: agent.now) {
            slices += 1
            try #require(slices < 1_000, "it comes to an end")
        }
    }

    @Test("Settled mutations go after a week; rejected, failed, held and conflicted ones never by themselves")
    func retention() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let keys = try (0..<6).map { try agent.create("r\($0)").key }
        let event = try agent.event().key
        try RawDatabase(folder.database).rows("UPDATE payload SET data = '{}' WHERE seq = 1")
        _ = try agent.claim()
        try agent.answer(.accepted(keys[1], 5), .rejected(keys[2]), .conflict(keys[3], ["v"], .absent), .accepted(event, 6))
        for _ in 0..<Limits.attempts {
            try agent.store.setAside(keys[4], Problem("x", status: 500, detail: "x"), counts: true, at: agent.now)
        }
        #expect(try agent.states(keys + [event]) == ["held", "done", "rejected", "conflicted", "failed", "in_flight", "done"])
        agent.wait(.seconds(6 * 86_400))
        try settle(agent)
        #expect(try agent.states([keys[1], event]) == ["done", "done"])
        agent.wait(.seconds(400 * 86_400))
        try settle(agent)
        #expect(try agent.states(keys + [event]) == ["held", "gone", "rejected", "conflicted", "pending", "in_flight", "gone"])
        let facts = try agent.store.reads.facts(at: agent.now)
        #expect(facts.pruned == 2 && facts.enqueued == 7 && facts.count(.done) == 2)
    }

    @Test("An entity has its own retention, and a tombstone goes after 90 days")
    func ownRetention() throws {
        var rules = TestAgent.rules
        var audit = EntityRules()
        audit.retention = .seconds(3_600)
        rules.entities[EntityName(trusted: "audit")] = audit
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder, rules: rules)
        let key = try agent.create("a").key
        try agent.drain()
        try agent.pull([], deleted: [("a", 1_000)])
        agent.wait(.seconds(3_601))
        try settle(agent)
        #expect(try agent.state(key) == nil)
        #expect(try agent.record("a")?.isDeleted == true)
        agent.wait(.seconds(90 * 86_400))
        try settle(agent)
        #expect(try agent.record("a") == nil)
        #expect(try agent.store.verify() == [])
    }

    @Test("A wall clock that jumps purges nothing")
    func wallJump() throws {
        let agent = try TestAgent()
        let key = try agent.create("a").key
        try agent.drain()
        agent.now.wall = agent.now.wall.advanced(by: .seconds(50 * 365 * 86_400))
        try settle(agent)
        #expect(try agent.state(key) == .done)
    }

    @Test(
        "Free pages go back to the file system, in slices, whether the store or its thread opened the transaction",
        arguments: [false, true])
    func vacuum(_ isJoined: Bool) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let large = JSON.string(JSONString(String(repeating: "x", count: 50_000)))
        for _ in 0..<150 { try agent.event(["p": large]) }
        try agent.drain()
        let before = try #require(Int(try agent.database.pragma("page_count")))
        agent.wait(.seconds(8 * 86_400))
        if isJoined {
            var more = true
            while more {
                try agent.store.begin(at: agent.now)
                more = try agent.store.housekeep(at: agent.now)
                try agent.store.commit()
                try agent.store.tidy()
            }
        } else {
            try settle(agent)
        }
        let after = try #require(Int(try agent.database.pragma("page_count")))
        #expect(after < before / 2, "\(before) pages became \(after)")
        #expect(folder.bytes().count == after * 4_096, "the file itself is smaller")
        #expect(folder.bytes("-wal").isEmpty)
        #expect(try agent.store.verify() == [])
    }

    @Test("A store that has nothing to do writes nothing")
    func idle() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a")
        try settle(agent)
        #expect(folder.bytes("-wal").isEmpty)
        for _ in 0..<5 {
            agent.wait(.seconds(600))
            try settle(agent)
            _ = try agent.claim(50, .critical)
        }
        #expect(folder.bytes("-wal").isEmpty)
    }

    @Test("A reader in the middle of its work is not waited for, and does not stop the checkpoint for good")
    func readerHolds() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a")
        let reader = try RawDatabase(folder.database)
        try reader.rows("BEGIN")
        try reader.rows("SELECT count(*) FROM record")
        try agent.create("b")
        try settle(agent)
        #expect(!folder.bytes("-wal").isEmpty)
        #expect(try reader.number("SELECT count(*) FROM record") == 1, "its snapshot stays")
        try reader.rows("COMMIT")
        try agent.create("c")
        try settle(agent)
        #expect(folder.bytes("-wal").isEmpty)
        #expect(try reader.number("SELECT count(*) FROM record") == 3)
    }

    @Test("Decisions are kept with their author")
    func audit() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let key = try agent.create("a").key
        _ = try agent.claim()
        try agent.answer(.rejected(key))
        try agent.store.discard(key, reason: "dup visit", uid: 1_001, at: agent.now)
        let raw = try RawDatabase(folder.database)
        #expect(try raw.rows("SELECT uid, verb, target, json FROM audit") == [["1001", "discard", key.text, #"{"reason":"dup visit"}"#]])
        agent.wait(.seconds(399 * 86_400))
        try settle(agent)
        #expect(try raw.number("SELECT count(*) FROM audit") == 1)
        agent.wait(.seconds(2 * 86_400))
        try settle(agent)
        #expect(try raw.number("SELECT count(*) FROM audit") == 1, "the newest stays: its number is not given again")
        try agent.store.audit("test", "t", uid: 0, [:], at: agent.now)
        try settle(agent)
        #expect(try raw.rows("SELECT verb FROM audit") == [["test"]])
    }
}
