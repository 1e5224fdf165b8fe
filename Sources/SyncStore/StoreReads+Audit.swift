package import SyncCore

/// One decision of a person or an app, as it was written down: who, when, what, about what.
package struct AuditEntry: Hashable, Sendable {
    /// Rises by one from entry to entry.
    package var number: Int64
    package var at: Timestamp
    package var uid: UInt32
    package var verb: String
    /// A mutation, or what else it was about; empty where that is the whole agent.
    package var target: String
    /// JSON text: the reason, or what came of it.
    package var json: String?
}

extension StoreReads {
    /// - Parameters:
    ///   - number: Only later ones.
    ///   - limit: 1 to 1,000.
    package func audit(after number: Int64, limit: Int) throws(StoreError) -> [AuditEntry] {
        try database.all(
            "SELECT n, at_ms, uid, verb, target, json FROM audit WHERE n > ? ORDER BY n LIMIT ?", .int(number),
            .int(min(max(1, limit), 1_000))
        ) { row throws(StoreError) in
            AuditEntry(
                number: row.int(0), at: Timestamp(milliseconds: row.int(1)), uid: UInt32(clamping: row.int(2)),
                verb: row.text(3), target: row.text(4), json: row.optionalText(5))
        }
    }
}
