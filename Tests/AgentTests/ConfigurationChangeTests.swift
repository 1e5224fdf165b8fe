import Agent
import SyncCore
import SyncYAML
import Testing

struct ConfigurationChangeTests {
    struct Row: Sendable {
        var before = ""
        var after: String
        var changed: [String]
        var needsRestart: [String] = []
    }

    @Test(
        "A reload tells the keys that changed, and which of them wait for a restart",
        arguments: [
            Row(after: "", changed: []),
            Row(after: "sync: { pull_interval: 60s }", changed: []),
            Row(after: "sync: { pull_interval: 1m, debounce: 5s }", changed: ["sync.debounce"]),
            Row(before: "log: { level: debug }", after: "", changed: ["log.level"]),
            Row(after: "probe: { url: https://p }", changed: ["probe.url"]),
            Row(
                after: "store: { path: /x, max_size: 1GB }", changed: ["store.path", "store.max_size"],
                needsRestart: ["store.path"]),
            Row(
                after: "socket: { path: /x, group: inspectors, mode: \"0600\" }",
                changed: ["socket.path", "socket.group", "socket.mode"],
                needsRestart: ["socket.path", "socket.group", "socket.mode"]),
            Row(before: "links: [{ match: eth0 }]", after: "links: [{ match: eth0, prefer: 1 }]", changed: ["links"]),
            Row(before: "links: [{ match: eth0 }]", after: "links: [{ prefer: 0, match: eth0 }]", changed: []),
            Row(after: "access: [{ user: root, role: admin }]", changed: ["access"]),
            Row(after: "entities: { a: { kind: event } }", changed: ["entities.a"]),
            Row(
                before: "entities: { a: {}, b: {} }", after: "entities: { b: {}, c: {} }",
                changed: ["entities.a", "entities.c"]),
            Row(
                before: "entities: { a: {} }", after: "entities: { a: { ttl: 1d, fields: { x: max } } }",
                changed: ["entities.a.fields.x", "entities.a.ttl"]),
            Row(
                before: "entities: { a: { fields: { x: max, y: min } } }",
                after: "entities: { a: { fields: { x: min } } }",
                changed: ["entities.a.fields.x", "entities.a.fields.y"]),
            Row(after: "strict_entities: true", changed: ["strict_entities"]),
        ])
    func table(_ row: Row) throws {
        let before = try ConfigurationFixtures.configuration(row.before + "\n")
        let after = try ConfigurationFixtures.configuration(row.after + "\n")
        let change = ConfigurationChange(from: before, to: after)
        #expect(change.changed == row.changed)
        #expect(change.needsRestart == row.needsRestart)
        if row.needsRestart.isEmpty { #expect(change.inForce == after) }
        #expect(
            ConfigurationChange(from: before, to: change.inForce).changed
                == row.changed.filter { !row.needsRestart.contains($0) })
        // Changes that still wait for a restart are told again at the next reload.
        #expect(ConfigurationChange(from: change.inForce, to: after).changed == row.needsRestart)
    }

    @Test("Every key of the hub is live but the device")
    func hubKeys() throws {
        let before = try ConfigurationFixtures.defaults()
        let after = try ConfigurationFixtures.loaded([
            ConfigurationFile(name: "all", text: ConfigurationMistakes.everyKey)
        ]).configuration
        let change = ConfigurationChange(from: before, to: after)
        #expect(change.needsRestart == ["hub.device", "socket.path", "socket.group", "socket.mode", "store.path"])
        #expect(change.inForce.hub.url == after.hub.url && change.inForce.hub.device == nil)
        // All keys differ in that file; of the backend's mapping there was none before, so it came as a whole.
        let known = Set(AgentConfiguration.knownKeys.map { $0.name.prefix { $0 != "[" && $0 != "*" } })
        #expect(
            Set(change.changed).isSuperset(
                of: known.filter { !$0.hasSuffix(".") && !$0.hasPrefix("rest.") && $0 != "adapter" }.map(String.init)))
    }
}
