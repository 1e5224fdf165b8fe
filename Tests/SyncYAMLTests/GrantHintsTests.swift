import SyncCore
import SyncYAML
import Testing

/// Sentences about grants that have no effect, which are mostly typing mistakes.
@Suite("Hints about grants")
struct GrantHintsTests {
    private static func hints(_ text: String) throws -> GrantHints {
        GrantHints(try EntitySettings.readHub(ConfigurationFile(name: "e.yaml", text: text)))
    }

    private static let rules = """
        entities:
          orders: { scope: [assignee, site], fields: { price: { write: office } } }
          readings: { kind: event, scope: [device] }
        groups:
          north-water: { site: [s-1] }

        """

    // Fault: a command with such a name succeeded without a word, and the device did not get its records.
    @Test(
        "A field that no entity has as a scope is named, with the field that was probably meant",
        arguments: [
            ("sites", " (did you mean site?)"), ("SITE", " (did you mean site?)"), ("roles", " (did you mean role?)"),
            ("groups", " (did you mean group?)"), ("Assignee", " (did you mean assignee?)"), ("region", ""),
            ("si\te", " (did you mean site?)"),
        ])
    func fields(_ field: String, _ meant: String) throws {
        let shown = field == "si\te" ? "si\\te" : field
        let hint = try Self.hints(Self.rules).hint(field: field, in: .command)
        #expect(hint == "no entity has the scope field \(shown)\(meant), so such a grant has no effect")
    }

    @Test("A field of an entity gets no hint, and no field gets one while no entity has scopes")
    func goodFields() throws {
        let hints = try Self.hints(Self.rules)
        for field in ["site", "assignee", "device"] { #expect(hints.hint(field: field, in: .command) == nil) }
        #expect(try Self.hints("entities: { orders: {} }").hint(field: "sites", in: .command) == nil)
    }

    @Test("A role gets a hint only if a rule has almost the same one, a group if the settings do not have it")
    func rolesAndGroups() throws {
        let hints = try Self.hints(Self.rules)
        #expect(hints.hint(role: "offce") == "no rule names the role offce (did you mean office?)")
        #expect(hints.hint(role: "office") == nil && hints.hint(role: "inspector") == nil)
        #expect(
            hints.hint(group: "nirth-water")
                == "the settings have no group nirth-water (did you mean north-water?), so such a grant has no effect")
        #expect(hints.hint(group: "south") == "the settings have no group south, so such a grant has no effect")
        #expect(hints.hint(group: "north-water") == nil)
        #expect(try Self.hints("entities: { orders: {} }").hint(group: "south") == nil)
    }

    // Fault: a command granted a role or a group where the operator meant a scope of that name, and an entities file the other two.
    @Test("A scope field whose name is a word of grants is told, with the ways that can grant it")
    func words() throws {
        let text = "entities: { orders: { scope: [role, site] }, trips: { scope: [groups] }, visits: { scope: [role] } }\n"
        #expect(
            try Self.hints(text).ofSettings == [
                "entities.orders.scope and 1 more: agenthub grant cannot grant the scope field role, because role=… names roles there. "
                    + "The devices and groups of this file can, and so can records (grants_from)",
                "entities.trips.scope: the devices and groups of this file cannot grant the scope field groups, because groups: names "
                    + "groups there. agenthub grant can, and so can records (grants_from)",
            ])
    }

    // Fault: `group` and `role` below a device were fields like others, and the file was good.
    @Test("A file gets one hint for each name, with the first place")
    func files() throws {
        let text =
            Self.rules + """
                  south: { sites: [s-2] }
                devices:
                  pump-1: { group: [north-water], site: [s-1] }
                  pump-2: { group: [north-water], role: [office] }
                  pump-3: { roles: [offce], groups: [north-water] }

                """
        #expect(
            try Self.hints(text).ofSettings == [
                "groups.south.sites: no entity has the scope field sites (did you mean site?), so such a grant has no effect",
                "devices.pump-1.group and 1 more: no entity has the scope field group (did you mean groups?), so such a grant has no "
                    + "effect",
                "devices.pump-2.role: no entity has the scope field role (did you mean roles?), so such a grant has no effect",
                "devices.pump-3.roles: no rule names the role offce (did you mean office?)",
            ])
        #expect(try Self.hints(Self.rules).ofSettings.isEmpty)
        let source = "entities: { moves: { kind: reference }, orders: { scope: [site] } }\ngrants_from: [{ entity: moves, scope: sites }]\n"
        #expect(
            try Self.hints(source).ofSettings == [
                "grants_from[0].scope: no entity has the scope field sites (did you mean site?), so such a grant has no effect"
            ])
        let settings = try EntitySettings.readHub(ConfigurationFile(name: "e.yaml", text: text))
        #expect(EntityDifference(from: nil, to: settings).hints.count == 4)
    }
}
