package import SyncCore

/// The rows of the hub's database as values. It knows SQL and the form of the columns, and decides nothing.
final class HubStore {
    let database: any Database
    private let hubQuery: String
    private let feedQuery: String
    private let ablations: Ablations
    /// Records whose row was found to be damaged, and why, each told once (``takeDamage()``).
    private(set) var damaged: [RecordName: RecordDamage] = [:]
    private var untold: [RecordName] = []

    init(_ database: any Database, ablations: Ablations = .none) {
        self.database = database
        self.ablations = ablations
        hubQuery = """
            SELECT epoch, secret, head, applied, duplicates, conflicts, rejected, retried, \(database.spelling.tokens),
              (SELECT tag FROM lineage WHERE n = (SELECT max(n) FROM lineage)) FROM hub
            """
        feedQuery = """
            SELECT \(HubStore.shownColumns) FROM record\(database.spelling.byFeed)
            WHERE entity = ? AND (version, id) > (?, ?) AND (data IS NOT NULL OR version > ?)
            ORDER BY version, id LIMIT ?
            """
    }

    // MARK: The hub itself

    struct HubRow {
        /// Names the history that versions and cursors belong to.
        var epoch: String
        /// Signs cursors.
        var secret: [UInt8]
        /// The newest commit number.
        var head: Int64
        var counters: HubCounters
        /// Changes of the book of tokens so far, where the database keeps it.
        var tokens: Int64
        /// Name of the newest opening of the database (``HubLineage``); empty when there is none.
        var opening: String
    }

    func hub() throws(DatabaseError) -> HubRow? {
        let hub = try database.first(hubQuery) {
            HubRow(
                epoch: $0.text(0), secret: $0.blob(1), head: $0.int(2), counters: HubCounters(row: $0, from: 3),
                tokens: $0.int(8), opening: $0.optionalText(9) ?? "")
        }
        // What no commits can have counted to has no successor either, and devices take no larger number for one.
        if let hub, !(0...(1 << 53)).contains(hub.head) {
            throw DatabaseError(.corrupt, doing: "read the newest commit number", detail: "it is \(hub.head); expected 0 to 2^53")
        }
        return hub
    }

    func create(_ hub: HubRow) throws(DatabaseError) {
        try database.run(
            "INSERT INTO hub(one, epoch, secret, head) VALUES(1, ?, ?, ?) ON CONFLICT(one) DO NOTHING", .text(hub.epoch), .blob(hub.secret), .int(hub.head))
    }

    func setEpoch(_ epoch: String, head: Int64) throws(DatabaseError) {
        try database.run("UPDATE hub SET epoch = ?, head = ?", .text(epoch), .int(head))
    }

    func advance(to head: Int64, adding counted: HubCounters) throws(DatabaseError) {
        try database.run(
            """
            UPDATE hub SET head = ?1, applied = applied + ?2, duplicates = duplicates + ?3, conflicts = conflicts + ?4,
            rejected = rejected + ?5, retried = retried + ?6
            """, .int(head), .int(counted.applied), .int(counted.duplicates), .int(counted.conflicts),
            .int(counted.rejected), .int(counted.retried))
    }

    // MARK: Records

    struct RecordRow {
        var id: RecordID
        /// The commit of its last change.
        var version: Int64
        /// A damaged record is never taken for an empty one: nothing is merged with it, and no device is shown it.
        var content: Result<VersionedRecord, RecordDamage>
        /// Key of the mutation that made the last change.
        var originKey: String
        /// Bytes of the document.
        var size: Int
    }

    private static let recordColumns = shownColumns + ", kept, kept_version"
    /// Without what a tombstone keeps, which no device is shown.
    private static let shownColumns = "id, version, data, hlc, writer, exceptions, origin_key, author, additions"

    func record(_ name: RecordName) throws(DatabaseError) -> RecordRow? {
        try database.first(HubStore.recordQuery, .text(name.entity.text), .text(name.id.text)) {
            recordRow($0, of: name.entity, hasKept: true)
        }
    }

