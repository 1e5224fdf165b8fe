package import SyncCore

// What other parts of the agent must still know after a restart.
extension Store {
    /// Keeps what the hub has told to work by.
    package func keepServerConfiguration(_ text: String, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in try MetaTable(database).set("server_config", text) }
    }

    package func serverConfiguration() throws(StoreError) -> String? { try MetaTable(database).text("server_config") }

    /// Keeps when an unmetered link was last usable. Called now and then, not with every look: a few hours more or less do
    /// not matter to a rule of a day.
    package func noteUnmetered(at time: Timestamp, now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try MetaTable(database).set("unmetered_seen_ms", String(time.milliseconds))
        }
    }
}

extension StoreReads {
    /// When an unmetered link was last usable; where none ever was, when this installation began, so that a device that
    /// will never have one does not wait for it for ever.
    package func unmeteredSeenAt() throws(StoreError) -> Timestamp {
        let meta = MetaTable(database)
        var kept = try meta.text("unmetered_seen_ms")
        if kept == nil { kept = try meta.text("created_ms") }
        return Timestamp(milliseconds: kept.flatMap { Int64($0) } ?? 0)
    }

    /// When the oldest mutation of normal priority that may be sent was enqueued; `nil` when none waits. One look into an
    /// index each, however many wait.
    package func oldestNormalAt() throws(StoreError) -> Timestamp? {
        let created = try database.number(
            """
            SELECT created_ms FROM payload WHERE seq = (SELECT min(seq) FROM mutation WHERE ready = 1 AND priority = ?)
            """, .int(Priority.normal.rawValue))
        return created.map { Timestamp(milliseconds: $0) }
    }
}
