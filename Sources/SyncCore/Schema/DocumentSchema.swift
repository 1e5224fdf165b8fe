/// The schema of an entity's documents, and how it judges changes of them (PROTOCOL A12). A member that is null counts as missing.
///
/// A change is judged in two parts, because a change names a few fields only and is merged with changes of others:
///
/// - The rules of each field look at the values that the change sets, as it was written. What operations and merges make of a field is not
///   looked at: two counts that are fine alone may be too high together, and no device has made a mistake.
/// - The rules between fields (conditions, combinations, dependencies, numbers of members) look at the whole document before and after the
///   change. The change answers only for faults that were not there before it. So a schema that became stricter stops no work at
///   records that break it already.
package struct DocumentSchema: Hashable, Sendable {
    /// The schema as it was given.
    package var json: JSON { schema.json }
    package let schema: JSONSchema
    /// The schemas that hold for every document: the root, and what it takes in by `$ref` and `allOf`.
    private let unconditional: [Int]
    /// The fields that every document has, each once.
    let required: [JSONString]
    /// `true` when a rule looks at several fields, so that the whole document has to be judged.
    package let bindsFields: Bool

    /// - Throws: The fault, with a pointer into the schema.
    package init(_ json: JSON) throws(Problem) {
        guard json.object != nil else { throw SchemaReader.problem("", "must be an object, found \(json.kind)") }
        schema = try JSONSchema(json)
        let nodes = schema.nodes
        guard nodes[schema.root].kinds.isEmpty || nodes[schema.root].kinds.contains(.object) else {
            throw SchemaReader.problem("/type", "must be object, because a document is one")
        }
        var found = [schema.root]
        var seen = Set(found)
        var next = 0
        while next < found.count {
            let parts = nodes[found[next]].parts
            for number in (parts?.target.map { [$0] } ?? []) + (parts?.allOf ?? []) where seen.insert(number).inserted {
                found.append(number)
            }
            next += 1
        }
        unconditional = found
        var names = Set<JSONString>()
        required = found.flatMap { nodes[$0].objects?.required ?? [] }.filter { names.insert($0).inserted }
        bindsFields = nodes[schema.root].bindsMembers || found.contains { Self.judgesWholeDocument(nodes[$0]) }
    }

    package static func == (left: DocumentSchema, right: DocumentSchema) -> Bool { left.schema == right.schema }
    package func hash(into hasher: inout Hasher) { hasher.combine(schema) }

    private static func judgesWholeDocument(_ node: SchemaNode) -> Bool {
        node.verdict == false || node.constant != nil || node.allowed != nil || !node.kinds.isEmpty && !node.kinds.contains(.object)
    }

    // MARK: - The fields of a change

    /// Faults of the values that a mutation sets, each place as a JSON pointer below `/data`.
    ///
    /// A new document must have all required fields. In an update only the changed fields are checked, and results of operations are not.
    package func faults(in content: MutationContent) -> [Problem.Pointer] {
        guard content.action != .delete else { return [] }
        let judgement = schema.judge(at: Self.place, true) { judge in
            var isFine = true
            for number in unconditional {
                guard let rules = schema.nodes[number].objects else { continue }
                guard !judge.fitsMembers(rules, number, content.data) else { continue }
                isFine = false
                guard judge.goesOn else { return false }
            }
            return isFine && !judge.isExhausted
        }
        var faults = judgement.faults.map { Problem.Pointer($0.pointer, $0.detail) }
        if content.action == .create {
            let operated = Set(content.operations.map(\.top))
            for name in required where (content.data[name] ?? .null).isNull && !operated.contains(name.text) {
                faults.append(Self.missing(name))
            }
        } else {
            for name in required {
                if content.data[name]?.isNull == true { faults.append(Self.missing(name)) }
                if let index = content.unset.firstIndex(where: { name.means($0) }) {
                    faults.append(Problem.Pointer("/unset/\(index)", "names \(name.text), which is required"))
                }
            }
        }
        return faults
    }

    private static let place = "/data"

    private static func missing(_ name: JSONString) -> Problem.Pointer {
        Problem.Pointer(place + "/" + JSONPointer.escaped(name.text), "is required")
    }

    // MARK: - The document after a change

    /// Faults between the fields of a document that a change brings with it, each place as a JSON pointer below `/data`.
    ///
    /// - Parameter before: The document without the change; `nil` when there was none.
    package func faults(between fields: JSONObject, before: JSONObject?) -> [Problem.Pointer] {
        guard bindsFields else { return [] }
        let judgement = judge(fields, faultsMax: SchemaJudgement.faultsMax)
        if judgement.fits { return [] }
        var faults = judgement.faults
        if let before, !judgement.isTooCostly {
            let earlier = judge(before, faultsMax: Self.earlierMax)
            // With more faults than that, it is unknown which ones are new.
            if earlier.faults.count >= Self.earlierMax { return [] }
            let known = Set(earlier.faults.map { Known($0) })
            faults.removeAll { known.contains(Known($0)) && !Self.differ(fields, before, at: $0.pointer) }
        }
        return faults.map { Problem.Pointer($0.pointer, $0.detail) }
    }

    private static let earlierMax = 1_000

    /// A fault that was there before the change: the same rule is broken at the same place.
    private struct Known: Hashable {
        var pointer: String
        var schema: Int
        var keyword: String

        init(_ fault: SchemaFault) {
            (pointer, schema, keyword) = (fault.pointer, fault.schema, fault.keyword)
        }
    }

    private func judge(_ document: JSONObject, faultsMax: Int) -> SchemaJudgement {
        schema.judge(at: Self.place, true, .betweenMembers, faultsMax: faultsMax) { $0.judge(schema.root, .object(document)) }
    }

    /// Returns whether the change touches the field that a fault is in.
    private static func differ(_ after: JSONObject, _ before: JSONObject, at pointer: String) -> Bool {
        guard let field = JSONPointer.names(of: pointer.dropFirst(place.count)).first else { return false }
        return after[field] != before[field]
    }
}
