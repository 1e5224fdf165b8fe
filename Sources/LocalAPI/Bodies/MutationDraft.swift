import SyncCore

/// A mutation while it is read, in one pass over the members, so that a line of a bulk import costs as little as possible.
struct MutationDraft {
    let pointer: String
    var faults = BodyFaults()

    private var entity: EntityName?
    private var hasEntity = false
    private var recordID: RecordID?
    private var hasRecordID = false
    private var action: NewMutation.Action?
    private var hasAction = false
    private var data: JSONObject?
    private var unset: [String] = []
    private var operations: [FieldOperation] = []
    private var priority: Priority?
    private var expectedVersion: Int64?
    private var ifMatch: EntityTags?
    private var dependsOn: [MutationKey] = []
    private var coalesces = true
    private var ttl: Duration?
    private var author: String?
    private var durability: EntityRules.Durability?
    private var blobs: [JSON] = []
    private var schema: Int?

    init(pointer: String) {
        self.pointer = pointer
    }

    /// - Returns: `false` when a mutation has no such member.
    mutating func read(_ member: JSONObject.Member) -> Bool {
        let value = member.value
        switch member.name.text {
        case "entity":
            hasEntity = true
            entity = identifier(value, "entity")
        case "record_id":
            if value.isNull { break }
            hasRecordID = true
            recordID = identifier(value, "record_id")
        case "action":
            hasAction = true
            action = word(value, "action", { NewMutation.Action(rawValue: $0) }, \.rawValue)
        case "data":
            data = value.object
            if data == nil { faults.wrong(pointer + "/data", "an object", value) }
        case "unset": unset = fieldNames(value, "unset")
        case "ops": operations = operations(value)
        case "priority":
            if !value.isNull { priority = word(value, "priority", { Priority(name: $0) }, \.name) }
        case "expect_version":
            if !value.isNull { expectedVersion = faults.integer(value, at: pointer, "expect_version", in: 0...(1 << 53)) }
        case "if_match":
            if !value.isNull { ifMatch = entityTags(value) }
        case "depends_on": dependsOn = keys(value)
        case "coalesce":
            if let bool = value.bool {
                coalesces = bool
            } else {
                faults.wrong(pointer + "/coalesce", "a Boolean", value)
            }
        case "ttl":
            if !value.isNull { ttl = faults.integer(value, at: pointer, "ttl", in: 1...MutationBody.ttlMax).map { .seconds($0) } }
        case "author":
            if !value.isNull { author = author(value) }
        case "durability":
            if !value.isNull {
                durability = word(value, "durability", { EntityRules.Durability(rawValue: $0) }, \.rawValue)
            }
        case "blobs": blobs = blobs(value)
        case "schema":
            let range = Int64(SchemaVersions.range.lowerBound)...Int64(SchemaVersions.range.upperBound)
            if !value.isNull { schema = faults.integer(value, at: pointer, "schema", in: range).map { Int($0) } }
        default: return false
        }
        return true
    }

    mutating func finish(size: Int) throws(Problem) -> NewMutation {
        if !hasEntity { faults.missing(pointer + "/entity", "the name of an entity") }
        if !hasAction {
            faults.missing(
                pointer + "/action", "one of " + NewMutation.Action.allCases.map(\.rawValue).joined(separator: ", "))
        }
        if let action { checkTogether(action) }
        if let data, MutationDraft.isDeeper(.object(data), than: Limits.jsonDepth) {
            faults.malformed(pointer + "/data", MutationDraft.depthRule)
        }
        try faults.check()
        guard size <= Limits.mutationBytes else {
            throw LocalProblem.tooLarge.problem(
                "the mutation is \(size) bytes; at most \(Limits.mutationBytes) are taken",
                errors: [Problem.Pointer(pointer, "must be at most \(Limits.mutationBytes) bytes")])
        }
        guard let action, let entity else { preconditionFailure("their absence is a fault above") }
        var mutation = NewMutation(
            action, entity, recordID, data: data ?? [:], unset: unset, operations: operations, priority: priority,
            expectedVersion: expectedVersion, dependsOn: dependsOn, coalesces: coalesces, ttl: ttl, author: author,
            durability: durability, blobs: blobs, ifMatch: ifMatch, size: size)
        mutation.schema = schema
        return mutation
    }

