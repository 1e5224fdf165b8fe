extension SQLiteSchema {
    /// The versions of the schemas that the documents of the database have (PROTOCOL D7); an entity that is not named has version 1.
    ///
    /// `versions`: ``SchemaVersions`` as text, for the way back.
    static let versions = """
        CREATE TABLE entity_version(
          entity TEXT PRIMARY KEY, version INTEGER NOT NULL CHECK(version > 0), versions TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
        """
}
