import SyncCore
import SyncYAML
import Testing

/// The lines that an operator is shown before other settings count.
@Suite("Differences of entity settings")
struct EntityDifferenceTests {
    private static func settings(_ text: String) throws -> EntityDifference.Settings {
        try EntitySettings.readHub(ConfigurationFile(name: "e.yaml", text: text))
    }

    private static func lines(_ old: String?, _ new: String) throws -> [String] {
        EntityDifference(from: try old.map { try settings($0) }, to: try settings(new)).lines
    }

    @Test("Entities that come, go and change are named, key by key")
    func entities() throws {
        let old = """
            entities:
              audits: { priority: bulk, fields: { price: lww, note: append } }
              notes: {}
            """
        let new = """
            entities:
              audits: { fields: { price: manual, size: lww }, scope: [site], refs: { parent: sites } }
              sites: { kind: reference }
            """
        #expect(
            try Self.lines(old, new) == [
                "~ audits.refs.parent: not set -> sites",
                "~ audits.priority: bulk -> normal",
                "~ audits.fields.price: lww -> manual",
                "~ audits.fields.size: not set -> lww",
                "~ audits.fields.note: append -> not set",
                "~ audits.scope: not set -> site. The hub assigns its records to devices anew, and a device keeps and gets only those of "
                    + "its own scopes",
                "- notes: removed; the usual rules hold for it",
                "+ sites: new, of the kind reference",
            ])
        #expect(try Self.lines(old, old).isEmpty)
    }

    @Test("A shorter time for events is reported with a warning that they go for good")
    func keep() throws {
        let (old, new) = ("entities: { log: { kind: event } }", "entities: { log: { kind: event, keep: 400d } }")
        #expect(
            try Self.lines(old, new) == [
                "~ log.keep: not set -> 400d. The hub removes its events for good that were accepted longer ago than that"
            ])
        #expect(try Self.lines(new, old) == ["~ log.keep: 400d -> not set"])
        #expect(try !EntityDifference(from: Self.settings(old), to: Self.settings(new)).isForDevices)
    }

    @Test("Devices get other settings only where the change is one for them")
    func devices() throws {
        func isForDevices(_ old: String?, _ new: String) throws -> Bool {
            EntityDifference(from: try old.map { try Self.settings($0) }, to: try Self.settings(new)).isForDevices
        }
        let plain = "entities: { audits: {} }", scoped = "entities: { audits: { scope: [site] } }"
        #expect(try isForDevices(nil, plain) && !isForDevices(plain, plain) && !isForDevices(plain, scoped))
        #expect(try isForDevices(plain, "entities: { audits: { priority: bulk } }"))
        #expect(try isForDevices(plain, "{ entities: { audits: {} }, strict_entities: true }"))
    }

    @Test("Grants of devices and groups are told by their names")
    func grants() throws {
        let old = "entities: { audits: { scope: [site] } }\ndevices: { gw-1: { site: [s-1] }, gw-2: { site: [s-2] } }"
        let new = "entities: { audits: { scope: [site] } }\ndevices: { gw-2: { site: [s-9] }, gw-3: { site: [s-3] } }"
        #expect(
            try Self.lines(old, new) == [
                "devices: new: gw-3; removed: gw-1; changed: gw-2. Devices get and lose records with their next pull",
                "~ devices.gw-2.site: gains s-9; loses s-2",
            ])
        func groups(_ grants: String) -> String { "groups: { north: { \(grants) } }" }
        #expect(
            try Self.lines(groups("site: [s-1, s-2], roles: [office]"), groups("site: [s-1], region: [r-1]")) == [
                "groups: changed: north. Devices get and lose records with their next pull", "~ groups.north.region: gains r-1",
                "~ groups.north.site: loses s-2", "~ groups.north.roles: loses office",
            ])
    }

    // Fault: the first settings of an entity with records took records from devices, and the difference said nothing of it.
    @Test("An entity that gets its first settings, loses them or loses its scope tells what devices get then")
    func scopes() throws {
        let shared = "The hub assigns its records to devices anew, and a device keeps and gets only those of its own scopes"
        let scoped = "entities: { audits: { scope: [assignee, site] } }"
        #expect(try Self.lines(nil, scoped) == ["+ audits: new, of the kind record, with the scope assignee, site. \(shared)"])
        #expect(
            try Self.lines("entities: {}", "entities: { log: { kind: event, scope: [device] } }") == [
                "+ log: new, of the kind event, with the scope device"
            ])
        #expect(
            try Self.lines(scoped, "entities: {}") == [
                "- audits: removed; the usual rules hold for it. Every device gets all its records"
            ])
        #expect(
            try Self.lines(scoped, "entities: { audits: {} }") == [
                "~ audits.scope: assignee, site -> not set. Every device gets all its records"
            ])
        func unscoped(_ old: String?, _ new: String) throws -> [EntityName] {
            EntityDifference(from: try old.map { try Self.settings($0) }, to: try Self.settings(new)).unscoped
        }
        let audits = EntityName(trusted: "audits")
        #expect(try unscoped(scoped, "entities: {}") == [audits] && unscoped(scoped, "entities: { audits: {} }") == [audits])
        #expect(try unscoped(nil, scoped).isEmpty && unscoped(scoped, "entities: { audits: { scope: [region] } }").isEmpty)
        let events = "entities: { log: { kind: event, scope: [device] } }"
        #expect(try unscoped(events, "entities: {}") == [EntityName(trusted: "log")])
        #expect(try Self.lines(events, "entities: { log: { kind: event } }") == ["~ log.scope: device -> not set"])
    }

    @Test(
        "A schema is told to be stricter or looser where that is simple to tell",
        arguments: [
            ("{ required: [a] }", "{ required: [a, b] }", "stricter: b is required", true),
            ("{ required: [a, b] }", "{ required: [a] }", "looser: b is not required", false),
            (
                "{ properties: { v: { enum: [x, y] } } }", "{ properties: { v: { enum: [x] } } }", "stricter: v may not have the value y",
                true
            ),
            ("{ properties: { v: { enum: [x] } } }", "{ properties: { v: { enum: [x, y] } } }", "looser: v may have the value y", false),
            ("{}", "{ properties: { v: { type: string } } }", "stricter: v is checked", true),
            (
                "{ properties: { v: { maxLength: 9 } } }", "{ properties: { v: { maxLength: 5 } } }", "stricter: v must fit maxLength 5",
                true
            ),
            ("{ properties: { v: { minimum: 9 } } }", "{ properties: { v: { minimum: 5 } } }", "looser: v has the minimum 5", false),
            ("{}", "{ additionalProperties: false }", "stricter: the document may have no other fields", true),
            ("{ title: A }", "{ title: B }", "only what describes it", false),
            ("{ anyOf: [{ required: [a] }] }", "{ anyOf: [{ required: [b] }] }", "changes at the document", true),
        ])
    func schemas(_ old: String, _ new: String, _ expected: String, _ refuses: Bool) throws {
        func text(_ schema: String) -> String { "entities: { audits: { schema: \(schema) } }" }
        let line = try #require(try Self.lines(text(old), text(new)).first)
        let end = refuses ? ". Changes that do not fit it are refused, also those that devices have not sent yet" : ""
        #expect(line == "~ audits.schema: \(expected)\(end)")
    }

    @Test("Another version of a schema is told as one, and not as a stricter schema")
    func versions() throws {
        let old = "entities: { audits: { schema: { required: [a] } } }"
        let new = """
            entities:
              audits:
                schema: 2
                versions: { 1: { schema: { required: [a] } }, 2: { schema: { required: [b] }, up: [{ rename: { a: b } }] } }
                accepts: [1, 2]
            """
        #expect(
            try Self.lines(old, new) == [
                "~ audits.schema: version 1 -> 2. The hub and the devices convert records and waiting changes",
                "~ audits.versions: new: 1, 2",
                "~ audits.accepts: not set -> [1,2]",
            ])
        #expect(
            try Self.lines(new, old).first?.hasPrefix(
                "~ audits.schema: version 2 -> 1. No steps lead from one to the other, so the hub refuses")
                == true)
        let dropping = new.replacing("{ rename: { a: b } }", with: "{ drop: a }").replacing("accepts: [1, 2]", with: "accepts: [2]")
        #expect(
            try Self.lines(old, dropping).first
                == "~ audits.schema: version 1 -> 2. The hub and the devices convert records and waiting changes, and the values of a are lost"
        )
        let changed = new.replacing("required: [b]", with: "required: [b, c]")
        #expect(
            try Self.lines(new, changed) == [
                "~ audits.schema: stricter: c is required. Changes that do not fit it are refused, also those that devices have not sent yet",
                "~ audits.versions: changed: 2",
            ])
    }
}
