extension Schema {
    /// The versions of the schemas that the documents of this database have (`Store+Versions.swift`).
    static let versions = """
        -- versions: SchemaVersions, for the way back; NULL for version 1. is_lowered: the hub had a newer version when documents were
        -- taken from it, so they may say less than its own.
        CREATE TABLE entity_version (
            eid INTEGER PRIMARY KEY REFERENCES entity,
            version INTEGER NOT NULL CHECK (version > 0),
            versions TEXT,
            is_lowered INTEGER NOT NULL DEFAULT 0 CHECK (is_lowered IN (0, 1))
        ) STRICT;

        -- Documents that a program without versions has taken from the hub may be of that kind.
        INSERT INTO entity_version (eid, version, is_lowered) SELECT eid, 1, 1 FROM entity;
        """
}
