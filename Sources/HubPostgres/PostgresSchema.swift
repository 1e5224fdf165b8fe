import HubServer

/// The tables of the hub on a server (PROTOCOL A15) and the steps from each version to the next. A released step is never edited.
///
/// Two versions of the program may run side by side while replicas are replaced one after the other. A step therefore only adds: a table, a
/// column that may be NULL or has a default, an index. `hub_schema` has the version of the tables, and the oldest program that can still
/// work with them. A program that is older than that refuses to work at its next transaction, not only at its next start. A step that
/// removes something raises `oldest_reader`, one release after its last use. Three steps are exceptions, because no older program may write
/// beside them: 13 moves the newest commit number, 14 the place of new keys, and 16 numbers the rows of devices.
///
/// The tables are those of SQLite (``HubServer``'s `SQLiteSchema`, where they are explained), those of ``PostgresKeys``, and three more:
/// - `commit_log`: the newest commit number, and the counters (``CommitLog``).
/// - `file_folder`: the id of the folder that has the files (`FolderStanding`); no row before a hub with a folder has served.
/// - `token`: the book of tokens, one row an entry; `entry` is NULL when it was removed. `changed` is the version of the book.
///
/// Names and identifiers are ordered by their bytes (`COLLATE "C"`), as everywhere in the protocol: a listing in the order of the
/// database's language would end too early.
enum PostgresSchema {
    static let version = Int64(steps.count)
    /// The first version whose programs keep the rows of scopes. Older ones are locked out as soon as an entity has scopes.
    static let withScopes: Int64 = 7
    /// The first version whose programs know the versions of schemas. Older ones are locked out as soon as an entity has a second one.
    static let withVersions: Int64 = 8
    /// The first version whose programs use the entity settings of the database. Older ones are locked out as soon as a command has applied
    /// any: they would go on under other rules.
    static let withEntitySettings: Int64 = 9
    /// The first version whose programs read the newest commit from `commit_log`. Older ones are locked out from this step on: they would
    /// give out the numbers of `hub.head` once more.
    static let withCommitLog: Int64 = 13
    /// The first version whose programs number the rows of devices and of their databases (``SQLSpelling/newestRow``). Older ones are
    /// locked out from this step on: the key of these tables is another one.
    static let withNumberedRows: Int64 = 16
    /// The oldest program that can work with the tables, and 1 if the server commits to a standby, too.
    static let oldestReader = """
        SELECT oldest_reader, CASE WHEN COALESCE(current_setting('synchronous_standby_names', true), '') = '' THEN 0 ELSE 1 END
        FROM hub_schema
        """
    /// Fails for a program that is too old (SQLSTATE 22012), without an answer that is awaited.
    static let guardOfReader = "SELECT 1 / (CASE WHEN oldest_reader <= \(version) THEN 1 ELSE 0 END) FROM hub_schema"

