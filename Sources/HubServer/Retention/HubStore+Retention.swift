package import SyncCore

// Removal of old rows in slices: each call removes one slice within the caller's transaction.
extension HubStore {
    // MARK: Deletions

    // A slice locks its rows, and leaves those that a push is about to change: they are old no more, or go with the next run. So it never
    // waits for a push, which may wait for a slice.

    /// Forgets the oldest tombstones that are older than a time, and raises the horizons in the same transaction.
    ///
    /// - Returns: Their number; less than `limit`: there are no more that are free.
    func removeTombstones(before: Timestamp, raisingHorizon: Bool, limit: Int) throws(DatabaseError) -> Int {
        let page = try database.all(
            HubStore.oldTombstones(database.spelling), .int(before.milliseconds), .int(Int64(limit))
        ) { (name: RecordName(EntityName(trusted: $0.text(0)), RecordID(trusted: $0.text(1))), version: $0.int(2)) }
        if page.isEmpty { return 0 }
        try database.write(HubStore.recordRemoval, page.map(\.name.keyValues))
        try dropLinks(of: page.map(\.name))
        if raisingHorizon { try raiseHorizons(page.map { (entity: $0.name.entity, version: $0.version, count: 1) }) }
        return page.count
    }

    /// Forgets that records were deleted in a scope, or left it, before a time.
    ///
    /// - Returns: The number of rows; less than `limit`: there are no more that are free.
    func removePastScopes(before: Timestamp, raisingHorizon: Bool, limit: Int) throws(DatabaseError) -> Int {
        let page = try database.all(
            HubStore.pastScopes(database.spelling), .int(before.milliseconds), .int(Int64(limit))
        ) { (entity: EntityName(trusted: $0.text(0)), scope: $0.int(1), id: $0.text(2), version: $0.int(3)) }
        if page.isEmpty { return 0 }
        try database.write(HubStore.scopeRemoval, page.map { [.text($0.entity.text), .int($0.scope), .text($0.id)] })
        if raisingHorizon { try raiseHorizons(page.map { (entity: $0.entity, version: $0.version, count: 0) }) }
        return page.count
    }

    /// Forgets refused creations before a time.
    ///
    /// - Returns: Their number; less than `limit`: there are no more that are free.
    func removeRefusals(before: Timestamp, limit: Int) throws(DatabaseError) -> Int {
        let page = try database.all(
            HubStore.oldRefusals(database.spelling), .int(before.milliseconds), .int(Int64(limit))
        ) { [.text($0.text(0)), .text($0.text(1)), .text($0.text(2))] as [DatabaseValue] }
        if !page.isEmpty { try database.write(HubStore.refusalRemoval, page) }
        return page.count
    }

    static func oldTombstones(_ spelling: SQLSpelling) -> String {
        """
        SELECT entity, id, version FROM record WHERE data IS NULL AND updated_at_ms < ? ORDER BY updated_at_ms LIMIT ?\
        \(spelling.lockingFreeRows)
        """
    }

    static func pastScopes(_ spelling: SQLSpelling) -> String {
        """
        SELECT entity, scope, id, version FROM record_scope WHERE \(ScopeState.isPastInSQL) AND at_ms < ? ORDER BY at_ms LIMIT ?\
        \(spelling.lockingFreeRows)
        """
    }

    static func oldRefusals(_ spelling: SQLSpelling) -> String {
        "SELECT device, entity, id FROM refused_create WHERE at_ms < ? ORDER BY at_ms LIMIT ?\(spelling.lockingFreeRows)"
    }

    private static let recordRemoval = RowStatement(removingFrom: "record", ["entity": .text, "id": .text])
    private static let scopeRemoval = RowStatement(removingFrom: "record_scope", ["entity": .text, "scope": .int, "id": .text])
    private static let refusalRemoval = RowStatement(
        removingFrom: "refused_create", ["device": .text, "entity": .text, "id": .text])

