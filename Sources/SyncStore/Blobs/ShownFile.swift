package import SyncCore
import SyncSQLite

/// A file as a record of the mirror shows it.
package struct ShownFile: Hashable, Sendable {
    package var digest: BlobDigest
    /// Size by the record, bytes.
    package var size: Int64
    package var type: String
    /// The record shows it as arrived at the hub.
    package var isUploaded: Bool
    package var link: BlobLink
}

/// One slice of a search through the mirror.
package struct ShownFileSlice: Hashable, Sendable {
    /// The first record that shows the file as arrived; without one, a record that shows it as still to come.
    package var file: ShownFile?
    /// The `after` of the next slice; `nil` when the search is over.
    package var next: Int64?
}

extension StoreReads {
    /// Number of records of one slice of a search. A read must be short, because the log of the database cannot shrink during it.
    package static let sliceOfShown = 5_000

    /// Searches the mirror for a record that shows the file. No index leads there: a file is searched for once, and its row keeps the link
    /// from then on.
    ///
    /// - Parameters:
    ///   - entities: Entities that the caller may read; `nil`: all.
    ///   - after: The `next` of the slice before, 0 at first.
    package func slice(showing digest: BlobDigest, entities: Set<EntityName>?, after: Int64) throws(StoreError) -> ShownFileSlice {
        var (rows, last) = (0, after)
        var found: ShownFile?
        try database.each(
            """
            SELECT rid, name, id, CASE WHEN instr(document, ?1) > 0 THEN document END FROM (
                SELECT r.rid AS rid, e.name AS name, r.id AS id, coalesce(r.view, r.base) AS document FROM record r
                JOIN entity e ON e.eid = r.eid WHERE r.rid > ?2 AND r.deleted = 0 ORDER BY r.rid LIMIT ?3)
            """, .text(digest.description), .int(after), .int(Self.sliceOfShown), while: { found?.isUploaded != true }
        ) { row throws(StoreError) in
            (rows, last) = (rows + 1, max(last, row.int(0)))
            let entity = EntityName(trusted: row.text(1))
            guard entities?.contains(entity) ?? true, let text = row.optionalText(3), let document = StoredJSON.read(text)?.object else {
                return
            }
            let name = RecordName(entity, RecordID(trusted: row.text(2)))
            for (field, file) in Placeholder.shown(in: document) where file.digest == digest && (found == nil || file.isUploaded) {
                found = ShownFile(
                    digest: digest, size: file.size, type: file.type, isUploaded: file.isUploaded, link: BlobLink(name, field: field))
            }
        }
        let isOver = rows < Self.sliceOfShown || found?.isUploaded == true
        return ShownFileSlice(file: found, next: isOver ? nil : last)
    }

    /// The fields of those that still show the file. A record may have been changed, deleted or taken from this device since.
    package func stillShowing(_ digest: BlobDigest, of links: [BlobLink]) throws(StoreError) -> [BlobLink] {
        var found: [BlobLink] = []
        for link in links {
            let text = try database.first(
                """
                SELECT coalesce(r.view, r.base) FROM record r JOIN entity e ON e.eid = r.eid
                WHERE e.name = ? AND r.id = ? AND r.deleted = 0
                """, .text(link.record.entity.text), .text(link.record.id.text)
            ) { row throws(StoreError) in row.optionalText(0) }
            guard let text = text ?? nil, let document = StoredJSON.read(text)?.object else { continue }
            if Placeholder.shown(in: document).contains(where: { $0.file.digest == digest }) { found.append(link) }
        }
        return found
    }

    /// Files that records of these entities show as arrived and that no row knows, one slice of the mirror at a time.
    package func slice(ofUnknownIn entities: Set<EntityName>, after: Int64) throws(StoreError) -> (files: [ShownFile], next: Int64?) {
        var (rows, last) = (0, after)
        var found: [ShownFile] = []
        try database.each(
            """
            SELECT rid, name, id, CASE WHEN instr(document, '$blob') > 0 THEN document END FROM (
                SELECT r.rid AS rid, e.name AS name, r.id AS id, coalesce(r.view, r.base) AS document FROM record r
                JOIN entity e ON e.eid = r.eid WHERE r.rid > ?1 AND r.deleted = 0 ORDER BY r.rid LIMIT ?2)
            """, .int(after), .int(Self.sliceOfShown)
        ) { row throws(StoreError) in
            (rows, last) = (rows + 1, max(last, row.int(0)))
            let entity = EntityName(trusted: row.text(1))
            guard entities.contains(entity), let text = row.optionalText(3), let document = StoredJSON.read(text)?.object else { return }
            let name = RecordName(entity, RecordID(trusted: row.text(2)))
            for (field, file) in Placeholder.shown(in: document) where file.isUploaded && file.remoteURL == nil {
                found.append(
                    ShownFile(digest: file.digest, size: file.size, type: file.type, isUploaded: true, link: BlobLink(name, field: field)))
            }
        }
        var unknown: [ShownFile] = []
        for file in found where try blob(file.digest) == nil { unknown.append(file) }
        return (unknown, rows < Self.sliceOfShown ? nil : last)
    }
}
