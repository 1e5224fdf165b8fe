package import SyncCore
import SyncSQLite

// Files that come from the hub. A row is in the state `uploaded`, because the hub has the bytes, and `fetch` says how far they are here.
// Invariant: `has_file` is set only after the bytes lie under their digest, compared and synced.

extension Store {
    // MARK: - Wanting

    /// Marks a file as wanted. A row that is missing is made from what a record shows.
    ///
    /// - Parameters:
    ///   - shown: The record that shows the file, if it was looked up; its link is kept.
    ///   - isAsked: An app or a person has asked for it, so it comes before those that are fetched ahead.
    ///   - isPinned: Its bytes stay from now on.
    /// - Returns: The row. Its bytes may be here already.
    /// - Throws: `.refused` with `not-found` when no row knows the file and no record shows it, with `queue-full` for too many files.
    package func wantBlob(
        _ digest: BlobDigest, shown: ShownFile?, isAsked: Bool, isPinned: Bool = false, by requester: Requester, capacity: BlobCapacity,
        at now: Moment
    ) throws(StoreError) -> BlobRow {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            guard let id = try want(digest, shown, isAsked: isAsked, by: requester, capacity) else {
                throw StoreProblem.notFound("file \(digest) on this device, and no record that shows it", list: "agentctl blobs list")
            }
            if isPinned { try database.run("UPDATE blob SET pinned = 1 WHERE bid = ?", .int(id.number)) }
            return try blobRow(id)
        }
    }

    /// - Returns: `nil` when nothing is known about the file.
    private func want(
        _ digest: BlobDigest, _ shown: ShownFile?, isAsked: Bool, by requester: Requester, _ capacity: BlobCapacity
    ) throws(StoreError) -> BlobID? {
        guard let known = try reads.blob(digest) else {
            guard let shown, shown.isUploaded else { return nil }
            let total = try blobTotal()
            if total.files >= capacity.files {
                throw StoreProblem.queueFull("\(total.files) files are known, which is the limit", raise: nil)
            }
            let bid = ledger.next(.nextBlob)
            try database.run(
                """
                INSERT INTO blob (bid, digest, size_bytes, state, critical, aid, uid, created_ms, offset_bytes, has_file, is_verified, type,
                    filename, fetch, wanted_ms, asked, used_age)
                VALUES (?1, ?2, ?3, 1, 0, ?4, ?5, ?6, ?3, 0, 1, ?7, '', 0, ?6, ?8, ?9)
                """, .int(bid), .text(digest.hex), .int(min(max(0, shown.size), DownloadJob.sizeMax)),
                .int(try names.app(requester.app, in: database)), .int(Int64(requester.uid)), .int(now.wall.milliseconds),
                .text(shown.type), .bool(isAsked), .int(age))
            try link(BlobID(bid), shown.link)
            return BlobID(bid)
        }
        if let shown { try link(known.id, shown.link) }
        // A file that is not uploaded yet, or is lost, does not come from the hub.
        guard !known.hasFile, known.state == .uploaded else { return known.id }
        try database.run(
            """
            UPDATE blob SET fetch = 0, wanted_ms = CASE WHEN fetch = 0 THEN wanted_ms ELSE ? END, asked = max(asked, ?), attempts = 0,
                restarts = 0, problem = NULL, rearm_age = NULL WHERE bid = ?
            """, .int(now.wall.milliseconds), .bool(isAsked), .int(known.id.number))
        return known.id
    }

    func link(_ id: BlobID, _ link: BlobLink) throws(StoreError) {
        // No mutation of this device shows it, and numbers of mutations begin with 1.
        try database.run(
            "INSERT INTO blob_link (bid, entity, id, field, seq) VALUES (?, ?, ?, ?, 0) ON CONFLICT DO NOTHING", .int(id.number),
            .text(link.record.entity.text), .text(link.record.id.text), .text(link.field))
    }

    /// Wants the files that records of these entities already show.
    ///
    /// - Returns: Number of files that are wanted now.
    package func wantAhead(_ files: [ShownFile], capacity: BlobCapacity, at now: Moment) throws(StoreError) -> Int {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            var count = 0
            for file in files where try reads.blob(file.digest) == nil {
                guard try want(file.digest, file, isAsked: false, by: Self.itself, capacity) != nil else { continue }
                count += 1
            }
            return count
        }
    }

    private static let itself = Requester(app: AppName(trusted: "agent"), uid: 0)

    /// Looks at the files that a record from the hub shows. One that was set aside is tried again, because its record has changed; with
    /// `files: ahead` a new one is wanted.
    ///
    /// - Precondition: In a transaction that is prepared for changes.
    /// - Returns: Number of files that are wanted now.
    func wantFiles(of record: HubRecord, _ name: RecordName) throws(StoreError) -> Int {
        // An existing backend has its files somewhere else.
        guard rest == nil else { return 0 }
        var count = 0
        for (field, file) in Placeholder.shown(in: record.data) where file.isUploaded && file.remoteURL == nil {
            let shown = ShownFile(
                digest: file.digest, size: file.size, type: file.type, isUploaded: true, link: BlobLink(name, field: field))
            let known = try reads.blob(file.digest)
            if let known, known.fetch != nil { try link(known.id, shown.link) }
            guard try isToCome(known, isAhead: rules[name.entity]?.files == .ahead) else { continue }
            count += try want(file.digest, shown, isAsked: false, by: Self.itself, fileCapacity) == nil ? 0 : 1
        }
        return count
    }

    /// Returns whether a file that a record from the hub shows is wanted by itself. One that left for others, to make room, is not.
    private func isToCome(_ known: BlobRow?, isAhead: Bool) throws(StoreError) -> Bool {
        guard let known else {
            guard isAhead else { return false }
            return try blobTotal().files < fileCapacity.files
        }
        if known.standing == .fetchFailed { return true }
        return isAhead && known.standing == .fetched(isHere: false) && known.progress.error == CutDownload.why
    }

    /// - Throws: `.refused` with `not-found`.
    package func pinBlob(_ id: BlobID, _ isPinned: Bool, at now: Moment) throws(StoreError) -> BlobRow {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try database.run("UPDATE blob SET pinned = ? WHERE bid = ?", .bool(isPinned), .int(id.number))
            return try blobRow(id)
        }
    }

    // MARK: - Progress of a download

    /// Stores the progress of a download.
    ///
    /// - Precondition: The part is synced up to the offset.
    package func saveDownload(_ id: BlobID, size: Int64, _ progress: DownloadProgress, note json: String?, at now: Moment)
        throws(StoreError)
    {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try write(progress, size: size, id)
            if let json { journal.addNote(type: "blob", json: json) }
        }
    }

    /// Ends a download whose bytes lie under their digest.
    ///
    /// - Returns: The digests whose bytes have to go for it.
    package func endDownload(
        _ id: BlobID, size: Int64, capacity: BlobCapacity, note json: String, at now: Moment
    ) throws(StoreError) -> [BlobDigest] {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let changed = try database.run(
                """
                UPDATE blob SET fetch = 1, has_file = 1, got_bytes = 0, size_bytes = ?1, offset_bytes = ?1, done_ms = ?2, used_age = ?3,
                    prune_age = NULL, attempts = 0, restarts = 0, asked = 0, problem = NULL, rearm_age = NULL WHERE bid = ?4 AND fetch = 0
                """, .int(size), .int(now.wall.milliseconds), .int(age), .int(id.number))
            guard changed > 0 else {
                // It was cut meanwhile, so its bytes go.
                return try reads.blob(id).flatMap { $0.hasFile ? nil : [$0.digest] } ?? []
            }
            journal.addNote(type: "blob", json: json)
            return try evict(toFit: 0, capacity, except: id)
        }
    }

    /// Takes up the bytes of a file from the hub that lie under their digest, and whose row does not say so after a crash. The bytes of a
    /// file that was let go because no record showed it are not taken up: the crash came between the row that let them go and their
    /// removal.
    package func adoptFetched(_ digest: BlobDigest, size: Int64, at now: Moment) throws(StoreError) -> BlobAdoption {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            guard let row = try reads.blob(digest), let fetch = row.fetch else { return .foreign }
            let wasLetGo = fetch != .fetching && row.progress.error == CutDownload.why && !row.isPinned
            if wasLetGo, try reads.stillShowing(digest, of: row.links).isEmpty, try !isNamedByOpenWork(row.id) { return .unwanted }
            try database.run(
                """
                UPDATE blob SET fetch = 1, has_file = 1, got_bytes = 0, size_bytes = ?1, offset_bytes = ?1, used_age = ?2, prune_age = NULL,
                    attempts = 0, restarts = 0, asked = 0, problem = NULL, rearm_age = NULL WHERE digest = ?3 AND fetch IS NOT NULL
                """, .int(size), .int(age), .text(digest.hex))
            return .adopted
        }
    }

    /// The result for bytes that were found without a row that claims them.
    package enum BlobAdoption: Hashable, Sendable {
        /// Their row claims them now.
        case adopted
        /// They are to be removed: the file was let go.
        case unwanted
        /// The file does not come from the hub.
        case foreign
    }

    /// Sets a download aside until a record that shows it changes, a new link, a day later, or a person's command.
    package func parkDownload(
        _ id: BlobID, size: Int64, why: String, _ progress: DownloadProgress, note json: String, at now: Moment
    ) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try write(progress, size: size, id)
            try database.run(
                "UPDATE blob SET fetch = 2, asked = 0, problem = ?, rearm_age = ? WHERE bid = ? AND fetch = 0", .text(why),
                .int(age + Self.blobRearmedAfter.milliseconds), .int(id.number))
            journal.addNote(type: "blob", json: json)
        }
    }

    /// Lets downloads that were set aside be tried again: all of them, or those whose waiting day is over.
    ///
    /// - Returns: The files that are wanted now and were not before.
    package func rearmDownloads(isDueOnly: Bool, at now: Moment) throws(StoreError) -> [DownloadJob] {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let due = try database.all(
                "SELECT bid FROM blob WHERE fetch = 2 AND (?1 = 0 OR rearm_age <= ?2) LIMIT 1000", .bool(isDueOnly), .int(age)
            ) { row throws(StoreError) in row.int(0) }
            var jobs: [DownloadJob] = []
            for bid in due {
                try database.run(
                    "UPDATE blob SET fetch = 0, attempts = 0, restarts = 0, rearm_age = NULL, problem = NULL WHERE bid = ?", .int(bid))
                if let job = try blobRow(BlobID(bid)).download { jobs.append(job) }
            }
            return jobs
        }
    }

    private func write(_ progress: DownloadProgress, size: Int64, _ id: BlobID) throws(StoreError) {
        try database.run(
            """
            UPDATE blob SET size_bytes = ?1, offset_bytes = ?1, got_bytes = max(?2, 0), attempts = ?3, restarts = ?4, problem = ?5
            WHERE bid = ?6 AND fetch = 0
            """, .int(max(0, size)), .int(progress.offset), .int(progress.attempts), .int(progress.restarts), .optional(progress.error),
            .int(id.number))
    }

    // MARK: - Room

    /// Makes room for a file: if it does not fit, files that the server has leave this device, those first that were not used for longest.
    /// A file that is not uploaded yet, and one that is pinned, never goes.
    ///
    /// - Returns: Digests whose bytes are to be removed now.
    /// - Throws: `.refused` with `queue-full` or `disk-full` when even that would not be enough; nothing leaves then.
    package func makeRoom(
        forBlob size: Int64, _ capacity: BlobCapacity, except id: BlobID? = nil, at now: Moment
    ) throws(StoreError) -> [BlobDigest] {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            return try evict(toFit: size, capacity, except: id)
        }
    }

    /// - Precondition: In a transaction that is prepared for changes.
    private func evict(toFit size: Int64, _ capacity: BlobCapacity, except id: BlobID?) throws(StoreError) -> [BlobDigest] {
        let (total, size) = (try blobTotal(), min(max(0, size), DownloadJob.sizeMax))
        let overQuota = total.bytes.saturatingAdd(size).saturatingAdd(-capacity.bytes)
        let underFree = freeBytes.map { self.capacity.minFree - ($0 - size) } ?? 0
        let wanted = max(overQuota, size > 0 ? underFree : 0)
        guard wanted > 0 else { return [] }
        var (going, freed): ([(bid: Int64, digest: BlobDigest)], Int64) = ([], 0)
        try database.each(
            """
            SELECT bid, digest, size_bytes FROM blob WHERE state = 1 AND has_file = 1 AND pinned = 0 AND bid IS NOT ?
            ORDER BY used_age, bid LIMIT 10000
            """, .optional(id?.number), while: { freed < wanted }
        ) { row throws(StoreError) in
            guard let digest = BlobDigest(hex: row.text(1)) else { return }
            going.append((row.int(0), digest))
            freed = freed.saturatingAdd(row.int(2))
        }
        if freed < wanted, size > 0 {
            if overQuota > freed {
                throw StoreProblem.queueFull(
                    "\(total.bytes) bytes of files are kept, \(freed) of them could leave, and the limit is \(capacity.bytes)",
                    raise: "blobs.quota")
            }
            throw StoreProblem.diskFull(free: freeBytes ?? 0, kept: self.capacity.minFree)
        }
        for row in going { try dropCopy(BlobID(row.bid)) }
        // They are about to be removed; the next measurement says how much that gave.
        freeBytes = freeBytes?.saturatingAdd(freed)
        return going.map(\.digest)
    }

    /// Lets fetched files leave that no record shows any more, as after a deletion. Each call looks at some of them, in turn. A pinned file
    /// stays, and so does one that unsent work of this device names.
    ///
    /// - Returns: Digests whose bytes are to be removed now.
    package func dropUnshown(at now: Moment) throws(StoreError) -> [BlobDigest] {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let rows = try database.all(
                "SELECT bid, digest FROM blob WHERE bid > ? AND fetch = 1 AND has_file = 1 AND pinned = 0 ORDER BY bid LIMIT 100",
                .int(sweep.fetchedBlobs)
            ) { row throws(StoreError) in (bid: row.int(0), digest: BlobDigest(hex: row.text(1))) }
            sweep.fetchedBlobs = rows.count == 100 ? rows.last?.bid ?? 0 : 0
            var going: [BlobDigest] = []
            for row in rows {
                guard let digest = row.digest else { continue }
                let (id, links) = (BlobID(row.bid), try reads.links(of: BlobID(row.bid)))
                guard try reads.stillShowing(digest, of: links).isEmpty, try !isNamedByOpenWork(id) else { continue }
                try dropCopy(id, why: CutDownload.why)
                going.append(digest)
            }
            return going
        }
    }

    /// Records that the bytes of a file that the server has are not on this device any more. They can be fetched again.
    package func forgetCopy(_ id: BlobID, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try dropCopy(id)
        }
    }

    /// - Parameter why: The reason, if a record that shows the file again is to bring it back.
    func dropCopy(_ id: BlobID, why: String? = nil) throws(StoreError) {
        try database.run(
            "UPDATE blob SET has_file = 0, got_bytes = 0, prune_age = ?, problem = ? WHERE bid = ? AND state = 1", .int(age),
            .optional(why), .int(id.number))
    }

    /// Records that the bytes of a file were read. It is written at most once in an hour for each file.
    package func useBlob(_ id: BlobID, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try database.run(
                "UPDATE blob SET used_age = ? WHERE bid = ? AND used_age < ?", .int(age), .int(id.number), .int(age - 3_600_000))
        }
    }
}
