import SyncCore

/// Finds grants that have no effect under the present rules. Their names are mostly typing mistakes, and a device then lacks records
/// although each command and each file was accepted. Such grants may also be meant for later rules, so they are no errors.
package struct GrantHints: Sendable {
    /// The form in which grants are written: names differ.
    package enum Form: Sendable {
        /// `site=s-3`, `role=office`, `group=north`.
        case command
        /// The keys of a device or group: `site`, `roles`, `groups`.
        case file

        fileprivate var words: [String] {
            switch self {
            case .command: ["role", "group"]
            case .file: ["roles", "groups"]
            }
        }
    }

    private let rules: RuleBook
    private let fields: [String]
    private let roles: [String]
    private let access: AccessBook

    package init(_ settings: EntityDifference.Settings) {
        self.rules = settings.rules
        let rules = settings.rules.entities.values
        fields = Set(rules.flatMap(\.scope)).sorted { precedesInBytes($0, $1) }
        let rights = rules.flatMap(\.fieldRights.values)
        roles = Set(rights.compactMap { if case .role(let role) = $0 { role } else { nil } }).sorted { precedesInBytes($0, $1) }
        access = settings.access
    }

    /// - Returns: A sentence about the field of a granted scope. `nil` when an entity has it, or while no entity has scopes: grants may
    /// come before them.
    package func hint(field: String, in form: Form) -> String? {
        if fields.isEmpty || fields.contains(field) { return nil }
        return "no entity has the scope field \(printable(field))\(meant(field, form.words + fields)), so such a grant has no effect"
    }

    /// - Returns: A sentence about a role that is almost one of the rules. A role without a rule may be for people.
    package func hint(role: String) -> String? {
        if roles.contains(role) || nearestName(to: role, among: roles) == nil { return nil }
        return "no rule names the role \(printable(role))\(meant(role, roles))"
    }

    /// - Returns: A sentence about a group that the settings do not have. `nil` while they have neither groups nor scopes.
    package func hint(group: String) -> String? {
        if access.groups[group] != nil || fields.isEmpty && access.groups.isEmpty { return nil }
        let guess = meant(group, Array(access.groups.keys).sorted())
        return "the settings have no group \(printable(group))\(guess), so such a grant has no effect"
    }

    /// - Returns: A sentence about a scope field that one form of grants cannot name, because its name is a word of that form.
    private func hint(scopeField field: String) -> String? {
        let kinds = field.hasPrefix("role") ? "roles" : "groups"
        if Form.command.words.contains(field) {
            return "agenthub grant cannot grant the scope field \(field), because \(field)=… names \(kinds) there. "
                + "The devices and groups of this file can, and so can records (grants_from)"
        }
        guard Form.file.words.contains(field) else { return nil }
        return "the devices and groups of this file cannot grant the scope field \(field), because \(field): names \(kinds) there. "
            + "agenthub grant can, and so can records (grants_from)"
    }

    /// Sentences about the grants of the settings themselves, each with the first place in the order of the file's names.
    package var ofSettings: [String] {
        var found: [(place: String, more: Int, text: String)] = []
        var indexes: [String: Int] = [:]
        func add(_ name: String, _ place: String, _ text: String?) {
            guard let text else { return }
            guard let index = indexes[name] else {
                indexes[name] = found.count
                return found.append((place, 0, text))
            }
            found[index].more += 1
        }
        for name in rules.entities.keys.sorted() {
            for field in rules.entities[name]?.scope ?? [] {
                add("scope " + field, "entities.\(keyText(name.text)).scope", hint(scopeField: field))
            }
        }
        func add(_ grants: Grants, _ place: String) {
            for field in grants.scopes.keys.sorted(by: { precedesInBytes($0, $1) }) {
                add("field " + field, "\(place).\(keyText(field))", hint(field: field, in: .file))
            }
            for role in grants.roles { add("role " + role, place + ".roles", hint(role: role)) }
        }
        for (name, grants) in access.groups.sorted(by: { precedesInBytes($0.key, $1.key) }) { add(grants, "groups.\(keyText(name))") }
        for (device, grants) in access.devices.sorted(by: { $0.key < $1.key }) { add(grants, "devices.\(keyText(device.text))") }
        for (index, source) in access.sources.enumerated() where !source.scope.isEmpty {
            add("source " + source.scope, "grants_from[\(index)].scope", hint(field: source.scope, in: .file))
        }
        return found.map { "\($0.place)\($0.more > 0 ? " and \($0.more) more" : ""): \($0.text)" }
    }

    private func meant(_ written: String, _ known: [String]) -> String {
        // Letters of another case are not near by the count of letters, but the first thing to look for.
        let near = known.first { $0.lowercased() == written.lowercased() } ?? nearestName(to: written, among: known)
        return near.map { " (did you mean \($0)?)" } ?? ""
    }
}
