package import SyncCore

/// Selects counts of the byte ledger: `GET /v1/usage?link=&from=&to=&by=`.
package struct LedgerQuery: Hashable, Sendable {
    package enum Period: String, Sendable, CaseIterable {
        case day, month
    }

    /// Name of the link; `nil`: all links.
    package var link: LinkName?
    /// The first day; `nil`: the beginning of the ledger.
    package var from: CalendarDay?
    /// The last day, included; `nil`: today.
    package var to: CalendarDay?
    /// The period over which days are summed.
    package var period: Period

    package init(link: LinkName? = nil, from: CalendarDay? = nil, to: CalendarDay? = nil, by period: Period = .day) {
        self.link = link
        self.from = from
        self.to = to
        self.period = period
    }

    /// - Throws: 400 `malformed` for a value that cannot be read, and when the days are in the wrong order.
    init(from p: inout ParameterReader) throws(Problem) {
        self.init()
        if let text = try p.text("link") {
            guard let name = LinkName(text) else { throw p.refusal("link", LinkName.rule) }
            link = name
        }
        from = try LedgerQuery.day("from", &p)
        to = try LedgerQuery.day("to", &p)
        if let from, let to, to < from { throw p.refusal("to", "must not be before from, which is \(from)") }
        period = try p.words("by", Period.allCases.map { ($0.rawValue, $0) })?.first ?? .day
    }

    private static func day(_ name: String, _ p: inout ParameterReader) throws(Problem) -> CalendarDay? {
        guard let text = try p.text(name) else { return nil }
        guard let day = CalendarDay(text) else { throw p.refusal(name, CalendarDay.rule) }
        return day
    }
}

/// A day of the ledger, in UTC: `2026-11-19`.
package struct CalendarDay: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let text: String

    /// - Returns: `nil` when the text is no day of the calendar.
    package init?(_ text: String) {
        guard text.utf8.count == 10, RFC3339.timestamp(text + "T00:00:00Z") != nil else { return nil }
        self.text = text
    }

    package static let rule = "must be a day such as 2026-11-19"

    /// Time at which the day begins.
    package var start: Timestamp {
        guard let start = RFC3339.timestamp(text + "T00:00:00Z") else { preconditionFailure("checked when it was made") }
        return start
    }

    package var description: String { text }

    // The text has digits and dashes in fixed places, so its order is the order of the days.
    package static func < (left: CalendarDay, right: CalendarDay) -> Bool {
        precedesInBytes(left.text, right.text)
    }
}
