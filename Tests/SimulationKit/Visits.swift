import HubServer
import SyncCore

/// The entity whose schema has versions, and the settings that the office gives to the hub.
///
/// | field | version 1 | version 2 | version 3 |
/// |---|---|---|---|
/// | where | `site` | `place` | `place` |
/// | `grade` | minor, major | the same, or low, high | low, high |
/// | `kind` | | plain unless written, or not there | the same |
/// | `label` | a text | a text | a list |
/// | `legacy` | a text | a text | not there, or a text |
/// | `size` | any number | any number | at most 100 |
///
/// The fields `t`, `n` and `a`, which every entity has, stay as they are.
enum Visits {
    static let entity = EntityName(trusted: "visits")
    static let versions = 1...3
    static let sizeMax: Int64 = 100

    static var rules: EntityRules {
        var rules = EntityRules()
        rules.fields = ["n": .counter, "a": .append]
        return rules
    }
}

/// One step between two versions of a schema, as plain as in PROTOCOL D7. It shares no code with `SchemaStep`.
enum ShapeChange: Hashable, Sendable {
    case renamed(String, to: String)
    case filled(String, String)
    case mapped(String, [String: String])
    case listed(String)
    case dropped(String)

    /// The step in the settings of the entity.
    var json: JSON {
        switch self {
        case .renamed(let old, let new): ["rename": .object([old: .string(new)])]
        case .filled(let field, let value): ["default": .object([field: .string(value)])]
        case .mapped(let field, let names):
            ["values": .object([field: .object(names.sorted { $0.key < $1.key }.reduce(into: [:]) { $0[$1.key] = .string($1.value) })])]
        case .listed(let field): ["wrap": .string(field)]
        case .dropped(let field): ["drop": .string(field)]
        }
    }

    // MARK: Documents

    func up(_ document: inout JSONObject) {
        switch self {
        case .renamed(let old, let new): (document[old], document[new]) = (document[new], document[old])
        case .filled(let field, let value): if document[field] == nil || document[field] == .null { document[field] = .string(value) }
        case .mapped(let field, let names): Self.replace(&document, field, names)
        case .listed(let field): Self.list(&document, field)
        case .dropped(let field): document[field] = nil
        }
    }

    func down(_ document: inout JSONObject) {
        switch self {
        case .renamed(let old, let new): (document[old], document[new]) = (document[new], document[old])
        case .filled(let field, _): document[field] = nil
        case .mapped(let field, let names):
            Self.replace(&document, field, Dictionary(uniqueKeysWithValues: names.map { ($0.value, $0.key) }))
        case .listed(let field): if let list = document[field]?.array { document[field] = list.first }
        case .dropped: break
        }
    }

    private static func replace(_ document: inout JSONObject, _ field: String, _ names: [String: String]) {
        if let name = document[field]?.text, let other = names[name] { document[field] = .string(other) }
    }

    private static func list(_ document: inout JSONObject, _ field: String) {
        if let value = document[field], value != .null, value.array == nil { document[field] = [value] }
    }

    // MARK: Changes

    /// The same change of a record, as it would have been written in the next version.
    func up(_ content: inout MutationContent) {
        if content.action == .delete { return }
        switch self {
        case .renamed(let old, let new):
            up(&content.data)
            up(&content.base)
            let stamps = (content.stamps[JSONString(old)], content.stamps[JSONString(new)])
            (content.stamps[JSONString(new)], content.stamps[JSONString(old)]) = stamps
            content.unset = content.unset.map { $0 == old ? new : $0 == new ? old : $0 }
        case .filled(let field, let value):
            let isRemoved = content.unset.contains(field)
            content.unset.removeAll { $0 == field }
            let isNew = content.action == .create && content.data[field] == nil && !isRemoved
            if isRemoved || isNew || content.data[field] == .null { content.data[field] = .string(value) }
            // Every real write is later.
            if isNew { content.stamps[JSONString(field)] = Self.never }
            if content.action == .create, !content.base.isEmpty, content.base[field] == nil { content.base[field] = .string(value) }
        case .mapped, .listed:
            up(&content.data)
            up(&content.base)
        case .dropped(let field):
            content.data[field] = nil
            content.base[field] = nil
            content.stamps[JSONString(field)] = nil
            content.unset.removeAll { $0 == field }
        }
    }

