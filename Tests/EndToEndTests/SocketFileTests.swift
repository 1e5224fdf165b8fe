import Foundation
import Glibc
import LocalAPI
import ProcessStand
import SyncCore
import Testing

extension EndToEnd {
    /// The socket file, or its folder, is removed while the agent is running.
    @Suite("A socket file that is removed")
    struct SocketFileTests {
        /// An agent that never makes it anew stops the test here: the work of a loaded machine has no number of looks.
        private func untilFound(_ stand: Stand) async throws {
            while access(stand.socketPath, F_OK) != 0 {
                try #require(await stand.isAgentRunning, "the agent has ended")
                await Pause.short()
            }
        }

        @Test("The file is made anew at once, apps go on, and the log and the events tell it")
        func removed() async throws {
            try await Stand.with { stand in
                for number in 1...3 {
                    #expect(unlink(stand.socketPath) == 0)
                    try await untilFound(stand)
                    let added = try await stand.agentctl("enqueue", "work_orders", "wo-\(number)", "--data", "{}")
                    #expect(added.status == 0, "\(added.talk)")
                }
                #expect(try await stand.settle().alarms.isEmpty)
                #expect(try await stand.hubApplied() == 3)
                let log = try String(contentsOfFile: "\(stand.folder)/agent.log", encoding: .utf8)
                #expect(log.contains("socket_removed") && log.contains("was created again"))
                await stand.stopAgent()
                #expect(access(stand.socketPath, F_OK) != 0)
            }
        }
    }
}
