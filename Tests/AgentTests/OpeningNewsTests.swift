import Agent
import SyncStore
import Testing

/// The work of the agent after the database was opened.
@Suite("News of an opening")
struct OpeningNewsTests {
    @Test("A database that the opening has checked is not checked once more")
    func checkedOnce() async throws {
        let log = HeardLog()
        let stand = try await AgentStand.start { $0.log = log.logger }
        var opening = StoreOpening()
        opening.wasUnclean = true
        await stand.agent.publish(opening)
        let told = log.messages.filter { $0.contains("did not end cleanly") }
        #expect(told == ["the last run did not end cleanly; the database was checked and is intact"])
        try await stand.stop()
    }
}
