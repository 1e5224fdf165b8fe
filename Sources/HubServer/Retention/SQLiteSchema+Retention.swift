extension SQLiteSchema {
    /// The facts about earlier runs that housekeeping needs.
    ///
    /// - `retention_clock`: the hub's time, as far as events are removed by it (``RetentionClock``).
    /// - `event_retention`: by entity, the rule of the newest run, the events that it removed, and those of all runs. `has_more` is 1 where
    ///   a run ended before it was through.
    static let retention = """
        CREATE TABLE IF NOT EXISTS retention_clock(
          one INTEGER PRIMARY KEY CHECK(one = 1), believed_ms INTEGER, doubted_ms INTEGER, seen_ms INTEGER
        ) STRICT;
        CREATE TABLE IF NOT EXISTS event_retention(
          entity TEXT PRIMARY KEY,
          keep_ms INTEGER NOT NULL,
          ran_at_ms INTEGER NOT NULL,
          removed INTEGER NOT NULL,
          total INTEGER NOT NULL,
          has_more INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS refused_create_past ON refused_create(at_ms);
        """
}
