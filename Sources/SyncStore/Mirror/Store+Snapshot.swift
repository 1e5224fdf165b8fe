package import SyncCore
import SyncSQLite

// Complete listings by id (PROTOCOL A8). Each page is applied in one transaction together with its position, so that a listing continues
// after any crash. Listed records get the listing's number, and so do those whose version the hub has changed since it began. All other
// records are removed: those of others at once (PROTOCOL A16), and the rest unless they are suspiciously many.

extension Store {
    /// Applies one page of a listing. Invariant: the position of the listing is committed only together with its page. At the end of a
    /// complete listing, the cursor is that of its *beginning*. After a listing of some buckets the cursor is unchanged, because the
    /// listing says nothing about changes in the others.
    ///
    /// A page under other scopes than the listing's beginning begins a listing anew. The cursor of the beginning says which scopes are
    /// there, and records of a scope that was lost and granted again meanwhile would lack and never come.
    ///
    /// - Returns: The summary, and the position of the stream afterwards.
    package func applySnapshot(
        _ page: SnapshotPage, at now: Moment
    ) throws(StoreError) -> (summary: PullSummary, position: StreamPosition) {
        var summary = PullSummary()
        try transact(at: now) { () throws(StoreError) in
            (summary, leaving) = (PullSummary(), LeavingFiles())
            try prepareForChange()
            if let standing = page.standing { try keep(standing) }
            if let leftOut = page.leftOut { try keep(leftOut) }
            if !page.records.isEmpty { try markLowered(page.entity, by: page.newerSchemas) }
            if page.isSeed { return try applySeed(page, &summary) }
            let eid = try names.entity(page.entity, in: database)
            // A late page of a listing that has ended.
            guard var snapshot = try snapshot(eid) else { return }
            let listing = Listing(gen: snapshot.gen)
            if let head = snapshot.head {
                // It was begun by an older program, which did not mark what the hub changed meanwhile, or its beginning is lost.
                guard head == 0, snapshot.cursor != nil else { return try restartStream(eid) }
            } else {
                if snapshot.buckets == nil { snapshot.shareMark = page.shareMark }
                snapshot.cursor = page.startCursor
                try markBegun(eid)
                try database.run(
                    """
                    UPDATE stream SET snap_cursor = ?, snap_share = ?, seed_total = coalesce(?, seed_total), listing_deleted = ?
                    WHERE eid = ?
                    """, .text(page.startCursor), .optional(snapshot.shareMark), .optional(page.total), .optional(page.deletedTotal),
                    .int(eid))
            }
            guard snapshot.shareMark == page.shareMark else {
                return try restartStream(eid, ofShare: snapshot.shareMark != nil && page.shareMark != nil)
            }
            try apply(page.records, eid: eid, listing: listing, &summary)
            try spare(page.unreadable, eid: eid, listing)
            if page.hasMore {
                try database.run(
                    "UPDATE stream SET snap_after = ?, last_pull_ms = ? WHERE eid = ?", .optional(page.after?.text),
                    .int(now.wall.milliseconds), .int(eid))
                return
            }
            let cursor = options.ablations.contains(.cursorAtEnd) ? page.startCursor : snapshot.cursor
            let only = snapshot.buckets.map { Set($0) }
            try endListing(of: page.entity, eid, listing, only: only, share: page.share, &summary)
            try dropLeavingFiles(&summary)
            // Unlisted buckets are known only by the feed, which continues where it was.
            guard snapshot.buckets == nil else { return }
            try database.run(
                "UPDATE stream SET cursor = ?, last_pull_ms = ? WHERE eid = ?", .optional(cursor), .int(now.wall.milliseconds), .int(eid))
        }
        return (summary, try position(of: page.entity))
    }

