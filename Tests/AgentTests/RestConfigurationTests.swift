import Agent
import SyncCore
import SyncYAML
import Testing

@Suite("The mapping of an existing backend")
struct RestConfigurationTests {
    static let mapping = """
        adapter: rest
        rest:
          base_url: https://api.example.org
          entities:
            audits: { create: { path: /audits, id: $.id } }
        entities: { audits: { kind: record } }

        """

    private static func load(_ text: String) throws -> LoadedConfiguration {
        try ConfigurationFixtures.loaded([ConfigurationFile(name: "agentd.yaml", text: text)])
    }

    @Test("The backend's address stands where the hub's would")
    func address() throws {
        let configuration = try Self.load(Self.mapping).configuration
        #expect(configuration.hub.url.text == "https://api.example.org")
        #expect(configuration.restMapping?.entities.count == 1)
    }

    @Test("No token of a hub is missing with adapter: rest, and one is with adapter: hub")
    func token() throws {
        #expect(DoctorQuestions(try Self.load(Self.mapping)).isTokenOptional)
        let text = "hub: { url: https://hub.example.com }\n" + Self.mapping.replacing("adapter: rest", with: "adapter: hub")
        #expect(!DoctorQuestions(try Self.load(text)).isTokenOptional)
    }

    @Test("With a hub the mapping waits and changes nothing")
    func hub() throws {
        let text = "hub: { url: https://hub.example.com }\n" + Self.mapping.replacing("adapter: rest", with: "adapter: hub")
        let configuration = try Self.load(text).configuration
        #expect(configuration.restMapping == nil && configuration.rest != nil)
    }

    @Test(
        "Contradictions of entities and mapping are found at load, with their place",
        arguments: [
            (
                RestConfigurationTests.mapping + "hub: { url: https://hub.example.com }",
                "7:13: hub.url: is another address than rest.base_url, expected no hub.url, because adapter is rest"
            ),
            (
                RestConfigurationTests.mapping.replacing("{ kind: record }", with: "{ kind: record }, sites: {}"),
                "6:46: entities.sites: has no mapping, expected sites below rest.entities"
            ),
            (
                RestConfigurationTests.mapping.replacing("{ kind: record }", with: "{ kind: record, keep: { days: 90 } }"),
                "6:43: entities.audits.keep: is not possible with adapter: rest, expected no such key, or adapter: hub"
            ),
            (
                RestConfigurationTests.mapping.replacing("{ audits: { kind: record } }", with: "{}"),
                "5:13: rest.entities.audits: is no entity, expected audits below entities"
            ),
            (
                RestConfigurationTests.mapping.replacing("kind: record", with: "kind: reference"),
                "5:13: rest.entities.audits: is of the kind reference and has no list, expected list"
            ),
            (
                RestConfigurationTests.mapping.replacing("kind: record", with: "kind: event").replacing(
                    "{ create: { path: /audits, id: $.id } }", with: "{ create: { path: /a }, list: { path: /a, items: $ } }"),
                "5:43: rest.entities.audits.list: is of no use: events are only created"
            ),
        ])
    func contradictions(_ text: String, _ message: String) {
        let errors = ConfigurationFixtures.errors(text)
        #expect(errors.contains { $0.hasSuffix(message) }, "\(errors)")
    }

    @Test("A mapping that is written back reads as the same")
    func roundTrip() throws {
        let configuration = try Self.load(Self.mapping).configuration
        let again = try Self.load(LastGoodConfiguration.text(configuration)).configuration
        #expect(again == configuration)
    }

    @Test("Another adapter waits for a restart, with the address that goes with it")
    func restart() throws {
        let before = try ConfigurationFixtures.defaults()
        let change = ConfigurationChange(from: before, to: try Self.load(Self.mapping).configuration)
        #expect(change.needsRestart.contains("adapter"))
        #expect(change.inForce.hub == before.hub && change.inForce.restMapping == nil)
    }

    @Test("The example of the manual is a configuration")
    func manual() throws {
        let text = try ConfigurationFixtures.projectFile("deploy/docs/rest-backend.md")
        let section = try #require(text.split(separator: "\n## ").first { $0.hasPrefix("An existing REST backend") })
        let block = try #require(section.components(between: "```yaml\n", and: "```"))
        let configuration = try Self.load(block).configuration
        #expect(configuration.restMapping?.entities.count == 2)
    }
}

extension Substring {
    fileprivate func components(between start: String, and end: String) -> String? {
        guard let first = firstRange(of: start) else { return nil }
        guard let last = self[first.upperBound...].firstRange(of: end) else { return nil }
        return String(self[first.upperBound..<last.lowerBound])
    }
}