    static let steps: [[String]] = [
        [
            """
            CREATE TABLE hub_schema(
              one BIGINT PRIMARY KEY CHECK (one = 1), version BIGINT NOT NULL, oldest_reader BIGINT NOT NULL)
            """,
            "INSERT INTO hub_schema(one, version, oldest_reader) VALUES(1, 0, 1)",
            """
            CREATE TABLE hub(
              one BIGINT PRIMARY KEY CHECK (one = 1),
              epoch TEXT NOT NULL,
              secret BYTEA NOT NULL,
              head BIGINT NOT NULL CHECK (head >= 0),
              applied BIGINT NOT NULL DEFAULT 0, duplicates BIGINT NOT NULL DEFAULT 0,
              conflicts BIGINT NOT NULL DEFAULT 0, rejected BIGINT NOT NULL DEFAULT 0, retried BIGINT NOT NULL DEFAULT 0)
            """,
            """
            CREATE TABLE record(
              entity TEXT COLLATE "C" NOT NULL,
              id TEXT COLLATE "C" NOT NULL,
              version BIGINT NOT NULL CHECK (version > 0),
              data TEXT,
              hlc TEXT NOT NULL,
              writer TEXT NOT NULL,
              exceptions TEXT,
              author TEXT,
              additions TEXT,
              origin_key TEXT NOT NULL,
              updated_at_ms BIGINT NOT NULL,
              PRIMARY KEY (entity, id))
            """,
            "CREATE INDEX record_feed ON record(entity, version, id)",
            "CREATE INDEX record_tombstone ON record(updated_at_ms) WHERE data IS NULL",
            "CREATE TABLE horizon(entity TEXT COLLATE \"C\" PRIMARY KEY, version BIGINT NOT NULL)",
            """
            CREATE TABLE device(
              id TEXT COLLATE "C" PRIMARY KEY,
              replica TEXT,
              agent TEXT, platform TEXT, config_seen BIGINT,
              applied BIGINT NOT NULL DEFAULT 0, duplicates BIGINT NOT NULL DEFAULT 0,
              conflicts BIGINT NOT NULL DEFAULT 0, rejected BIGINT NOT NULL DEFAULT 0, retried BIGINT NOT NULL DEFAULT 0,
              first_seen_ms BIGINT NOT NULL, last_seen_ms BIGINT NOT NULL)
            """,
            """
            CREATE TABLE replica(
              device TEXT COLLATE "C" NOT NULL REFERENCES device(id),
              id TEXT COLLATE "C" NOT NULL,
              max_seq BIGINT NOT NULL DEFAULT 0,
              acked_seq BIGINT NOT NULL DEFAULT 0,
              returns BIGINT NOT NULL DEFAULT 0,
              first_seen_ms BIGINT NOT NULL, last_seen_ms BIGINT NOT NULL,
              PRIMARY KEY (device, id))
            """,
            """
            CREATE TABLE mutation_key(
              device TEXT COLLATE "C" NOT NULL,
              key TEXT COLLATE "C" NOT NULL,
              fingerprint BYTEA NOT NULL CHECK (length(fingerprint) = 16),
              seq BIGINT,
              status BIGINT NOT NULL CHECK (status BETWEEN 0 AND 2),
              version BIGINT NOT NULL,
              payload TEXT,
              at_ms BIGINT NOT NULL,
              PRIMARY KEY (device, key))
            """,
            "CREATE INDEX mutation_key_payload ON mutation_key(at_ms) WHERE payload IS NOT NULL",
            """
            CREATE TABLE lost_value(
              n BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
              entity TEXT COLLATE "C" NOT NULL,
              id TEXT COLLATE "C" NOT NULL,
              field TEXT NOT NULL,
              value TEXT,
              version BIGINT NOT NULL,
              hlc TEXT NOT NULL,
              writer TEXT NOT NULL,
              author TEXT,
              at_ms BIGINT NOT NULL)
            """,
            """
            CREATE TABLE diagnostics(
              n BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
              device TEXT COLLATE "C" NOT NULL REFERENCES device(id),
              at_ms BIGINT NOT NULL,
              lines TEXT NOT NULL)
            """,
            "CREATE INDEX diagnostics_device ON diagnostics(device, n)",
            """
            CREATE TABLE upload(
              id TEXT COLLATE "C" PRIMARY KEY,
              device TEXT COLLATE "C" NOT NULL,
              length BIGINT NOT NULL CHECK (length >= 0),
              offset_bytes BIGINT NOT NULL CHECK (offset_bytes BETWEEN 0 AND length),
              expected TEXT CHECK (length(expected) = 64),
              digest TEXT CHECK (length(digest) = 64),
              type TEXT NOT NULL,
              metadata TEXT NOT NULL,
              entity TEXT, record_id TEXT, field TEXT,
              created_at_ms BIGINT NOT NULL,
              expires_at_ms BIGINT NOT NULL)
            """,
            "CREATE INDEX upload_device ON upload(device) WHERE digest IS NULL",
            "CREATE INDEX upload_expires ON upload(expires_at_ms)",
            """
            CREATE TABLE blob(
              digest TEXT COLLATE "C" PRIMARY KEY CHECK (length(digest) = 64),
              size_bytes BIGINT NOT NULL,
              type TEXT NOT NULL,
              created_at_ms BIGINT NOT NULL)
            """,
            """
            CREATE TABLE blob_owner(
              device TEXT COLLATE "C" NOT NULL,
              digest TEXT COLLATE "C" NOT NULL REFERENCES blob(digest),
              PRIMARY KEY (device, digest))
            """,
            """
            CREATE TABLE blob_wait(
              digest TEXT COLLATE "C" NOT NULL,
              entity TEXT COLLATE "C" NOT NULL,
              record_id TEXT COLLATE "C" NOT NULL,
              PRIMARY KEY (digest, entity, record_id))
            """,
            "CREATE TABLE token(hash BYTEA PRIMARY KEY, entry TEXT, changed BIGINT NOT NULL)",
            "CREATE INDEX token_changed ON token(changed)",
            "CREATE TABLE token_book(one BIGINT PRIMARY KEY CHECK (one = 1), version BIGINT NOT NULL)",
            "INSERT INTO token_book(one, version) VALUES(1, 0)",
        ],
        ["ALTER TABLE device ADD COLUMN waiting BIGINT", "ALTER TABLE device ADD COLUMN waiting_at_ms BIGINT"],
        [
            """
            CREATE TABLE lineage(
              n BIGINT PRIMARY KEY CHECK (n > 0),
              epoch TEXT NOT NULL,
              tag TEXT NOT NULL,
              head BIGINT NOT NULL CHECK (head >= 0),
              at_ms BIGINT,
              cause TEXT NOT NULL,
              device TEXT)
            """
        ],
        [
            "ALTER TABLE record ADD COLUMN kept TEXT",
            "ALTER TABLE record ADD COLUMN kept_version BIGINT",
            """
            CREATE TABLE refused_create(
              device TEXT COLLATE "C" NOT NULL,
              entity TEXT COLLATE "C" NOT NULL,
              id TEXT COLLATE "C" NOT NULL,
              version BIGINT NOT NULL,
              at_ms BIGINT NOT NULL,
              PRIMARY KEY (device, entity, id))
            """,
        ],
        [
            "ALTER TABLE horizon ADD COLUMN forgotten BIGINT NOT NULL DEFAULT 0",
            "CREATE INDEX record_deleted ON record(entity) WHERE data IS NULL",
        ],
        // Replaces `record_feed`: a planner without statistics used it to find one record, and walked the whole entity.
        ["DROP INDEX IF EXISTS record_feed"],
        [
            "ALTER TABLE record ADD COLUMN IF NOT EXISTS scopes TEXT",
            """
            CREATE TABLE IF NOT EXISTS record_scope(
              entity TEXT COLLATE "C" NOT NULL,
              scope BIGINT NOT NULL,
              id TEXT COLLATE "C" NOT NULL,
              since BIGINT NOT NULL,
              version BIGINT NOT NULL,
              state BIGINT NOT NULL CHECK (state BETWEEN 0 AND 2),
              at_ms BIGINT NOT NULL,
              PRIMARY KEY (entity, scope, id))
            """,
            // As `record_by_commit`, it cannot be mistaken for the way to one record.
            "CREATE INDEX IF NOT EXISTS record_scope_by_commit ON record_scope((entity || ''), scope, version, id)",
            "CREATE INDEX IF NOT EXISTS record_scope_past ON record_scope(at_ms) WHERE state <> 0",
            """
            CREATE TABLE IF NOT EXISTS scope_index(\
            entity TEXT COLLATE "C" PRIMARY KEY, fields TEXT NOT NULL, generation BIGINT NOT NULL)
            """,
            """
            CREATE TABLE IF NOT EXISTS record_grant(
              entity TEXT COLLATE "C" NOT NULL,
              id TEXT COLLATE "C" NOT NULL,
              device TEXT COLLATE "C" NOT NULL,
              field TEXT NOT NULL,
              value TEXT NOT NULL,
              PRIMARY KEY (entity, id, device, field, value))
            """,
            "CREATE INDEX IF NOT EXISTS record_grant_device ON record_grant(device)",
        ],
        [
            """
            CREATE TABLE IF NOT EXISTS entity_version(
              entity TEXT COLLATE "C" PRIMARY KEY, version BIGINT NOT NULL CHECK (version > 0), versions TEXT NOT NULL)
            """
        ],
        [
            """
            CREATE TABLE IF NOT EXISTS entity_settings(
              generation BIGINT PRIMARY KEY CHECK (generation > 0),
              applied_at_ms BIGINT NOT NULL,
              applied_by TEXT NOT NULL,
              digest TEXT NOT NULL,
              file_digest TEXT,
              text TEXT NOT NULL)
            """
        ],
        // An older program leaves `hub.linked` behind `hub.head`, and the next transaction of this one makes up for it.
        [
            """
            CREATE TABLE IF NOT EXISTS record_file(
              digest TEXT COLLATE "C" NOT NULL,
              entity TEXT COLLATE "C" NOT NULL,
              id TEXT COLLATE "C" NOT NULL,
              shown BIGINT NOT NULL CHECK (shown BETWEEN 0 AND 1),
              namer TEXT NOT NULL,
              PRIMARY KEY (digest, entity, id))
            """,
            "CREATE INDEX IF NOT EXISTS record_file_record ON record_file(entity, id)",
            "ALTER TABLE hub ADD COLUMN IF NOT EXISTS linked BIGINT NOT NULL DEFAULT 0",
        ],
        [
            """
            CREATE TABLE IF NOT EXISTS device_keeping(
              device TEXT COLLATE "C" PRIMARY KEY, entity TEXT NOT NULL, since_ms BIGINT NOT NULL)
            """
        ],
        retention,
        // From here on `hub.head`, `hub.linked` and the counters of `hub` are those of the moment of this step. The lock lets the last
        // transaction of an older program end first; the next one of it finds itself locked out.
        [
            "SELECT one FROM hub WHERE one = 1 FOR UPDATE",
            """
            CREATE TABLE IF NOT EXISTS commit_log(
              n BIGINT PRIMARY KEY,
              head BIGINT NOT NULL CHECK (head >= 0),
              linked BIGINT NOT NULL,
              granted BIGINT NOT NULL,
              applied BIGINT NOT NULL, duplicates BIGINT NOT NULL, conflicts BIGINT NOT NULL, rejected BIGINT NOT NULL,
              retried BIGINT NOT NULL)
            """,
            """
            INSERT INTO commit_log(n, head, linked, granted, applied, duplicates, conflicts, rejected, retried)
            SELECT 1, head, linked, 1, applied, duplicates, conflicts, rejected, retried FROM hub
            WHERE NOT EXISTS (SELECT 1 FROM commit_log)
            """,
            "UPDATE hub_schema SET oldest_reader = \(withCommitLog) WHERE oldest_reader < \(withCommitLog)",
        ],
        PostgresKeys.step,
        PostgresKeys.order,
        numberedRows,
        // An older program does not ask for it, and may run beside this one.
        [
            """
            CREATE TABLE IF NOT EXISTS file_folder(
              one BIGINT PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL CHECK (id ~ '^[0-9a-f]{16}$'))
            """
        ],
    ]

