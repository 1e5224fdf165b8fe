import Agent
import LocalAPI
import SyncCore
import SyncYAML
import Testing

/// The outcome of each mistake in the configuration, at the first start, at a restart and at a reload.
struct ConfigurationStartTests {
    private static let hub = "hub: { url: https://hub.example.com }\n"
    private static let nothing = ConfigurationFile(
        name: "last-good.yaml", contents: .failure(ConfigurationError(file: "last-good.yaml", problem: "no such file")))

    /// Whole main files.
    private static let mistakes =
        ConfigurationMistakes.rows.map { hub + $0.text + "\n" }
        + ConfigurationMistakes.hubKeys.map { "hub:\n  url: https://hub.example.com\n  \($0.0)\n" }
        + ConfigurationMistakes.addresses.map { "hub:\n  url: \($0.0)\n" }
        + ["", "\u{0}\u{0}", "hub: { url: https://h", "hub: [\n}\n", "- a\n", "hub: https://h\n", "\tx: 1\n"]

    private static func start(_ text: String, lastGood: ConfigurationFile = nothing) -> ConfigurationStart {
        .decide(files: [ConfigurationFile(name: "agentd.yaml", text: text)], lastGood: lastGood, accounts: ConfigurationFixtures.accounts)
    }

    private static func standby(_ start: ConfigurationStart, isActivated: Bool = true, isAsked: Bool = true) -> ConfigurationStandby? {
        ConfigurationStandby(start, isActivated: isActivated, isAsked: isAsked, config: "/etc/agentd/agentd.yaml")
    }

    @Test("There are many mistakes to try")
    func count() { #expect(Self.mistakes.count >= 140) }

    @Test("At the first start each one is refused with its place; for half a minute every app that asks gets this answer")
    func first() throws {
        for text in Self.mistakes {
            let start = Self.start(text)
            guard case .refused(let errors) = start else {
                Issue.record("\(text): \(start)")
                continue
            }
            #expect(errors.errors.allSatisfy { $0.line > 0 && $0.column > 0 }, "\(errors)")
            #expect(Self.standby(start, isAsked: false) == nil, "nobody asks: the start fails at once")
            #expect(Self.standby(start, isActivated: false) == nil, "a person has started it by hand")
            let standby = try #require(Self.standby(start))
            #expect(!standby.isStarted && standby.patience == .seconds(30))
            #expect(standby.problem.status == 503 && standby.problem.code == "not-configured")
            #expect(standby.problem.detail.hasPrefix("the configuration is not accepted: agentd.yaml:"), "\(standby.problem.detail)")
        }
    }

    @Test("At a restart the last good configuration is in force, whatever the mistake")
    func restart() throws {
        let good = try ConfigurationFixtures.defaults()
        let kept = ConfigurationFile(name: "last-good.yaml", text: LastGoodConfiguration.text(good))
        for text in Self.mistakes {
            let start = Self.start(text, lastGood: kept)
            guard case .lastGood(let loaded, let errors) = start else {
                Issue.record("\(text): \(start)")
                continue
            }
            #expect(loaded.configuration == good)
            #expect(errors.errors.allSatisfy { $0.file == "agentd.yaml" && $0.line > 0 && $0.column > 0 }, "\(errors)")
            #expect(Self.standby(start) == nil)
        }
    }

    @Test("At a reload the present configuration stays in force and status says what is wrong, whatever the mistake")
    func reload() async throws {
        let stand = try await AgentStand.start()
        for text in Self.mistakes {
            // The stand writes into conf.d: its main file has the hub.
            stand.outside.write(text)
            let answer = try await stand.send(.post, "/v1/config/reload")
            guard answer.status == 422 else {
                // Here each of the two files may name the hub, so a few of the mistakes are none.
                #expect(answer.status == 200 && text.hasPrefix("hub:"), "\(answer.status) for \(text)")
                continue
            }
            let status = try await stand.send(.get, "/v1/status")
            #expect(status["config"]?.object?["error"]?.text?.hasPrefix("conf.d/test.yaml:") == true, "\(text)")
            #expect(status["overall"]?.object?["reasons"]?.array?.contains("config") == true)
        }
        let enqueued = try await stand.send(
            .post, "/v1/mutations", #"{"entity":"work_orders","action":"create","data":{"n":1}}"#)
        #expect(enqueued.status == 201)
        stand.outside.write("{}\n")
        #expect(try await stand.send(.post, "/v1/config/reload").status == 200)
        #expect(try await stand.send(.get, "/v1/status")["config"]?.object?["error"] == nil)
        try await stand.stop()
    }

    @Test(
        "Where only the hub is missing the agent waits to be configured: the start succeeds, and apps are told what to do",
        arguments: ["# nothing\n", "hub:\n", "hub: {}\n", "hub:\n  device: box\n", "log: { level: debug }\n"])
    func unconfigured(_ text: String) throws {
        let start = Self.start(text)
        guard case .unconfigured = start else {
            Issue.record("\(start)")
            return
        }
        for isAsked in [true, false] {
            let standby = try #require(Self.standby(start, isAsked: isAsked))
            #expect(standby.isStarted && standby.patience == nil)
            #expect(
                standby.problem.detail
                    == "agentd is not configured yet: set hub.url in /etc/agentd/agentd.yaml (or, as root: agentctl join URL TOKEN)")
        }
        #expect(Self.standby(start, isActivated: false) == nil)
    }

    @Test(
        "With another mistake beside it, that is a mistake",
        arguments: ["lgo: {}\n", "hub:\n  devise: box\n", "hub:\n  url:\n  device: \"\"\n"])
    func notOnly(_ text: String) {
        if case .refused = Self.start(text) {} else { Issue.record("\(Self.start(text))") }
    }

    @Test("With a configuration there is nothing to wait for")
    func loaded() {
        let start = Self.start(Self.hub)
        if case .loaded = start {} else { Issue.record("\(start)") }
        #expect(Self.standby(start) == nil)
    }
}
