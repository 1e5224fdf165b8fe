import SyncCore
import SyncSQLite

/// Chooses one batch, front to back.
///
/// Two sources are merged by priority and `seq`: the ready mutations in the order of their index, and those that become eligible because
/// everything before them goes in this very batch. An older mutation of a record is never less urgent than a younger one, and neither is a
/// mutation that another one is tied to.
///
/// The chosen mutations are then put in order (``BatchPlace``). A mutation whose predecessor would come after it in that order is not
/// chosen: it waits for the next batch.
struct ClaimSelection {
    let limits: BatchLimits
    let ranks: EntityRanks
    let age: Int64
    /// Some mutations are tied. Without any, ties are not looked up.
    let isTiedAnywhere: Bool
    /// Each mutation becomes a request of its own, and the requests run at the same time. So no mutation is chosen that waits for another
    /// one of the batch, and members of an atomic list go one after the other. An existing backend does not support such lists.
    var isOneByOne = false
    private(set) var taken: [ClaimRow] = []
    private(set) var damaged: [Int64] = []
    /// Work that stays only because of its size.
    private(set) var withheld = WithheldWork()
    /// Mutations whose time to live is over.
    private(set) var expired: [ClaimRow] = []
    private var places: [Int64: BatchPlace] = [:]
    private var bytes = 0
    /// Mutations that are eligible behind chosen ones. Their content is read when it is their turn.
    private var followers = MinHeap<Follower>()
    /// The units of ``followers``.
    private var following: Set<Int64> = []

    init(limits: BatchLimits, ranks: EntityRanks, age: Int64 = 0, isTiedAnywhere: Bool = false) {
        self.limits = limits
        self.ranks = ranks
        self.age = age
        self.isTiedAnywhere = isTiedAnywhere
    }

    mutating func run(in store: Store) throws(StoreError) {
        let ready = try store.database.statement(
            """
            SELECT p.*, m.* FROM mutation m INDEXED BY mutation_ready JOIN payload p ON p.seq = m.seq
            WHERE m.ready = 1 AND m.priority <= ? ORDER BY m.priority, m.seq
            """, [.int(limits.leastPriority.rawValue)])
        defer { ready.reset() }
        var next = try store.database.step(ready) ? ClaimRow(ready) : nil
        while true {
            let candidate: ClaimRow
            if let follower = followers.min, next.map({ follower < Follower($0.outbox) }) ?? true {
                _ = followers.popMin()
                following.remove(follower.unit)
                guard let row = try claimRow(follower.seq, in: store) else { continue }
                candidate = row
            } else if let first = next {
                candidate = first
                next = try store.database.step(ready) ? ClaimRow(ready) : nil
            } else {
                return
            }
            // A list with a decision in it may come up twice: by itself, and behind a later change of the decision's record.
            if places[candidate.outbox.seq] != nil { continue }
            let unit = try unit(of: candidate, in: store)
            if let most = limit(of: unit), size(of: unit) > most {
                withheld.add(urgency(of: unit), bytes: size(of: unit))
                if withheld.count >= WithheldWork.countMax { return }
                continue
            }
            if unit.contains(where: { $0.outbox.isOverdue(at: age) }) {
                expired.append(candidate)
                if expired.count >= Store.sliceRows { return }
                continue
            }
            // A mutation that failed alone does not share a batch, so it delays others by its own request only.
            let isAlone = unit.contains { $0.outbox.isAlone }
            guard fits(unit), !isAlone || taken.isEmpty else { return }
            let unsound = unit.filter { !$0.isSound }
            if unsound.isEmpty {
                try select(unit, in: store)
            } else {
                damaged += unsound.map(\.outbox.seq)
            }
            if isAlone, !taken.isEmpty { return }
        }
    }

    /// The chosen mutations in the order in which the hub is to apply them. Members of an atomic list stay together, in the order of their
    /// list.
    var inOrder: [ClaimRow] {
        taken.enumerated().map { (place: places[$0.element.outbox.seq], turn: $0.offset, row: $0.element) }
            .sorted { left, right in
                guard let first = left.place, let second = right.place, first != second else { return left.turn < right.turn }
                return first < second
            }
            .map(\.row)
    }