    private static let numbers =
        "ADD COLUMN IF NOT EXISTS n BIGINT NOT NULL DEFAULT 0, ADD COLUMN IF NOT EXISTS updates BIGINT NOT NULL DEFAULT 0"

    /// Gives the rows of devices numbers (``PostgresSets/succession(_:_:_:of:)``). Each key has one row, as before; the index has the
    /// newest one first. Foreign keys need a name that is unique by itself. There is one row a device, so both indexes are made at once.
    private static let numberedRows = [
        // The last transaction of an older program ends first.
        PostgresBurst.lock,
        "ALTER TABLE replica DROP CONSTRAINT IF EXISTS replica_device_fkey",
        "ALTER TABLE diagnostics DROP CONSTRAINT IF EXISTS diagnostics_device_fkey",
        "ALTER TABLE device \(numbers)",
        "ALTER TABLE device DROP CONSTRAINT IF EXISTS device_pkey, DROP CONSTRAINT IF EXISTS device_newest",
        "ALTER TABLE device ADD CONSTRAINT device_newest PRIMARY KEY (id, n)",
        "ALTER TABLE replica \(numbers)",
        "ALTER TABLE replica DROP CONSTRAINT IF EXISTS replica_pkey, DROP CONSTRAINT IF EXISTS replica_newest",
        "ALTER TABLE replica ADD CONSTRAINT replica_newest PRIMARY KEY (device, id, n)",
        "CREATE INDEX IF NOT EXISTS replica_returning ON replica(device) WHERE returns > 0",
        "UPDATE hub_schema SET oldest_reader = \(withNumberedRows) WHERE oldest_reader < \(withNumberedRows)",
    ]

