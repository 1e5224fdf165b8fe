import SyncCore
import SyncSQLite

/// One row of `payload`: the content of a mutation. It never changes after it was sent. Before that, a later edit
/// (``Store/coalesce(_:_:_:)``) and a rebase may change it.
struct Payload {
    var seq: Int64
    var eid: Int64
    var aid: Int64
    var uid: Int64
    var action: MutationAction
    /// The priority as enqueued; the present one is in the narrow row.
    var priority: Priority
    var baseVersion: Int64
    var clock: ClockTrust
    var bid: Int64
    var bootMS: Int64
    var createdMS: Int64
    var ttlAge: Int64?
    var bytes: Int64
    var coalesces: Bool
    var key: String
    /// The record's id; `nil` when it is the text of `key`, because the agent made both.
    var id: String?
    var hlc: String
    var author: String?
    var gid: String?
    var depends: String?
    var supersedes: String?
    var data: String?
    var unset: String?
    var operations: String?
    /// Base values of fields, see ``MutationContent/base``. Other fields are compared with the record's base.
    var baseFields: String?
    var blobs: String?
    /// The app's own idempotency key, if it gave one.
    var appKey: String?
    /// The fingerprint of the apps' requests under this key, once a rebase has changed the content (``Fingerprint``).
    var firstDigest: String?
    /// The stamps of parts as an object: ``MutationContent/stamps``. While `clock` is `unsynced`, they hold milliseconds since the boot in
    /// which the whole mutation was made, as in `bootMS`. The stamps inside operations do so too.
    var stamps: String?

    /// Number of columns, in the order of the properties. The checksum stands before the last two, which were added later. A SELECT for
    /// ``init(_:at:)`` must name them in this order.
    static let columnCount: Int32 = 30
    private static let firstText: Int32 = 14
    private static let lastText: Int32 = 26
    private static let sum: Int32 = 27

    func insert(into database: Database) throws(StoreError) {
        let row = try database.statement(
            """
            INSERT INTO payload (seq, eid, aid, uid, action, priority, base_version, clock, bid, boot_ms, created_ms, ttl_age,
                bytes, coalesces, key, id, hlc, author, gid, depends, supersedes, data, unset, ops, base_fields, blobs,
                app_key, sum, first_digest, stamps)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """)
        defer { row.reset() }
        do throws(SQLiteError) {
            try row.bind(1, seq)
            try row.bind(2, eid)
            try row.bind(3, aid)
            try row.bind(4, uid)
            try row.bind(5, Int64(action.number))
            try row.bind(6, Int64(priority.rawValue))
            try row.bind(7, baseVersion)
            try row.bind(8, Int64(clock.number))
            try row.bind(9, bid)
            try row.bind(10, bootMS)
            try row.bind(11, createdMS)
            try row.bind(12, ttlAge)
            try row.bind(13, bytes)
            try row.bind(14, coalesces ? 1 : 0)
            try row.bind(15, key)
            try row.bind(16, id)
            try row.bind(17, hlc)
            try row.bind(18, author)
            try row.bind(19, gid)
            try row.bind(20, depends)
            try row.bind(21, supersedes)
            try row.bind(22, data)
            try row.bind(23, unset)
            try row.bind(24, operations)
            try row.bind(25, baseFields)
            try row.bind(26, blobs)
            try row.bind(27, appKey)
            try row.bind(28, Int64(checksum))
            try row.bind(29, firstDigest)
            try row.bind(30, stamps)
            _ = try row.step()
        } catch {
            throw StoreError(error)
        }
    }

    private var checksum: UInt32 {
        var digest = CRC32C()
        digest.update(seq)
        digest.update(eid)
        digest.update(aid)
        digest.update(uid)
        digest.update(Int64(action.number))
        digest.update(Int64(priority.rawValue))
        digest.update(baseVersion)
        digest.update(Int64(clock.number))
        digest.update(bid)
        digest.update(bootMS)
        digest.update(createdMS)
        digest.update(ttlAge ?? .min)
        digest.update(bytes)
        digest.update(coalesces ? 1 : 0)
        digest.update(field: key)
        digest.update(field: id)
        digest.update(field: hlc)
        digest.update(field: author)
        digest.update(field: gid)
        digest.update(field: depends)
        digest.update(field: supersedes)
        digest.update(field: data)
        digest.update(field: unset)
        digest.update(field: operations)
        digest.update(field: baseFields)
        digest.update(field: blobs)
        digest.update(field: appKey)
        // Rows from before these columns existed keep their checksums.
        if firstDigest != nil { digest.update(field: firstDigest) }
        if stamps != nil { digest.update(field: stamps) }
        return digest.value
    }

