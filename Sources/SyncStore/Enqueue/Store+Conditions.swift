package import SyncCore
import SyncSQLite

// Facts that other parts of the agent need after a restart.
extension Store {
    /// Stores the settings that the hub has sent.
    package func keepServerConfiguration(_ text: String, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in try MetaTable(database).set("server_config", text) }
    }

    package func serverConfiguration() throws(StoreError) -> String? { try MetaTable(database).text("server_config") }

    /// Stores the time at which an unmetered link was last usable. It is called now and then, not at every check, because a few hours do
    /// not matter to a rule of a day.
    package func saveUnmetered(at time: Timestamp, now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try MetaTable(database).set("unmetered_seen_ms", String(time.milliseconds))
        }
    }
}

extension StoreReads {
    /// Time at which an unmetered link was last usable. If there never was one, it is the time at which this installation began, so that a
    /// device without such a link does not wait for ever.
    package func unmeteredSeenAt() throws(StoreError) -> Timestamp {
        let meta = MetaTable(database)
        var kept = try meta.text("unmetered_seen_ms")
        if kept == nil { kept = try meta.text("created_ms") }
        return Timestamp(milliseconds: kept.flatMap { Int64($0) } ?? 0)
    }

    /// Time at which the oldest sendable mutation of normal priority was enqueued; `nil` when none waits. It takes one look into each
    /// index, however many wait.
    package func oldestNormalAt() throws(StoreError) -> Timestamp? {
        let created = try database.number(
            """
            SELECT created_ms FROM payload WHERE seq = (SELECT min(seq) FROM mutation WHERE ready = 1 AND priority = ?)
            """, .int(Priority.normal.rawValue))
        return created.map { Timestamp(milliseconds: $0) }
    }
}
