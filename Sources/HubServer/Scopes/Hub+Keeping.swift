import SyncCore

// Agents that keep records which have left their share, when they are many at once (PROTOCOL A16, "Agents that keep records"). Taking such
// records back would have no effect and leave no trace, so the hub refuses instead, and tells its operator.

extension Feed {
    /// Records that leave in one place of a feed, and that every agent lets go. An agent counts up to 50 from all places of one pull
    /// together: those of lost scopes, and those that were moved.
    static let lettingGoMax = 25
    /// Rows of a feed in which records that leave are counted. Above the largest page, so that a fifth of them is never reached by pages
    /// that pass one by one.
    private static let lookAhead = 2 * Limits.pullRecordsMax + 1

    static let agentTooOld = Problem(
        Problem.agentTooOld, status: 409,
        // Agents cut long texts in their status, so the advice comes early.
        detail: "this agentd would keep records that have left its share, so update agentd on this device. Nothing is lost, and changes "
            + "are still taken")

    /// The number of rows to read for a page.
    func rowsLookedAt(_ entity: EntityName, _ room: Room) -> Int {
        let wanted = max(1, 2 * room.records) + 1
        return letsGo || scopes(of: entity) == nil ? wanted : max(wanted, Feed.lookAhead)
    }

    /// Returns whether the agent would keep records that these rows take back.
    func isKept(_ rows: [HubStore.RecordRow]) -> Bool {
        if letsGo { return false }
        // True deletions count as well with such an agent.
        let leaving = rows.count { $0.isRevoked || $0.whole?.isDeleted == true }
        return leaving > Feed.lettingGoMax && rows.contains(where: \.isRevoked)
    }

    /// Returns whether the agent would keep records of the scopes that the device has lost. Counts from the first of them on, so that all
    /// pages get one answer. A record that is still in another scope of the device counts, too.
    func isKept(_ share: CursorShare, upTo seq: Int64, of entity: EntityName) throws(DatabaseError) -> Bool {
        if letsGo || share.lost.isEmpty { return false }
        let found = try store.lostScopes(
            entity, share.lost, of: device, upTo: seq, after: CursorShare.Place(), limit: Feed.lettingGoMax + 1)
        return found.count > Feed.lettingGoMax
    }

    /// Returns whether the agent may keep records that a whole listing does not show. A listing does not tell what the device has, so this
    /// goes by what the hub has refused before.
    func isKept(_ request: SnapshotRequest) throws(DatabaseError) -> Bool {
        if letsGo || request.isSeed || request.buckets != nil || scopes(of: request.entity) == nil { return false }
        return try store.keeps(device)
    }
}

extension Hub {
    /// Collects a refusal for the operator, unless it is another one or is known. A hub that only reads leaves the request to the one that
    /// writes.
    func collectKeeping(_ problem: Problem, _ device: DeviceID, _ entity: EntityName) throws(DatabaseError) {
        guard problem.code == Problem.agentTooOld, keeping[device] == nil, try !store.keeps(device) else { return }
        if onlyReads { throw DatabaseError(.readOnly, doing: "note that a device needs an update", detail: "it only reads") }
        keeping[device] = entity
    }

    /// Records the refusals of the last transaction in one of its own, because that one may have been a reading one.
    func recordKeeping(at now: Timestamp) {
        let collected = keeping.sorted { $0.key < $1.key }
        keeping = [:]
        if collected.isEmpty { return }
        // A failure is reported, and the refusal is recorded with the next request.
        _ = try? transact(.writingIfFree) { () throws(DatabaseError) in
            for (device, entity) in collected where try !store.keeps(device) {
                try store.beginKeeping(device, entity, at: now)
                notices.append(.keeping(device, entity))
            }
        }
    }
}

extension HubStore {
    /// Returns whether the device was refused records because its agent would keep others.
    func keeps(_ device: DeviceID) throws(DatabaseError) -> Bool { try view(of: device, nil).keeps }

    func beginKeeping(_ device: DeviceID, _ entity: EntityName, at now: Timestamp) throws(DatabaseError) {
        try database.run(
            "INSERT INTO device_keeping(device, entity, since_ms) VALUES(?, ?, ?) ON CONFLICT(device) DO NOTHING", .text(device.text),
            .text(entity.text), .int(now.milliseconds))
    }

    /// The device has an agent now that lets go.
    func endKeeping(_ device: DeviceID) throws(DatabaseError) {
        var view = try view(of: device, nil)
        guard view.keeps else { return }
        try database.run("DELETE FROM device_keeping WHERE device = ?", .text(device.text))
        view.keeps = false
        group?.request.seen.views[device] = view
    }
}

extension SQLiteSchema {
    /// Devices that get no records of an entity until their agent is updated, with the first such entity.
    static let keeping = """
        CREATE TABLE device_keeping(
          device TEXT PRIMARY KEY, entity TEXT NOT NULL, since_ms INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """
}
