extension Schema {
    /// Files that come from the hub: `Store+Downloads.swift`.
    static let downloads = """
        -- fetch: NULL for a file that was never asked of the hub, else 0 wanted, 1 came, 2 set aside. Such a row has the state of
        -- an uploaded file, because the hub has the bytes. got_bytes: length of the part that is on the medium.
        -- used_age: when its bytes were last read or written here, for the choice of those that go first.
        ALTER TABLE blob ADD COLUMN fetch INTEGER CHECK (fetch BETWEEN 0 AND 2);
        ALTER TABLE blob ADD COLUMN got_bytes INTEGER NOT NULL DEFAULT 0 CHECK (got_bytes >= 0);
        ALTER TABLE blob ADD COLUMN wanted_ms INTEGER;
        ALTER TABLE blob ADD COLUMN asked INTEGER NOT NULL DEFAULT 0 CHECK (asked IN (0, 1));
        ALTER TABLE blob ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1));
        ALTER TABLE blob ADD COLUMN used_age INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX blob_wanted ON blob (asked DESC, size_bytes - got_bytes, bid) WHERE fetch = 0;
        CREATE INDEX blob_set_aside ON blob (rearm_age) WHERE fetch = 2;
        CREATE INDEX blob_used ON blob (used_age, bid) WHERE state = 1 AND has_file = 1 AND pinned = 0;
        """
}
