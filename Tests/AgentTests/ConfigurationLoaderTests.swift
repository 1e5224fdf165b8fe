import Agent
import Foundation
import LocalAPI
import SyncCore
import SyncYAML
import Testing

struct ConfigurationLoaderTests {
    @Test(
        "Each key is refused with file, line, column, key, value and what was expected",
        arguments: ConfigurationMistakes.rows)
    func mistakes(_ row: ConfigurationMistakes.Row) {
        let text = "hub: { url: https://hub.example.com }\n" + row.text + "\n"
        #expect(ConfigurationFixtures.errors(text) == row.messages.map { "agentd.yaml:" + $0 })
    }

    @Test("The hub's address is refused with the reason", arguments: ConfigurationMistakes.addresses)
    func addresses(address: String, reason: String) {
        let errors = ConfigurationFixtures.errors("hub:\n  url: " + address + "\n")
        #expect(errors == ["agentd.yaml:2:8: hub.url: " + reason])
        #expect(!errors.joined().contains("hunter2"), "a password must not show")
    }

    @Test(
        "Each key of the hub is refused with its reason, and what may be a secret is not shown",
        arguments: ConfigurationMistakes.hubKeys)
    func hubKeys(line: String, message: String) {
        let errors = ConfigurationFixtures.errors("hub:\n  url: https://hub.example.com\n  " + line + "\n")
        #expect(errors == ["agentd.yaml:" + message])
        #expect(!errors.joined().contains("hunter2"))
    }

