/// A part of the week in local time: `22:00-05:00`, `mon-fri 09:00-17:30`, `sat,sun 00:00-24:00`.
///
/// It includes its first minute and excludes its last. A window that ends at or before its start runs past midnight and belongs to the day
/// of its start. It is compared with the weekday and minute of local time, so a change to summer time needs no rule here.
package struct TimeWindow: Hashable, Sendable {
    package enum Day: Int, Hashable, Sendable, CaseIterable {
        case mon, tue, wed, thu, fri, sat, sun

        var name: String { Day.names[rawValue] }

        private static let names = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

        init?(name: some StringProtocol) {
            guard let found = Day.allCases.first(where: { $0.name == name }) else { return nil }
            self = found
        }
    }

    package var days: Set<Day>
    /// Start, minute of the day, 0 to 1439.
    package var start: Int
    /// End, minute of the day, 0 to 1440. Invariant: not equal to `start`.
    package var end: Int

    /// - Parameter minute: Minute of the day, 0 to 1439.
    package func contains(_ day: Day, minute: Int) -> Bool {
        if start < end { return days.contains(day) && minute >= start && minute < end }
        let dayBefore = Day(rawValue: (day.rawValue + 6) % 7) ?? day
        return (days.contains(day) && minute >= start) || (days.contains(dayBefore) && minute < end)
    }
}

extension TimeWindow {
    /// - Returns: `nil` when `text` does not have the form of the examples above, or the window is empty.
    package init?(_ text: String) {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard let times = parts.last, parts.count <= 2 else { return nil }
        let ends = times.split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let start = TimeWindow.minute(ends[0]), let end = TimeWindow.minute(ends[1]),
            start < 1_440, start != end
        else { return nil }
        var days = Set(Day.allCases)
        if parts.count == 2 {
            guard let named = TimeWindow.days(parts[0]) else { return nil }
            days = named
        }
        self.init(days: days, start: start, end: end)
    }

    package var text: String {
        let times = TimeWindow.clock(start) + "-" + TimeWindow.clock(end)
        if days.count == Day.allCases.count { return times }
        return Day.allCases.filter(days.contains).map(\.name).joined(separator: ",") + " " + times
    }

    /// Reads days such as `mon-fri`, `sat,sun`, `fri-mon,wed`.
    private static func days(_ text: Substring) -> Set<Day>? {
        var days: Set<Day> = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let ends = part.split(separator: "-", omittingEmptySubsequences: false)
            guard let first = ends.first.flatMap({ Day(name: $0) }), ends.count <= 2,
                let last = ends.count == 2 ? Day(name: ends[1]) : first
            else { return nil }
            let length = (last.rawValue - first.rawValue + 7) % 7
            for step in 0...length { Day(rawValue: (first.rawValue + step) % 7).map { _ = days.insert($0) } }
        }
        return days
    }

    /// Reads a time `HH:MM`, up to 24:00.
    private static func minute(_ text: Substring) -> Int? {
        let bytes = Array(text.utf8)
        guard bytes.count == 5, bytes[2] == UInt8(ascii: ":") else { return nil }
        let digits = [bytes[0], bytes[1], bytes[3], bytes[4]].map { Int($0) - 48 }
        guard digits.allSatisfy({ (0...9).contains($0) }) else { return nil }
        let hour = digits[0] * 10 + digits[1], minute = digits[2] * 10 + digits[3]
        guard minute < 60, hour < 24 || (hour == 24 && minute == 0) else { return nil }
        return hour * 60 + minute
    }

    private static func clock(_ minute: Int) -> String {
        PlainText.digits(Int64(minute / 60), 2) + ":" + PlainText.digits(Int64(minute % 60), 2)
    }
}
