extension Schema {
    /// Listings that continue after restarts, removals that they held back, and work that is offered again.
    static let resync = """
        -- snapshot: the listing comes by id, after snap_after, and not by the feed; snap_cursor is where the feed goes on
        -- when it is complete. buckets: only those (EntityDigest), as 7,203.
        ALTER TABLE stream ADD COLUMN snapshot INTEGER NOT NULL DEFAULT 0 CHECK (snapshot IN (0, 1));
        ALTER TABLE stream ADD COLUMN snap_after TEXT;
        ALTER TABLE stream ADD COLUMN snap_cursor TEXT;
        ALTER TABLE stream ADD COLUMN buckets TEXT;
        -- When all of it was last compared with the hub, on the age clock.
        ALTER TABLE stream ADD COLUMN full_age INTEGER;
        -- Live records that the hub had when the first sync began.
        ALTER TABLE stream ADD COLUMN seed_total INTEGER;
        -- Deletions since the feed was last read to its end.
        ALTER TABLE stream ADD COLUMN run_deleted INTEGER NOT NULL DEFAULT 0;

        -- Settled before, and offered again because the hub has forgotten them: the old base of their record has them
        -- already (Store+History.swift).
        CREATE TABLE requeued (seq INTEGER PRIMARY KEY) STRICT;
        """

    /// Deletions of the entity that this device has heard of in this history of the hub (`deleted`; `NULL`: the hub does not count), the
    /// hub's own count at the beginning of the present listing, and the day whose deletions `run_deleted` counts.
    static let turnover = """
        ALTER TABLE stream ADD COLUMN deleted INTEGER;
        ALTER TABLE stream ADD COLUMN listing_deleted INTEGER;
        ALTER TABLE stream ADD COLUMN run_day INTEGER;
        """
}
