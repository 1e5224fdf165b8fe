import SyncSQLite

// Every page of a hub's database ends with a seal, as in that of the agent (`Seal.h`): a flipped bit is never served as a record.
extension SQLiteSchema {
    /// Sets the form of the pages, which a database has from its first page on: the size, the room for seals, and `auto_vacuum`. After the
    /// switch to WAL, SQLite ignores size and `auto_vacuum` silently. A database in memory gets no room: nothing checks seals there.
    static func formPages(of database: SQLiteDatabase, isEmpty: Bool) throws(DatabaseError) {
        try database.execute("PRAGMA page_size=\(PageSeal.pageBytes)")
        // The first page says that there are seals. The line above would take the room back.
        if isEmpty { database.reserveSeals() }
        try database.execute("PRAGMA auto_vacuum=INCREMENTAL")
    }

    /// Gives a database without seals its seals. It is rewritten for that, which takes up to twice its size of room in addition: for a
    /// temporary copy, and for the log.
    ///
    /// - Parameter sizeMax: Bytes. A larger database stays without seals: a hub that starts must not keep its devices waiting.
    /// - Throws: `.corrupt` when the header contradicts the pages.
    static func sealPages(
        _ database: SQLiteDatabase, _ path: String, sizeMax: Int64 = PageSeal.sealedAtOnce
    ) throws(DatabaseError) {
        try checkHeader(database, path)
        if database.reservedBytes == 0 {
            let page = try database.number("PRAGMA page_size")
            guard page == Int64(PageSeal.pageBytes), try database.number("PRAGMA page_count") * page <= sizeMax else { return }
            // Without room the database stays as it was.
            guard try database.rewriteWithSeals() else { return }
        }
        // The header in the file is written last, and a power cut may have come before. A reader in another process may delay that; then a
        // later checkpoint writes it, and the pages are checked from then on.
        if !database.checksSeals { try database.writeBack() }
    }

    /// A header that no longer says that there are seals would hide all other damage.
    ///
    /// The transaction keeps the database at one moment: another process may be giving it seals.
    static func checkHeader(_ database: SQLiteDatabase, _ path: String) throws(DatabaseError) {
        try database.reading { () throws(DatabaseError) in
            _ = try database.number("PRAGMA schema_version")
            let reserved = database.reservedBytes
            if reserved == PageSeal.bytes { return }
            guard reserved == 0, !PageSeal.isAny(in: path) else {
                throw DatabaseError(
                    .corrupt, doing: "open \(path)",
                    detail: "its header says that \(reserved) bytes of each page are reserved, its pages differ")
            }
        }
    }
}
