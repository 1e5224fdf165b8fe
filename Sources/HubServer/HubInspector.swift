package import SyncCore

/// Looks at a hub's database without changing it, also beside a running server: it opens the file read-only and never
/// checkpoints, so the server stays the only writer.
package struct HubInspector {
    private let store: HubStore

    init(_ store: HubStore) {
        self.store = store
    }

    /// - Throws: `.database` when there is no database or it cannot be read, `.foreignDatabase` when it is not a hub's.
    package init(file path: String) throws(HubError) {
        do throws(DatabaseError) {
            let database = try Database(.readOnly(path))
            try database.execute("PRAGMA query_only=ON; PRAGMA wal_autocheckpoint=0;")
            let name = try database.number("PRAGMA application_id")
            guard name == HubSchema.applicationID else {
                throw DatabaseError(.foreign, doing: "open \(path)", detail: "it is not the database of a hub")
            }
            let version = try database.number("PRAGMA user_version")
            guard version == HubSchema.version else {
                throw DatabaseError(
                    .foreign, doing: "open \(path)", detail: "it has schema \(version), this program reads \(HubSchema.version)")
            }
            store = HubStore(database)
        } catch {
            throw HubError(error)
        }
    }

    func reading<T>(_ body: (Database) throws(DatabaseError) -> T) throws(HubError) -> T {
        do throws(DatabaseError) { return try body(store.database) } catch { throw HubError(error) }
    }

    package func stats() throws(HubError) -> HubStats {
        do throws(DatabaseError) {
            try store.database.execute("BEGIN")
            defer { try? store.database.execute("COMMIT") }  // Reads only: there is nothing to lose.
            let hub = try store.hub()
            let devices = try store.database.all(
                """
                SELECT id, agent, last_seen_ms, applied, duplicates, conflicts, rejected, retried,
                (SELECT coalesce(sum(returns), 0) FROM replica WHERE device = device.id) FROM device ORDER BY id
                """
            ) { row in
                HubStats.Device(
                    id: DeviceID(trusted: row.text(0)), agent: row.optionalText(1),
                    lastSeen: Timestamp(milliseconds: row.int(2)), counters: HubCounters(row: row, from: 3), clones: row.int(8))
            }
            let entities = try store.database.all(
                """
                SELECT entity, count(data), count(*) - count(data), coalesce(sum(length(data)), 0), max(version) FROM record
                GROUP BY entity ORDER BY entity
                """
            ) { row in
                HubStats.Entity(
                    name: EntityName(trusted: row.text(0)), records: row.int(1), tombstones: row.int(2), bytes: row.int(3),
                    newest: row.int(4))
            }
            let keys = try store.database.number("SELECT count(*) FROM mutation_key")
            let blobs = try store.database.number("SELECT count(*) FROM blob")
            let blobBytes = try store.database.number("SELECT coalesce(sum(size_bytes), 0) FROM blob")
            return HubStats(
                epoch: hub?.epoch ?? "", head: hub?.head ?? 0, counters: hub?.counters ?? HubCounters(), keys: keys,
                blobs: blobs, blobBytes: blobBytes, devices: devices, entities: entities)
        } catch {
            throw HubError(error)
        }
    }

    /// Hands over the live records of an entity by id, each as one line of JSON without its end:
    /// `{"id":"a-17","version":90188,"data":{…}}`. All lines are of one moment.
    ///
    /// - Parameter write: Returns `false` to stop.
    package func export(_ entity: EntityName, write: ([UInt8]) -> Bool) throws(HubError) {
        do throws(DatabaseError) {
            try store.database.each(
                "SELECT id, version, data FROM record WHERE entity = ? AND data IS NOT NULL ORDER BY id", .text(entity.text)
            ) { row in
                var writer = JSONWriter(capacity: 512)
                writer.object { writer in
                    writer.member("id", row.text(0))
                    writer.member("version", row.int(1))
                    writer.raw("data", row.text(2))
                }
                return write(writer.bytes)
            }
        } catch {
            throw HubError(error)
        }
    }
}

/// What a hub holds, at one moment.
package struct HubStats: Hashable, Sendable {
    package struct Device: Hashable, Sendable {
        package var id: DeviceID
        package var agent: String?
        package var lastSeen: Timestamp
        package var counters: HubCounters
        /// How often one of its databases spoke again after another one had taken over: more than a few mean that two
        /// devices share this identity.
        package var clones: Int64
    }

    package struct Entity: Hashable, Sendable {
        package var name: EntityName
        package var records: Int64
        package var tombstones: Int64
        package var bytes: Int64
        package var newest: Int64
    }

    package var epoch: String
    package var head: Int64
    package var counters: HubCounters
    /// Final answers remembered.
    package var keys: Int64
    /// Files that have arrived whole, each content once.
    package var blobs: Int64
    package var blobBytes: Int64
    package var devices: [Device]
    package var entities: [Entity]

    package var json: JSON {
        [
            "epoch": .string(epoch), "head": .int(head), "mutations": counters.json, "keys": .int(keys), "blobs": .int(blobs),
            "blob_bytes": .int(blobBytes),
            "devices": .array(
                devices.map { device in
                    [
                        "id": .string(device.id.text), "agent": device.agent.map { .string($0) } ?? .null,
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
