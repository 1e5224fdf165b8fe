extension Schema {
    /// Declared indexes of the mirror (``RecordIndexes``), and the number of records of each entity, which would take too long to count for
    /// each query.
    ///
    /// An index is a table of keys and not an SQLite index over an expression. Such an index is built in one step that blocks all writes,
    /// and no other program could change the table.
    static let indexes = """
        -- columns: as RecordIndex writes them. state: 0 is being built, up to the record built_rid, 1 is complete, 2 is being removed.
        CREATE TABLE record_index (
            xid INTEGER PRIMARY KEY,
            entity TEXT NOT NULL,
            columns TEXT NOT NULL,
            state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2),
            built_rid INTEGER NOT NULL DEFAULT 0
        ) STRICT;

        -- key: IndexKey.
        CREATE TABLE index_entry (
            xid INTEGER NOT NULL,
            key BLOB NOT NULL,
            rid INTEGER NOT NULL,
            PRIMARY KEY (xid, key)
        ) STRICT, WITHOUT ROWID;

        -- In the table that is written with every change of a record anyway.
        DELETE FROM counter WHERE name = 'records';
        INSERT INTO counter (name, aid, eid, priority, state, n)
            SELECT 'records', 0, eid, 0, 0, count(*) FROM record WHERE deleted = 0 GROUP BY eid;
        CREATE TRIGGER record_made AFTER INSERT ON record WHEN NEW.deleted = 0 BEGIN
            INSERT INTO counter (name, aid, eid, priority, state, n) VALUES ('records', 0, NEW.eid, 0, 0, 1)
            ON CONFLICT DO UPDATE SET n = n + 1;
        END;
        CREATE TRIGGER record_shown AFTER UPDATE OF deleted ON record WHEN OLD.deleted = 1 AND NEW.deleted = 0 BEGIN
            INSERT INTO counter (name, aid, eid, priority, state, n) VALUES ('records', 0, NEW.eid, 0, 0, 1)
            ON CONFLICT DO UPDATE SET n = n + 1;
        END;
        CREATE TRIGGER record_hidden AFTER UPDATE OF deleted ON record WHEN OLD.deleted = 0 AND NEW.deleted = 1 BEGIN
            UPDATE counter SET n = max(0, n - 1)
            WHERE name = 'records' AND aid = 0 AND eid = NEW.eid AND priority = 0 AND state = 0;
        END;
        CREATE TRIGGER record_removed AFTER DELETE ON record WHEN OLD.deleted = 0 BEGIN
            UPDATE counter SET n = max(0, n - 1)
            WHERE name = 'records' AND aid = 0 AND eid = OLD.eid AND priority = 0 AND state = 0;
        END;
        """

    /// Initial counts for the triggers, used where the table `counter` was made again.
    static let countRecords = """
        INSERT INTO counter (name, aid, eid, priority, state, n)
            SELECT 'records', 0, eid, 0, 0, count(*) FROM record WHERE deleted = 0 GROUP BY eid;
        INSERT INTO counter (name, aid, eid, priority, state, n)
            SELECT 'stubs', 0, eid, 0, 0, count(*) FROM record WHERE stub >= 0 AND deleted = 1 GROUP BY eid;
        """
}
