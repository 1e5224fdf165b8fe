package import SyncCore
import SyncSQLite

/// One row of `blob` with the places that show the file.
package struct BlobRow: Hashable, Sendable {
    package var id: BlobID
    package var digest: BlobDigest
    /// Bytes.
    package var size: Int64
    package var type: String
    package var filename: String
    /// The stored state: `pending`, `uploaded`, `failed` or `missing`.
    package var state: BlobState
    package var isCritical: Bool
    package var app: AppName
    package var createdAt: Timestamp
    package var doneAt: Timestamp?
    /// The server has shown that it has exactly these bytes.
    package var isVerified: Bool
    /// The bytes are on this device.
    package var hasFile: Bool
    package var progress: UploadProgress
    /// The meaning of ``state``, ``hasFile`` and the column `fetch` together.
    package var standing: BlobStanding
    /// Number of bytes of the part that are on the medium.
    package var gotBytes: Int64 = 0
    /// Time at which it was last asked for.
    package var wantedAt: Timestamp?
    /// An app or a person has asked for it.
    package var isAsked = false
    /// Its bytes stay on this device, whatever needs room.
    package var isPinned = false
    package var links: [BlobLink]
    /// ``UploadJob/named``, of a file that waits for its upload.
    var named: Int64 = 0

    /// The state of its way from the hub to this device; `nil` for a file that was never asked of the hub.
    package var fetch: FetchState? { standing.fetch }

    /// The download of a wanted file; `nil` for any other.
    package var download: DownloadJob? {
        guard standing == .fetching else { return nil }
        var stored = DownloadProgress()
        // A row that says something impossible begins anew.
        stored.offset = gotBytes <= DownloadJob.sizeMax ? gotBytes : 0
        stored.attempts = progress.attempts
        stored.restarts = progress.restarts
        stored.error = progress.error
        return DownloadJob(
            id: id, digest: digest, size: min(size, DownloadJob.sizeMax), wantedAt: wantedAt ?? createdAt, isAsked: isAsked,
            progress: stored)
    }

    package var job: UploadJob {
        var job = UploadJob(
            id: id, digest: digest, size: size, type: type, filename: filename, createdAt: createdAt, isCritical: isCritical,
            link: links.first, progress: progress)
        job.named = named
        return job
    }
}

/// Blobs by state, for status and metrics.
package struct BlobCounts: Hashable, Sendable {
    package var pending: Int64 = 0
    package var uploaded: Int64 = 0
    package var failed: Int64 = 0
    package var missing: Int64 = 0
    /// Files that come from the hub, are wanted, and are not here yet.
    package var fetching: Int64 = 0
    package var fetched: Int64 = 0
    /// Files from the hub that were set aside.
    package var fetchFailed: Int64 = 0
    /// Bytes that are still to come.
    package var fetchingBytes: Int64 = 0
    /// Bytes that are not uploaded yet.
    package var pendingBytes: Int64 = 0
    /// Bytes that are kept on this device.
    package var keptBytes: Int64 = 0

    /// Number of all known files.
    var files: Int64 { pending + uploaded + failed + missing + fetching + fetched + fetchFailed }
}

/// The files of a list.
package enum BlobFilter: Hashable, Sendable {
    case upload(BlobState)
    case fetch(FetchState)

    var sql: String {
        switch self {
        case .upload(let state): "(state = \(state.number) AND fetch IS NULL)"
        case .fetch(let state): "fetch = \(state.rawValue)"
        }
    }
}

extension BlobCounts {
    /// - Parameters:
    ///   - pendingBytes: Bytes that are still to be uploaded.
    ///   - missingBytes: Bytes that are still to come.
    fileprivate mutating func count(_ standing: BlobStanding, _ number: Int64, pendingBytes: Int64, missingBytes: Int64) {
        switch standing {
        case .pending:
            pending = number
            self.pendingBytes = pendingBytes
        case .uploaded: uploaded = number
        case .uploadFailed: failed = number
        case .missing: missing = number
        case .fetching:
            fetching = fetching.saturatingAdd(number)
            fetchingBytes = fetchingBytes.saturatingAdd(missingBytes)
        case .fetched: fetched = fetched.saturatingAdd(number)
        case .fetchFailed: fetchFailed = fetchFailed.saturatingAdd(number)
        }
    }
}

extension StoreReads {
    package func blob(_ id: BlobID) throws(StoreError) -> BlobRow? {
        try blobs("WHERE bid = \(id.number)", limit: 1).first
    }

    package func blob(_ digest: BlobDigest) throws(StoreError) -> BlobRow? {
        let number = try database.number("SELECT bid FROM blob WHERE digest = ?", .text(digest.hex))
        return try number.flatMap { number throws(StoreError) in try blob(BlobID(number)) }
    }

    /// - Parameters:
    ///   - filters: Files to include; `nil`: all.
    ///   - after: Returns ids above this one, in ascending order.
    package func blobs(
        _ filters: Set<BlobFilter>?, entities: Set<EntityName>? = nil, after: Int64, limit: Int
    ) throws(StoreError) -> [BlobRow] {
        var clause = "WHERE bid > \(max(0, after))"
        if let filters { clause += " AND (\(filters.map(\.sql).sorted().joined(separator: " OR ")))" }
        let rows = try blobs(clause + " ORDER BY bid", limit: limit)
        guard let entities else { return rows }
        // Names of entities come from the access rules and never reach the statement.
        return rows.filter { row in row.links.isEmpty || row.links.contains { entities.contains($0.record.entity) } }
    }

    /// Files that wait for their upload, in the order of the uploads.
    package func waitingBlobs(limit: Int) throws(StoreError) -> [UploadJob] {
        try blobs("WHERE \(StateSet.pendingBlob.sql) ORDER BY critical DESC, size_bytes - offset_bytes, bid", limit: limit).map(\.job)
    }