    /// Those of many records that there are, asked in one go.
    func records(_ names: [RecordName]) throws(DatabaseError) -> [RecordName: RecordRow] {
        var found: [RecordName: RecordRow] = [:]
        try database.read(HubStore.recordQuery, each: names.map { [.text($0.entity.text), .text($0.id.text)] }) { index, row in
            found[names[index]] = recordRow(row, of: names[index].entity, hasKept: true)
        }
        return found
    }

    private static let recordQuery = "SELECT \(HubStore.recordColumns) FROM record WHERE entity = ? AND id = ?"

    /// - Parameter data: `record.data` as JSON text, which the caller has measured already.
    func put(
        _ name: RecordName, _ record: VersionedRecord, data: String?, originKey: String, at now: Timestamp
    ) throws(DatabaseError) {
        try database.run(
            """
            INSERT INTO record(
              entity, id, version, data, hlc, writer, exceptions, origin_key, updated_at_ms, author, additions, kept, kept_version)
            VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
            ON CONFLICT(entity, id) DO UPDATE SET version = ?3, data = ?4, hlc = ?5, writer = ?6, exceptions = ?7,
            origin_key = ?8, updated_at_ms = ?9, author = ?10, additions = ?11, kept = ?12, kept_version = ?13
            """, .text(name.entity.text), .text(name.id.text), .int(record.version), DatabaseValue(data),
            .text(record.stamp.hlc.description), .text(record.stamp.writer.text),
            DatabaseValue(StampColumn.text(record.kept?.stamps ?? record.exceptions)), .text(originKey), .int(now.milliseconds),
            DatabaseValue(record.stamp.author), DatabaseValue(StampColumn.text(record.kept?.additions ?? record.additions)),
            DatabaseValue(record.kept?.data.json), DatabaseValue(record.kept == nil ? nil : record.version))
    }

    /// The newest state of records that changed after a position, in the order of their change.
    ///
    /// - Parameters:
    ///   - after: Commit number and id of the last one that is not wanted.
    ///   - deletionsAfter: Tombstones up to this commit are left out.
    func feed(
        _ entity: EntityName, after: (version: Int64, id: String), deletionsAfter: Int64, limit: Int
    ) throws(DatabaseError) -> [RecordRow] {
        try database.all(
            feedQuery, .text(entity.text), .int(after.version), .text(after.id), .int(deletionsAfter), .int(Int64(limit))
        ) { recordRow($0, of: entity) }
    }

    /// Live records by id.
    func listing(_ entity: EntityName, after: RecordID?, limit: Int) throws(DatabaseError) -> [RecordRow] {
        try database.all(
            """
            SELECT \(HubStore.recordColumns) FROM record WHERE entity = ? AND id > ? AND data IS NOT NULL ORDER BY id LIMIT ?
            """, .text(entity.text), .text(after?.text ?? ""), .int(Int64(limit))
        ) { recordRow($0, of: entity) }
    }

    private func recordRow(_ row: any DatabaseRow, of entity: EntityName, hasKept: Bool = false) -> RecordRow {
        let id = RecordID(trusted: row.text(0))
        let content: Result<VersionedRecord, RecordDamage>
        do throws(RecordDamage) {
            content = .success(try readRecord(row, hasKept: hasKept))
        } catch {
            content = .failure(error)
            note(error, of: RecordName(entity, id))
        }
        return RecordRow(
            id: id, version: row.int(1), content: content, originKey: row.text(6), size: row.optionalText(2)?.utf8.count ?? 0)
    }

    private func readRecord(_ row: any DatabaseRow, hasKept: Bool) throws(RecordDamage) -> VersionedRecord {
        if ablations.contains(.storedReadAsInput) { return readRecordAsInput(row) }
        guard let hlc = HybridTime(row.text(3)) else { throw RecordDamage("hlc is no stamp") }
        let stamp = VersionedRecord.Stamp(
            version: row.int(1), hlc: hlc, writer: DeviceID(trusted: row.text(4)), author: row.optionalText(7))
        var data: JSONObject?
        if let text = row.optionalText(2) {
            guard let object = try StoredColumn.json("data", text).object else { throw RecordDamage("data is no object") }
            data = object
        }
        let exceptions = try row.optionalText(5).map(StampColumn.exceptions) ?? [:]
        let additions = try row.optionalText(8).map(StampColumn.additions) ?? [:]
        guard let data else {
            // A program of before knows nothing of the column: what it has deleted since, it did not keep.
            guard hasKept, row.optionalInt(10) == stamp.version, let text = row.optionalText(9) else {
                return VersionedRecord(deleted: stamp, keeping: nil)
            }
            guard let object = try StoredColumn.json("kept", text).object else { throw RecordDamage("kept is no object") }
            return VersionedRecord(deleted: stamp, keeping: .init(data: object, stamps: exceptions, additions: additions))
        }
        return VersionedRecord(data: data, stamp: stamp, exceptions: exceptions, additions: additions)
    }

