package import SyncCore

// What happened to the data and nobody has acknowledged yet, in the words of whoever keeps it.
extension Store {
    package func keepAlarms(_ text: String, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in try MetaTable(database).set("alarms", text) }
    }

    /// - Returns: `nil`: none were ever kept.
    package func keptAlarms() throws(StoreError) -> String? {
        try MetaTable(database).text("alarms")
    }
}