    package func blobCounts() throws(StoreError) -> BlobCounts {
        var counts = BlobCounts()
        try database.each(
            """
            SELECT state, count(*), sum(size_bytes - offset_bytes), sum(CASE WHEN has_file = 1 THEN size_bytes ELSE 0 END), fetch,
                sum(max(0, size_bytes - got_bytes))
            FROM blob GROUP BY state, fetch
            """
        ) { row throws(StoreError) in
            let number = row.int(1)
            counts.keptBytes += row.int(3)
            // A count has nothing to say about the bytes here.
            guard let standing = BlobStanding(state: row.int(0), fetch: row.optionalInt(4), hasFile: false) else { return }
            counts.count(standing, number, pendingBytes: row.int(2), missingBytes: row.int(5))
        }
        return counts
    }

    /// Files that are wanted from the hub, in the order of the downloads.
    package func wantedBlobs(limit: Int) throws(StoreError) -> [DownloadJob] {
        try blobs("WHERE fetch = 0 ORDER BY asked DESC, size_bytes - got_bytes, bid", limit: limit).compactMap(\.download)
    }

    /// Digests of the files that have a part on this device.
    package func partDigests() throws(StoreError) -> [BlobDigest] {
        try database.all("SELECT digest FROM blob WHERE fetch IN (0, 2) AND got_bytes > 0") { row throws(StoreError) in
            BlobDigest(hex: row.text(0))
        }.compactMap { $0 }
    }

    /// Digests of the files whose bytes should be on this device.
    package func keptDigests() throws(StoreError) -> Set<BlobDigest> {
        Set(
            try database.all("SELECT digest FROM blob WHERE has_file = 1") { row throws(StoreError) in BlobDigest(hex: row.text(0)) }
                .compactMap { $0 })
    }

    /// The file that a mutation waits for; `nil` if there is none.
    package func blobWait(of key: MutationKey) throws(StoreError) -> BlobID? {
        guard let seq = UUIDv7.carried(in: key.text) else { return nil }
        let on = try database.number("SELECT on_seq FROM tie WHERE seq = ? AND on_seq < 0 ORDER BY on_seq DESC LIMIT 1", .int(seq))
        return on.map { BlobID(-$0) }
    }

    private func blobs(_ clause: String, limit: Int) throws(StoreError) -> [BlobRow] {
        let statement = try database.composed(
            """
            SELECT bid, digest, size_bytes, state, critical, aid, created_ms, offset_bytes, attempts, restarts, expires_ms,
                done_ms, has_file, is_verified, type, filename, upload_url, problem,
                (SELECT name FROM app a WHERE a.aid = blob.aid), fetch, got_bytes, wanted_ms, asked, pinned
            FROM blob \(clause) LIMIT \(max(0, limit))
            """)
        defer { statement.reset() }
        var rows: [BlobRow] = []
        while try database.step(statement) {
            guard let digest = BlobDigest(hex: statement.text(1)), let state = BlobState(number: statement.int(3)),
                let standing = BlobStanding(
                    state: statement.int(3), fetch: statement.optionalInt(19), hasFile: statement.bool(12))
            else { continue }
            var progress = UploadProgress()
            // If the upload was spared, the column has 0 sent bytes, and yet the hub has all of them.
            progress.offset = state == .uploaded ? statement.int(2) : statement.int(7)
            progress.attempts = Int(clamping: statement.int(8))
            progress.restarts = Int(clamping: statement.int(9))
            progress.expiresAt = statement.optionalInt(10).map { Timestamp(milliseconds: $0) }
            progress.url = statement.optionalText(16)
            progress.error = statement.optionalText(17)
            var row = BlobRow(
                id: BlobID(statement.int(0)), digest: digest, size: statement.int(2), type: statement.text(14),
                filename: statement.text(15), state: state, isCritical: statement.bool(4),
                app: AppName(trusted: statement.optionalText(18) ?? "unknown"),
                createdAt: Timestamp(milliseconds: statement.int(6)),
                doneAt: statement.optionalInt(11).map { Timestamp(milliseconds: $0) },
                isVerified: statement.bool(13), hasFile: statement.bool(12), progress: progress, standing: standing, links: [])
            row.gotBytes = max(0, statement.int(20))
            row.wantedAt = statement.optionalInt(21).map { Timestamp(milliseconds: $0) }
            (row.isAsked, row.isPinned) = (statement.bool(22), statement.bool(23))
            rows.append(row)
        }
        for index in rows.indices {
            rows[index].links = try links(of: rows[index].id)
            if rows[index].state == .pending { rows[index].named = try namingMark(of: rows[index].id) }
        }
        return rows
    }

    /// A mark of the changes that show a file and are over; 0: none. Each further one makes another mark, in whatever order they end: an
    /// urgent change may be over before an older one.
    func namingMark(of id: BlobID) throws(StoreError) -> Int64 {
        try database.number(
            """
            SELECT sum(l.seq * 2654435761 % 2147483647) FROM blob_link l LEFT JOIN mutation m ON m.seq = l.seq
            WHERE l.bid = ? AND (m.seq IS NULL OR m.state >= 6)
            """, .int(id.number)) ?? 0
    }

    func links(of id: BlobID) throws(StoreError) -> [BlobLink] {
        try database.all(
            "SELECT entity, id, field FROM blob_link WHERE bid = ? ORDER BY seq, field LIMIT 100", .int(id.number)
        ) { row throws(StoreError) in
            BlobLink(RecordName(EntityName(trusted: row.text(0)), RecordID(trusted: row.text(1))), field: row.text(2))
        }
    }
}
