extension Schema {
    /// Ties between mutations, the order inside a batch (PROTOCOL C6), and the time of each boot (A11).
    static let order = """
        -- Trusted wall time minus boot time, once anybody knew it in that boot.
        ALTER TABLE boot ADD COLUMN anchor_ms INTEGER;

        -- The place in the batch: what is settled again goes in the order in which it went.
        ALTER TABLE mutation ADD COLUMN place INTEGER;
        DROP INDEX mutation_flight;
        CREATE INDEX mutation_flight ON mutation (claim, place, seq) WHERE state = 1;

        -- Receipts of what was made one with an older mutation: they stay as long as that one does.
        CREATE INDEX mutation_into ON mutation (into_seq) WHERE state = 9;

        -- seq must not be sent before on_seq is accepted: named by depends_on, or the creation of a parent.
        CREATE TABLE tie (
            seq INTEGER NOT NULL,
            on_seq INTEGER NOT NULL,
            PRIMARY KEY (seq, on_seq)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX tie_on ON tie (on_seq, seq);

        -- Parents that nobody here has heard of when their child was made. They may be created here after it.
        CREATE TABLE unmet (
            eid INTEGER NOT NULL REFERENCES entity,
            id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            PRIMARY KEY (eid, id, seq)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX unmet_seq ON unmet (seq);
        """
}