    /// Returns whether the row matches its checksum.
    ///
    /// - Parameter first: Column of `seq`; the others follow in their order.
    static func isSound(_ row: SQLiteStatement, at first: Int32) -> Bool {
        var digest = CRC32C()
        for column in first..<(first + firstText) { digest.update(row.isNull(column) ? .min : row.int(column)) }
        for column in (first + firstText)...(first + lastText) { digest.update(field: row.bytes(column)) }
        for later in (sum + 1)...(sum + 2) where !row.isNull(first + later) { digest.update(field: row.bytes(first + later)) }
        return Int64(digest.value) == row.int(first + sum)
    }

    /// Reads a row; a damaged one is read as far as possible.
    init(_ row: SQLiteStatement, at first: Int32) {
        seq = row.int(first)
        eid = row.int(first + 1)
        aid = row.int(first + 2)
        uid = row.int(first + 3)
        action = MutationAction(number: row.int(first + 4))
        priority = Priority(rawValue: Int(clamping: row.int(first + 5))) ?? .normal
        baseVersion = row.int(first + 6)
        clock = ClockTrust(number: row.int(first + 7))
        bid = row.int(first + 8)
        bootMS = row.int(first + 9)
        createdMS = row.int(first + 10)
        ttlAge = row.optionalInt(first + 11)
        bytes = row.int(first + 12)
        coalesces = row.bool(first + 13)
        key = row.text(first + 14)
        id = row.optionalText(first + 15)
        hlc = row.text(first + 16)
        author = row.optionalText(first + 17)
        gid = row.optionalText(first + 18)
        depends = row.optionalText(first + 19)
        supersedes = row.optionalText(first + 20)
        data = row.optionalText(first + 21)
        unset = row.optionalText(first + 22)
        operations = row.optionalText(first + 23)
        baseFields = row.optionalText(first + 24)
        blobs = row.optionalText(first + 25)
        appKey = row.optionalText(first + 26)
        firstDigest = row.optionalText(first + Payload.sum + 1)
        stamps = row.optionalText(first + Payload.sum + 2)
    }

    /// Makes a new payload; the enqueue transaction fills in the rest.
    init(_ content: MutationContent) {
        seq = 0
        eid = 0
        aid = 0
        uid = 0
        action = content.action
        priority = .normal
        baseVersion = 0
        clock = .synced
        bid = 0
        bootMS = 0
        createdMS = 0
        bytes = 0
        coalesces = true
        key = ""
        hlc = ""
        setContent(content)
    }

    var recordID: RecordID { RecordID(trusted: id ?? key) }

    /// The files that the app named, with the fields that were to show them.
    var namedFiles: [JSON] { blobs.flatMap { StoredJSON.read($0)?.array } ?? [] }

    /// Size of the parts that count towards a batch, bytes.
    var contentBytes: Int {
        (data?.utf8.count ?? 0) + (unset?.utf8.count ?? 0) + (operations?.utf8.count ?? 0) + (baseFields?.utf8.count ?? 0)
            + (stamps?.utf8.count ?? 0)
    }

    func outgoing(entity: EntityName, priority: Priority) -> OutgoingMutation {
        var outgoing = OutgoingMutation(
            seq: seq, key: MutationKey(trusted: key), record: RecordName(entity, recordID), action: action, data: data,
            unset: unset, operations: operations, dependsOn: depends, baseVersion: baseVersion, hlc: hlc, clock: clock,
            clientUpdatedAt: Timestamp(milliseconds: createdMS), priority: priority,
            group: gid.map { GroupID(trusted: $0) }, base: baseFields, author: author,
            firstDigest: firstDigest)
        outgoing.fieldHLC = clock == .unsynced ? nil : stamps
        return outgoing
    }
}

extension Store {
    /// Replaces the stored payload of a mutation.
    ///
    /// - Precondition: It was never sent.
    func rewrite(_ payload: Payload) throws(StoreError) {
        try database.run("DELETE FROM payload WHERE seq = ?", .int(payload.seq))
        try payload.insert(into: database)
    }
}

// MARK: - Content

extension Payload {
    /// - Parameter rules: Rules that say which fields carry the value that the app had seen; `nil`: all that have one.
    /// - Returns: `nil` when the texts are damaged.
    func content(under rules: EntityRules?) -> MutationContent? {
        guard let fields = Payload.object(data), let names = Payload.array(unset), let list = Payload.array(operations) else {
            return nil
        }
        var parsed: [FieldOperation] = []
        for json in list {
            guard let object = json.object, let field = object["field"]?.text,
                let kind = object["op"]?.text.flatMap({ FieldOperation.Kind(rawValue: $0) }), let value = object["value"]
            else { return nil }
            var operation = FieldOperation(field, kind, value)
            operation.hlc = object["hlc"]?.text.flatMap { HybridTime($0) }
            parsed.append(operation)
        }
        var content = MutationContent(action, data: fields, unset: names.compactMap(\.text), operations: parsed)
        for member in Payload.object(stamps)?.members ?? [] {
            content.stamps[JSONString(member.name.text)] = member.value.text.flatMap { HybridTime($0) }
        }
        // The hub refuses content that an older agent let through; until then it stays as it was here.
        if let rules, let placed = try? content.placed(under: rules) { content = placed }
        if baseFields != nil, let bases = Payload.object(baseFields) {
            for member in bases.members where action == .create || rules == nil || rules?.strategy(of: member.name.text) == .merge {
                content.base[member.name.text] = member.value
            }
        }
        return content
    }

