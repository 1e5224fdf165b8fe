import SyncCore
import SyncStore
import Testing

@Suite("A mutation's life")
struct LifeTests {
    @Test("A created record is visible at once, goes out once, and is clean when the hub has it")
    func createLives() throws {
        let agent = try TestAgent()
        let created = try agent.create("a-1", ["n": 1])
        #expect(created.state == .pending)
        #expect(created.record?.view == #"{"n":1}"#)
        #expect(try agent.record("a-1")?.status == .pending)
        let batch = try agent.claim()
        #expect(batch.map(\.key) == [created.key])
        #expect(batch[0].data == #"{"n":1}"#)
        #expect(try agent.state(created.key) == .inFlight)
        #expect(try agent.claim().isEmpty)
        #expect(try agent.answer(.accepted(created.key, 7)).done == 1)
        let record = try #require(try agent.record("a-1"))
        #expect(record.status == .synced)
        #expect(record.version == 7)
        #expect(record.view == #"{"n":1}"#)
        #expect(record.pending.isEmpty)
        #expect(try agent.state(created.key) == .done)
        #expect(try agent.store.verify() == [])
    }

    @Test("An event has no record, and is settled like any mutation")
    func eventLives() throws {
        let agent = try TestAgent()
        let first = try agent.event()
        #expect(first.record == nil)
        #expect(try agent.state(first.key) == .pending)
        #expect(try agent.record(first.recordName.id.text, "reading") == nil)
        try agent.crash()
        #expect(try agent.store.verify() == [])
        let batch = try agent.claim()
        #expect(batch.map(\.record) == [first.recordName])
        try agent.answer(.accepted(first.key, 9))
        #expect(try agent.state(first.key) == .done)
        #expect(try agent.store.verify() == [])
    }
}
