package import SyncCore
import SyncSQLite

extension Store {
    /// Claims the next batch. Invariant: a mutation is committed as sent, with the highest sent `seq`, before its bytes leave.
    ///
    /// Mutations are chosen by priority and then by `seq`, at least one if any is eligible and not too large. The order in the batch is
    /// that of ``BatchPlace``. A mutation never overtakes an older one of its record or one that it is tied to, and an atomic list goes
    /// whole or not at all. The work is proportional to the size of the batch, not of the queue.
    ///
    /// - Returns: `nil` when nothing is eligible.
    package func claim(_ limits: BatchLimits, at now: Moment) throws(StoreError) -> Batch? {
        var withheld = WithheldWork()
        return try claim(limits, &withheld, at: now)
    }

    /// - Parameter withheld: Receives the work that stays only because of its size.
    func claim(_ limits: BatchLimits, _ withheld: inout WithheldWork, at now: Moment) throws(StoreError) -> Batch? {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            return try claimNext(limits, &withheld)
        }
    }

    /// - Precondition: In a transaction that is prepared for changes.
    func claimNext(_ limits: BatchLimits, _ withheld: inout WithheldWork) throws(StoreError) -> Batch? {
        try wakeDue()
        var taken = try choose(limits, &withheld)
        guard !taken.isEmpty else { return nil }
        try restamp(&taken)
        let claim = ledger.next(.nextClaim)
        let seqs = taken.map(\.outbox.seq)
        for run in Self.placed(seqs) {
            try database.run(
                """
                UPDATE mutation SET state = 1, ready = 0, sent = 1, claim = ?, place = seq - ?,
                    first_sent_ms = coalesce(first_sent_ms, ?) WHERE seq BETWEEN ? AND ?
                """, .int(claim), .int(run.seqs.lowerBound - run.place), .int(now.wall.milliseconds),
                .int(run.seqs.lowerBound), .int(run.seqs.upperBound))
        }
        if ledger[.unmet] > 0 { for seq in seqs { try forgetUnmet(of: seq) } }
        for row in taken { ledger.move(from: row.outbox.ledgerGroup, to: .inFlight) }
        ledger[.maxSentSeq] = max(ledger[.maxSentSeq], seqs.max() ?? 0)
        journal.add(.mutation(.inFlight), seqs)
        var batch = try batch(taken)
        try prepareForBackend(&batch, taken, isClaim: true)
        return batch
    }

    /// Chooses the mutations of the batch. Mutations in front of them that cannot go are set aside or given up.
    private func choose(_ limits: BatchLimits, _ withheld: inout WithheldWork) throws(StoreError) -> [ClaimRow] {
        while true {
            var selection = ClaimSelection(limits: limits, ranks: ranks, age: age, isTiedAnywhere: ledger[.ties] > 0)
            selection.isOneByOne = rest != nil
            try selection.run(in: self)
            withheld = selection.withheld
            for seq in selection.damaged { try hold(seq) }
            guard !selection.expired.isEmpty else { return selection.inOrder }
            var over: [OutboxRow] = []
            for row in selection.expired {
                over.append(row.outbox)
                if let rid = row.outbox.rid { over += try overdue(of: rid, after: row.outbox.seq) }
            }
            try expire(over)
            try endTies()
            // Mutations that waited behind them can go now. Each round gives up what it has found, so the rounds end.
            if !selection.taken.isEmpty { return selection.inOrder }
        }
    }

    /// Further overdue mutations of the same record. Otherwise each of them would be found in a round of its own.
    private func overdue(of rid: Int64, after seq: Int64) throws(StoreError) -> [OutboxRow] {
        try database.all(
            """
            SELECT * FROM mutation WHERE rid = ? AND seq > ? AND state < 6 AND state = 0 AND sent = 0
                AND +ttl_age <= ? ORDER BY seq
            """, .int(rid), .int(seq), .int(age)
        ) { row throws(StoreError) in OutboxRow(row) }
    }

    /// The mutations whose outcome is unknown, in the order they were claimed, unchanged.
    ///
    /// - Returns: `nil` when there are none.
    package func loadInFlight(_ limits: BatchLimits, at now: Moment) throws(StoreError) -> Batch? {
        while true {
            // An atomic list that begins inside the limit may end behind it. Rows past the byte limit are not read: after the database went
            // back in time, everything that waited is in flight.
            var rows: [ClaimRow] = []
            var bytes = 0
            try database.each(
                """
                SELECT p.*, m.* FROM mutation m JOIN payload p ON p.seq = m.seq
                WHERE m.state = 1 AND m.priority <= ? ORDER BY m.claim, m.place, m.seq LIMIT ?
                """, .int(limits.leastPriority.rawValue), .int(max(1, limits.mutations) + Limits.atomicMutations),
                while: { bytes <= limits.bytes || rows.last?.unit == rows.first?.unit }
            ) { row throws(StoreError) in
                rows.append(ClaimRow(row))
                bytes += rows[rows.count - 1].payload.contentBytes
            }
            let damaged = rows.filter { !$0.isSound }
            if damaged.isEmpty {
                let chosen = try unitsInListOrder(ClaimSelection.leading(of: rows, within: limits, isOneByOne: rest != nil)) { $0.outbox }
                guard !chosen.isEmpty else { return nil }
                guard rest != nil else { return try batch(chosen) }
                return try transact(at: now) { () throws(StoreError) in
                    var batch = try batch(chosen)
                    try prepareForBackend(&batch, chosen, isClaim: false)
                    return batch
                }
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
        for index in rows.indices {
            guard let depends = rows[index].payload.depends else { continue }
            rows[index].payload.depends = try sentDependencies(of: rows[index].payload.seq, depends)
        }
        var mutations = rows.map {
            $0.payload.outgoing(entity: names.entity($0.payload.eid), priority: $0.outbox.priority)
        }
        for index in mutations.indices where rows[index].payload.supersedes != nil {
            mutations[index].supersedes = try superseded(by: rows[index].payload)
        }
        statedSeq = ledger[.maxSentSeq]
        return Batch(mutations: mutations, ackedSeq: try ackedSeq(), maxSentSeq: ledger[.maxSentSeq])
    }

    /// The keys that a mutation replaces: the mutation in its place before, carried ones, and the ones that each of these replaced. A
    /// restored database may hold any of them again, and the hub must know that they are done.
    private func superseded(by payload: Payload) throws(StoreError) -> [MutationKey] {
        var keys: [MutationKey] = []
        var work = [payload]
        while keys.count < Limits.batchMutations, let present = work.popLast() {
            let carried = try database.all(
                """
                SELECT p.* FROM mutation m JOIN payload p ON p.seq = m.seq
                WHERE m.into_seq = ? AND m.state = 9 AND m.seq < ? ORDER BY m.seq
                """, .int(present.seq), .int(present.seq)
            ) { row throws(StoreError) in Payload(row, at: 0) }
            keys += carried.map { MutationKey(trusted: $0.key) }
            // A decision may be among them.
            work += carried.filter { $0.supersedes != nil }
            guard let older = present.supersedes, !older.isEmpty else { continue }
            keys.append(MutationKey(trusted: older))
            if let seq = UUIDv7.carried(in: older), let next = try self.payload(seq) { work.append(next) }
        }
        return Array(keys.prefix(Limits.batchMutationsMax))
    }

    /// The highest `seq` below which every mutation is answered. The search starts where the last one ended, so each row is passed once.
    private func ackedSeq() throws(StoreError) -> Int64 {
        let open = try database.number(
            "SELECT seq FROM mutation WHERE seq > ? AND state IN (0, 1, 4, 5) ORDER BY seq LIMIT 1", .int(ledger[.ackedSeq]))
        ledger[.ackedSeq] = max(ledger[.ackedSeq], (open ?? ledger[.absorbedSeq] + 1) - 1)
        return ledger[.ackedSeq]
    }

    /// Groups neighbours in a batch whose numbers rise by one, with the place of the first.
    private static func placed(_ seqs: [Int64]) -> [(seqs: ClosedRange<Int64>, place: Int64)] {
        var runs: [(seqs: ClosedRange<Int64>, place: Int64)] = []
        for (place, seq) in seqs.enumerated() {
            if let last = runs.last, seq == last.seqs.upperBound + 1 {
                runs[runs.count - 1].seqs = last.seqs.lowerBound...seq
            } else {
                runs.append((seq...seq, Int64(place)))
            }
        }
        return runs
    }

    /// Groups numbers that rise by one.
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

/// A mutation that can go, with both of its rows.
struct ClaimRow {
    var payload: Payload
    var outbox: OutboxRow
    var isSound: Bool

    /// Equal for all members of an atomic list.
    var unit: Int64 { outbox.unit }

    /// - Parameter row: `payload.*`, then `mutation.*`.
    init(_ row: SQLiteStatement) {
        payload = Payload(row, at: 0)
        outbox = OutboxRow(row, at: Payload.columnCount)
        isSound = Payload.isSound(row, at: 0)
    }
}
