import SyncCore

/// The rows of the hub's database as values. It knows SQL and the columns, and decides nothing.
final class HubStore {
    let database: any HubDatabase
    let hubQuery: LookUp
    let currentQuery: LookUp
    let replicaQuery: LookUp
    private let feedQuery: LookUp
    let newestQuery: LookUp
    let scopeFeedQuery: LookUp
    let lostScopesQuery: LookUp
    let newestInScopeQuery: LookUp
    let laterScopesQuery: LookUp
    let scopeLinkQuery: LookUp
    /// Set as soon as the hub's secret is known.
    var scopeCodes = ScopeCodes(secret: [])
    let ablations: Ablations
    /// Records with a damaged row and the error, each reported once (``takeDamage()``).
    private(set) var damaged: [RecordName: RecordDamage] = [:]
    private var untold: [RecordName] = []
    /// Only set where reading requests are answered.
    var newest: NewestVersions?
    /// Holds back the writes of a transaction's requests; `nil`: all rows are written at once.
    var group: WriteGroup?
    /// `nil` except in a transaction that only reads.
    var latestFeed: LatestFeed?
    /// Number of reads of the present decision that ``WriteGroup/Facts`` or ``DecisionBasis`` cover.
    private var coveredReads = 0
    /// The present decision cannot be made without the lock of the hub.
    private(set) var needsLock = false

    init(_ database: any HubDatabase, ablations: Ablations = .none) {
        self.database = database
        self.ablations = ablations
        hubQuery = HubStore.hubQuery(database.spelling)
        currentQuery = HubStore.currentQuery(database.spelling)
        replicaQuery = HubStore.replicaQuery(database.spelling)
        let ofScope = "FROM record_scope WHERE \(database.spelling.feedEntity()) = ?1 AND scope = ?2 AND (version, id) > (?3, ?4)"
        let scopeRows = "SELECT id, version, state \(ofScope)"
        scopeFeedQuery = LookUp(
            "\(scopeRows) AND version <= ?5 AND (\(ScopeState.isPresentInSQL) OR version > ?6) ORDER BY version, id LIMIT ?7",
            [.text, .int, .int, .text, .int, .int, .int])
        lostScopesQuery = LookUp(
            "\(scopeRows) AND since <= ?5 ORDER BY version, id LIMIT ?6", [.text, .int, .int, .text, .int, .int])
        newestInScopeQuery = LookUp(
            """
            SELECT version FROM record_scope
            WHERE \(database.spelling.feedEntity()) = ?1 AND scope = ?2 AND version > ?3 ORDER BY version DESC LIMIT 1
            """, [.text, .int, .int])
        laterScopesQuery = LookUp(
            "SELECT id, version, state, since \(ofScope) AND since > ?5 ORDER BY version, id LIMIT ?6",
            [.text, .int, .int, .text, .int, .int])
        feedQuery = LookUp(
            """
            SELECT \(HubStore.shownColumns) FROM record\(database.spelling.byFeed)
            WHERE \(database.spelling.feedEntity()) = ?1 AND (version, id) > (?2, ?3) AND (data IS NOT NULL OR version > ?4)
            ORDER BY version, id LIMIT ?5
            """, [.text, .int, .text, .int, .int])
        newestQuery = HubStore.newestQuery(database.spelling)
        scopeLinkQuery = HubStore.scopeLinkQuery(database.spelling)
    }

    /// Begins a query over the names of all entities with a record or a tombstone: the rows `found(name)`, of which the last is NULL. It
    /// takes one step in the index for each, however many records it has.
    static let withEntities = """
        WITH RECURSIVE found(name) AS (
            SELECT min(entity) FROM record
            UNION ALL SELECT (SELECT min(entity) FROM record WHERE entity > found.name) FROM found WHERE found.name IS NOT NULL)
        """

    /// The newest version in the entity `found.name`.
    static func newestVersion(_ spelling: SQLSpelling) -> String {
        "(SELECT max(r.version) FROM record r WHERE \(spelling.feedEntity(of: "r")) = found.name)"
    }

