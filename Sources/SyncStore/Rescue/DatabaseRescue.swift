import Glibc
package import SyncCore
import SyncSQLite

/// The result of the rescue of a damaged database.
package struct StoreRescue: Hashable, Sendable {
    /// The damage that was found.
    package var reason: String
    /// The folder where the damaged database is kept.
    package var folder: String
    /// Number of intact mutations, including those that the hub has answered, and of those still open.
    package var mutations: Int64 = 0
    package var open: Int64 = 0
    /// Number of intact records of the mirror.
    package var records: Int64 = 0
    /// Number of rows that were found and could not be used.
    package var damaged: Int64 = 0
    /// Upper bound of the number of mutations of which nothing was found.
    package var lost: Int64 = 0
}

/// Recovers from a database that cannot be opened (PROTOCOL C2). It is moved aside with its log, its readable rows go into a new one with a
/// new replica id, and the mirror is listed again. No person is needed, and after a power cut in the middle the next start repeats the
/// rescue.
package struct DatabaseRescue {
    /// The path of the database in use.
    let path: String
    let quarantine: Quarantine
    let options: StoreOptions

    package init(path: String, quarantine: String, options: StoreOptions) {
        self.path = path
        self.quarantine = Quarantine(path: quarantine)
        self.options = options
    }

    /// Returns whether a new database would solve the error. An error that is caused by a disk, a lock, or a foreign or newer program is
    /// not touched.
    package static func helps(against error: StoreError) -> Bool {
        switch error.code {
        case .corrupt, .notADatabase, .lostDatabase, .constraint, .other: true
        case .refused, .diskFull, .ioError, .locked, .readOnly, .cannotOpen, .newerSchema, .foreignFile, .notDurable, .tooSlow,
            .outOfMemory, .unknownOutcome, .closed, .stopped, .removed:
            false
        }
    }

    /// Returns whether a power cut has interrupted an earlier rescue.
    package func isUnfinished() throws(StoreError) -> Bool {
        try quarantine.isUnfinished(path)
    }

    /// - Precondition: No connection to the database is open.
    package func run(reason: String, at now: Moment) throws(StoreError) -> StoreRescue {
        guard PageFile.canBeRead(path) else {
            throw StoreError(.ioError, doing: "read \(path)", detail: "the disk gives no page of it", result: SQLiteError.failedRead)
        }
        let source = try quarantine.moveIn(path, replica: options.marker?.replica)
        let fresh = path + ".new"
        var best: (rescue: StoreRescue, score: Score)?
        // The log of another database looks like a log of this one; only the salvaged rows show the difference.
        var hasLog = false
        for withLog in [true, false] where best == nil || hasLog {
            guard let pages = PageFile(path: source, withLog: withLog) else { continue }
            hasLog = pages.hasLog
            let candidate = fresh + (best == nil ? "" : "2")
            let (rescue, score) = try build(candidate, from: pages, reason: reason, folder: StoreFiles.parent(of: source), at: now)
            if let found = best {
                if found.score < score {
                    try StoreFiles.move(candidate, to: fresh)
                    best = (rescue, score)
                } else {
                    Self.remove(candidate)
                }
            } else {
                best = (rescue, score)
            }
        }
        guard let rescue = best?.rescue else {
            throw StoreError(.cannotOpen, doing: "read \(source)", detail: "errno \(errno)")
        }
        try StoreFiles.move(fresh, to: path)
        try StoreFiles.sync(StoreFiles.parent(of: path))
        try quarantine.finish(source)
        return rescue
    }

    /// Decides which of two attempts to prefer.
    private struct Score: Comparable {
        /// The found rows belong to this device, as far as is known.
        var isOurs: Bool
        /// The newest state: fewer rows may be the later state, where some were pruned.
        var lastSeq: Int64
        /// It rises where a change is only cancelled, or a record only leaves.
        var nextEvent: Int64
        var rows: Int64

        private var rank: (Int, Int64, Int64, Int64) { (isOurs ? 1 : 0, lastSeq, nextEvent, rows) }

        static func < (left: Score, right: Score) -> Bool { left.rank < right.rank }
    }

    private func build(
        _ path: String, from pages: PageFile, reason: String, folder: String, at now: Moment
    ) throws(StoreError) -> (StoreRescue, Score) {
        Self.remove(path)
        let database = try Database.open(path: path)
        var options = options
        options.marker = nil
        _ = try OpeningSequence(database: database, options: options, now: now).run()
        var salvage = try Salvage(from: pages, into: database)
        try salvage.run()
        let found = try MetaTable(database).text("replica")
        let isOurs = self.options.marker.map { $0.replica.text == found } ?? true
        let acknowledged = self.options.marker?.acknowledged ?? 0
        var rows = SalvagedRows(database, rules: options.rules, acknowledged: acknowledged, at: now)
        var random = SeededRandom(seed: options.seed ^ UInt64(truncatingIfNeeded: now.instant.nanoseconds))
        try rows.putInOrder(as: ReplicaID(trusted: UUIDv7.make(at: now.wall, using: &random)))

        let store = try Store(database, options, at: now)
        try store.restoreDependentData(at: now)
        var rescue = StoreRescue(reason: reason, folder: folder)
        if let count = try database.number("SELECT count(*) FROM mutation") { rescue.mutations = count }
        rescue.open = store.ledger.open
        rescue.records = rows.records
        rescue.damaged = Int64(salvage.damaged + rows.damaged)
        rescue.lost = rows.lost
        try store.close(at: now)
        let count = rescue.mutations + rescue.records
        return (rescue, Score(isOurs: isOurs, lastSeq: rows.lastSeq, nextEvent: rows.nextEvent, rows: count))
    }

    private static func remove(_ path: String) {
        for end in ["", "-wal", "-shm"] { unlink(path + end) }
    }
}

extension Store {
    /// Restores the dependent data after a rescue. Invariant: view, status and readiness of every record follow from its base and open
    /// mutations again, and every mirrored entity is listed again.
    func restoreDependentData(at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let known = Set(rules.entities.keys).union(names.entities.keys)
            for entity in known.sorted() where rules[entity].map({ $0.kind != .event }) ?? false {
                try restartStream(try names.entity(entity, in: database))
            }
            let troubled = try database.all(
                """
                SELECT rid FROM record WHERE status <> ?
                    OR EXISTS (SELECT 1 FROM mutation m WHERE m.rid = record.rid AND m.state < 6) ORDER BY rid
                """, .int(RecordSnapshot.SyncStatus.synced.rawValue)
            ) { row throws(StoreError) in row.int(0) }
            for start in stride(from: 0, to: troubled.count, by: Self.sliceRows) {
                var records = TouchedRecords()
                for rid in troubled[start..<min(start + Self.sliceRows, troubled.count)] {
                    try touch(rid, &records)
                    records[rid]?.needsFold = true
                    // The status may be wrong because no mutation is open any more.
                    records[rid]?.row.status = .pending
                    try levelPriorities(of: rid)
                }
                try finish(records)
            }
            // Those that are returned may have been sent as well.
            try markLostAttempts()
            try returnGated()
            try markSalvaged()
        }
    }
}
