extension Schema {
    /// Listings because the scopes of this device have changed (`Store+Revoked.swift`).
    static let scopes = """
        -- of_share: what the present listing does not contain has left the share of this device, and was not deleted.
        ALTER TABLE stream ADD COLUMN of_share INTEGER NOT NULL DEFAULT 0 CHECK (of_share IN (0, 1));
        """

    /// The scopes of a listing (`Store+Snapshot.swift`).
    static let listedScopes = """
        -- snap_share: the mark of the scopes at the beginning of the listing, NULL from a hub without scopes
        ALTER TABLE stream ADD COLUMN snap_share TEXT;
        """
}
