package import SyncCore

extension Store {
    /// Share and number of records of an entity that one sweep may remove. A hub that is empty, made anew or seen with the
    /// wrong rights must not wipe a fleet.
    static let sweepShare: Int64 = 5
    static let sweepFree: Int64 = 50

    /// Entities to pull, with their cursors: reference entities first.
    package func loadStreams(at now: Moment) throws(StoreError) -> [StreamPosition] {
        if !damagedRecords.isEmpty { try repair(at: now) }
        var cursors: [EntityName: String] = [:]
        try database.each("SELECT eid, cursor FROM stream WHERE cursor IS NOT NULL") { row throws(StoreError) in
            cursors[names.entity(row.int(0))] = row.text(1)
        }
        let known = Set(rules.entities.keys).union(names.entities.keys)
        func kind(_ name: EntityName) -> EntityRules.Kind { rules[name]?.kind ?? .event }
        return known.filter { kind($0) != .event }
            .sorted { left, right in
                let (first, second) = (kind(left) == .reference, kind(right) == .reference)
                return first != second ? first : left < right
            }
            .map { StreamPosition(entity: $0, cursor: cursors[$0]) }
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
            summary = PullSummary()
            try prepareForChange()
            for page in response.pages where isPulled(page.entity) {
                try apply(page, head: response.head, &summary)
            }
        }
        return summary
    }

    /// Starts the feed of these entities again. What is here stays until the new listing is complete; then what it did not
    /// contain is treated as deleted.
    package func restartStreams(_ entities: [EntityName], at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            for entity in entities where isPulled(entity) {
                try restartStream(try names.entity(entity, in: database))
            }
        }
    }

    func restartStream(_ eid: Int64) throws(StoreError) {
        try database.run(
            """
            INSERT INTO stream (eid, gen, listing) VALUES (?, 1, 1)
            ON CONFLICT DO UPDATE SET cursor = NULL, gen = gen + 1, listing = 1, listing_head = NULL
            """, .int(eid))
    }

    private func isPulled(_ entity: EntityName) -> Bool {
        guard let rules = rules[entity] else { return false }
        return rules.kind != .event && (names.entities[entity] != nil || names.hasRoomForEntity)
    }

    // MARK: - One page

    private func apply(_ page: StreamPage, head: Int64, _ summary: inout PullSummary) throws(StoreError) {
        let eid = try names.entity(page.entity, in: database)
        // The first pull of an entity is a listing like any other.
        try database.run("INSERT INTO stream (eid, gen, listing) VALUES (?, 1, 1) ON CONFLICT DO NOTHING", .int(eid))
        let listing = try beginListing(eid, head: head)
        var records = TouchedRecords()
        var fresh: [RecordID: MirrorRow] = [:]
        for item in page.records {
            var found = fresh[item.id]
            if found == nil { found = try MirrorRow.find(database, eid: eid, id: item.id.text) }
            let row = found ?? MirrorRow(rid: ledger.take(.nextRecord), eid: eid, id: item.id.text, at: now.wall)
            if found == nil { fresh[item.id] = row }
            try apply(item, to: row, listing: listing, &records, &summary)
        }
        try finish(records)
        records = TouchedRecords()
        for item in page.deletions {
            // Deletions of records that were never here say nothing.
            guard let row = try MirrorRow.find(database, eid: eid, id: item.id.text) else { continue }
            if row.isNewer(thanDeletion: item) {
                summary.unchanged += 1
            } else {
                try touch(row.rid, &records)
                try delete(
                    row.rid, version: max(item.version, row.baseVersion), isRevoked: item.reason == "revoked", &records)
                summary.deletions += 1
            }
        }
        try finish(records)
        try keepCursor(of: page, eid: eid)
        if let listing, !page.hasMore { try endListing(of: page.entity, eid, listing, &summary) }
    }

    private func apply(
        _ item: StreamPage.Record, to row: MirrorRow, listing: Listing?, _ records: inout TouchedRecords,
        _ summary: inout PullSummary
    ) throws(StoreError) {
        var touched = records[row.rid] ?? TouchedRecords.Touched(row: row)
        if row.isDamaged { touched.row.dropBase() }
        guard item.record.version > touched.row.baseVersion else {
            summary.unchanged += 1
            if let listing, touched.row.gen != listing.gen {
                try database.run("UPDATE record SET gen = ? WHERE rid = ?", .int(listing.gen), .int(row.rid))
            }
            return
        }
        if let listing { touched.row.gen = listing.gen }
        records[row.rid] = touched
        let remote = RemoteSide(item.record, device: item.originDevice, author: item.originAuthor)
        try takeRemote(remote, of: row.rid, &records)
        summary.upserts += 1
    }

    private func delete(
        _ rid: Int64, version: Int64, isRevoked: Bool = false, _ records: inout TouchedRecords
    ) throws(StoreError) {
        try takeRemote(RemoteSide(deletedIn: version, isRevoked: isRevoked), of: rid, &records)
    }

    private func keepCursor(of page: StreamPage, eid: Int64) throws(StoreError) {
        try database.run(
            """
            INSERT INTO stream (eid, gen, listing, cursor, last_pull_ms) VALUES (?, 1, 1, ?, ?)
            ON CONFLICT DO UPDATE SET cursor = excluded.cursor, last_pull_ms = excluded.last_pull_ms
            """, .int(eid), .text(page.cursor), .int(now.wall.milliseconds))
    }

    // MARK: - Listings

    struct Listing {
        var gen: Int64
        /// The hub's newest commit when the listing began. What is newer may be missing in it without being deleted.
        var head: Int64
    }

    private func beginListing(_ eid: Int64, head: Int64) throws(StoreError) -> Listing? {
        let found = try database.first(
            "SELECT gen, coalesce(listing_head, -1) FROM stream WHERE eid = ? AND listing = 1", .int(eid)
        ) { row throws(StoreError) in Listing(gen: row.int(0), head: row.int(1)) }
        guard var listing = found else { return nil }
        if listing.head < 0 {
            listing.head = head
            try database.run("UPDATE stream SET listing_head = ? WHERE eid = ?", .int(head), .int(eid))
        }
        return listing
    }

    private func endListing(
        of entity: EntityName, _ eid: Int64, _ listing: Listing, _ summary: inout PullSummary
    ) throws(StoreError) {
        var missing = try database.all(
            """
            SELECT rid FROM record WHERE eid = ? AND gen < ? AND base_version <> 0 AND base_version <= ? AND base IS NOT NULL
            """, .int(eid), .int(listing.gen), .int(listing.head)
        ) { row throws(StoreError) in row.int(0) }
        if options.ablations.contains(.sweepSkipped) { missing = [] }
        let all = try database.number("SELECT count(*) FROM record WHERE eid = ? AND base IS NOT NULL", .int(eid)) ?? 0
        let isMass = missing.count > Self.sweepFree && Int64(missing.count) * Self.sweepShare > all
        if isMass {
            summary.massDeletes.append(entity)
        } else {
            // Their documents are not all in memory at once.
            for start in stride(from: 0, to: missing.count, by: Self.sliceRows) {
                var records = TouchedRecords()
                for rid in missing[start..<min(start + Self.sliceRows, missing.count)] {
                    try touch(rid, &records)
                    try delete(rid, version: records[rid]?.row.baseVersion ?? 0, &records)
                }
                try finish(records)
            }
            summary.deletions += missing.count
        }
        try database.run(
            "UPDATE stream SET listing = 0, listing_head = NULL, sweep_held = ?, last_full_ms = ? WHERE eid = ?",
            .int(isMass ? missing.count : 0), .int(now.wall.milliseconds), .int(eid))
    }

    // MARK: - Damage

    /// Records whose damage was met where nothing may be written.
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
    fileprivate func isNewer(thanDeletion deletion: StreamPage.Deletion) -> Bool {
        if base != nil, deletion.version == baseVersion || deletion.reason == "revoked" { return false }
        return deletion.version <= baseVersion
    }
}
