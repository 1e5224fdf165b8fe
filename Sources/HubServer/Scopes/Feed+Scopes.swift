import SyncCore

// The feed of an entity whose records are shared out (PROTOCOL A16): what the device's scopes have, and what they had.
extension Feed {
    /// The scopes of the device in an entity.
    struct Scopes {
        var codes: [Int64]
        var index: Int64
    }

    /// - Returns: `nil` when every device receives all records of the entity.
    func scopes(of entity: EntityName) -> Scopes? {
        guard let share, let index = indexes[entity] else { return nil }
        let rules = rules[entity] ?? EntityRules()
        return Scopes(codes: share.scopes(under: rules).map { store.scopeCodes.code($0) }, index: index.generation)
    }

    /// The position of a device that has everything up to the newest commit.
    func beginning(_ entity: EntityName) -> Cursor {
        let share = scopes(of: entity).map { CursorShare(index: $0.index, holding: $0.codes) }
        return Cursor(epoch: epoch, entity: entity, seq: head, opening: opening, share: share)
    }

    /// A cursor as text. Where a share has more scopes than a cursor holds, the text has their digest.
    func text(_ cursor: Cursor) -> String { cursor.carried(secret: secret, for: device) ?? cursor.text(secret: secret, for: device) }

    /// The cursor under the scopes that the device has now, or the order to list everything anew.
    func placed(_ cursor: Cursor) -> Result<Cursor, Problem> {
        guard let scopes = scopes(of: cursor.entity) else {
            return cursor.share == nil ? .success(cursor) : .failure(Feed.scopeChanged)
        }
        if ablations.contains(.scopeChangesIgnored) { return .success(cursor) }
        if ablations.contains(.cursorsBelieved), cursor.share != nil { return .success(cursor) }
        guard var share = cursor.share?.continued(under: scopes.codes, index: scopes.index) else {
            return .failure(letsGo ? Feed.scopeChanged : Feed.agentTooOld)
        }
        if ablations.contains(.gainedPastSkipped) { (share.held, share.gained) = ((share.held + share.gained).sorted(), []) }
        if ablations.contains(.lostScopesKept) { share.lost = [] }
        var placed = cursor
        placed.share = share
        // With this many changes a cursor in the middle of them could not be carried.
        guard !share.isChanging || placed.carried(secret: secret, for: device) != nil else {
            return .failure(letsGo || share.lost.isEmpty ? Feed.scopeChanged : Feed.agentTooOld)
        }
        return .success(placed)
    }

    /// The refusal of a cursor that has not seen deletions which are forgotten.
    ///
    /// The device lists the entity anew. Where it has lost a scope meanwhile, or may have, it must know that: otherwise it would take the
    /// missing records for an accident of the hub when they are many, and keep them. An agent that keeps them anyway is refused.
    func expiry(of cursor: Cursor) throws(DatabaseError) -> Problem {
        let expired = Feed.resync("cursor-expired", "deletions that this cursor has not seen are forgotten")
        guard scopes(of: cursor.entity) != nil else { return expired }
        switch placed(cursor) {
        case .failure(let problem): return letsGo || problem.code == Problem.agentTooOld ? problem : expired
        case .success(let placed):
            guard let share = placed.share, !share.lost.isEmpty else { return expired }
            if letsGo { return Feed.scopeChanged }
            return try isKept(share, upTo: placed.seq, of: placed.entity) ? Feed.agentTooOld : expired
        }
    }

    static let scopeChanged = Feed.resync("scope-changed", "the records that this device receives have changed")

    /// Rows of the device's share after a commit. A record that has left the share is told as revoked.
    func sharedRows(
        _ entity: EntityName, _ codes: [Int64], after: (version: Int64, id: String), deletionsAfter: Int64, limit: Int
    ) throws(DatabaseError) -> [HubStore.RecordRow] {
        var place = CursorShare.Place(version: after.version, id: after.id)
        var rows: [HubStore.RecordRow] = []
        // Rows that say nothing to this device are skipped, so more may have to be read.
        while rows.count < limit {
            let found = try store.scopeFeed(entity, codes, after: place, deletionsAfter: deletionsAfter, limit: limit)
            let records = try store.records(entity, found.map(\.id))
            rows += found.compactMap { row in
                guard let record = records[row.id], isShown(record) else {
                    // A row of a scope whose code is equal by accident was never shown.
                    return row.state == .left || records[row.id] == nil ? revoked(row) : nil
                }
                // It left one of the device's scopes and is in another: its row there comes in its turn.
                return row.state == .left ? nil : record
            }
            guard found.count == limit, let last = found.last else { break }
            place = CursorShare.Place(version: last.version, id: last.id.text)
        }
        return rows
    }

