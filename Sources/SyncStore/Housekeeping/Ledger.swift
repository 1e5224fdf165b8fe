import SyncCore
import SyncSQLite

/// The numbers that change in every transaction, in memory and in the table `counter`.
///
/// Invariant: ``enqueued`` is the sum of all counts, and the count of an open state is the number of its rows. Rows of
/// settled mutations that were pruned stay counted in their state and are counted in ``pruned`` as well.
struct Ledger {
    enum Number: Int, CaseIterable {
        /// Next numbers to use.
        case nextSeq, nextEvent, nextRecord, nextClaim
        /// The highest `seq` whose bytes have left or may have left.
        case maxSentSeq
        /// Every mutation up to here has a stored answer; a lower bound that only rises.
        case ackedSeq
        /// Every mutation up to here has its narrow row; later ones are new and pending.
        case absorbedSeq
        /// The clock's last stamp, milliseconds << 16 | counter.
        case clock
        case enqueued, pruned
        case relaxedLost, tailLost
        /// Number of rows of `tie` and of `unmet`; without any, they are not searched.
        case ties, unmet
        /// The last version that was given to a document of an existing backend, which has no versions like ours.
        case restVersion
        /// Next ids of files and of conflicts to use.
        case nextBlob, nextConflict

        /// The value before the number was ever written.
        var initial: Int64 {
            switch self {
            case .nextSeq, .nextEvent, .nextRecord, .nextClaim, .nextBlob, .nextConflict: 1
            case .maxSentSeq, .ackedSeq, .absorbedSeq, .clock, .enqueued, .pruned, .relaxedLost, .tailLost, .ties, .unmet, .restVersion: 0
            }
        }

        var name: String {
            switch self {
            case .nextSeq: "next_seq"
            case .nextEvent: "next_event"
            case .nextRecord: "next_record"
            case .nextClaim: "next_claim"
            case .maxSentSeq: "max_sent_seq"
            case .ackedSeq: "acked_seq"
            case .absorbedSeq: "absorbed_seq"
            case .clock: "clock"
            case .enqueued: "enqueued"
            case .pruned: "pruned"
            case .relaxedLost: "relaxed_lost"
            case .tailLost: "tail_lost"
            case .ties: "ties"
            case .unmet: "unmet"
            case .restVersion: "rest_version"
            case .nextBlob: "next_blob"
            case .nextConflict: "next_conflict"
            }
        }
    }

    /// Mutations that are counted together.
    struct Group: Hashable {
        var aid: Int64
        var eid: Int64
        var priority: Priority
        var state: MutationState
    }

    private(set) var numbers: [Int64]
    private(set) var counts: [Group: Int64] = [:]
    private(set) var byState = [Int64](repeating: 0, count: MutationState.allCases.count)
    private(set) var openByApp: [Int64: Int64] = [:]
    private(set) var open: Int64 = 0
    private var changedNumbers: UInt32 = 0
    private var changedGroups: Set<Group> = []

    /// An upper bound that no database reaches; small enough for all sums and successors of such numbers.
    static let most: Int64 = 1 << 53

    init() {
        numbers = [Int64](repeating: 0, count: Number.allCases.count)
        for number in Number.allCases { numbers[number.rawValue] = number.initial }
    }

    subscript(number: Number) -> Int64 {
        get { numbers[number.rawValue] }
        set {
            guard numbers[number.rawValue] != newValue else { return }
            numbers[number.rawValue] = newValue
            changedNumbers |= 1 << UInt32(number.rawValue)
        }
    }

    /// Number of new mutations that have no narrow row yet.
    var unabsorbed: Int64 { self[.nextSeq] - 1 - self[.absorbedSeq] }

    func count(_ state: MutationState) -> Int64 { byState[state.rawValue] }

    /// Number of waiting mutations of one entity that one app has enqueued.
    func pending(eid: Int64, aid: Int64) -> Int64 {
        Priority.allCases.reduce(0) { sum, priority in
            sum + (counts[Group(aid: aid, eid: eid, priority: priority, state: .pending)] ?? 0)
        }
    }