    private struct Snapshot {
        var gen: Int64
        /// `nil` before the first page, then 0. Older programs stored the hub's head.
        var head: Int64?
        /// The cursor of the listing's beginning; `nil` before the first page.
        var cursor: String?
        var buckets: [UInt8]?
        /// The mark of the scopes at the listing's beginning; for buckets, at the comparison.
        var shareMark: String?
    }

    private func snapshot(_ eid: Int64) throws(StoreError) -> Snapshot? {
        try database.first(
            """
            SELECT gen, listing_head, snap_cursor, buckets, snap_share FROM stream WHERE eid = ? AND listing = 1 AND snapshot = 1
            """, .int(eid)
        ) { row throws(StoreError) in
            Snapshot(
                gen: row.int(0), head: row.optionalInt(1), cursor: row.optionalText(2),
                buckets: row.optionalText(3).map { Self.buckets($0) }, shareMark: row.optionalText(4))
        }
    }

    static func buckets(_ text: String) -> [UInt8] { text.split(separator: ",").compactMap { UInt8($0) } }

    private func position(of entity: EntityName) throws(StoreError) -> StreamPosition {
        guard let eid = names.entities[entity] else { return StreamPosition(entity: entity, cursor: nil) }
        let found = try database.first(
            "SELECT cursor, listing = 1 AND snapshot = 1, snap_after, buckets FROM stream WHERE eid = ?", .int(eid)
        ) { row throws(StoreError) in Self.position(entity, row) }
        guard let found else { return StreamPosition(entity: entity, cursor: nil) }
        return found
    }

    /// - Parameter row: cursor, whether it is listed by id, snap_after, buckets, from column `first` on.
    static func position(_ entity: EntityName, _ row: SQLiteStatement, at first: Int32 = 0) -> StreamPosition {
        var position = StreamPosition(entity: entity, cursor: row.optionalText(first))
        if row.bool(first + 1) {
            position.listing = StreamPosition.Listing(
                after: row.optionalText(first + 2).map { RecordID(trusted: $0) },
                buckets: row.optionalText(first + 3).map { Self.buckets($0) })
        }
        return position
    }

    // MARK: - Removals that were held back