    /// Only for a test build that wants to see what happens then.
    private func readRecordAsInput(_ row: any DatabaseRow) -> VersionedRecord {
        let stamp = VersionedRecord.Stamp(
            version: row.int(1), hlc: HybridTime(row.text(3)) ?? HybridTime(milliseconds: 0, counter: 0, node: "0"),
            writer: DeviceID(trusted: row.text(4)), author: row.optionalText(7))
        return VersionedRecord(
            // `try?`, three times: the mistake that the ablation brings back.
            data: row.optionalText(2).map { (try? JSONReader.read($0))?.object ?? [:] }, stamp: stamp,
            exceptions: row.optionalText(5).flatMap { try? StampColumn.exceptions($0) } ?? [:],
            additions: row.optionalText(8).flatMap { try? StampColumn.additions($0) } ?? [:])
    }

    private func note(_ damage: RecordDamage, of name: RecordName) {
        guard damaged[name] == nil, damaged.count < HubStore.damagedMax else { return }
        damaged[name] = damage
        untold.append(name)
    }

    /// More would say nothing new.
    private static let damagedMax = 1_000

    /// Damage that was found since this was asked last.
    func takeDamage() -> [HubError] {
        defer { untold = [] }
        return untold.compactMap { name in
            damaged[name].map { damage in
                var error = HubError(
                    .database, doing: "read the record \(name)",
                    detail: "\(damage.detail); changes of it wait, and it is not handed out, until it is restored from a backup")
                error.isDamage = true
                return error
            }
        }
    }

    /// Reads every record, of one entity or all, or the one, and counts those whose row is damaged.
    ///
    /// - Parameter limit: So many are named.
    func damagedRecords(_ entity: EntityName?, _ id: RecordID?, limit: Int) throws(DatabaseError) -> DamagedRecords {
        var found = DamagedRecords()
        try database.stream(
            """
            SELECT \(HubStore.recordColumns), entity FROM record
            WHERE (CAST(?1 AS TEXT) IS NULL OR entity = ?1) AND (CAST(?2 AS TEXT) IS NULL OR id = ?2) ORDER BY entity, id
            """, [DatabaseValue(entity?.text), DatabaseValue(id?.text)]
        ) { row in
            do throws(RecordDamage) {
                _ = try readRecord(row, hasKept: true)
            } catch {
                found.count += 1
                if found.first.count < limit {
                    let name = RecordName(EntityName(trusted: row.text(11)), RecordID(trusted: row.text(0)))
                    found.first.append(DamagedRecords.Row(record: name, version: row.int(1), detail: error.detail))
                }
            }
            return true
        }
        return found
    }

    // MARK: Lost values

    /// Newest first, of one record, of a whole entity, or of all.
    func lostValues(_ entity: EntityName?, _ id: RecordID?, limit: Int) throws(DatabaseError) -> [LostRow] {
        try database.all(
            """
            SELECT id, field, value, version, hlc, writer, author, at_ms, entity FROM lost_value
            WHERE (CAST(?1 AS TEXT) IS NULL OR entity = ?1) AND (CAST(?2 AS TEXT) IS NULL OR id = ?2) ORDER BY n DESC LIMIT ?3
            """, DatabaseValue(entity?.text), DatabaseValue(id?.text), .int(Int64(limit))
        ) {
            let text = $0.optionalText(2)
            // For people only: what cannot be read is shown as the text that it is, and said to be that.
            let value = text.flatMap { try? JSONReader.read($0, limits: .stored) }
            let stamp = VersionedRecord.Stamp(
                version: $0.int(3), hlc: HybridTime($0.text(4)) ?? HybridTime(milliseconds: 0, counter: 0, node: "0"),
                writer: DeviceID(trusted: $0.text(5)), author: $0.optionalText(6))
            return LostRow(
                record: RecordName(EntityName(trusted: $0.text(8)), RecordID(trusted: $0.text(0))),
                value: LostValue(field: $0.text(1), value: value ?? text.map { .string($0) }, stamp: stamp),
                at: Timestamp(milliseconds: $0.int(7)), isUnreadable: text != nil && value == nil)
        }
    }

