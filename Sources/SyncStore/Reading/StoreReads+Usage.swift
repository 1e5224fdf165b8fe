package import SyncCore
import SyncSQLite

/// Selects a part of the ledger (`GET /v1/usage`).
package struct UsageQuery: Hashable, Sendable {
    package enum Period: String, Hashable, Sendable, CaseIterable { case day, month }

    /// Name of the link; `nil`: all links.
    package var link: String?
    /// First and last day, both included; `nil`: open.
    package var from: UTCDay?
    package var to: UTCDay?
    package var period = Period.day
    /// Largest number of rows. 400 days of two links and seven purposes are 5,600 rows; a longer period takes several queries.
    package var limit = 10_000

    package init() {}
}

extension StoreReads {
    /// Rows from the oldest on, then by link and purpose. By month, the day of a row is the first of its calendar month (UTC).
    package func usage(_ query: UsageQuery) throws(StoreError) -> [UsageRow] {
        // unixepoch and its modifiers: SQLite 3.38; days since 1970 fit its calendar, which ends in 9999.
        try database.all(
            """
            SELECT CASE ? WHEN 0 THEN day ELSE unixepoch(day * 86400, 'unixepoch', 'start of month') / 86400 END AS period,
                link, class, sum(up), sum(down), sum(requests)
            FROM usage WHERE day BETWEEN ? AND ? AND (? IS NULL OR link = ?)
            GROUP BY period, link, class ORDER BY period, link, class LIMIT ?
            """, .int(query.period == .day ? 0 : 1), .int(query.from?.number ?? .min), .int(query.to?.number ?? .max),
            .optional(query.link), .optional(query.link), .int(Int64(query.limit))
        ) { row throws(StoreError) -> UsageRow? in
            // A purpose of a newer version is not lost, but has no name here.
            guard let purpose = UsagePurpose(rawValue: row.text(2)) else { return nil }
            return UsageRow(
                link: row.text(1), day: UTCDay(number: row.int(0)), purpose: purpose, up: row.int(3), down: row.int(4),
                requests: row.int(5))
        }.compactMap { $0 }
    }
}