    /// The first whole units of rows that are already in order.
    static func leading(of rows: [ClaimRow], within limits: BatchLimits, isOneByOne: Bool = false) -> [ClaimRow] {
        var chosen = ClaimSelection(limits: limits, ranks: EntityRanks(RuleBook()))
        var rest = rows[...]
        while let first = rest.first {
            let unit = isOneByOne ? rest.prefix(1) : rest.prefix { $0.unit == first.unit }
            let isAlone = unit.contains { $0.outbox.isAlone }
            rest = rest.dropFirst(unit.count)
            if let most = chosen.limit(of: Array(unit)), chosen.size(of: Array(unit)) > most { continue }
            guard chosen.fits(Array(unit)), !isAlone || chosen.taken.isEmpty else { break }
            chosen.taken += unit
            chosen.bytes += unit.reduce(0) { $0 + $1.payload.contentBytes }
            if isAlone { break }
        }
        return chosen.taken
    }

    /// Returns whether the whole batch fits into the remaining allowance of its least urgent class.
    private func fits(_ unit: [ClaimRow]) -> Bool {
        let most = min(limits.bytes, limit(of: unit) ?? limits.bytes)
        return taken.isEmpty || (taken.count + unit.count <= limits.mutations && bytes + size(of: unit) <= most)
    }

    private func size(of unit: [ClaimRow]) -> Int { unit.reduce(0) { $0 + $1.payload.contentBytes } }

    /// The priority of the unit: for an atomic list, that of its most urgent member.
    private func urgency(of unit: [ClaimRow]) -> Priority { unit.map(\.outbox.priority).min() ?? .normal }

    /// Size above which the unit stays, bytes; later mutations of its record wait behind it. `nil`: no limit.
    private func limit(of unit: [ClaimRow]) -> Int? { limits.sizes.isUnlimited ? nil : limits.sizes[urgency(of: unit)] }

    /// A mutation alone, or with all waiting members of its atomic list.
    private func unit(of row: ClaimRow, in store: Store) throws(StoreError) -> [ClaimRow] {
        guard let group = row.outbox.group, !isOneByOne else { return [row] }
        var members = try store.database.all(
            """
            SELECT p.*, m.* FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.seq BETWEEN ? AND ? AND m.state = 0 ORDER BY m.seq
            """, .int(group.lowerBound), .int(group.upperBound)
        ) { row throws(StoreError) in ClaimRow(row) }
        try store.database.each(
            """
            SELECT p.*, m.* FROM mutation m INDEXED BY mutation_joined JOIN payload p ON p.seq = m.seq
            WHERE m.first_seq = ? AND m.seq > m.last_seq AND m.state = 0 ORDER BY m.seq
            """, .int(group.lowerBound)
        ) { row throws(StoreError) in members.append(ClaimRow(row)) }
        guard members.contains(where: \.outbox.hasJoined) else { return members }
        let order = try store.inListOrder(members.map(\.outbox)).enumerated().map { ($0.element.seq, $0.offset) }
        let turns = Dictionary(order, uniquingKeysWith: { first, _ in first })
        return members.sorted { turns[$0.outbox.seq] ?? 0 < turns[$1.outbox.seq] ?? 0 }
    }

    private func claimRow(_ seq: Int64, in store: Store) throws(StoreError) -> ClaimRow? {
        try store.database.first(
            "SELECT p.*, m.* FROM mutation m JOIN payload p ON p.seq = m.seq WHERE m.seq = ?", .int(seq)
        ) { row throws(StoreError) in ClaimRow(row) }
    }

    /// The place of an atomic list is that of its foremost member.
    private func place(of unit: [Candidate], in store: Store) -> BatchPlace? {
        unit.map { member in
            BatchPlace(
                priority: member.outbox.priority, action: member.action, entity: store.names.entity(member.outbox.eid),
                seq: member.outbox.unit, ranks: ranks)
        }.min()
    }

    private mutating func select(_ unit: [ClaimRow], in store: Store) throws(StoreError) {
        let place = place(of: unit.map { Candidate(outbox: $0.outbox, action: $0.payload.action) }, in: store)
        for row in unit {
            taken.append(row)
            places[row.outbox.seq] = place
            bytes += row.payload.contentBytes
        }
        if isOneByOne { return }
        for row in unit {
            if let rid = row.outbox.rid { try addFollower(of: rid, after: row.outbox.seq, in: store) }
            if isTiedAnywhere { try addTied(to: row.outbox.seq, in: store) }
        }
    }

    private mutating func addFollower(of rid: Int64, after seq: Int64, in store: Store) throws(StoreError) {
        var last = seq
        while true {
            let following = try store.database.first(
                """
                SELECT p.action, m.* FROM mutation m JOIN payload p ON p.seq = m.seq
                WHERE m.rid = ? AND m.seq > ? AND m.state < 6 AND m.state <> 3 ORDER BY m.seq LIMIT 1
                """, .int(rid), .int(last)
            ) { row throws(StoreError) in Candidate(row) }
            guard let following else { return }
            // A decision that was sent in the place of an older mutation blocks no other mutation.
            guard following.outbox.hasJoined, places[following.outbox.seq] != nil else { return try add(following, in: store) }
            last = following.outbox.seq
        }
    }

