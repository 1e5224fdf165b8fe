/// Judges one value by the schemas of a ``JSONSchema``.
///
/// It works in two ways. The quick way stops at the first fault and only knows that there is one. The thorough way collects faults and
/// their texts. In `anyOf` and `oneOf` it judges each schema once and forgets the faults again when one of them fits, so that it is never
/// more than a constant slower, however they are nested.
struct SchemaJudge {
    /// The rules that are looked at.
    enum Extent {
        case everything
        /// Only rules between several members of an object, and rules that hold under a condition. Rules of one member are passed over.
        case betweenMembers
    }

    private enum Step {
        case member(JSONString)
        case element(Int)
    }

    let nodes: [SchemaNode]
    let nullIsMissing: Bool
    private let extent: Extent
    private let base: String
    private let faultsMax: Int
    private var stepsLeft = JSONSchema.stepsMax
    private var level = 0
    private var isCollecting: Bool
    /// Number of conditions and combinations around the present schema.
    private var conditions = 0
    private var path: [Step] = []
    private(set) var faults: [SchemaFault] = []

    /// The value was not judged to the end, so the answers since then mean nothing.
    var isExhausted: Bool { stepsLeft < 0 }
    /// Number of steps so far.
    var steps: Int { JSONSchema.stepsMax - stepsLeft }

    /// - Parameter pointer: The place of the value, when faults are to be collected.
    init(
        _ schema: JSONSchema, _ nullIsMissing: Bool, _ extent: Extent, collecting pointer: String? = nil,
        faultsMax: Int = SchemaJudgement.faultsMax
    ) {
        nodes = schema.nodes
        self.nullIsMissing = nullIsMissing
        self.extent = extent
        self.faultsMax = faultsMax
        base = pointer ?? ""
        isCollecting = pointer != nil
    }

    // MARK: - Steps and faults

    /// - Returns: `false` when it has taken too many.
    mutating func spend(_ steps: Int = 1) -> Bool {
        stepsLeft -= steps
        return stepsLeft >= 0
    }

    /// Steps of comparing or hashing a whole value, which costs several ordinary steps for each value in it.
    mutating func spend(comparing value: JSON) -> Bool {
        guard spend(8) else { return false }
        switch value {
        case .null, .bool: return true
        case .number(let number): return spend(number.source.utf8.count / 16)
        case .string(let string): return spend(string.source.utf8.count / 64)
        case .array(let elements):
            for element in elements { guard spend(comparing: element) else { return false } }
        case .object(let object):
            for member in object.members { guard spend(comparing: member.value) else { return false } }
        }
        return true
    }

    mutating func matches(_ pattern: LinearPattern, _ text: String) -> Bool {
        pattern.matches(text, steps: &stepsLeft)
    }

    /// Rules of single members are not looked at here.
    var passesOverPlainRules: Bool { extent == .betweenMembers && conditions == 0 }

    /// Returns whether to look for another fault of the same value.
    var goesOn: Bool { isCollecting && faults.count < faultsMax && !isExhausted }

    /// Notes a fault.
    ///
    /// - Parameter name: The member that the fault is about, if it is not about the present value.
    mutating func fault(
        _ schema: Int, _ keyword: String, at name: JSONString? = nil, distance: Int = 1,
        _ detail: @autoclosure () -> String
    ) {
        // A text costs more than a step.
        guard isCollecting, faults.count < faultsMax, spend(16) else { return }
        let pointer = pointer + (name.map { "/" + JSONPointer.escaped($0.text) } ?? "")
        faults.append(
            SchemaFault(pointer: pointer, detail: detail(), schema: schema, keyword: keyword, distance: distance))
    }

    private var pointer: String {
        path.reduce(into: base) { text, step in
            switch step {
            case .member(let name): text += "/" + JSONPointer.escaped(name.text)
            case .element(let index): text += "/\(index)"
            }
        }
    }

    // MARK: - Schemas

