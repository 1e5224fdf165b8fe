import SyncCore

extension Store {
    /// Takes a record into the set of those that are written at the end.
    func touch(_ rid: Int64, _ records: inout TouchedRecords) throws(StoreError) {
        guard records[rid] == nil, let row = try MirrorRow.find(database, rid: rid) else { return }
        var touched = TouchedRecords.Touched(row: row)
        if row.isDamaged { try refetch(&touched) }
        records[rid] = touched
    }

    /// Its base cannot be trusted or computed: forget it, and list the entity again to get it back.
    func refetch(_ touched: inout TouchedRecords.Touched) throws(StoreError) {
        touched.row.dropBase()
        touched.needsFold = true
        damagedRecords.remove(touched.row.rid)
        try restartStream(touched.row.eid)
    }

    /// The hub's present state of a record, unless ours is newer.
    ///
    /// Of the same version, its word counts as well: as long as the verdict about one mutation is missing, what we made of
    /// the verdicts about others, in the same atomic list or after it on the same record, is not what that version was.
    ///
    /// - Parameter absentIsGone: `absent` says that the hub has no such record; otherwise it says nothing.
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
            if record.version == known, let base = touched.row.base, base.utf8.elementsEqual(document.utf8) { return }
            try takeRemote(RemoteSide(record), of: rid, &records, asked: asked)
        case .deleted(let version):
            guard version > known || (version == known && touched.row.base != nil) else { return }
            try takeRemote(RemoteSide(deletedIn: version), of: rid, &records, asked: asked)
        case .absent:
            guard absentIsGone, touched.row.base != nil else { return }
            try takeRemote(RemoteSide(deletedIn: known), of: rid, &records)
        }
    }

    /// Folds, writes and tells of every touched record, and lets its next mutation go. Invariant: view, status and
    /// readiness follow from base and open mutations.
    func finish(_ records: TouchedRecords) throws(StoreError) {
        for var touched in records.inOrder {
            // A record that was synced has no open mutations: base is all there is.
            if touched.row.status != .synced {
                if touched.needsFold {
                    // What no checksum shows: without it, the mutations would be folded onto nothing.
                    if !touched.row.parsedBase.isReadable { try refetch(&touched) }
                    touched.row.setView(try fold(touched.row))
                }
                touched.row.status = try status(of: touched.row.rid)
            }
            if touched.row.status == .synced { touched.row.setView(touched.row.base) }
            let isGone = touched.row.status == .synced && touched.row.isDeleted
            touched.row.goneAge = isGone ? touched.row.goneAge ?? age : nil
            touched.row.updatedMS = now.wall.milliseconds
            try save(&touched.row)
            journal.add(.record(touched.row.isDeleted ? .delete : .upsert, touched.source), touched.row.rid)
            if touched.row.status != .synced { try refreshReadiness(ofRecord: touched.row.rid) }
            if touched.row.status == .conflict { try refreshLocalSides(of: touched.row.rid, touched.row.document) }
        }
        for moot in records.moot { try close(moot) }
    }

    /// Computes status and readiness again where base and view stay.
    func restatus(_ rid: Int64, foldAgain: Bool = false) throws(StoreError) {
        var records = TouchedRecords()
        try touch(rid, &records)
        if foldAgain { records[rid]?.needsFold = true }
        try finish(records)
    }

    /// The document that apps see: the base with all open mutations on top, oldest first.
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
        // A view that nothing can be told of stays as it is (``finish(_:)`` has the base fetched again).
        return base.isReadable ? document?.json : row.document
    }

    /// A conflict asks for a decision first, then what was refused or parked; then something may be waiting.
    ///
    /// What asks for somebody is rare, and what waits may be much: the record's own rows are passed only when there is more
    /// of the former than a slice.
    func status(of rid: Int64) throws(StoreError) -> RecordSnapshot.SyncStatus {
        let troubled = Self.troubled.reduce(0) { $0 + ledger.count($1) }
        if troubled > 0 {
            let own = try database.all(
                "SELECT state FROM mutation WHERE rid = ? AND state < 6 ORDER BY seq LIMIT ?", .int(rid), .int(Self.ownRows)
            ) { row throws(StoreError) in row.int(0) }
            let seen = own.filter { (2...5).contains($0) }.min()
            // These are all of them, or enough to know.
            if seen == 2 { return .conflict }
            if seen != nil, own.count < Self.ownRows || ledger.count(.conflicted) == 0 { return .error }
            if own.count < Self.ownRows { return own.isEmpty ? .synced : .pending }
            let first =
                troubled <= Int64(Self.sliceRows)
                ? try database.number("SELECT min(state) FROM mutation WHERE state BETWEEN 2 AND 5 AND +rid = ?", .int(rid))
                : try firstTrouble(of: rid)
            if let first { return first == 2 ? .conflict : .error }
        }
        let open = try database.number("SELECT 1 FROM mutation WHERE rid = ? AND state < 6 LIMIT 1", .int(rid))
        return open == nil ? .synced : .pending
    }

    /// The same by the record's own rows, as few of them as tell it.
    private func firstTrouble(of rid: Int64) throws(StoreError) -> Int64? {
        if ledger.count(.conflicted) > 0 {
            let conflicted = try database.number(
                "SELECT 2 FROM mutation WHERE rid = ? AND state < 6 AND +state = 2 ORDER BY seq LIMIT 1", .int(rid))
            if let conflicted { return conflicted }
        }
        return try database.number(
            "SELECT state FROM mutation WHERE rid = ? AND state < 6 AND +state BETWEEN 3 AND 5 ORDER BY seq LIMIT 1", .int(rid))
    }

    /// Rows of a record that are looked at before anything else. Most records have fewer.
    private static let ownRows = 16

    private static let troubled: [MutationState] = [.conflicted, .rejected, .failed, .held]
}
