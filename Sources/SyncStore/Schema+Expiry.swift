extension Schema {
    /// What waits unsent and has a time to live, by when that is over (`Store+Expiry.swift`). Mutations that never expire are
    /// not in it, and cost nothing.
    static let expiry = """
        CREATE INDEX mutation_ttl ON mutation (ttl_age)
            WHERE ttl_age IS NOT NULL AND state = 0 AND sent = 0 AND priority > 0;
        """
}
