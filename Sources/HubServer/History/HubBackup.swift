package import SyncCore
import SyncSQLite

/// Backup copies of a hub's SQLite file: made beside a running server, checked, and prepared to replace a hub's database.
package enum HubBackup {
    /// The contents of a copy.
    package struct Facts: Sendable, Hashable {
        package var epoch: String
        package var head: Int64
        package var schema: Int64
        /// Files that its rows refer to.
        package var blobs: [Blob]

        package struct Blob: Sendable, Hashable {
            package var digest: BlobDigest
            package var size: Int64
        }
    }

    /// Copies the database as it is at one moment, its log included. Other writers are not delayed meanwhile, but the log grows until the
    /// copy is complete.
    ///
    /// - Parameter copy: Must not exist. It is one complete file when this returns, without a log of its own.
    /// - Throws: `.database` or `.foreignDatabase`.
    package static func copy(_ file: String, to copy: String) throws(HubError) -> Facts {
        do throws(DatabaseError) {
            let source = try SQLiteSchema.openForReading(.readOnly(file))
            let target = try SQLiteDatabase(.file(copy))
            try source.copy(into: target)
            // The copy has the header of the original, which names a log.
            try target.execute("PRAGMA synchronous=FULL; PRAGMA journal_mode=DELETE")
            return try facts(of: target, at: copy)
        } catch {
            throw HubError(error)
        }
    }

    /// Checks that a copy is complete and belongs to a hub that this program understands. It changes nothing.
    package static func check(_ copy: String) throws(HubError) -> Facts {
        do throws(DatabaseError) {
            return try facts(of: try SQLiteDatabase(.readOnly(copy)), at: copy)
        } catch {
            throw HubError(error)
        }
    }

    /// Begins a new history in a copy that is about to replace a hub's database: devices then offer again the changes that it does not
    /// know.
    ///
    /// Incomplete uploads are forgotten: their bytes are in no backup, and devices begin them again.
    package static func renew(_ copy: String, random: SeededRandom) throws(HubError) -> HubMark {
        let hub = try Hub(.file(copy), settings: .adopting, random: random)
        try hub.transact { () throws(DatabaseError) in
            try hub.store.database.run("DELETE FROM upload WHERE digest IS NULL")
            try hub.renewEpoch(.requested)
        }
        hub.checkpoint()
        return hub.mark
    }

    /// Gives a copy without seals its seals, whatever its size: no device waits for it. SQLite makes a temporary copy of it in the folder
    /// of `SQLITE_TMPDIR`.
    ///
    /// - Returns: `false` when there is no room for that; the copy is as it was then.
    package static func seal(_ copy: String) throws(HubError) -> Bool {
        do throws(DatabaseError) {
            let database = try SQLiteSchema.open(.file(copy))
            // In memory the temporary copy would be as large as the database.
            try database.execute("PRAGMA temp_store=FILE")
            try SQLiteSchema.sealPages(database, copy, sizeMax: .max)
            return database.reservedBytes == PageSeal.bytes
        } catch {
            throw HubError(error)
        }
    }

    private static func facts(of database: SQLiteDatabase, at path: String) throws(DatabaseError) -> Facts {
        func damaged(_ detail: String) -> DatabaseError { DatabaseError(.corrupt, doing: "check \(path)", detail: detail) }
        let name = try database.number("PRAGMA application_id")
        guard name == SQLiteSchema.applicationID else {
            throw DatabaseError(.foreign, doing: "check \(path)", detail: "it is not the database of a hub")
        }
        let schema = try database.number("PRAGMA user_version")
        guard schema <= SQLiteSchema.version else {
            throw DatabaseError(.foreign, doing: "check \(path)", detail: SQLiteSchema.newer(schema))
        }
        try SQLiteSchema.checkHeader(database, path)
        let verdict = try database.text("PRAGMA quick_check(1)")
        guard verdict == "ok" else { throw damaged(verdict) }
        let row = try database.first("SELECT epoch, head FROM hub") { ($0.text(0), $0.int(1)) }
        guard let row else { throw damaged("the hub's own row is missing") }
        var blobs: [Facts.Blob] = []
        // Before schema 3 there were no files.
        if try database.number("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'blob'") > 0 {
            try database.read("SELECT digest, size_bytes FROM blob ORDER BY digest", []) { row in
                if let digest = BlobDigest(hex: row.text(0)) { blobs.append(Facts.Blob(digest: digest, size: row.int(1))) }
                return true
            }
        }
        return Facts(epoch: row.0, head: row.1, schema: schema, blobs: blobs)
    }
}