    /// Removes the records that sweeps held back because there were suspiciously many, after an operator has checked them. Invariant: the
    /// removal is in the audit trail with the operator's user id, one entry for each entity.
    ///
    /// - Returns: Number of removed records.
    @discardableResult
    package func acceptDeletions(uid: UInt32, at now: Moment) throws(StoreError) -> Int {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let held = try database.all(
                "SELECT rid, eid FROM record WHERE gen = ? AND (base IS NOT NULL OR stub IS NOT NULL)", .int(MirrorRow.heldGen)
            ) { row throws(StoreError) in (rid: row.int(0), eid: row.int(1)) }
            try sweep(held.map(\.rid), leavesShare: rest != nil)
            // The next listing makes the count valid again.
            try database.run("UPDATE stream SET deleted = CASE WHEN sweep_held = 0 THEN deleted END, sweep_held = 0")
            let counts = Dictionary(held.map { (names.entity($0.eid).text, 1) }, uniquingKeysWith: +)
            for (entity, count) in counts.sorted(by: { $0.key < $1.key }) {
                try audit("accept_deletions", entity, uid: uid, ["records": .int(Int64(count))])
            }
            return held.count
        }
    }

    /// Marks records instead of removing them. A record that the hub shows or changes again loses the mark.
    func hold(_ missing: [Int64], of eid: Int64) throws(StoreError) {
        for rid in missing { try database.run("UPDATE record SET gen = ? WHERE rid = ?", .int(MirrorRow.heldGen), .int(rid)) }
        try database.run(
            "UPDATE stream SET sweep_held = (SELECT count(*) FROM record WHERE eid = ?1 AND gen = ?2) WHERE eid = ?1",
            .int(eid), .int(MirrorRow.heldGen))
    }

    /// Treats records as deleted by the hub, or as no longer in the share of this device. Only some of their documents are in memory at
    /// once.
    ///
    /// A list of an existing backend does not tell one from the other, and a change of a hidden record must not make it anew.
    func sweep(_ missing: [Int64], leavesShare: Bool) throws(StoreError) {
        for start in stride(from: 0, to: missing.count, by: Self.sliceRows) {
            var records = TouchedRecords()
            for rid in missing[start..<min(start + Self.sliceRows, missing.count)] {
                if leavesShare {
                    if let row = try MirrorRow.find(database, rid: rid) { try revoke(row, &records) }
                    continue
                }
                try touch(rid, &records)
                records[rid]?.row.gen = 0
                try applyRemote(RemoteSide(deletedIn: records[rid]?.row.baseVersion ?? 0), of: rid, &records)
            }
            try finish(records)
        }
    }

    // MARK: - Comparing by digest

    /// The digest that the hub compares with its own (``EntityDigest``). A damaged row is left out, so its bucket differs and is fetched
    /// again. A record whose document is not kept counts with its version, like any other.
    package func digest(of entity: EntityName) throws(StoreError) -> EntityDigest {
        var digest = EntityDigest()
        guard let eid = names.entities[entity] else { return digest }
        try database.each(
            "SELECT * FROM record WHERE eid = ? AND (base IS NOT NULL OR stub IS NOT NULL) AND base_version > 0", .int(eid)
        ) { row throws(StoreError) in
            let mirrored = MirrorRow(row)
            if options.ablations.contains(.stubsUncounted), mirrored.isNotKept { return }
            if !mirrored.isDamaged { digest.add(RecordID(trusted: mirrored.id), version: mirrored.baseVersion) }
        }
        return digest
    }

    /// Records the hub's comparison: either nothing differs, or these buckets are listed again.
    ///
    /// - Parameter shareMark: The mark of the scopes under which the hub has compared.
    package func recordComparison(
        _ entity: EntityName, differs: [UInt8], shareMark: String? = nil, at now: Moment
    ) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let eid = try names.entity(entity, in: database)
            guard !differs.isEmpty else {
                try database.run(
                    "UPDATE stream SET full_age = ?, last_full_ms = ? WHERE eid = ?", .int(age), .int(now.wall.milliseconds),
                    .int(eid))
                return
            }
            try database.run(
                """
                UPDATE stream SET gen = gen + 1, listing = 1, listing_head = NULL, snapshot = 1, snap_after = NULL,
                    snap_cursor = NULL, buckets = ?, snap_share = ? WHERE eid = ?
                """, .text(differs.map { String($0) }.joined(separator: ",")), .optional(shareMark), .int(eid))
        }
    }

    // MARK: - Schedule

    /// The schedule of full comparisons with the hub, which run even if nothing seems wrong.
    package struct FullSyncTerms: Hashable, Sendable {
        package var interval: Duration = .seconds(7 * 86_400)
        /// Age beyond which the comparison also runs over a metered link.
        package var hardLimit: Duration = .seconds(30 * 86_400)
    }

    /// The state of the next full comparison. It is due once in each interval, at a time that depends on the device, so that a fleet that
    /// was set up on one day does not come back in the same hour of a later week.
    ///
    /// - Parameters:
    ///   - last: Time of the last one, on the age clock, milliseconds; `nil` counts as now.
    ///   - turn: See ``turn(of:)``.
    static func fullSync(_ terms: FullSyncTerms, last: Int64?, turn: Int64, age: Int64) -> StreamPosition.FullSync {
        guard let last else { return .notDue }
        let interval = max(1, terms.interval.milliseconds)
        if age - last >= max(terms.hardLimit, terms.interval).milliseconds { return .overdue }
        let phase = turn % interval
        return (age + phase) / interval > (last + phase) / interval ? .due : .notDue
    }

    /// A number that tells devices apart: their turns within an interval.
    static func turn(of device: DeviceID) -> Int64 {
        Int64(SHA256.hash(Array(device.text.utf8))[0..<4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) })
    }
}
