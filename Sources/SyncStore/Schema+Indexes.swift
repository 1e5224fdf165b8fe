extension Schema {
    /// Declared indexes of the mirror (``RecordIndexes``), and how many records an entity has, which nobody can count at each question.
    ///
    /// An index is SQLite's own table of keys and not its index over an expression: one of those is built in one step, while nobody can
    /// write, and no other program could change the table.
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

    /// Where the table `counter` was made anew: what the triggers go on from.
    static let countRecords = """
        INSERT INTO counter (name, aid, eid, priority, state, n)
            SELECT 'records', 0, eid, 0, 0, count(*) FROM record WHERE deleted = 0 GROUP BY eid;
        """
}
