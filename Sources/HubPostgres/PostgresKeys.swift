import HubServer

/// The keys of mutations in tables that take little room, because a fleet never stops adding to them.
///
/// - `mutation_key`: keys that are UUIDs, in typed columns. `seq` and `at_ms` are NULL where there is no payload. It has ``partitions``, by
///   a hash of the device, so that an index or a vacuum is of one part. Look-ups go to the part itself: of a statement that may go to any,
///   the server prepares all of them each time.
///   The key comes first in the unique index (``order``). Behind the device the keys of each device would rise, and PostgreSQL would leave
///   half of each page empty: it splits a page behind a new row only where rows of the index have at most 24 bytes
///   (`_bt_afternewitemoff`), and these have 32.
/// - `mutation_key_text`: the same for keys of any other form, also for UUIDs in another spelling.
/// - `device_number`: numbers of devices, given out with the first key of each and never changed. The highest bits are the part
///   (``KeyTables/part(of:in:)``).
/// - `mutation_key_13`: the keys of schema 13, until housekeeping has moved them; nothing is added to it. The view
///   `mutation_key_earlier` shows it, and is empty when it is gone: statements need not know.
///
/// **Each key counts once.** A statement looks into the new table and the earlier one at one moment, and a slice moves its keys in one
/// transaction, so each key is seen in one of both. A key that another mutation has answered for may be in both until it is moved: the row
/// in the new table counts. A decision over a snapshot from before the move that finds the earlier table gone sees neither row; its
/// transaction fails then, by the unique index if it writes the key, and otherwise by the comparison, because the removal of the table has
/// a number in `commit_log`.
enum PostgresKeys {
    static let partitions = 16
    /// Numbers of devices of one part: 2^31 in all.
    private static let perPart = 1 << 27
    /// The first version with these tables. Older programs would look for keys in a table that gets no new ones.
    static let version = 14

    static let tables = KeyTables(
        uuids: statements("mutation_key", (0..<partitions).map { "mutation_key_p\($0)" }, .uuid, isBare: true),
        others: statements("mutation_key_text", ["mutation_key_text"], .text, isBare: false),
        pruning: names.map { table in
            """
            UPDATE \(table) SET payload = NULL WHERE \(KeyTables.prunable) AND seq <= (\(KeyTables.acknowledged)
            WHERE replica.device = (SELECT d.device FROM device_number d WHERE d.number = \(table).device))
            """
        },
        forgetting: [
            // The number that an agent's key carries (`UUIDv7`).
            """
            DELETE FROM mutation_key WHERE device = \(number("?1"))
            AND CAST(CAST('x' || right(CAST(key AS TEXT), 11) AS BIT(44)) AS BIGINT) <= ?2
            """,
            "DELETE FROM mutation_key_text WHERE device = \(number("?1")) AND seq <= ?2",
        ],
        newest: "SELECT coalesce(max(n), 0) FROM (\(every { "SELECT max(version) AS n FROM \($0)" })) AS k",
        count: "SELECT CAST(sum(n) AS BIGINT) FROM (\(every { "SELECT count(*) AS n FROM \($0)" })) AS k",
        commits: """
            SELECT version FROM mutation_key WHERE device = \(number("?1")) AND version > ?2
            UNION SELECT version FROM mutation_key_text WHERE device = \(number("?1")) AND version > ?2
            UNION SELECT version FROM mutation_key_earlier WHERE device = ?1 AND version > ?2
            """,
        move: move)

    private static let names = ["mutation_key", "mutation_key_text"]

    private static func every(_ query: (String) -> String) -> String {
        (names + ["mutation_key_earlier"]).map(query).joined(separator: " UNION ALL ")
    }

    /// The number of the device with this name; NULL: it has none.
    static func number(_ name: String) -> String { "(SELECT d.number FROM device_number d WHERE d.device = \(name))" }

    /// Gives numbers to devices that have none. Writers have the lock of the hub, so the next number of a part is free.
    ///
    /// - Parameter devices: The rows `x(v)`, each name once.
    static func numbering(_ devices: String) -> String {
        """
        INSERT INTO device_number(device, number) SELECT p.v, coalesce(
        (SELECT max(d.number) FROM device_number d WHERE d.number BETWEEN p.least AND p.least + \(perPart - 1)), p.least - 1)
        + row_number() OVER (PARTITION BY p.least ORDER BY p.v)
        FROM (SELECT x.v, get_byte(sha256(convert_to(x.v, 'UTF8')), 0) % \(partitions) * \(perPart) AS least FROM \(devices)
        WHERE \(number("x.v")) IS NULL OFFSET 0) AS p
        """
    }