    /// The facts about earlier runs that housekeeping needs. An older program removes no events, so it may run beside this one.
    private static let retention = [
        """
        CREATE TABLE IF NOT EXISTS retention_clock(
          one BIGINT PRIMARY KEY CHECK (one = 1), believed_ms BIGINT, doubted_ms BIGINT, seen_ms BIGINT)
        """,
        """
        CREATE TABLE IF NOT EXISTS event_retention(
          entity TEXT COLLATE "C" PRIMARY KEY,
          keep_ms BIGINT NOT NULL,
          ran_at_ms BIGINT NOT NULL,
          removed BIGINT NOT NULL,
          total BIGINT NOT NULL,
          has_more BIGINT NOT NULL)
        """,
        "CREATE INDEX IF NOT EXISTS refused_create_past ON refused_create(at_ms)",
    ]

    /// Indexes that a step needs, by the number of that step. They are built before it, while hubs go on writing. The step itself makes
    /// those of tables that it or an earlier step of the same update creates.
    static let indexes: [Int: [NewIndex]] = [
        6: [NewIndex(name: "record_by_commit", table: "record", columns: "((entity || ''), version, id)")],
        15: PostgresKeys.indexes,
    ]

    /// Names of the tables, views and indexes that the steps make.
    static let names = Set(steps.joined().compactMap { name(madeBy: $0) } + indexes.values.joined().map(\.name)).sorted()

    private static func name(madeBy statement: String) -> String? {
        let words = statement.split { " (\n".contains($0) }.map(String.init)
        guard words.count > 2, words[0] == "CREATE", ["TABLE", "INDEX", "VIEW"].contains(words[1]) else { return nil }
        return words[2] == "IF" ? words[5] : words[2]
    }

    struct NewIndex {
        var name: String
        var table: String
        /// All that comes behind the name of the table.
        var columns: String
        var isUnique = false

        /// - Parameter way: `CONCURRENTLY` or `IF NOT EXISTS`.
        func creation(_ way: String) -> String {
            "CREATE \(isUnique ? "UNIQUE " : "")INDEX \(way) \(name) ON \(table) \(columns)"
        }
    }
}