    /// Adds mutations that wait for `seq`, at most as many as the batch has room for, because one parent may have any number of children.
    /// The others become ready by themselves when the parent is accepted.
    private mutating func addTied(to seq: Int64, in store: Store) throws(StoreError) {
        let room = limits.mutations - taken.count - followers.count
        guard room > 0 else { return }
        let tied = try store.database.all(
            """
            SELECT p.action, m.* FROM tie t CROSS JOIN mutation m ON m.seq = t.seq CROSS JOIN payload p ON p.seq = m.seq
            WHERE t.on_seq = ? AND m.state = 0 AND m.next_age IS NULL AND m.priority <= ? ORDER BY t.seq LIMIT ?
            """, .int(seq), .int(limits.leastPriority.rawValue), .int(room)
        ) { row throws(StoreError) in Candidate(row) }
        for candidate in tied { try add(candidate, in: store) }
    }

    private mutating func add(_ candidate: Candidate, in store: Store) throws(StoreError) {
        let row = candidate.outbox
        guard row.state == .pending, row.nextAge == nil, row.priority <= limits.leastPriority, places[row.seq] == nil,
            !following.contains(row.unit)
        else { return }
        let unit = try members(of: candidate, in: store)
        guard let place = place(of: unit, in: store), try isFree(unit, at: place, in: store) else { return }
        followers.insert(Follower(row))
        following.insert(row.unit)
    }

    /// Finds the same members as ``unit(of:in:)``, without reading their content.
    private func members(of candidate: Candidate, in store: Store) throws(StoreError) -> [Candidate] {
        guard let group = candidate.outbox.group, !isOneByOne else { return [candidate] }
        var members = try store.database.all(
            """
            SELECT p.action, m.* FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.seq BETWEEN ? AND ? AND m.state = 0 ORDER BY m.seq
            """, .int(group.lowerBound), .int(group.upperBound)
        ) { row throws(StoreError) in Candidate(row) }
        try store.database.each(
            """
            SELECT p.action, m.* FROM mutation m INDEXED BY mutation_joined JOIN payload p ON p.seq = m.seq
            WHERE m.first_seq = ? AND m.seq > m.last_seq AND m.state = 0 ORDER BY m.seq
            """, .int(group.lowerBound)
        ) { row throws(StoreError) in members.append(Candidate(row)) }
        return members
    }

    /// Returns whether everything before the members of a unit goes in this batch, in front of them.
    private func isFree(_ unit: [Candidate], at place: BatchPlace, in store: Store) throws(StoreError) -> Bool {
        func isInFront(_ seq: Int64) -> Bool { places[seq].map { $0 < place } ?? false }
        let group = unit.first?.outbox.group
        if let group, try store.groupMembers(group).contains(where: { $0.state.blocksItsRecord || $0.nextAge != nil }) { return false }
        for member in unit {
            if let rid = member.outbox.rid {
                var before = try store.lastBlocking(of: rid, before: group?.lowerBound ?? member.outbox.seq)
                while let seq = before {
                    guard isInFront(seq) else { return false }
                    // A decision that goes in the place of an older mutation has passed the mutations that were enqueued in between.
                    before = try store.outboxRow(seq)?.hasJoined == true ? store.lastBlocking(of: rid, before: seq) : nil
                }
            }
            if isTiedAnywhere, try !store.ties(of: member.outbox.seq).allSatisfy(isInFront) { return false }
        }
        return true
    }

    /// The facts that decide whether and where a mutation can go, without its content.
    private struct Candidate {
        var outbox: OutboxRow
        var action: MutationAction

        init(outbox: OutboxRow, action: MutationAction) {
            self.outbox = outbox
            self.action = action
        }

        /// - Parameter row: `payload.action`, then `mutation.*`.
        init(_ row: SQLiteStatement) {
            self.init(outbox: OutboxRow(row, at: 1), action: MutationAction(number: row.int(0)))
        }
    }

    /// The order in which units are chosen: by priority, then by age.
    private struct Follower: Comparable {
        let priority: Priority
        let unit: Int64
        let seq: Int64

        init(_ row: OutboxRow) {
            (priority, unit, seq) = (row.priority, row.unit, row.seq)
        }

        static func < (left: Follower, right: Follower) -> Bool {
            (left.priority, left.unit) < (right.priority, right.unit)
        }
    }
}
