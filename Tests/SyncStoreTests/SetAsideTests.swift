import SyncCore
import SyncStore
import Testing

@Suite("A mutation that is set aside")
struct SetAsideTests {
    private static let problem = Problem("failed-alone", status: 500, detail: "the hub failed over it")

    @Test("An atomic list goes back as a whole, and out again as a whole, in a batch of its own")
    func list() throws {
        let agent = try TestAgent()
        let keys = try agent.list([
            TestAgent.mutation(.create, "a-1", ["n": 1]), TestAgent.mutation(.create, "a-2", ["n": 2]),
            TestAgent.mutation(.update, "a-1", ["n": 3]),
        ]).map(\.key)
        let other = try agent.create("b-1").key, behind = try agent.update("a-1", ["n": 4]).key
        #expect(try agent.claim().map(\.key) == keys + [other, behind])
        try agent.store.setAside(keys[0], Self.problem, counts: false, at: agent.now)
        #expect(try agent.states(keys + [behind]) == ["pending", "pending", "pending", "pending"])
        #expect(try agent.inFlight().map(\.key) == [other])
        #expect(try agent.store.verify() == [])
        try agent.answer(.accepted(other, 5))
        agent.wait(.seconds(61))
        #expect(try agent.claim().map(\.key) == keys)
        #expect(try agent.claim().isEmpty, "what is behind it on its record waits for its verdict")
        #expect(try agent.view("a-1") == #"{"n":4}"#)
        #expect(try agent.store.verify() == [])
    }

    @Test("An atomic list is parked as a whole, and each member is listed until a retry")
    func parkedList() throws {
        let agent = try TestAgent()
        let keys = try agent.list([
            TestAgent.mutation(.create, "a-1", ["n": 1]), TestAgent.mutation(.create, "a-2", ["n": 2]),
        ]).map(\.key)
        for _ in 0..<Limits.attempts {
            #expect(try agent.claim().map(\.key) == keys)
            try agent.store.setAside(keys[0], Self.problem, counts: true, at: agent.now)
            #expect(try agent.store.verify() == [])
            agent.wait(.seconds(61))
        }
        #expect(try agent.states(keys) == ["failed", "failed"])
        #expect(try agent.claim().isEmpty)
        for key in keys { _ = try agent.store.retry(key, by: agent.app, at: agent.now) }
        #expect(try agent.claim().map(\.key) == keys)
        #expect(try agent.store.verify() == [])
    }
}
