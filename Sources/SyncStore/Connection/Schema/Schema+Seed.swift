extension Schema {
    /// The first listing of an entity begins with the records that the device needs first (`Store+Seed.swift`).
    static let seed = """
        -- seeding: what passes the entity's seed filter is listed, after snap_after; the listing of all of it comes next.
        ALTER TABLE stream ADD COLUMN seeding INTEGER NOT NULL DEFAULT 0 CHECK (seeding IN (0, 1));
        """
}
