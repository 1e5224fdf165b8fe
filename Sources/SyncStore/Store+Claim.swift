package import SyncCore

extension Store {
    /// Takes the next batch. Invariant: a mutation is committed as sent, with the highest sent `seq`, before its bytes leave.
    ///
    /// By priority, then by `seq`, at least one if any is eligible and not too large. Nothing overtakes an older mutation of its record, and an
    /// atomic list goes whole or not at all. Work is in proportion to what is taken, not to what waits.
    ///
    /// - Returns: `nil` when nothing is eligible.
    package func claim(_ limits: BatchLimits, at now: Moment) throws(StoreError) -> Batch? {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            return try claimNext(limits)
        }
    }

    /// - Precondition: In a transaction that is prepared for changes.
    func claimNext(_ limits: BatchLimits) throws(StoreError) -> Batch? {
        try wakeDue()
        var selection = ClaimSelection(limits: limits)
        try selection.run(in: self)
        for seq in selection.damaged { try hold(seq) }
        guard !selection.taken.isEmpty else { return nil }
        let claim = ledger.take(.nextClaim)
        let seqs = selection.taken.map(\.outbox.seq)
        for run in Self.runs(of: seqs) {
            try database.run(
                """
                UPDATE mutation SET state = 1, ready = 0, sent = 1, claim = ?, first_sent_ms = coalesce(first_sent_ms, ?)
                WHERE seq BETWEEN ? AND ?
                """, .int(claim), .int(now.wall.milliseconds), .int(run.lowerBound), .int(run.upperBound))
        }
        for row in selection.taken { ledger.move(from: row.outbox.ledgerGroup, to: .inFlight) }
        ledger[.maxSentSeq] = max(ledger[.maxSentSeq], seqs.max() ?? 0)
        journal.add(.mutation(.inFlight), seqs)
        return try batch(selection.taken)
    }

    /// The mutations whose outcome is unknown, in the order they were claimed, unchanged.
    ///
    /// - Returns: `nil` when there are none.
    package func loadInFlight(_ limits: BatchLimits, at now: Moment) throws(StoreError) -> Batch? {
        while true {
            // An atomic list that begins inside the limit may end behind it. What is past the limit in bytes is not read:
            // after the database went back in time, all that waited is in flight.
            var rows: [ClaimRow] = []
            var bytes = 0
            try database.each(
                """
                SELECT p.*, m.* FROM mutation m JOIN payload p ON p.seq = m.seq
                WHERE m.state = 1 AND m.priority <= ? ORDER BY m.claim, m.priority, m.seq LIMIT ?
                """, .int(limits.leastPriority.rawValue), .int(max(1, limits.mutations) + Limits.atomicMutations),
                while: { bytes <= limits.bytes || rows.last?.unit == rows.first?.unit }
            ) { row throws(StoreError) in
                rows.append(ClaimRow(row))
                bytes += rows[rows.count - 1].payload.contentBytes
            }
            let damaged = rows.filter { !$0.isSound }
            if damaged.isEmpty {
                let chosen = ClaimSelection.leading(of: rows, within: limits)
                return chosen.isEmpty ? nil : try batch(chosen)
            }
            try transact(at: now) { () throws(StoreError) in
                try prepareForChange()
                for row in damaged { try hold(row.outbox.seq) }
            }
        }
    }

    private func batch(_ rows: [ClaimRow]) throws(StoreError) -> Batch {
        var rows = rows
        if options.ablations.contains(.keyPerAttempt) {
            for index in rows.indices { try renewKey(of: &rows[index].payload) }
        }
        return Batch(
            mutations: rows.map {
                $0.payload.outgoing(entity: names.entity($0.payload.eid), priority: $0.outbox.priority)
            }, ackedSeq: try ackedSeq(), maxSentSeq: ledger[.maxSentSeq])
    }

    /// The end of the answered part of the outbox. Starts where the last search ended, so each row is passed once.
    private func ackedSeq() throws(StoreError) -> Int64 {
        let open = try database.number(
            "SELECT seq FROM mutation WHERE seq > ? AND state IN (0, 1, 4, 5) ORDER BY seq LIMIT 1", .int(ledger[.ackedSeq]))
        ledger[.ackedSeq] = max(ledger[.ackedSeq], (open ?? ledger[.absorbedSeq] + 1) - 1)
        return ledger[.ackedSeq]
    }

    /// Numbers that rise by one, together.
    static func runs(of seqs: [Int64]) -> [ClosedRange<Int64>] {
        var runs: [ClosedRange<Int64>] = []
        for seq in seqs.sorted() {
            if let last = runs.last, seq == last.upperBound + 1 {
                runs[runs.count - 1] = last.lowerBound...seq
            } else {
                runs.append(seq...seq)
            }
        }
        return runs
    }
}

/// A mutation that may go, with both of its rows.
struct ClaimRow {
    var payload: Payload
    var outbox: OutboxRow
    var isSound: Bool

    /// The same for all members of an atomic list.
    var unit: Int64 { outbox.group?.lowerBound ?? outbox.seq }

    /// - Parameter row: `payload.*`, then `mutation.*`.
    init(_ row: Statement) {
        payload = Payload(row, at: 0)
        outbox = OutboxRow(row, at: Payload.columnCount)
        isSound = Payload.isSound(row, at: 0)
    }
}

