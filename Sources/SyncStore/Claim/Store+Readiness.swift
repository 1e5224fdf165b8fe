import SyncCore
import SyncSQLite

// Readiness of mutations is updated with each change instead of being computed when a batch is made. So the cost of a claim depends on the
// rows that it takes, not on the rows that wait before them: a million rows behind a conflict are not read.
//
// Invariant: a pending mutation is ready if and only if it is not delayed, not tied (`Store+Ties.swift`), and no other mutation of its
// record is before it. Before it means: an older mutation that is pending, in flight, conflicted, failed or held. For an atomic list this
// must hold for all of its members at once. Other members do not count as before, and only the oldest waiting member is marked ready, for
// all.

extension Store {
    /// The oldest mutation of a record that blocks later ones.
    func firstBlocking(of rid: Int64) throws(StoreError) -> OutboxRow? {
        try database.first(
            """
            SELECT * FROM mutation WHERE rid = ? AND state < 6 AND state <> 3 ORDER BY seq LIMIT 1
            """, .int(rid)
        ) { row throws(StoreError) in OutboxRow(row) }
    }

    /// Must be called when a mutation of the record was settled, sent back or became due.
    func refreshReadiness(ofRecord rid: Int64) throws(StoreError) {
        for group in try listsJoined(on: rid) { try refreshReadiness(ofGroup: group) }
        guard let head = try firstBlocking(of: rid), head.state == .pending else { return }
        if let group = head.group {
            try refreshReadiness(ofGroup: group)
        } else {
            let isTied = try isTied(head.seq)
            try setReady(head.seq, head.nextAge == nil && !isTied, was: head.isReady)
        }
    }

    /// Lists with a waiting decision about this record. The decision has the place of the disputed mutation, so a mutation that was
    /// enqueued since may be the oldest of the record and is still not before it.
    private func listsJoined(on rid: Int64) throws(StoreError) -> [ClosedRange<Int64>] {
        var lists: [ClosedRange<Int64>] = []
        try database.each(
            "SELECT * FROM mutation INDEXED BY mutation_joined WHERE seq > last_seq AND rid = ? AND state = 0", .int(rid)
        ) { row throws(StoreError) in if let group = OutboxRow(row).group, !lists.contains(group) { lists.append(group) } }
        return lists
    }

    func refreshReadiness(ofGroup seqs: ClosedRange<Int64>) throws(StoreError) {
        let members = try groupMembers(seqs)
        let waiting = members.filter { $0.state == .pending }
        guard let speaker = waiting.first else { return }
        let isHeld = members.contains { $0.state.blocksItsRecord } && !options.ablations.contains(.listsTorn)
        var isReady = !isHeld && !waiting.contains { $0.nextAge != nil }
        if isReady {
            for member in waiting {
                var before: Int64?
                if let rid = member.rid { before = try lastBlocking(of: rid, before: seqs.lowerBound) }
                let isTied = try isTied(member.seq)
                guard before != nil || isTied else { continue }
                isReady = false
                break
            }
        }
        for member in waiting { try setReady(member.seq, isReady && member.seq == speaker.seq, was: member.isReady) }
    }

    /// All mutations of an atomic list, oldest first: those that were written with it, and later decisions about them, which go in the same
    /// commit.
    func groupMembers(_ seqs: ClosedRange<Int64>) throws(StoreError) -> [OutboxRow] {
        var members = try database.all(
            """
            SELECT * FROM mutation WHERE seq BETWEEN ? AND ? ORDER BY seq
            """, .int(seqs.lowerBound), .int(seqs.upperBound)
        ) { row throws(StoreError) in OutboxRow(row) }
        try database.each(
            "SELECT * FROM mutation INDEXED BY mutation_joined WHERE first_seq = ? AND seq > last_seq ORDER BY seq",
            .int(seqs.lowerBound)
        ) { row throws(StoreError) in members.append(OutboxRow(row)) }
        return members
    }

    /// Members of one atomic list in the order in which the hub is to decide them. A decision has the place of the disputed mutation,
    /// because other members may depend on that.
    func inListOrder(_ members: [OutboxRow]) throws(StoreError) -> [OutboxRow] {
        guard members.contains(where: \.hasJoined) else { return members }
        var placed: [(place: Int64, row: OutboxRow)] = []
        for member in members { placed.append((try listPlace(of: member), member)) }
        return placed.sorted { ($0.place, $0.row.seq) < ($1.place, $1.row.seq) }.map(\.row)
    }