    static let never = HybridTime(milliseconds: 0, counter: 0, node: "0")

    // MARK: Records of the model

    func up(_ record: inout RuleModel.Record) {
        switch self {
        case .renamed(let old, let new): rename(&record, old, new)
        case .filled(let field, let value):
            if let value = record.fields[field]?.value, value != .null { return }
            let write = RuleModel.Write(version: 0, device: .hub, at: Self.never)
            var filled = record.fields[field] ?? RuleModel.Field(value: nil, by: [write], at: write.at)
            filled.value = .string(value)
            record.fields[field] = filled
        case .mapped(let field, _), .listed(let field): change(&record, field) { up(&$0) }
        case .dropped(let field): record.fields[field] = nil
        }
    }

    func down(_ record: inout RuleModel.Record) {
        switch self {
        case .renamed(let old, let new): rename(&record, old, new)
        case .filled(let field, _): record.fields[field] = nil
        case .mapped(let field, _), .listed(let field): change(&record, field) { down(&$0) }
        case .dropped: break
        }
    }

    private func change(_ record: inout RuleModel.Record, _ field: String, _ body: (inout JSONObject) -> Void) {
        guard let value = record.fields[field]?.value else { return }
        var alone: JSONObject = [field: value]
        body(&alone)
        record.fields[field]?.value = alone[field]
    }

    private func rename(_ record: inout RuleModel.Record, _ old: String, _ new: String) {
        (record.fields[old], record.fields[new]) = (record.fields[new], record.fields[old])
        for index in record.changes.indices {
            record.changes[index].fields = record.changes[index].fields.map { $0 == old ? new : $0 == new ? old : $0 }
        }
        for device in record.seen.keys {
            var seen = record.seen[device] ?? [:]
            (seen[old], seen[new]) = (seen[new], seen[old])
            record.seen[device] = seen
        }
    }

    // MARK: Names

    /// The name of a field in the older version; `nil` if that version lacks the field.
    func older(_ field: String) -> String? {
        switch self {
        case .renamed(let old, let new): field == new ? old : field == old ? new : field
        case .filled(let filled, _): field == filled ? nil : field
        case .mapped, .listed, .dropped: field
        }
    }

    func newer(_ field: String) -> String? {
        switch self {
        case .renamed(let old, let new): field == old ? new : field == new ? old : field
        case .dropped(let dropped): field == dropped ? nil : field
        case .mapped, .listed, .filled: field
        }
    }
}

/// The versions of ``Visits`` in one history.
struct VisitShapes: Hashable, Sendable {
    /// No value is lost on the way to any version and back.
    let isLossless: Bool

    /// The steps from the version before.
    func changes(to version: Int) -> [ShapeChange] {
        let grades = ShapeChange.mapped("grade", ["minor": "low", "major": "high"])
        switch (version, isLossless) {
        case (2, true): return [.renamed("site", to: "place"), grades]
        case (2, false): return [.renamed("site", to: "place"), .filled("kind", "plain")]
        case (3, true): return [.listed("label")]
        case (3, false): return [grades, .listed("label"), .dropped("legacy")]
        default: return []
        }
    }

    private func changes(from old: Int, to new: Int) -> [ShapeChange] {
        old < new ? (old + 1...new).flatMap { changes(to: $0) } : []
    }

    /// A document of one version in another one, in either direction.
    func document(_ document: JSONObject, from old: Int, to new: Int) -> JSONObject {
        var document = document
        for change in changes(from: old, to: new) { change.up(&document) }
        for change in changes(from: new, to: old).reversed() { change.down(&document) }
        return document
    }

    func lifted(_ content: MutationContent, from old: Int, to new: Int) -> MutationContent {
        var content = content
        for change in changes(from: old, to: new) { change.up(&content) }
        return content
    }

    func convert(_ record: inout RuleModel.Record, from old: Int, to new: Int) {
        for change in changes(from: old, to: new) { change.up(&record) }
        for change in changes(from: new, to: old).reversed() { change.down(&record) }
    }

