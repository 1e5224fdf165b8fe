import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// The agent as the service manager sees it, and its start after a kill.
    @Suite("Supervision")
    struct SupervisionTests {
        @Test("The watchdog is fed, again and again")
        func watchdog() async throws {
            try await Stand.with(agent: false) { stand in
                try await stand.startAgent(watchdog: .milliseconds(300))
                for _ in 0..<3 { try await stand.untilAgentSays("WATCHDOG=1") }
            }
        }

        @Test("After five deaths in a row the apps are served and the sync is paused, until a person resumes it")
        func safeMode() async throws {
            try await Stand.with(agent: false) { stand in
                for _ in 0..<5 {
                    try await stand.startAgent(remembersDeaths: true)
                    await stand.killAgent()
                }
                try await stand.startAgent(remembersDeaths: true)
                let enqueued = try await stand.agentctl("enqueue", "work_orders", "wo-1", "--data", #"{"status":"open"}"#)
                #expect(enqueued.status == 0, "\(enqueued.talk)")
                let screen = try await stand.agentctl("status").text
                #expect(screen.contains("safe mode"), "\(screen)")
                #expect(try await stand.agentctl("sync").talk.contains("paused"))
                let pause = try #require(try await stand.client.status().value.sync.pause)
                #expect(pause.reason == "safe mode: the agent died 5 times in a row")
                #expect(pause.until != nil, "it ends by itself")

                #expect(try await stand.agentctl("resume").status == 0)
                _ = try await stand.settle()
                #expect(try await stand.hubApplied() == 1)

                // A run that ends as asked begins a new count.
                await stand.stopAgent()
                try await stand.startAgent(remembersDeaths: true)
                #expect(try await stand.client.status().value.sync.pause == nil)
            }
        }
    }
}
