import SyncCore
import SyncStore
import Testing

/// Numbers in a damaged database that have no successor and no sum.
@Suite("Counters beyond all counts")
struct CounterDamageTests {
    @Test(
        "They are damage, which the opening tells, and never the end of the program",
        arguments: [
            "next_seq", "next_event", "acked_seq", "enqueued", "mutations",
        ], [Int64.max, (1 << 53) + 1] as [Int64])
    func tooLarge(_ name: String, _ value: Int64) throws {
        let folder = try TemporaryFolder()
        let agent = try TestAgent(in: folder)
        try agent.create("a")
        let raw = try RawDatabase(folder.database)
        // Counters that never moved have no row.
        try raw.rows("DELETE FROM counter WHERE name = '\(name)'")
        try raw.rows("INSERT INTO counter VALUES ('\(name)', 0, 0, 0, 0, \(value))")
        do {
            try agent.crash()
            Issue.record("\(name) = \(value) was taken for a count")
        } catch let error as StoreError {
            #expect(error.code == .corrupt, "\(error)")
        }
    }

    @Test(
        "A number from beside the database that nothing can have reached says nothing about it",
        arguments: [Int64.max, (1 << 53) + 1] as [Int64])
    func marker(_ acknowledged: Int64) throws {
        let agent = try TestAgent()
        try agent.create("a")
        agent.options = agent.options.with(StoreMarker(replica: agent.store.replica, acknowledged: acknowledged))
        try agent.crash()
        #expect(agent.store.opening.lostTail == 0)
        try agent.create("b")
        #expect(try agent.claim().count == 2)
        #expect(try agent.store.verify() == [])
    }
}
