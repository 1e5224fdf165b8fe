extension Schema {
    /// Stubs of records whose documents this device has dropped, and their number by entity (`Store+Stubs.swift`).
    static let stubs = """
        -- changed_age: when the record last changed, on the age clock; NULL: not known.
        -- stub: NULL unless the document was dropped. Then its CRC-32C, or the complement of that while a deletion waits.
        ALTER TABLE record ADD COLUMN changed_age INTEGER;
        ALTER TABLE record ADD COLUMN stub INTEGER;

        CREATE TRIGGER stub_new AFTER INSERT ON record WHEN NEW.stub >= 0 AND NEW.deleted = 1 BEGIN
            INSERT INTO counter (name, aid, eid, priority, state, n) VALUES ('stubs', 0, NEW.eid, 0, 0, 1)
            ON CONFLICT DO UPDATE SET n = n + 1;
        END;
        CREATE TRIGGER stub_made AFTER UPDATE OF stub, deleted ON record
            WHEN NEW.stub >= 0 AND NEW.deleted = 1 AND (OLD.stub IS NULL OR OLD.stub < 0 OR OLD.deleted = 0) BEGIN
            INSERT INTO counter (name, aid, eid, priority, state, n) VALUES ('stubs', 0, NEW.eid, 0, 0, 1)
            ON CONFLICT DO UPDATE SET n = n + 1;
        END;
        CREATE TRIGGER stub_ended AFTER UPDATE OF stub, deleted ON record
            WHEN OLD.stub >= 0 AND OLD.deleted = 1 AND (NEW.stub IS NULL OR NEW.stub < 0 OR NEW.deleted = 0) BEGIN
            UPDATE counter SET n = max(0, n - 1)
            WHERE name = 'stubs' AND aid = 0 AND eid = OLD.eid AND priority = 0 AND state = 0;
        END;
        CREATE TRIGGER stub_removed AFTER DELETE ON record WHEN OLD.stub >= 0 AND OLD.deleted = 1 BEGIN
            UPDATE counter SET n = max(0, n - 1)
            WHERE name = 'stubs' AND aid = 0 AND eid = OLD.eid AND priority = 0 AND state = 0;
        END;
        """
}