    /// Returns the number, and raises it by one.
    mutating func next(_ number: Number) -> Int64 {
        defer { self[number] += 1 }
        return self[number]
    }

    mutating func add(_ count: Int64, to group: Group) {
        counts[group, default: 0] += count
        byState[group.state.rawValue] += count
        if !group.state.isTerminal {
            openByApp[group.aid, default: 0] += count
            open += count
        }
        changedGroups.insert(group)
    }

    mutating func move(_ count: Int64 = 1, from group: Group, to state: MutationState) {
        var target = group
        target.state = state
        add(-count, to: group)
        add(count, to: target)
    }

    mutating func move(_ count: Int64 = 1, from group: Group, to priority: Priority) {
        var target = group
        target.priority = priority
        add(-count, to: group)
        add(count, to: target)
    }
}

// MARK: - On the medium

extension Ledger {
    /// Loads the stored numbers, and counts the new mutations that have no narrow row yet.
    static func load(from database: Database) throws(StoreError) -> Ledger {
        var ledger = Ledger()
        let known = Dictionary(uniqueKeysWithValues: Number.allCases.map { ($0.name, $0) })
        try database.each("SELECT name, aid, eid, priority, state, n FROM counter") { row throws(StoreError) in
            let name = row.text(0)
            // The clock is no count (``HybridClock/packed``); any value of it can be used.
            guard known[name] == .clock || (0...most).contains(row.int(5)) else {
                throw StoreError(
                    .corrupt, doing: "read the counters", detail: "\(name) is \(row.int(5)), which no count can reach")
            }
            if let number = known[name] {
                ledger.numbers[number.rawValue] = row.int(5)
            } else if name == groupName, let priority = Priority(rawValue: Int(clamping: row.int(3))),
                let state = MutationState(rawValue: Int(clamping: row.int(4)))
            {
                ledger.add(row.int(5), to: Group(aid: row.int(1), eid: row.int(2), priority: priority, state: state))
            }
        }
        ledger.changedGroups.removeAll()
        // Numbers of new mutations are only in their rows until the first change writes them.
        try database.each(
            "SELECT aid, eid, priority, count(*), max(seq) FROM payload WHERE seq > ? GROUP BY aid, eid, priority",
            .int(ledger[.absorbedSeq])
        ) { row throws(StoreError) in
            guard let priority = Priority(rawValue: Int(clamping: row.int(2))) else { return }
            ledger.add(row.int(3), to: Group(aid: row.int(0), eid: row.int(1), priority: priority, state: .pending))
            ledger[.enqueued] += row.int(3)
            // The database itself numbers these rows; a number beyond all counts is damage.
            guard row.int(4) <= most else {
                throw StoreError(
                    .corrupt, doing: "read the counters",
                    detail: "a mutation has the number \(row.int(4)), which no count can reach")
            }
            ledger[.nextSeq] = max(ledger[.nextSeq], row.int(4) + 1)
        }
        return ledger
    }

    /// Writes the changed numbers. The caller has given every mutation its narrow row before.
    mutating func save(to database: Database) throws(StoreError) {
        for number in Number.allCases where changedNumbers & 1 << UInt32(number.rawValue) != 0 {
            try Self.upsert(database, number.name, 0, 0, 0, 0, self[number])
        }
        for group in changedGroups {
            try Self.upsert(
                database, Self.groupName, group.aid, group.eid, Int64(group.priority.rawValue), Int64(group.state.rawValue),
                counts[group] ?? 0)
        }
        changedNumbers = 0
        changedGroups.removeAll(keepingCapacity: true)
    }

    private static let groupName = "mutations"

    private static func upsert(
        _ database: Database, _ name: String, _ aid: Int64, _ eid: Int64, _ priority: Int64, _ state: Int64, _ n: Int64
    ) throws(StoreError) {
        try database.run(
            """
            INSERT INTO counter (name, aid, eid, priority, state, n) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT DO UPDATE SET n = excluded.n
            """, .text(name), .int(aid), .int(eid), .int(priority), .int(state), .int(n))
    }
}
