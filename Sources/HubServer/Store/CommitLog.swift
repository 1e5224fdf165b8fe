/// Statements about the table `commit_log`, where the database keeps one (``SQLSpelling/keepsLog``).
///
/// Each transaction that writes adds one row or more, with the lock of the row of `hub`. The newest row, found by its number, has the
/// newest commit number and the counters. Rows are never updated: while another session keeps a snapshot open, as a backup does,
/// versions of an updated row could not be removed, and every transaction would walk through all of them. Each transaction removes the
/// one row that is ``keptMax`` behind its own.
package enum CommitLog {
    package static let newest = "SELECT * FROM commit_log ORDER BY n DESC LIMIT 1"
    /// Number of rows that are kept.
    package static let keptMax = 10_000

    private static let columns = "n, head, linked, granted, applied, duplicates, conflicts, rejected, retried"
    private static let counters = "c.applied, c.duplicates, c.conflicts, c.rejected, c.retried"

    /// Adds the first row of a database, or one above all that are there.
    static let first = """
        INSERT INTO commit_log(\(columns)) SELECT coalesce(max(n), 0) + 1, CAST(?1 AS BIGINT), 0, coalesce(max(n), 0) + 1, 0, 0, 0, 0, 0
        FROM commit_log HAVING coalesce(max(head), -1) < CAST(?1 AS BIGINT) ON CONFLICT(n) DO NOTHING
        """

    /// Sets the newest commit number.
    static let restart = """
        INSERT INTO commit_log(\(columns)) SELECT c.n + 1, CAST(?1 AS BIGINT), c.linked, c.n + 1, \(counters) FROM (\(newest)) AS c
        """

    static let linked = """
        INSERT INTO commit_log(\(columns)) SELECT c.n + 1, c.head, c.head, c.granted, \(counters) FROM (\(newest)) AS c
        """

    /// Notes a transaction without a commit number. It may have changed anything.
    package static let note = """
        INSERT INTO commit_log(\(columns)) SELECT c.n + 1, c.head, c.linked, c.n + 1, \(counters) FROM (\(newest)) AS c
        ON CONFLICT(n) DO NOTHING
        """

    /// Takes ``values(_:_:changesGrants:)``.
    package static let advance = """
        INSERT INTO commit_log(\(columns)) SELECT c.n + 1, c.head + ?1, CASE WHEN c.linked = c.head THEN c.head + ?1 ELSE c.linked END,
        CASE WHEN ?2 = CAST(1 AS BIGINT) THEN c.n + 1 ELSE c.granted END, c.applied + ?3, c.duplicates + ?4, c.conflicts + ?5,
        c.rejected + ?6, c.retried + ?7 FROM (\(newest)) AS c
        """

    /// The expression of ``HubStore/HubRow/identity``, over the table `hub`.
    package static func identity(_ spelling: SQLSpelling) -> String {
        """
        (hub.epoch || ' ' || coalesce((SELECT tag FROM lineage WHERE n = (SELECT max(n) FROM lineage)), '') || ' ' || \(spelling.tokens)
        || ' ' || coalesce((SELECT max(generation) FROM scope_index), 0) || ' ' || (\(HubStore.versionMarkQuery)) || ' '
        || coalesce(\(HubStore.entityMark), ''))
        """
    }

    package static let trim = "DELETE FROM commit_log WHERE n = (SELECT max(n) FROM commit_log) - \(keptMax)"

    /// - Parameter count: Number of commit numbers.
    package static func values(_ count: Int64, _ counted: HubCounters, changesGrants: Bool = true) -> [DatabaseValue] {
        [
            .int(count), changesGrants ? 1 : 0, .int(counted.applied), .int(counted.duplicates), .int(counted.conflicts),
            .int(counted.rejected), .int(counted.retried),
        ]
    }
}
