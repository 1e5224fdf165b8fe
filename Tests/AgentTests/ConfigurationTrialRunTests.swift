import Agent
import LocalAPI
import NIOCore
import SyncCore
import SyncHTTP
import SyncLinux
import Synchronization
import Testing

@Suite("A new way to the hub in a running agent")
struct ConfigurationTrialRunTests {
    /// The state folder, as far as trials are concerned.
    final class Disk: Sendable {
        private let state = Mutex<(record: JSON?, proven: AgentConfiguration?)>((nil, nil))
        private let waiting = Mutex<Waiting?>(nil)

        private struct Waiting {
            var wanted: @Sendable (AgentConfiguration) -> Bool
            var continuation: CheckedContinuation<Void, Never>
        }

        /// Returns once a configuration like that was reached; `body` brings it about.
        func untilProven(_ wanted: @escaping @Sendable (AgentConfiguration) -> Bool, _ body: @escaping @Sendable () -> Void) async {
            await withCheckedContinuation { continuation in
                waiting.withLock { $0 = Waiting(wanted: wanted, continuation: continuation) }
                body()
            }
        }

        private func keep(_ proven: AgentConfiguration) {
            state.withLock { $0.proven = proven }
            let continuation = waiting.withLock { waiting -> CheckedContinuation<Void, Never>? in
                guard let present = waiting, present.wanted(proven) else { return nil }
                waiting = nil
                return present.continuation
            }
            continuation?.resume()
        }

        var keeper: TrialKeeper {
            TrialKeeper(
                record: { [self] in state.withLock { $0.record } }, keepRecord: { [self] record in state.withLock { $0.record = record } },
                proven: { [self] in state.withLock { $0.proven } }, keepProven: { [self] proven in keep(proven) })
        }

        var provenURL: String? { state.withLock { $0.proven?.hub.url.text } }
    }

    private let disk = Disk()
    /// No hub answers there: the stand's hub is on port 9.
    private static let wrong = "hub: { url: \"http://127.0.0.1:8\" }\n"

    private func start(_ settings: String = "", window: Duration, in folder: String? = nil) async throws -> AgentStand {
        let disk = disk
        return try await AgentStand.start(settings, in: folder) { environment in
            environment.trials = disk.keeper
            environment.trialWindow = window
        }
    }

    private func configuration(_ stand: AgentStand) async throws -> JSONObject {
        try #require(try await stand.send(.get, "/v1/status")["config"]?.object)
    }

    private func url(_ stand: AgentStand) async throws -> String? {
        try await stand.send(.get, "/v1/status")["agent"]?.object?["hub"]?.text
    }

    @Test("One that leads nowhere is taken back with an alarm, also over a restart, until a person asks again")
    func takenBack() async throws {
        // Without any time to answer: the first look ends the trial.
        let stand = try await start(window: .zero)
        try await stand.sync()
        #expect(disk.provenURL == "http://127.0.0.1:9")
        stand.outside.write(Self.wrong)
        #expect(try await stand.send(.post, "/v1/config/reload").status == 200)
        #expect(try await url(stand) == "http://127.0.0.1:9")
        let told = try await configuration(stand)
        #expect(told["source"] == "reverted")
        #expect(told["trial"]?.text?.contains("hub.url") == true)
        #expect(try await stand.send(.get, "/v1/status")["overall"]?.object?["level"] == "attention")
        // It works on.
        #expect(try await stand.sync()["result"] == "ok")
        try await stand.stop(keepingFolder: true)

        let again = try await start(Self.wrong, window: .seconds(3_600), in: stand.folder)
        #expect(try await url(again) == "http://127.0.0.1:9")
        #expect(try await configuration(again)["source"] == "reverted")
        #expect(try await again.sync()["result"] == "ok")
        // Asked for, it is tried again, and by hand it is mended.
        #expect(try await again.send(.post, "/v1/config/reload").status == 200)
        #expect(try await url(again) == "http://127.0.0.1:8")
        #expect(try await configuration(again)["trial"]?.text?.contains("on trial") == true)
        again.outside.write("{}\n")
        #expect(try await again.send(.post, "/v1/config/reload").status == 200)
        #expect(try await configuration(again)["source"] == "file")
        #expect(try await configuration(again)["trial"] == nil)
        try await again.stop()
    }

    @Test("One over which the hub answers is proven by that")
    func proven() async throws {
        let stand = try await start(window: .seconds(3_600))
        try await stand.sync()
        stand.outside.write("links: [{ match: \"wwan*\", metered: true }]\n")
        // The agent asks the hub by itself.
        let agent = stand.agent
        await disk.untilProven({ $0.links.count == 1 }) {
            agent.executor.loop.execute { agent.assumeIsolated { _ = try? $0.reload() } }
        }
        let told = try await configuration(stand)
        #expect(told["trial"] == nil)
        #expect(told["source"] == "file")
        try await stand.stop()
    }

    @Test("Keys that do not concern the way to the hub are never on trial")
    func otherKeys() async throws {
        let stand = try await start(window: .zero)
        try await stand.sync()
        stand.outside.write("sync: { pull_interval: 2h, debounce: 1m }\n")
        #expect(try await stand.send(.post, "/v1/config/reload").status == 200)
        #expect(try await configuration(stand)["source"] == "file")
        try await stand.stop()
    }

    @Test("The first configuration of a box has nothing to go back to, and is kept")
    func first() async throws {
        let stand = try await start(Self.wrong, window: .zero)
        try await stand.sync()
        #expect(try await url(stand) == "http://127.0.0.1:8")
        #expect(try await configuration(stand)["source"] == "file")
        #expect(disk.provenURL == nil)
        try await stand.stop()
    }
}