    /// - Returns: `nil` if the other version lacks the field.
    func name(_ field: String, from old: Int, to new: Int) -> String? {
        var name: String? = field
        for change in changes(from: old, to: new) { name = name.flatMap { change.newer($0) } }
        for change in changes(from: new, to: old).reversed() { name = name.flatMap { change.older($0) } }
        return name
    }

    /// The fault of a document of this version; `nil` if it has none.
    func fault(_ document: JSONObject, _ version: Int) -> String? {
        for name in [version == 1 ? "place" : "site"] + (hasKind(version) ? [] : ["kind"]) + (hasLegacy(version) ? [] : ["legacy"])
        where document[name] != nil {
            return "it has \(name)"
        }
        if let grade = document["grade"], !grades(version).contains(grade.text ?? "") { return "its grade is \(grade.json)" }
        if let label = document["label"], (label.array != nil) != (version == 3) { return "its label is \(label.json)" }
        return nil
    }

    func hasKind(_ version: Int) -> Bool { version > 1 && !isLossless }
    func hasLegacy(_ version: Int) -> Bool { version < 3 || isLossless }
    func grades(_ version: Int) -> [String] { version < (isLossless ? 2 : 3) ? ["minor", "major"] : ["low", "high"] }

    // MARK: Settings

    /// The settings of the entity in one version, as a product owner writes them.
    func settings(_ present: Int, accepts: [Int]) -> JSONObject {
        var versions: JSONObject = [:]
        for version in Visits.versions where version <= present {
            var members: JSONObject = ["schema": .object(["properties": .object(properties(version))])]
            if version > 1 { members["up"] = .array(changes(to: version).map(\.json)) }
            versions["\(version)"] = .object(members)
        }
        return ["schema": .int(Int64(present)), "versions": .object(versions), "accepts": .array(accepts.map { .int(Int64($0)) })]
    }

    private func properties(_ version: Int) -> JSONObject {
        [
            version == 1 ? "site" : "place": ["type": "string"], "grade": ["enum": .list(grades(version))],
            "label": ["type": version == 3 ? "array" : "string"],
            "size": version == 3 ? ["maximum": .int(Visits.sizeMax)] : ["type": "integer"],
        ]
    }
}

/// The office: its messages to the hub, and the readers of the hub and the agents.
struct SchemaOffice: Sendable {
    let shapes: VisitShapes

    init(_ scenario: Scenario) {
        shapes = VisitShapes(isLossless: scenario.seed.isMultiple(of: 2))
    }

    /// The text of settings: the present version, and the accepted ones.
    static func text(_ present: Int, accepts: [Int]) -> String { "\(present) \(accepts.map { "\($0)" }.joined(separator: ","))" }

    /// The reader of a hub for its file of entities.
    var reader: EntityReader {
        { text, _ in
            let parts = text.split(separator: " ")
            guard parts.count == 2, let present = Int(parts[0]) else { return .failure(EntityFault("no settings: \(text)")) }
            let settings = shapes.settings(present, accepts: parts[1].split(separator: ",").compactMap { Int($0) })
            guard let rules = Self.rules(settings, ofHub: true) else { return .failure(EntityFault("no versions: \(text)")) }
            let config = HubConfiguration(["entities": .object([Visits.entity.text: .object(settings)])])
            return .success(HubEntities(rules: rules, access: AccessBook(), config: config))
        }
    }

    static func rules(_ settings: JSONObject, ofHub: Bool) -> RuleBook? {
        var book = Entities.rules(ofHub: ofHub, Entities.Extras(sharesOut: false, changesSchemas: true, keeps: false))
        guard let present = settings["schema"]?.int,
            let versions = try? SchemaVersions(reading: Int(present), versions: settings["versions"], accepts: settings["accepts"])
        else { return nil }
        book.entities[Visits.entity]?.versions = versions
        return book
    }
}

/// The content of the hub's settings at a moment, for the oracle.
struct SchemaState: Hashable, Sendable {
    var present = 1
    var accepts = [1]
    /// Versions of the form that the hub has.
    var forms: Set<Int> = []
}
