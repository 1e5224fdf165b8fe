import Agent
import Logging
import SyncStore
import Synchronization
import Testing

/// The work of the agent after the database was opened.
@Suite("News of an opening")
struct OpeningNewsTests {
    private final class Lines: Sendable {
        let all = Mutex<[String]>([])
    }

    private struct Handler: LogHandler {
        let lines: Lines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let message = "\(event.message)"
            lines.all.withLock { $0.append(message) }
        }
    }

    @Test("A database that the opening has checked is not checked once more")
    func checkedOnce() async throws {
        let lines = Lines()
        let stand = try await AgentStand.start { $0.log = Logger(label: "test", factory: { _ in Handler(lines: lines) }) }
        var opening = StoreOpening()
        opening.wasUnclean = true
        await stand.agent.publish(opening)
        let told = lines.all.withLock { $0 }.filter { $0.contains("did not end cleanly") }
        #expect(told == ["the last run did not end cleanly; the database was checked and is intact"])
        try await stand.stop()
    }
}