    /// Makes cursors that have not seen these commits expire.
    ///
    /// - Parameter rows: Removed rows; `count` is 1 for a record that does not exist any more.
    private func raiseHorizons(_ rows: [(entity: EntityName, version: Int64, count: Int64)]) throws(DatabaseError) {
        var horizons: [EntityName: (version: Int64, count: Int64)] = [:]
        for row in rows {
            let known = horizons[row.entity] ?? (0, 0)
            horizons[row.entity] = (max(known.version, row.version), known.count + row.count)
        }
        for (entity, new) in horizons.sorted(by: { $0.key < $1.key }) {
            try database.run(
                """
                INSERT INTO horizon(entity, version, forgotten) VALUES(?, ?, ?)
                ON CONFLICT(entity) DO UPDATE SET forgotten = horizon.forgotten + excluded.forgotten, version =
                CASE WHEN excluded.version > horizon.version THEN excluded.version ELSE horizon.version END
                """, .text(entity.text), .int(new.version), .int(new.count))
        }
    }

    // MARK: Events

    /// The newest commit whose events may be removed: `Int64.max`, all.
    ///
    /// A consumer that reads events by their commits, and has a name and a position here, will hold them back.
    func removableCommit(of entity: EntityName) throws(DatabaseError) -> Int64 { .max }

    /// The next page of a walk, in the order of the commits.
    func page(of walk: EventWalk, limit: Int) throws(DatabaseError) -> [EventWalk.Row] {
        try database.all(
            HubStore.eventPage(database.spelling), .text(walk.entity.text), .int(walk.from.version), .text(walk.from.id), .int(Int64(limit))
        ) {
            EventWalk.Row(
                place: EventWalk.Place(version: $0.int(0), id: $0.text(1)), at: Timestamp(milliseconds: $0.int(2)))
        }
    }

    static func eventPage(_ spelling: SQLSpelling) -> String {
        """
        SELECT version, id, updated_at_ms FROM record\(spelling.byFeed)
        WHERE \(spelling.feedEntity()) = ? AND (version, id) > (?, ?) ORDER BY version, id LIMIT ?
        """
    }

    static func eventRemoval(_ spelling: SQLSpelling) -> String {
        "DELETE FROM record\(spelling.byFeed) WHERE \(spelling.feedEntity()) = ? AND (version, id) <= (?, ?)"
    }

    /// Removes the oldest events of an entity, with their links to files. The keys of their mutations stay.
    ///
    /// The horizon rises, so that the entity may become one of records later: devices that have copies of the removed ones list anew
    /// then.
    ///
    /// - Parameter rows: The first events in the order of commits: all up to the last of them.
    /// - Throws: `.contended` when they are not the same any more. The caller gives up the transaction, and may read them again.
    func removeEvents(_ rows: ArraySlice<EventWalk.Row>, of entity: EntityName) throws(DatabaseError) {
        guard let last = rows.last else { return }
        // First the records: pushes lock a record before its links, too.
        try database.run(
            HubStore.eventRemoval(database.spelling), .text(entity.text), .int(last.place.version), .text(last.place.id))
        guard try database.changes() == rows.count else {
            throw DatabaseError(.contended, doing: "remove old events of \(entity)", detail: "another hub has changed them meanwhile")
        }
        try removeLinks(of: rows.map { RecordName(entity, RecordID(trusted: $0.place.id)) })
        try raiseHorizons([(entity: entity, version: last.place.version, count: Int64(rows.count))])
    }

    /// Ends the links of records that are removed, and their wait for files.
    private func removeLinks(of names: [RecordName]) throws(DatabaseError) {
        var linked: [(name: RecordName, digest: BlobDigest)] = []
        try database.answer([Question(HubStore.linkedFilesQuery, names.map(\.keyValues))]) { _, set, row in
            if let digest = BlobDigest(hex: row.text(0)) { linked.append((names[set], digest)) }
        }
        for (name, digest) in linked { try forgetWaiting(name, for: digest) }
        try dropLinks(of: Set(linked.map(\.name)).sorted())
    }

    /// The files that a record names.
    static let linkedFilesQuery = LookUp("SELECT digest FROM record_file WHERE entity = ?1 AND id = ?2", [.text, .text])

