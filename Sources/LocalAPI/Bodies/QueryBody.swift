package import SyncCore

/// The body of `POST /v1/query`:
/// `{"entity":"audits","where":{"and":[{"field":"status","op":"eq","value":"open"},{"or":[…]}]},"limit":9}`.
package enum QueryBody {
    package static func read(_ bytes: [UInt8]) throws(Problem) -> RecordListQuery {
        let json = try BodyText.json(bytes)
        guard let object = json.object else { throw MutationBody.notAnObject(json, at: "") }
        var reader = BodyReader(object)
        let entity = reader.text("entity", bytesMax: .max)
        let name = entity.flatMap { EntityName($0) }
        if object["entity"] == nil { reader.faults.missing("/entity", "the name of an entity") }
        if entity != nil, name == nil { reader.faults.refused("/entity", RouteParser.identifierRule) }
        // A placeholder while faults are collected; `finish` throws before it could be used.
        var query = RecordListQuery(name ?? EntityName(trusted: "_"))
        if let tree = reader.value("where") {
            query.filter = condition(tree, "/where", depth: 1, &reader.faults) ?? .all([])
        }
        if query.filter.size > RecordListQuery.sizeMax {
            reader.faults.refused("/where", "must hold at most \(RecordListQuery.sizeMax) comparisons")
        }
        let fieldRule = "must be 1 to \(FieldPath.namesMax) names with dots between"
        query.sort = reader.texts("sort", max: RecordListQuery.sortMax, fieldRule) { RecordListQuery.Sort(text: $0) }
        query.fields = reader.texts("fields", max: RecordListQuery.fieldsMax, fieldRule) { FieldPath(parameter: $0) }
        query.limit = reader.integer("limit", in: 1...Int64(RecordListQuery.limitMax)).map { Int($0) } ?? query.limit
        query.cursor = reader.text("cursor", bytesMax: RecordListQuery.cursorBytesMax)
        query.includesDeleted = reader.bool("include_deleted") ?? false
        query.explains = reader.bool("explain") ?? false
        let all = RecordSnapshot.SyncStatus.allCases
        let statusRule = "must be one of " + all.map(\.name).joined(separator: ", ")
        query.statuses = Set(reader.texts("sync_status", max: all.count, statusRule) { name in all.first { $0.name == name } })
        try reader.finish()
        return query
    }

    private static func condition(
        _ json: JSON, _ place: String, depth: Int, _ faults: inout BodyFaults
    ) -> RecordFilter? {
        guard let object = json.object else {
            faults.wrong(place, "an object", json)
            return nil
        }
        for (name, join) in [("and", RecordFilter.all), ("or", RecordFilter.any)] {
            guard let value = object[name] else { continue }
            guard depth <= RecordListQuery.depthMax else {
                faults.refused(place, "is nested deeper than \(RecordListQuery.depthMax) levels")
                return nil
            }
            for member in object.members where !member.name.means(name) {
                faults.unknown(member.name.text, in: place, known: [name])
            }
            guard let parts = value.array, !parts.isEmpty else {
                faults.wrong("\(place)/\(name)", "an array of conditions, not empty", value)
                return nil
            }
            var read: [RecordFilter] = []
            for (index, part) in parts.enumerated() {
                if let part = condition(part, "\(place)/\(name)/\(index)", depth: depth + 1, &faults) {
                    read.append(part)
                }
            }
            return join(read)
        }
        return test(object, place, &faults)
    }

    private static func test(_ object: JSONObject, _ place: String, _ faults: inout BodyFaults) -> RecordFilter? {
        let known = ["field", "op", "value"]
        for member in object.members where !known.contains(where: { member.name.means($0) }) {
            faults.unknown(member.name.text, in: place, known: known + ["and", "or"])
        }
        guard let field = object["field"]?.text else {
            faults.wrong(place + "/field", "a field name", object["field"])
            return nil
        }
        guard let path = FieldPath(parameter: field) else {
            faults.refused(place + "/field", "must be 1 to \(FieldPath.namesMax) names with dots between")
            return nil
        }
        guard let word = object["op"]?.text else {
            faults.wrong(place + "/op", "a string", object["op"])
            return nil
        }
        guard let operand = object["value"] else {
            faults.missing(place + "/value", "what to compare with")
            return nil
        }
        switch RecordFilter.comparison(word, operand) {
        case .success(let comparison): return .test(path, comparison)
        case .failure(let fault):
            faults.refused(place + (fault.isOperator ? "/op" : "/value"), fault.rule)
            return nil
        }
    }

    /// The bytes that the client sends for a query.
    package static func bytes(_ query: RecordListQuery) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("entity", query.entity.text)
            if query.filter != .all([]) { writer.member("where", json(query.filter)) }
            if !query.sort.isEmpty { writer.member("sort", JSON.list(query.sort.map(\.text))) }
            if !query.fields.isEmpty { writer.member("fields", JSON.list(query.fields.map(\.parameter))) }
            writer.member("limit", Int64(query.limit))
            writer.member("cursor", query.cursor)
            if query.includesDeleted { writer.member("include_deleted", true) }
            if query.explains { writer.member("explain", true) }
            if !query.statuses.isEmpty { writer.member("sync_status", JSON.list(query.statuses.map(\.name).sorted())) }
        }
        return writer.bytes
    }

    private static func json(_ filter: RecordFilter) -> JSON {
        switch filter {
        case .test(let path, let comparison):
            [
                "field": .string(path.parameter), "op": .string(comparison.written.word),
                "value": comparison.written.operand,
            ]
        case .all(let parts): ["and": .array(parts.map(json))]
        case .any(let parts): ["or": .array(parts.map(json))]
        }
    }
}
