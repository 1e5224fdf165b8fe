package import SyncCore
import SyncSQLite

/// One row of `conflict`: a mutation that cannot continue without a person's decision, with both sides.
struct ConflictRow {
    enum State: Int, CaseIterable {
        case open = 0
        /// The hub's side has changed since the conflict was opened. It is still open.
        case stale = 1
        /// Decided; the mutation that carries the decision is on its way.
        case resolving = 2
        case resolved = 3
        /// There was nothing left to decide.
        case moot = 4

        var isOpen: Bool { self == .open || self == .stale }

        /// The word in the local API.
        var name: String {
            switch self {
            case .open: "open"
            case .stale: "stale"
            case .resolving: "resolving"
            case .resolved: "resolved"
            case .moot: "moot"
            }
        }
    }

    var cid: Int64 = 0
    let rid: Int64
    let eid: Int64
    let seq: Int64
    var kind: ConflictKind
    var state = State.open
    var remoteVersion: Int64
    /// The disputed fields in the form of the local API (PROTOCOL B5): base, local and remote value of each, with author and time.
    var sides: [ConflictSide]
    /// The stored ``sides`` cannot be read completely, so no decision may be based on them.
    private(set) var isDamaged = false
    /// Events of the conflict so far, oldest first: `{"at","event",…}`.
    var history: [JSON]
    let openedMS: Int64
    var closedAge: Int64?
    var into: Int64?

    /// Entries of the history that are kept: the first one and the newest. A hub that changes every minute must not fill the database.
    static let historyMax = 50
    static let columnCount: Int32 = 12

    init(of row: OutboxRow, _ rid: Int64, _ kind: ConflictKind, _ sides: [ConflictSide], remoteVersion: Int64, at wall: Timestamp) {
        self.rid = rid
        eid = row.eid
        seq = row.seq
        self.kind = kind
        self.remoteVersion = remoteVersion
        self.sides = sides
        history = []
        openedMS = wall.milliseconds
    }

    init(_ row: SQLiteStatement, at first: Int32 = 0) {
        cid = row.int(first)
        rid = row.int(first + 1)
        eid = row.int(first + 2)
        seq = row.int(first + 3)
        kind = ConflictKind(rawValue: Int(clamping: row.int(first + 4))) ?? .field
        state = State(rawValue: Int(clamping: row.int(first + 5))) ?? .open
        remoteVersion = row.int(first + 6)
        let list = StoredJSON.read(row.text(first + 7))?.array
        sides = (list ?? []).compactMap { ConflictSide($0) }
        isDamaged = sides.count != list?.count
        // Only shown to people; no decision depends on it.
        history = StoredJSON.read(row.text(first + 8))?.array ?? []
        openedMS = row.int(first + 9)
        closedAge = row.optionalInt(first + 10)
        into = row.optionalInt(first + 11)
    }

    /// The name that people and apps use, such as `c-12`.
    var name: String { "c-\(cid)" }
    var fields: [String] { sides.map(\.field) }

    /// The disputed fields in a sentence; if there are very many, only the first ones.
    var fieldWords: String {
        let shown = fields.prefix(ConflictRow.wordsMax).joined(separator: ", ")
        return sides.count > ConflictRow.wordsMax ? "\(shown) and \(sides.count - ConflictRow.wordsMax) more" : shown
    }

    private static let wordsMax = 20

    mutating func addEvent(_ event: String, at wall: Timestamp, _ members: JSONObject = [:]) {
        var entry: JSONObject = ["at": .string(RFC3339.text(wall)), "event": .string(event)]
        for member in members.members { entry[member.name.text] = member.value }
        history.append(.object(entry))
        if history.count > ConflictRow.historyMax { history.remove(at: 1) }
    }

    /// The version that the author of the mutation had seen; `nil` in conflicts of earlier programs.
    var seenVersion: Int64? { history.first?.object?["base_version"]?.int }

    /// Forgets the hub's side and the value that both sides had seen.
    mutating func forgetRemote() {
        for index in sides.indices {
            sides[index].base = nil
            sides[index].remote = ConflictSide.Value(nil)
        }
    }

    /// - Precondition: ``cid`` was never used before.
    func insert(into database: Database) throws(StoreError) {
        try database.run(
            """
            INSERT INTO conflict (cid, rid, eid, seq, kind, state, remote_version, sides, history, opened_ms)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """, .int(cid), .int(rid), .int(eid), .int(seq), .int(kind.rawValue), .int(state.rawValue), .int(remoteVersion),
            .text(JSON.array(sides.map(\.json)).json), .text(JSON.array(history).json), .int(openedMS))
    }

    func update(in database: Database) throws(StoreError) {
        try database.run(
            """
            UPDATE conflict SET kind = ?, state = ?, remote_version = ?, sides = ?, history = ?, closed_age = ?, into_seq = ?
            WHERE cid = ?
            """, .int(kind.rawValue), .int(state.rawValue), .int(remoteVersion), .text(JSON.array(sides.map(\.json)).json),
            .text(JSON.array(history).json), .optional(closedAge), .optional(into), .int(cid))
    }
}

/// One disputed field as both sides have it.
package struct ConflictSide: Hashable, Sendable {
    package struct Value: Hashable, Sendable {
        /// `nil`: this side does not have the field.
        package var value: JSON?
        package var isDeleted = false
        package var author: String?
        package var device: String?
        package var at: Timestamp?
        /// The commit of the hub's side.
        package var version: Int64?

        init(_ value: JSON?, isDeleted: Bool = false, author: String? = nil, device: String? = nil, at: Timestamp? = nil) {
            self.value = value
            self.isDeleted = isDeleted
            self.author = author
            self.device = device
            self.at = at
        }

        init(_ json: JSON?) {
            let object = json?.object ?? [:]
            value = object["value"]
            isDeleted = object["deleted"]?.bool == true
            author = object["author"]?.text
            device = object["device"]?.text
            at = object["at"]?.text.flatMap { RFC3339.timestamp($0) }
            version = object["version"]?.int
        }

        package var json: JSON {
            var object: JSONObject = [:]
            if let value { object["value"] = value }
            if isDeleted { object["deleted"] = true }
            if let author { object["author"] = .string(author) }
            if let device { object["device"] = .string(device) }
            if let at { object["at"] = .string(RFC3339.text(at)) }
            if let version { object["version"] = .int(version) }
            return .object(object)
        }
    }

    package var field: String
    /// The value that both sides had seen; `nil`: the field did not exist.
    package var base: JSON?
    package var local: Value
    package var remote: Value

    init(_ field: String, base: JSON?, local: Value, remote: Value) {
        self.field = field
        self.base = base
        self.local = local
        self.remote = remote
    }

    /// - Returns: `nil` for JSON that this program has not written.
    init?(_ json: JSON) {
        guard let object = json.object, let field = object["field"]?.text else { return nil }
        self.field = field
        base = object["base"]
        local = Value(object["local"])
        remote = Value(object["remote"])
    }

    package var json: JSON {
        var object: JSONObject = ["field": .string(field)]
        if let base { object["base"] = base }
        object["local"] = local.json
        object["remote"] = remote.json
        return .object(object)
    }
}
