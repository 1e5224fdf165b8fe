import Foundation
import LocalAPI
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// Months of an agent and its hub, with the real programs. A preload moves all clocks of both together.
    @Suite("A year")
    struct YearTests {
        private static func days(_ count: Int64) -> Duration { .seconds(count * 86_400) }

        @Test(
            "In a year of work, an outage of a month, 40 days without power, a suspend and a wrong clock nothing is lost, nothing stops and nothing grows"
        )
        func year() async throws {
            try await Stand.with(hub: false, agent: false) { stand in
                let gateway = try ClockWarp("\(stand.folder)/gateway.clock"), server = try ClockWarp("\(stand.folder)/server.clock")
                await stand.setEnvironment(agent: gateway.environment, hub: server.environment)
                await stand.setHubArguments(["--token-days", "30"])
                try await stand.startHub()
                try await giveToken(stand)
                try await stand.startAgent()
                func pass(_ time: Duration) {
                    // An idle connection of a test would be closed by the agent at the very moment at which it is used.
                    stand.transport.closeIdleConnections()
                    gateway.pass(time)
                    server.pass(time)
                }
                var year = Year(stand)

                for _ in 0..<90 {
                    pass(Self.days(1))
                    try await year.work()
                }
                // The hub is away for a month. Mutations without a deadline wait; the one with a deadline of ten days has expired.
                await stand.freezeHub()
                // A mutation in flight may have arrived, so the agent asks about it however old it is. Nothing else is sent before that.
                year.expected.insert(try await year.enqueue())
                _ = try await stand.until("a mutation under way") { $0.outbox.count(.inFlight) == 1 }
                await stand.killHub()
                #expect(try await stand.sync() != "ok")
                _ = try await year.enqueue(ttl: Self.days(10))
                for _ in 0..<30 {
                    pass(Self.days(1))
                    year.expected.insert(try await year.enqueue())
                }
                let away = try await stand.client.status().value
                // A probe that was under way when the last day passed brought no outcome.
                #expect(["no_connection", "timeout"].contains(away.cause?.code) && away.outbox.open >= 30, "\(away)")
                try await stand.startHub()
                try await year.settle()
                #expect(try await stand.client.status().value.outbox.count(.expired) == 1)

                // No power for longer than the token lives: the device lets itself in again.
                for _ in 0..<30 {
                    pass(Self.days(1))
                    try await year.work()
                }
                await stand.stopAgent()
                pass(Self.days(40))
                try await stand.startAgent()
                try await year.work()

                // The machine sleeps for ten days, and that does not count as a cycle that stood still.
                stand.transport.closeIdleConnections()
                gateway.suspend(Self.days(10))
                server.pass(Self.days(10))
                try await year.work()
                #expect(try await stand.client.status().value.sync.stalls == 0)

                // The clock of the gateway is back in 1970 and not synchronized. Work goes on, and its age is known.
                let back = Self.days(56 * 365)
                gateway.step(.zero - back, isSynchronised: false)
                try await year.work(isWell: false)
                pass(Self.days(3))
                try await year.work(isWell: false)
                gateway.step(back, isSynchronised: true)
                for _ in 0..<165 {
                    pass(Self.days(1))
                    try await year.work()
                }
                try await year.judge()
            }
        }

        /// One that ends after 30 days, as the hub gives them.
        private func giveToken(_ stand: Stand) async throws {
            let output = try await Child.run(
                [Programs.agenthub, "token", "add", Stand.device, "--days", "30", "--data", "\(stand.folder)/hub"], in: stand.folder)
            try #require(output.status == 0, "\(output.talk)")
            try Data(output.text.utf8).write(to: URL(fileURLWithPath: "\(stand.folder)/token"))
            chmod("\(stand.folder)/token", 0o600)
        }

        /// The actions of an app, and the answers to them.
        private struct Year {
            let stand: Stand
            var expected: Set<String> = []
            private var bytes: [Int64] = []

            init(_ stand: Stand) { self.stand = stand }

            /// - Parameter isAwaited: Until it is at the hub.
            func enqueue(ttl: Duration? = nil, isAwaited: Bool = false) async throws -> String {
                let life = ttl.map { ",\"ttl\":\($0.components.seconds)" } ?? ""
                let body =
                    #"{"entity":"readings","action":"create","priority":"\#(ttl == nil ? "critical" : "normal")","data":{"text":"some words of a reading"}\#(life)}"#
                let request = HTTPRequest(
                    .post, "http://localhost/v1/mutations" + (isAwaited ? "?wait=acked&timeout=60" : ""),
                    headers: ["Content-Type": "application/json"], body: .bytes(Array(body.utf8)),
                    socketPath: stand.socketPath)
                let answer = String(decoding: try await stand.transport.send(request).body, as: UTF8.self)
                return try #require(try JSONReader.read(answer).object?["id"]?.text, "\(answer)")
            }

            /// One change, which must be at the hub soon, and a look at what the agent says of itself.
            mutating func work(isWell: Bool = true) async throws {
                let id = try await enqueue(isAwaited: true)
                expected.insert(id)
                #expect(try await stand.client.mutation(MutationKey(trusted: id)).value.state == "done")
                let status = try await stand.client.status().value
                #expect(status.outbox.isBalanced && status.outbox.open == 0)
                if isWell {
                    #expect(status.overall.level == .ok, "\(status.overall.reasons) \(status.alarms) \(String(describing: status.cause))")
                }
                bytes.append(status.database.bytes)
            }

            func settle() async throws {
                let status = try await stand.settle()
                #expect(status.outbox.isBalanced)
            }

            func judge() async throws {
                let exported = try await stand.hubRecords("readings")
                #expect(exported.count == expected.count, "each change once at the hub, and none besides")
                #expect(try await stand.hubApplied() == Int64(expected.count))
                // Settled mutations are forgotten after their time: a database that grew with each year would fill the flash in the end.
                let early = try #require(bytes.prefix(30).max()), late = try #require(bytes.last)
                #expect(late <= early * 2, "\(bytes)")
                let expiry = try await stand.client.checklist().value.findings.first { $0.id == "token_expiry" }
                #expect(expiry?.severity == .ok, "\(String(describing: expiry))")
            }
        }
    }
}
