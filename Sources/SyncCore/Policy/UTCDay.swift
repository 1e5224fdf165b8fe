/// A day of the ledger: a number of whole days since 1970-01-01 UTC.
///
/// It is a UTC day and not a local one. A day of the ledger is a label in the database and a unit of accounting; neither daylight saving
/// nor a device that crosses time zones may make one 23 or 25 hours long, or repeat it.
package struct UTCDay: Hashable, Comparable, Sendable {
    package let number: Int64

    package init(number: Int64) {
        // The range of the years 0 to 9999, which RFC 3339 can express; a number outside of it is damaged.
        self.number = min(max(number, -719_528), 2_932_896)
    }

    package init(_ time: Timestamp) {
        let (quotient, remainder) = time.milliseconds.quotientAndRemainder(dividingBy: 86_400_000)
        self.init(number: remainder < 0 ? quotient - 1 : quotient)
    }

    package var start: Timestamp { Timestamp(milliseconds: number * 86_400_000) }
    package var next: UTCDay { UTCDay(number: number + 1) }

    package static func < (left: UTCDay, right: UTCDay) -> Bool { left.number < right.number }

    /// The first day of the month that contains this day, when months begin on `anchor` (1 to 28).
    package func monthStart(anchor: Int) -> UTCDay {
        let anchor = Int64(min(max(anchor, 1), 28))
        let (year, month, day) = RFC3339.civil(fromDays: number)
        if day >= anchor { return UTCDay(number: RFC3339.days(year, month, anchor)) }
        return UTCDay(number: month == 1 ? RFC3339.days(year - 1, 12, anchor) : RFC3339.days(year, month - 1, anchor))
    }

    package func nextMonthStart(anchor: Int) -> UTCDay {
        let (year, month, day) = RFC3339.civil(fromDays: monthStart(anchor: anchor).number)
        return UTCDay(number: month == 12 ? RFC3339.days(year + 1, 1, day) : RFC3339.days(year, month + 1, day))
    }

    /// `2026-11-20`.
    package var text: String { String(start.description.prefix(10)) }

    /// - Returns: `nil` unless the text has the form `YYYY-MM-DD` and the day exists.
    package init?(_ text: String) {
        guard text.utf8.count == 10, let start = RFC3339.timestamp(text + "T00:00:00Z") else { return nil }
        self.init(start)
    }
}
