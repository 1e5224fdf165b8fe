/// Resolves the dotted name in a rule or an operation (PROTOCOL D2).
///
/// `details.size` is the member `size` of `details` where `details` is under `merge`; the shortest name in front of a dot decides.
/// Otherwise it is a field of the document that has a dot in its name. A member whose own name has a dot cannot be addressed.
extension EntityRules {
    enum Place: Hashable {
        case field
        /// The names from the field down to the member.
        case member([String])
        /// The place is in a merged object, but below an object that is not merged, or deeper than ``ThreeWay/depthMax``.
        case beyond
    }

    func place(of name: String) -> Place {
        guard strategy == .fields, let top = mergedField(before: name) else { return .field }
        let rest = name.utf8.dropFirst(top.utf8.count + 1)
        let names = rest.split(separator: UInt8(ascii: "."), maxSplits: ThreeWay.depthMax, omittingEmptySubsequences: false)
        guard names.count <= ThreeWay.depthMax else { return .beyond }
        var path = [top]
        var place = top
        for (index, name) in names.enumerated() {
            path.append(String(Substring(name)))
            place += "." + path[index + 1]
            // An object without a rule of its own is merged like the object around it.
            if index < names.count - 1, criticalFields.contains(place) || fields[place] ?? .merge != .merge { return .beyond }
        }
        return .member(path)
    }

    private func mergedField(before name: String) -> String? {
        var top: String?
        for (field, rule) in fields where rule == .merge && strategy(of: field) == .merge {
            let length = field.utf8.count
            guard name.utf8.starts(with: field.utf8), name.utf8.dropFirst(length).first == UInt8(ascii: ".") else { continue }
            if top.map({ length < $0.utf8.count }) ?? true { top = field }
        }
        return top
    }

    /// Places of sets: fields under `set`, and members under `set` of merged objects.
    var setPlaces: [(name: String, path: [String])] {
        guard strategy == .fields else { return [] }
        return fields.keys.compactMap { name in
            guard strategy(of: name) == .set else { return nil }
            switch place(of: name) {
            case .field: return (name, [name])
            case .member(let path): return (name, path)
            case .beyond: return nil
            }
        }
    }
}

extension FieldStrategy {
    /// The operations that express a change under this rule.
    var operations: [FieldOperation.Kind] {
        switch self {
        case .counter: [.increment]
        case .append: [.append]
        case .set: [.add, .remove]
        case .max: [.max]
        case .min: [.min]
        case .lww, .server, .client, .merge, .manual: []
        }
    }
}

extension MutationContent {
    /// The same content with each operation on a member of a merged object resolved to that member. The agent and the hub call this before
    /// anything else on content that arrives. Without it, a name with dots is a field of the document.
    ///
    /// - Throws: `validation` with the pointer `/ops/N/field` when no rule of the member has that operation.
    package func placed(under rules: EntityRules) throws(Problem) -> MutationContent {
        guard !operations.isEmpty, rules.mergesObjects else { return self }
        var result = self
        for (index, operation) in operations.enumerated() {
            switch rules.place(of: operation.field) {
            case .field: result.operations[index].path = []
            case .member(let path) where rules.strategy(of: operation.field).operations.contains(operation.kind):
                result.operations[index].path = path
            case .member, .beyond:
                let word = operation.kind.rawValue
                throw Self.misplaced(index, "no rule of a member \(operation.field.prefix(Self.shownMax)) of a merged object has \(word)")
            }
        }
        let wholes = Set(result.operations.lazy.filter(\.path.isEmpty).map { JSONString($0.field) })
        if let index = result.operations.firstIndex(where: { !$0.path.isEmpty && wholes.contains(JSONString($0.top)) }) {
            let operation = result.operations[index]
            throw Self.misplaced(index, "\(operation.top.prefix(Self.shownMax)) has an operation as a whole in the same mutation")
        }
        return result
    }

    private static let shownMax = 64

    private static func misplaced(_ index: Int, _ detail: String) -> Problem {
        let pointer = "/ops/\(index)/field"
        return Problem("validation", status: 422, detail: "\(pointer): \(detail)", errors: [.init(pointer, detail)])
    }

    /// The same content with every element of a set once. Of elements with the same key, the first one stays in its place.
    ///
    /// - Parameter folded: Receives the names of the fields that had repeated elements.
    package func withSetsFolded(under rules: EntityRules, _ folded: inout [String]) -> MutationContent {
        if data.isEmpty { return self }
        var result = self
        for (_, path) in rules.setPlaces.sorted(by: { $0.name < $1.name }) {
            guard let elements = data.member(at: path).value?.array, let once = SetElement.once(elements) else { continue }
            result.data = result.data.setting([(path[...], .array(once))])
            folded.append(path[0])
        }
        return result
    }

    package func withSetsFolded(under rules: EntityRules) -> MutationContent {
        var folded: [String] = []
        return withSetsFolded(under: rules, &folded)
    }
}

extension FieldOperation {
    /// The value that the operation applies to: that of its field, or of the resolved member.
    package func target(in document: JSONObject?) -> JSON? {
        guard let document else { return Optional.none }
        return path.isEmpty ? document[field] : document.member(at: path).value
    }
}

extension JSONObject {
    /// The value at a path of member names.
    ///
    /// - Returns: The value, and in `blocker` a value on the way to it that is no object. A missing or null value on the way counts as an
    ///   empty object.
    func member(at path: [String]) -> (value: JSON?, blocker: JSON?) {
        var object = self
        for name in path.dropLast() {
            switch object[name] {
            case nil, .null?: return (Optional.none, Optional.none)
            case .object(let inner)?: object = inner
            case let other?: return (Optional.none, other)
            }
        }
        return (path.last.flatMap { object[$0] }, Optional.none)
    }

    /// The same object with members of members set; each object on the way is copied once. A value on the way that is no object becomes
    /// one.
    func setting(_ values: [(path: ArraySlice<String>, value: JSON)]) -> JSONObject {
        var result = self
        var order: [JSONString] = []
        var below: [JSONString: [(path: ArraySlice<String>, value: JSON)]] = [:]
        for (path, value) in values {
            guard let name = path.first else { continue }
            if path.count == 1 {
                result[name] = value
                continue
            }
            let key = JSONString(name)
            if below[key] == nil { order.append(key) }
            below[key, default: []].append((path.dropFirst(), value))
        }
        for key in order {
            let inner = result[key.text]?.object ?? [:]
            result[key.text] = .object(inner.setting(below[key] ?? []))
        }
        return result
    }
}
