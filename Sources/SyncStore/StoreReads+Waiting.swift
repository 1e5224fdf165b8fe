package import SyncCore

/// What keeps a pending mutation back, apart from links and policy.
package enum Obstacle: Hashable, Sendable {
    /// An earlier open mutation of its record goes first.
    case order(MutationKey, MutationState)
    /// What it depends on, or the creation of a parent, is not at the hub yet.
    case dependency(MutationKey, MutationState)
    /// It failed and is tried again then.
    case retry(Timestamp?)
}

/// A mutation that waits, without its payload.
package struct WaitingMutation: Hashable, Sendable {
    package var key: MutationKey
    package var priority: Priority
    package var bytes: Int
    package var createdAt: Timestamp
    /// Nothing but the policy keeps it back.
    package var isReady: Bool
}

extension StoreReads {
    /// - Returns: `nil` when nothing does, or there is no such pending mutation.
    package func obstacle(to key: MutationKey, at now: Moment) throws(StoreError) -> Obstacle? {
        guard let mutation = try mutation(key, at: now), mutation.state == .pending else { return nil }
        let row = try database.first("SELECT ready, rid FROM mutation WHERE seq = ?", .int(mutation.seq)) {
            row throws(StoreError) in (isReady: row.bool(0), rid: row.int(1))
        }
        // An event that has no row of its own yet is ready.
        guard let row, !row.isReady else { return nil }
        if let next = mutation.nextAttempt { return .retry(next) }
        let earlier = try database.first(
            """
            SELECT p.key, m.state FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.seq < ? AND m.state < 6 AND m.state <> 3 ORDER BY m.seq LIMIT 1
            """, .int(row.rid), .int(mutation.seq)
        ) { row throws(StoreError) in (key: MutationKey(row.text(0)), state: MutationState(rawValue: Int(row.int(1)))) }
        if let key = earlier?.key, let state = earlier?.state { return .order(key, state) }
        return try database.first(
            """
            SELECT p.key, coalesce(m.state, 0) FROM tie t JOIN payload p ON p.seq = t.on_seq LEFT JOIN mutation m ON m.seq = p.seq
            WHERE t.seq = ? ORDER BY t.on_seq LIMIT 1
            """, .int(mutation.seq)
        ) { row throws(StoreError) -> Obstacle? in
            guard let key = MutationKey(row.text(0)), let state = MutationState(rawValue: Int(row.int(1))) else { return nil }
            return .dependency(key, state)
        } ?? nil
    }

    /// What is pending or in flight, oldest first.
    ///
    /// - Parameter limit: Rows at most; one is some 150 bytes in memory.
    package func waiting(limit: Int) throws(StoreError) -> [WaitingMutation] {
        let ledger = try Ledger.load(from: database)
        return try database.all(
            """
            SELECT p.key, p.priority, p.bytes, p.created_ms, coalesce(m.ready, 1), coalesce(m.priority, p.priority)
            FROM payload p LEFT JOIN mutation m ON m.seq = p.seq
            WHERE p.seq > ? AND coalesce(m.state, 0) IN (0, 1) ORDER BY p.seq LIMIT ?
            """, .int(ledger[.ackedSeq]), .int(Int64(limit))
        ) { row throws(StoreError) -> WaitingMutation? in
            guard let key = MutationKey(row.text(0)), let priority = Priority(rawValue: Int(row.int(5))) else { return nil }
            return WaitingMutation(
                key: key, priority: priority, bytes: Int(clamping: row.int(2)),
                createdAt: Timestamp(milliseconds: row.int(3)), isReady: row.bool(4))
        }.compactMap { $0 }
    }
}
