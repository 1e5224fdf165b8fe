import Glibc
import HubServer

// Brings the tables of a database to the version of this program, while other hubs may work on it.
extension PostgresSchema {
    /// The version of the tables; `nil`: there are none.
    ///
    /// - Throws: `.foreign` when they are of a newer version that this program cannot work with.
    static func present(_ database: PostgresDatabase) throws(DatabaseError) -> Int64? {
        guard try database.number("SELECT CASE WHEN \(isThere) THEN 1 ELSE 0 END") > 0 else { return nil }
        let row = try database.first("SELECT version, oldest_reader FROM hub_schema") { ($0.int(0), $0.int(1)) }
        try check(row?.1)
        return row?.0
    }

    /// The number of the schema. A cast of its name would read the name as an identifier, so a capital or a dot in it finds another or
    /// none.
    private static let here = "(SELECT n.oid FROM pg_namespace n WHERE n.nspname = current_schema())"

    /// There are tables of a hub. A table of this name without these columns belongs to another program.
    ///
    /// The views of `information_schema` would tell it as well. They take several milliseconds in a database of many tables.
    private static let isThere = """
        (SELECT count(*) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = \(here)
        AND c.relname = 'hub_schema' AND a.attname IN ('version', 'oldest_reader')) = 2
        """

    /// Refuses a schema where another program has a table, a view or an index of a name that the steps use: those that make it `IF NOT
    /// EXISTS`, for tables that went back to an earlier version, would use it in the place of the hub's own.
    ///
    /// - Throws: `.foreign`.
    private static func refuseOthers(_ database: PostgresDatabase) throws(DatabaseError) {
        // Another replica may have made the tables since they were looked for.
        let found = try database.text(
            """
            SELECT c.relname FROM pg_class c WHERE c.relnamespace = \(here)
            AND c.relname IN (\(names.map { "'\($0)'" }.joined(separator: ", "))) AND NOT \(isThere) ORDER BY 1 LIMIT 1
            """)
        guard !found.isEmpty else { return }
        throw DatabaseError(
            .foreign, doing: "make the tables of the hub",
            detail: "another program has \(found) in this schema; give the hub a database or a schema of its own")
    }

    static func check(_ oldestReader: Int64?) throws(DatabaseError) {
        guard let oldestReader, oldestReader <= version else {
            throw DatabaseError(
                .foreign, doing: "use the database",
                detail: oldestReader.map {
                    "a newer agenthub uses it: it is for programs that know schema \($0), this one knows up to \(version); "
                        + "install a newer version"
                }
                    ?? "it is not the database of a hub any more")
        }
    }

    /// Updates the tables. Several replicas may start at once: one makes the step, the others find it made.
    static func update(_ database: PostgresDatabase) throws(DatabaseError) {
        var tries = 0
        while true {
            let present = try present(database) ?? 0
            if present >= version { break }
            tries += 1
            do throws(DatabaseError) {
                if present > 0 { try buildIndexes(database, from: present) } else { try refuseOthers(database) }
                try step(database, from: present)
            } catch {
                try database.rollback()
                // A build that failed has its lock still. With another try it would keep it, and others that start wait for it.
                try unlock(database)
                // Another replica was faster (two that make one table fail by a unique key of the catalogue), or both conflicted.
                if tries < 5, error.kind == .contended || error.kind == .busy || error.kind == .other { continue }
                throw DatabaseError(error.kind == .other ? .foreign : error.kind, doing: error.doing, detail: error.detail)
            }
        }
        try demandDurability(database)
    }

    private static func step(_ database: PostgresDatabase, from present: Int64) throws(DatabaseError) {
        try database.execute("BEGIN")
        if present > 0 {
            let now = try database.number("SELECT version FROM hub_schema FOR UPDATE")
            guard now == present else { return try database.rollback() }
        }
        for (index, statements) in steps.enumerated().dropFirst(Int(max(0, present))) {
            let new = (indexes[index + 1] ?? []).map { $0.creation("IF NOT EXISTS") }
            for statement in new + statements {
                try database.execute(statement)
                // With rows each may take as long as the wait for an answer. In a new database those of a step go together.
                if present > 0 { try database.waitForWrites() }
            }
            try database.execute("UPDATE hub_schema SET version = \(index + 1)")
            try database.waitForWrites()
        }
        // A new database has no earlier keys.
        if present <= 0 { for statement in PostgresKeys.removal { try database.execute(statement) } }
        try database.commit()
    }

    /// Builds the indexes of the steps to come, while all hubs go on writing (PostgreSQL 15, CREATE INDEX, "Building Indexes
    /// Concurrently"). When several hubs start at once, one builds and the others wait for it. An index that a killed hub left incomplete
    /// is dropped and built anew. A table that is yet to be created has no rows, so its step makes the index.
    private static func buildIndexes(_ database: PostgresDatabase, from present: Int64) throws(DatabaseError) {
        for step in Int(present) + 1...steps.count {
            for index in indexes[step] ?? [] where try isMissing(index, database) {
                try database.withoutTimeLimits { () throws(DatabaseError) in try build(index, database) }
            }
        }
    }

    /// Returns whether the table is there, and a complete index of this name is not.
    private static func isMissing(_ index: NewIndex, _ database: PostgresDatabase) throws(DatabaseError) -> Bool {
        try database.number(
            """
            SELECT CASE WHEN to_regclass('\(index.table)') IS NULL OR EXISTS (
            SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE c.relname = '\(index.name)' AND c.relnamespace = \(here) AND i.indisvalid) THEN 0 ELSE 1 END
            """) > 0
    }

    private static func build(_ index: NewIndex, _ database: PostgresDatabase) throws(DatabaseError) {
        // The lock is polled: a session that waits for a lock has a snapshot, and the build waits for that snapshot.
        let lock = "pg_try_advisory_lock(hashtext(current_schema() || '.\(index.name)'))"
        while try database.number("SELECT CASE WHEN \(lock) THEN 1 ELSE 0 END") == 0 { usleep(200_000) }
        if try isMissing(index, database) {
            // Neither locks the table against others: a backup may read it for hours, and both wait for that.
            for statement in ["DROP INDEX CONCURRENTLY IF EXISTS \(index.name)", index.creation("CONCURRENTLY")] {
                try database.execute(statement)
                try database.waitForWrites()
            }
        }
        try unlock(database)
    }

    /// Gives back the locks of builds, however often the session has taken them: it has no others.
    private static func unlock(_ database: PostgresDatabase) throws(DatabaseError) {
        _ = try database.text("SELECT pg_advisory_unlock_all()")
    }

    /// An answer is a promise that survives a power cut, whatever default the server's administrator has set.
    private static func demandDurability(_ database: PostgresDatabase) throws(DatabaseError) {
        guard try database.text("SELECT current_setting('synchronous_commit')") == "off" else { return }
        try database.execute("SET synchronous_commit = on")
        try database.waitForWrites()
    }
}
