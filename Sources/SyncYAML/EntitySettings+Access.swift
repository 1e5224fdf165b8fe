import SyncCore

// The keys of a hub's entities file that say which device belongs to which scopes (PROTOCOL A16). Agents know nothing of them.
extension EntitySettings {
    /// All keys of a hub's entities file.
    struct HubSettings: Sendable {
        var rules = RuleBook()
        var access = AccessBook()
    }

    static var hub: Format<HubSettings> {
        .mapping(
            HubSettings(),
            [
                .key("entities", \.rules.entities, entities), .key("strict_entities", \.rules.isStrict, .boolean),
                .key("devices", \.access.devices, .dictionary(of: grants, names: .identifier(), text: \.text, upTo: 100_000)),
                .key("groups", \.access.groups, .dictionary(of: grants, names: name, text: { $0 })),
                .key("grants_from", \.access.sources, .list(source, upTo: 16)),
            ], check: checkHub)
    }

    private static func checkHub(_ settings: HubSettings, _ root: YAMLNode, _ reading: inout Reading) {
        checkReferences(settings.rules, root, &reading)
        for (name, grants) in settings.access.groups.sorted(by: { $0.key < $1.key }) where !grants.groups.isEmpty {
            reading.report(
                root.deepest(["groups", name]).position, below: "groups.\(keyText(name)).groups", problem: "a group in a group",
                expected: "the values of the inner group themselves")
        }
        for (name, grants) in settings.access.devices.sorted(by: { $0.key < $1.key }) {
            for group in grants.groups where settings.access.groups[group] == nil {
                reading.report(
                    root.deepest(["devices", name.text, "groups"]).position, below: "devices.\(keyText(name.text)).groups",
                    problem: "\(group) is not a group of this file",
                    nearest: nearestName(to: group, among: Array(settings.access.groups.keys)))
            }
        }
        checkValues(settings.access, root, &reading)
        checkScopes(settings.rules, root, &reading)
        for (index, source) in settings.access.sources.enumerated() {
            // A device that changes such a record could grant itself every scope.
            let rules = settings.rules.entities[source.entity] ?? EntityRules()
            guard let field = source.openFields(under: rules).first else { continue }
            let right = rules.fieldRights[field].map { "with write: \($0.text)" } ?? "without a right of its own"
            reading.object(
                root.deepest(["grants_from"]).position, below: "grants_from[\(index)].entity",
                problem: "devices may change the field \(field) of \(source.entity), \(right), and could grant themselves every scope",
                expected: "an entity with write: nobody or kind: reference, or write: nobody or a role for the fields \(source.device) and "
                    + source.scope, nearest: nearestEntity(to: source.entity, in: settings.rules))
        }
    }

    /// - Returns: `nil` when the entity is in the file.
    private static func nearestEntity(to name: EntityName, in rules: RuleBook) -> String? {
        if rules.entities[name] != nil { return nil }
        return nearestName(to: name.text, among: rules.entities.keys.map(\.text).sorted())
    }

    /// Refuses a key `scope` without a field. Without scopes every device receives all records, and a forgotten value must not lead there.
    private static func checkScopes(_ rules: RuleBook, _ root: YAMLNode, _ reading: inout Reading) {
        for name in rules.entities.keys.sorted() {
            guard let node = root["entities"]?[name.text]?["scope"], rules.entities[name]?.isScoped == false else { continue }
            reading.object(
                node.position, below: "entities.\(keyText(name.text)).scope",
                problem: "names no field, so every device would get all records",
                expected: "names of fields such as [site], or no such line")
        }
    }

    /// Refuses values that are the id of another device of the file: that device has such a scope without a grant.
    private static func checkValues(_ access: AccessBook, _ root: YAMLNode, _ reading: inout Reading) {
        func check(_ path: [String], _ grants: Grants, _ owner: DeviceID?) {
            for (field, values) in grants.scopes.sorted(by: { $0.key < $1.key }) {
                for value in values {
                    guard let device = DeviceID(value), device != owner, access.devices[device] != nil else { continue }
                    reading.object(
                        root.deepest(path + [field]).position, below: (path + [field]).map { keyText($0) }.joined(separator: "."),
                        problem: "\(value) is the id of a device, which has every scope of this value without a grant",
                        expected: "values that are no device's id")
                }
            }
        }
        for (device, grants) in access.devices.sorted(by: { $0.key < $1.key }) { check(["devices", device.text], grants, device) }
        for (name, grants) in access.groups.sorted(by: { $0.key < $1.key }) { check(["groups", name], grants, nil) }
    }

    /// The scopes of a device or group by field, and the keys `roles` and `groups`.
    private static var grants: Format<Grants> {
        Format<[String: [String]]>.dictionary(of: values, names: name, text: { $0 }).mapped(
            { lists, _, _ in
                var grants = Grants()
                grants.roles = lists["roles"] ?? []
                grants.groups = lists["groups"] ?? []
                grants.scopes = lists.filter { $0.key != "roles" && $0.key != "groups" }
                return grants
            },
            back: { grants in
                var lists = grants.scopes
                if !grants.roles.isEmpty { lists["roles"] = grants.roles }
                if !grants.groups.isEmpty { lists["groups"] = grants.groups }
                return lists
            })
    }

    private static var values: Format<[String]> {
        .list(
            .text(
                expected: "a text of 1 to \(Scope.valueBytesMax) bytes",
                parse: { $0.isEmpty || $0.utf8.count > Scope.valueBytesMax ? nil : $0 }, write: { .string($0) }),
            upTo: DeviceAccess.grantsMax)
    }

    private static var source: Format<GrantSource> {
        Format<GrantSourceDraft>.mapping(
            GrantSourceDraft(),
            [
                .optional("entity", \.entity, .identifier()), .key("device", \.device, name), .key("scope", \.scope, name),
            ]
        ).mapped(
            { draft, node, reading in
                guard let entity = draft.entity else {
                    reading.report(node.position, below: "entity", problem: "is missing", expected: "the name of an entity")
                    return nil
                }
                if draft.scope.isEmpty {
                    // Earlier versions took such a source, which grants nothing.
                    reading.object(
                        node.position, below: "scope", problem: "is missing", expected: "the field whose values the records grant")
                }
                return GrantSource(entity: entity, device: draft.device, scope: draft.scope)
            }, back: { GrantSourceDraft(entity: $0.entity, device: $0.device, scope: $0.scope) })
    }

    private struct GrantSourceDraft: Sendable {
        var entity: EntityName?
        var device = "device"
        var scope = ""
    }

    private static var name: Format<String> {
        .text(expected: "a name", parse: { $0.isEmpty ? nil : $0 }, write: { .string($0) })
    }
}
