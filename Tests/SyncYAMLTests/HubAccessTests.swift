import SyncCore
import SyncYAML
import Testing

/// The keys of a hub's entities file that say which device belongs to which scopes.
@Suite("Grants in a hub's entities file")
struct HubAccessTests {
    private static func file(_ text: String) -> ConfigurationFile { ConfigurationFile(name: "e.yaml", text: text) }

    /// The errors of new settings, each with its key and the problem; none: they are accepted.
    private static func errors(_ text: String) -> [String] {
        do throws(ConfigurationErrors) {
            _ = try EntitySettings.readHub(file(text))
            return []
        } catch {
            return error.errors.map { "\($0.key): \($0.problem)" }
        }
    }

    /// A file in which the records of `assignments` grant sites.
    private static func source(_ entity: String) -> String {
        """
        entities:
          assignments: \(entity)
        grants_from:
          - { entity: assignments, device: device, scope: site }

        """
    }

    private static func rights(_ device: String, _ site: String) -> String {
        source("{ scope: [device], fields: { device: { write: \(device) }, site: { write: \(site) } } }")
    }

    private static func refusal(_ field: String, _ right: String) -> [String] {
        [
            "grants_from[0].entity: devices may change the field \(field) of assignments, \(right), and could grant themselves every scope"
        ]
    }

    // Fault: with `own` a device makes a record that names it, and grants itself every scope.
    @Test("A right that a device gets by itself guards no source of grants", arguments: ["own", "scope", "everybody"])
    func weakRights(_ right: String) throws {
        #expect(Self.errors(Self.rights(right, right)) == Self.refusal("device", "with write: \(right)"))
        #expect(Self.errors(Self.rights(right, "office")) == Self.refusal("device", "with write: \(right)"))
        #expect(Self.errors(Self.rights("office", right)) == Self.refusal("site", "with write: \(right)"))
        #expect(Self.errors(Self.rights("nobody", right)) == Self.refusal("site", "with write: \(right)"))
        let error = #expect(throws: ConfigurationErrors.self) { try EntitySettings.readHub(Self.file(Self.rights(right, right))) }
        #expect(
            error?.errors.first?.expected
                == "an entity with write: nobody or kind: reference, or write: nobody or a role for the fields device and site")
    }

    @Test("A source that is almost an entity of the file is told with its name")
    func mistypedSource() throws {
        let text = Self.source("{ write: nobody }").replacing("{ entity: assignments,", with: "{ entity: asignments,")
        let error = #expect(throws: ConfigurationErrors.self) { try EntitySettings.readHub(Self.file(text)) }
        #expect(error?.errors.map(\.nearest) == ["assignments"])
        let other = #expect(throws: ConfigurationErrors.self) {
            try EntitySettings.readHub(Self.file(Self.source("{ write: everybody }")))
        }
        #expect(other?.errors.map(\.nearest) == [nil], "an entity of the file is not mistyped")
    }

    @Test("The right on the entity guards a source only if no device has it", arguments: EntityRules.WriteRight.allCases)
    func entityRights(_ right: EntityRules.WriteRight) {
        let text = Self.source("{ scope: [device], write: \(right.rawValue) }")
        #expect(Self.errors(text) == (right == .nobody ? [] : Self.refusal("device", "without a right of its own")))
        let guarded = Self.source(
            "{ scope: [device], write: \(right.rawValue), fields: { device: { write: office }, site: { write: nobody } } }")
        #expect(Self.errors(guarded).isEmpty)
    }

    @Test("A role, nobody and reference data guard a source; a right on another field or on a member of one does not")
    func strongRights() {
        #expect(Self.errors(Self.rights("office", "office")).isEmpty)
        #expect(Self.errors(Self.rights("nobody", "nobody")).isEmpty)
        #expect(Self.errors(Self.rights("office", "nobody")).isEmpty)
        #expect(Self.errors(Self.source("{ kind: reference }")).isEmpty)
        #expect(Self.errors(Self.source("{ kind: record }")) == Self.refusal("device", "without a right of its own"))
        let members = Self.source("{ fields: { device.name: { write: office }, site.name: { write: office } } }")
        #expect(Self.errors(members) == Self.refusal("device", "without a right of its own"))
        let unnamed = "grants_from:\n  - { entity: assignments, device: device, scope: site }\n"
        #expect(Self.errors(unnamed) == Self.refusal("device", "without a right of its own"))
    }

    // Fault: a device that is named like a site receives the records of the site.
    @Test("A value that is the id of another device of the file is refused")
    func namedLikeDevices() {
        let text = """
            devices:
              pump-1: { assignee: [pump-1], site: [s-1] }
              s-3: { groups: [north] }
              tablet: { site: [s-2, s-3] }
            groups:
              north: { site: [s-1, s-3] }
              south: { site: [s-4] }
            """
        let problem = "s-3 is the id of a device, which has every scope of this value without a grant"
        #expect(Self.errors(text) == ["devices.tablet.site: \(problem)", "groups.north.site: \(problem)"])
    }

    // Fault: an entity whose key `scope` had lost its value went to every device.
    @Test("A key scope without a field is refused for new settings", arguments: ["[]", "", "~"])
    func emptyScope(_ value: String) throws {
        let text = "entities:\n  orders:\n    scope: \(value)\n"
        #expect(Self.errors(text) == ["entities.orders.scope: names no field, so every device would get all records"])
        let (settings, objections) = try EntitySettings.readHub(inForce: Self.file(text))
        #expect(settings.rules.entities[EntityName(trusted: "orders")]?.isScoped == false && objections.count == 1)
        #expect(Self.errors("entities:\n  orders: {}\n").isEmpty)
    }

    // Fault: such a source was accepted, and its records granted nothing.
    @Test("A source of grants without a scope is refused for new settings; without a device it is the field device")
    func sourceWithoutScope() throws {
        func text(_ source: String) -> String { "entities: { moves: { kind: reference } }\ngrants_from:\n  - { \(source) }\n" }
        #expect(Self.errors(text("entity: moves, device: tablet")) == ["grants_from[0].scope: is missing"])
        #expect(try EntitySettings.readHub(inForce: Self.file(text("entity: moves"))).objections.map(\.key) == ["grants_from[0].scope"])
        #expect(Self.errors(text("entity: moves, scope: site")).isEmpty)
    }

    @Test("Settings that are in force are read with what new ones may not have; other errors are errors there, too")
    func inForce() throws {
        let (settings, objections) = try EntitySettings.readHub(inForce: Self.file(Self.rights("own", "own")))
        #expect(settings.access.sources == [GrantSource(entity: EntityName(trusted: "assignments"), device: "device", scope: "site")])
        #expect(objections.map(\.key) == ["grants_from[0].entity"])
        #expect(try EntitySettings.readHub(inForce: Self.file(Self.rights("office", "office"))).objections.isEmpty)
        #expect(throws: ConfigurationErrors.self) { try EntitySettings.readHub(inForce: Self.file("entities: 7\n")) }
    }
}
