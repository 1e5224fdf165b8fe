/// A field while operations are applied to it, one after the other (``Fold/apply(_:to:replaces:)`` says what each does).
///
/// The first operation costs one look at the field. From the second on, elements of a list are found by an index and text grows in place.
/// So the cost of a mutation with many operations is linear in the size of the field plus the operations, not their product.
final class FieldFold {
    struct Change {
        var isChanged: Bool
        /// Elements of the set that the operation names, before it was applied.
        var found: [JSON] = []
    }

    // Invariant: at most one of the three has a value. They change in place, so this is a class and not an enum: an enum payload that is
    // taken out and put back would be copied.
    private var list: ElementList?
    /// The source text of a JSON string.
    private var text: String?
    private var plain: JSON?
    /// The addressed member cannot exist: `plain` holds the value that stands in its way.
    private let isBlocked: Bool

    /// - Parameter value: `nil` when the document has no such field.
    init(_ value: JSON?) {
        isBlocked = false
        set(value)
    }

    /// A member below a value that is no object. No operation fits it.
    init(below blocker: JSON) {
        isBlocked = true
        plain = blocker
    }

    private func set(_ value: JSON?) {
        (list, text, plain) = (Optional.none, Optional.none, Optional.none)
        switch value {
        case .array(let elements)?: list = ElementList(elements)
        case .string(let string)?: text = string.source
        case nil, .null?, .bool?, .number?, .object?: plain = value
        }
    }

    /// Linear in a list that elements were removed from.
    var value: JSON? {
        if let list { return .array(list.elements) }
        if let text { return .string(JSONString(validSource: text)) }
        return plain
    }

    /// Missing or null.
    var isNothing: Bool { list == nil && text == nil && plain?.isNull ?? true }

    var isMissing: Bool {
        guard list == nil, text == nil, case .none = plain else { return isBlocked }
        return true
    }

    var isList: Bool { list != nil }

    func fits(_ operation: FieldOperation) -> Bool {
        if isBlocked { return false }
        return list == nil ? Fold.fits(operation, value) : [.append, .add, .remove].contains(operation.kind)
    }

    /// - Parameter replaces: `true` when an element of a set takes the place of one with the same `id`.
    func apply(_ operation: FieldOperation, replaces: Bool = true) -> Change {
        if isBlocked { return Change(isChanged: false) }
        switch operation.kind {
        case .append where list != nil:
            let more = operation.value.array ?? [operation.value]
            for element in more { list?.append(element) }
            return Change(isChanged: !more.isEmpty)
        case .append where text != nil:
            guard case .string(let more) = operation.value else { return Change(isChanged: false) }
            text?.append(more.source)
            return Change(isChanged: !more.source.isEmpty)
        case .add where list != nil:
            let key = SetElement.key(operation.value)
            let places = list?.places(of: key) ?? []
            let found = places.compactMap { list?[$0] }
            guard let first = places.first else {
                list?.append(operation.value)
                return Change(isChanged: true)
            }
            guard replaces, found[0] != operation.value else { return Change(isChanged: false, found: found) }
            list?[first] = operation.value
            return Change(isChanged: true, found: found)
        case .remove where list != nil:
            let key = SetElement.key(operation.value)
            let places = list?.places(of: key) ?? []
            let found = places.compactMap { list?[$0] }
            list?.remove(key, at: places)
            return Change(isChanged: !places.isEmpty, found: found)
        case .append, .add, .remove, .increment, .max, .min:
            let before = value
            set(Fold.apply(operation, to: before, replaces: replaces))
            return Change(isChanged: value != before)
        }
    }

    /// Elements of a list with that key; empty for any other value.
    func elements(of key: JSON) -> [JSON] {
        (list?.places(of: key) ?? []).compactMap { list?[$0] }
    }
}

/// The elements of a list, found by their key (``SetElement``): the first time by a search, later by an index.
struct ElementList {
    /// The elements, with gaps where some were removed.
    private var slots: [JSON]
    private var gaps: Set<Int> = []
    /// Place of the first element by key; `nil`: not built yet. The places of repeated elements, which a set does not have, are in
    /// `repeated`.
    private var index: [JSON: Int]?
    private var repeated: [JSON: [Int]] = [:]
    private var searches = 0

    init(_ elements: [JSON]) {
        slots = elements
    }

    var elements: [JSON] {
        if gaps.isEmpty { return slots }
        JSONWork.count(slots.count)
        return slots.indices.filter { !gaps.contains($0) }.map { slots[$0] }
    }