    /// - Returns: `true` when the value fits the schema.
    mutating func judge(_ number: Int, _ value: JSON) -> Bool {
        guard spend(), level < JSONSchema.levelsMax else {
            stepsLeft = min(stepsLeft, -1)
            return false
        }
        let node = nodes[number]
        var isFine = true
        if passesOverPlainRules, !path.isEmpty {
            // A value of another kind breaks a plain rule, which is not what is asked here.
            guard node.bindsMembers, node.kinds.isEmpty || node.kinds.admits(value) else { return true }
        } else {
            if let verdict = node.verdict {
                if !verdict { fault(number, "false", distance: 32, "is not allowed") }
                return verdict
            }
            if !node.kinds.isEmpty, !node.kinds.admits(value) {
                fault(number, "type", distance: 64, "must be of type \(node.kinds.text), found \(value.found)")
                return false
            }
            isFine = fitsList(node, number, value)
        }
        guard isFine || goesOn else { return false }
        level += 1
        defer { level -= 1 }
        switch value {
        case .number(let found):
            if let rules = node.numbers, !fits(rules, number, found) { isFine = false }
        case .string(let string):
            if let rules = node.texts, !fits(rules, number, string) { isFine = false }
        case .array(let elements):
            if let rules = node.lists, !fits(rules, number, elements) { isFine = false }
        case .object(let object):
            if let rules = node.objects, !fits(rules, number, object) { isFine = false }
        case .null, .bool: break
        }
        guard isFine || goesOn else { return false }
        if let parts = node.parts, !fits(parts, number, value) { isFine = false }
        return isFine
    }

    /// Judges the value of a member.
    mutating func judge(_ number: Int, member name: JSONString, _ value: JSON) -> Bool {
        path.append(.member(name))
        defer { path.removeLast() }
        return judge(number, value)
    }

    mutating func judge(_ number: Int, element index: Int, _ value: JSON) -> Bool {
        path.append(.element(index))
        defer { path.removeLast() }
        return judge(number, value)
    }

    /// Returns whether a value fits, without a fault when it does not.
    mutating func quietly(_ number: Int, _ value: JSON) -> Bool {
        let wasCollecting = isCollecting
        isCollecting = false
        defer { isCollecting = wasCollecting }
        return conditionally(number, value)
    }

    mutating func conditionally(_ number: Int, _ value: JSON) -> Bool {
        conditions += 1
        defer { conditions -= 1 }
        return judge(number, value)
    }

    // MARK: - One of several

    /// Judges all schemas of `anyOf` or `oneOf` and forgets their faults.
    ///
    /// - Returns: The places of those that fit, and the faults of the one that is closest.
    mutating func tryEach(_ schemas: [Int], _ value: JSON) -> (fitting: [Int], closest: Int, faults: [SchemaFault]) {
        var fitting: [Int] = []
        var closest: (place: Int, distance: Int, faults: [SchemaFault])?
        let before = faults.count
        for (place, schema) in schemas.enumerated() {
            if conditionally(schema, value) {
                fitting.append(place)
            } else {
                let distance = faults[before...].reduce(0) { $0 + self.distance(of: $1) }
                if distance < closest?.distance ?? .max { closest = (place, distance, Array(faults[before...])) }
            }
            faults.removeSubrange(before...)
            if isExhausted { break }
        }
        return (fitting, closest?.place ?? 0, closest?.faults ?? [])
    }

    /// The kind of the present value itself says that another schema was meant; the kind of a member is a mistake in that member.
    private func distance(of fault: SchemaFault) -> Int {
        fault.keyword == "type" && fault.pointer.utf8.count > pointer.utf8.count ? 4 : fault.distance
    }

    var isQuick: Bool { !isCollecting }

    /// The text about the schema that was closest.
    func closest(_ schemas: [Int], _ place: Int, _ faults: [SchemaFault]) -> String {
        let title = nodes[schemas[place]].title.map { " (\($0.prefix(60)))" } ?? ""
        guard let first = faults.first else { return "the closest is number \(place + 1)\(title)" }
        let below = first.pointer.dropFirst(pointer.count)
        let more = faults.count > 1 ? ", and \(faults.count - 1) more" : ""
        // Alternatives in alternatives make the text longer with each level.
        let detail = first.detail.utf8.count <= 300 ? first.detail : String(first.detail.unicodeScalars.prefix(300)) + "…"
        return "the closest is number \(place + 1)\(title), where \(below.isEmpty ? "it" : String(below)) \(detail)\(more)"
    }
}

extension JSON {
    /// The value for a text about a fault: short ones as they are, of others the kind.
    var found: String {
        switch self {
        case .null, .bool: return json
        case .number(let number): return number.source.utf8.count <= 40 ? number.source : kind
        case .string, .array, .object: return kind
        }
    }
}