    /// The newest version of all records and tombstones; 0: there are none.
    func newestVersion() throws(DatabaseError) -> Int64 {
        try database.number(
            """
            \(HubStore.withEntities) SELECT coalesce(max(\(HubStore.newestVersion(database.spelling))), 0)
            FROM found WHERE name IS NOT NULL
            """)
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
        /// Number of changes of the book of tokens so far, where the database keeps it.
        var tokens: Int64
        /// Name of the newest opening of the database (``HubLineage``); empty when there is none.
        var opening: String
        /// The newest generation of the rows of scopes; 0: no entity has scopes.
        var scopes: Int64 = 0
        /// A number that differs whenever the version of an entity's documents does.
        var versions: Int64 = 0
        /// Names the entity settings that count; empty: there are none.
        var entities = ""
        /// The newest commit whose links of records and files are stored; below ``head`` a program wrote that does not know them.
        var linked: Int64 = 0
        /// Numbers of the newest transaction that wrote, and of the newest one that changed the scopes that records grant; 0 where the
        /// database does not number them.
        var log: Int64 = 0
        var granted: Int64 = 0

        /// Differs whenever anything of this row differs that decisions read, except the numbers. A server makes it, too
        /// (``CommitLog/identity(_:)``).
        var identity: String { "\(epoch) \(opening) \(tokens) \(scopes) \(versions) \(entities)" }

        var basis: DecisionBasis { DecisionBasis(log: log, head: head, granted: granted, identity: identity) }
    }

    private static func hubQuery(_ spelling: SQLSpelling) -> LookUp {
        LookUp(
            """
            SELECT hub.epoch, hub.secret, c.head, c.applied, c.duplicates, c.conflicts, c.rejected, c.retried, \(spelling.tokens),
              (SELECT tag FROM lineage WHERE n = (SELECT max(n) FROM lineage)), (SELECT max(generation) FROM scope_index),
              (\(HubStore.versionMarkQuery)), \(HubStore.entityMark), c.linked, \(spelling.keepsLog ? "c.n, c.granted" : "0, 0")
            FROM hub CROSS JOIN (\(spelling.keepsLog ? CommitLog.newest : "SELECT * FROM hub")) AS c
            """)
    }

    func hub() throws(DatabaseError) -> HubRow? { try checked(try database.first(hubQuery.sql) { HubStore.hubRow($0) }) }

    static func hubRow(_ row: any DatabaseRow) -> HubRow {
        HubRow(
            epoch: row.text(0), secret: row.blob(1), head: row.int(2), counters: HubCounters(row: row, from: 3),
            tokens: row.int(8), opening: row.optionalText(9) ?? "", scopes: row.optionalInt(10) ?? 0,
            versions: row.int(11), entities: row.optionalText(12) ?? "", linked: row.int(13), log: row.int(14), granted: row.int(15))
    }

    func checked(_ hub: HubRow?) throws(DatabaseError) -> HubRow? {
        if let hub { scopeCodes.use(hub.secret) }
        // A number that commits cannot have reached has no successor either, and devices accept no larger number.
        if let hub, !(0...(1 << 53)).contains(hub.head) {
            throw DatabaseError(.corrupt, doing: "read the newest commit number", detail: "it is \(hub.head); expected 0 to 2^53")
        }
        return hub
    }

    func create(_ hub: HubRow) throws(DatabaseError) {
        try database.run(
            "INSERT INTO hub(one, epoch, secret, head) VALUES(1, ?, ?, ?) ON CONFLICT(one) DO NOTHING", .text(hub.epoch), .blob(hub.secret),
            .int(hub.head))
        if database.spelling.keepsLog { try database.run(CommitLog.first, .int(hub.head)) }
    }

    func setEpoch(_ epoch: String, head: Int64) throws(DatabaseError) {
        guard database.spelling.keepsLog else {
            return try database.run("UPDATE hub SET epoch = ?, head = ?", .text(epoch), .int(head))
        }
        try database.run("UPDATE hub SET epoch = ?", .text(epoch))
        try database.run(CommitLog.restart, .int(head))
    }

    /// - Parameter before: The newest commit number of the database, within the present transaction.
    func advance(to head: Int64, from before: Int64, adding counted: HubCounters) throws(DatabaseError) {
        if database.spelling.keepsLog { return try database.write(CommitLog.advance, CommitLog.values(head - before, counted)) }
        try database.run(
            """
            UPDATE hub SET head = ?1, linked = CASE WHEN linked = head THEN ?1 ELSE linked END,
            applied = applied + ?2, duplicates = duplicates + ?3, conflicts = conflicts + ?4,
            rejected = rejected + ?5, retried = retried + ?6
            """, .int(head), .int(counted.applied), .int(counted.duplicates), .int(counted.conflicts),
            .int(counted.rejected), .int(counted.retried))
    }

