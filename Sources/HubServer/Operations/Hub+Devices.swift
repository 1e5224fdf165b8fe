package import SyncCore

// The hub's information about each device, for its operator.
extension Hub {
    package func devices(_ wanted: DeviceID? = nil, at now: Timestamp) throws(HubError) -> [HubDevice] {
        try HubInspector(store).devices(wanted, at: now)
    }

    /// Records the backlog that the device reported; a push subtracts the mutations that it has settled.
    func recordWaiting(
        _ request: HubRequest, _ caller: HubGate.Caller, settled: Int64 = 0, at now: Timestamp
    ) throws(DatabaseError) {
        guard let waiting = request.hubHeaders.waiting else { return }
        try store.recordWaiting(caller.device, max(0, waiting - settled), at: now)
    }
}

extension SQLiteSchema {
    /// The backlog that devices report.
    static let waiting = """
        ALTER TABLE device ADD COLUMN waiting INTEGER;
        ALTER TABLE device ADD COLUMN waiting_at_ms INTEGER;
        """
}

/// One device as an operator sees it. Values that were never reported are `nil`.
package struct HubDevice: Hashable, Sendable {
    package var id: DeviceID
    package var firstSeen: Timestamp?
    package var lastSeen: Timestamp?
    /// Version of its agent, and its platform.
    package var agent: String?
    package var platform: String?
    /// The database that it speaks for, and the number of its databases so far.
    package var replica: ReplicaID?
    package var replicas: Int64 = 0
    /// In that database: the highest number of a mutation seen, and the highest whose result the device has on flash.
    package var maxSeq: Int64 = 0
    package var ackedSeq: Int64 = 0
    /// Mutations that wait on the device by its last report, and the time of that report.
    package var waiting: Int64?
    package var waitingAt: Timestamp?
    package var config: Int64?
    package var counters = HubCounters()
    /// Number of returns of its databases after another one had taken over, and number of databases that did so twice within a day. More
    /// than one means that two machines share this identity.
    package var returns: Int64 = 0
    package var twins: Int64 = 0
    /// Its newest report after an outage.
    package var reportedAt: Timestamp?
    /// The time since which it gets no records of an entity, because its agent would keep those that have left its share; `nil` when it
    /// gets them.
    package var keepingSince: Timestamp?
    package var keepingEntity: EntityName?

    package init(id: DeviceID) {
        self.id = id
    }
}

extension HubInspector {
    /// The devices that have connected, by id; or one of them.
    package func devices(_ wanted: DeviceID? = nil, at now: Timestamp) throws(HubError) -> [HubDevice] {
        try reading { (_) throws(DatabaseError) in try store.devices(wanted, at: now) }
    }
}

extension HubStore {
    /// The devices that have connected, by id; or one of them.
    func devices(_ wanted: DeviceID?, at now: Timestamp) throws(DatabaseError) -> [HubDevice] {
        let since = now.advanced(by: .zero - Hub.twinWindow).milliseconds
        return try database.all(
            """
            SELECT d.id, d.first_seen_ms, d.last_seen_ms, d.agent, d.platform, d.replica, d.waiting, d.waiting_at_ms,
              d.config_seen, d.applied, d.duplicates, d.conflicts, d.rejected, d.retried, c.max_seq, c.acked_seq,
              (SELECT count(*) FROM replica r WHERE r.device = d.id),
              (SELECT coalesce(sum(r.returns), 0) FROM replica r WHERE r.device = d.id),
              (SELECT count(*) FROM replica r
                WHERE r.device = d.id AND r.returns >= \(HubStore.ReplicaRow.returnsOfTwins) AND r.last_seen_ms >= ?2),
              (SELECT max(g.at_ms) FROM diagnostics g WHERE g.device = d.id), k.since_ms, k.entity
            FROM device d LEFT JOIN replica c ON c.device = d.id AND c.id = d.replica LEFT JOIN device_keeping k ON k.device = d.id
            WHERE CAST(?1 AS TEXT) IS NULL OR d.id = ?1 ORDER BY d.id
            """, wanted.map { .text($0.text) } ?? .null, .int(since), read: HubStore.device)
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
        (device.keepingSince, device.keepingEntity) = (time(20), row.optionalText(21).map { EntityName(trusted: $0) })
        return device
    }
}
