extension SQLiteSchema {
    /// The records of each scope, the entities that the table is complete for, and grants that records give.
    ///
    /// - `record.scopes`: the present scopes of a record, and the last ones of a deleted record (``ScopesColumn``).
    /// - `record_scope.scope`: the code of a scope (``ScopeCodes``). `since` is the commit in which the record first entered it, `version`
    ///   that of the record's last change while it was there, or of its leaving. `state`: 0 present, 1 deleted, 2 has left the scope.
    /// - `scope_index`: `fields` are the scope fields that the rows of an entity were made with, and a number (``ScopeIndex/Form``).
    static let scopes = """
        ALTER TABLE record ADD COLUMN scopes TEXT;
        CREATE TABLE record_scope(
          entity TEXT NOT NULL, scope INTEGER NOT NULL, id TEXT NOT NULL,
          since INTEGER NOT NULL, version INTEGER NOT NULL, state INTEGER NOT NULL CHECK(state BETWEEN 0 AND 2),
          at_ms INTEGER NOT NULL,
          PRIMARY KEY(entity, scope, id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX record_scope_feed ON record_scope(entity, scope, version, id, state);
        CREATE INDEX record_scope_past ON record_scope(at_ms) WHERE state <> 0;
        CREATE TABLE scope_index(
          entity TEXT PRIMARY KEY, fields TEXT NOT NULL, generation INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE record_grant(
          entity TEXT NOT NULL, id TEXT NOT NULL, device TEXT NOT NULL, field TEXT NOT NULL, value TEXT NOT NULL,
          PRIMARY KEY(entity, id, device, field, value)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX record_grant_device ON record_grant(device);
        """
}
