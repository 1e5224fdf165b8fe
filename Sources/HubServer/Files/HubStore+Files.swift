import SyncCore

/// Uploads, blobs and the records that wait for them (PROTOCOL A15).
extension HubStore {
    struct UploadRow {
        var id: String
        var device: DeviceID
        var length: Int64
        /// Number of bytes that are on disk and synced.
        var offset: Int64
        /// The digest of the whole file that the client announced.
        var expected: BlobDigest?
        /// The digest of the whole file, once it is complete.
        var digest: BlobDigest?
        var type: String
        var metadata: String
        var link: BlobLink?
        var expiresAt: Timestamp
    }

    /// - Parameter device: Its uploads alone are found; `nil`: those of all devices.
    func upload(_ id: String, of device: DeviceID?) throws(DatabaseError) -> UploadRow? {
        try database.first(
            """
            SELECT device, length, offset_bytes, expected, digest, type, metadata, entity, record_id, field, expires_at_ms
            FROM upload WHERE id = ?1 AND (CAST(?2 AS TEXT) IS NULL OR device = ?2)
            """, .text(id), DatabaseValue(device?.text)
        ) { row in
            var link: BlobLink?
            if let entity = row.optionalText(7), let record = row.optionalText(8), let field = row.optionalText(9) {
                link = BlobLink(RecordName(EntityName(trusted: entity), RecordID(trusted: record)), field: field)
            }
            return UploadRow(
                id: id, device: DeviceID(trusted: row.text(0)), length: row.int(1), offset: row.int(2),
                expected: row.optionalText(3).flatMap { BlobDigest(hex: $0) },
                digest: row.optionalText(4).flatMap { BlobDigest(hex: $0) }, type: row.text(5), metadata: row.text(6), link: link,
                expiresAt: Timestamp(milliseconds: row.int(10)))
        }
    }

    func insert(_ row: UploadRow, at now: Timestamp) throws(DatabaseError) {
        try database.run(
            """
            INSERT INTO upload(id, device, length, offset_bytes, expected, type, metadata, entity, record_id, field, created_at_ms,
              expires_at_ms) VALUES(?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?)
            """, .text(row.id), .text(row.device.text), .int(row.length), DatabaseValue(row.expected?.hex), .text(row.type),
            .text(row.metadata), DatabaseValue(row.link?.record.entity.text), DatabaseValue(row.link?.record.id.text),
            DatabaseValue(row.link?.field), .int(now.milliseconds), .int(row.expiresAt.milliseconds))
    }

    func advanceUpload(_ id: String, to offset: Int64, expiresAt: Timestamp) throws(DatabaseError) {
        try database.run(
            "UPDATE upload SET offset_bytes = ?, expires_at_ms = ? WHERE id = ? AND digest IS NULL", .int(offset),
            .int(expiresAt.milliseconds), .text(id))
    }

    func deleteUpload(_ id: String) throws(DatabaseError) {
        try database.run("DELETE FROM upload WHERE id = ?", .text(id))
    }

    /// Records that an upload is complete.
    func complete(_ upload: UploadRow, _ digest: BlobDigest, at now: Timestamp) throws(DatabaseError) {
        try database.run("UPDATE upload SET offset_bytes = length, digest = ? WHERE id = ?", .text(digest.hex), .text(upload.id))
        try database.run(
            "INSERT INTO blob(digest, size_bytes, type, created_at_ms) VALUES(?, ?, ?, ?) ON CONFLICT DO NOTHING", .text(digest.hex),
            .int(upload.length), .text(upload.type), .int(now.milliseconds))
        try database.run(
            "INSERT INTO blob_owner(device, digest) VALUES(?, ?) ON CONFLICT DO NOTHING", .text(upload.device.text),
            .text(digest.hex))
    }

    func expiredUploads(before: Timestamp, limit: Int) throws(DatabaseError) -> [String] {
        try database.all(
            "SELECT id FROM upload WHERE expires_at_ms < ? LIMIT ?", .int(before.milliseconds), .int(Int64(limit))
        ) { $0.text(0) }
    }

    /// All uploads by id; the value is `true` for those that are complete.
    func uploads() throws(DatabaseError) -> [String: Bool] {
        let rows = try database.all("SELECT id, CASE WHEN digest IS NULL THEN 0 ELSE 1 END FROM upload") { ($0.text(0), $0.int(1) == 1) }
        return Dictionary(rows) { first, _ in first }
    }

    /// Bytes and number of open uploads that count against a device's limits.
    func filesUsed(by device: DeviceID) throws(DatabaseError) -> (bytes: Int64, open: Int64) {
        let kept = try database.first(
            "SELECT coalesce(sum(b.size_bytes), 0) FROM blob_owner o JOIN blob b ON b.digest = o.digest WHERE o.device = ?",
            .text(device.text)
        ) { $0.int(0) }
        let coming = try database.first(
            "SELECT coalesce(sum(length), 0), count(*) FROM upload WHERE device = ? AND digest IS NULL", .text(device.text)
        ) { (bytes: $0.int(0), count: $0.int(1)) }
        return ((kept ?? 0).saturatingAdd(coming?.bytes ?? 0), coming?.count ?? 0)
    }

    // MARK: Blobs

    /// A file of any device.
    func blob(_ digest: BlobDigest) throws(DatabaseError) -> (size: Int64, type: String)? {
        try database.first("SELECT size_bytes, type FROM blob WHERE digest = ?", .text(digest.hex)) { ($0.int(0), $0.text(1)) }
    }

    /// A file that the device has uploaded. The search begins with the device's own files, so that a file of others and one that is not
    /// there take the same steps.
    func blob(_ digest: BlobDigest, of device: DeviceID) throws(DatabaseError) -> (size: Int64, type: String)? {
        let isOwn = try database.first(
            "SELECT 1 FROM blob_owner WHERE device = ? AND digest = ?", .text(device.text), .text(digest.hex)
        ) { _ in true }
        return isOwn == true ? try blob(digest) : nil
    }

    // MARK: Placeholders

    /// Records that the record shows a file whose bytes are not here yet.
    func addWaiting(_ name: RecordName, for digest: BlobDigest) throws(DatabaseError) {
        try database.run(
            "INSERT INTO blob_wait(digest, entity, record_id) VALUES(?, ?, ?) ON CONFLICT DO NOTHING", .text(digest.hex),
            .text(name.entity.text), .text(name.id.text))
    }

    func waiting(for digest: BlobDigest) throws(DatabaseError) -> [RecordName] {
        try database.all(
            "SELECT entity, record_id FROM blob_wait WHERE digest = ? ORDER BY entity, record_id", .text(digest.hex)
        ) { RecordName(EntityName(trusted: $0.text(0)), RecordID(trusted: $0.text(1))) }
    }

    func forgetWaiting(_ name: RecordName, for digest: BlobDigest) throws(DatabaseError) {
        try database.run(
            "DELETE FROM blob_wait WHERE digest = ? AND entity = ? AND record_id = ?", .text(digest.hex), .text(name.entity.text),
            .text(name.id.text))
    }
}