    /// The newest so many are kept: a trail for people must not outgrow what it is about.
    static let lostValuesMax: Int64 = 100_000

    func keep(_ lost: LostValue, of name: RecordName, at now: Timestamp) throws(DatabaseError) {
        try database.run(
            """
            INSERT INTO lost_value(entity, id, field, value, version, hlc, writer, author, at_ms)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)
            """, .text(name.entity.text), .text(name.id.text), .text(lost.field), DatabaseValue(lost.value?.json),
            .int(lost.stamp.version), .text(lost.stamp.hlc.description), .text(lost.stamp.writer.text),
            DatabaseValue(lost.stamp.author), .int(now.milliseconds))
        try database.run(
            "DELETE FROM lost_value WHERE n <= (SELECT max(n) FROM lost_value) - ?", .int(HubStore.lostValuesMax))
    }

    // MARK: Tombstones

    /// Cursors below this have missed a deletion that is forgotten by now; 0 when none is.
    /// Names of the entities of which there is a record, or a deletion. One step in the index for each, however many records they have.
    func entities(atMost most: Int) throws(DatabaseError) -> [EntityName] {
        try database.all(
            """
            WITH RECURSIVE found(name) AS (
                SELECT min(entity) FROM record
                UNION ALL SELECT (SELECT min(entity) FROM record WHERE entity > found.name) FROM found WHERE found.name IS NOT NULL)
            SELECT name FROM found WHERE name IS NOT NULL LIMIT ?
            """, .int(Int64(most))
        ) { EntityName(trusted: $0.text(0)) }
    }

    func horizon(_ entity: EntityName) throws(DatabaseError) -> Int64 {
        try database.first("SELECT version FROM horizon WHERE entity = ?", .text(entity.text)) { $0.int(0) } ?? 0
    }

    /// How many records of the entity were deleted and not made again: tombstones, and those that are forgotten by now.
    func deletedTotal(_ entity: EntityName) throws(DatabaseError) -> Int64 {
        let forgotten = try database.first("SELECT forgotten FROM horizon WHERE entity = ?", .text(entity.text)) { $0.int(0) } ?? 0
        let known = try database.first("SELECT count(*) FROM record WHERE entity = ? AND data IS NULL", .text(entity.text)) { $0.int(0) } ?? 0
        return forgotten + known
    }

    /// Forgets tombstones, and raises the horizon in the same transaction.
    func collectTombstones(before: Timestamp, raisingHorizon: Bool) throws(DatabaseError) -> Int {
        if raisingHorizon {
            try database.run(
                """
                INSERT INTO horizon(entity, version, forgotten)
                SELECT entity, max(version), count(*) FROM record WHERE data IS NULL AND updated_at_ms < ? GROUP BY entity
                ON CONFLICT(entity) DO UPDATE SET forgotten = horizon.forgotten + excluded.forgotten, version =
                CASE WHEN excluded.version > horizon.version THEN excluded.version ELSE horizon.version END
                """, .int(before.milliseconds))
        }
        try database.run("DELETE FROM refused_create WHERE at_ms < ?", .int(before.milliseconds))
        try database.run("DELETE FROM record WHERE data IS NULL AND updated_at_ms < ?", .int(before.milliseconds))
        return try database.changes()
    }

    // MARK: Records that were never made

    /// The newest commit when the device wanted to make the record and was refused; `nil`: it never was.
    func refusal(_ name: RecordName, of device: DeviceID) throws(DatabaseError) -> Int64? {
        try database.first(
            "SELECT version FROM refused_create WHERE device = ? AND entity = ? AND id = ?", .text(device.text), .text(name.entity.text),
            .text(name.id.text)
        ) { $0.int(0) }
    }

