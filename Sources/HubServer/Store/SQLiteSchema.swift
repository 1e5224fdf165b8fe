import Synchronization

/// The tables of the hub in SQLite (PROTOCOL A15) and the steps from each version to the next. A released step is never edited.
///
/// - `record`: one row a record. The row of a deleted one is its tombstone: `data` is NULL, and `kept` has the values that an update may
///   restore. `version` is the commit number of the last change, which also orders the feed: "the newest version of each record after N"
///   needs no log.
/// - `mutation_key`: every final answer ever given, for the life of the device. A device may sleep for months and then repeat its last
///   request; without the key it would be applied twice.
/// - `replica`: each database that a device ever had. Two that take turns are a cloned device.
///
/// Tokens are not stored here: another process writes them, and only one process may write a WAL database (SQLite before 3.51.3 can corrupt
/// it when two connections write or checkpoint at the same moment).
enum SQLiteSchema {
    static let applicationID: Int64 = 0x4553_4842  // "ESHB"
    static let version = Int64(steps.count)

    /// Settings of the writing connection. FULL: an answer is a promise that survives a power cut.
    private static let pragmas = """
        PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY;
        PRAGMA cache_size=-16000; PRAGMA mmap_size=0; PRAGMA secure_delete=OFF; PRAGMA journal_size_limit=16777216;
        PRAGMA wal_autocheckpoint=1000; PRAGMA cell_size_check=ON; PRAGMA trusted_schema=OFF;
        """

    static let steps = [
        """
        CREATE TABLE hub(
          one INTEGER PRIMARY KEY CHECK(one = 1),
          epoch TEXT NOT NULL,
          secret BLOB NOT NULL,
          head INTEGER NOT NULL CHECK(head >= 0),
          applied INTEGER NOT NULL DEFAULT 0, duplicates INTEGER NOT NULL DEFAULT 0,
          conflicts INTEGER NOT NULL DEFAULT 0, rejected INTEGER NOT NULL DEFAULT 0, retried INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE TABLE record(
          entity TEXT NOT NULL,
          id TEXT NOT NULL,
          version INTEGER NOT NULL CHECK(version > 0),
          data TEXT,
          hlc TEXT NOT NULL,
          writer TEXT NOT NULL,
          exceptions TEXT,
          author TEXT,
          additions TEXT,
          origin_key TEXT NOT NULL,
          updated_at_ms INTEGER NOT NULL,
          PRIMARY KEY(entity, id)
        ) STRICT;
        CREATE INDEX record_feed ON record(entity, version, id);
        CREATE INDEX record_tombstone ON record(updated_at_ms) WHERE data IS NULL;
        CREATE TABLE horizon(entity TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE device(
          id TEXT PRIMARY KEY,
          replica TEXT,
          agent TEXT, platform TEXT, config_seen INTEGER,
          applied INTEGER NOT NULL DEFAULT 0, duplicates INTEGER NOT NULL DEFAULT 0,
          conflicts INTEGER NOT NULL DEFAULT 0, rejected INTEGER NOT NULL DEFAULT 0, retried INTEGER NOT NULL DEFAULT 0,
          first_seen_ms INTEGER NOT NULL, last_seen_ms INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE replica(
          device TEXT NOT NULL REFERENCES device(id),
          id TEXT NOT NULL,
          max_seq INTEGER NOT NULL DEFAULT 0,
          acked_seq INTEGER NOT NULL DEFAULT 0,
          returns INTEGER NOT NULL DEFAULT 0,
          first_seen_ms INTEGER NOT NULL, last_seen_ms INTEGER NOT NULL,
          PRIMARY KEY(device, id)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE mutation_key(
          device TEXT NOT NULL,
          key TEXT NOT NULL,
          fingerprint BLOB NOT NULL CHECK(length(fingerprint) = 16),
          seq INTEGER,
          status INTEGER NOT NULL CHECK(status BETWEEN 0 AND 2),
          version INTEGER NOT NULL,
          payload TEXT,
          at_ms INTEGER NOT NULL,
          PRIMARY KEY(device, key)
        ) STRICT, WITHOUT ROWID;
        \(lostValue)
        CREATE INDEX mutation_key_payload ON mutation_key(at_ms) WHERE payload IS NOT NULL;
        """,
        diagnostics,
        files,
        waiting,
        lineage,
        deletions,
        turnover,
        scopes,
        versions,
        entities,
        links,
        keeping,
        retention,
    ]

    private static let lostValue = """
        -- Values that lost a contest (PROTOCOL D2): kept for people, read by nothing else.
        CREATE TABLE lost_value(
          n INTEGER PRIMARY KEY,
          entity TEXT NOT NULL,
          id TEXT NOT NULL,
          field TEXT NOT NULL,
          value TEXT,
          version INTEGER NOT NULL,
          hlc TEXT NOT NULL,
          writer TEXT NOT NULL,
          author TEXT,
          at_ms INTEGER NOT NULL
        ) STRICT;
        """

