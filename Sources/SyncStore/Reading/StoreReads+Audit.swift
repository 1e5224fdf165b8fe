package import SyncCore
import SyncSQLite

/// One recorded decision of a person or an app: author, time, action and target.
package struct AuditEntry: Hashable, Sendable {
    /// Increases by one from entry to entry.
    package var number: Int64
    package var at: Timestamp
    package var uid: UInt32
    package var verb: String
    /// A mutation or another target; empty for the whole agent.
    package var target: String
    /// JSON text: the reason, or the result.
    package var json: String?
}

extension StoreReads {
    /// Entries in the order of their numbers. A page also ends after ``pageBytes``, because an entry holds the lost value, which may have
    /// any size.
    ///
    /// - Parameters:
    ///   - number: Only entries after this number.
    ///   - limit: 1 to 1,000.
    /// - Returns: The entries, and the number after which there may be more.
    package func audit(after number: Int64, limit: Int) throws(StoreError) -> (items: [AuditEntry], next: Int64?) {
        var items: [AuditEntry] = []
        var bytes = 0
        let limit = min(max(1, limit), 1_000)
        try database.each(
            "SELECT n, at_ms, uid, verb, target, json FROM audit WHERE n > ? ORDER BY n LIMIT ?", .int(number), .int(limit),
            while: { bytes < Self.pageBytes }
        ) { row throws(StoreError) in
            items.append(
                AuditEntry(
                    number: row.int(0), at: Timestamp(milliseconds: row.int(1)), uid: UInt32(clamping: row.int(2)),
                    verb: row.text(3), target: row.text(4), json: row.optionalText(5)))
            for column in 0..<row.columnCount { bytes += row.byteCount(column) }
        }
        return (items, items.count == limit || bytes >= Self.pageBytes ? items.last?.number : nil)
    }
}
