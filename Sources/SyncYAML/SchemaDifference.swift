import SyncCore

/// The difference between two JSON schemas, as far as it is simple to tell which one allows more: keyword by keyword, without conditions
/// and combinations.
struct SchemaDifference {
    /// The parts that are allowed no more, in words such as `title is required`.
    private(set) var stricter: [String] = []
    /// The parts that are allowed from now on.
    private(set) var looser: [String] = []
    /// Places where something changed in a way that cannot be told simply.
    private(set) var unclear: [String] = []

    init(from old: JSON, to new: JSON) {
        compare(old, new, at: "")
    }

    private mutating func compare(_ old: JSON, _ new: JSON, at place: String) {
        if old == new { return }
        guard let before = old.object, let after = new.object else { return unclear.append(Self.named(place)) }
        for name in Self.names(before, after) {
            let (old, new) = (before[name], after[name])
            if old == new || Self.notes.contains(name) { continue }
            switch name {
            case "properties": compareMembers(old?.object ?? [:], new?.object ?? [:], at: place)
            case "required": compareRequired(old, new, at: place)
            case "enum", "type": compareChoices(name, old, new, at: place)
            case "items" where old != nil && new != nil: compare(old ?? .null, new ?? .null, at: place + "[]")
            case "additionalProperties": compareOpenness(old, new, at: place)
            default: compareLimit(name, old, new, at: place)
            }
        }
    }

    /// Names of members in the order of their bytes, each once.
    private static func names(_ first: JSONObject, _ second: JSONObject) -> [String] {
        var found: [String] = []
        for name in (first.members + second.members).map(\.name.text).sorted(by: { precedesInBytes($0, $1) })
        where found.last.map({ !sameBytes($0, name) }) ?? true {
            found.append(name)
        }
        return found
    }

    /// Keywords that judge nothing.
    private static let notes = [
        "title", "description", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly", "$schema", "$id",
    ]

    private static func named(_ place: String) -> String { place.isEmpty ? "the document" : place }

    private func below(_ place: String, _ name: String) -> String { place.isEmpty ? name : "\(place).\(name)" }

    private mutating func compareMembers(_ old: JSONObject, _ new: JSONObject, at place: String) {
        for name in Self.names(old, new) {
            switch (old[name], new[name]) {
            case (let before?, let after?): compare(before, after, at: below(place, name))
            case (nil, _?): stricter.append("\(below(place, name)) is checked")
            case (_?, nil): unclear.append(below(place, name))
            case (nil, nil): break
            }
        }
    }

    private mutating func compareRequired(_ old: JSON?, _ new: JSON?, at place: String) {
        let (before, after) = (Self.elements(old), Self.elements(new))
        stricter += after.filter { !before.contains($0) }.map { "\(below(place, $0.text ?? "")) is required" }
        looser += before.filter { !after.contains($0) }.map { "\(below(place, $0.text ?? "")) is not required" }
    }

    private static func elements(_ json: JSON?) -> [JSON] { json.map { $0.array ?? [$0] } ?? [] }

    private mutating func compareChoices(_ keyword: String, _ old: JSON?, _ new: JSON?, at place: String) {
        let (before, after, name) = (Self.elements(old), Self.elements(new), Self.named(place))
        let word = keyword == "enum" ? "the value" : "the type"
        if old == nil { return stricter.append("\(name) must be one of \(Self.listed(after))") }
        if new == nil { return looser.append("\(name) may be anything") }
        let (gone, added) = (before.filter { !after.contains($0) }, after.filter { !before.contains($0) })
        if !gone.isEmpty { stricter.append("\(name) may not have \(word) \(Self.listed(gone))") }
        if !added.isEmpty { looser.append("\(name) may have \(word) \(Self.listed(added))") }
    }

    private static func listed(_ values: [JSON]) -> String {
        let shown = values.prefix(8).map { printable($0.text ?? $0.json, limit: 60) }.joined(separator: ", ")
        return values.count > 8 ? shown + " and \(values.count - 8) more" : shown
    }

    private mutating func compareOpenness(_ old: JSON?, _ new: JSON?, at place: String) {
        switch (old?.bool ?? (old == nil ? true : nil), new?.bool ?? (new == nil ? true : nil)) {
        case (true?, false?): stricter.append("\(Self.named(place)) may have no other fields")
        case (false?, true?): looser.append("\(Self.named(place)) may have other fields")
        case (_?, _?), (nil, _), (_, nil): unclear.append(Self.named(place))
        }
    }

    private static let largest = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"]
    private static let smallest = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"]
    /// Keywords that only ever forbid.
    private static let rules = [
        "pattern", "format", "const", "multipleOf", "items", "propertyNames", "contains", "uniqueItems", "allOf", "not",
    ]

    private mutating func compareLimit(_ keyword: String, _ old: JSON?, _ new: JSON?, at place: String) {
        let isLargest = Self.largest.contains(keyword)
        guard isLargest || Self.smallest.contains(keyword) || Self.rules.contains(keyword) else { return unclear.append(Self.named(place)) }
        let name = Self.named(place)
        let value = new.map { " " + printable($0.text ?? $0.json, limit: 60) } ?? ""
        switch (old, new) {
        case (nil, _?): stricter.append("\(name) must fit \(keyword)\(value)")
        case (_?, nil): looser.append("\(name) has no \(keyword) any more")
        case (.number(let before)?, .number(let after)?) where !Self.rules.contains(keyword):
            if isLargest == (after < before) {
                stricter.append("\(name) must fit \(keyword)\(value)")
            } else {
                looser.append("\(name) has the \(keyword)\(value)")
            }
        case (_?, _?), (nil, nil): unclear.append(name)
        }
    }
}
