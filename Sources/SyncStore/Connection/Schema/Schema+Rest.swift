extension Schema {
    /// Tables for an existing backend (`Store+RestIDs.swift`, `Store+RestClaim.swift`): its ids and versions, and the requests whose
    /// outcome is unknown.
    static let rest = """
        -- The backend's id of a record, as a text; is_number: it is one. etag: its version of the record's base, NULL when it
        -- was not said.
        CREATE TABLE idmap (
            eid INTEGER NOT NULL REFERENCES entity,
            local_id TEXT NOT NULL,
            server_id TEXT NOT NULL,
            is_number INTEGER NOT NULL CHECK (is_number IN (0, 1)),
            etag TEXT,
            PRIMARY KEY (eid, local_id)
        ) STRICT, WITHOUT ROWID;
        CREATE UNIQUE INDEX idmap_server ON idmap (eid, server_id);

        -- request: what may have arrived; NULL when nothing did, empty when it is not known what. first_age: when it was first
        -- sent with its key, last_age: when it was sent last. generation counts the keys (RestAttempt).
        CREATE TABLE attempt (
            seq INTEGER PRIMARY KEY,
            generation INTEGER NOT NULL CHECK (generation >= 0),
            first_age INTEGER NOT NULL,
            last_age INTEGER NOT NULL,
            request TEXT
        ) STRICT;
        """
}
