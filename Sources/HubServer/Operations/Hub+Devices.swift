package import SyncCore

// What the hub knows of each device, for whoever operates it.
extension Hub {
    package func devices(_ wanted: DeviceID? = nil, at now: Timestamp) throws(HubError) -> [HubDevice] {
        try HubInspector(store).devices(wanted, at: now)
    }

    /// What the device said about its backlog; a push takes away from it what is settled now.
    func noteWaiting(
        _ request: HubRequest, _ caller: HubGate.Caller, settled: Int64 = 0, at now: Timestamp
    ) throws(DatabaseError) {
        guard let waiting = HubRequestHeaders(reading: request.headers).waiting else { return }
        try store.noteWaiting(caller.device, max(0, waiting - settled), at: now)
    }
}

extension SQLiteSchema {
    /// What devices say about their backlog.
    static let waiting = """
        ALTER TABLE device ADD COLUMN waiting INTEGER;
        ALTER TABLE device ADD COLUMN waiting_at_ms INTEGER;
        """
}

/// One device as an operator sees it. What was never told is `nil`.
package struct HubDevice: Hashable, Sendable {
    package var id: DeviceID
    package var firstSeen: Timestamp?
    package var lastSeen: Timestamp?
    /// Version of its agent, and what it runs on.
    package var agent: String?
    package var platform: String?
    /// The database that it speaks for, and how many it had so far.
    package var replica: ReplicaID?
    package var replicas: Int64 = 0
    /// Of that database: the highest number of a mutation seen, and the highest whose result the device has on flash.
    package var maxSeq: Int64 = 0
    package var ackedSeq: Int64 = 0
    /// Mutations that wait there, as it said last, and when that was.
    package var waiting: Int64?
    package var waitingAt: Timestamp?
    package var config: Int64?
    package var counters = HubCounters()
    /// How often one of its databases spoke again after another one had taken over, and how many did so twice within a day:
    /// more than one means that two machines share this identity.
    package var returns: Int64 = 0
    package var twins: Int64 = 0
    /// Its newest report after an outage.
    package var reportedAt: Timestamp?

    package init(id: DeviceID) {
        self.id = id
    }
}

extension HubInspector {
    /// Those that have been here, by id; or one of them.
    package func devices(_ wanted: DeviceID? = nil, at now: Timestamp) throws(HubError) -> [HubDevice] {
        let since = now.advanced(by: .zero - Hub.twinWindow).milliseconds
        return try reading { (database) throws(DatabaseError) in
            try database.all(
                """
                SELECT d.id, d.first_seen_ms, d.last_seen_ms, d.agent, d.platform, d.replica, d.waiting, d.waiting_at_ms,
                  d.config_seen, d.applied, d.duplicates, d.conflicts, d.rejected, d.retried, c.max_seq, c.acked_seq,
                  (SELECT count(*) FROM replica r WHERE r.device = d.id),
                  (SELECT coalesce(sum(r.returns), 0) FROM replica r WHERE r.device = d.id),
                  (SELECT count(*) FROM replica r WHERE r.device = d.id AND r.returns >= 2 AND r.last_seen_ms >= ?2),
                  (SELECT max(g.at_ms) FROM diagnostics g WHERE g.device = d.id)
                FROM device d LEFT JOIN replica c ON c.device = d.id AND c.id = d.replica
                WHERE CAST(?1 AS TEXT) IS NULL OR d.id = ?1 ORDER BY d.id
                """, wanted.map { .text($0.text) } ?? .null, .int(since), read: HubInspector.device)
        }
    }

    private static func device(_ row: any DatabaseRow) -> HubDevice {
        func time(_ column: Int32) -> Timestamp? { row.optionalInt(column).map { Timestamp(milliseconds: $0) } }
        var device = HubDevice(id: DeviceID(trusted: row.text(0)))
        (device.firstSeen, device.lastSeen) = (time(1), time(2))
        (device.agent, device.platform) = (row.optionalText(3), row.optionalText(4))
        device.replica = row.optionalText(5).map { ReplicaID(trusted: $0) }
        (device.waiting, device.waitingAt, device.config) = (row.optionalInt(6), time(7), row.optionalInt(8))
        device.counters = HubCounters(row: row, from: 9)
        (device.maxSeq, device.ackedSeq) = (row.optionalInt(14) ?? 0, row.optionalInt(15) ?? 0)
        (device.replicas, device.returns) = (row.int(16), row.int(17))
        device.twins = row.int(18) > 1 ? row.int(18) : 0
        device.reportedAt = time(19)
        return device
    }
}
