/// The tables, one numbered step after the other. A released step is never edited; the next one is appended.
///
/// Flash shapes the tables: a page is written as a whole, so the number of pages that a transaction touches matters most.
///
/// - A mutation has two rows. `payload` is wide and written once. `mutation` is narrow and takes the changes of state, with 100 rows and
///   more on a page. So claiming and settling 64 mutations rewrites one or two pages instead of eight.
/// - A `payload` without a `mutation` row is pending and new. Events are accepted like that, by one append; their narrow rows are written
///   together with the next other change (`Store+Intake.swift`).
/// - The key of a mutation carries its `seq`, so there is no index of keys.
/// - `ready` marks exactly the mutations that can be claimed now, one for each record or atomic list. Claiming reads its partial index from
///   the front and never steps over a row that must wait (`Store+Readiness.swift`).
/// - Numbers that change in every transaction share one small table, `counter`.
/// - A journal row covers many mutations at once.
///
/// Times that end in `_ms` are wall time, for display. Times that end in `_age` are on the database's own clock (``AgeClock``) and decide
/// waiting, expiry and retention.
enum Schema {
    /// "ESAg". It is in the header of the file from its first page on, so a file without it is not ours.
    static let applicationID: Int32 = 0x4553_4167

    static let steps = [
        step1, step2, order, resync, conflicts, blobs, rest, seed, expiry, identifiers, stamps, deadlines, turnover, indexes, undo,
        scopes, stubs, versions, downloads, listedScopes,
    ]

    static var version: Int64 { Int64(steps.count) }

    /// Applies the missing steps, each in a transaction of its own.
    static func bringUpToDate(_ database: Database) throws(StoreError) {
        guard var version = Int64(try database.pragma("user_version")) else { return }
        while version < Schema.version {
            let step = steps[Int(version)]
            try database.execute("BEGIN IMMEDIATE")
            do throws(StoreError) {
                if version == 1 { try completeFirst(database) }
                try database.execute(step)
                try database.execute("PRAGMA user_version = \(version + 1)")
                try database.execute("COMMIT")
            } catch {
                // The error of the step is the one to report; a failed rollback is repeated by the next opening.
                try? database.execute("ROLLBACK")
                throw error
            }
            version += 1
        }
    }

    /// The table of mutations, which is part of the first step.
    static let mutationTable = """
        -- Where it stands. claim numbers the batches; members of an atomic list have neighbouring seqs.
        CREATE TABLE mutation (
            seq INTEGER PRIMARY KEY,
            state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 12),
            priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
            eid INTEGER NOT NULL,
            aid INTEGER NOT NULL,
            rid INTEGER,
            bytes INTEGER NOT NULL,
            ready INTEGER NOT NULL DEFAULT 0 CHECK (ready IN (0, 1)),
            sent INTEGER NOT NULL DEFAULT 0 CHECK (sent IN (0, 1)),
            attempts INTEGER NOT NULL DEFAULT 0,
            retries INTEGER NOT NULL DEFAULT 0,
            alone INTEGER NOT NULL DEFAULT 0 CHECK (alone IN (0, 1)),
            claim INTEGER,
            first_seq INTEGER,
            last_seq INTEGER,
            next_age INTEGER,
            ttl_age INTEGER,
            prune_age INTEGER,
            first_sent_ms INTEGER,
            into_seq INTEGER,
            problem TEXT,
            CHECK (ready = 0 OR (state = 0 AND next_age IS NULL)),
            CHECK (state <> 1 OR (sent = 1 AND claim IS NOT NULL)),
            CHECK ((prune_age IS NOT NULL) = (state >= 6))
        ) STRICT;
        CREATE INDEX mutation_ready ON mutation (priority, seq) WHERE ready = 1;
        CREATE INDEX mutation_flight ON mutation (claim, priority, seq) WHERE state = 1;
        CREATE INDEX mutation_record ON mutation (rid, seq) WHERE state < 6 AND rid IS NOT NULL;
        CREATE INDEX mutation_parked ON mutation (state, seq) WHERE state BETWEEN 2 AND 5;
        CREATE INDEX mutation_delayed ON mutation (next_age) WHERE next_age IS NOT NULL;
        CREATE INDEX mutation_settled ON mutation (prune_age) WHERE prune_age IS NOT NULL AND rid IS NOT NULL;
        CREATE INDEX event_settled ON mutation (prune_age) WHERE prune_age IS NOT NULL AND rid IS NULL;
        """

