extension Schema {
    /// Counters and a column for ids that are used only once (`IdentifierGaps.swift`).
    static let identifiers = """
        -- Accepted local writes and changes of the document that apps see, counted for each record; part of its etag.
        ALTER TABLE record ADD COLUMN edit INTEGER NOT NULL DEFAULT 0;

        -- Ids of files that were removed before are known from the audit trail alone, and that is pruned: so the first
        -- new id keeps a distance of 1,000 to the highest known one, if there ever was a file.
        INSERT OR IGNORE INTO counter (name, aid, eid, priority, state, n)
            SELECT 'next_blob', 0, 0, 0, 0, CASE highest WHEN 0 THEN 1 ELSE highest + 1000 END FROM (
                SELECT max(
                    coalesce((SELECT max(bid) FROM blob), 0), coalesce((SELECT -min(on_seq) FROM tie WHERE on_seq < 0), 0),
                    coalesce((SELECT max(CAST(substr(target, 3) AS INTEGER)) FROM audit
                        WHERE verb IN ('remove', 'retry') AND target GLOB 'b-[1-9]*' AND length(target) <= 17), 0)
                ) AS highest);

        -- The newest conflict was never forgotten, so the highest id that was given is known.
        INSERT OR IGNORE INTO counter (name, aid, eid, priority, state, n)
            SELECT 'next_conflict', 0, 0, 0, 0, coalesce(max(cid), 0) + 1 FROM conflict;
        """
}