    /// The statements are for sets (``PostgresSets``), where `?1` is the number of the device, and `u.name` its name.
    private static func statements(_ table: String, _ parts: [String], _ key: ColumnKind, isBare: Bool) -> KeyTables.Statements {
        func found(_ table: String) -> String { "FROM \(table) k WHERE k.device = ?1 AND k.key = ?2" }
        let earlier = "FROM mutation_key_earlier e WHERE e.device = u.name AND e.key = CAST(?2 AS TEXT)"
        let columns = KeyTables.columns(device: .device, key: key, fingerprint: .uuid)
        return KeyTables.Statements(
            lookUps: parts.map { part in
                LookUp(
                    """
                    SELECT uuid_send(k.fingerprint) AS fingerprint, k.seq, k.status, k.version, k.payload \(found(part))
                    UNION ALL SELECT e.fingerprint, e.seq, e.status, e.version, e.payload \(earlier)
                    AND (SELECT count(*) \(found(part))) = 0
                    """, [.device, key])
            },
            fact: RowFact(
                """
                coalesce((SELECT k.version * 4 + k.status \(found(table))), (SELECT e.version * 4 + e.status \(earlier)), -1) <> ?3
                """, [.device, key, .int]),
            adding: RowStatement(table, columns),
            superseding: RowStatement(table, columns, conflict: KeyTables.superseded),
            isBare: isBare)
    }

    // MARK: The schema

