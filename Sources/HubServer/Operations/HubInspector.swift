package import SyncCore

/// Reads a hub's database without changing it, also beside running servers.
package struct HubInspector {
    let store: HubStore

    init(_ store: HubStore) {
        self.store = store
    }

    /// - Throws: `.database` when there is no database or it cannot be read, `.foreignDatabase` when it is not a hub's.
    package init(file path: String) throws(HubError) {
        try self.init(SQLiteDatabase.Place.readOnly(path))
    }

    /// - Throws: The same errors as ``init(file:)``.
    package init(_ place: some HubDatabasePlace) throws(HubError) {
        do throws(DatabaseError) { store = HubStore(try place.openForReading(mayLag: true)) } catch { throw HubError(error) }
    }

    /// Runs `body` in a reading transaction, which sees one moment.
    func reading<T>(_ body: (any HubDatabase) throws(DatabaseError) -> T) throws(HubError) -> T {
        do throws(DatabaseError) {
            return try store.database.reading { () throws(DatabaseError) in try body(store.database) }
        } catch {
            throw HubError(error)
        }
    }

    /// - Parameter checksRecords: `true` reads every record to find damaged ones, which takes long for a large database.
    package func stats(checksRecords: Bool = false) throws(HubError) -> HubStats {
        try reading { (database) throws(DatabaseError) in
            let hub = try store.hub()
            let devices = try database.all(
                """
                SELECT id, agent, last_seen_ms, applied, duplicates, conflicts, rejected, retried,
                (SELECT coalesce(sum(r.returns), 0) FROM replica r WHERE r.device = device.id) FROM device ORDER BY id
                """
            ) { row in
                HubStats.Device(
                    id: DeviceID(trusted: row.text(0)), agent: row.optionalText(1),
                    lastSeen: Timestamp(milliseconds: row.int(2)), counters: HubCounters(row: row, from: 3), clones: row.int(8))
            }
            let entities = try database.all(
                """
                SELECT entity, count(data), count(*) - count(data), coalesce(sum(length(data)), 0), max(version) FROM record
                GROUP BY entity ORDER BY entity
                """
            ) { row in
                HubStats.Entity(
                    name: EntityName(trusted: row.text(0)), records: row.int(1), tombstones: row.int(2), bytes: row.int(3),
                    newest: row.int(4))
            }
            let keys = try database.number(database.spelling.keys.count)
            let blobs = try database.number("SELECT count(*) FROM blob")
            let blobBytes = try database.number("SELECT coalesce(sum(size_bytes), 0) FROM blob")
            let damaged = checksRecords ? try store.damagedRecords(nil, nil, limit: HubInspector.damagedNames) : nil
            return HubStats(
                lineage: try store.lineage(), epoch: hub?.epoch ?? "", head: hub?.head ?? 0, counters: hub?.counters ?? HubCounters(),
                keys: keys,
                blobs: blobs, blobBytes: blobBytes, devices: devices, entities: entities, damaged: damaged,
                events: try store.eventRetention(), clock: try store.retentionClock())
        }
    }

    /// The newest values that lost a conflict, the newest last.
    package func lostValues(_ entity: EntityName?, _ id: RecordID?, limit: Int) throws(HubError) -> [LostRow] {
        try reading { (_) throws(DatabaseError) in try store.lostValues(entity, id, limit: limit).reversed() }
    }

    /// Largest number of names; more would add no information.
    private static let damagedNames = 1_000

    /// Records that the hub cannot read itself. It reads all records of one entity, or of all.
    package func damagedRecords(_ entity: EntityName?, _ id: RecordID?) throws(HubError) -> DamagedRecords {
        try reading { (_) throws(DatabaseError) in try store.damagedRecords(entity, id, limit: HubInspector.damagedNames) }
    }

    /// Entities that have records, by name.
    package func entities() throws(HubError) -> [EntityName] {
        try reading { (database) throws(DatabaseError) in
            try database.all("SELECT DISTINCT entity FROM record WHERE data IS NOT NULL ORDER BY entity") {
                EntityName(trusted: $0.text(0))
            }
        }
    }

    /// Passes on the live records of an entity by id, each as one line of JSON without its end: `{"id":"a-17","version":90188,"data":{…}}`.
    /// All lines are of one moment.
    ///
    /// - Parameter write: Returns `false` to stop.
    package func export(_ entity: EntityName, write: ([UInt8]) -> Bool) throws(HubError) {
        try reading { (database) throws(DatabaseError) in
            try database.stream(
                "SELECT id, version, data FROM record WHERE entity = ? AND data IS NOT NULL ORDER BY id", [.text(entity.text)]
            ) { row in
                var writer = JSONWriter(capacity: 512)
                writer.object { writer in
                    writer.member("id", row.text(0))
                    writer.member("version", row.int(1))
                    writer.raw("data", row.text(2))
                }
                return write(writer.bytes)
            }
        }
    }
}