/// The choice of one batch, front to back.
///
/// Two sources are merged by priority and `seq`: the ready mutations, in the order of their index, and those that become
/// eligible because what was before them goes in this very batch. Since an older mutation of a record is never less urgent
/// than a younger one, whatever is chosen later sorts later.
struct ClaimSelection {
    let limits: BatchLimits
    private(set) var taken: [ClaimRow] = []
    private(set) var damaged: [Int64] = []
    private var takenSeqs: Set<Int64> = []
    private var bytes = 0
    /// Eligible behind what was taken, first to go last.
    private var followers: [ClaimRow] = []

    init(limits: BatchLimits) {
        self.limits = limits
    }

    mutating func run(in store: Store) throws(StoreError) {
        let ready = try store.database.statement(
            """
            SELECT p.*, m.* FROM mutation m INDEXED BY mutation_ready JOIN payload p ON p.seq = m.seq
            WHERE m.ready = 1 AND m.priority <= ? ORDER BY m.priority, m.seq
            """)
        try ready.bind([.int(limits.leastPriority.rawValue)])
        defer { ready.reset() }
        var next = try ready.step() ? ClaimRow(ready) : nil
        while true {
            let candidate: ClaimRow
            if let follower = followers.last, next.map({ Self.isBefore(follower, $0) }) ?? true {
                candidate = followers.removeLast()
            } else if let first = next {
                candidate = first
                next = try ready.step() ? ClaimRow(ready) : nil
            } else {
                return
            }
            let unit = try unit(of: candidate, in: store)
            if isTooLarge(unit) { continue }
            // Whatever failed alone spoils no batch of others, and nobody waits behind it for more than its own request.
            let isAlone = unit.contains { $0.outbox.isAlone }
            guard fits(unit), !isAlone || taken.isEmpty else { return }
            let unsound = unit.filter { !$0.isSound }
            if unsound.isEmpty {
                try take(unit, in: store)
            } else {
                damaged += unsound.map(\.outbox.seq)
            }
            if isAlone, !taken.isEmpty { return }
        }
    }

    /// The first whole units of rows that are in order.
    static func leading(of rows: [ClaimRow], within limits: BatchLimits) -> [ClaimRow] {
        var chosen = ClaimSelection(limits: limits)
        var rest = rows[...]
        while let first = rest.first {
            let unit = rest.prefix { $0.unit == first.unit }
            let isAlone = unit.contains { $0.outbox.isAlone }
            rest = rest.dropFirst(unit.count)
            if chosen.isTooLarge(Array(unit)) { continue }
            guard chosen.fits(Array(unit)), !isAlone || chosen.taken.isEmpty else { break }
            chosen.taken += unit
            chosen.bytes += unit.reduce(0) { $0 + $1.payload.contentBytes }
            if isAlone { break }
        }
        return chosen.taken
    }

    private func fits(_ unit: [ClaimRow]) -> Bool {
        let size = unit.reduce(0) { $0 + $1.payload.contentBytes }
        return taken.isEmpty || (taken.count + unit.count <= limits.mutations && bytes + size <= limits.bytes)
    }

    /// What follows in its record waits behind it.
    private func isTooLarge(_ unit: [ClaimRow]) -> Bool {
        limits.mutationBytes.map { max in unit.reduce(0) { $0 + $1.payload.contentBytes } > max } ?? false
    }

    private static func isBefore(_ left: ClaimRow, _ right: ClaimRow) -> Bool {
        (left.outbox.priority, left.unit) < (right.outbox.priority, right.unit)
    }

    /// A mutation alone, or with all waiting members of its atomic list.
    private func unit(of row: ClaimRow, in store: Store) throws(StoreError) -> [ClaimRow] {
        guard let group = row.outbox.group else { return [row] }
        return try store.database.all(
            """
            SELECT p.*, m.* FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.seq BETWEEN ? AND ? AND m.state = 0 ORDER BY m.seq
            """, .int(group.lowerBound), .int(group.upperBound)
        ) { row throws(StoreError) in ClaimRow(row) }
    }

    private mutating func take(_ unit: [ClaimRow], in store: Store) throws(StoreError) {
        for row in unit {
            taken.append(row)
            takenSeqs.insert(row.outbox.seq)
            bytes += row.payload.contentBytes
        }
        for row in unit {
            guard let rid = row.outbox.rid else { continue }
            try addFollower(of: rid, after: row.outbox.seq, in: store)
        }
    }

    private mutating func addFollower(of rid: Int64, after seq: Int64, in store: Store) throws(StoreError) {
        let following = try store.database.first(
            """
            SELECT p.*, m.* FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.seq > ? AND m.state < 6 AND m.state <> 3 ORDER BY m.seq LIMIT 1
            """, .int(rid), .int(seq)
        ) { row throws(StoreError) in ClaimRow(row) }
        guard let row = following, row.outbox.state == .pending, row.outbox.nextAge == nil,
            row.outbox.priority <= limits.leastPriority, !takenSeqs.contains(row.outbox.seq)
        else { return }
        if let group = row.outbox.group, try !isFree(group, in: store) { return }
        guard !followers.contains(where: { $0.unit == row.unit }) else { return }
        let place = followers.firstIndex { Self.isBefore($0, row) } ?? followers.endIndex
        followers.insert(row, at: place)
    }

    /// Whether all that is before the members of an atomic list goes in this batch.
    private func isFree(_ group: ClosedRange<Int64>, in store: Store) throws(StoreError) -> Bool {
        for member in try store.groupMembers(group) {
            if member.state.blocksItsRecord || member.nextAge != nil { return false }
            guard member.state == .pending, let rid = member.rid else { continue }
            if let before = try store.lastBlocking(of: rid, before: group.lowerBound), !takenSeqs.contains(before) {
                return false
            }
        }
        return true
    }
}