    func putRefusal(_ name: RecordName, of device: DeviceID, version: Int64, at now: Timestamp) throws(DatabaseError) {
        try database.run(
            """
            INSERT INTO refused_create(device, entity, id, version, at_ms) VALUES(?1, ?2, ?3, ?4, ?5)
            ON CONFLICT(device, entity, id) DO UPDATE SET version = ?4, at_ms = ?5
            """, .text(device.text), .text(name.entity.text), .text(name.id.text), .int(version), .int(now.milliseconds))
    }

    // MARK: Keys

    struct KeyRow {
        var key: MutationKey
        var fingerprint: [UInt8]
        var seq: Int64?
        var status: PushResult.Original
        var version: Int64
        /// What a repeated answer adds: the problem of a rejection, the fields of a conflict.
        var payload: String?
    }

    func key(_ device: DeviceID, _ key: MutationKey) throws(DatabaseError) -> KeyRow? {
        try database.first(HubStore.keyQuery, .text(device.text), .text(key.text)) { HubStore.keyRow(key, $0) }
    }

    /// Those of many keys that are known, asked in one go.
    func keys(_ device: DeviceID, _ keys: [MutationKey]) throws(DatabaseError) -> [MutationKey: KeyRow] {
        var found: [MutationKey: KeyRow] = [:]
        try database.read(HubStore.keyQuery, each: keys.map { [.text(device.text), .text($0.text)] }) { index, row in
            found[keys[index]] = HubStore.keyRow(keys[index], row)
        }
        return found
    }

    private static let keyQuery = "SELECT fingerprint, seq, status, version, payload FROM mutation_key WHERE device = ? AND key = ?"

    private static func keyRow(_ key: MutationKey, _ row: any DatabaseRow) -> KeyRow {
        KeyRow(
            key: key, fingerprint: row.blob(0), seq: row.optionalInt(1), status: StatusColumn.status(row.int(2)),
            version: row.int(3), payload: row.optionalText(4))
    }

    func put(_ device: DeviceID, _ row: KeyRow, at now: Timestamp) throws(DatabaseError) {
        try database.run(
            """
            INSERT INTO mutation_key(device, key, fingerprint, seq, status, version, payload, at_ms)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?)
            """, .text(device.text), .text(row.key.text), .blob(row.fingerprint), DatabaseValue(row.seq),
            .int(StatusColumn.number(row.status)), .int(row.version), DatabaseValue(row.payload), .int(now.milliseconds))
    }

    /// The fingerprint of a mutation that never arrived, and must not any more: it stands for any content.
    static let unseen = [UInt8](repeating: 0, count: 16)

    /// A newer mutation has taken effect in the place of this one.
    func putSuperseded(_ device: DeviceID, _ key: MutationKey, version: Int64, at now: Timestamp) throws(DatabaseError) {
        try database.run(
            """
            INSERT INTO mutation_key(device, key, fingerprint, seq, status, version, payload, at_ms)
            VALUES(?, ?, ?, ?, 0, ?, NULL, ?)
            ON CONFLICT(device, key) DO UPDATE SET status = 0, version = excluded.version, payload = NULL
            """, .text(device.text), .text(key.text), .blob(HubStore.unseen), DatabaseValue(UUIDv7.carried(in: key.text)),
            .int(version), .int(now.milliseconds))
    }

    /// Drops what only serves to repeat an answer in full, once its device has recorded it. The names of fields in dispute stay:
    /// a database that goes back asks again, and nothing else says what people are to decide.
    func prunePayloads(before: Timestamp) throws(DatabaseError) -> Int {
        try database.run(
            """
            UPDATE mutation_key SET payload = NULL
            WHERE payload IS NOT NULL AND status <> 2 AND at_ms < ? AND seq <= (
              SELECT acked_seq FROM replica JOIN device ON device.id = replica.device AND device.replica = replica.id
              WHERE replica.device = mutation_key.device)
            """, .int(before.milliseconds))
        return try database.changes()
    }

    /// Only for a test build that wants to see what happens then.
    func forgetKeys(_ device: DeviceID, upTo seq: Int64) throws(DatabaseError) {
        try database.run("DELETE FROM mutation_key WHERE device = ? AND seq <= ?", .text(device.text), .int(seq))
    }