    /// The members of each atomic list in the order in which the hub is to decide them. A decision that has joined one is younger than the
    /// list.
    func unitsInListOrder<Member>(_ rows: [Member], _ outbox: (Member) -> OutboxRow) throws(StoreError) -> [Member] {
        guard rows.contains(where: { outbox($0).hasJoined }) else { return rows }
        var ordered: [Member] = []
        var rest = rows[...]
        while let first = rest.first {
            let unit = rest.prefix { outbox($0).unit == outbox(first).unit }
            rest = rest.dropFirst(unit.count)
            let bySeq = Dictionary(unit.map { (outbox($0).seq, $0) }, uniquingKeysWith: { first, _ in first })
            ordered += try inListOrder(unit.map(outbox)).compactMap { bySeq[$0.seq] }
        }
        return ordered
    }

    private func listPlace(of row: OutboxRow) throws(StoreError) -> Int64 {
        guard row.hasJoined, let group = row.group else { return row.seq }
        var seq = row.seq
        // Each decision takes the place of an older mutation.
        while !group.contains(seq), let older = try payload(seq)?.supersedes.flatMap({ UUIDv7.carried(in: $0) }), older < seq {
            seq = older
        }
        return seq
    }

    /// The youngest blocking mutation of the record before `seq`.
    func lastBlocking(of rid: Int64, before seq: Int64) throws(StoreError) -> Int64? {
        try database.number(
            """
            SELECT seq FROM mutation WHERE rid = ? AND seq < ? AND state < 6 AND state <> 3 ORDER BY seq DESC LIMIT 1
            """, .int(rid), .int(seq))
    }

    func setReady(_ seq: Int64, _ isReady: Bool, was: Bool) throws(StoreError) {
        guard isReady != was else { return }
        try database.run("UPDATE mutation SET ready = ? WHERE seq = ?", .bool(isReady), .int(seq))
    }

    // MARK: - Delays

    /// Continues due work: mutations that were tied to an accepted one (``releaseMet()``), delayed mutations, and those that were parked
    /// because they failed alone. It takes at most a slice of them, the longest due first; `retryAt` is then in the past, and the next
    /// claim continues. Mutations that end with a refused one are handled as well (``takeAlongFalling()``).
    func wakeDue() throws(StoreError) {
        try releaseMet()
        try takeAlongFalling()
        let due = try database.all(
            """
            SELECT * FROM mutation WHERE next_age IS NOT NULL AND next_age <= ? ORDER BY next_age LIMIT ?
            """, .int(age), .int(Self.sliceRows)
        ) { row throws(StoreError) in OutboxRow(row) }
        for found in due {
            var row = found
            row.nextAge = nil
            if found.state == .failed { row.attempts = 0 }
            // An event has no earlier mutations on its record.
            let isTied = try isTied(row.seq)
            row.isReady = row.rid == nil && row.group == nil && !isTied
            try move(row, to: .pending)
            if found.state == .failed { try level(row) }
        }
        for row in due {
            if let group = row.group { try refreshReadiness(ofGroup: group) }
            if let rid = row.rid { try refreshReadiness(ofRecord: rid) }
        }
    }

    /// Makes the delayed mutations of an entity due: the hub delayed them in another version of their schema.
    func endDelays(ofEntity eid: Int64) throws(StoreError) {
        try database.run(
            """
            UPDATE mutation SET next_age = ?1 WHERE next_age IS NOT NULL AND next_age > ?1 AND state = 0
            AND (SELECT eid FROM payload WHERE payload.seq = mutation.seq) = ?2
            """, .int(age), .int(eid))
    }

    // MARK: - Priority inheritance

    /// Raises the priority of all mutations that must go before a more urgent one: older ones of its record, those it depends on, its
    /// parents' creates, the atomic lists of all these, and so on. So taking mutations by priority and then by `seq` keeps the order of a
    /// record, and mutations in flight before it are settled with it.
    func raisePriorities(before row: OutboxRow) throws(StoreError) {
        guard row.priority != .bulk else { return }
        var work = [Raise.ties(of: row.seq)]
        if let rid = row.rid { work.append(.older(rid: rid, before: row.seq)) }
        try raiseAll(to: row.priority, work)
    }

    /// Work items that raise mutations to the priority of one that waits for them. They are a list instead of recursion, because the length
    /// of the chains is up to the apps.
    private enum Raise {
        /// Mutations of a record that come before this `seq`.
        case older(rid: Int64, before: Int64)
        /// The mutations that this one is tied to.
        case ties(of: Int64)
    }

