extension Schema {
    /// An index of unsent mutations with a time to live, by its end (`Store+Expiry.swift`). Mutations that never expire are not in it and
    /// cost nothing.
    static let expiry = """
        CREATE INDEX mutation_ttl ON mutation (ttl_age)
            WHERE ttl_age IS NOT NULL AND state = 0 AND sent = 0 AND priority > 0;
        """

    /// The same index for all mutations with a deadline: one that became critical only because a critical change waits for it keeps its
    /// own. A second index has the members of atomic lists that were not written with their list (`Store+Readiness.swift`), of which there
    /// are almost none.
    static let deadlines = """
        DROP INDEX mutation_ttl;
        CREATE INDEX mutation_ttl ON mutation (ttl_age) WHERE ttl_age IS NOT NULL AND state = 0 AND sent = 0;
        CREATE INDEX mutation_joined ON mutation (first_seq) WHERE seq > last_seq;
        """
}