    /// A page of records that the device gained or lost by a change of its scopes, not by a change of the records.
    ///
    /// Records that change meanwhile come with the feed: this sends what was there at the cursor's commit, and takes back what the device
    /// may have received up to it.
    mutating func changedShare(_ cursor: Cursor, naming: Bool, _ room: inout Room) throws(DatabaseError) -> Result<StreamPage?, Problem> {
        guard let share = cursor.share else { return .success(nil) }
        if try isKept(share, upTo: cursor.seq, of: cursor.entity) { return .failure(Feed.agentTooOld) }
        let (entity, limit) = (cursor.entity, max(1, 2 * room.records) + 1)
        let gained = try store.scopeFeed(
            entity, share.gained, after: share.after, upTo: cursor.seq, deletionsAfter: .max, limit: limit)
        let lost = try store.lostScopes(entity, share.lost, of: device, upTo: cursor.seq, after: share.after, limit: limit)
        let found = HubStore.merged(gained + lost, limit)
        let records = try store.records(entity, found.map(\.id))
        let (isGained, isLost) = (Set(gained.map(\.id)), Set(lost.map(\.id)))
        let held = Set(share.held)
        let rows = found.map { row -> (row: ScopeRow, shown: HubStore.RecordRow?) in
            // A record that the device never received is not named to it.
            guard let record = records[row.id], isShown(record) else { return (row, isLost.contains(row.id) ? revoked(row) : nil) }
            // The device has it already by a scope that it kept.
            let isHeld = record.scopes.contains { held.contains(store.scopeCodes.code($0)) }
            return (row, isHeld || !isGained.contains(row.id) || record.whole?.isDeleted == true ? nil : record)
        }
        let places = rows.indices.filter { rows[$0].shown != nil }
        let shown = places.compactMap { rows[$0].shown }
        let isWhole = naming ? shown[...] : shown.prefix { $0.isWhole }
        if isWhole.isEmpty, let first = shown.first { return .failure(Feed.damaged(RecordName(entity, first.id))) }
        let count = reserve(isWhole, in: &room)
        var end = cursor
        end.opening = opening
        if count == shown.count, found.count < limit {
            end.share = share.settled
        } else {
            // Rows that say nothing to this device are passed over with the page.
            let passed = count < shown.count ? places[count] : rows.count
            if passed > 0 { end.share?.after = CursorShare.Place(version: found[passed - 1].version, id: found[passed - 1].id.text) }
        }
        // The feed goes on behind it.
        return .success(page(shown.prefix(count), end, hasMore: true))
    }

    /// Returns whether a record is in the device's share: one of its scopes is one of the device's.
    func isShown(_ row: HubStore.RecordRow) -> Bool {
        ablations.contains(.cursorsBelieved) || share?.includesAny(of: row.scopes) ?? true
    }

    /// The scopes of the device that the end of a listing tells.
    ///
    /// The device forgets a record that the listing does not show and whose document names none of them. So they are not told where they
    /// may be too few: if records grant scopes and none of these is left, the hub has probably lost all of its records.
    ///
    /// - Returns: `nil` also where every device receives all records, and where the device knows the scope fields by other names or values.
    mutating func toldShare(of entity: EntityName) throws(DatabaseError) -> EntityShare? {
        guard let share, indexes[entity] != nil, case .success(let view) = views[entity] else { return nil }
        let rules = rules[entity] ?? EntityRules()
        guard view.keeps(rules.scope) else { return nil }
        if hasGrantSources, try !store.hasRecordGrants() { return nil }
        return EntityShare(of: share, under: rules)
    }

    private func revoked(_ row: ScopeRow) -> HubStore.RecordRow {
        let stamp = VersionedRecord.Stamp(
            version: row.version, hlc: HybridTime(milliseconds: 0, counter: 0, node: "0"), writer: DeviceID.hub)
        var revoked = HubStore.RecordRow(
            id: row.id, version: row.version, content: .success(VersionedRecord(deleted: stamp, keeping: nil)), originKey: "", size: 0)
        revoked.isRevoked = true
        return revoked
    }
}