/// The content of a hub at one moment.
package struct HubStats: Hashable, Sendable {
    package struct Device: Hashable, Sendable {
        package var id: DeviceID
        package var agent: String?
        package var lastSeen: Timestamp
        package var counters: HubCounters
        /// Number of returns of its databases after another one had taken over. More than a few mean that two devices share this identity.
        package var clones: Int64
    }

    package struct Entity: Hashable, Sendable {
        package var name: EntityName
        package var records: Int64
        package var tombstones: Int64
        package var bytes: Int64
        package var newest: Int64
    }

    /// The database's openings, with the beginning of the present history.
    package var lineage: HubLineage
    package var epoch: String
    package var head: Int64
    package var counters: HubCounters
    /// Final answers remembered.
    package var keys: Int64
    /// Complete files, each content once.
    package var blobs: Int64
    package var blobBytes: Int64
    package var devices: [Device]
    package var entities: [Entity]
    /// Records that cannot be read: changes of them wait, and devices do not get them; `nil`: this was not checked.
    package var damaged: DamagedRecords?
    /// The removal of old events, by entity with a rule for it.
    package var events: [EntityName: EventRetention]
    /// The hub's time, as far as events are removed by it.
    package var clock: RetentionClock

    package var json: JSON {
        [
            "epoch": .string(epoch), "head": .int(head), "history": history, "mutations": counters.json, "keys": .int(keys),
            "blobs": .int(blobs),
            "blob_bytes": .int(blobBytes), "damaged": damaged?.json ?? .null,
            "devices": .array(
                devices.map { device in
                    [
                        "id": .string(device.id.text), "agent": .optional(device.agent),
                        "last_seen": .string(device.lastSeen.description), "clones": .int(device.clones),
                        "mutations": device.counters.json,
                    ]
                }),
            "entities": .array(
                entities.map { entity in
                    [
                        "entity": .string(entity.name.text), "records": .int(entity.records),
                        "tombstones": .int(entity.tombstones), "bytes": .int(entity.bytes), "newest": .int(entity.newest),
                    ]
                }),
            "events": .array(events.sorted { $0.key < $1.key }.map { .object($1.json(of: $0)) }),
            "events_wait_until": .optional(clock.waitsUntil?.description),
        ]
    }
}

extension HubStats {
    private var history: JSON {
        [
            "began": .optional(lineage.began?.description),
            "cause": .string((lineage.restart?.cause ?? .created).rawValue),
            "head": .optional(lineage.restart?.head),
            "device": .optional(lineage.restart?.device?.text),
            "restarts": .int(Int64(lineage.entries.count(where: \.cause.beginsHistory))),
        ]
    }
}

extension HubCounters {
    package var json: JSON {
        [
            "applied": .int(applied), "duplicates": .int(duplicates), "conflicts": .int(conflicts), "rejected": .int(rejected),
            "retried": .int(retried),
        ]
    }
}
