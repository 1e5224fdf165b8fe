package import SyncCore
import SyncSQLite

/// The reason why a pending mutation waits, apart from links and policy.
package enum Obstacle: Hashable, Sendable {
    /// An earlier open mutation of its record goes first.
    case order(MutationKey, MutationState)
    /// A mutation that it depends on, or the create of a parent, is not at the hub yet.
    case dependency(MutationKey, MutationState)
    /// A file that it shows must be uploaded first.
    case blob(BlobID)
    /// It failed and is retried at this time.
    case retry(Timestamp?)
}

/// A mutation that waits, without its payload.
package struct WaitingMutation: Hashable, Sendable {
    package var key: MutationKey
    package var priority: Priority
    package var bytes: Int
    package var createdAt: Timestamp
    /// The reason why it waits, apart from links and policy: the one of ``StoreReads/obstacle(to:at:)``. `nil`: there is none.
    package var blockedBy: Deferral?
}

extension StoreReads {
    /// - Returns: `nil` when there is no reason, or no such pending mutation.
    package func obstacle(to key: MutationKey, at now: Moment) throws(StoreError) -> Obstacle? {
        guard let mutation = try mutation(key, at: now), mutation.state == .pending else { return nil }
        let row = try database.first("SELECT ready, rid FROM mutation WHERE seq = ?", .int(mutation.seq)) {
            row throws(StoreError) in (isReady: row.bool(0), rid: row.int(1))
        }
        // An event without a narrow row is ready.
        guard let row, !row.isReady else { return nil }
        if let next = mutation.nextAttempt { return .retry(next) }
        let earlier = try database.first(
            """
            SELECT p.key, m.state FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.seq < ? AND m.state < 6 AND m.state <> 3 ORDER BY m.seq LIMIT 1
            """, .int(row.rid), .int(mutation.seq)
        ) { row throws(StoreError) in (key: MutationKey(row.text(0)), state: MutationState(rawValue: Int(row.int(1)))) }
        if let key = earlier?.key, let state = earlier?.state { return .order(key, state) }
        if let blob = try blobWait(of: key) { return .blob(blob) }
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

    /// Pending and in-flight mutations, oldest first. Mutations in flight are sent again before anything else, so they have no obstacle.
    ///
    /// - Parameter limit: Largest number of rows; one takes some 150 bytes of memory.
    package func waiting(limit: Int, at now: Moment) throws(StoreError) -> [WaitingMutation] {
        let ledger = try Ledger.load(from: database)
        let ages = try ages(at: now)
        return try database.all(
            """
            SELECT p.key, p.bytes, p.created_ms, coalesce(m.priority, p.priority),
                CASE WHEN coalesce(m.state, 0) = 1 THEN 1 ELSE coalesce(m.ready, 1) END, m.next_age,
                CASE WHEN m.ready = 0 AND m.state = 0 THEN (SELECT e.state FROM mutation e
                    WHERE e.rid = m.rid AND e.seq < m.seq AND e.state < 6 AND e.state <> 3 ORDER BY e.seq LIMIT 1) END,
                CASE WHEN m.ready = 0 AND m.state = 0 THEN (SELECT min(t.on_seq) FROM tie t WHERE t.seq = m.seq) END
            FROM payload p LEFT JOIN mutation m ON m.seq = p.seq
            WHERE p.seq > ? AND coalesce(m.state, 0) IN (0, 1) ORDER BY p.seq LIMIT ?
            """, .int(ledger[.ackedSeq]), .int(Int64(limit))
        ) { row throws(StoreError) -> WaitingMutation? in
            guard let key = MutationKey(row.text(0)), let priority = Priority(rawValue: Int(row.int(3))) else { return nil }
            let retry = row.optionalInt(5).map { ages?.wall(of: $0, at: now) }
            return WaitingMutation(
                key: key, priority: priority, bytes: Int(clamping: row.int(1)),
                createdAt: Timestamp(milliseconds: row.int(2)),
                blockedBy: row.bool(4)
                    ? nil : Self.deferral(retry: retry, earlier: row.optionalInt(6), tiedTo: row.optionalInt(7)))
        }.compactMap { $0 }
    }

    /// The obstacle in the order of ``obstacle(to:at:)``: its own retry, an earlier mutation of its record, a file, another mutation.
    ///
    /// - Parameters:
    ///   - retry: `nil`: it waits for no retry; a `nil` inside: the time of the retry is unknown.
    ///   - earlier: State of the first open mutation of its record before it.
    ///   - tiedTo: The smallest number that it is tied to; files have negative numbers.
    private static func deferral(retry: Timestamp??, earlier: Int64?, tiedTo: Int64?) -> Deferral {
        if let retry { return Deferral(.backoff, until: retry) }
        if let earlier { return Deferral(earlier == Int64(MutationState.conflicted.rawValue) ? .conflict : .order) }
        guard let tiedTo else { return Deferral(.order) }
        return Deferral(tiedTo < 0 ? .blobWait : .dependency)
    }
}
