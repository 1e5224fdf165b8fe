import SyncCore
import SyncSQLite

// Changes of state. All of them happen here, so that row, counters and journal cannot disagree.

extension Store {
    static let damaged = Problem("damaged", status: 500, detail: "the stored row does not have the checksum it was written with")

    /// Retention of final mutations whose entity does not set one.
    static let retention: Duration = .seconds(7 * 86_400)

    func outboxRow(_ seq: Int64) throws(StoreError) -> OutboxRow? {
        try database.first(
            """
            SELECT * FROM mutation WHERE seq = ?
            """, .int(seq)
        ) { row throws(StoreError) in OutboxRow(row) }
    }

    /// Changes the state of one mutation. The caller sets the other columns before.
    ///
    /// Invariant: a state that was changed since the row was read is not overwritten; otherwise the counters would disagree with the rows
    /// permanently. Such a call is a mistake of the caller, which ``verify()`` reports.
    func move(_ row: OutboxRow, to state: MutationState) throws(StoreError) {
        var changed = row
        changed.state = state
        if state != .pending { changed.isReady = false }
        if state != .pending, state != .failed { changed.nextAge = nil }
        guard try changed.update(in: database, before: row) else { return staleMoves += 1 }
        guard state != row.state else { return }
        ledger.move(from: row.ledgerGroup, to: state)
        journal.add(.mutation(state), row.seq)
        addTieEnd(row, now: state)
        if state == .rejected || state == .discarded, row.rid != nil { try forgetDeleted(for: row.seq) }
    }

    /// Gives a mutation its final state.
    ///
    /// - Parameter keptFor: Retention of its row; `nil` for the retention of its entity.
    func finalize(_ row: OutboxRow, as state: MutationState, keptFor: Duration? = nil) throws(StoreError) {
        precondition(state.isTerminal, "\(state) is not final")
        var ended = row
        ended.pruneAge = pruneAge(eid: row.eid, keptFor: keptFor)
        try move(ended, to: state)
        // The receipts of merged mutations are kept as long as this one.
        if row.rid != nil, ledger.count(.coalesced) > 0 {
            // Where the answer to a repeated request is not "done", it must come from the row.
            let receiptsKeptFor = state == .done ? keptFor : max(keptFor ?? .zero, Self.appKeysKeptFor)
            try database.run(
                "UPDATE mutation SET prune_age = ? WHERE into_seq = ? AND state = 9",
                .int(pruneAge(eid: row.eid, keptFor: receiptsKeptFor)), .int(row.seq))
        }
    }

    func pruneAge(eid: Int64, keptFor: Duration? = nil) -> Int64 {
        let kept = keptFor ?? rules[names.entity(eid)]?.retention ?? Self.retention
        return age.saturatingAdd(max(0, kept.milliseconds))
    }

    /// Sets a mutation aside because its row is damaged. It is never sent; the others continue.
    func hold(_ seq: Int64) throws(StoreError) {
        guard var row = try outboxRow(seq), row.state != .held, !row.state.isTerminal else { return }
        row.problem = Self.damaged.stored
        try move(row, to: .held)
        if let rid = row.rid { try returnLater(of: rid, after: seq) }
        if let group = row.group { try refreshReadiness(ofGroup: group) }
    }

    /// Returns mutations to the queue that were sent after one that did not get through: they must not overtake it. Key and payload stay
    /// frozen, so a copy that did arrive is recognised.
    func returnLater(of rid: Int64, after seq: Int64) throws(StoreError) {
        // Normally one batch is in flight, and many mutations may wait behind it. After the database went back in time, all of them are in
        // flight.
        let isBatch = ledger.count(.inFlight) <= Int64(Self.sliceRows)
        let later =
            try isBatch
            ? database.all(
                "SELECT * FROM mutation INDEXED BY mutation_flight WHERE state = 1 AND rid = ? AND seq > ?", .int(rid), .int(seq)
            ) { row throws(StoreError) in OutboxRow(row) }.sorted { $0.seq < $1.seq }
            : database.all(
                "SELECT * FROM mutation WHERE rid = ? AND seq > ? AND state < 6 AND state = 1 ORDER BY seq", .int(rid), .int(seq)
            ) { row throws(StoreError) in OutboxRow(row) }
        for row in later {
            try move(row, to: .pending)
            if let group = row.group { try refreshReadiness(ofGroup: group) }
        }
        try levelPriorities(of: rid, upTo: later.last?.seq ?? seq)
    }

    /// The stored content of a mutation; `nil` when its row is damaged or gone.
    func content(_ seq: Int64) throws(StoreError) -> MutationContent? {
        try payload(seq).flatMap { $0.content(under: rules[names.entity($0.eid)]) }
    }

    /// - Returns: `nil` when the row is damaged or gone.
    func payload(_ seq: Int64) throws(StoreError) -> Payload? {
        try database.first(
            """
            SELECT * FROM payload WHERE seq = ?
            """, .int(seq)
        ) { row throws(StoreError) in Payload.isSound(row, at: 0) ? Payload(row, at: 0) : nil } ?? nil
    }
}