    /// - Precondition: `place` came from ``places(of:)``; the key of the element stays.
    subscript(place: Int) -> JSON {
        get { slots[place] }
        set { slots[place] = newValue }
    }

    /// The places of the elements with that key, in order.
    mutating func places(of key: JSON) -> [Int] {
        searches += 1
        if searches == 1 {
            JSONWork.count(slots.count)
            return slots.indices.filter { SetElement.key(slots[$0]) == key }
        }
        if index == nil { makeIndex() }
        JSONWork.count(1)
        guard let first = index?[key] else { return [] }
        return [first] + (repeated[key] ?? [])
    }

    mutating func append(_ element: JSON) {
        slots.append(element)
        if index != nil { addToIndex(slots.count - 1) }
    }

    /// - Parameter places: All places that ``places(of:)`` returned for the key.
    mutating func remove(_ key: JSON, at places: [Int]) {
        if places.isEmpty { return }
        index?[key] = nil
        repeated[key] = nil
        guard index != nil else {
            for place in places.reversed() { slots.remove(at: place) }
            return
        }
        for place in places {
            gaps.insert(place)
            slots[place] = .null
        }
    }

    private mutating func makeIndex() {
        JSONWork.count(slots.count)
        index = [:]
        index?.reserveCapacity(slots.count)
        // There are no gaps here: without an index, elements are removed at once.
        for place in slots.indices { addToIndex(place) }
    }

    private mutating func addToIndex(_ place: Int) {
        let key = SetElement.key(slots[place])
        if index?[key] == nil {
            index?[key] = place
        } else {
            repeated[key, default: []].append(place)
        }
    }
}

/// A document while operations are applied to its fields. It is not copyable, because a copy would share its fields.
struct DocumentFold: ~Copyable {
    private var document: JSONObject
    /// Keyed by `JSONString`: `String` treats two names as equal that differ only in their Unicode normalisation.
    private var open: [JSONString: FieldFold] = [:]
    /// Entries of ``open`` that are members of objects and have a value, in the order in which they appeared.
    private var members: [(name: JSONString, path: [String])] = []
    /// By name, `true` when all `max` and `min` operations on it so far had no effect. `extremes` holds the names in their order.
    private var isKept: [JSONString: Bool] = [:]
    private var extremes: [JSONString] = []

    init(_ document: JSONObject) {
        self.document = document
    }

    /// The field in its present state.
    mutating func field(of operation: FieldOperation) -> FieldFold {
        let key = JSONString(operation.field)
        if let field = open[key] { return field }
        let field: FieldFold
        if operation.path.isEmpty {
            field = FieldFold(document[operation.field])
        } else {
            let (value, blocker) = document.member(at: operation.path)
            field = blocker.map { FieldFold(below: $0) } ?? FieldFold(value)
            if !field.isMissing { members.append((key, operation.path)) }
        }
        open[key] = field
        return field
    }

    @discardableResult
    mutating func apply(_ operation: FieldOperation, replaces: Bool = true) -> FieldFold.Change {
        let field = field(of: operation)
        let wasMissing = field.isMissing
        let change = field.apply(operation, replaces: replaces)
        // A member keeps the place of its first value.
        if wasMissing, !field.isMissing {
            if operation.path.isEmpty {
                document[operation.field] = JSON.null
            } else {
                members.append((JSONString(operation.field), operation.path))
                if case .none = document[operation.top] { document[operation.top] = .object([:]) }
            }
        }
        if operation.kind == .max || operation.kind == .min { recordExtreme(operation, change, field) }
        return change
    }

    private mutating func recordExtreme(_ operation: FieldOperation, _ change: FieldFold.Change, _ field: FieldFold) {
        let name = JSONString(operation.field)
        if isKept[name] == nil { extremes.append(name) }
        isKept[name] = isKept[name] != false && !change.isChanged && field.value != operation.value
    }

    /// See ``Fold/kept(by:on:)``.
    var kept: JSONObject {
        extremes.reduce(into: [:]) { kept, name in
            if isKept[name] == true, let value = open[name]?.value { kept[name.text] = value }
        }
    }

    /// The document with all operations applied.
    var result: JSONObject {
        var result = document
        let below = Set(members.map(\.name))
        for (name, field) in open where !field.isMissing && !below.contains(name) { result[name.text] = field.value }
        return members.isEmpty ? result : result.setting(members.compactMap { name, path in open[name]?.value.map { (path[...], $0) } })
    }
}