    /// Checks the members against each other.
    private mutating func checkTogether(_ action: NewMutation.Action) {
        if ifMatch != nil, action == .create {
            faults.refused(pointer + "/if_match", "is not possible with a create: there is no record to match yet")
        }
        if action != .create, !hasRecordID {
            faults.missing(pointer + "/record_id", "the record's id; only a create can do without")
        }
        switch action {
        case .delete:
            if data?.isEmpty == false { faults.refused(pointer + "/data", "does not belong to a delete") }
            if !unset.isEmpty { faults.refused(pointer + "/unset", "does not belong to a delete") }
            if !operations.isEmpty { faults.refused(pointer + "/ops", "does not belong to a delete") }
        case .update:
            if data == nil, unset.isEmpty, operations.isEmpty, blobs.isEmpty {
                faults.refused(pointer, "changes nothing: an update needs data, unset, ops or blobs")
            }
        case .create, .upsert: break
        }
        if let data, let both = unset.first(where: { data[$0] != nil }) {
            faults.refused(pointer + "/unset", "names \(BodyFaults.escaped(both)), which data sets")
        }
        if ttl != nil, priority == .critical {
            faults.refused(pointer + "/ttl", "does not go with the priority critical: that never expires")
        }
        if durability == .relaxed, priority == .critical {
            faults.refused(pointer + "/durability", "relaxed does not go with the priority critical")
        }
    }

    // MARK: Members

    private mutating func identifier<Kind>(_ value: JSON, _ name: String) -> Identifier<Kind>? {
        guard let text = faults.text(value, at: pointer, name) else { return nil }
        let identifier = Identifier<Kind>(text)
        if identifier == nil { faults.refused("\(pointer)/\(name)", RouteParser.identifierRule) }
        return identifier
    }

    private mutating func word<Word: CaseIterable>(
        _ value: JSON, _ name: String, _ read: (String) -> Word?, _ word: (Word) -> String
    ) -> Word? {
        guard let text = faults.text(value, at: pointer, name) else { return nil }
        if let found = read(text) { return found }
        let words = Word.allCases.map(word)
        let near = nearestName(to: text, among: words).map { "; did you mean \($0)?" } ?? ""
        faults.refused("\(pointer)/\(name)", "must be one of " + words.joined(separator: ", ") + near)
        return nil
    }