    // MARK: Figures

    func retentionClock() throws(DatabaseError) -> RetentionClock {
        func time(_ row: any DatabaseRow, _ column: Int32) -> Timestamp? {
            row.optionalInt(column).map { Timestamp(milliseconds: $0) }
        }
        return try database.first("SELECT believed_ms, doubted_ms, seen_ms FROM retention_clock") {
            RetentionClock(believed: time($0, 0), doubtedSince: time($0, 1), seen: time($0, 2))
        } ?? RetentionClock()
    }

    func keep(_ clock: RetentionClock) throws(DatabaseError) {
        try database.run(
            """
            INSERT INTO retention_clock(one, believed_ms, doubted_ms, seen_ms) VALUES(1, ?, ?, ?)
            ON CONFLICT(one) DO UPDATE SET believed_ms = excluded.believed_ms, doubted_ms = excluded.doubted_ms, seen_ms = excluded.seen_ms
            """, DatabaseValue(clock.believed?.milliseconds), DatabaseValue(clock.doubtedSince?.milliseconds),
            DatabaseValue(clock.seen?.milliseconds))
    }

    /// Adds the events that a slice has removed to the figures of its run.
    ///
    /// - Parameter run: Time at which the run began, which names it.
    func recordRun(removed: Int, of entity: EntityName, keeping: Duration, run: Timestamp, hasMore: Bool) throws(DatabaseError) {
        try database.run(
            """
            INSERT INTO event_retention(entity, keep_ms, ran_at_ms, removed, total, has_more) VALUES(?1, ?2, ?3, ?4, ?4, ?5)
            ON CONFLICT(entity) DO UPDATE SET keep_ms = excluded.keep_ms, ran_at_ms = excluded.ran_at_ms, has_more = excluded.has_more,
            removed = CASE WHEN event_retention.ran_at_ms = excluded.ran_at_ms THEN event_retention.removed ELSE 0 END + excluded.removed,
            total = event_retention.total + excluded.total
            """, .text(entity.text), .int(keeping.milliseconds), .int(run.milliseconds), .int(Int64(removed)), .int(hasMore ? 1 : 0))
    }

    /// Entities without a rule have no figures.
    func forgetRetention(besides entities: some Collection<EntityName>) throws(DatabaseError) {
        for name in try eventRetention().keys.sorted() where !entities.contains(name) {
            try database.run("DELETE FROM event_retention WHERE entity = ?", .text(name.text))
        }
    }

    func eventRetention() throws(DatabaseError) -> [EntityName: EventRetention] {
        var found: [EntityName: EventRetention] = [:]
        try database.read("SELECT entity, keep_ms, ran_at_ms, removed, total, has_more FROM event_retention", []) { row in
            found[EntityName(trusted: row.text(0))] = EventRetention(
                keep: .milliseconds(row.int(1)), ranAt: Timestamp(milliseconds: row.int(2)), removed: row.int(3), total: row.int(4),
                hasMore: row.int(5) != 0)
            return true
        }
        return found
    }
}

/// The work of housekeeping on the events of an entity.
package struct EventRetention: Hashable, Sendable {
    /// The rule of the newest run.
    package var keep: Duration
    package var ranAt: Timestamp
    /// Events that the newest run has removed, and all runs since the entity has a rule.
    package var removed: Int64
    package var total: Int64
    /// The newest run ended, or was ended, before it was through: the next one goes on.
    package var hasMore: Bool
}

extension EventRetention {
    func json(of entity: EntityName) -> JSONObject {
        [
            "entity": .string(entity.text), "keep": .string(DurationText.exact(keep)), "ran_at": .string(ranAt.description),
            "removed": .int(removed), "removed_total": .int(total), "has_more": .bool(hasMore),
        ]
    }

    /// The rule and what came of it, for people.
    package var words: String {
        let rest = hasMore ? ", and more are left for the next run" : ""
        return "events older than \(DurationText.exact(keep)) are removed; \(removed) removed \(ranAt)\(rest), \(total) in all"
    }
}
