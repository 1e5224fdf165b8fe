import Glibc
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    @Suite("Signals")
    struct SignalTests {
        /// Becomes the agent. Beside it, a shell waits until the agent has blocked SIGHUP (bit 0 of `SigBlk`), which is its first act. The
        /// shell then sends SIGHUP again and again until the agent serves. It gives up when the agent would get the signal without the
        /// block. The shell is no child of the agent, which would not collect it.
        private static let earlyHangUps = [
            "/bin/sh", "-c",
            """
            me=$$
            ( (
                while kill -0 $me; do
                    grep -q '^SigCgt:.*[13579bdf]$' /proc/$me/status && exit
                    grep -q '^SigBlk:.*[13579bdf]$' /proc/$me/status && break
                done
                until grep -q '^SigCgt:.*[13579bdf]$' /proc/$me/status; do kill -HUP $me || exit; done
            ) 2>/dev/null & )
            exec "$@"
            """, "sh",
        ]

        @Test("SIGHUP before the agent listens to it does not end the agent, and is one reload when it serves")
        func early() async throws {
            try await Stand.with(agent: false) { stand in
                try await stand.startAgent(wrapper: Self.earlyHangUps)
                try await stand.untilAgentSays("RELOADING=1")
                try await stand.untilAgentSays("READY=1")
                #expect(try await stand.agentctl("status").status == 0)
            }
        }

        @Test("Under a flood of SIGHUP apps are answered, and SIGTERM still stops the agent in good order")
        func flood() async throws {
            try await Stand.with { stand in
                let agent = try #require(await stand.agentProcess)
                let flood = try Child(
                    ["/bin/sh", "-c", "while kill -HUP \(agent); do :; done"], log: "/dev/null")
                for index in 0..<50 {
                    let answer = try await stand.agentctl("enqueue", "work_orders", "wo-\(index)", "--data", "{}")
                    #expect(answer.status == 0, "\(answer.talk)")
                }
                kill(agent, SIGTERM)
                // The flood ends when there is no process any more that it could be sent to.
                _ = await flood.end()
                try await stand.startAgent()
                #expect(try await stand.client.status().value.outbox.enqueued == 50)
            }
        }

        @Test("Agent and hub end in good order however often SIGTERM comes while they end")
        func repeatedSignalsEndProgramsInGoodOrder() async throws {
            try await Stand.with { stand in
                _ = try await stand.agentctl("enqueue", "work_orders", "wo-1", "--data", "{}")
                for isAgent in [true, false] {
                    let pid = try #require(isAgent ? await stand.agentProcess : await stand.hubProcess)
                    // To the last moment, and thousands of times a second. It ends with the process that it is sent to.
                    let flood = try Child(["/bin/sh", "-c", "while kill -TERM \(pid); do :; done"], log: "/dev/null")
                    let status = isAgent ? await stand.stopAgent() : await stand.stopHub()
                    _ = await flood.end()
                    #expect(status == 0, "\(isAgent ? "agent" : "hub")")
                }
            }
        }
    }
}