    private mutating func author(_ value: JSON) -> String? {
        guard let text = faults.text(value, at: pointer, "author") else { return nil }
        let isFit =
            (1...MutationBody.authorBytesMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
        if isFit { return text }
        faults.refused(
            pointer + "/author", "must be 1 to \(MutationBody.authorBytesMax) bytes without control characters")
        return nil
    }

    private mutating func entityTags(_ value: JSON) -> EntityTags? {
        guard let text = faults.text(value, at: pointer, "if_match") else { return nil }
        let tags = EntityTags(text)
        if tags == nil { faults.refused(pointer + "/if_match", EntityTags.rule) }
        return tags
    }

    private mutating func list(_ value: JSON, _ name: String, max: Int, of what: String) -> [JSON] {
        guard let array = value.array else {
            faults.wrong("\(pointer)/\(name)", "an array of \(what)", value)
            return []
        }
        if array.count <= max { return array }
        faults.refused("\(pointer)/\(name)", "must have at most \(max) elements")
        return []
    }

    private mutating func fieldNames(_ value: JSON, _ name: String) -> [String] {
        var names: [String] = []
        for (index, element) in list(value, name, max: MutationBody.operationsMax, of: "field names").enumerated() {
            if let field = fieldName(element, "\(pointer)/\(name)/\(index)"),
                !names.contains(where: { $0.utf8.elementsEqual(field.utf8) })
            {
                names.append(field)
            }
        }
        return names
    }

    private mutating func fieldName(_ value: JSON?, _ place: String) -> String? {
        guard let text = value?.text else {
            faults.wrong(place, "a field name", value)
            return nil
        }
        // Measured like the name of a member, which it becomes.
        if (1...MutationBody.fieldBytesMax).contains(JSONString(text).source.utf8.count) { return text }
        faults.refused(place, "must be 1 to \(MutationBody.fieldBytesMax) bytes, each escape counted as it is written")
        return nil
    }

    private mutating func operations(_ value: JSON) -> [FieldOperation] {
        var operations: [FieldOperation] = []
        for (index, element) in list(value, "ops", max: MutationBody.operationsMax, of: "operations").enumerated() {
            let place = "\(pointer)/ops/\(index)"
            guard let object = element.object else {
                faults.wrong(place, "an object", element)
                continue
            }
            let field = fieldName(object["field"], place + "/field")
            let kind = operationKind(object["op"], place + "/op")
            let operand = object["value"]
            if operand == nil { faults.missing(place + "/value", "the operand") }
            for member in object.members where !["field", "op", "value"].contains(where: { member.name.means($0) }) {
                faults.unknown(member.name.text, in: place, known: ["field", "op", "value"])
            }
            if let field, let kind, let operand, checkOperand(operand, kind, place + "/value") {
                operations.append(FieldOperation(field, kind, operand))
            }
        }
        return operations
    }

    private mutating func operationKind(_ value: JSON?, _ place: String) -> FieldOperation.Kind? {
        guard let text = value?.text else {
            faults.wrong(place, "a string", value)
            return nil
        }
        let kind = FieldOperation.Kind(rawValue: text)
        if kind == nil {
            faults.refused(
                place, "must be one of " + FieldOperation.Kind.allCases.map(\.rawValue).joined(separator: ", "))
        }
        return kind
    }

    /// Refuses an operand that could never take effect here, where its author still gets the answer.
    private mutating func checkOperand(_ operand: JSON, _ kind: FieldOperation.Kind, _ place: String) -> Bool {
        if MutationDraft.isDeeper(operand, than: Limits.jsonDepth) {
            faults.malformed(place, MutationDraft.depthRule)
            return false
        }
        switch (kind, operand) {
        case (.increment, .number), (.max, .number), (.min, .number), (.max, .string), (.min, .string): return true
        case (.increment, _):
            faults.wrong(place, "a number", operand)
            return false
        case (.max, _), (.min, _):
            faults.wrong(place, "a number or a string", operand)
            return false
        case (.append, .null), (.add, .null), (.remove, .null):
            faults.wrong(place, "a value", operand)
            return false
        case (.append, _), (.add, _), (.remove, _): return true
        }
    }

    private mutating func keys(_ value: JSON) -> [MutationKey] {
        var keys: [MutationKey] = []
        for (index, element) in list(value, "depends_on", max: MutationBody.dependenciesMax, of: "mutation ids")
            .enumerated()
        {
            if let key: MutationKey = identifier(element, "depends_on/\(index)"), !keys.contains(key) {
                keys.append(key)
            }
        }
        return keys
    }

    private mutating func blobs(_ value: JSON) -> [JSON] {
        let array = list(value, "blobs", max: MutationBody.blobsMax, of: "{field, blob}")
        for (index, element) in array.enumerated() {
            let place = "\(pointer)/blobs/\(index)"
            guard let object = element.object else {
                faults.wrong(place, "an object", element)
                continue
            }
            _ = fieldName(object["field"], place + "/field")
            let blob: Identifier<BlobKindTag>? = identifier(object["blob"] ?? .null, "blobs/\(index)/blob")
            _ = blob
            for member in object.members where !["field", "blob"].contains(where: { member.name.means($0) }) {
                faults.unknown(member.name.text, in: place, known: ["field", "blob"])
            }
        }
        return array
    }

    private static let depthRule = "must be nested at most \(Limits.jsonDepth) levels deep"

    private enum BlobKindTag: Sendable {}

    private static func isDeeper(_ json: JSON, than levels: Int) -> Bool {
        switch json {
        case .null, .bool, .number, .string: false
        case .array(let elements): levels == 0 || elements.contains { isDeeper($0, than: levels - 1) }
        case .object(let object): levels == 0 || object.members.contains { isDeeper($0.value, than: levels - 1) }
        }
    }
}