    private static let step1 = """
        CREATE TABLE meta (
            k TEXT PRIMARY KEY,
            v TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE counter (
            name TEXT NOT NULL,
            aid INTEGER NOT NULL,
            eid INTEGER NOT NULL,
            priority INTEGER NOT NULL,
            state INTEGER NOT NULL,
            n INTEGER NOT NULL CHECK (n >= 0),
            PRIMARY KEY (name, aid, eid, priority, state)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE entity (eid INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
        CREATE TABLE app (aid INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
        CREATE TABLE boot (bid INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

        -- The mirror. view is NULL when it is the same as base; deleted says that the record is not in the view.
        CREATE TABLE record (
            rid INTEGER PRIMARY KEY,
            eid INTEGER NOT NULL REFERENCES entity,
            id TEXT NOT NULL,
            base_version INTEGER NOT NULL CHECK (base_version >= -1),
            status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 3),
            deleted INTEGER NOT NULL CHECK (deleted IN (0, 1)),
            gen INTEGER NOT NULL,
            rev INTEGER NOT NULL,
            created_ms INTEGER NOT NULL,
            updated_ms INTEGER NOT NULL,
            synced_ms INTEGER,
            gone_age INTEGER,
            sum INTEGER NOT NULL,
            server_id TEXT,
            base TEXT,
            view TEXT,
            UNIQUE (eid, id),
            CHECK (view IS NULL OR (status <> 0 AND deleted = 0)),
            CHECK (deleted = 1 OR base IS NOT NULL OR view IS NOT NULL)
        ) STRICT;
        CREATE INDEX record_gone ON record (gone_age) WHERE gone_age IS NOT NULL;

        -- What an app asked for. Never changed; sum covers all of it. id is NULL when it is the same text as key.
        CREATE TABLE payload (
            seq INTEGER PRIMARY KEY CHECK (seq > 0),
            eid INTEGER NOT NULL REFERENCES entity,
            aid INTEGER NOT NULL REFERENCES app,
            uid INTEGER NOT NULL,
            action INTEGER NOT NULL CHECK (action BETWEEN 0 AND 2),
            priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
            base_version INTEGER NOT NULL,
            clock INTEGER NOT NULL CHECK (clock BETWEEN 0 AND 2),
            bid INTEGER NOT NULL REFERENCES boot,
            boot_ms INTEGER NOT NULL,
            created_ms INTEGER NOT NULL,
            ttl_age INTEGER,
            bytes INTEGER NOT NULL,
            coalesces INTEGER NOT NULL CHECK (coalesces IN (0, 1)),
            key TEXT NOT NULL,
            id TEXT,
            hlc TEXT NOT NULL,
            author TEXT,
            gid TEXT,
            depends TEXT,
            supersedes TEXT,
            data TEXT,
            unset TEXT,
            ops TEXT,
            base_fields TEXT,
            blobs TEXT,
            app_key TEXT,
            sum INTEGER NOT NULL
        ) STRICT;

        \(mutationTable)

        CREATE TABLE stream (
            eid INTEGER PRIMARY KEY REFERENCES entity,
            cursor TEXT,
            gen INTEGER NOT NULL DEFAULT 0,
            listing INTEGER NOT NULL DEFAULT 0 CHECK (listing IN (0, 1)),
            listing_head INTEGER,
            sweep_held INTEGER NOT NULL DEFAULT 0,
            last_pull_ms INTEGER,
            last_full_ms INTEGER
        ) STRICT;

        -- One row tells count events with the ids n to n + count - 1. items names seqs or rids, in order: 402-465,470.
        CREATE TABLE event (
            n INTEGER PRIMARY KEY CHECK (n > 0),
            count INTEGER NOT NULL CHECK (count > 0),
            age INTEGER NOT NULL,
            at_ms INTEGER NOT NULL,
            kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 2),
            code INTEGER NOT NULL,
            low INTEGER,
            high INTEGER,
            type TEXT,
            items TEXT NOT NULL
        ) STRICT;

        CREATE TABLE app_key (
            aid INTEGER NOT NULL REFERENCES app,
            key TEXT NOT NULL,
            age INTEGER NOT NULL,
            fingerprint BLOB NOT NULL,
            answer TEXT NOT NULL,
            PRIMARY KEY (aid, key)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX app_key_age ON app_key (age);

        CREATE TABLE audit (
            n INTEGER PRIMARY KEY,
            age INTEGER NOT NULL,
            at_ms INTEGER NOT NULL,
            uid INTEGER NOT NULL,
            verb TEXT NOT NULL,
            target TEXT NOT NULL,
            json TEXT
        ) STRICT;
        """

    /// Tables for the transferred bytes and the used part of the budgets.
    private static let step2 = """
        -- day: whole days since 1970-01-01 UTC by the ledger's clock.
        CREATE TABLE usage (
            day INTEGER NOT NULL,
            link TEXT NOT NULL,
            class TEXT NOT NULL,
            up INTEGER NOT NULL CHECK (up >= 0),
            down INTEGER NOT NULL CHECK (down >= 0),
            requests INTEGER NOT NULL CHECK (requests >= 0),
            PRIMARY KEY (day, link, class)
        ) STRICT, WITHOUT ROWID;

        -- The running day and month of each link. Not derived from usage: a clock that steps moves these along.
        CREATE TABLE budget (
            link TEXT NOT NULL,
            roaming INTEGER NOT NULL CHECK (roaming IN (0, 1)),
            day_bytes INTEGER NOT NULL CHECK (day_bytes >= 0),
            month_bytes INTEGER NOT NULL CHECK (month_bytes >= 0),
            anchor_day INTEGER NOT NULL,
            month_start INTEGER NOT NULL,
            unsure_day_bytes INTEGER NOT NULL CHECK (unsure_day_bytes >= 0),
            unsure_month_bytes INTEGER NOT NULL CHECK (unsure_month_bytes >= 0),
            PRIMARY KEY (link, roaming)
        ) STRICT, WITHOUT ROWID;
        """
}
