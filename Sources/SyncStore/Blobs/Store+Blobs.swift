package import SyncCore
import SyncSQLite

// Files. Their bytes lie outside of the database, named by their digest, and are complete before their row is written. A row without bytes
// is therefore a loss from outside, and bytes without a row are not needed.

/// Limits of file storage.
package struct BlobCapacity: Hashable, Sendable {
    /// Total size of all files, bytes.
    package var bytes: Int64 = 4_000_000_000
    package var files: Int64 = 100_000
    /// Retention of uploaded files, where there is room.
    package var keptFor: Duration = .seconds(7 * 86_400)

    package init() {}
}

extension Store {
    /// Time after which a file that keeps failing is tried again automatically.
    static let blobRearmedAfter: Duration = .seconds(86_400)

    // MARK: - Adding and removing

    /// Adds a file whose bytes are on disk. Invariant: one row for each digest, whichever app brings it.
    ///
    /// - Parameter isFound: The file lay in the folder without a row. It takes no more room than it has already, and its upload
    ///   is what makes room, so no limit refuses it.
    /// - Returns: The row, and whether it is a new one.
    /// - Throws: `.refused` with `queue-full` or `disk-full`.
    package func addBlob(
        _ digest: BlobDigest, size: Int64, type: String, filename: String, by requester: Requester, capacity: BlobCapacity,
        isFound: Bool = false, at now: Moment
    ) throws(StoreError) -> (row: BlobRow, isNew: Bool) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            if let known = try reads.blob(digest) {
                guard known.state == .missing || !known.hasFile || known.fetch != nil else { return (known, false) }
                if known.fetch != nil {
                    // It was to come from the hub, or has come. From now on it is the app's, and stays when its record leaves. The hub is
                    // asked for it before the upload.
                    try database.run(
                        """
                        UPDATE blob SET has_file = 1, state = 0, size_bytes = ?, offset_bytes = 0, got_bytes = 0, fetch = NULL,
                            attempts = 0, restarts = 0, problem = NULL, rearm_age = NULL, prune_age = NULL WHERE bid = ?
                        """, .int(size), .int(known.id.number))
                    return (try blobRow(known.id), true)
                }
                // The bytes are here again: an upload that lacked them can continue.
                try database.run(
                    """
                    UPDATE blob SET has_file = 1, state = CASE WHEN state = 3 THEN 0 ELSE state END, problem = NULL,
                        attempts = 0, rearm_age = NULL, prune_age = CASE WHEN state = 1 THEN ? END WHERE bid = ?
                    """, .int(age + capacity.keptFor.milliseconds), .int(known.id.number))
                return (try blobRow(known.id), known.state == .missing)
            }
            if !isFound { try checkRoom(forBlob: size, capacity) }
            let bid = ledger.next(.nextBlob)
            try database.run(
                """
                INSERT INTO blob (bid, digest, size_bytes, state, critical, aid, uid, created_ms, type, filename)
                VALUES (?, ?, ?, 0, 0, ?, ?, ?, ?, ?)
                """, .int(bid), .text(digest.hex), .int(size), .int(try names.app(requester.app, in: database)),
                .int(Int64(requester.uid)), .int(now.wall.milliseconds), .text(type), .text(filename))
            return (try blobRow(BlobID(bid)), true)
        }
    }

    /// Checks whether a file of that size can be stored. Called before its first byte is read, and again when all bytes are there.
    package func checkRoom(forBlob size: Int64, _ capacity: BlobCapacity) throws(StoreError) {
        if let freeBytes, freeBytes - size < self.capacity.minFree {
            throw StoreProblem.diskFull(free: freeBytes, kept: self.capacity.minFree)
        }
        let total = try blobTotal()
        if total.bytes.saturatingAdd(size) > capacity.bytes {
            throw StoreProblem.queueFull("\(total.bytes) bytes of files are kept, the limit is \(capacity.bytes)", raise: "blobs.quota")
        }
        if total.files >= capacity.files { throw StoreProblem.queueFull("\(total.files) files are known, which is the limit", raise: nil) }
    }

    /// Number of all known files, and bytes of the kept ones. They are counted once for each connection, so that adding a file does not
    /// cost as much as all before it. Triggers of that connection update the counts in the same transactions.
    func blobTotal() throws(StoreError) -> (files: Int64, bytes: Int64) {
        if try !hasTemporary("blob_total") { try database.execute(Schema.blobTotal) }
        let total = try database.first("SELECT files, bytes FROM temp.blob_total") { row throws(StoreError) in
            (files: row.int(0), bytes: row.int(1))
        }
        return total ?? (0, 0)
    }

    /// Returns whether the connection has this table of its own.
    private func hasTemporary(_ table: String) throws(StoreError) -> Bool {
        try database.number("SELECT 1 FROM temp.sqlite_master WHERE name = ?", .text(table)) != nil
    }

    /// Compares the counts with the table.
    func verifyBlobTotal() throws(StoreError) -> [String] {
        guard try hasTemporary("blob_total") else { return [] }
        let (counted, counts) = (try blobTotal(), try reads.blobCounts())
        if counted == (files: counts.files, bytes: counts.keptBytes) { return [] }
        return ["\(counted.files) files with \(counted.bytes) bytes are counted, there are \(counts.files) with \(counts.keptBytes)"]
    }

    /// The result of a removal.
    package enum BlobRemoval: Hashable, Sendable {
        /// The file is forgotten completely.
        case forgotten
        /// The server has the bytes; only the local copy is gone.
        case dropped
        /// A record shows the file, and its bytes are gone: its row stays and says so.
        case lost
    }

    /// Removes a file. Invariant: a record never silently loses a file whose bytes the server does not have. The removal is refused, or the
    /// row stays as `missing` with the reason.
    ///
    /// - Parameters:
    ///   - why: The reason of a loss, for people.
    ///   - note: Event for a loss, JSON.
    /// - Returns: The digest, whose bytes are to be removed now, and the result for its row.
    /// - Throws: `.refused` with `not-found`. Without `isForced` also with `linked` when an open mutation shows the file, or a record shows
    ///   it and the server does not have its bytes.
    package func removeBlob(
        _ id: BlobID, isForced: Bool = false, why: String = "removed before it was uploaded", note json: String? = nil,
        at now: Moment
    ) throws(StoreError) -> (digest: BlobDigest, removal: BlobRemoval) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            guard let row = try reads.blob(id) else { throw StoreProblem.notFound("blob \(id)", list: "agentctl blobs list") }
            let shown = try whatShows(row)
            if let shown, !isForced { throw shown.refusal(id) }
            if shown != nil, row.state != .missing {
                if row.state == .uploaded {
                    try database.run(
                        "UPDATE blob SET has_file = 0, got_bytes = 0, fetch = CASE WHEN fetch IS NOT NULL THEN 1 END WHERE bid = ?",
                        .int(id.number))
                    return (row.digest, .dropped)
                }
                try database.run(
                    "UPDATE blob SET state = 3, has_file = 0, problem = ?, rearm_age = NULL, prune_age = NULL WHERE bid = ?",
                    .text(why), .int(id.number))
                if let json { journal.addNote(type: "blob", json: json) }
                return (row.digest, .lost)
            }
            transaction?.tieEnds.append(TieEnd(seq: -id.number, state: .done, kind: .met))
            try database.run("DELETE FROM blob_link WHERE bid = ?", .int(id.number))
            try database.run("DELETE FROM blob WHERE bid = ?", .int(id.number))
            return (row.digest, .forgotten)
        }
    }

    /// A mutation or record that would be left with a file that exists nowhere.
    private enum BlobHolder {
        case mutation(String)
        case record(RecordName)

        func refusal(_ id: BlobID) -> StoreError {
            var problem = Problem("linked", status: 409, detail: "", members: ["blob": .string(id.description)])
            switch self {
            case .mutation(let key):
                problem.detail = "the open mutation \(key) shows the blob \(id)"
                problem.members["mutation"] = .string(key)
            case .record(let name):
                problem.detail = "the record \(name) shows the blob \(id), and its bytes are not at the server yet"
                problem.members["entity"] = .string(name.entity.text)
                problem.members["record_id"] = .string(name.id.text)
            }
            return .refused(problem)
        }
    }

    /// An open mutation that shows the file. Otherwise, while its bytes are only here, a record that was sent with it and still waits for
    /// it.
    private func whatShows(_ row: BlobRow) throws(StoreError) -> BlobHolder? {
        var sent: [(name: RecordName, state: MutationState?)] = []
        var open: Int64?
        try database.each(
            """
            SELECT l.entity, l.id, l.seq, m.state FROM blob_link l LEFT JOIN mutation m ON m.seq = l.seq WHERE l.bid = ?
            ORDER BY l.entity, l.id
            """, .int(row.id.number), while: { open == nil }
        ) { link throws(StoreError) in
            let state = link.optionalInt(3).flatMap { MutationState(rawValue: Int(clamping: $0)) }
            if let state, !state.isTerminal { open = link.int(2) }
            let name = RecordName(EntityName(trusted: link.text(0)), RecordID(trusted: link.text(1)))
            if sent.last?.name != name { sent.append((name, state)) }
        }
        if let open {
            // A row that cannot be read still counts as open.
            return .mutation(try payload(open)?.key ?? "with the number \(open)")
        }
        guard row.state != .uploaded else { return nil }
        for (name, state) in sent where try waits(name, for: row.digest, state) { return .record(name) }
        return nil
    }

    /// Returns whether the hub has, or will have, a record that shows a file as still to come.
    ///
    /// - Parameter state: The state of the mutation that last showed it there; `nil` when its row is pruned.
    private func waits(_ name: RecordName, for digest: BlobDigest, _ state: MutationState?) throws(StoreError) -> Bool {
        // An event leaves no record here. For a pruned one, it is unknown whether it was sent.
        if rules[name.entity]?.kind == .event { return state == nil || state == .done }
        guard let eid = names.entities[name.entity], let record = try MirrorRow.find(database, eid: eid, id: name.id.text) else {
            return false
        }
        if record.isDamaged { return true }
        for text in [record.base, record.document] {
            guard let text else { continue }
            guard let document = StoredJSON.read(text)?.object else { return true }
            if Placeholder.waiting(in: document).contains(where: { $0.digest == digest }) { return true }
        }
        return false
    }

    // MARK: - Progress of an upload

    /// Stores the progress of an upload. Losing it costs one request.
    package func saveUpload(_ id: BlobID, _ progress: UploadProgress, note json: String?, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try write(progress, id)
            if let json { journal.addNote(type: "blob", json: json) }
        }
    }

    /// Ends an upload that the server has completely. Invariant: mutations that waited for the file can go from here on.
    ///
    /// - Parameter remoteURL: Address of the file at a server that is not the hub. Such a server does not replace the placeholders, so the
    ///   agent makes one mutation for each record whose files are all there (PROTOCOL H2).
    /// - Returns: `true` when mutations were made.
    package func endUpload(
        _ id: BlobID, isVerified: Bool, remoteURL: String?, capacity: BlobCapacity, note json: String, at now: Moment
    ) throws(StoreError) -> Bool {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let changed = try database.run(
                """
                UPDATE blob SET state = 1, offset_bytes = size_bytes, is_verified = ?, done_ms = ?, prune_age = ?, attempts = 0,
                    expires_ms = NULL, rearm_age = NULL, problem = NULL, upload_url = ?, used_age = ? WHERE bid = ? AND state <> 1
                """, .bool(isVerified), .int(now.wall.milliseconds), .int(age + capacity.keptFor.milliseconds),
                .optional(remoteURL), .int(age), .int(id.number))
            guard changed > 0 else { return false }
            journal.addNote(type: "blob", json: json)
            transaction?.tieEnds.append(TieEnd(seq: -id.number, state: .done, kind: .met))
            guard remoteURL != nil else { return false }
            var hasMade = false
            for record in Set(try reads.links(of: id).map(\.record)).sorted() where try reconcile(record) { hasMade = true }
            return hasMade
        }
    }

    /// Ends an upload that is not needed: the hub has the file, and this device may read it (PROTOCOL H2).
    ///
    /// The device may lose that right before the hub gets a change that shows the file, and an offer counts only in records that name the
    /// file by then. So the row says that nothing was brought, and the file is offered again after such a change (``offerAgain(_:)``).
    ///
    /// - Parameter named: ``UploadJob/named`` of the file that was offered.
    /// - Returns: The file, if a change that shows it is over since, perhaps after the offer: it waits to be offered again.
    package func endOffer(
        _ id: BlobID, named: Int64, capacity: BlobCapacity, note json: String, at now: Moment
    ) throws(StoreError) -> UploadJob? {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            guard let row = try reads.blob(id), row.state != .uploaded else { return nil }
            if row.state == .pending, row.named != named { return row.job }
            try database.run(
                """
                UPDATE blob SET state = 1, offset_bytes = 0, is_verified = 1, done_ms = ?, prune_age = ?, attempts = 0,
                    expires_ms = NULL, rearm_age = NULL, problem = NULL, upload_url = NULL, used_age = ? WHERE bid = ?
                """, .int(now.wall.milliseconds), .int(age + capacity.keptFor.milliseconds), .int(age), .int(id.number))
            journal.addNote(type: "blob", json: json)
            transaction?.tieEnds.append(TieEnd(seq: -id.number, state: .done, kind: .met))
            return nil
        }
    }

    /// Lets files that the hub had when it was asked be offered again, now that it has accepted changes that show them. It may have them
    /// still, and show them in these records by the new offer; or this device may not read them any more, and brings them.
    ///
    /// Such files are few, so their links are searched and not those of the records, which may have thousands.
    ///
    /// - Parameter accepted: Numbers of the accepted changes.
    /// - Returns: These files.
    func offerAgain(_ accepted: Set<Int64>) throws(StoreError) -> [UploadJob] {
        guard let first = accepted.min(), let last = accepted.max(), try database.number("SELECT max(bid) FROM blob") != nil else {
            return []
        }
        if try !hasTemporary("blob_spared") { try database.execute(Schema.blobsSpared) }
        let found = try database.all(
            "SELECT l.bid, l.seq FROM temp.blob_spared b CROSS JOIN blob_link l ON l.bid = b.bid WHERE l.seq BETWEEN ? AND ?", .int(first),
            .int(last)
        ) { row throws(StoreError) in (id: BlobID(row.int(0)), seq: row.int(1)) }
        var jobs: [UploadJob] = []
        for id in Set(found.filter { accepted.contains($0.seq) }.map(\.id)).sorted(by: { $0.number < $1.number }) {
            try database.run(
                "UPDATE blob SET state = 0, attempts = 0, restarts = 0, prune_age = NULL WHERE bid = ?", .int(id.number))
            jobs.append(try blobRow(id).job)
        }
        return jobs
    }

    /// Parks an upload until a new link, a day later, or a person's command.
    package func parkUpload(
        _ id: BlobID, _ problem: Problem, _ progress: UploadProgress, note json: String, at now: Moment
    ) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try write(progress, id)
            try database.run(
                "UPDATE blob SET state = 2, problem = ?, rearm_age = ? WHERE bid = ? AND state = 0", .text(problem.detail),
                .int(age + Self.blobRearmedAfter.milliseconds), .int(id.number))
            journal.addNote(type: "blob", json: json)
        }
    }

    /// Marks a file as missing: its bytes are gone or have changed.
    package func loseBlob(_ id: BlobID, why: String, note json: String, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try database.run(
                "UPDATE blob SET state = 3, has_file = 0, problem = ?, rearm_age = NULL WHERE bid = ? AND state IN (0, 2)",
                .text(why), .int(id.number))
            journal.addNote(type: "blob", json: json)
        }
    }

    /// Lets parked files be tried again: one file, or all that are allowed.
    ///
    /// - Parameter isDueOnly: Only files whose waiting day is over.
    /// - Returns: The files that wait now and did not before.
    package func rearmBlobs(_ id: BlobID?, isDueOnly: Bool, at now: Moment) throws(StoreError) -> [UploadJob] {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            let due = try database.all(
                "SELECT bid FROM blob WHERE state = 2 AND (?1 IS NULL OR bid = ?1) AND (?2 = 0 OR rearm_age <= ?3) LIMIT 1000",
                .optional(id?.number), .bool(isDueOnly), .int(age)
            ) { row throws(StoreError) in row.int(0) }
            var jobs: [UploadJob] = []
            for bid in due {
                try database.run(
                    "UPDATE blob SET state = 0, attempts = 0, restarts = 0, rearm_age = NULL, problem = NULL WHERE bid = ?",
                    .int(bid))
                jobs.append(try blobRow(BlobID(bid)).job)
            }
            return jobs
        }
    }

    /// Digests whose bytes need not be kept any longer: uploaded files that are old, or whose room new ones need. A file that the hub had
    /// is kept while a change waits that shows it, because it may have to be brought after all.
    ///
    /// - Parameter isShort: Room is needed, so the age does not count.
    package func pruneBlobs(isShort: Bool, at now: Moment) throws(StoreError) -> [BlobDigest] {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            var rows = try database.all(
                """
                SELECT bid, digest FROM blob WHERE prune_age IS NOT NULL AND has_file = 1 AND blob.state = 1 AND pinned = 0
                    AND (? OR prune_age <= ?) AND (offset_bytes = size_bytes OR NOT EXISTS (
                        SELECT 1 FROM blob_link l JOIN mutation m ON m.seq = l.seq WHERE l.bid = blob.bid AND m.state < 6))
                ORDER BY prune_age LIMIT 100
                """, .bool(isShort), .int(age)
            ) { row throws(StoreError) in (bid: row.int(0), digest: BlobDigest(hex: row.text(1))) }
            if isShort, rows.isEmpty {
                // Files from the hub have no age; those that were not used for longest go.
                rows = try database.all(
                    """
                    SELECT bid, digest FROM blob WHERE state = 1 AND has_file = 1 AND pinned = 0 AND fetch = 1
                    ORDER BY used_age, bid LIMIT 100
                    """
                ) { row throws(StoreError) in (bid: row.int(0), digest: BlobDigest(hex: row.text(1))) }
            }
            for row in rows {
                try database.run("UPDATE blob SET has_file = 0, prune_age = coalesce(prune_age, ?) WHERE bid = ?", .int(age), .int(row.bid))
            }
            try forgetBlobs()
            return rows.compactMap(\.digest)
        }
    }

    /// Forgets rows of files that are at the server, whose bytes have not been here for ``tombstonesKeptFor``, and that no waiting change
    /// shows. Each call checks one slice of the table, in turn.
    private func forgetBlobs() throws(StoreError) {
        let rows = try database.all(
            """
            SELECT bid, state = 1 AND has_file = 0 AND pinned = 0 AND coalesce(fetch, 1) <> 0 AND prune_age < ? FROM blob
            WHERE bid > ? ORDER BY bid LIMIT ?
            """,
            .int(age - Self.tombstonesKeptFor.milliseconds), .int(sweep.blobs), .int(Self.sliceRows)
        ) { row throws(StoreError) in (bid: row.int(0), isOver: row.bool(1)) }
        // Ids are used once: the last row stays, because a rescued database continues after it.
        let last = try database.number("SELECT max(bid) FROM blob")
        sweep.blobs = rows.count == Self.sliceRows ? rows.last?.bid ?? 0 : 0
        for row in rows where row.isOver && row.bid != last {
            guard try !isNamedByOpenWork(BlobID(row.bid)) else { continue }
            try database.run("DELETE FROM blob_link WHERE bid = ?", .int(row.bid))
            try database.run("DELETE FROM blob WHERE bid = ?", .int(row.bid))
        }
    }

    /// Returns whether a mutation of this device names the file that is not over: one that waits, or that a person has to decide about.
    func isNamedByOpenWork(_ id: BlobID) throws(StoreError) -> Bool {
        try database.number(
            "SELECT 1 FROM blob_link l JOIN mutation m ON m.seq = l.seq WHERE l.bid = ? AND m.state < 6 LIMIT 1", .int(id.number)) != nil
    }

    private func write(_ progress: UploadProgress, _ id: BlobID) throws(StoreError) {
        try database.run(
            """
            UPDATE blob SET offset_bytes = min(max(?, 0), size_bytes), attempts = ?, restarts = ?, expires_ms = ?,
                upload_url = ?, problem = ? WHERE bid = ? AND state = 0
            """, .int(progress.offset), .int(progress.attempts), .int(progress.restarts),
            .optional(progress.expiresAt?.milliseconds), .optional(progress.url), .optional(progress.error), .int(id.number))
    }

    func blobRow(_ id: BlobID) throws(StoreError) -> BlobRow {
        guard let row = try reads.blob(id) else { throw StoreProblem.notFound("blob \(id)", list: "agentctl blobs list") }
        return row
    }

    // MARK: - Links to records

    /// Puts the placeholders of the files that a mutation names into its data.
    ///
    /// - Returns: The files that the mutation must wait for, where its backend needs them first (`blobs.gate: before`).
    /// - Throws: `.refused` for a file that is unknown here.
    func showBlobs(in mutation: inout NewMutation) throws(StoreError) -> [BlobID] {
        var waits: [BlobID] = []
        var shown: [String: [JSON]] = [:]
        for (index, json) in mutation.blobs.enumerated() {
            guard let object = json.object, let field = object["field"]?.text, let name = object["blob"]?.text else { continue }
            guard mutation.action != .delete else { throw StoreProblem.validation("/blobs", "a delete shows no files") }
            guard let id = BlobID(name), let row = try reads.blob(id) else {
                throw StoreProblem.validation("/blobs/\(index)/blob", "there is no blob \(name)")
            }
            guard row.state != .missing else {
                throw StoreProblem.validation("/blobs/\(index)/blob", "the bytes of the blob \(name) are gone")
            }
            let placeholder = Placeholder(
                digest: row.digest, size: row.size, type: row.type, isUploaded: row.state == .uploaded,
                remoteURL: row.state == .uploaded ? row.progress.url : nil)
            shown[field, default: []].append(placeholder.json)
            if gatesBlobs, row.state != .uploaded { waits.append(id) }
        }
        for (field, values) in shown.sorted(by: { $0.key < $1.key }) {
            mutation.data[field] = values.count == 1 ? values[0] : .array(values)
        }
        return waits
    }

    /// Records which fields show which files. A critical mutation makes its files urgent.
    func linkBlobs(_ mutation: NewMutation, _ record: RecordName, seq: Int64, priority: Priority) throws(StoreError) {
        for json in mutation.blobs {
            guard let field = json.object?["field"]?.text, let id = json.object?["blob"]?.text.flatMap({ BlobID($0) }) else { continue }
            try database.run(
                """
                INSERT INTO blob_link (bid, entity, id, field, seq) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET seq = excluded.seq
                """, .int(id.number), .text(record.entity.text), .text(record.id.text), .text(field), .int(seq))
            guard priority == .critical else { continue }
            try database.run("UPDATE blob SET critical = 1 WHERE bid = ?", .int(id.number))
        }
    }

    /// Replaces a record's placeholders once all of its files are uploaded, with one update for all of them (PROTOCOL H2). A second call
    /// finds nothing to do.
    private func reconcile(_ record: RecordName) throws(StoreError) -> Bool {
        guard let eid = names.entities[record.entity], let row = try MirrorRow.find(database, eid: eid, id: record.id.text),
            !row.isDamaged, let document = row.document.flatMap({ StoredJSON.read($0)?.object })
        else { return false }
        var data = JSONObject()
        for (field, digest) in Placeholder.waiting(in: document) {
            guard let blob = try reads.blob(digest) else { continue }
            // A file is still to come: the update waits for it.
            guard blob.state == .uploaded else { return false }
            let value = data[field] ?? document[field] ?? .null
            data[field] = Placeholder.flipped(value, digest, remoteURL: blob.progress.url) ?? value
        }
        guard !data.isEmpty else { return false }
        var update = NewMutation(.update, record.entity, record.id, data: data, size: data.json.utf8.count)
        // The document is in the present version, whatever the apps of this device write.
        update.schema = rules[record.entity]?.version
        do throws(StoreError) {
            _ = try accept(update, by: Requester(app: AppName(trusted: "agent"), uid: 0))
            return true
        } catch {
            // Devices may not change the entity any more; the file is safe all the same.
            guard error.problem != nil else { throw error }
            return false
        }
    }
}
