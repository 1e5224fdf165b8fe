package import SyncCore

/// The keys `entities` and `strict_entities`, the same for agent and hub: an entity must mean one thing on both sides.
package enum EntitySettings {
    /// Rules by entity. Contradictions between entities are found by ``checkReferences(_:_:_:)`` afterwards.
    package static var entities: Format<[EntityName: EntityRules]> {
        .dictionary(of: rules, names: .identifier(), text: \.text)
    }

    /// Reads a file that contains only entities, as for `agenthub serve --entities FILE`: the keys `entities` and `strict_entities`. Such a
    /// file may also be in an agent's `conf.d`.
    package static func readEntities(file path: String) throws(ConfigurationErrors) -> RuleBook {
        try readEntities(.read(path))
    }

    package static func readEntities(_ file: ConfigurationFile) throws(ConfigurationErrors) -> RuleBook {
        try read(file, book).value
    }

    /// - Parameter inForce: The settings count already, so objections are no errors.
    private static func read<Value>(
        _ file: ConfigurationFile, _ format: Format<Value>, inForce: Bool = false
    ) throws(ConfigurationErrors) -> (value: Value, objections: [ConfigurationError]) {
        let bytes: [UInt8]
        switch file.contents {
        case .success(let read): bytes = read
        case .failure(let error): throw ConfigurationErrors([error])
        }
        let document = YAMLDocument(bytes, file: file.name)
        var reading = Reading(isWhole: true)
        let value = document.root.flatMap { format.read($0, &reading) }
        let errors = document.errors + reading.errors + (inForce ? [] : reading.objections)
        guard let value, errors.isEmpty else { throw ConfigurationErrors(errors) }
        return (value, reading.objections)
    }

    /// Checks the references between entities. `root` is the mapping that has the key `entities`.
    package static func checkReferences(_ book: RuleBook, _ root: YAMLNode, _ reading: inout Reading) {
        for (name, rules) in book.entities.sorted(by: { $0.key < $1.key }) {
            for (field, parent) in rules.refs.sorted(by: { $0.key < $1.key }) {
                checkReference(Reference(from: name, at: ["refs", field], to: parent), book, root, &reading)
            }
        }
        checkForms(book, root, &reading)
        if let circle = circle(book),
            let field = book.entities[circle[0]]?.refs.first(where: { $0.value == circle[1] })?.key
        {
            let path = circle.map(\.text).joined(separator: " -> ")
            Reference(from: circle[0], at: ["refs", field], to: circle[1]).report(
                "makes a circle: \(path)", expected: "parents that are not below their children", root, &reading)
        }
    }

    /// A key of an entity that names another one.
    struct Reference {
        var entity: EntityName
        /// The path of the key below its entity.
        var path: [String]
        var target: EntityName

        init(from entity: EntityName, at path: [String], to target: EntityName) {
            (self.entity, self.path, self.target) = (entity, path, target)
        }

        func report(_ problem: String, expected: String, _ root: YAMLNode, _ reading: inout Reading) {
            let names = ["entities", entity.text] + path
            reading.report(
                root.deepest(names).position, below: names.map { keyText($0) }.joined(separator: "."), problem: problem, expected: expected)
        }
    }

    /// Refuses a reference to an entity that is not configured, or whose records are not kept.
    ///
    /// - Returns: The rules of the entity; `nil`: the reference is refused.
    @discardableResult
    static func checkReference(
        _ reference: Reference, _ book: RuleBook, _ root: YAMLNode, _ reading: inout Reading
    ) -> EntityRules? {
        let target = reference.target
        guard let found = book[target] else {
            let others = book.entities.keys.filter { $0 != reference.entity }.map(\.text)
            let near = nearestName(to: target.text, among: others).map { " (did you mean \($0)?)" } ?? ""
            reference.report(
                "refers to \(target)\(near)", expected: "a configured entity, because strict_entities is true", root, &reading)
            return nil
        }
        guard found.kind != .event else {
            reference.report("refers to \(target), an event, which is not kept", expected: "a record or a reference", root, &reading)
            return nil
        }
        return found
    }

    /// Parents go to the hub before their children, so no entity may be its own ancestor. A record that refers to another one of its own
    /// entity (a tree) is fine.
    ///
    /// - Returns: A cycle that starts and ends with the same name.
    private static func circle(_ book: RuleBook) -> [EntityName]? {
        var parents = book.entities.mapValues { Set($0.refs.values) }
        for name in parents.keys { parents[name]?.remove(name) }
        // An entity without a remaining parent cannot be part of a cycle, nor delay its children.
        var wasRemoved = true
        while wasRemoved {
            let roots = parents.filter { $0.value.allSatisfy { parents[$0] == nil } }.keys
            for root in roots { parents[root] = nil }
            wasRemoved = !roots.isEmpty
        }
        // Each remaining entity has a remaining parent, so the path upwards must return to a visited name.
        var path: [EntityName] = []
        var next = parents.keys.min()
        while let name = next {
            if let start = path.firstIndex(of: name) { return path[start...] + [name] }
            path.append(name)
            next = parents[name]?.filter { parents[$0] != nil }.min()
        }
        return nil
    }

    /// Reads the entities file of a hub: the same keys, and `devices`, `groups` and `grants_from`.
    package static func readHub(file path: String) throws(ConfigurationErrors) -> (rules: RuleBook, access: AccessBook) {
        try readHub(.read(path))
    }

    package static func readHub(_ file: ConfigurationFile) throws(ConfigurationErrors) -> (rules: RuleBook, access: AccessBook) {
        let settings = try read(file, hub).value
        return (settings.rules, settings.access)
    }

    /// Reads settings that are in force, or were. What only new settings may not have is no error.
    ///
    /// - Returns: The settings, and why this version would refuse them; none: it would not.
    package static func readHub(
        inForce file: ConfigurationFile
    ) throws(ConfigurationErrors) -> (settings: (rules: RuleBook, access: AccessBook), objections: [ConfigurationError]) {
        let (settings, objections) = try read(file, hub, inForce: true)
        return ((settings.rules, settings.access), objections)
    }

    /// The book as the keys `entities` and `strict_entities`, for agents; unset keys are left out, and those that only a hub needs.
    package static func written(_ rules: RuleBook) -> JSONObject {
        var rules = rules
        for name in rules.entities.keys {
            rules.entities[name]?.declaredScope = nil
            rules.entities[name]?.declaredWrite = nil
            rules.entities[name]?.fieldRights = [:]
            rules.entities[name]?.keepEvents = nil
        }
        var object = JSONObject()
        for member in book.write(rules).object?.members ?? [] where !member.value.isNull {
            object[member.name.text] = withoutNulls(member.value, upTo: 2)
        }
        return object
    }

    /// Removes nulls down to the keys of an entity: those inside a schema belong to it.
    private static func withoutNulls(_ json: JSON, upTo depth: Int) -> JSON {
        guard depth > 0, case .object(let object) = json else { return json }
        var kept = JSONObject()
        for member in object.members where !member.value.isNull {
            kept[member.name.text] = withoutNulls(member.value, upTo: depth - 1)
        }
        return .object(kept)
    }

    private static var book: Format<RuleBook> {
        .mapping(
            RuleBook(), [.key("entities", \.entities, entities), .key("strict_entities", \.isStrict, .boolean)],
            check: checkReferences)
    }

    private static var rules: Format<EntityRules> {
        Format<Draft>.mapping(
            Draft(),
            [
                .key("kind", \.rules.kind, .word),
                .key("refs", \.rules.refs, .dictionary(of: .identifier(), names: fieldName, text: { $0 })),
                .key("priority", \.rules.priority, .priority),
                .key("strategy", \.rules.strategy, .word),
                .key("fields", \.rules.fieldSettings, .dictionary(of: fieldSettings, names: fieldName, text: { $0 })),
                .optional("scope", \.rules.declaredScope, .list(fieldName, upTo: 8)),
                .optional("write", \.rules.declaredWrite, .word),
                .key("critical_fields", \.rules.criticalFields, .list(fieldName)),
                .key("max_len", \.rules.maxLength, .dictionary(of: .integer(1...Limits.documentBytes), names: fieldName, text: { $0 })),
                .key("on_deleted", \.rules.onDeleted, .word),
                .key("seed_filter", \.rules.seedFilter.values, .dictionary(of: seedValue, names: fieldName, text: { $0 })),
                .optional("index", \.rules.declaredIndexes, .list(recordIndex, upTo: RecordIndex.ofEntityMax)),
                .optional("undo", \.rules.declaredUndo, .boolean),
                .optional("keep", \.rules.declaredKeep, keepSetting),
                .optional("files", \.rules.declaredFiles, .word),
                // Not less than 7 days: for this time the agent can give a hub that was restored from a backup the changes that it had
                // acknowledged and then lost.
                .optional("retention", \.rules.retention, .duration(.days(7)...(.days(3_650)))),
                .optional("ttl", \.rules.ttl, .duration(.seconds(1)...(.days(3_650)))),
                .key("when_full", \.rules.whenFull, .word),
                .key("durability", \.rules.durability, .word),
                .key("coalesce", \.rules.coalesces, .boolean),
                .key("history", \.rules.keepsHistory, .boolean),
                .optional("rank", \.rules.rank, .integer(0...100)),
                .optional("schema", \.schema, SchemaKey.format),
                .optional("versions", \.versions, asWritten),
                .optional("accepts", \.accepts, asWritten),
                .optional("app_schema", \.rules.appVersion, .integer(SchemaVersions.range)),
                .key("validate", \.rules.validation, .word),
                .optional("form", \.rules.form, form),
                .optional("complete", \.rules.complete, complete),
                .optional("min_agent", \.rules.minAgent, version),
            ], check: { checkRules($0.rules, $1, &$2) }
        ).mapped(finish, back: Draft.init)
    }

    /// Refuses values that have no effect or the opposite one for this kind of entity. An operator would otherwise rely on them.
    private static func checkRules(_ rules: EntityRules, _ node: YAMLNode, _ reading: inout Reading) {
        func refuse(_ key: String, _ expected: String) {
            reading.inside(key: key) { $0.refuse(node.deepest([key]), expected: expected) }
        }
        if rules.kind != .record {
            let why = rules.kind == .event ? "events are never merged" : "reference data is never changed here"
            if rules.strategy != .fields { refuse("strategy", "it only for a record: " + why) }
            if !rules.fields.isEmpty { refuse("fields", "it only for a record: " + why) }
            if !rules.criticalFields.isEmpty { refuse("critical_fields", "it only for a record: " + why) }
            if !rules.maxLength.isEmpty { refuse("max_len", "it only for a record: " + why) }
            if rules.onDeleted != .deleteWins { refuse("on_deleted", "it only for a record: " + why) }
            let isFirst = rules.kind == .event ? "no device reads events" : "reference data comes first as a whole"
            if rules.keepsEarlierValues { refuse("undo", "it only for a record: " + why) }
            if !rules.seedFilter.isEmpty { refuse("seed_filter", "it only for a record: " + isFirst) }
        }
        if rules.kind == .event, !rules.indexes.isEmpty {
            refuse("index", "it only for a record or reference data: no device reads events")
        }
        if rules.kind == .event, rules.declaredFiles != nil {
            refuse("files", "it only for a record or reference data: no device reads events")
        }
        if let keep = rules.declaredKeep { checkKeep(keep, rules, node, &reading) }
        checkForm(rules, node, &reading)
        if Set(rules.indexes).count < rules.indexes.count { refuse("index", "each index once") }
        if rules.write == .own, !rules.isScoped { refuse("write", "own only where the key scope names a field with the id of a device") }
        if rules.kind == .reference, rules.write != .scope {
            refuse("write", "no such key for reference data, which only the hub changes")
        }
        if Set(rules.scope).count < rules.scope.count { refuse("scope", "each field once") }
        if rules.kind == .reference {
            let expected = "no such key for reference data, which has no mutations"
            if rules.ttl != nil { refuse("ttl", expected) }
            if rules.retention != nil { refuse("retention", expected) }
        }
        if rules.kind != .event {
            if rules.whenFull == .dropOldest { refuse("when_full", "reject: only events may be dropped") }
            if rules.durability == .relaxed { refuse("durability", "flash: only events may be relaxed") }
        }
        if rules.kind != .record, rules.keepsHistory {
            refuse("history", "it only for a record: nothing else has edits that could be made one")
        }
        if rules.kind == .record, rules.strategy != .fields, !rules.fields.isEmpty {
            refuse("fields", "it only with strategy: fields, which is \(rules.strategy.rawValue)")
        }
        if rules.kind == .record { checkFields(rules, node, &reading) }
        if rules.priority == .critical {
            if rules.ttl != nil { refuse("ttl", "no such key with priority: critical, which never expires") }
            if rules.kind == .event, rules.whenFull == .dropOldest {
                refuse("when_full", "reject with priority: critical, which is never dropped")
            }
        }
    }

    /// Refuses fields with two rules, and rules that would never apply.
    private static func checkFields(_ rules: EntityRules, _ node: YAMLNode, _ reading: inout Reading) {
        func refuse(_ path: [String], _ expected: String) {
            reading.inside(key: path[0]) { $0.inside(key: path[1]) { $0.refuse(node.deepest(path), expected: expected) } }
        }
        for field in rules.criticalFields where rules.fields[field].map({ $0 != .manual }) ?? false {
            refuse(["fields", field], "manual, because critical_fields names it")
        }
        for field in rules.maxLength.keys.sorted() where rules.strategy(of: field) != .append {
            refuse(["max_len", field], "only fields with the rule append")
        }
        for field in rules.fields.keys.sorted() {
            // The member of an object only has its own rule where the object is merged member by member.
            guard let dot = field.lastIndex(of: "."), rules.fields[String(field[..<dot])] != .merge else { continue }
            refuse(["fields", field], "the rule merge for \(field[..<dot]), or no rule for a member of it")
        }
    }

    /// The rule of a field, or a mapping with its rule and the right to change it.
    private static var fieldSettings: Format<FieldSettings> {
        let rule = Format<FieldStrategy>.word
        let mapping = Format<FieldSettings>.mapping(
            FieldSettings(), [.optional("strategy", \.strategy, rule), .optional("write", \.right, fieldRight)])
        return Format(
            expected: rule.expected + ", or a mapping with the keys strategy, write",
            read: { node, reading in
                if node.members != nil { return mapping.read(node, &reading) }
                return rule.read(node, &reading).map { FieldSettings(strategy: $0) }
            },
            write: { value in
                guard let right = value.right else { return value.strategy.map(rule.write) ?? .null }
                var object: JSONObject = ["write": .string(right.text)]
                if let strategy = value.strategy { object["strategy"] = rule.write(strategy) }
                return .object(object)
            })
    }

    private static var fieldRight: Format<FieldRight> {
        .text(
            expected: "scope, own, nobody, everybody, or the name of a role", parse: { FieldRight($0) }, write: { .string($0.text) })
    }

    /// A version such as `1.4` or `1.4.2`.
    private static var version: Format<String> {
        .text(
            expected: "a version such as 1.4", parse: { AgentRelease($0) == nil ? nil : $0 }, write: { .string($0) })
    }

    /// Fields such as `site`, or `site,due`.
    private static var recordIndex: Format<RecordIndex> {
        .text(
            expected: "1 to \(RecordIndex.columnsMax) fields with commas between, such as site,due", parse: { RecordIndex($0) },
            write: { .string($0.description) })
    }

    /// The value that a field must have to match a seed filter.
    private static var seedValue: Format<String> {
        .text(
            expected: "a text, or \(SeedFilter.device) for the device that asks", parse: { $0.isEmpty ? nil : $0 }, write: { .string($0) })
    }

    /// A member of a document: any text that can be a key.
    static var fieldName: Format<String> {
        .text(expected: "a field name", parse: { $0 }, write: { .string($0) })
    }
}

extension Format where Value == Priority {
    package static var priority: Format { .word(Priority.allCases.map { ($0.name, $0) }) }
}

extension Duration {
    package static func days(_ count: Int64) -> Duration { .seconds(count * 86_400) }
}