    /// The links of records and files are those of the newest commit from now on.
    func markLinksCurrent() throws(DatabaseError) {
        try database.run(database.spelling.keepsLog ? CommitLog.linked : "UPDATE hub SET linked = head")
    }

    // MARK: Decisions without the lock

    /// The present transaction decides without the lock of the hub.
    var isDeciding: Bool { group?.basis != nil }

    /// Reads rows whose state is among the facts of a decision.
    func covered<T>(_ body: () throws(DatabaseError) -> T) throws(DatabaseError) -> T {
        let before = database.reads
        let result = try body()
        coveredReads += database.reads - before
        return result
    }

    /// All reads of the present transaction so far are covered by ``DecisionBasis`` and the rows that were read ahead.
    func coverReads() { coveredReads = database.reads }

    var hasUncoveredReads: Bool { database.reads != coveredReads }

    /// Ends a decision that needs the lock after all.
    func lockNeeded(_ cause: String) -> DatabaseError {
        needsLock = true
        return DatabaseError(.contended, doing: "decide without the lock", detail: cause)
    }

    func takeNeedOfLock() -> Bool {
        defer { needsLock = false }
        return needsLock
    }

    // MARK: Records

    struct RecordRow {
        var id: RecordID
        /// The commit of its last change.
        var version: Int64
        /// A damaged record is never treated as an empty one: nothing is merged with it, and devices do not get it.
        var content: Result<VersionedRecord, RecordDamage>
        /// Key of the mutation that made the last change.
        var originKey: String
        /// Bytes of the document.
        var size: Int
        /// The record's scopes, where its entity has any; the last ones of a deleted record.
        var scopes: [Scope] = []
        /// The record has left the share of the device that is answered: this row tells it so.
        var isRevoked = false
        /// `false`: the text of the document, or of the one that a tombstone keeps, names no file (``Placeholder/mayBe(in:)``).
        var mayNameFiles = true
    }

    static let recordColumns = shownColumns + ", kept, kept_version, scopes"
    /// Without the kept values of a tombstone, which devices do not get.
    private static let shownColumns = "id, version, data, hlc, writer, exceptions, origin_key, author, additions"

    func record(_ name: RecordName) throws(DatabaseError) -> RecordRow? {
        if let known = group?.record(name) { return known }
        let row = try covered { () throws(DatabaseError) in
            try database.first(HubStore.recordQuery.sql, .text(name.entity.text), .text(name.id.text)) {
                recordRow($0, of: name.entity, hasKept: true)
            }
        }
        group?.facts?.add(name, row)
        return row
    }

    private static let recordQuery = LookUp("SELECT \(HubStore.recordColumns) FROM record WHERE entity = ?1 AND id = ?2", [.text, .text])

    static func question(_ records: [RecordName]) -> Question {
        Question(recordQuery, records.map(\.keyValues))
    }

    /// Reads an answer to ``question(_:)``.
    func record(_ name: RecordName, from row: any DatabaseRow) -> RecordRow { recordRow(row, of: name.entity, hasKept: true) }

