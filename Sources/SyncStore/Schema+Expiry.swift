extension Schema {
    /// What waits unsent and has a time to live, by when that is over (`Store+Expiry.swift`). Mutations that never expire are
    /// not in it, and cost nothing.
    static let expiry = """
        CREATE INDEX mutation_ttl ON mutation (ttl_age)
            WHERE ttl_age IS NOT NULL AND state = 0 AND sent = 0 AND priority > 0;
        """

    /// The same for all that has a deadline: what became critical only because a critical change waits for it keeps its own.
    /// And the members of atomic lists that were not written with their list (`Store+Readiness.swift`): there are almost none.
    static let deadlines = """
        DROP INDEX mutation_ttl;
        CREATE INDEX mutation_ttl ON mutation (ttl_age) WHERE ttl_age IS NOT NULL AND state = 0 AND sent = 0;
        CREATE INDEX mutation_joined ON mutation (first_seq) WHERE seq > last_seq;
        """
}
