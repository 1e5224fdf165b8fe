/// A push as the hub reads it: the envelope strictly, each mutation by itself, so that a bad item refuses only itself.
package struct IncomingPush: Sendable {
    /// All results up to this `seq` are durably recorded at the agent; the hub may drop the data for repeating them.
    package var ackedSeq: Int64
    /// The highest `seq` that this database ever sent, this request included. If it is lower than the hub remembers, the agent's database
    /// went back in time.
    package var maxSentSeq: Int64?
    package var config: Int64?
    package var items: [IncomingItem]
}

/// One element of `mutations`.
package struct IncomingItem: Sendable {
    package var key: MutationKey
    package var fingerprint: [UInt8]
    // These four are set whenever they can be read, even when the rest cannot.
    package var seq: Int64?
    package var group: GroupID?
    package var record: RecordName?
    package var action: MutationAction?
    package var content: Result<IncomingMutation, Problem>
}

package struct IncomingMutation: Sendable {
    package var record: RecordName
    package var content: MutationContent
    /// The version of the record that the device had seen; 0 for none, -1 for one of an older history of the hub.
    package var baseVersion: Int64
    package var hlc: HybridTime
    package var clock: ClockTrust
    package var clientUpdatedAt: Timestamp?
    package var dependsOn: [MutationKey]
    /// Mutations that this one replaces: conflicts that a person decided, or rejected mutations that are sent again with a fix.
    package var supersedes: [MutationKey] = []
    /// The author, in the app's words.
    package var author: String?
    /// The version of the entity's schema that the change is written in; `nil`: as the request says.
    package var schema: Int?

    package init(
        record: RecordName, content: MutationContent, baseVersion: Int64, hlc: HybridTime, clock: ClockTrust = .synced,
        clientUpdatedAt: Timestamp? = nil, dependsOn: [MutationKey] = [], author: String? = nil
    ) {
        self.author = author
        self.record = record
        self.content = content
        self.baseVersion = baseVersion
        self.hlc = hlc
        self.clock = clock
        self.clientUpdatedAt = clientUpdatedAt
        self.dependsOn = dependsOn
    }
}

extension PushMessages {
    /// Reads the body of a push.
    ///
    /// - Throws: `malformed` when the body, the envelope or the key of an item cannot be read, when a key comes twice, or when the members
    ///   of a group do not stand together. `too-large` when there are more mutations or more payload than a push may carry. Any other error
    ///   in an item is that item's own problem.
    package static func readRequest(_ body: [UInt8]) throws(Problem) -> IncomingPush {
        guard body.count <= Limits.hubRequestBytes else { throw tooLarge("\(Limits.hubRequestBytes) bytes") }
        let object = try RequestReader.object(body)
        guard let list = object["mutations"]?.array else { throw RequestReader.malformed("/mutations", "an array") }
        guard list.count <= Limits.batchMutationsMax else { throw tooLarge("\(Limits.batchMutationsMax) mutations") }
        // A body below the limit cannot hold a payload above it.
        if body.count > Limits.batchBytesMax {
            let payload = list.reduce(0) { $0 + payloadBytes($1.object ?? [:]) }
            guard payload <= Limits.batchBytesMax else { throw tooLarge("\(Limits.batchBytesMax) bytes of payload") }
        }
        let isLarge = body.count > Limits.mutationBytes
        var items: [IncomingItem] = []
        items.reserveCapacity(list.count)
        var keys: Set<MutationKey> = []
        for (index, json) in list.enumerated() {
            let item = try readItem(json, at: "/mutations/\(index)", measure: isLarge)
            guard keys.insert(item.key).inserted else {
                throw RequestReader.malformed("/mutations/\(index)/idempotency_key", "each key once")
            }
            items.append(item)
        }
        try checkGroups(items)
        let range = RequestReader.sequence
        return IncomingPush(
            ackedSeq: try RequestReader.number(object["acked_seq"], "/acked_seq", in: range, RequestReader.malformed) ?? 0,
            maxSentSeq: try RequestReader.number(object["max_sent_seq"], "/max_sent_seq", in: range, RequestReader.malformed),
            config: try RequestReader.number(object["config"], "/config", in: range, RequestReader.malformed), items: items)
    }

