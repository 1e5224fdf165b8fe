extension Schema {
    /// Files: `Store+Blobs.swift`.
    static let blobs = """
        -- digest: SHA-256, 64 hexadecimal digits; the bytes lie under it. offset_bytes and what follows it are the server's
        -- last word on the upload, worth nothing before it was asked again. rearm_age: when a parked one is tried again.
        -- has_file: its bytes are kept here.
        CREATE TABLE blob (
            bid INTEGER PRIMARY KEY CHECK (bid > 0),
            digest TEXT NOT NULL UNIQUE CHECK (length(digest) = 64),
            size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
            state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 3),
            critical INTEGER NOT NULL CHECK (critical IN (0, 1)),
            aid INTEGER NOT NULL,
            uid INTEGER NOT NULL,
            created_ms INTEGER NOT NULL,
            offset_bytes INTEGER NOT NULL DEFAULT 0 CHECK (offset_bytes BETWEEN 0 AND size_bytes),
            attempts INTEGER NOT NULL DEFAULT 0,
            restarts INTEGER NOT NULL DEFAULT 0,
            expires_ms INTEGER,
            rearm_age INTEGER,
            prune_age INTEGER,
            done_ms INTEGER,
            has_file INTEGER NOT NULL DEFAULT 1 CHECK (has_file IN (0, 1)),
            is_verified INTEGER NOT NULL DEFAULT 0 CHECK (is_verified IN (0, 1)),
            type TEXT NOT NULL,
            filename TEXT NOT NULL,
            upload_url TEXT,
            problem TEXT,
            CHECK (state <> 0 OR has_file = 1)
        ) STRICT;
        CREATE INDEX blob_waiting ON blob (critical DESC, size_bytes - offset_bytes, bid) WHERE state = 0;
        CREATE INDEX blob_parked ON blob (rearm_age) WHERE rearm_age IS NOT NULL;
        CREATE INDEX blob_old ON blob (prune_age) WHERE prune_age IS NOT NULL AND has_file = 1;

        -- Fields of records that show a blob.
        CREATE TABLE blob_link (
            bid INTEGER NOT NULL REFERENCES blob,
            entity TEXT NOT NULL,
            id TEXT NOT NULL,
            field TEXT NOT NULL,
            seq INTEGER NOT NULL,
            PRIMARY KEY (bid, entity, id, field)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX blob_link_record ON blob_link (entity, id);
        """

    /// A table of a connection, not of the database (`Store.blobTotal()`).
    static let blobTotal = """
        CREATE TEMP TABLE blob_total (files INTEGER NOT NULL, bytes INTEGER NOT NULL);
        INSERT INTO temp.blob_total
            SELECT count(*), coalesce(sum(CASE WHEN has_file = 1 THEN size_bytes END), 0) FROM main.blob;
        CREATE TEMP TRIGGER blob_total_added AFTER INSERT ON main.blob BEGIN
            UPDATE blob_total SET files = files + 1, bytes = bytes + new.has_file * new.size_bytes;
        END;
        CREATE TEMP TRIGGER blob_total_removed AFTER DELETE ON main.blob BEGIN
            UPDATE blob_total SET files = files - 1, bytes = bytes - old.has_file * old.size_bytes;
        END;
        CREATE TEMP TRIGGER blob_total_changed AFTER UPDATE OF has_file, size_bytes ON main.blob BEGIN
            UPDATE blob_total SET bytes = bytes + new.has_file * new.size_bytes - old.has_file * old.size_bytes;
        END;
        """

    /// Files that the hub had when they were offered (``BlobStanding``), in a table of a connection.
    static let blobsSpared = """
        CREATE TEMP TABLE blob_spared (bid INTEGER PRIMARY KEY);
        INSERT INTO temp.blob_spared SELECT bid FROM blob WHERE state = 1 AND \(isSpared);
        CREATE TEMP TRIGGER blob_spared_changed
        AFTER UPDATE OF state, fetch, has_file, upload_url, offset_bytes, size_bytes ON main.blob BEGIN
            DELETE FROM blob_spared WHERE bid = new.bid;
            INSERT INTO blob_spared SELECT bid FROM blob WHERE bid = new.bid AND state = 1 AND \(isSpared);
        END;
        CREATE TEMP TRIGGER blob_spared_removed AFTER DELETE ON main.blob BEGIN
            DELETE FROM blob_spared WHERE bid = old.bid;
        END;
        """

    private static let isSpared = "fetch IS NULL AND has_file = 1 AND upload_url IS NULL AND offset_bytes < size_bytes"
}