    // MARK: Devices

    struct ReplicaRow {
        var id: ReplicaID
        /// The highest `seq` seen.
        var maxSeq: Int64
        var ackedSeq: Int64
    }

    func currentReplica(_ device: DeviceID) throws(DatabaseError) -> ReplicaID? {
        try database.first("SELECT replica FROM device WHERE id = ?", .text(device.text)) {
            $0.optionalText(0).map { ReplicaID(trusted: $0) }
        } ?? nil
    }

    func replica(_ device: DeviceID, _ id: ReplicaID) throws(DatabaseError) -> ReplicaRow? {
        try database.first(
            "SELECT max_seq, acked_seq FROM replica WHERE device = ? AND id = ?", .text(device.text), .text(id.text)
        ) { ReplicaRow(id: id, maxSeq: $0.int(0), ackedSeq: $0.int(1)) }
    }

    /// Notes that a device was there, and which of its databases it speaks for.
    ///
    /// A replica that returns after another one has spoken is counted: a restored database gets a new id, so an old id comes
    /// back only from a late request, or from a second device with the same identity.
    func touch(_ device: DeviceID, replica: ReplicaID?, at now: Timestamp) throws(DatabaseError) {
        try database.run(
            """
            INSERT INTO device(id, first_seen_ms, last_seen_ms) VALUES(?1, ?2, ?2)
            ON CONFLICT(id) DO UPDATE SET last_seen_ms = CASE WHEN ?2 > device.last_seen_ms THEN ?2 ELSE device.last_seen_ms END
            """, .text(device.text), .int(now.milliseconds))
        guard let replica else { return }
        try database.run(
            """
            INSERT INTO replica(device, id, first_seen_ms, last_seen_ms) VALUES(?1, ?2, ?3, ?3)
            ON CONFLICT(device, id) DO UPDATE SET
            last_seen_ms = CASE WHEN ?3 > replica.last_seen_ms THEN ?3 ELSE replica.last_seen_ms END,
            returns = replica.returns + (SELECT CASE WHEN d.replica <> ?2 THEN 1 ELSE 0 END FROM device d WHERE d.id = ?1)
            """, .text(device.text), .text(replica.text), .int(now.milliseconds))
        try database.run(
            "UPDATE device SET replica = ?2 WHERE id = ?1 AND (replica IS NULL OR replica <> ?2)", .text(device.text),
            .text(replica.text))
    }

    func note(
        _ device: DeviceID, _ replica: ReplicaID, maxSeq: Int64, ackedSeq: Int64, config: Int64?, adding counted: HubCounters
    ) throws(DatabaseError) {
        try database.run(
            """
            UPDATE replica SET max_seq = CASE WHEN ?3 > max_seq THEN ?3 ELSE max_seq END,
            acked_seq = CASE WHEN ?4 > acked_seq THEN ?4 ELSE acked_seq END WHERE device = ?1 AND id = ?2
            """,
            .text(device.text), .text(replica.text), .int(maxSeq), .int(ackedSeq))
        try database.run(
            """
            UPDATE device SET config_seen = coalesce(?2, config_seen), applied = applied + ?3, duplicates = duplicates + ?4,
            conflicts = conflicts + ?5, rejected = rejected + ?6, retried = retried + ?7 WHERE id = ?1
            """, .text(device.text), DatabaseValue(config), .int(counted.applied), .int(counted.duplicates),
            .int(counted.conflicts), .int(counted.rejected), .int(counted.retried))
    }

    func note(_ device: DeviceID, agent: String?, platform: String?, config: Int64?) throws(DatabaseError) {
        try database.run(
            """
            UPDATE device SET agent = coalesce(?2, agent), platform = coalesce(?3, platform),
            config_seen = coalesce(?4, config_seen) WHERE id = ?1
            """, .text(device.text), DatabaseValue(agent), DatabaseValue(platform), DatabaseValue(config))
    }
}

