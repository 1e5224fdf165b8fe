import SyncCore
import SyncSQLite

/// One row of `mutation`: the state of a mutation.
struct OutboxRow {
    let seq: Int64
    var state: MutationState
    var priority: Priority
    let eid: Int64
    let aid: Int64
    /// The record; `nil` for an event.
    let rid: Int64?
    /// Size of the payload, bytes. It is kept here as well, so that waiting work can be summed up without reading payloads.
    let bytes: Int64
    /// Eligible now, and the representative of its record or atomic list (`Store+Readiness.swift`).
    var isReady = false
    var isSent = false
    var attempts: Int64 = 0
    /// Number of answers that sent it back to wait; the length of the next wait follows from it.
    var retries: Int64 = 0
    /// It failed when it was sent alone, so it never shares a batch again.
    var isAlone = false
    var claim: Int64?
    /// First and last `seq` of its atomic list.
    var group: ClosedRange<Int64>?
    var nextAge: Int64?
    var ttlAge: Int64?
    var pruneAge: Int64?
    var firstSentMS: Int64?
    var into: Int64?
    var problem: String?
    /// Place in its batch, from 0.
    var place: Int64?

    static let columnCount: Int32 = 22

    init(_ row: SQLiteStatement, at first: Int32 = 0) {
        seq = row.int(first)
        state = MutationState(rawValue: Int(clamping: row.int(first + 1))) ?? .held
        priority = Priority(rawValue: Int(clamping: row.int(first + 2))) ?? .normal
        eid = row.int(first + 3)
        aid = row.int(first + 4)
        rid = row.optionalInt(first + 5)
        bytes = row.int(first + 6)
        isReady = row.bool(first + 7)
        isSent = row.bool(first + 8)
        attempts = row.int(first + 9)
        retries = row.int(first + 10)
        isAlone = row.bool(first + 11)
        claim = row.optionalInt(first + 12)
        if let low = row.optionalInt(first + 13), let high = row.optionalInt(first + 14), low <= high { group = low...high }
        nextAge = row.optionalInt(first + 15)
        ttlAge = row.optionalInt(first + 16)
        pruneAge = row.optionalInt(first + 17)
        firstSentMS = row.optionalInt(first + 18)
        into = row.optionalInt(first + 19)
        problem = row.optionalText(first + 20)
        place = row.optionalInt(first + 21)
    }

    init(seq: Int64, priority: Priority, eid: Int64, aid: Int64, rid: Int64?, bytes: Int64) {
        self.seq = seq
        self.state = .pending
        self.priority = priority
        self.eid = eid
        self.aid = aid
        self.rid = rid
        self.bytes = bytes
    }

    /// Pending or in flight, without a verdict of the hub.
    var isUnsettled: Bool { state.isUnsettled }

    /// Returns whether its time to live is over before it was sent. A critical mutation has none.
    func isOverdue(at age: Int64) -> Bool { state == .pending && !isSent && ttlAge.map { $0 <= age } ?? false }

    /// `true` when it was not written with its atomic list: it is a decision about one of the list's members.
    var hasJoined: Bool { group.map { !$0.contains(seq) } ?? false }

    /// The mutation that it was merged into, or the newer one that replaces it; `nil`: it stands for itself. No replaced one is pointed to
    /// twice, so a chain of these ends.
    var replacement: Int64? {
        let isReplaced = state == .coalesced ? into != seq : state == .resolved && into ?? 0 > seq
        return isReplaced ? into : nil
    }

    /// The `seq` of the first member of its atomic list, or its own.
    var unit: Int64 { group?.lowerBound ?? seq }

    var ledgerGroup: Ledger.Group { Ledger.Group(aid: aid, eid: eid, priority: priority, state: state) }

    func insert(into database: Database) throws(StoreError) {
        try database.run(
            """
            INSERT INTO mutation (seq, state, priority, eid, aid, rid, bytes, ready, first_seq, last_seq, ttl_age, prune_age,
                into_seq)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            .int(seq), .int(state.rawValue), .int(priority.rawValue), .int(eid), .int(aid), .optional(rid), .int(bytes),
            .bool(isReady), .optional(group?.lowerBound), .optional(group?.upperBound), .optional(ttlAge), .optional(pruneAge),
            .optional(into))
    }

    /// - Parameter before: The row as it was read.
    /// - Returns: `false` when state or priority have changed since; then nothing is written.
    func update(in database: Database, before: OutboxRow) throws(StoreError) -> Bool {
        let changed = try database.run(
            """
            UPDATE mutation SET state = ?, priority = ?, ready = ?, sent = ?, attempts = ?, retries = ?, alone = ?, claim = ?,
                next_age = ?, prune_age = ?, first_sent_ms = ?, into_seq = ?, problem = ? WHERE seq = ? AND state = ? AND priority = ?
            """,
            .int(state.rawValue), .int(priority.rawValue), .bool(isReady), .bool(isSent), .int(attempts), .int(retries),
            .bool(isAlone), .optional(claim), .optional(nextAge), .optional(pruneAge), .optional(firstSentMS), .optional(into),
            .optional(problem), .int(seq), .int(before.state.rawValue), .int(before.priority.rawValue))
        return changed == 1
    }
}

extension Problem {
    /// The text that is stored with a mutation.
    var stored: String { json(prefix: Problem.localPrefix).json }

    static func read(stored text: String?) -> Problem? {
        text.flatMap { StoredJSON.read($0) }.map { Problem($0) }
    }
}
