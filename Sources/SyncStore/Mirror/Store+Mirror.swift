import SyncCore
import SyncSQLite

extension Store {
    /// Adds a record to the set of those that are written at the end.
    func touch(_ rid: Int64, _ records: inout TouchedRecords) throws(StoreError) {
        guard records[rid] == nil, let row = try MirrorRow.find(database, rid: rid) else { return }
        var touched = TouchedRecords.Touched(row: row)
        if row.isDamaged { try refetch(&touched) }
        records[rid] = touched
    }

    /// Forgets a base that cannot be trusted or computed, and lists the entity again to get it back.
    func refetch(_ touched: inout TouchedRecords.Touched) throws(StoreError) {
        touched.row.dropBase()
        touched.needsFold = true
        damagedRecords.remove(touched.row.rid)
        try restartStream(touched.row.eid)
    }

    /// Installs the hub's present state of a record, unless ours is newer.
    ///
    /// The hub's state also counts for the same version. As long as the verdict about one mutation is missing, what was computed from the
    /// verdicts about others, in the same atomic list or later on the same record, is not the true content of that version.
    ///
    /// - Parameter absentIsGone: `absent` means that the hub has no such record; otherwise it has no meaning.
    func install(
        _ current: HubState, on rid: Int64, _ records: inout TouchedRecords, absentIsGone: Bool = false,
        asked: [String] = []
    ) throws(StoreError) {
        guard let touched = records[rid] else { return }
        let known = touched.row.baseVersion
        switch current {
        case .record(let record):
            guard record.version >= known else { return }
            let document = record.data.json
            if record.version == known, let base = touched.row.base, sameBytes(base, document) { return }
            try applyRemote(RemoteSide(record), of: rid, &records, asked: asked)
        case .deleted(let version):
            guard version > known || (version == known && touched.row.isAtHub) else { return }
            try applyRemote(RemoteSide(deletedIn: version), of: rid, &records, asked: asked)
        case .absent:
            guard absentIsGone, touched.row.isAtHub else { return }
            try applyRemote(RemoteSide(deletedIn: known), of: rid, &records)
        }
    }

    /// Folds, writes and reports every touched record, and makes its next mutation ready. Invariant: view, status and readiness follow from
    /// base and open mutations.
    func finish(_ records: TouchedRecords) throws(StoreError) {
        if records.revoked.isEmpty {
            try write(records)
        } else {
            try erasing { () throws(StoreError) in
                try write(records)
                try eraseTraces(of: records.revoked)
                try leaveFiles(of: records.revoked.compactMap { records[$0]?.row })
            }
        }
        for moot in records.moot { try close(moot) }
    }

    private func write(_ records: TouchedRecords) throws(StoreError) {
        var listings: [Int64: Listing?] = [:]
        for var touched in records.inOrder {
            // A synced record has no open mutations, so its base is the view.
            if touched.row.status != .synced {
                if touched.needsFold {
                    // Damage that no checksum shows: without this, the mutations would be folded onto nothing.
                    if !touched.row.parsedBase.isReadable { try refetch(&touched) }
                    touched.row.setView(try fold(touched.row))
                }
                touched.row.status = try status(of: touched.row.rid)
                if touched.row.stub != nil { touched.row.hideStub(try isDeleted(touched.row.rid, before: .max)) }
            }
            if touched.row.status == .synced {
                touched.row.setView(touched.row.base)
                touched.row.hideStub(false)
            }
            if let changed = touched.changedAge ?? (touched.row.hasOtherVersion ? age : nil) { touched.row.markChanged(at: changed) }
            let isGone = touched.row.status == .synced && touched.row.isDeleted && touched.row.stub == nil
            touched.row.goneAge = isGone ? touched.row.goneAge ?? age : nil
            touched.row.updatedMS = now.wall.milliseconds
            // A lowered record is listed yet, and must be known as such until then.
            if touched.row.hasOtherVersion, !touched.row.isLowered {
                let eid = touched.row.eid
                if listings[eid] == nil { listings[eid] = .some(try listing(of: eid)) }
                if let listing = listings[eid] ?? nil { touched.row.gen = listing.gen }
            }
            try save(&touched.row)
            let removal = touched.isRevoked ? RecordEvent.Change.revoke : .delete
            journal.add(.record(touched.row.isDeleted ? removal : .upsert, touched.source), touched.row.rid)
            if touched.row.status != .synced { try refreshReadiness(ofRecord: touched.row.rid) }
            if touched.row.status == .conflict { try refreshLocalSides(of: touched.row.rid, touched.row.document) }
        }
    }