    /// The very first programs wrote a version 1 without these columns.
    private static func completeFirst(_ database: SQLiteDatabase) throws(DatabaseError) {
        for column in ["author", "additions"]
        where try database.number("SELECT count(*) FROM pragma_table_info('record') WHERE name = '\(column)'") == 0 {
            try database.execute("ALTER TABLE record ADD COLUMN \(column) TEXT")
        }
        guard try database.number("SELECT count(*) FROM sqlite_schema WHERE name = 'lost_value'") == 0 else { return }
        try database.execute(lostValue)
    }

    /// The number of forgotten tombstones of an entity, and an index of the remaining ones by entity.
    private static let turnover = """
        ALTER TABLE horizon ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX record_deleted ON record(entity) WHERE data IS NULL;
        """

    /// The values of a record that its tombstone keeps, and the records whose creation by a device was refused. (`exceptions` and
    /// `additions` are then those of the kept document, which counts while `kept_version` is the tombstone's own version.)
    private static let deletions = """
        ALTER TABLE record ADD COLUMN kept TEXT;
        ALTER TABLE record ADD COLUMN kept_version INTEGER;
        CREATE TABLE refused_create(
          device TEXT NOT NULL, entity TEXT NOT NULL, id TEXT NOT NULL,
          version INTEGER NOT NULL, at_ms INTEGER NOT NULL,
          PRIMARY KEY(device, entity, id)
        ) STRICT, WITHOUT ROWID;
        """

    /// The reason why this program does not use a database of a newer one, and what helps.
    static func newer(_ present: Int64) -> String {
        "a newer agenthub wrote it (schema \(present), this program knows up to \(version)); nothing was changed; "
            + "install that version again, or a newer one"
    }

    /// Opens the writing connection, updates the schema, and checks that SQLite applied the settings.
    static func open(_ place: SQLiteDatabase.Place) throws(DatabaseError) -> SQLiteDatabase {
        let database = try SQLiteDatabase(place)
        if place == .memory { try copyTables(into: database) }
        let name = try database.number("PRAGMA application_id")
        let present = try database.number("PRAGMA user_version")
        let isEmpty = try database.number("SELECT count(*) FROM sqlite_schema") == 0
        guard name == applicationID || (name == 0 && isEmpty) else {
            throw DatabaseError(.foreign, doing: "open the database", detail: "it belongs to another program (application_id \(name))")
        }
        guard (0...version).contains(present) else {
            throw DatabaseError(.foreign, doing: "open the database", detail: newer(present))
        }
        // The settings below write into the header of the file, and a damaged one is left as it is.
        if case .file(let path) = place, !isEmpty { try checkHeader(database, path) }
        try formPages(of: database, isEmpty: isEmpty)
        try database.execute(pragmas)
        if case .file = place {
            guard try database.text("PRAGMA journal_mode") == "wal", try database.number("PRAGMA synchronous") == 2 else {
                throw DatabaseError(.other, doing: "open the database", detail: "SQLite refused WAL with synchronous=FULL")
            }
        }
        if present == 1 { try completeFirst(database) }
        try makeTables(database, from: present)
        if case .file(let path) = place { try sealPages(database, path) }
        return database
    }

    /// - Parameter present: The version of the schema that the database has.
    private static func makeTables(_ database: SQLiteDatabase, from present: Int64) throws(DatabaseError) {
        for (index, step) in steps.enumerated().dropFirst(Int(present)) {
            try database.execute(
                "BEGIN IMMEDIATE; \(step) PRAGMA application_id=\(applicationID); PRAGMA user_version=\(index + 1); COMMIT;")
        }
    }

    /// Gives a new database in memory its tables. They are made once in a process and then copied, because a test or a history of the
    /// simulation opens many such hubs, and making the tables takes longer than everything else of a start.
    private static func copyTables(into database: SQLiteDatabase) throws(DatabaseError) {
        try tables.withLock { tables throws(DatabaseError) in
            if tables == nil {
                let made = try SQLiteDatabase(.memory)
                try formPages(of: made, isEmpty: true)
                try makeTables(made, from: 0)
                tables = Tables(database: made)
            }
            try tables?.database.copy(into: database)
        }
    }

    private static let tables = Mutex<Tables?>(nil)

    /// It is only read, and by one thread at a time.
    private struct Tables: @unchecked Sendable {
        let database: SQLiteDatabase
    }

    /// Opens the file read-only and never checkpoints, so the server stays the only writer.
    static func openForReading(_ place: SQLiteDatabase.Place) throws(DatabaseError) -> SQLiteDatabase {
        let path = place.description
        let database = try SQLiteDatabase(.readOnly(path))
        try database.execute("PRAGMA query_only=ON; PRAGMA wal_autocheckpoint=0;")
        let name = try database.number("PRAGMA application_id")
        guard name == applicationID else {
            throw DatabaseError(.foreign, doing: "open \(path)", detail: "it is not the database of a hub")
        }
        let present = try database.number("PRAGMA user_version")
        guard present == version else {
            throw DatabaseError(
                .foreign, doing: "open \(path)", detail: "it has schema \(present), this program reads \(version)")
        }
        try checkHeader(database, path)
        return database
    }
}
