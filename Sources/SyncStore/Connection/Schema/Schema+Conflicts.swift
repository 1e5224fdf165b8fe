extension Schema {
    /// Tables for open conflicts (`ConflictRow.swift`), and for the digests that identify a rebased mutation (`Fingerprint.swift`).
    static let conflicts = """
        -- seq: the mutation that is in dispute. into_seq: the one that carries the decision, if anything had to be sent.
        CREATE TABLE conflict (
            cid INTEGER PRIMARY KEY CHECK (cid > 0),
            rid INTEGER NOT NULL,
            eid INTEGER NOT NULL REFERENCES entity,
            seq INTEGER NOT NULL,
            kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 2),
            state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4),
            remote_version INTEGER NOT NULL,
            sides TEXT NOT NULL,
            history TEXT NOT NULL,
            opened_ms INTEGER NOT NULL,
            closed_age INTEGER,
            into_seq INTEGER,
            CHECK ((closed_age IS NULL) = (state < 3))
        ) STRICT;
        CREATE UNIQUE INDEX conflict_open ON conflict (seq) WHERE state < 2;
        CREATE INDEX conflict_record ON conflict (rid) WHERE state < 2;
        CREATE INDEX conflict_resolving ON conflict (into_seq) WHERE state = 2;
        CREATE INDEX conflict_closed ON conflict (closed_age) WHERE closed_age IS NOT NULL;

        -- Outside of sum where it is NULL: see Payload.
        ALTER TABLE payload ADD COLUMN first_digest TEXT;
        """
}