    /// Computes status and readiness again where base and view are unchanged.
    func restatus(_ rid: Int64, foldAgain: Bool = false) throws(StoreError) {
        var records = TouchedRecords()
        try touch(rid, &records)
        if foldAgain { records[rid]?.needsFold = true }
        try finish(records)
    }

    /// The document that apps see: the base with all open mutations applied, oldest first.
    func fold(_ row: MirrorRow) throws(StoreError) -> String? {
        let rules = rules[names.entity(row.eid)]
        let base = row.parsedBase
        var document = base.known
        var hasContents = false
        var damaged: [Int64] = []
        try database.each(
            """
            SELECT p.* FROM mutation m JOIN payload p ON p.seq = m.seq
            WHERE m.rid = ? AND m.state < 6 AND m.state <> 3
                AND NOT (? < 0 AND EXISTS (SELECT 1 FROM requeued q WHERE q.seq = m.seq)) ORDER BY m.seq
            """, .int(row.rid), .int(row.base == nil ? 0 : row.baseVersion)
        ) { row throws(StoreError) in
            if Payload.isSound(row, at: 0), let content = Payload(row, at: 0).content(under: rules) {
                document = Fold.apply(content, to: document)
                hasContents = true
            } else {
                damaged.append(row.int(0))
            }
        }
        for seq in damaged { try hold(seq) }
        guard hasContents else { return row.base }
        // A view that cannot be computed stays as it is (``finish(_:)`` has the base fetched again).
        return base.isReadable ? document?.json : row.document
    }

    /// The status of a record. A conflict comes first, then refused or parked mutations, then waiting ones.
    ///
    /// Mutations that need a person are rare, and those that wait may be many. So the record's own rows are scanned only when there are
    /// more troubled ones than a slice.
    func status(of rid: Int64) throws(StoreError) -> RecordSnapshot.SyncStatus {
        let troubled = Self.troubled.reduce(0) { $0 + ledger.count($1) }
        if troubled > 0 {
            let own = try database.all(
                "SELECT state FROM mutation WHERE rid = ? AND state < 6 ORDER BY seq LIMIT ?", .int(rid), .int(Self.ownRows)
            ) { row throws(StoreError) in MutationState(rawValue: Int(clamping: row.int(0))) }
            // These are all of them, or enough to decide.
            if own.contains(.conflicted) { return .conflict }
            if own.contains(where: { $0?.isTroubled == true }), own.count < Self.ownRows || ledger.count(.conflicted) == 0 { return .error }
            if own.count < Self.ownRows { return own.isEmpty ? .synced : .pending }
            let first =
                troubled <= Int64(Self.sliceRows)
                ? try database.number("SELECT min(state) FROM mutation WHERE state BETWEEN 2 AND 5 AND +rid = ?", .int(rid))
                : try firstTrouble(of: rid)
            if let first { return first == MutationState.conflicted.rawValue ? .conflict : .error }
        }
        let open = try database.number("SELECT 1 FROM mutation WHERE rid = ? AND state < 6 LIMIT 1", .int(rid))
        return open == nil ? .synced : .pending
    }

    /// Finds the same result from as few of the record's own rows as possible.
    private func firstTrouble(of rid: Int64) throws(StoreError) -> Int64? {
        if ledger.count(.conflicted) > 0 {
            let conflicted = try database.number(
                "SELECT 2 FROM mutation WHERE rid = ? AND state < 6 AND +state = 2 ORDER BY seq LIMIT 1", .int(rid))
            if let conflicted { return conflicted }
        }
        return try database.number(
            "SELECT state FROM mutation WHERE rid = ? AND state < 6 AND +state BETWEEN 3 AND 5 ORDER BY seq LIMIT 1", .int(rid))
    }

    /// Number of rows of a record that are read first. Most records have fewer.
    private static let ownRows = 16

    private static let troubled = MutationState.allCases.filter(\.isTroubled)
}
