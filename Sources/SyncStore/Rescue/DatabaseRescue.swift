import Glibc
package import SyncCore

/// What was made of a damaged database.
package struct StoreRescue: Hashable, Sendable {
    /// What was wrong with it.
    package var reason: String
    /// The folder where it is kept.
    package var folder: String
    /// Mutations that were found whole, with those that the hub has answered; and of them those still open.
    package var mutations: Int64 = 0
    package var open: Int64 = 0
    /// Records of the mirror that were found whole.
    package var records: Int64 = 0
    /// Rows that were found and could not be used.
    package var damaged: Int64 = 0
    /// Mutations of which nothing was found; at most so many.
    package var lost: Int64 = 0
}

/// The way back from a database that cannot be opened (PROTOCOL C2): it is moved aside with its log, what can be read of it
/// goes into a new one with a new replica id, and the mirror is listed again. Nobody has to do anything, and a power cut in
/// the middle only means that the next start does it again.
package struct DatabaseRescue {
    /// Where the database belongs.
    let path: String
    let quarantine: Quarantine
    let options: StoreOptions

    package init(path: String, quarantine: String, options: StoreOptions) {
        self.path = path
        self.quarantine = Quarantine(path: quarantine)
        self.options = options
    }

    /// Whether another database is the answer to this. What a disk, a lock or a foreign or newer program is the reason of
    /// is left alone.
    package static func helps(against error: StoreError) -> Bool {
        switch error.code {
        case .corrupt, .notADatabase, .lostDatabase, .constraint, .other: true
        case .refused, .diskFull, .ioError, .locked, .readOnly, .cannotOpen, .newerSchema, .foreignFile, .notDurable, .tooSlow,
            .outOfMemory, .unknownOutcome, .closed, .stopped, .removed:
            false
        }
    }

    /// Whether a power cut has ended an earlier one.
    package func isUnfinished() throws(StoreError) -> Bool {
        try quarantine.isUnfinished(path)
    }

    /// - Precondition: No connection to the database is open.
    package func run(reason: String, at now: Moment) throws(StoreError) -> StoreRescue {
        guard PageFile.canBeRead(path) else {
            throw StoreError(.ioError, doing: "read \(path)", detail: "the disk gives no page of it", result: StoreError.failedRead)
        }
        let source = try quarantine.take(path, replica: options.marker?.replica)
        let fresh = path + ".new"
        var best: (rescue: StoreRescue, score: Score)?
        // The log of another database looks like a log of this one, and is only told by what comes out.
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

    /// Which of two attempts to prefer.
    private struct Score: Comparable {
        /// What was found belongs to this place, as far as anybody knows.
        var isOurs: Bool
        /// The newest state: fewer rows may be the later truth, where some were pruned.
        var lastSeq: Int64
        var rows: Int64

        static func < (left: Score, right: Score) -> Bool {
            (left.isOurs ? 1 : 0, left.lastSeq, left.rows) < (right.isOurs ? 1 : 0, right.lastSeq, right.rows)
        }
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
        try store.takeUpSalvaged(at: now)
        var rescue = StoreRescue(reason: reason, folder: folder)
        if let count = try database.number("SELECT count(*) FROM mutation") { rescue.mutations = count }
        rescue.open = store.ledger.open
        rescue.records = rows.records
        rescue.damaged = Int64(salvage.damaged + rows.damaged)
        rescue.lost = rows.lost
        try store.close(at: now)
        return (rescue, Score(isOurs: isOurs, lastSeq: rows.lastSeq, rows: rescue.mutations + rescue.records))
    }

    private static func remove(_ path: String) {
        for end in ["", "-wal", "-shm"] { unlink(path + end) }
    }
}

extension Store {
    /// Invariant: view, status and readiness of every record follow from base and open mutations again, and every mirrored
    /// entity is listed afresh.
    func takeUpSalvaged(at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let known = Set(rules.entities.keys).union(names.entities.keys)
            for entity in known.sorted() where rules[entity].map({ $0.kind != .event }) ?? false {
                try restartStream(try names.entity(entity, in: database))
            }
            let troubled = try database.all(
                """
                SELECT rid FROM record WHERE status <> 0
                    OR EXISTS (SELECT 1 FROM mutation m WHERE m.rid = record.rid AND m.state < 6) ORDER BY rid
                """
            ) { row throws(StoreError) in row.int(0) }
            for start in stride(from: 0, to: troubled.count, by: Self.sliceRows) {
                var records = TouchedRecords()
                for rid in troubled[start..<min(start + Self.sliceRows, troubled.count)] {
                    try touch(rid, &records)
                    records[rid]?.needsFold = true
                    // What is wrong about it may be that nothing is open any more.
                    records[rid]?.row.status = .pending
                    try levelPriorities(of: rid)
                }
                try finish(records)
            }
            try noteLostAttempts()
            try noteSalvage()
        }
    }
}
