extension Schema {
    /// Listings because the scopes of this device have changed (`Store+Revoked.swift`).
    static let scopes = """
        -- of_share: what the present listing does not contain has left the share of this device, and was not deleted.
        ALTER TABLE stream ADD COLUMN of_share INTEGER NOT NULL DEFAULT 0 CHECK (of_share IN (0, 1));
        """
}
