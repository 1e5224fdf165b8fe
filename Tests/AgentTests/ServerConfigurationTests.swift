import Agent
import Foundation
import HubServer
import SyncCore
import SyncYAML
import Testing

/// PROTOCOL A12 at the agent.
@Suite("Settings from the hub")
struct ServerConfigurationTests {
    private static func read(_ json: String, files: String, release: String = "1.0") throws -> LoadedConfiguration {
        let server = try ServerConfiguration(Array(json.utf8), release: AgentRelease(release))
        return try ConfigurationLoader.read(
            [ConfigurationFile(name: "agentd.yaml", contents: .success(Array(files.utf8)))],
            accounts: Accounts(ownUser: 1, user: { _ in nil }, group: { _ in nil }), server: server)
    }

    private static let file = """
        hub: { url: "https://hub.example" }
        sync: { pull_interval: 10s, debounce: 3s }

        """

    @Test("It outranks the files, key by key, and each key tells where it comes from")
    func origins() throws {
        let loaded = try Self.read(
            #"{"version":7,"sync":{"pull_interval":"5m"},"entities":{"audits":{"priority":"bulk"}}}"#, files: Self.file)
        #expect(loaded.configuration.sync.pullInterval == .seconds(300))
        #expect(loaded.configuration.sync.debounce == .seconds(3))
        #expect(loaded.configuration.rules[EntityName(trusted: "audits")]?.priority == .bulk)
        let origins = Dictionary(uniqueKeysWithValues: loaded.settings.map { ($0.key, $0.origin.description) })
        #expect(origins["sync.pull_interval"] == "server")
        #expect(origins["entities.audits.priority"] == "server")
        #expect(origins["sync.debounce"] == "agentd.yaml:2")
        #expect(origins["sync.full_sync"] == "default")
    }

    @Test("A locked key stays as the files say, with all below it", arguments: ["sync.pull_interval", "sync"])
    func locked(_ key: String) throws {
        let loaded = try Self.read(
            #"{"version":7,"sync":{"pull_interval":"5m","debounce":"9s"}}"#, files: Self.file + "locked: [\(key)]\n")
        #expect(loaded.configuration.sync.pullInterval == .seconds(10))
        #expect(loaded.configuration.sync.debounce == (key == "sync" ? .seconds(3) : .seconds(9)))
    }

    @Test(
        "Forbidden keys, and settings that are wrong in themselves or with the files, are refused as a whole",
        arguments: [
            "", "[]", "{}", #"{"version":"1"}"#, #"{"version":1,"hub":{"url":"https://other.example"}}"#,
            #"{"version":1,"access":[]}"#, #"{"version":1,"socket":{"path":"/tmp/x"}}"#, #"{"version":1,"locked":[]}"#,
            #"{"version":1,"sync":{"pull_intervall":"5m"}}"#, #"{"version":1,"sync":{"pull_interval":"5 minutes"}}"#,
            #"{"version":1,"entities":{"a":{"refs":{"x":"b"}},"b":{"refs":{"y":"a"}}}}"#,
            #"{"version":1,"entities":{"a":{"schema":{"properties":{"f":{"pattern":"("}}}}}}"#,
            #"{"version":1,"entities":{"a":{"min_agent":"soon"}}}"#,
            #"{"version":1,"links":[{"match":"wwan*","recover":"/bin/true"}]}"#,
            #"{"version":1,"links":[{"match":"eth*"},{"match":"wwan*","recover":"/bin/true","recover_after":"5m"}]}"#,
        ])
    func refused(_ json: String) {
        #expect(throws: ConfigurationErrors.self) { try Self.read(json, files: Self.file) }
    }

    @Test(
        "An entity for a newer agent is mirrored and not changed here, whatever its rules say", arguments: [("1.9", false), ("2.0", true)])
    func minAgent(_ release: String, _ isUnderstood: Bool) throws {
        let json = #"{"version":1,"entities":{"a":{"min_agent":"2.0","priority":"bulk"\#(isUnderstood ? "" : #","new_thing":1"#)}}}"#
        let rules = try Self.read(json, files: Self.file, release: release).configuration.rules[EntityName(trusted: "a")]
        #expect(rules?.kind == (isUnderstood ? .record : .reference))
    }

    @Test("The agent reads the rules that a hub writes from its own file as the same rules")
    func roundTrip() throws {
        let yaml = """
            strict_entities: true
            entities:
              sites: { kind: reference }
              answers:
                refs: { site: sites }
                priority: critical
                fields: { notes: append, finding: manual }
                on_deleted: manual
                retention: 30d
                coalesce: false
                rank: 4
                validate: reject
                schema:
                  required: [value]
                  properties: { value: { enum: [pass, fail, null] }, code: { pattern: "^[a-z]+$" } }
              readings: { kind: event, ttl: 14d, when_full: drop_oldest, durability: relaxed }

            """
        let rules = try EntitySettings.readEntities(ConfigurationFile(name: "e.yaml", contents: .success(Array(yaml.utf8))))
        let config = HubConfiguration(EntitySettings.written(rules))
        let loaded = try Self.read(String(decoding: config.body, as: UTF8.self), files: Self.file)
        #expect(loaded.configuration.rules == rules)
    }

    // MARK: - In a running agent

    private static let offer: JSONObject = [
        "entities": [
            "forms": ["kind": "reference"],
            "answers": [
                "priority": "bulk", "validate": "reject",
                "schema": ["required": ["value"], "properties": ["value": ["enum": ["pass", "fail"]]]],
            ],
        ]
    ]

    /// Asks for cycles until the agent works by what the hub says, or names what is wrong.
    private func waitForConfig(_ stand: AgentStand, _ isThere: (AgentStand.Answer) -> Bool) async throws -> AgentStand.Answer {
        for _ in 0..<100 {
            try await stand.sync()
            let answer = try await stand.send(.get, "/v1/config")
            if isThere(answer) { return answer }
        }
        throw Broken()
    }

    private struct Broken: Error {}

    @Test("It is fetched, in force, kept over a restart, and not fetched again")
    func inForce() async throws {
        let stand = try await AgentStand.start()
        stand.hub.offer(Self.offer)
        let config = try await waitForConfig(stand) { $0.text.contains("\"origin\":\"server\"") }
        #expect(config["values"]?.object?["entities.answers.priority"]?.object?["value"]?.text == "bulk" || config.text.contains("bulk"))
        let wrong = try await stand.send(.post, "/v1/mutations", #"{"entity":"answers","action":"create","data":{"value":"maybe"}}"#)
        #expect(wrong.status == 422 && wrong.code == "validation")
        #expect(wrong["errors"]?.array?.first?.object?["pointer"]?.text == "/data/value")
        let form = try await stand.send(.post, "/v1/mutations", #"{"entity":"forms","action":"create","data":{}}"#)
        #expect(form.status == 422)
        _ = try await stand.enqueue(#"{"entity":"answers","action":"create","data":{"value":"pass"}}"#)
        try await stand.sync()
        let fetched = stand.hub.requests.filter { $0.url.hasSuffix("/v1/config") }
        #expect(fetched.count == 1)
        let version = HubConfiguration(Self.offer).version
        #expect(stand.hub.requests.last?.headers[HubHeader.config] == String(version))
        // The abilities of the agent decide what the hub shows it, so each request that reads names them.
        for request in stand.hub.requests where request.url.contains("/v1/sync/") {
            let isRead = ["hello", "pull", "snapshot", "verify"].contains { request.url.contains("/v1/sync/\($0)") }
            #expect(request.headers[HubHeader.can] == (isRead ? "revocations" : nil), "\(request.url)")
        }
        // The facts about the device for the hub's operator come with the greeting and with each push.
        for path in ["/v1/sync/hello", "/v1/sync/push"] {
            let request = try #require(stand.hub.requests.last { $0.url.hasSuffix(path) })
            guard case .bytes(let body) = request.body else { throw Broken() }
            #expect(try JSONReader.read(body).object?["config"]?.int == version, "\(path)")
        }
        let hub = stand.hub, folder = stand.folder
        try await stand.stop(keepingFolder: true)

        hub.weather = .gone
        let again = try await AgentStand.start(hub: hub, in: folder)
        let after = try await again.send(.get, "/v1/status")
        #expect(after.status == 200)
        let kept = try await again.send(.post, "/v1/mutations", #"{"entity":"answers","action":"create","data":{"value":"maybe"}}"#)
        #expect(kept.status == 422)
        try await again.stop()
    }

    @Test("Bad settings leave the old ones in force, are reported, and are not asked for again and again")
    func rejected() async throws {
        let stand = try await AgentStand.start()
        stand.hub.offer(Self.offer)
        _ = try await waitForConfig(stand) { $0.text.contains("\"origin\":\"server\"") }
        stand.hub.offer(["entities": ["answers": ["priority": "most urgent"]]])
        var status = try await stand.send(.get, "/v1/status")
        for _ in 0..<100 where !status.text.contains("most urgent") {
            try await stand.sync()
            status = try await stand.send(.get, "/v1/status")
        }
        #expect(status.text.contains("answers.priority") && status.text.contains("most urgent"))
        let asked = stand.hub.requests.filter { $0.url.hasSuffix("/v1/config") }.count
        for _ in 0..<5 { try await stand.sync() }
        #expect(stand.hub.requests.filter { $0.url.hasSuffix("/v1/config") }.count == asked)
        let wrong = try await stand.send(.post, "/v1/mutations", #"{"entity":"answers","action":"create","data":{"value":"maybe"}}"#)
        #expect(wrong.status == 422)
        try await stand.stop()
    }

    @Test("A warning is an answer, not a refusal")
    func warns() async throws {
        let stand = try await AgentStand.start("entities: { answers: { schema: { properties: { value: { type: string } } } } }\n")
        let answer = try await stand.send(.post, "/v1/mutations", #"{"entity":"answers","action":"create","data":{"value":5}}"#)
        #expect(answer.status == 201)
        #expect(answer["warnings"]?.array?.first?.object?["pointer"]?.text == "/data/value")
        try await stand.stop()
    }
}
