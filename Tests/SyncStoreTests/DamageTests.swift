import SyncCore
import SyncStore
import Testing

/// A flipped byte is found, set aside with a word, and everything else flows.
@Suite("Damage")
struct DamageTests {
    @Test(
        "A mutation whose row is damaged is parked and never sent; what else waits goes",
        arguments: [
            "data = replace(data, '1', '3')", "key = replace(key, substr(key, 1, 1), 'x')", "priority = 2", "hlc = hlc || '0'",
            "base_version = base_version + 1", "action = 2", "sum = sum + 1", "unset = '[\"n\"]'", "ops = '[]'", "data = NULL",
        ])
    func payload(_ change: String) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let damaged = try agent.create("a", ["n": 1]).key
        let behind = try agent.update("a", ["v": 2]).key
        let other = try agent.create("b").key
        try RawDatabase(folder.database).rows("UPDATE payload SET \(change) WHERE seq = 1")
        let shown = try #require(try agent.store.reads.mutations(MutationQuery(), at: agent.now).items.first { $0.seq == 1 })
        #expect(
            shown.data == nil && shown.operations == nil && shown.unset == nil && shown.problem?.code == "damaged",
            "only records that were asked for are shown")
        #expect(try agent.claim().map(\.key) == [other])
        var held = MutationQuery()
        held.states = [.held]
        let parked = try agent.store.reads.mutations(held, at: agent.now).items
        #expect(parked.map(\.seq) == [1])
        #expect(parked.first?.problem?.code == "damaged")
        #expect(try agent.store.reads.facts(at: agent.now).count(.held) == 1)
        #expect(try agent.state(behind) == .pending, "nothing overtakes it on its record")
        // It can be answered for, with all of its data given again.
        if !change.hasPrefix("key"), !change.hasPrefix("action") {
            _ = try agent.store.retry(damaged, fix: ["n": 5], by: agent.app, at: agent.now)
            #expect(try agent.state(damaged) == .resolved)
        }
    }

    @Test("One that is damaged while it is in flight is parked when it is loaded again")
    func inFlight() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a")
        let other = try agent.create("b").key
        _ = try agent.claim()
        try RawDatabase(folder.database).rows("UPDATE payload SET data = '{}' WHERE seq = 1")
        try agent.reopen()
        #expect(try agent.inFlight().map(\.key) == [other])
        #expect(try agent.store.reads.facts(at: agent.now).count(.held) == 1)
    }

    @Test("An event of a list that is damaged holds its list back, whole")
    func list() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        let list = try agent.list([TestAgent.mutation(.create, "a"), TestAgent.mutation(.create, "b")]).map(\.key)
        let other = try agent.event().key
        try RawDatabase(folder.database).rows("UPDATE payload SET data = '{\"x\":1}' WHERE seq = 2")
        #expect(try agent.claim().map(\.key) == [other])
        #expect(try agent.claim().isEmpty)
        #expect(try agent.states(list) == ["pending", "held"])
    }

    @Test(
        "A record whose row is damaged is not shown, not changed, and fetched again",
        arguments: [
            "base = '{\"v\":2}'", "base_version = 4", "sum = sum + 1",
        ])
    func record(_ change: String) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.pull([("a", 5, ["v": 1]), ("b", 6, ["v": 1])], cursor: "c1")
        try RawDatabase(folder.database).rows("UPDATE record SET \(change) WHERE id = 'a'")
        let shown = try #require(try agent.record("a"))
        #expect(shown.view == nil && shown.base == nil && shown.status == .error)
        #expect(try agent.view("b") == #"{"v":1}"#)
        #expect(agent.refusal(TestAgent.mutation(.update, "a", ["v": 3]))?.code == "read-only")
        #expect(try agent.store.loadStreams(at: agent.now).first { $0.entity.text == "audit" }?.cursor == nil, "its entity is listed again")
        try agent.pull([("a", 5, ["v": 1]), ("b", 6, ["v": 1])], cursor: "c1")
        #expect(try agent.view("a") == #"{"v":1}"#)
        try agent.update("a", ["v": 3])
        #expect(try agent.store.verify() == [])
    }

    @Test("A view that is damaged is noticed as well, and made again from its parts")
    func view() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.pull([("a", 5, ["v": 1, "w": 1])])
        try agent.update("a", ["v": 2])
        try RawDatabase(folder.database).rows("UPDATE record SET view = '{\"v\":7,\"w\":1}'")
        #expect(try agent.record("a")?.view == nil)
        try agent.pull([("a", 5, ["v": 1, "w": 1])])
        #expect(try agent.view("a") == #"{"v":2,"w":1}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("A file that contradicts itself is refused when it was not closed in good order")
    func corrupt() throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        for number in 0..<200 { try agent.create("r\(number)") }
        try agent.store.close(at: agent.now)
        try agent.reopen()
        _ = try agent.database.pragma("wal_checkpoint(TRUNCATE)")
        var bytes = folder.bytes()
        for page in 4..<(bytes.count / 4_096) { for offset in 0..<200 { bytes[page * 4_096 + offset] ^= 0x55 } }
        agent.database = try Database.inMemory()
        agent.store = try TestAgent().store
        try folder.write(bytes)
        #expect(StoreError.code { _ = try TestAgent(in: folder) } == .corrupt)
    }
}
