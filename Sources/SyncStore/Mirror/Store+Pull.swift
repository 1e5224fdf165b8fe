package import SyncCore
import SyncSQLite

extension Store {
    /// Entities to pull, with their cursors and listings, in the order of ``RuleBook/seedOrder(of:)``.
    package func loadStreams(also announced: [EntityName] = [], at now: Moment) throws(StoreError) -> [StreamPosition] {
        if !damagedRecords.isEmpty { try repair(at: now) }
        let age = ages.age(at: now)
        var found: [EntityName: StreamPosition] = [:]
        try database.each(
            "SELECT eid, full_age, cursor, listing = 1 AND snapshot = 1, snap_after, buckets, seeding FROM stream"
        ) { row throws(StoreError) in
            let entity = names.entity(row.int(0))
            var position = Self.position(entity, row, at: 2)
            position.fullSync = Self.fullSync(fullSync, last: row.optionalInt(1), turn: turn, age: age)
            position.seed = seed(of: entity, (isSeeding: row.bool(6), after: row.optionalText(4)))
            found[entity] = position
        }
        // A name beyond the limit could not be kept, and its pages would be read for nothing.
        let room = announced.filter { names.entities[$0] == nil }.prefix(Names.limit - names.entities.count)
        let known = Set(rules.entities.keys).union(names.entities.keys).union(room).filter { entity in
            (rules[entity]?.kind ?? .event) != .event && isListed(entity)
        }
        return rules.seedOrder(of: known).map { entity in
            var position = found[entity] ?? StreamPosition(entity: entity, cursor: nil)
            if found[entity] == nil { position.seed = seed(of: entity, nil) }
            position.isReference = rules[entity]?.kind == .reference
            return position
        }
    }

    /// Applies one answer to a pull. Invariant: a cursor is committed only together with its page.
    ///
    /// Repeating a page changes nothing: a version that is not newer than ours is ignored. Open mutations stay on top.
    package func applyPull(_ response: PullResponse, at now: Moment) throws(StoreError) -> PullSummary {
        var summary = PullSummary()
        if options.ablations.contains(.cursorBeforePage) {
            try transact(at: now) { () throws(StoreError) in
                try prepareForChange()
                for page in response.pages { try keepCursor(of: page, eid: try names.entity(page.entity, in: database)) }
            }
        }
        try transact(at: now) { () throws(StoreError) in
            (summary, leaving) = (PullSummary(), LeavingFiles())
            try prepareForChange()
            for page in response.pages where isPulled(page.entity) {
                if !page.records.isEmpty { try markLowered(page.entity, by: response.newerSchemas) }
                try beginWholeList(of: page.entity)
                try apply(try localised(page), &summary)
            }
            if let standing = response.standing { try keep(standing) }
            if let leftOut = response.leftOut { try keep(leftOut) }
            if let writtenUnder = response.writtenUnder { try keep(writtenUnder: writtenUnder) }
            try dropLeavingFiles(&summary)
        }
        return summary
    }

