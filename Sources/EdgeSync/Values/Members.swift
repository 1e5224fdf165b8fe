/// The members of one object of an answer, each asked for by name and type.
///
/// A member that must be there and is not, or is of another type, is a `badAnswer` with its place. A null counts as absent.
/// Unknown members are skipped, because a newer agent may add some.
struct Members {
    let object: JSONObject
    private let place: String

    init(_ value: JSONValue?, _ place: String = "the answer") throws(EdgeSyncError) {
        guard let object = value?.object else { throw .badAnswer("\(place) is not an object") }
        self.object = object
        self.place = place
    }

    func text(_ name: String) throws(EdgeSyncError) -> String { try required(name, optionalText(name)) }
    func number(_ name: String) throws(EdgeSyncError) -> Int { try required(name, optionalNumber(name)) }
    func flag(_ name: String) throws(EdgeSyncError) -> Bool { try required(name, optionalFlag(name)) }
    func inside(_ name: String) throws(EdgeSyncError) -> Members { try Members(object[name], path(name)) }

    func optionalText(_ name: String) throws(EdgeSyncError) -> String? { try typed(name, "text") { $0.string } }
    func optionalFlag(_ name: String) throws(EdgeSyncError) -> Bool? { try typed(name, "true or false") { $0.bool } }
    func document(_ name: String) throws(EdgeSyncError) -> JSONObject? { try typed(name, "an object") { $0.object } }

    func optionalNumber(_ name: String) throws(EdgeSyncError) -> Int? {
        try typed(name, "a whole number") { $0.integer.map { Int($0) } }
    }

    func optionalInside(_ name: String) throws(EdgeSyncError) -> Members? {
        object[name].map(\.isNull) ?? true ? nil : try inside(name)
    }

    /// Each element of a list of objects. An absent list is empty.
    func list<Element>(_ name: String, _ read: (Members) throws(EdgeSyncError) -> Element) throws(EdgeSyncError) -> [Element] {
        let values = try typed(name, "a list") { $0.array } ?? []
        var elements: [Element] = []
        for (index, value) in values.enumerated() { elements.append(try read(try Members(value, "\(path(name))/\(index)"))) }
        return elements
    }

    func texts(_ name: String) throws(EdgeSyncError) -> [String] {
        let values = try typed(name, "a list") { $0.array } ?? []
        let texts = values.compactMap(\.string)
        guard texts.count == values.count else { throw .badAnswer("\(path(name)) is not a list of texts") }
        return texts
    }

    private func path(_ name: String) -> String { "\(place)/\(name)" }

    private func typed<Value>(_ name: String, _ words: String, _ read: (JSONValue) -> Value?) throws(EdgeSyncError) -> Value? {
        guard let value = object[name], !value.isNull else { return nil }
        guard let typed = read(value) else { throw .badAnswer("\(path(name)) is not \(words)") }
        return typed
    }

    private func required<Value>(_ name: String, _ value: Value?) throws(EdgeSyncError) -> Value {
        guard let value else { throw .badAnswer("\(path(name)) is missing") }
        return value
    }
}
