/// The version of an entity's schema in which one caller writes and reads: a device at the hub, an app at the agent.
package struct SchemaView: Sendable {
    /// The caller's version.
    package let version: Int
    /// The schema of that version.
    package let schema: DocumentSchema?
    /// The steps from the version of the documents to the caller's.
    package let down: SchemaSteps
    private let up: SchemaSteps

    /// - Throws: `schema-too-old` when the hub does not accept the version.
    package init(_ version: Int, _ rules: EntityRules, of entity: EntityName, ablations: Ablations = .none) throws(Problem) {
        self.version = version
        schema = rules.versions.map { $0.schema(of: version) } ?? rules.schema
        if version == rules.version {
            (up, down) = ([], [])
            return
        }
        guard let versions = rules.versions, versions.accepts.contains(version), let up = versions.up(from: version),
            let down = versions.down(to: version)
        else { throw Self.refusal(version, rules, entity) }
        (self.up, self.down) = (up, ablations.contains(.documentsUnlowered) ? [] : down)
    }

    private init(_ view: SchemaView, up: SchemaSteps, down: SchemaSteps) {
        (version, schema) = (view.version, view.schema)
        (self.up, self.down) = (up, down)
    }

    /// The view of documents that do not have the present version: a device has yet to convert them, or could not.
    ///
    /// - Returns: `nil` when no steps lead from one version to the other.
    package func over(_ stored: StoredSchema, _ rules: EntityRules, ablations: Ablations = .none) -> SchemaView? {
        if ablations.contains(.appsShownStored) { return SchemaView(self, up: up, down: []) }
        guard let versions = rules.versions, stored.number != versions.present else { return self }
        // The newer settings have the steps between both.
        let newer = stored.number > versions.present ? stored.versions : versions
        guard let up = newer?.steps(from: version, to: stored.number), let down = newer?.steps(from: stored.number, to: version) else {
            return nil
        }
        return SchemaView(self, up: up, down: down)
    }

    static func refusal(_ version: Int, _ rules: EntityRules, _ entity: EntityName) -> Problem {
        let accepted = rules.versions?.accepts ?? [1]
        let word = version > rules.version ? "newer than" : "not accepted beside"
        return Problem(
            "schema-too-old", status: 409,
            detail: "version \(version) of the schema of \(entity) is \(word) the present version \(rules.version); "
                + "accepted: \(accepted.map(String.init).joined(separator: ", "))",
            members: ["entity": .string(entity.text), "accepts": .array(accepted.map { .int($0) }), "present": .int(rules.version)])
    }

    package var isPresent: Bool { up.isEmpty && down.isEmpty }

    /// A change in the present version.
    ///
    /// - Parameter present: The record of the hub.
    package func lift(_ content: MutationContent, over present: JSONObject?) -> MutationContent {
        up.isEmpty ? content : up.convert(content, seen: present.map { down.convert($0) })
    }

    /// A record in the caller's version.
    package func lower(_ record: VersionedRecord) -> VersionedRecord { down.convert(record) }

    /// The present name of a field of the caller's version.
    package func present(of field: String) -> String { up.isEmpty ? field : up.name(of: field) ?? field }

    /// Returns whether these fields of a document have the same names and values in both versions.
    package func keeps(_ fields: [String]) -> Bool {
        (up.steps + down.steps).allSatisfy { step in
            !step.fields.contains { changed in fields.contains { sameBytes($0, changed) } }
        }
    }

    /// The names of fields in the caller's version, without those that it does not have. A name that stands for a whole record stays.
    package func lower(_ fields: [String]) -> [String] { down.isEmpty ? fields : fields.compactMap { down.name(of: $0) } }

    package func lower(values: JSONObject) -> JSONObject {
        if down.isEmpty { return values }
        var lowered: JSONObject = [:]
        for member in values.members {
            guard let name = down.name(of: member.name.text) else { continue }
            lowered[name] = down.convert(member.name.text, member.value)
        }
        return lowered
    }

    /// A document in the caller's version.
    package func lower(document: JSONObject) -> JSONObject { down.convert(document) }

    /// A query of the caller as one of the present version.
    package func lift(_ filter: RecordFilter) -> RecordFilter {
        if up.isEmpty { return filter }
        switch filter {
        case .all(let filters): return .all(filters.map { lift($0) })
        case .any(let filters): return .any(filters.map { lift($0) })
        case .test(let path, let comparison):
            func present(_ value: JSON) -> JSON { up.convert(path.description, value) ?? value }
            let lifted: RecordFilter.Comparison =
                switch comparison {
                case .eq(let value): .eq(present(value))
                case .ne(let value): .ne(present(value))
                case .lt(let value): .lt(present(value))
                case .le(let value): .le(present(value))
                case .gt(let value): .gt(present(value))
                case .ge(let value): .ge(present(value))
                case .isIn(let values): .isIn(values.map(present))
                case .prefix, .exists: comparison
                }
            return .test(lift(path), lifted)
        }
    }

    package func lift(_ path: FieldPath) -> FieldPath {
        guard !up.isEmpty, let name = up.name(of: path.description) else { return path }
        return FieldPath(dotted: name) ?? path
    }
}