/// A value that lost a contest at the hub.
package struct LostRow: Hashable, Sendable {
    package var record: RecordName
    package var value: LostValue
    package var at: Timestamp
    /// What is stored is no JSON: ``value`` is its text.
    package var isUnreadable = false

    package init(record: RecordName, value: LostValue, at: Timestamp, isUnreadable: Bool = false) {
        self.record = record
        self.value = value
        self.at = at
        self.isUnreadable = isUnreadable
    }

    /// A removal that lost has no `value`.
    package var json: JSON {
        var object: JSONObject = [
            "kind": "lost", "at": .string(at.description), "entity": .string(record.entity.text), "id": .string(record.id.text),
            "field": .string(value.field), "removed": .bool(value.value == nil && value.field != HubMerge.restOfRecord), "device": .string(value.stamp.writer.text),
            "author": value.stamp.author.map { .string($0) } ?? .null, "version": .int(value.stamp.version),
            "hlc": .string(value.stamp.hlc.description),
        ]
        object["value"] = value.value
        if isUnreadable { object["unreadable"] = true }
        return .object(object)
    }
}

/// Records that the hub has and cannot read itself.
package struct DamagedRecords: Hashable, Sendable {
    package struct Row: Hashable, Sendable {
        package var record: RecordName
        package var version: Int64
        /// What is wrong with it.
        package var detail: String

        package var json: JSON {
            [
                "kind": "damaged", "entity": .string(record.entity.text), "id": .string(record.id.text), "version": .int(version),
                "damaged": .string(detail),
            ]
        }
    }

    package var count: Int64 = 0
    /// The first of them by name, as many as were asked for.
    package var first: [Row] = []

    package init() {}

    package var json: JSON { ["records": .int(count), "first": .array(first.map(\.json))] }
}

/// Verdicts, counted. `applied` are the accepted ones.
package struct HubCounters: Hashable, Sendable {
    package var applied: Int64 = 0
    package var duplicates: Int64 = 0
    package var conflicts: Int64 = 0
    package var rejected: Int64 = 0
    package var retried: Int64 = 0

    package init() {}

    init(row: any DatabaseRow, from column: Int32) {
        applied = row.int(column)
        duplicates = row.int(column + 1)
        conflicts = row.int(column + 2)
        rejected = row.int(column + 3)
        retried = row.int(column + 4)
    }

    /// Those that their device is done with.
    var settled: Int64 { applied + duplicates + conflicts + rejected }

    mutating func add(_ other: HubCounters) {
        applied += other.applied
        duplicates += other.duplicates
        conflicts += other.conflicts
        rejected += other.rejected
        retried += other.retried
    }

    mutating func count(_ verdict: PushResult.Verdict) {
        switch verdict {
        case .accepted: applied += 1
        case .duplicate: duplicates += 1
        case .conflict: conflicts += 1
        case .rejected: rejected += 1
        case .retry: retried += 1
        }
    }
}

private enum StatusColumn {
    static func status(_ number: Int64) -> PushResult.Original {
        switch number {
        case 1: .rejected
        case 2: .conflict
        default: .accepted
        }
    }

    static func number(_ status: PushResult.Original) -> Int64 {
        switch status {
        case .accepted: 0
        case .rejected: 1
        case .conflict: 2
        }
    }
}