    /// - Parameter data: `record.data` as JSON text, which the caller has measured already.
    /// - Parameter scopes: `nil` when the entity has no scopes.
    func put(
        _ name: RecordName, _ record: VersionedRecord, data: String?, originKey: String, scopes: ScopeChange?, at now: Timestamp
    ) throws(DatabaseError) {
        let kept = record.kept?.data.json
        let mayName = [data, kept].contains { $0.map { Placeholder.mayBe(in: $0) } ?? false }
        let head = group?.basis?.head
        let row: [DatabaseValue] = [
            .text(name.entity.text), .text(name.id.text), .int(record.version), DatabaseValue(data),
            .text(record.stamp.hlc.description), .text(record.stamp.writer.text),
            DatabaseValue(StampColumn.text(record.kept?.stamps ?? record.exceptions, preliminaryAbove: head)), .text(originKey),
            .int(now.milliseconds),
            DatabaseValue(record.stamp.author),
            DatabaseValue(StampColumn.text(record.kept?.additions ?? record.additions, preliminaryAbove: head)),
            DatabaseValue(kept), DatabaseValue(record.kept == nil ? nil : record.version),
            DatabaseValue(scopes.flatMap { ScopesColumn($0.after).text }),
        ]
        let seen = RecordRow(
            id: name.id, version: record.version, content: .success(record), originKey: originKey, size: data?.utf8.count ?? 0,
            scopes: scopes?.after ?? [], mayNameFiles: mayName)
        let before = try self.record(name)
        // The links of a damaged row are unknown.
        if before?.isWhole == false { try dropLinks(of: [name]) }
        try change(at: now) { layer in
            addLinkChanges(of: name, from: before, to: record, mayName: mayName, in: &layer)
            layer.seen.records.updateValue(seen, forKey: name)
            layer.writes.records[name] = row
            if let scopes { addScopeRows(scopes, of: name, version: record.version, in: &layer) }
        }
    }

    /// The newest state of records that changed after a position, in the order of their change.
    ///
    /// - Parameters:
    ///   - after: Commit number and id of the last excluded record.
    ///   - deletionsAfter: Tombstones up to this commit are left out.
    func feed(
        _ entity: EntityName, after: (version: Int64, id: String), deletionsAfter: Int64, limit: Int
    ) throws(DatabaseError) -> [RecordRow] {
        let question = LatestFeed.Question(
            entity: entity, version: after.version, id: after.id, deletionsAfter: deletionsAfter, limit: limit)
        if let known = latestFeed?.rows(of: question) { return known }
        let rows = try database.all(
            feedQuery.sql, .text(entity.text), .int(after.version), .text(after.id), .int(deletionsAfter), .int(Int64(limit))
        ) { recordRow($0, of: entity) }
        latestFeed?.keep(rows, of: question)
        return rows
    }

    /// The latest answer of a feed in a transaction that only reads. After a change many devices ask the same, one behind the other.
    struct LatestFeed {
        struct Question: Hashable {
            var entity: EntityName
            var version: Int64
            var id: String
            var deletionsAfter: Int64
            var limit: Int
        }

        private var question: Question?
        private var rows: [RecordRow] = []

        func rows(of question: Question) -> [RecordRow]? { question == self.question ? rows : nil }

        mutating func keep(_ rows: [RecordRow], of question: Question) { (self.rows, self.question) = (rows, question) }
    }

    /// The same for several entities, in one round trip.
    func feeds(of cursors: [Cursor], limit: Int) throws(DatabaseError) -> [[RecordRow]] {
        var rows = [[RecordRow]](repeating: [], count: cursors.count)
        let sets = cursors.map { cursor -> [DatabaseValue] in
            let after = cursor.placeInFeed
            return [.text(cursor.entity.text), .int(after.version), .text(after.id), .int(cursor.live), .int(Int64(limit))]
        }
        try database.answer([Question(feedQuery, sets)]) { _, set, row in rows[set].append(recordRow(row, of: cursors[set].entity)) }
        return rows
    }

    /// Live records by id.
    func listing(_ entity: EntityName, after: RecordID?, limit: Int) throws(DatabaseError) -> [RecordRow] {
        try database.all(
            """
            SELECT \(HubStore.recordColumns) FROM record WHERE entity = ? AND id > ? AND data IS NOT NULL ORDER BY id LIMIT ?
            """, .text(entity.text), .text(after?.text ?? ""), .int(Int64(limit))
        ) { recordRow($0, of: entity) }
    }