    /// From here on keys go to the new tables. Nothing is copied, so the size of the table does not matter.
    static let step: [String] =
        [
            // The last transaction of an older program ends first.
            PostgresBurst.lock,
            "ALTER TABLE mutation_key RENAME TO mutation_key_13",
            "ALTER INDEX mutation_key_pkey RENAME TO mutation_key_13_pkey",
            "ALTER INDEX mutation_key_payload RENAME TO mutation_key_13_payload",
            "CREATE TABLE device_number(device TEXT COLLATE \"C\" PRIMARY KEY, number INTEGER NOT NULL UNIQUE)",
            numbering("(SELECT id AS v FROM device) AS x"),
            "CREATE TABLE mutation_key(\(columns("UUID"))) PARTITION BY RANGE (device)",
        ]
        + (0..<partitions).map {
            let end = $0 < partitions - 1 ? String(($0 + 1) * perPart) : "MAXVALUE"
            return "CREATE TABLE mutation_key_p\($0) PARTITION OF mutation_key FOR VALUES FROM (\($0 * perPart)) TO (\(end))"
        } + [
            "CREATE INDEX mutation_key_payload ON mutation_key(at_ms) WHERE payload IS NOT NULL",
            "CREATE TABLE mutation_key_text(\(columns("TEXT COLLATE \"C\"")))",
            "CREATE INDEX mutation_key_text_payload ON mutation_key_text(at_ms) WHERE payload IS NOT NULL",
            "CREATE VIEW mutation_key_earlier AS \(earlier("mutation_key_13"))",
            "UPDATE hub_schema SET oldest_reader = \(version) WHERE oldest_reader < \(version)",
        ]

    // MARK: The order in the index

    /// Puts the key before the device in the unique index, in the place of the other way round: a key takes 117 to 131 bytes with it, where
    /// it took 147 (PostgreSQL 15, a million keys in the order of a fleet). Programs of schema 14 work with it: their statements name both
    /// columns.
    ///
    /// The newest keys of a device (`commits`) are found by the second index, which has one entry for each 128 pages of the table: rows lie
    /// in the order of their commits, but for those that have lost a payload.
    static let order: [String] =
        [
            // The transactions that use the index end first.
            PostgresBurst.lock,
            "ALTER TABLE mutation_key DROP CONSTRAINT mutation_key_pkey",
            "ALTER TABLE ONLY mutation_key ADD CONSTRAINT mutation_key_by_key PRIMARY KEY (key, device)",
        ]
        + (0..<partitions).flatMap { part in
            // A constraint of the same name as its index: a hub that starts beside finds the index built.
            [
                "ALTER TABLE mutation_key_p\(part) ADD CONSTRAINT mutation_key_p\(part)_by_key "
                    + "PRIMARY KEY USING INDEX mutation_key_p\(part)_by_key",
                "ALTER INDEX mutation_key_by_key ATTACH PARTITION mutation_key_p\(part)_by_key",
            ]
        }

    static let indexes: [PostgresSchema.NewIndex] = (0..<partitions).flatMap { part in
        let table = "mutation_key_p\(part)"
        return [
            PostgresSchema.NewIndex(name: "\(table)_by_key", table: table, columns: "(key, device)", isUnique: true),
            PostgresSchema.NewIndex(
                name: "\(table)_by_commit", table: table,
                columns: "USING brin (version) WITH (autosummarize = on)"),
        ]
    }

    /// Wide columns first, so that no space is left between them: 76 bytes a row.
    private static func columns(_ key: String) -> String {
        """
        version BIGINT NOT NULL,
        device INTEGER NOT NULL,
        status SMALLINT NOT NULL CHECK (status BETWEEN 0 AND 2),
        key \(key) NOT NULL,
        fingerprint UUID NOT NULL,
        seq BIGINT,
        at_ms BIGINT,
        payload TEXT,
        PRIMARY KEY (device, key)
        """
    }

    /// The types are those of ``tables``: rows of both are joined.
    private static func earlier(_ table: String) -> String {
        "SELECT device, key, fingerprint, seq, CAST(status AS SMALLINT) AS status, version, payload FROM \(table)"
    }

    /// - Precondition: The table has no rows.
    static let removal = [
        """
        CREATE OR REPLACE VIEW mutation_key_earlier AS SELECT \
        CAST(NULL AS TEXT) COLLATE "C" AS device, CAST(NULL AS TEXT) COLLATE "C" AS key,
        CAST(NULL AS BYTEA) AS fingerprint, CAST(NULL AS BIGINT) AS seq, CAST(NULL AS SMALLINT) AS status, CAST(NULL AS BIGINT) AS version,
        CAST(NULL AS TEXT) AS payload WHERE false
        """,
        "DROP TABLE mutation_key_13",
    ]

    // MARK: The move

    private static let isUUID = "key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'"
    private static let pages =
        "ctid >= CAST('(' || CAST(?1 AS TEXT) || ',0)' AS TID) AND ctid < CAST('(' || CAST(?2 AS TEXT) || ',0)' AS TID)"

    private static let move = KeyMove(
        pages: "SELECT coalesce(pg_relation_size(to_regclass('mutation_key_13')) / CAST(current_setting('block_size') AS BIGINT), -1)",
        numbering: numbering("(SELECT DISTINCT k.device AS v FROM (SELECT device FROM mutation_key_13 WHERE \(pages) LIMIT ?3) AS k) AS x")
            + " ON CONFLICT DO NOTHING",
        slice: """
            WITH page AS (SELECT ctid AS place FROM mutation_key_13 WHERE \(pages)
              AND \(number("mutation_key_13.device")) IS NOT NULL LIMIT ?3 FOR UPDATE SKIP LOCKED),
            gone AS (DELETE FROM mutation_key_13 WHERE ctid = ANY (ARRAY(SELECT place FROM page)) RETURNING *),
            named AS (SELECT *, \(number("gone.device")) AS number, \(isUUID) AS is_uuid FROM gone),
            typed AS (INSERT INTO mutation_key(device, key, fingerprint, seq, status, version, payload, at_ms)
              SELECT number, CAST(key AS UUID), CAST(encode(fingerprint, 'hex') AS UUID), CASE WHEN payload IS NULL THEN NULL ELSE seq END,
              status, version, payload, CASE WHEN payload IS NULL THEN NULL ELSE at_ms END FROM named WHERE is_uuid
              ON CONFLICT DO NOTHING),
            other AS (INSERT INTO mutation_key_text(device, key, fingerprint, seq, status, version, payload, at_ms)
              SELECT number, key, CAST(encode(fingerprint, 'hex') AS UUID), seq, status, version, payload, at_ms \
            FROM named WHERE NOT is_uuid
              ON CONFLICT DO NOTHING)
            SELECT count(*), coalesce(max(CAST(split_part(ltrim(CAST(place AS TEXT), '('), ',', 1) AS BIGINT)), 0) FROM page
            """,
        hasRows: "SELECT CASE WHEN EXISTS (SELECT 1 FROM mutation_key_13) THEN 1 ELSE 0 END",
        removal: removal)
}
