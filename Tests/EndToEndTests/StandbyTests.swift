import Foundation
import Glibc
import LocalAPI
import ProcessStand
import SyncLinux
import Testing

extension EndToEnd {
    /// The real agent behind a socket that the service manager holds, without a configuration to serve with.
    @Suite("Standby")
    struct StandbyTests {
        /// A folder, and the service manager's part: the open socket, the notify socket, and who starts the agent.
        private final class Manager {
            let place: String
            let client: AgentClient
            private let transport: CurlTransport
            private let listener: Int32
            private(set) var readiness: ReadinessSocket?
            private(set) var agent: Child?

            init() throws {
                place = try NewFolder.make("/tmp/edge-standby")
                mkdir("\(place)/agent", 0o700)
                try Stand.write("token\n", to: "\(place)/token")
                chmod("\(place)/token", 0o600)
                transport = try CurlTransport(name: "standby", idleConnections: 1)
                client = AgentClient(transport: transport, socketPath: "\(place)/s")
                listener = FreePorts.socket(AF_UNIX)
                let result = UnixAddress.with("\(place)/s") { bind(listener, $0, $1) }
                guard result == 0, listen(listener, 16) == 0 else { throw StandError("listen: \(String(cString: strerror(errno)))") }
            }

            func end() async {
                await agent?.stop(SIGKILL)
                transport.close()
                close(listener)
                try? FileManager.default.removeItem(atPath: place)
            }

            func write(_ text: String) throws { try Stand.write(text, to: "\(place)/agentd.yaml") }

            var good: String {
                """
                hub: { url: "http://127.0.0.1:9", device: box, token_file: "\(place)/token" }
                socket: { path: "\(place)/s", mode: "0600" }
                access:
                  - { user: "\(geteuid())", role: admin, app: stand }
                store: { path: "\(place)/agent" }

                """
            }

            /// Starts it with the socket as descriptor 3.
            func start() throws -> Child {
                readiness = nil
                let readiness = try ReadinessSocket(path: "\(place)/notify")
                self.readiness = readiness
                let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\""
                let child = try Child(
                    ["/bin/sh", "-c", script, "sh", Programs.agentd, "--config", "\(place)/agentd.yaml"],
                    environment: ["NOTIFY_SOCKET": readiness.path, "STATE_DIRECTORY": "\(place)/agent"], log: "\(place)/log",
                    input: dup(listener))
                agent = child
                return child
            }

            func agentctl(_ arguments: String...) async throws -> Output {
                try await Child.run([Programs.agentctl] + arguments, environment: ["AGENTD_SOCKET": "\(place)/s"], in: place)
            }

            /// An app that connects and waits for an answer.
            func connect() throws -> Int32 {
                let app = FreePorts.socket(AF_UNIX)
                let result = UnixAddress.with("\(place)/s") { Glibc.connect(app, $0, $1) }
                guard result == 0 else { throw StandError("connect: \(String(cString: strerror(errno)))") }
                return app
            }

            var log: String { (try? String(contentsOfFile: "\(place)/log", encoding: .utf8)) ?? "" }
        }

        private func with(_ body: (Manager) async throws -> Void) async throws {
            let manager = try Manager()
            do {
                try await body(manager)
            } catch {
                await manager.end()
                throw error
            }
            await manager.end()
        }

        @Test("Without a configured hub the agent runs and says so to all callers, and restarts as soon as one is configured")
        func unconfigured() async throws {
            try await with { manager in
                try manager.write("# hub:\n#   url: https://hub.example.com\n")
                let agent = try manager.start()
                let readiness = try #require(manager.readiness)
                try await readiness.ready(agent)
                let told = try await manager.agentctl("status")
                #expect(told.status == 2)
                #expect(told.talk.contains("agentd is not configured yet: set hub.url in \(manager.place)/agentd.yaml"), "\(told.talk)")
                #expect(!told.talk.contains("another version"))
                let checked = try await manager.agentctl("config", "check", "\(manager.place)/agentd.yaml")
                #expect(checked.status != 0 && (checked.talk + checked.text).contains("hub.url: is missing"), "\(checked.talk)")
                try manager.write(manager.good)
                // It ends by itself, and the service manager starts it anew: with credentials that came meanwhile.
                #expect(await agent.end() == 0)
                let next = try manager.start()
                try await manager.readiness?.ready(next)
                #expect(try await manager.client.status().value.agent.device == "box")
                #expect(await next.stop() == 0)
            }
        }

        @Test("A mistake at the first start ends it at once where no app asks, with the place of the mistake")
        func firstStart() async throws {
            try await with { manager in
                try manager.write(manager.good + "snyc: {}\n")
                #expect(await (try manager.start()).end() == 78)
                #expect(manager.log.contains("agentd.yaml:6:1: snyc: unknown key (did you mean sync?)"), "\(manager.log)")
            }
        }

        @Test("An app that waits at the socket is told the mistake, and is served when that is mended")
        func asked() async throws {
            try await with { manager in
                try manager.write(manager.good + "snyc: {}\n")
                let app = try manager.connect()
                defer { close(app) }
                let agent = try manager.start()
                let told = try await manager.agentctl("status")
                #expect(told.status == 2)
                #expect(told.talk.contains("the configuration is not accepted") && told.talk.contains(":6:1: snyc"), "\(told.talk)")
                try manager.write(manager.good)
                #expect(await agent.end() == 0)
                let next = try manager.start()
                try await manager.readiness?.ready(next)
                #expect(try await manager.client.status().value.configuration.source == "file")
                #expect(await next.stop() == 0)
            }
        }

        @Test("After one good start a mistake stops no restart: the last good configuration is in force, and status says so")
        func restart() async throws {
            try await with { manager in
                try manager.write(manager.good)
                let first = try manager.start()
                try await manager.readiness?.ready(first)
                #expect(await first.stop() == 0)
                try manager.write(manager.good + "snyc: {}\n")
                let second = try manager.start()
                try await manager.readiness?.ready(second)
                let screen = try await manager.agentctl("status").text
                #expect(screen.contains("last good") && screen.contains("snyc"), "\(screen)")
                #expect(try await manager.client.status().value.overall.reasons.contains("config"))
                try manager.write(manager.good)
                #expect(try await manager.agentctl("config", "reload").status == 0)
                #expect(try await manager.client.status().value.configuration.source == "file")
                #expect(await second.stop() == 0)
            }
        }
    }
}