    func recordRow(_ row: any DatabaseRow, of entity: EntityName, hasKept: Bool = false) -> RecordRow {
        let id = RecordID(trusted: row.text(0))
        let content: Result<VersionedRecord, RecordDamage>
        var scopes: [Scope] = []
        do throws(RecordDamage) {
            if hasKept, let text = row.optionalText(11) { scopes = try ScopesColumn(reading: text).present }
            content = .success(try readRecord(row, hasKept: hasKept))
        } catch {
            content = .failure(error)
            recordDamage(error, of: RecordName(entity, id))
        }
        let data = row.optionalText(2)
        var known = RecordRow(
            id: id, version: row.int(1), content: content, originKey: row.text(6), size: data?.utf8.count ?? 0, scopes: scopes)
        // Rows that devices are shown are looked through for no file.
        if hasKept {
            let texts = [data, row.optionalText(9)]
            known.mayNameFiles = texts.contains { $0.map { Placeholder.mayBe(in: $0) } ?? false }
        }
        return known
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
            // An earlier program does not know the column: its deletions kept nothing.
            guard hasKept, row.optionalInt(10) == stamp.version, let text = row.optionalText(9) else {
                return VersionedRecord(deleted: stamp, keeping: nil)
            }
            guard let object = try StoredColumn.json("kept", text).object else { throw RecordDamage("kept is no object") }
            return VersionedRecord(deleted: stamp, keeping: .init(data: object, stamps: exceptions, additions: additions))
        }
        return VersionedRecord(data: data, stamp: stamp, exceptions: exceptions, additions: additions)
    }

    /// Only for a test build that shows the effect.
    private func readRecordAsInput(_ row: any DatabaseRow) -> VersionedRecord {
        let stamp = VersionedRecord.Stamp(
            version: row.int(1), hlc: HybridTime(row.text(3)) ?? HybridTime(milliseconds: 0, counter: 0, node: "0"),
            writer: DeviceID(trusted: row.text(4)), author: row.optionalText(7))
        return VersionedRecord(
            // `try?`, three times: the mistake that the ablation restores.
            data: row.optionalText(2).map { (try? JSONReader.read($0))?.object ?? [:] }, stamp: stamp,
            exceptions: row.optionalText(5).flatMap { try? StampColumn.exceptions($0) } ?? [:],
            additions: row.optionalText(8).flatMap { try? StampColumn.additions($0) } ?? [:])
    }

    private func recordDamage(_ damage: RecordDamage, of name: RecordName) {
        guard damaged[name] == nil, damaged.count < HubStore.damagedMax else { return }
        damaged[name] = damage
        untold.append(name)
    }

    /// Largest number of damaged records that are remembered; more would add no information.
    private static let damagedMax = 1_000

    /// Damage that was found since the last call.
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
    /// - Parameter limit: Largest number of records that are named.
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
                    let name = RecordName(EntityName(trusted: row.text(12)), RecordID(trusted: row.text(0)))
                    found.first.append(DamagedRecords.Row(record: name, version: row.int(1), detail: error.detail))
                }
            }
            return true
        }
        return found
    }

    // MARK: Tombstones

    /// Names of the entities with a record or a deletion. It takes one step in the index for each, however many records they have.
    func entities(atMost most: Int) throws(DatabaseError) -> [EntityName] {
        try database.all(
            """
            \(HubStore.withEntities) SELECT name FROM found WHERE name IS NOT NULL LIMIT ?
            """, .int(Int64(most))
        ) { EntityName(trusted: $0.text(0)) }
    }

    /// Cursors below this have missed a deletion that is forgotten by now; 0 when there is none.
    func horizon(_ entity: EntityName) throws(DatabaseError) -> Int64 {
        if let known = group?.horizon(entity) { return known }
        let horizon = try covered { () throws(DatabaseError) in
            try database.first(HubStore.horizonQuery.sql, .text(entity.text)) { $0.int(0) } ?? 0
        }
        group?.facts?.add(entity, horizon: horizon)
        group?.request.seen.horizons[entity] = horizon
        return horizon
    }

    static let horizonQuery = LookUp("SELECT version FROM horizon WHERE entity = ?1", [.text])

    /// Number of records of the entity that were deleted and not created again: tombstones, and forgotten deletions.
    func deletedTotal(_ entity: EntityName) throws(DatabaseError) -> Int64 {
        let forgotten = try database.first("SELECT forgotten FROM horizon WHERE entity = ?", .text(entity.text)) { $0.int(0) } ?? 0
        let known =
            try database.first("SELECT count(*) FROM record WHERE entity = ? AND data IS NULL", .text(entity.text)) { $0.int(0) } ?? 0
        return forgotten + known
    }
}

extension RecordName {
    /// The values of the columns that name a record in most tables.
    var keyValues: [DatabaseValue] { [.text(entity.text), .text(id.text)] }
}
