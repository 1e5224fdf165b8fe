package import SyncCore

/// What the agent keeps over a restart beside work and records, in words of its own.
package enum KeptText: String, Sendable, CaseIterable {
    /// What happened to the data and nobody has acknowledged.
    case alarms
    /// What links cost, as scripts and people said since the machine was started.
    case linkHints = "link_hints"
}

extension Store {
    package func keep(_ text: String, as name: KeptText, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in try MetaTable(database).set(name.rawValue, text) }
    }

    /// - Returns: `nil`: nothing was ever kept.
    package func kept(_ name: KeptText) throws(StoreError) -> String? {
        try MetaTable(database).text(name.rawValue)
    }
}