    @Test(
        "Without a hub the message names the key, at the place where it belongs",
        arguments: [
            ("# nothing\n", "1:1"), ("log: {}\n", "1:1"), ("log: {}\nhub:\n", "1:1"),
            ("log: {}\nhub:\n  device: x\n", "3:3"),
        ])
    func noHub(text: String, place: String) {
        #expect(
            ConfigurationFixtures.errors(text)
                == ["agentd.yaml:\(place): hub.url: is missing, expected https://HOST or https://HOST:PORT"])
    }

    @Test("All mistakes of all files come in one run, each once, in the order of the files")
    func allMistakes() {
        let errors = ConfigurationFixtures.errors([
            ConfigurationFile(
                name: "main", text: "hub: {url: https://h, devise: x}\nsync: {debounce: 9}\npower: {low: 40%}\n"),
            ConfigurationFile(name: "10", text: "sync: {debounce: 1s}\nlgo: {}\n"),
            ConfigurationFile(name: "20", text: "log: {level: info}\nlog: {}\n"),
        ])
        #expect(
            errors == [
                "main:1:23: hub.devise: unknown key (did you mean device?)",
                "main:2:18: sync.debounce: 9 is not accepted, expected a duration from 0s to 60s, such as 500ms, 30s, 5m, 24h or 7d",
                "10:2:1: lgo: unknown key (did you mean log?)",
                "20:2:1: the key log is given twice, expected it only in line 1",
                "main:3:14: power.low: leaves no room: low 40% and margin 3% together are more than saver 30%",
            ])
    }

    @Test("While a file cannot be read, nothing is called missing or contradictory: it may stand there")
    func unreadable() {
        let errors = ConfigurationFixtures.errors([
            ConfigurationFile(name: "main", text: "power: {low: 40%}\nlog: {level: loud}\n"),
            ConfigurationFile(name: "10", text: ""),
        ])
        #expect(
            errors.count == 2 && errors[0].hasPrefix("main:2:14: log.level: loud")
                && errors[1] == "10:1:1: the file is empty")
    }

    @Test("Later files win key by key, lists are replaced, and what is left empty changes nothing")
    func layers() throws {
        let loaded = try ConfigurationFixtures.loaded([
            ConfigurationFile(
                name: "main",
                text: """
                    hub: { url: https://a, device: one }
                    sync: { debounce: 1s, windows: ["22:00-05:00"] }
                    links: [{ match: eth0 }, { match: wlan0 }]
                    entities:
                      readings: { kind: event, ttl: 1d }
                      sites: { kind: reference }

                    """),
            ConfigurationFile(
                name: "10",
                text: """
                    hub:
                      url: https://b
                    sync: { debounce: 2s, windows: }
                    links: [{ match: "wwan*" }]
                    entities: { readings: { ttl: 2d }, sites: }
                    access:

                    """),
            ConfigurationFile(name: "20", text: "sync: { debounce: 3s }\nhub:\n"),
        ])
        let configuration = loaded.configuration
        #expect(configuration.hub.url.text == "https://b")
        #expect(configuration.hub.device?.text == "one")
        #expect(configuration.sync.debounce == .seconds(3))
        #expect(configuration.sync.windows.map(\.text) == ["22:00-05:00"])
        #expect(configuration.links.map(\.match.text) == ["wwan*"])
        let readings = try #require(EntityName("readings").flatMap { configuration.rules.entities[$0] })
        #expect(readings.kind == .event && readings.ttl == .seconds(2 * 86_400))
        #expect(configuration.rules.entities.count == 2)
        #expect(configuration.access == .standard(ConfigurationFixtures.accounts))
        #expect(loaded.files == ["main", "10", "20"])

        let origins = Dictionary(uniqueKeysWithValues: loaded.settings.map { ($0.key, $0.origin.description) })
        #expect(origins["hub.url"] == "10:2")
        #expect(origins["hub.device"] == "main:1")
        #expect(origins["sync.debounce"] == "20:1")
        #expect(origins["sync.windows"] == "main:2")
        #expect(origins["sync.pull_interval"] == "default")
        #expect(origins["links"] == "10:4")
        #expect(origins["entities.readings.ttl"] == "10:5")
        #expect(origins["entities.readings.kind"] == "main:5")
        #expect(origins["entities.sites.kind"] == "main:6")
        #expect(origins["access"] == "default")
    }

    @Test("A contradiction is found across files, at the key that was read last")
    func acrossFiles() {
        let errors = ConfigurationFixtures.errors([
            ConfigurationFile(name: "main", text: "hub: {url: https://h}\nentities: {a: {kind: event}}\nhub_: 1\n"),
            ConfigurationFile(name: "10", text: "entities: {a: {fields: {x: lww}}}\n"),
        ])
        #expect(
            errors == [
                "main:3:1: hub_: unknown key (did you mean hub?)",
                "10:1:24: entities.a.fields: a mapping is not accepted, expected it only for a record: events are never merged",
            ])
    }

    @Test("A mistake is one although a later file overrides it")
    func overridden() {
        let errors = ConfigurationFixtures.errors([
            ConfigurationFile(name: "main", text: "hub: {url: https://h}\nlog: {level: loud}\n"),
            ConfigurationFile(name: "10", text: "log: {level: debug}\n"),
        ])
        #expect(errors.count == 1 && errors[0].hasPrefix("main:2:14: log.level: loud"))
    }

    @Test("Every key reaches its place in the value")
    func allKeys() throws {
        let loaded = try ConfigurationFixtures.loaded([
            ConfigurationFile(name: "all", text: ConfigurationMistakes.everyKey)
        ])
        let configuration = loaded.configuration
        var expected = AgentConfiguration(
            hub: try ServiceURL("http://127.0.0.1:8080/sync"), accounts: ConfigurationFixtures.accounts)
        expected.hub.device = DeviceID("pump-17")
        expected.hub.tokenFile = "/etc/agentd/token"
        expected.hub.caFile = "/etc/agentd/ca"
        expected.hub.clientCertificateFile = "/etc/agentd/crt"
        expected.hub.clientKeyFile = "/etc/agentd/key"
        expected.hub.proxy = try ServiceURL("http://proxy:3128")
        expected.hub.proxyCredentialsFile = "/etc/agentd/proxy"
        expected.hub.noProxy = try ["example.org", "10.0.0.0/8"].map { try #require(HTTPProxy.Exception($0)) }
        expected.hub.pin = "sha256//" + String(repeating: "A", count: 43) + "="
        expected.socket.path = "/tmp/agent.sock"
        expected.socket.group = Account(name: "inspectors", id: 901)
        expected.socket.mode = 0o600
        var rule = AccessRule(.group(Account(name: "inspectors", id: 901)), .enqueue)
        rule.entities = Set(["audits"].compactMap { EntityName($0) })
        rule.maxPriority = .normal
        rule.app = AppName("inspector")
        rule.requestsPerSecond = 50
        rule.quotaMutations = 20_000
        expected.access = AccessRules([rule, AccessRule(.user(Account(name: "1234", id: 1_234)), .admin)])
        expected.store.path = "/data/agentd"
        expected.store.maxSizeBytes = 8_000_000
        expected.store.minFreeBytes = 1_000_000
        expected.store.ballastBytes = 0
        expected.store.maxMutations = 1_000_000
        var audits = EntityRules()
        audits.priority = .critical
        expected.rules = RuleBook([EntityName(trusted: "audits"): audits], isStrict: true)
        expected.sync.pullInterval = .seconds(1)
        expected.sync.meteredPullInterval = .seconds(3_600)
        expected.sync.debounce = .zero
        expected.sync.maxBackoff = .seconds(600)
        expected.sync.fullSync = .seconds(30 * 86_400)
        expected.sync.compressOverBytes = 0
        expected.sync.windowsHold = .all
        expected.sync.waitForNews = .never
        expected.sync.windows = ["sat,sun 00:00-24:00", "22:00-05:00"].compactMap { TimeWindow($0) }
        expected.probe.url = try ServiceURL("http://probe.example.com/x")
        expected.probe.interval = .seconds(60)
        expected.probe.timeout = .milliseconds(500)
        var link = LinkRule(match: try #require(InterfacePattern("wwan*")))
        link.metered = true
        var budget = LinkBudget()
        budget.dayBytes = 20_000_000
        budget.monthBytes = 500_000_000
        budget.anchorDay = 28
        link.budget = budget
        link.bytesPerSecond = 256_000
        link.prefer = 10
        (link.recover, link.recoverAfter, link.recoverEvery) = ("/usr/local/sbin/reset-modem", .seconds(300), .seconds(7_200))
        expected.links = [link]
        expected.power.lowPercent = 10
        expected.power.saverPercent = 20
        expected.power.marginPercent = 10
        expected.power.allowsCritical = true
        expected.power.sysfsRoot = "/tmp/sys"
        expected.metered.maxAge = .seconds(60)
        expected.metered.filesMaxAge = .seconds(90 * 86_400)
        expected.blobs.largeBytes = 0
        expected.blobs.concurrent = 8
        expected.blobs.attempts = 1
        expected.blobs.maxSizeBytes = 2_147_483_648
        expected.blobs.fetchMaxSizeBytes = 1_000_000
        expected.blobs.uploadURL = try ServiceURL("https://files.example.com/tus")
        expected.blobs.verify = .download
        expected.blobs.gate = .before
        expected.blobs.quotaBytes = 1_000_000
        expected.blobs.keptFor = .seconds(60)
        expected.blobs.importDirectories = ["/srv/photos"]
        expected.log.level = .trace
        expected.log.format = .json
        expected.locked = ["sync.pull_interval"]
        let rest = try #require(configuration.rest)
        expected.rest = rest
        #expect(configuration == expected)
        #expect(rest.baseURL == "https://api.example.org" && rest.probe == "/healthz" && rest.verifyAfter == .seconds(60))
        #expect(rest.headers == ["X-Api-Key": .init(file: "api_key", prefix: "Key "), "Accept-Language": .init(text: "de")])
        #expect(rest.idempotency == .init(header: "X-Request-Id", isQuoted: true, window: .seconds(7 * 86_400)))
        #expect(rest.notApplied == [503, 507])
        let mapped = try #require(rest.entities[EntityName(trusted: "audits")])
        #expect(mapped.create?.method == .put && mapped.create?.ok == [201] && mapped.create?.id == .header("Location"))
        #expect(mapped.update?.ifMatch == true && mapped.update?.body == .document && mapped.delete?.method == .post)
        #expect(mapped.list?.limit == 1_000 && mapped.list?.overlap == .seconds(1) && mapped.list?.cursorFrom?.text == "$.data[*].at:max")
        #expect(
            mapped.id.text == "$.uuid" && mapped.clientID == "ref" && mapped.fields == ["notes": "remarks"] && mapped.readOnly == ["at"])
        #expect(
            mapped.lookup?.path.text == "/audits?ref={id}" && mapped.read?.document.text == "$.data"
                && mapped.idempotency == RestEntity.OwnIdempotency.none)
        // Nothing of the file is without effect: each key was read from it, none is a default.
        #expect(
            loaded.settings.filter { $0.origin == .standard }.map(\.key).sorted() == [
                "entities.audits.accepts", "entities.audits.app_schema", "entities.audits.coalesce", "entities.audits.complete",
                "entities.audits.critical_fields", "entities.audits.durability",
                "entities.audits.fields", "entities.audits.files", "entities.audits.form", "entities.audits.history",
                "entities.audits.index",
                "entities.audits.keep",
                "entities.audits.kind", "entities.audits.max_len",
                "entities.audits.min_agent", "entities.audits.on_deleted", "entities.audits.rank", "entities.audits.refs",
                "entities.audits.retention", "entities.audits.schema", "entities.audits.scope", "entities.audits.seed_filter",
                "entities.audits.strategy", "entities.audits.ttl", "entities.audits.undo", "entities.audits.validate",
                "entities.audits.versions", "entities.audits.when_full", "entities.audits.write",
            ])
    }

    @Test("The listing shows values as they would be written, with their origin")
    func listing() throws {
        let loaded = try ConfigurationFixtures.loaded([
            ConfigurationFile(
                name: "/etc/agentd.yaml",
                text: "hub:\n  url: https://h\nentities: {a.b: {kind: event}}\nlinks: [{match: eth0}]\n")
        ])
        let json = try #require(EffectiveSetting.json(loaded.settings).object)
        #expect(json["hub.url"] == ["value": "https://h", "origin": "/etc/agentd.yaml:2"])
        #expect(json["hub.ca_file"] == ["value": nil, "origin": "default"])
        #expect(json["sync.pull_interval"] == ["value": "60s", "origin": "default"])
        #expect(json["socket.mode"] == ["value": "0660", "origin": "default"])
        #expect(json["strict_entities"] == ["value": false, "origin": "default"])
        #expect(json["entities.\"a.b\".kind"] == ["value": "event", "origin": "/etc/agentd.yaml:3"])
        #expect(
            json["links"] == [
                "value": [
                    [
                        "match": "eth0", "metered": nil, "budget": nil, "rate": nil, "prefer": 0, "recover": nil, "recover_after": "15m",
                        "recover_every": "1h",
                    ]
                ],
                "origin": "/etc/agentd.yaml:4",
            ])
        #expect(loaded.settings.count == Set(loaded.settings.map(\.key)).count)
    }

    @Test("Main file and conf.d are read from disk, and a broken folder is an error")
    func disk() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("conf-" + UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: folder) }
        let confd = folder.appendingPathComponent("conf.d")
        try FileManager.default.createDirectory(at: confd, withIntermediateDirectories: true)
        let main = folder.appendingPathComponent("agentd.yaml")
        try Data("hub: {url: https://h}\nlog: {level: error}\n".utf8).write(to: main)
        try Data("log: {level: debug}\n".utf8).write(to: confd.appendingPathComponent("20-b.yaml"))
        try Data("log: {level: notice}\n".utf8).write(to: confd.appendingPathComponent("10-a.yaml"))
        try Data("not yaml: [\n".utf8).write(to: confd.appendingPathComponent("README"))
        let loaded = try ConfigurationLoader.load(main: main.path, accounts: ConfigurationFixtures.accounts)
        #expect(loaded.configuration.log.level == .debug)
        #expect(loaded.files == [main.path, confd.path + "/10-a.yaml", confd.path + "/20-b.yaml"])

        try FileManager.default.removeItem(at: confd)
        try Data().write(to: confd)
        let errors = #expect(throws: ConfigurationErrors.self) {
            try ConfigurationLoader.load(main: main.path, accounts: ConfigurationFixtures.accounts)
        }
        #expect(errors?.description == confd.path + ": a part of the path is not a directory")
        let missing = #expect(throws: ConfigurationErrors.self) {
            try ConfigurationLoader.load(main: folder.path + "/x/none.yaml", accounts: ConfigurationFixtures.accounts)
        }
        #expect(missing?.description == folder.path + "/x/none.yaml: no such file")
    }

    @Test(
        "A device id derived from a machine id is stable, a valid id, and does not contain it",
        arguments: [
            ("0123456789abcdef0123456789abcdef", true), ("", false), ("uninitialized", false),
            ("0123456789abcdef0123456789abcde", false),
            ("0123456789ABCDEF0123456789abcdef", false), ("00000000000000000000000000000000", false),
        ])
    func derivedDevice(machineID: String, isOne: Bool) {
        let device = DeviceID.derived(fromMachineID: machineID)
        #expect((device != nil) == isOne)
        guard let device else { return }
        #expect(device == DeviceID.derived(fromMachineID: machineID))
        #expect(DeviceID(device.text) == device && device.text.utf8.count == 19)
        #expect(device != DeviceID.derived(fromMachineID: "1123456789abcdef0123456789abcdef"))
        #expect(!device.text.contains(machineID.prefix(8)))
    }
}