    /// The digest by which the hub identifies this mutation, besides its key.
    func digest(entity: EntityName) -> String {
        func part(_ text: String?) -> JSON { text.flatMap { StoredJSON.read($0) } ?? .null }
        let item: JSONObject = [
            "entity": .string(entity.text), "record_id": .string(recordID.text), "action": .string(action.rawValue),
            "data": part(data), "unset": part(unset), "ops": part(operations),
        ]
        return Fingerprint.text(Fingerprint.of(item))
    }

    func contentDiffers(from other: Payload) -> Bool {
        (action, baseVersion) != (other.action, other.baseVersion)
            || (data, unset, operations, baseFields, stamps) != (other.data, other.unset, other.operations, other.baseFields, other.stamps)
    }

    mutating func setContent(_ content: MutationContent) {
        baseFields = content.base.isEmpty ? nil : content.base.json
        data = content.data.isEmpty && content.action != .create ? nil : content.data.json
        unset = content.unset.isEmpty ? nil : JSON.list(content.unset).json
        operations =
            content.operations.isEmpty
            ? nil
            : JSON.array(
                content.operations.map {
                    var operation: JSONObject = ["field": .string($0.field), "op": .string($0.kind.rawValue), "value": $0.value]
                    if let hlc = $0.hlc { operation["hlc"] = .string(hlc.description) }
                    return .object(operation)
                }
            ).json
        let names = content.stamps.keys.sorted { precedesInBytes($0.text, $1.text) }
        let stamps = names.reduce(into: JSONObject()) { $0[$1.text] = content.stamps[$1].map { .string($0.description) } }
        self.stamps = stamps.isEmpty ? nil : stamps.json
    }

    /// Changes the stamps of its parts; `nil`: the part has the stamp of the whole.
    mutating func dateParts(_ date: (HybridTime) -> HybridTime?) {
        func dated(_ json: JSON?) -> JSON? { json?.text.flatMap { HybridTime($0) }.flatMap(date).map { .string($0.description) } }
        if let object = Payload.object(stamps), !object.isEmpty {
            let changed = object.members.reduce(into: JSONObject()) { $0[$1.name.text] = dated($1.value) }
            stamps = changed.isEmpty ? nil : changed.json
        }
        guard let list = Payload.array(operations), list.contains(where: { $0.object?["hlc"] != nil }) else { return }
        operations =
            JSON.array(
                list.map { json in
                    guard var operation = json.object else { return json }
                    operation["hlc"] = dated(operation["hlc"])
                    return .object(operation)
                }
            ).json
    }

    private static func object(_ text: String?) -> JSONObject? {
        guard let text else { return JSONObject() }
        return StoredJSON.read(text)?.object
    }

    private static func array(_ text: String?) -> [JSON]? {
        guard let text else { return [] }
        return StoredJSON.read(text)?.array
    }
}

/// Reads JSON that this program checked before it stored it, without the limits for input.
enum StoredJSON {
    /// - Returns: `nil` for damage; the caller must not treat it as absence.
    static func read(_ text: String) -> JSON? {
        // `nil` means damage here, and each caller decides what to do about it.
        try? JSONReader.read(text, limits: .stored)
    }

    /// A document of the mirror.
    enum Document {
        case none
        case object(JSONObject)
        /// Damage that the row's checksum did not show.
        case unreadable

        init(_ text: String?) {
            guard let text else {
                self = .none
                return
            }
            self = StoredJSON.read(text)?.object.map { .object($0) } ?? .unreadable
        }

        /// `nil` both for no document and for damage: only for uses where both mean that nothing is known.
        var known: JSONObject? {
            if case .object(let object) = self { object } else { nil }
        }

        var isReadable: Bool {
            if case .unreadable = self { false } else { true }
        }
    }
}

extension MutationAction {
    var number: Int {
        switch self {
        case .create: 0
        case .update: 1
        case .delete: 2
        }
    }

    init(number: Int64) {
        self = number == 0 ? .create : number == 1 ? .update : .delete
    }
}

extension ClockTrust {
    var number: Int {
        switch self {
        case .synced: 0
        case .retro: 1
        case .unsynced: 2
        }
    }

    init(number: Int64) {
        self = number == 0 ? .synced : number == 1 ? .retro : .unsynced
    }
}
