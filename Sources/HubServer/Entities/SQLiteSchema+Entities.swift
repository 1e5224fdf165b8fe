extension SQLiteSchema {
    /// The settings of entities: the newest generation counts. `text` is the file as it was written.
    static let entities = """
        CREATE TABLE IF NOT EXISTS entity_settings(
          generation INTEGER PRIMARY KEY CHECK(generation > 0),
          applied_at_ms INTEGER NOT NULL,
          applied_by TEXT NOT NULL,
          digest TEXT NOT NULL,
          file_digest TEXT,
          text TEXT NOT NULL
        ) STRICT;
        """
}