    /// Restarts the feed of these entities. Present records stay until the new listing is complete; then those that it did not contain are
    /// treated as deleted.
    ///
    /// - Parameter ofShare: The scopes of this device have changed: those records have left its share.
    package func restartStreams(_ entities: [EntityName], ofShare: Bool = false, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            for entity in entities where isPulled(entity) {
                try restartStream(try names.entity(entity, in: database), ofShare: ofShare)
            }
        }
    }

    /// - Parameter ofShare: `false` leaves a listing of the share one.
    func restartStream(_ eid: Int64, ofShare: Bool = false) throws(StoreError) {
        try database.run(
            """
            INSERT INTO stream (eid, gen, listing, snapshot, of_share) VALUES (?1, 1, 1, ?2, ?3)
            ON CONFLICT DO UPDATE SET cursor = NULL, gen = gen + 1, listing = 1, listing_head = NULL, snapshot = ?2,
                snap_after = NULL, snap_cursor = NULL, snap_share = NULL, buckets = NULL, run_deleted = 0, run_day = NULL, seeding = 0,
                listing_deleted = NULL, of_share = max(of_share, ?3)
            """, .int(eid), .bool(rest == nil), .bool(ofShare))
    }

    /// Returns whether the entity has a listing. An existing backend may have none for an entity.
    private func isListed(_ entity: EntityName) -> Bool {
        rest.map { $0.entities[entity]?.list != nil } ?? true
    }

    func isPulled(_ entity: EntityName) -> Bool {
        guard let rules = rules[entity] else { return false }
        return rules.kind != .event && (names.entities[entity] != nil || names.hasRoomForEntity)
    }

    // MARK: - One page

    private func apply(_ page: StreamPage, _ summary: inout PullSummary) throws(StoreError) {
        let eid = try names.entity(page.entity, in: database)
        // The first pull of an entity is a listing like any other.
        try database.run("INSERT INTO stream (eid, gen, listing) VALUES (?, 1, 1) ON CONFLICT DO NOTHING", .int(eid))
        let listing = try beginListing(eid)
        if let total = page.total {
            try database.run("UPDATE stream SET seed_total = ? WHERE eid = ?", .int(total), .int(eid))
        }
        try apply(page.records, eid: eid, listing: listing, &summary)
        if let listing { try spare(page.unreadable, eid: eid, listing) }
        var records = TouchedRecords()
        var deleted: [(row: MirrorRow, item: StreamPage.Deletion)] = []
        for item in page.deletions {
            // Deletions of unknown records have no effect.
            guard let row = try MirrorRow.find(database, eid: eid, id: item.id.text) else { continue }
            if item.isRevoked ? !row.isFromHub : row.isNewer(thanDeletion: item) {
                summary.unchanged += 1
            } else if item.isRevoked {
                try revoke(row, &records)
                summary.deletions += 1
            } else {
                deleted.append((row, item))
            }
        }
        try countDeletions(page.deletions.count { $0.reason == nil }, eid: eid)
        if try isMassDelete(deleted.filter(\.row.isAtHub).map(\.item), eid: eid, endsRun: !page.hasMore) {
            summary.massDeletes.append(page.entity)
            try hold(deleted.filter(\.row.isAtHub).map(\.row.rid), of: eid)
            deleted.removeAll { $0.row.isAtHub }
        }
        for (row, item) in deleted {
            try touch(row.rid, &records)
            try applyRemote(RemoteSide(item, version: max(item.version, row.baseVersion)), of: row.rid, &records)
            summary.deletions += 1
        }
        try finish(records)
        try keepCursor(of: page, eid: eid)
        if let listing, !page.hasMore { try endListing(of: page.entity, eid, listing, &summary) }
    }

    /// Counts the deletions of a page. Deletions of records that this device never had count too, because the hub counts all.
    private func countDeletions(_ count: Int, eid: Int64) throws(StoreError) {
        guard count > 0 else { return }
        try database.run("UPDATE stream SET deleted = deleted + ? WHERE eid = ?", .int(Int64(count)), .int(eid))
    }

    /// Returns whether the feed deletes suspiciously much: more on one day than the guard allows, counted since the feed was last read to
    /// its end. In the weeks that a device was away, everything may have been replaced legitimately.
    private func isMassDelete(_ deletions: [StreamPage.Deletion], eid: Int64, endsRun: Bool) throws(StoreError) -> Bool {
        guard !deletions.isEmpty || endsRun else { return false }
        let known = try database.first("SELECT run_deleted, coalesce(run_day, 0) FROM stream WHERE eid = ?", .int(eid)) {
            row throws(StoreError) in (count: row.int(0), day: row.int(1))
        }
        let before = known ?? (count: 0, day: 0)
        var run = before
        var most = before.count
        for deletion in deletions {
            // A deletion without a time counts for the day of those before it.
            let day = deletion.hlc.flatMap { HybridTime($0) }.map { Int64($0.milliseconds / 86_400_000) } ?? run.day
            if day > run.day { run = (0, day) }
            run.count += 1
            most = max(most, run.count)
        }
        if endsRun ? before.count > 0 : run != before {
            try database.run(
                "UPDATE stream SET run_deleted = ?, run_day = ? WHERE eid = ?", .int(endsRun ? 0 : run.count), .int(endsRun ? 0 : run.day),
                .int(eid))
        }
        guard !deletions.isEmpty, most > options.massDelete.free else { return false }
        let live = try countAtHub(eid)
        return options.massDelete.isReached(by: most, of: live + before.count)
    }

    func apply(
        _ items: [StreamPage.Record], eid: Int64, listing: Listing?, _ summary: inout PullSummary
    ) throws(StoreError) {
        var records = TouchedRecords()
        var fresh: [RecordID: MirrorRow] = [:]
        // If a record comes several times, the newest version counts: waiting mutations are rebased once.
        var newest: [RecordID: Int64] = [:]
        for item in items { newest[item.id] = max(newest[item.id] ?? item.record.version, item.record.version) }
        for item in items {
            guard item.record.version == newest[item.id] else {
                summary.unchanged += 1
                continue
            }
            var found = fresh[item.id]
            if found == nil { found = try MirrorRow.find(database, eid: eid, id: item.id.text) }
            let row = found ?? MirrorRow(rid: ledger.next(.nextRecord), eid: eid, id: item.id.text, at: now.wall)
            if found == nil { fresh[item.id] = row }
            try apply(item, to: row, listing: listing, &records, &summary)
        }
        try finish(records)
    }

    private func apply(
        _ item: StreamPage.Record, to row: MirrorRow, listing: Listing?, _ records: inout TouchedRecords,
        _ summary: inout PullSummary
    ) throws(StoreError) {
        var touched = records[row.rid] ?? TouchedRecords.Touched(row: row)
        if row.isDamaged { touched.row.dropBase() }
        guard touched.row.isOlder(than: item.record), !(options.ablations.contains(.droppedForGood) && row.isNotKept) else {
            summary.unchanged += 1
            if let listing, touched.row.gen != listing.gen {
                try database.run("UPDATE record SET gen = ? WHERE rid = ?", .int(listing.gen), .int(row.rid))
            }
            return
        }
        if let listing { touched.row.gen = listing.gen }
        records[row.rid] = touched
        let remote = RemoteSide(item.record, device: item.originDevice, author: item.originAuthor)
        try applyRemote(remote, of: row.rid, &records)
        // The text of the document was made to be stored.
        if records[row.rid]?.row.base.map({ Placeholder.mayBe(in: $0) }) ?? true {
            summary.wantedFiles += try wantFiles(of: item.record, RecordName(names.entity(row.eid), item.id))
        }
        summary.upserts += 1
    }

    private func keepCursor(of page: StreamPage, eid: Int64) throws(StoreError) {
        try database.run(
            """
            INSERT INTO stream (eid, gen, listing, cursor, last_pull_ms) VALUES (?, 1, 1, ?, ?)
            ON CONFLICT DO UPDATE SET cursor = excluded.cursor, last_pull_ms = excluded.last_pull_ms
            """, .int(eid), .text(page.cursor), .int(now.wall.milliseconds))
    }

    // MARK: - Listings

    /// A complete listing, or the first pull of an entity. At its end, records whose `gen` is lower are treated as deleted.
    struct Listing {
        var gen: Int64
    }

    private func beginListing(_ eid: Int64) throws(StoreError) -> Listing? {
        let listing = try database.first("SELECT gen FROM stream WHERE eid = ? AND listing = 1", .int(eid)) { row throws(StoreError) in
            Listing(gen: row.int(0))
        }
        if listing != nil { try markBegun(eid) }
        return listing
    }

    /// Marks that the first page of a listing is here. From now on a record of which the hub tells otherwise is marked as seen
    /// (``listing(of:)``).
    func markBegun(_ eid: Int64) throws(StoreError) {
        try database.run("UPDATE stream SET listing_head = 0 WHERE eid = ? AND listing_head IS NULL", .int(eid))
    }

    /// The listing whose first page is here; `nil` if there is none.
    ///
    /// A verdict may bring a record that such a listing has passed already. Its version does not tell that: versions of one record are
    /// comparable with each other, and with nothing else.
    func listing(of eid: Int64) throws(StoreError) -> Listing? {
        try database.first(
            "SELECT gen FROM stream WHERE eid = ? AND listing = 1 AND listing_head IS NOT NULL", .int(eid)
        ) { row throws(StoreError) in Listing(gen: row.int(0)) }
    }

    /// Marks records that the hub has and cannot read, so that the end of the listing does not treat them as deleted.
    func spare(_ ids: [RecordID], eid: Int64, _ listing: Listing) throws(StoreError) {
        for id in ids {
            try database.run("UPDATE record SET gen = ? WHERE eid = ? AND id = ?", .int(listing.gen), .int(eid), .text(id.text))
        }
    }

    /// Records that a listing has not shown.
    private struct Missing {
        /// Their documents name no scope of this device, so the hub must not show them, whether it has them or not.
        var ofOthers: [Int64] = []
        var unexplained: [Int64] = []
    }

    private func missing(
        in listing: Listing, of eid: Int64, only: Set<UInt8>?, _ share: EntityShare?
    ) throws(StoreError) -> Missing {
        var missing = Missing()
        try database.each(
            """
            SELECT * FROM record WHERE eid = ? AND gen < ? AND base_version <> 0 AND (base IS NOT NULL OR stub IS NOT NULL)
            """, .int(eid), .int(listing.gen)
        ) { row throws(StoreError) in
            let record = MirrorRow(row)
            if let only, !only.contains(EntityDigest.bucket(of: RecordID(trusted: record.id))) { return }
            // A damaged document says nothing, and neither does one that is not kept.
            if let share, !record.isDamaged, let document = record.parsedBase.known, !share.includes(document) {
                missing.ofOthers.append(record.rid)
            } else {
                missing.unexplained.append(record.rid)
            }
        }
        return missing
    }

    /// - Parameters:
    ///   - only: Buckets that were listed; `nil` for all.
    ///   - share: The scopes of this device; `nil`: they were not told.
    func endListing(
        of entity: EntityName, _ eid: Int64, _ listing: Listing, only: Set<UInt8>? = nil, share: EntityShare? = nil,
        _ summary: inout PullSummary
    ) throws(StoreError) {
        let found = try missing(in: listing, of: eid, only: only, options.ablations.contains(.toldScopesIgnored) ? nil : share)
        var missing = found.unexplained
        if options.ablations.contains(.sweepSkipped) { missing = [] }
        if options.ablations.contains(.versionsAsPlaces), let head = try memory().standing?.head {
            for rid in missing where try MirrorRow.find(database, rid: rid)?.baseVersion ?? 0 > head { missing.removeAll { $0 == rid } }
        }
        // However many they are: keeping them would show this device what is of others.
        try sweep(found.ofOthers, leavesShare: true)
        summary.deletions += found.ofOthers.count
        let all = try countAtHub(eid)
        // Deletions that the hub reports are normal turnover. The hub may have lost the remaining records.
        let unexplained = Int64(missing.count) - (only == nil ? try deletedUnheard(eid) : 0)
        let isOfShare = only == nil ? try listsShare(eid) : false
        // A scope may hold most records of an entity, and they must go at once.
        if !isOfShare, options.massDelete.isReached(by: unexplained, of: all) {
            summary.massDeletes.append(entity)
            try hold(missing, of: eid)
        } else {
            if only == nil {
                try database.run("UPDATE stream SET deleted = coalesce(listing_deleted, deleted) WHERE eid = ?", .int(eid))
            }
            try sweep(missing, leavesShare: isOfShare || rest != nil)
            summary.deletions += missing.count
            try hold([], of: eid)
        }
        try database.run(
            """
            UPDATE stream SET listing = 0, listing_head = NULL, snapshot = 0, snap_after = NULL, snap_cursor = NULL, snap_share = NULL,
                listing_deleted = NULL, buckets = NULL, seeding = 0, last_full_ms = ?, full_age = ?,
                of_share = CASE WHEN ? THEN 0 ELSE of_share END WHERE eid = ?
            """, .int(now.wall.milliseconds), .int(age), .bool(only == nil), .int(eid))
        try markSeeded()
    }

    /// Number of records that the hub has, as far as it is known here.
    private func countAtHub(_ eid: Int64) throws(StoreError) -> Int64 {
        try database.number("SELECT count(*) FROM record WHERE eid = ? AND (base IS NOT NULL OR stub IS NOT NULL)", .int(eid)) ?? 0
    }

    /// Returns whether the entity is listed because the scopes of this device have changed.
    private func listsShare(_ eid: Int64) throws(StoreError) -> Bool {
        try database.number("SELECT of_share FROM stream WHERE eid = ?", .int(eid)) == 1
    }

    /// Deletions that the hub has counted and this device has not heard of; 0 where either side has no count.
    private func deletedUnheard(_ eid: Int64) throws(StoreError) -> Int64 {
        max(0, try database.number("SELECT listing_deleted - deleted FROM stream WHERE eid = ?", .int(eid)) ?? 0)
    }

    /// Marks the device as seeded once every entity was read to its end, whatever is configured later.
    private func markSeeded() throws(StoreError) {
        let meta = MetaTable(database)
        guard try meta.text("seeded") == nil else { return }
        for stream in rules.entities where stream.value.kind != .event && isListed(stream.key) {
            guard let eid = names.entities[stream.key],
                try database.number("SELECT last_full_ms FROM stream WHERE eid = ?", .int(eid)) != nil
            else { return }
        }
        try meta.set("seeded", "1")
    }

    // MARK: - Damage

    /// Repairs records whose damage was found where nothing may be written.
    private func repair(at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            var records = TouchedRecords()
            for rid in damagedRecords.sorted() { try touch(rid, &records) }
            try finish(records)
        }
        damagedRecords.removeAll()
    }
}

extension MirrorRow {
    /// A real deletion has a version that no document has. If a listing or a verdict left the record out, only the version of the last
    /// document is known here. The record was out of the share then, and is back in that very version.
    fileprivate func isOlder(than record: HubRecord) -> Bool {
        record.version > baseVersion || (!isAtHub || isLowered) && baseVersion > 0 && record.version == baseVersion
    }

    fileprivate func isNewer(thanDeletion deletion: StreamPage.Deletion) -> Bool {
        if isAtHub, deletion.version == baseVersion { return false }
        return deletion.version <= baseVersion
    }
}
