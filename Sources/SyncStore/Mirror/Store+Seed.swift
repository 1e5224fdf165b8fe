import SyncCore
import SyncSQLite

// The records that a new device needs first, before everything else is listed (PROTOCOL A8, ``SeedFilter``).
extension Store {
    /// Applies one page of the seed. It moves no cursor and removes nothing: the listing that follows does both, and finds most of these
    /// records known.
    func applySeed(_ page: SnapshotPage, _ summary: inout PullSummary) throws(StoreError) {
        let eid = try names.entity(page.entity, in: database)
        let isSeeding = try database.number("SELECT seeding FROM stream WHERE eid = ?", .int(eid))
        // A late page: the listing has begun.
        guard isSeeding ?? 1 == 1 else { return }
        try apply(page.records, eid: eid, listing: nil, &summary)
        try database.run(
            """
            INSERT INTO stream (eid, gen, listing, seeding, snap_after, last_pull_ms) VALUES (?1, 1, 1, ?2, ?3, ?4)
            ON CONFLICT DO UPDATE SET seeding = ?2, snap_after = ?3, last_pull_ms = ?4
            """, .int(eid), .bool(page.hasMore), .optional(page.hasMore ? page.after?.text : nil), .int(now.wall.milliseconds))
    }

    /// Position of the seed; `nil` when it is complete, was never needed, or the entity has no filter any more.
    ///
    /// - Parameter place: The stored position of the stream; `nil` for an entity that was never read.
    func seed(of entity: EntityName, _ place: (isSeeding: Bool, after: String?)?) -> StreamPosition.Seed? {
        guard rest == nil, rules[entity]?.seedFilter.isEmpty == false, place?.isSeeding ?? true else { return nil }
        return StreamPosition.Seed(after: place?.after.map { RecordID(trusted: $0) })
    }
}