/// The stamps of fields as `{"notes":[90102,"0199c3f2a1b4-0007-9f2c11ab","gw-17"]}`, then the author and the commits
/// up to which it holds, and has replaced, what others wrote, where they are there, then the time of most members of an object that is
/// merged and the times of the others by name; those of additions as `{"tags":[["urgent",90102,…]]}`. NULL when there are none.
private enum StampColumn {
    static func text(_ exceptions: [JSONString: VersionedRecord.Stamp]) -> String? {
        if exceptions.isEmpty { return nil }
        var writer = JSONWriter()
        writer.object { writer in
            for (field, stamp) in exceptions.sorted(by: { $0.key.text.utf8.lexicographicallyPrecedes($1.key.text.utf8) }) {
                writer.name(field)
                writer.array { write(stamp, to: &$0) }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    static func text(_ additions: [JSONString: [JSON: VersionedRecord.Stamp]]) -> String? {
        if additions.isEmpty { return nil }
        var writer = JSONWriter()
        writer.object { writer in
            for (field, stamps) in additions.sorted(by: { $0.key.text.utf8.lexicographicallyPrecedes($1.key.text.utf8) }) {
                writer.name(field)
                writer.array { writer in
                    for (element, stamp) in stamps.sorted(by: { $0.key.json < $1.key.json }) {
                        writer.array { writer in
                            writer.value(element)
                            write(stamp, to: &writer)
                        }
                    }
                }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private static func write(_ stamp: VersionedRecord.Stamp, to writer: inout JSONWriter) {
        writer.int(stamp.version)
        writer.string(stamp.hlc.description)
        writer.string(stamp.writer.text)
        // Each part needs those before it, and what is behind the last one that says something is left out.
        let parts = stamp.members != nil || stamp.replaced > 0 ? 3 : stamp.foreign > 0 ? 2 : stamp.author != nil ? 1 : 0
        if parts > 0 { if let author = stamp.author { writer.string(author) } else { writer.null() } }
        if parts > 1 { writer.int(stamp.foreign) }
        if parts > 2 { writer.int(stamp.replaced) }
        guard let members = stamp.members else { return }
        writer.string(members.rest.description)
        writer.object { writer in
            for (place, time) in members.named.sorted(by: { $0.key.text.utf8.lexicographicallyPrecedes($1.key.text.utf8) }) {
                writer.name(place)
                writer.string(time.description)
            }
        }
    }

    private static func members(_ parts: ArraySlice<JSON>) -> MemberTimes? {
        guard let rest = parts.first?.text.flatMap({ HybridTime($0) }), let named = parts.last?.object else { return nil }
        let times = named.members.compactMap { member in member.value.text.flatMap { HybridTime($0) }.map { (member.name, $0) } }
        return MemberTimes(rest: rest, named: Dictionary(times, uniquingKeysWith: { first, _ in first }))
    }

    static func exceptions(_ text: String) throws(RecordDamage) -> [JSONString: VersionedRecord.Stamp] {
        guard let object = try StoredColumn.json("exceptions", text).object else { throw RecordDamage("exceptions is no object") }
        var result: [JSONString: VersionedRecord.Stamp] = [:]
        for member in object.members {
            guard let stamp = stamp(member.value.array?[...] ?? []) else { throw RecordDamage("exceptions has no stamp for a field") }
            result[member.name] = stamp
        }
        return result
    }

    static func additions(_ text: String) throws(RecordDamage) -> [JSONString: [JSON: VersionedRecord.Stamp]] {
        guard let object = try StoredColumn.json("additions", text).object else { throw RecordDamage("additions is no object") }
        var result: [JSONString: [JSON: VersionedRecord.Stamp]] = [:]
        for member in object.members {
            for row in member.value.array ?? [] {
                guard let parts = row.array, let element = parts.first, let stamp = stamp(parts.dropFirst()) else {
                    throw RecordDamage("additions has no stamp for an element")
                }
                result[member.name, default: [:]][element] = stamp
            }
        }
        return result
    }

    private static func stamp(_ parts: ArraySlice<JSON>) -> VersionedRecord.Stamp? {
        let parts = Array(parts)
        guard parts.count >= 3, let version = parts[0].int, let hlc = parts[1].text.flatMap({ HybridTime($0) }),
            let writer = parts[2].text
        else { return nil }
        return .init(
            version: version, hlc: hlc, writer: DeviceID(trusted: writer),
            author: parts.count > 3 ? parts[3].text : nil, foreign: parts.count > 4 ? parts[4].int ?? 0 : 0,
            replaced: parts.count > 5 ? parts[5].int ?? 0 : 0, members: parts.count > 7 ? members(parts[6...7]) : nil)
    }
}

/// What a column of a record holds and cannot be read.
struct RecordDamage: Error, Hashable {
    var detail: String

    init(_ detail: String) {
        self.detail = detail
    }
}

private enum StoredColumn {
    /// What this hub has checked before it stored it, read without the limits of input.
    static func json(_ column: String, _ text: String) throws(RecordDamage) -> JSON {
        do throws(JSONError) {
            return try JSONReader.read(text, limits: .stored)
        } catch {
            throw RecordDamage("\(column) is no JSON: \(error)")
        }
    }
}