    private static func readItem(_ json: JSON, at place: String, measure: Bool) throws(Problem) -> IncomingItem {
        guard let object = json.object else { throw RequestReader.malformed(place, "an object") }
        let key = try RequestReader.name(
            object["idempotency_key"], place + "/idempotency_key", as: MutationKey.self, RequestReader.malformed)
        var item = IncomingItem(
            key: key, fingerprint: Fingerprint.of(object), seq: object["seq"]?.int, group: nil, record: nil,
            content: .failure(RequestReader.invalid(place, "a mutation")))
        if item.seq.map({ $0 < 1 || !RequestReader.sequence.contains($0) }) == true { item.seq = nil }
        if let entity = object["entity"]?.text.flatMap({ EntityName($0) }),
            let id = object["record_id"]?.text.flatMap({ RecordID($0) })
        {
            item.record = RecordName(entity, id)
        }
        item.action = object["action"]?.text.flatMap { MutationAction(rawValue: $0) }
        do throws(Problem) {
            if let group = RequestReader.present(object["group"]) {
                item.group = try RequestReader.name(group, place + "/group", as: GroupID.self, RequestReader.invalid)
            }
            guard let seq = item.seq, seq > 0 else {
                throw RequestReader.invalid(place + "/seq", "a whole number from 1 to \(RequestReader.sequence.upperBound)")
            }
            if measure, payloadBytes(object) > Limits.mutationBytes {
                throw Problem(
                    "too-large", status: 413, detail: "\(place): the payload has more than \(Limits.mutationBytes) bytes",
                    errors: [.init(place, "expected at most \(Limits.mutationBytes) bytes of data, unset, ops and base")])
            }
            if let digest = RequestReader.present(object["first_digest"]) {
                guard let fingerprint = digest.text.flatMap({ Fingerprint.read($0) }) else {
                    throw RequestReader.invalid(place + "/first_digest", "32 hexadecimal digits")
                }
                item.fingerprint = fingerprint
            }
            item.content = .success(try readMutation(object, at: place))
        } catch {
            item.content = .failure(error)
        }
        return item
    }

    private static func readMutation(_ object: JSONObject, at place: String) throws(Problem) -> IncomingMutation {
        let invalid = RequestReader.invalid
        let entity = try RequestReader.name(object["entity"], place + "/entity", as: EntityName.self, invalid)
        let id = try RequestReader.name(object["record_id"], place + "/record_id", as: RecordID.self, invalid)
        guard
            let base = try RequestReader.number(
                object["base_version"], place + "/base_version", in: -1...RequestReader.sequence.upperBound, invalid)
        else { throw invalid(place + "/base_version", "the version of the record that was changed, 0 for none") }
        guard let hlc = object["hlc"]?.text.flatMap({ HybridTime($0) }) else {
            throw invalid(place + "/hlc", "a stamp like 0199c3f2a1b4-0007-9f2c11ab")
        }
        var mutation = IncomingMutation(
            record: RecordName(entity, id), content: try MutationContent.read(object, at: place), baseVersion: base, hlc: hlc)
        if let clock = RequestReader.present(object["clock"]) {
            guard let trust = clock.text.flatMap({ ClockTrust(rawValue: $0) }) else {
                throw invalid(place + "/clock", "synced, retro or unsynced")
            }
            mutation.clock = trust
        }
        if let changed = RequestReader.present(object["client_updated_at"]) {
            guard let time = changed.text.flatMap({ RFC3339.timestamp($0) }) else {
                throw invalid(place + "/client_updated_at", "a time like 2026-11-20T21:04:05.120Z")
            }
            mutation.clientUpdatedAt = time
        }
        if let author = RequestReader.present(object["author"]) {
            guard let name = author.text, name.utf8.count <= Limits.authorBytes else {
                throw invalid(place + "/author", "a string of at most \(Limits.authorBytes) bytes")
            }
            mutation.author = name
        }
        if let schema = RequestReader.present(object["schema"]) {
            guard let number = schema.int.flatMap({ Int(exactly: $0) }), SchemaVersions.range.contains(number) else {
                throw invalid(place + "/schema", "the version of the entity's schema, a whole number from 1")
            }
            mutation.schema = number
        }
        mutation.content.stamps = try stamps(object["field_hlc"], place + "/field_hlc", invalid)
        mutation.dependsOn = try keys(object["depends_on"], place + "/depends_on", invalid)
        mutation.supersedes = try keys(object["supersedes"], place + "/supersedes", invalid)
        return mutation
    }

    /// Names that the mutation does not write are ignored.
    private static func stamps(
        _ json: JSON?, _ place: String, _ invalid: (String, String) -> Problem
    ) throws(Problem) -> [JSONString: HybridTime] {
        guard let json = RequestReader.present(json) else { return [:] }
        guard let object = json.object, object.count <= Limits.documentFields else {
            throw invalid(place, "an object of at most \(Limits.documentFields) stamps")
        }
        var stamps: [JSONString: HybridTime] = [:]
        for member in object.members {
            guard let stamp = member.value.text.flatMap({ HybridTime($0) }) else {
                throw invalid("\(place)/\(member.name.text)", "a stamp like 0199c3f2a1b4-0007-9f2c11ab")
            }
            stamps[JSONString(member.name.text)] = stamp
        }
        return stamps
    }

