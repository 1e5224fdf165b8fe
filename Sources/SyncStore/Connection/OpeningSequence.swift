import Glibc
import SyncCore
import SyncSQLite

/// Prepares a file as a writable database: settings, schema, and the state of the previous run.
///
/// The order is fixed. The application id is written before the journal mode becomes WAL, so the first page of the file itself always
/// identifies its program, and a foreign file is recognised before SQLite has touched it. `auto_vacuum` after WAL would be ignored
/// silently. Room for the seals of the pages (`Seal.h`) is reserved with the first page.
struct OpeningSequence {
    struct Result {
        var replica: ReplicaID
        var ages: AgeClock
        var clock: HybridClock
        var ledger: Ledger
        var names: Names
        var random: SeededRandom
        var opening: StoreOpening
    }

    /// Size above which a database is not checked before the first answer, only marked for a check, bytes.
    static let checkedAtOnce: Int64 = 32 << 20

    let database: Database
    let options: StoreOptions
    let now: Moment

    func run() throws(StoreError) -> Result {
        // A store that was dropped in the middle of an operation leaves its transaction open.
        if database.isInTransaction { try database.execute("ROLLBACK") }
        var isNew = try inspectFile()
        try database.execute("PRAGMA busy_timeout = \(Database.busyTimeoutMS)")
        // Power was lost while the first page was being written: SQLite rolls it back when it reads the file.
        if !isNew { isNew = try database.pragma("page_count") == "0" }
        if isNew, let marker = options.marker {
            throw StoreError(
                .lostDatabase, doing: place, detail: "there was a database with replica \(marker.replica), and it is gone")
        }
        try applySettings(isNew: isNew)
        try Schema.bringUpToDate(database)
        if database.path != nil { try sealPages() }
        return try takeStock(isNew: isNew)
    }

    private var place: String { "open \(database.path ?? "the database in memory")" }

    // MARK: - Owner of the file

    /// Reads the first 100 bytes of the file (https://www.sqlite.org/fileformat.html, 1.3), without SQLite.
    ///
    ///     offset  size  content
    ///          0    16  "SQLite format 3\0"
    ///         40     4  schema cookie, 0 until something is made
    ///         60     4  user version, big-endian
    ///         68     4  application id, big-endian
    ///
    /// - Returns: `true` when there is no database yet.
    private func inspectFile() throws(StoreError) -> Bool {
        guard let path = database.path else { return try database.pragma("user_version") == "0" }
        let header = try fileHeader(path)
        if header.isEmpty { return true }
        guard header.count == 100, header.starts(with: Array("SQLite format 3\0".utf8)) else {
            throw StoreError(.notADatabase, doing: place, detail: "the file has content that SQLite did not write")
        }
        func number(at offset: Int) -> UInt32 { header[offset..<(offset + 4)].reduce(0) { $0 << 8 | UInt32($1) } }
        let application = number(at: 68)
        // The file is still empty: a first start of an older version was cut off before it wrote the application id.
        if application == 0, number(at: 40) == 0, number(at: 60) == 0 { return true }
        guard application == UInt32(bitPattern: Schema.applicationID) else {
            throw StoreError(.foreignFile, doing: place, detail: "its application id is \(application)")
        }
        guard Int64(number(at: 60)) <= Schema.version else { throw newer(Int64(number(at: 60))) }
        return false
    }

    private func fileHeader(_ path: String) throws(StoreError) -> [UInt8] {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0 {
            if errno == ENOENT { return [] }
            throw StoreError(.cannotOpen, doing: place, detail: "errno \(errno)")
        }
        defer { Glibc.close(descriptor) }
        var header = [UInt8](repeating: 0, count: 100)
        let count = pread(descriptor, &header, header.count, 0)
        guard count >= 0 else {
            throw StoreError(.ioError, doing: place, detail: "errno \(errno)", result: SQLiteError.failedRead)
        }
        return Array(header.prefix(count))
    }

    private func newer(_ version: Int64) -> StoreError {
        StoreError(.newerSchema, doing: place, detail: "schema \(version), and this program knows \(Schema.version)")
    }

    // MARK: - Settings and schema

    private func applySettings(isNew: Bool) throws(StoreError) {
        if let version = Int64(try database.pragma("user_version")), !(0...Schema.version).contains(version) { throw newer(version) }
        // Each of these settings causes a write, even when it changes nothing.
        if isNew {
            database.reserveSeals()
            // An existing empty database gets its format by this alone.
            if try database.pragma("page_count") != "0" { try database.execute("PRAGMA auto_vacuum = INCREMENTAL; VACUUM") }
            try database.execute("PRAGMA page_size = 4096")
            // The line above has reset it.
            database.reserveSeals()
            // One transaction is used: the first page exists with its application id, or not at all.
            try database.execute(
                """
                BEGIN;
                PRAGMA auto_vacuum = INCREMENTAL;
                PRAGMA application_id = \(Schema.applicationID);
                COMMIT;
                """)
        }
        // Settings belong to a connection, and each of them makes SQLite prepare its statements again.
        if database.isSet { return }
        if database.path != nil {
            let mode = try database.pragma("journal_mode = WAL")
            guard mode == "wal" else {
                throw StoreError(.cannotOpen, doing: place, detail: "the file system gave journal mode \(mode)")
            }
        }
        try database.execute(
            """
            PRAGMA synchronous = FULL;
            PRAGMA foreign_keys = ON;
            PRAGMA temp_store = MEMORY;
            PRAGMA cache_size = -4000;
            PRAGMA mmap_size = 0;
            PRAGMA journal_size_limit = 16777216;
            PRAGMA wal_autocheckpoint = 0;
            PRAGMA cell_size_check = ON;
            PRAGMA trusted_schema = OFF;
            PRAGMA secure_delete = FAST;
            """)
        database.watchWAL()
        if options.ablations.contains(.commitUnsynced) { return try database.execute("PRAGMA synchronous = NORMAL") }
        let synchronous = try database.pragma("synchronous")
        guard synchronous == "2" else {
            throw StoreError(.notDurable, doing: place, detail: "synchronous is \(synchronous) instead of 2 (FULL)")
        }
        database.isSet = true
    }