    /// Raises priorities again on a record of which mutations returned from the network: younger ones may have become more urgent
    /// meanwhile.
    ///
    /// - Parameter last: The returned mutations are no younger than this. Of those behind it the first is the most urgent, so the rest need
    ///   not be checked; `nil`: unknown.
    func levelPriorities(of rid: Int64, upTo last: Int64? = nil) throws(StoreError) {
        var waiting: [OutboxRow] = []
        var isPast = false
        try database.each(
            "SELECT * FROM mutation WHERE rid = ? AND state < 6 AND state IN (0, 1) ORDER BY seq", .int(rid), while: { !isPast }
        ) { row throws(StoreError) in
            waiting.append(OutboxRow(row))
            if let last, row.int(0) > last { isPast = true }
        }
        var urgent = Priority.bulk
        for row in waiting.reversed() {
            if row.priority > urgent { try raiseAll(to: urgent, [.older(rid: rid, before: row.seq + 1)]) }
            urgent = min(urgent, row.priority)
        }
    }

    /// Restores the priorities of a parked mutation that waits again, because its record and its ties have changed meanwhile.
    func level(_ row: OutboxRow) throws(StoreError) {
        if let rid = row.rid { try levelPriorities(of: rid) }
        try levelTies(of: row.seq)
        if let rid = row.rid { try restatus(rid) }
    }

    /// Raises the priority along ties that were added meanwhile, in both directions.
    private func levelTies(of seq: Int64) throws(StoreError) {
        guard let row = try outboxRow(seq) else { return }
        var urgent = row.priority
        for later in try tied(to: seq) {
            if let waiting = try outboxRow(later), waiting.isUnsettled { urgent = min(urgent, waiting.priority) }
        }
        guard urgent < row.priority else { return try raisePriorities(before: row) }
        try raise(row, to: urgent)
    }

    /// Gives a mutation, and all that must go before it, at least this priority.
    func raise(_ row: OutboxRow, to priority: Priority) throws(StoreError) {
        var work: [Raise] = []
        try raise(row, to: priority, &work)
        try raiseAll(to: priority, work)
    }

    private func raiseAll(to priority: Priority, _ work: [Raise]) throws(StoreError) {
        var work = work
        while let next = work.popLast() {
            switch next {
            case .ties(let seq):
                for earlier in try ties(of: seq) {
                    if let row = try outboxRow(earlier) { try raise(row, to: priority, &work) }
                }
            case .older(let rid, let before): try raiseOlder(of: rid, before: before, to: priority, &work)
            }
        }
    }

    /// Raises a slice of the older mutations of a record; the ones before the slice are added to the work.
    private func raiseOlder(
        of rid: Int64, before seq: Int64, to priority: Priority, _ work: inout [Raise]
    ) throws(StoreError) {
        // An older mutation is never less urgent than a younger one, so the less urgent ones are together at the end. A long queue behind
        // one record is not scanned with each new mutation.
        var slower: [OutboxRow] = []
        var isPast = false
        try database.each(
            "SELECT * FROM mutation WHERE rid = ? AND seq < ? AND state < 6 AND state IN (0, 1) ORDER BY seq DESC",
            .int(rid), .int(seq), while: { !isPast && slower.count < Self.sliceRows }
        ) { row throws(StoreError) in
            let older = OutboxRow(row)
            isPast = older.priority <= priority
            if !isPast { slower.append(older) }
        }
        if !isPast, slower.count == Self.sliceRows, let last = slower.last { work.append(.older(rid: rid, before: last.seq)) }
        for older in slower { try raise(older, to: priority, isPassing: (rid, seq), &work) }
    }

    /// - Parameter isPassing: The older mutations of this record are being raised already, from this `seq` on.
    private func raise(
        _ row: OutboxRow, to priority: Priority, isPassing: (rid: Int64, before: Int64)? = nil, _ work: inout [Raise]
    ) throws(StoreError) {
        for member in try row.group.map(groupMembers) ?? [row] where member.isUnsettled && member.priority > priority {
            // Another member may have been raised first.
            guard try outboxRow(member.seq)?.priority == member.priority else { continue }
            try database.run(
                "UPDATE mutation SET priority = ? WHERE seq = ?", .int(priority.rawValue), .int(member.seq))
            ledger.move(from: member.ledgerGroup, to: priority)
            let isPassed = isPassing.map { $0.rid == member.rid && member.seq < $0.before } ?? false
            if let rid = member.rid, !isPassed { work.append(.older(rid: rid, before: member.seq)) }
            work.append(.ties(of: member.seq))
        }
    }
}
