package import SyncCore

/// Texts that the agent keeps over a restart besides work and records, in its own format.
package enum KeptText: String, Sendable, CaseIterable {
    /// Alarms about the data that are not acknowledged yet.
    case alarms
    /// Costs of links, as scripts and people have set them since the machine was started.
    case linkHints = "link_hints"
}

extension Store {
    package func keep(_ text: String, as name: KeptText, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in try MetaTable(database).set(name.rawValue, text) }
    }

    /// - Returns: `nil`: none was ever stored.
    package func kept(_ name: KeptText) throws(StoreError) -> String? {
        try MetaTable(database).text(name.rawValue)
    }
}
