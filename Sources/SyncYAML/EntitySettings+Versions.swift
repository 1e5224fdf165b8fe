import SyncCore

// The keys `schema`, `versions`, `accepts` and `app_schema` of an entity (PROTOCOL D7).
extension EntitySettings {
    /// The value of `schema`: a schema, or the number of the present one of several versions.
    struct SchemaKey: Sendable {
        var schema: DocumentSchema?
        var present: Int?

        static var format: Format<SchemaKey> {
            let schema = Format<DocumentSchema>.schema
            let number = Format<Int>.integer(SchemaVersions.range)
            return Format(
                expected: schema.expected + ", or the number of a version",
                read: { node, reading in
                    if case .scalar = node.content { return number.read(node, &reading).map { SchemaKey(present: $0) } }
                    return schema.read(node, &reading).map { SchemaKey(schema: $0) }
                }, write: { key in key.present.map { .int($0) } ?? key.schema?.json ?? .null })
        }
    }

    /// A part of an entity's settings that is kept as it stands until all of it is read.
    static var asWritten: Format<JSON> {
        Format(expected: "a mapping or a list", read: { node, _ in node.json }, write: { $0 })
    }

    /// The rules of an entity before its versions are put together.
    struct Draft: Sendable {
        var rules = EntityRules()
        var schema: SchemaKey?
        var versions: JSON?
        var accepts: JSON?

        init(_ rules: EntityRules = EntityRules()) {
            self.rules = rules
            guard let versions = rules.versions else {
                schema = rules.schema.map { SchemaKey(schema: $0) }
                return
            }
            schema = SchemaKey(present: versions.present)
            self.versions = versions.json["versions"]
            accepts = versions.json["accepts"]
        }
    }

    /// Puts the versions together.
    ///
    /// - Returns: `nil` after a fault was reported.
    static func finish(_ draft: Draft, _ node: YAMLNode, _ reading: inout Reading) -> EntityRules? {
        var rules = draft.rules
        rules.schema = draft.schema?.schema
        func report(_ path: [String], _ problem: String, _ expected: String?) {
            reading.report(
                node.deepest(path).position, below: path.map(keyText).joined(separator: "."), problem: problem, expected: expected)
        }
        guard let present = draft.schema?.present else {
            // In one file of several, the other may have the number.
            let keys = [("versions", draft.versions != nil), ("accepts", draft.accepts != nil)].filter(\.1).map(\.0)
            guard reading.isWhole, let key = keys.first else { return rules }
            report([key], "has no effect", "schema with the number of the present version")
            return nil
        }
        guard reading.isWhole || draft.versions != nil else { return rules }
        do throws(SchemaVersions.Fault) {
            let versions = try SchemaVersions(reading: present, versions: draft.versions, accepts: draft.accepts)
            rules.versions = versions
            try checkSteps(versions, rules)
            if let app = rules.appVersion, !versions.accepts.contains(app) {
                throw SchemaVersions.Fault(
                    path: ["app_schema"], problem: "is \(app)",
                    expected: "one of the accepted versions \(versions.accepts.map(String.init).joined(separator: ", "))")
            }
            return rules
        } catch {
            report(error.path, error.problem, error.expected)
            return nil
        }
    }

    /// A change of a member must not replace the object around it.
    private static func checkSteps(_ versions: SchemaVersions, _ rules: EntityRules) throws(SchemaVersions.Fault) {
        guard rules.kind == .record else { return }
        for (number, version) in versions.versions.sorted(by: { $0.key < $1.key }) {
            for step in version.up.steps + (version.down?.steps ?? []) {
                switch step {
                case .moveInto(_, let member), .moveOut(let member, _):
                    // A later step may rename or drop the object.
                    guard let up = versions.up(from: number), let name = up.name(of: member.field),
                        rules.strategy != .fields || rules.strategy(of: name) != .merge
                    else { continue }
                    throw SchemaVersions.Fault(
                        path: ["versions", String(number), "up"], problem: "moves a member of \(member.field)",
                        expected: "the rule merge for \(name), so that a change of one member leaves the others")
                case .rename, .fill, .drop, .values, .wrap, .unwrap: continue
                }
            }
        }
    }
}
