import SyncCore
import SyncSQLite

extension Schema {
    /// Completes version 1 as the very first programs wrote it. There a mutation has no size, one index covers both settled mutations and
    /// events, and the checksum of a record leaves out the part that waits for the hub. Later columns stand in other places, so the table
    /// is made again.
    static func completeFirst(_ database: Database) throws(StoreError) {
        // Asked once in the life of a database, so the statement is not kept.
        let question = try database.prepare("SELECT 1 FROM pragma_table_info('mutation') WHERE name = 'bytes'")
        defer { question.finalize() }
        guard try !database.step(question) else { return }
        question.reset()
        let before = "seq, state, priority, eid, aid, rid"
        let after =
            "ready, sent, attempts, retries, alone, claim, first_seq, last_seq, next_age, ttl_age, prune_age, first_sent_ms, "
            + "into_seq, problem"
        func columns(_ names: String) -> String { names.split(separator: ", ").map { "m." + $0 }.joined(separator: ", ") }
        let indexes = ["ready", "flight", "record", "parked", "delayed", "settled"].map { "DROP INDEX mutation_\($0);" }.joined(
            separator: " ")
        try database.execute(
            """
            \(indexes)
            ALTER TABLE mutation RENAME TO mutation_first;
            \(mutationTable)
            INSERT INTO mutation (\(before), bytes, \(after))
                SELECT \(columns(before)), coalesce(p.bytes, 0), \(columns(after))
                FROM mutation_first m LEFT JOIN payload p ON p.seq = m.seq;
            DROP TABLE mutation_first;
            """)
        try completeChecksums(database)
    }

    /// A record that was damaged before stays marked as damaged.
    private static func completeChecksums(_ database: Database) throws(StoreError) {
        var last = Int64.min
        while true {
            let page = try database.all(
                "SELECT rid, eid, base_version, id, base, view, sum FROM record WHERE rid > ? ORDER BY rid LIMIT 1000", .int(last)
            ) { row in
                func sum(_ columns: Int32...) -> Int64 {
                    MirrorRow.checksum(eid: row.int(1), id: row.text(3), version: row.int(2)) { digest in
                        for column in columns { digest.update(field: row.bytes(column)) }
                    }
                }
                return (rid: row.int(0), isWhole: sum(4) == row.int(6), sum: sum(4, 5))
            }
            for record in page where record.isWhole {
                try database.run("UPDATE record SET sum = ? WHERE rid = ?", .int(record.sum), .int(record.rid))
            }
            guard let end = page.last else { return }
            last = end.rid
        }
    }
}
