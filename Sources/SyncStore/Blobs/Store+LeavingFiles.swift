import SyncCore
import SyncSQLite

// Files of records that leave the share of this device (PROTOCOL A16, H2). Downloads are cut, and fetched files leave, with the records, in
// one transaction. The bytes of a file are removed after its commit. If a crash comes before that, the next start finds bytes without a
// row that claims them, and removes them as well (``Store/adoptFetched(_:size:at:)``).
//
// Files that apps of this device have brought stay: unsent work may need them, and the hub gives them to this device in any case.

/// Files of the records that have left the share in the present transaction.
struct LeavingFiles {
    /// Downloads that were cut.
    var cut: [CutDownload] = []
    /// Fetched files. Whether they stay is decided when all records of the transaction are written.
    var fetched: Set<BlobID> = []
}

extension Store {
    /// Cuts the downloads of files that no record shows any more, because these records have left the share of this device. The same holds
    /// for what came of a download that was set aside. A later try asks the hub again, which decides. Fetched files are noted.
    ///
    /// - Precondition: In the transaction that removes the records, after they are written.
    func leaveFiles(of left: [MirrorRow]) throws(StoreError) {
        for row in left {
            let found = try database.all(
                """
                SELECT DISTINCT b.bid, b.digest, b.fetch FROM blob_link l JOIN blob b ON b.bid = l.bid
                WHERE l.entity = ? AND l.id = ? AND (b.fetch IN (0, 2) OR b.fetch = 1 AND (b.has_file = 1 OR b.pinned = 1))
                """, .text(names.entity(row.eid).text), .text(row.id)
            ) { row throws(StoreError) in (id: BlobID(row.int(0)), digest: BlobDigest(hex: row.text(1)), isFetched: row.int(2) == 1) }
            for file in found {
                if file.isFetched {
                    leaving.fetched.insert(file.id)
                    continue
                }
                guard let digest = file.digest, try reads.stillShowing(digest, of: reads.links(of: file.id)).isEmpty else { continue }
                // The pin of such a file ends with its record.
                try database.run(
                    """
                    UPDATE blob SET fetch = 2, asked = 0, pinned = 0, got_bytes = 0, attempts = 0, restarts = 0, problem = ?, rearm_age = ?
                    WHERE bid = ?
                    """, .text(CutDownload.why), .int(age + Self.blobRearmedAfter.milliseconds), .int(file.id.number))
                leaving.cut.append(CutDownload(file.id, digest))
            }
        }
    }

    /// Lets the fetched files leave that only records showed which have left the share of this device. Their pins end as well.
    ///
    /// Links decide, and they need not name every record that shows a file: a record that was here before the file was wanted has none. To
    /// find it, all documents would have to be read in the transaction. Its file is fetched again when it is asked for.
    ///
    /// The bytes stay, without the pin, while unsent work names the file or the left record still shows it by work that is on its way to
    /// the hub. They leave with ``dropUnshown(at:)`` when that work is over.
    ///
    /// - Precondition: In the transaction that removes the records, after all records of the transaction are written.
    func dropLeavingFiles(_ summary: inout PullSummary) throws(StoreError) {
        summary.cutDownloads = leaving.cut
        for id in leaving.fetched.sorted() {
            guard let row = try reads.blob(id), row.fetch == .fetched, try !isShownByOthers(row) else { continue }
            try database.run("UPDATE blob SET pinned = 0 WHERE bid = ? AND pinned = 1", .int(id.number))
            guard row.hasFile, try reads.stillShowing(row.digest, of: row.links).isEmpty, try !isNamedByOpenWork(id) else { continue }
            try dropCopy(id, why: CutDownload.why)
            summary.droppedFiles.append(row.digest)
        }
    }

    /// Returns whether a record shows the file that has not left the share of this device, and that the file is linked to.
    private func isShownByOthers(_ file: BlobRow) throws(StoreError) -> Bool {
        for link in try reads.stillShowing(file.digest, of: file.links) {
            guard let eid = names.entities[link.record.entity] else { continue }
            let row = try MirrorRow.find(database, eid: eid, id: link.record.id.text)
            if row?.isRevoked == false { return true }
        }
        return false
    }
}