    private static func keys(
        _ json: JSON?, _ place: String, _ invalid: (String, String) -> Problem
    ) throws(Problem) -> [MutationKey] {
        guard let json = RequestReader.present(json) else { return [] }
        guard let list = json.array, list.count <= Limits.batchMutationsMax else {
            throw invalid(place, "an array of at most \(Limits.batchMutationsMax) keys")
        }
        var keys: [MutationKey] = []
        for (index, key) in list.enumerated() {
            keys.append(try RequestReader.name(key, "\(place)/\(index)", as: MutationKey.self, invalid))
        }
        return keys
    }

    /// A group is applied at the place of its first member, so no other item may stand between.
    private static func checkGroups(_ items: [IncomingItem]) throws(Problem) {
        var closed: Set<GroupID> = []
        var open: GroupID?
        for (index, item) in items.enumerated() where item.group != open {
            if let open { closed.insert(open) }
            if let group = item.group, closed.contains(group) {
                throw RequestReader.malformed("/mutations/\(index)/group", "the members of a group one after the other")
            }
            open = item.group
        }
    }

    private static func payloadBytes(_ object: JSONObject) -> Int {
        ["data", "unset", "ops", "base"].reduce(0) { $0 + (object[$1]?.bytes.count ?? 0) }
    }

    private static func tooLarge(_ limit: String) -> Problem {
        Problem("too-large", status: 413, detail: "a push may have at most \(limit)")
    }
}

extension MutationContent {
    /// Reads `action`, `data`, `base`, `unset` and `ops` of a mutation on the wire.
    static func read(_ object: JSONObject, at place: String) throws(Problem) -> MutationContent {
        let invalid = RequestReader.invalid
        guard let action = object["action"]?.text.flatMap({ MutationAction(rawValue: $0) }) else {
            throw invalid(place + "/action", "create, update or delete")
        }
        var content = MutationContent(action)
        if let data = RequestReader.present(object["data"]) {
            guard let fields = data.object else { throw invalid(place + "/data", "an object") }
            guard data.depth <= Limits.jsonDepth else { throw invalid(place + "/data", "at most \(Limits.jsonDepth) levels") }
            // The fields' own names are checked with the document that they become part of (``DocumentLimits``).
            guard !fields.members.contains(where: \.value.hasLongName) else { throw invalid(place + "/data", FieldOperation.nameRule) }
            content.data = fields
        }
        if let base = RequestReader.present(object["base"]) {
            guard let fields = base.object else { throw invalid(place + "/base", "an object") }
            guard base.depth <= Limits.storedDepth else { throw invalid(place + "/base", "at most \(Limits.storedDepth) levels") }
            content.base = fields
        }
        if let unset = RequestReader.present(object["unset"]) {
            guard let names = unset.array else { throw invalid(place + "/unset", "an array") }
            for (index, name) in names.enumerated() {
                guard let name = name.text else { throw invalid("\(place)/unset/\(index)", "the name of a field") }
                content.unset.append(name)
            }
        }
        if let operations = RequestReader.present(object["ops"]) {
            guard let list = operations.array else { throw invalid(place + "/ops", "an array") }
            for (index, json) in list.enumerated() {
                content.operations.append(try FieldOperation.read(json, at: "\(place)/ops/\(index)"))
            }
        }
        if action == .delete, !(content.data.isEmpty && content.unset.isEmpty && content.operations.isEmpty) {
            throw invalid(place, "a delete without data, unset and ops")
        }
        return content
    }
}

extension FieldOperation {
    static let nameRule = "names of at most \(Limits.nameBytes) bytes, escapes included"

    static func read(_ json: JSON, at place: String) throws(Problem) -> FieldOperation {
        let invalid = RequestReader.invalid
        guard let field = json.object?["field"]?.text else { throw invalid(place + "/field", "the name of a field") }
        guard let kind = json.object?["op"]?.text.flatMap({ Kind(rawValue: $0) }) else {
            throw invalid(place + "/op", Kind.allCases.map(\.rawValue).joined(separator: ", "))
        }
        guard let value = json.object?["value"] else { throw invalid(place + "/value", "a value") }
        guard value.depth <= Limits.jsonDepth else { throw invalid(place + "/value", "at most \(Limits.jsonDepth) levels") }
        guard !value.hasLongName else { throw invalid(place + "/value", nameRule) }
        if kind == .increment, case .number = value {
        } else if kind == .increment {
            throw invalid(place + "/value", "a number")
        }
        var operation = FieldOperation(field, kind, value)
        if let made = RequestReader.present(json.object?["hlc"]) {
            guard let stamp = made.text.flatMap({ HybridTime($0) }) else {
                throw invalid(place + "/hlc", "a stamp like 0199c3f2a1b4-0007-9f2c11ab")
            }
            operation.hlc = stamp
        }
        return operation
    }
}

extension JSON {
    /// Nested arrays and objects; 0 for a plain value.
    var depth: Int {
        switch self {
        case .array(let elements): 1 + (elements.map(\.depth).max() ?? 0)
        case .object(let object): 1 + (object.members.map(\.value.depth).max() ?? 0)
        case .null, .bool, .number, .string: 0
        }
    }
}
