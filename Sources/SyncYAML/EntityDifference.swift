package import SyncCore

/// The changes for a hub and its devices when other entity settings count, in lines for people.
package struct EntityDifference: Hashable, Sendable {
    /// One line for each change, in the order of the names; none: nothing changes.
    package private(set) var lines: [String] = []
    /// Agents get another configuration, with their next pull.
    package let isForDevices: Bool
    /// Entities that lose their scope. A hub refuses that unless it is told to do so.
    package private(set) var unscoped: [EntityName] = []
    /// Sentences about grants of the new settings that have no effect (``GrantHints``).
    package let hints: [String]

    package typealias Settings = (rules: RuleBook, access: AccessBook)

    /// - Parameter old: `nil`: there were none.
    package init(from old: Settings?, to new: Settings) {
        let before = old ?? (RuleBook(), AccessBook())
        hints = GrantHints(new).ofSettings
        isForDevices = old == nil || EntitySettings.written(before.rules) != EntitySettings.written(new.rules)
        if before.rules.isStrict != new.rules.isStrict {
            lines.append(
                new.rules.isStrict
                    ? "strict_entities: true. Changes of entities without a name here are refused from now on"
                    : "strict_entities: false. Changes of entities without a name here are accepted from now on")
        }
        compareEntities(before.rules, new.rules)
        compareGrants("devices", Self.named(before.access.devices), Self.named(new.access.devices))
        compareGrants("groups", before.access.groups, new.access.groups)
        if before.access.sources != new.access.sources {
            lines.append("grants_from: the hub makes the grants by records anew")
        }
    }

    private static func named(_ grants: [DeviceID: Grants]) -> [String: Grants] {
        Dictionary(grants.map { ($0.key.text, $0.value) }) { first, _ in first }
    }

    // MARK: Entities

    private mutating func compareEntities(_ before: RuleBook, _ after: RuleBook) {
        for name in Set(before.entities.keys).union(after.entities.keys).sorted() {
            switch (before.entities[name], after.entities[name]) {
            case (nil, let rules?):
                let scope = rules.isScoped ? ", with the scope \(rules.scope.joined(separator: ", "))" : ""
                lines.append("+ \(name): new, of the kind \(rules.kind.rawValue)\(scope)\(consequence(of: rules, after: nil, name))")
            case (let rules?, nil):
                let then = after.isStrict ? "its changes are refused, because strict_entities is true" : "the usual rules hold for it"
                lines.append("- \(name): removed; \(then)\(consequence(of: EntityRules(), after: rules, name))")
            case (let old?, let new?): if old != new { compare(name, old, new) }
            case (nil, nil): break
            }
        }
    }

    private mutating func compare(_ name: EntityName, _ old: EntityRules, _ new: EntityRules) {
        let (before, after) = (Self.written(name, old), Self.written(name, new))
        for member in after.members {
            let (key, was) = (member.name.text, before[member.name.text] ?? .null)
            if key == "schema" { compareVersions(name, old, new) }
            if was == member.value || key == "schema" || key == "versions" { continue }
            switch key {
            case "scope":
                let change = "\(Self.shown(was)) -> \(Self.shown(member.value))"
                lines.append("~ \(name).scope: \(change)\(consequence(of: new, after: old, name))")
            case "keep" where new.keepEvents != nil:
                let change = "\(Self.shown(was)) -> \(Self.shown(member.value))"
                lines.append("~ \(name).keep: \(change). The hub removes its events for good that were accepted longer ago than that")
            default:
                if let inner = member.value.object, let earlier = was.object {
                    compare("\(name).\(key)", earlier, inner)
                } else {
                    lines.append("~ \(name).\(key): \(Self.shown(was)) -> \(Self.shown(member.value))")
                }
            }
        }
    }

    /// The effect of other scopes on the records of devices, as a further sentence. Records may exist before the settings name their
    /// entity. No device receives events.
    private mutating func consequence(of new: EntityRules, after old: EntityRules?, _ name: EntityName) -> String {
        if old?.scope ?? [] == new.scope { return "" }
        if !new.isScoped { unscoped.append(name) }
        if (old ?? new).kind == .event { return "" }
        return new.isScoped
            ? ". The hub assigns its records to devices anew, and a device keeps and gets only those of its own scopes"
            : ". Every device gets all its records"
    }

    /// The keys of one entity with all their values.
    private static func written(_ name: EntityName, _ rules: EntityRules) -> JSONObject {
        EntitySettings.entities.write([name: rules]).object?[name.text]?.object ?? [:]
    }

    private mutating func compare(_ place: String, _ old: JSONObject, _ new: JSONObject) {
        for member in new.members where old[member.name.text] != member.value {
            let was = old[member.name.text].map(Self.shown) ?? "not set"
            lines.append("~ \(place).\(keyText(member.name.text)): \(was) -> \(Self.shown(member.value))")
        }
        for member in old.members where new[member.name.text] == nil {
            lines.append("~ \(place).\(keyText(member.name.text)): \(Self.shown(member.value)) -> not set")
        }
    }

    private static func shown(_ json: JSON) -> String {
        switch json {
        case .null: "not set"
        case .string(let text): printable(text.text, limit: 60)
        case .array(let values) where values.allSatisfy { $0.text != nil }:
            values.isEmpty ? "none" : printable(values.compactMap(\.text).joined(separator: ", "), limit: 120)
        case .bool, .number, .array, .object: printable(json.json, limit: 120)
        }
    }

    private mutating func compareVersions(_ name: EntityName, _ old: EntityRules, _ new: EntityRules) {
        let (before, after) = (old.versions?.present ?? 1, new.versions?.present ?? 1)
        if before != after {
            lines.append("~ \(name).schema: version \(before) -> \(after). \(Self.conversion(from: old, to: new))")
        } else if old.schema != new.schema {
            compareSchemas(name, old.schema, new)
        }
        let (known, others) = (old.versions?.versions ?? [:], new.versions?.versions ?? [:])
        func numbers(_ isWanted: (Int) -> Bool) -> [String] {
            Set(known.keys).union(others.keys).filter(isWanted).sorted().map { String($0) }
        }
        let parts = [
            ("new", numbers { known[$0] == nil }), ("removed", numbers { others[$0] == nil }),
            ("changed", numbers { known[$0] != nil && others[$0] != nil && known[$0] != others[$0] }),
        ]
        let words = parts.filter { !$0.1.isEmpty }.map { "\($0.0): \(Self.joined($0.1))" }
        if !words.isEmpty { lines.append("~ \(name).versions: \(words.joined(separator: "; "))") }
    }

    private static func conversion(from old: EntityRules, to new: EntityRules) -> String {
        let stored = old.versions.map { StoredSchema($0) } ?? StoredSchema()
        guard let steps = new.versions?.steps(from: stored) else {
            return "No steps lead from one to the other, so the hub refuses it as long as the entity has records. "
                + "A file whose key versions has both is needed"
        }
        let lost = steps.steps.compactMap { step in
            if case .drop(let field) = step { field } else { nil }
        }
        let then = "The hub and the devices convert records and waiting changes"
        return lost.isEmpty ? then : "\(then), and the values of \(joined(lost)) are lost"
    }

    private mutating func compareSchemas(_ name: EntityName, _ old: DocumentSchema?, _ rules: EntityRules) {
        let refused = "Changes that do not fit it are refused, also those that devices have not sent yet"
        guard let new = rules.schema else { return lines.append("~ \(name).schema: removed; documents are not checked any more") }
        guard let old else {
            return lines.append("~ \(name).schema: new. \(rules.validation == .off ? "It is not used: validate is off" : refused)")
        }
        let difference = SchemaDifference(from: old.json, to: new.json)
        var parts: [String] = []
        if !difference.stricter.isEmpty { parts.append("stricter: " + Self.joined(difference.stricter)) }
        if !difference.looser.isEmpty { parts.append("looser: " + Self.joined(difference.looser)) }
        if !difference.unclear.isEmpty { parts.append("changes at " + Self.joined(difference.unclear)) }
        if parts.isEmpty { return lines.append("~ \(name).schema: only what describes it") }
        let isLooser = difference.stricter.isEmpty && difference.unclear.isEmpty
        lines.append("~ \(name).schema: \(parts.joined(separator: "; "))\(isLooser || rules.validation == .off ? "" : ". \(refused)")")
    }

    private static let shownMax = 20

    private static func joined(_ words: [String]) -> String {
        let shown = words.prefix(shownMax).map { printable($0, limit: 300) }.joined(separator: ", ")
        return words.count > shownMax ? shown + " and \(words.count - shownMax) more" : shown
    }

    // MARK: Grants

    private mutating func compareGrants(_ key: String, _ old: [String: Grants], _ new: [String: Grants]) {
        if old == new { return }
        func names(_ isWanted: (String) -> Bool) -> [String] {
            Set(old.keys).union(new.keys).filter(isWanted).sorted { precedesInBytes($0, $1) }
        }
        let parts = [
            ("new", names { old[$0] == nil }), ("removed", names { new[$0] == nil }),
            ("changed", names { old[$0] != nil && new[$0] != nil && old[$0] != new[$0] }),
        ]
        let words = parts.filter { !$0.1.isEmpty }.map { "\($0.0): \(Self.joined($0.1))" }
        lines.append("\(key): \(words.joined(separator: "; ")). Devices get and lose records with their next pull")
        for name in parts[2].1.prefix(Self.shownMax) { compare("\(key).\(keyText(name))", old[name] ?? Grants(), new[name] ?? Grants()) }
    }

    private mutating func compare(_ place: String, _ old: Grants, _ new: Grants) {
        func compare(_ key: String, _ before: [String], _ after: [String]) {
            let (gained, lost) = (after.filter { !before.contains($0) }, before.filter { !after.contains($0) })
            let words = [("gains", gained), ("loses", lost)].filter { !$0.1.isEmpty }.map { "\($0.0) \(Self.joined($0.1))" }
            if !words.isEmpty { lines.append("~ \(place).\(keyText(key)): \(words.joined(separator: "; "))") }
        }
        for field in Set(old.scopes.keys).union(new.scopes.keys).sorted(by: { precedesInBytes($0, $1) }) {
            compare(field, old.scopes[field] ?? [], new.scopes[field] ?? [])
        }
        compare("roles", old.roles, new.roles)
        compare("groups", old.groups, new.groups)
    }
}