    /// Gives every page a seal that shows whether it is intact. The fact is also stored inside (`Store.markInUse`), because the byte of the
    /// header that says so may be damaged too.
    private func sealPages() throws(StoreError) {
        let reserved = database.reservedBytes
        if reserved != PageSeal.bytes {
            guard reserved == 0, try MetaTable(database).text(MetaTable.sealed) == nil else {
                throw StoreError(.corrupt, doing: place, detail: "its header says that \(reserved) bytes of each page are reserved")
            }
            guard (Int64(try database.pragma("page_count")) ?? 0) * 4_096 <= PageSeal.sealedAtOnce else { return }
            do throws(StoreError) {
                database.reserveSeals()
                try database.execute("VACUUM")
            } catch {
                // Without room the database stays as it was: without seals, but with the checksums of its rows.
                guard error.code == .diskFull || error.code == .outOfMemory else { throw error }
                return
            }
        }
        // The header in the file is written last, and a power cut may have come before.
        if !database.checksSeals { try database.checkpoint(truncating: true) }
        guard database.checksSeals else {
            throw StoreError(.corrupt, doing: place, detail: "its header does not say what its pages do")
        }
    }

    // MARK: - Remains of the last run

    private func takeStock(isNew: Bool) throws(StoreError) -> Result {
        var opening = StoreOpening()
        let meta = MetaTable(database)
        // A crash between the schema and the first facts leaves tables without facts: that counts as new.
        let stored = try meta.text("replica")
        opening.isNew = isNew || stored == nil
        if stored == nil, let marker = options.marker {
            throw StoreError(
                .lostDatabase, doing: place, detail: "there was a database with replica \(marker.replica), and this one is empty")
        }
        let wasClosed = try meta.text("clean") == "1"
        opening.wasUnclean = !opening.isNew && !wasClosed
        if opening.wasUnclean { try check(&opening) }

        var ages = try meta.text("age").flatMap { AgeClock($0) } ?? AgeClock(bootID: options.bootID, at: now)
        ages.anchor(bootID: options.bootID, at: now)
        let ledger = try Ledger.load(from: database)
        // Different runs must not repeat each other's random numbers, even when a test gives them one seed.
        var random = SeededRandom(
            seed: options.seed ^ UInt64(truncatingIfNeeded: now.instant.nanoseconds) &* 0x9E37_79B9_7F4A_7C15
                ^ UInt64(truncatingIfNeeded: now.wall.milliseconds))
        let replica = stored.map { ReplicaID(trusted: $0) } ?? ReplicaID(trusted: UUIDv7.make(at: now.wall, using: &random))
        return Result(
            replica: replica, ages: ages, clock: try lastStamp(ledger), ledger: ledger,
            names: try Names.load(from: database), random: random, opening: opening)
    }

    private func check(_ opening: inout StoreOpening) throws(StoreError) {
        let pages = Int64(try database.pragma("page_count")) ?? 0
        guard pages * 4096 <= Self.checkedAtOnce else {
            opening.needsCheck = true
            return
        }
        let complaints = try StoreReads(database: database).check()
        guard complaints.isEmpty else {
            throw StoreError(.corrupt, doing: place, detail: complaints.prefix(3).joined(separator: "; "))
        }
    }

    /// The later of the stored stamp and those of the newest mutations.
    private func lastStamp(_ ledger: Ledger) throws(StoreError) -> HybridClock {
        let node = HybridClock.node(of: options.device)
        // A stamp beyond all plausible times, which an earlier program may have stored, is not continued.
        var last = HybridClock(packed: ledger[.clock], node: node).last
        try database.each("SELECT hlc FROM payload WHERE seq > ?", .int(ledger[.absorbedSeq])) { row throws(StoreError) in
            guard let stamp = HybridTime(row.text(0)), HybridClock(last: stamp).last == stamp else { return }
            if (stamp.milliseconds, stamp.counter) > (last.milliseconds, last.counter) {
                last = HybridTime(milliseconds: stamp.milliseconds, counter: stamp.counter, node: node)
            }
        }
        return HybridClock(last: last)
    }
}

/// Facts that change rarely, by name.
struct MetaTable {
    let database: Database

    init(_ database: Database) {
        self.database = database
    }

    /// The pages of this file carry seals.
    static let sealed = "sealed"
    /// The highest `seq` that was in use when the database was rescued.
    static let salvagedSeq = "salvaged_seq"
    /// `1`: erased content may still be in free pages, or in the log (``Store/erasing(_:)``).
    static let traces = "traces"

    func text(_ name: String) throws(StoreError) -> String? {
        try database.first("SELECT v FROM meta WHERE k = ?", .text(name)) { row throws(StoreError) in row.text(0) }
    }

    func set(_ name: String, _ value: String) throws(StoreError) {
        try database.run(
            "INSERT INTO meta (k, v) VALUES (?, ?) ON CONFLICT DO UPDATE SET v = excluded.v", .text(name), .text(value))
    }
}
