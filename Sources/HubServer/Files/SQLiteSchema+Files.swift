extension SQLiteSchema {
    /// Files: open uploads (`offset_bytes` counts synced bytes), blobs, their owners, and the records that wait for them.
    static let files = """
        CREATE TABLE upload(
          id TEXT PRIMARY KEY,
          device TEXT NOT NULL,
          length INTEGER NOT NULL CHECK(length >= 0),
          offset_bytes INTEGER NOT NULL CHECK(offset_bytes BETWEEN 0 AND length),
          expected TEXT CHECK(length(expected) = 64),
          digest TEXT CHECK(length(digest) = 64),
          type TEXT NOT NULL,
          metadata TEXT NOT NULL,
          entity TEXT, record_id TEXT, field TEXT,
          created_at_ms INTEGER NOT NULL,
          expires_at_ms INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX upload_device ON upload(device) WHERE digest IS NULL;
        CREATE INDEX upload_expires ON upload(expires_at_ms);
        CREATE TABLE blob(
          digest TEXT PRIMARY KEY CHECK(length(digest) = 64),
          size_bytes INTEGER NOT NULL,
          type TEXT NOT NULL,
          created_at_ms INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE blob_owner(
          device TEXT NOT NULL,
          digest TEXT NOT NULL REFERENCES blob(digest),
          PRIMARY KEY(device, digest)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE blob_wait(
          digest TEXT NOT NULL,
          entity TEXT NOT NULL,
          record_id TEXT NOT NULL,
          PRIMARY KEY(digest, entity, record_id)
        ) STRICT, WITHOUT ROWID;
        """

    /// The records that name each file (``FileLink``). `shown` is 1 where the devices that receive the record may fetch the file; until
    /// then `namer` is the device that has put its digest there.
    /// `hub.linked` is the newest commit whose links are there; the hub fills in those of earlier programs when it starts.
    static let links = """
        CREATE TABLE record_file(
          digest TEXT NOT NULL, entity TEXT NOT NULL, id TEXT NOT NULL,
          shown INTEGER NOT NULL CHECK(shown BETWEEN 0 AND 1), namer TEXT NOT NULL,
          PRIMARY KEY(digest, entity, id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX record_file_record ON record_file(entity, id);
        ALTER TABLE hub ADD COLUMN linked INTEGER NOT NULL DEFAULT 0;
        """
}
