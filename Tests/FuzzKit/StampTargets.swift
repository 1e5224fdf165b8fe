import SyncCore

extension FuzzTarget {
    /// Times in all the forms that come from outside, one a line. Stamps sort as texts as they do as values, and a clock that
    /// takes them in never goes back and is never dragged ahead.
    static let stamp = FuzzTarget("stamp", lengthMax: 512) { bytes in
        let now = Timestamp(milliseconds: 1_763_700_000_000)
        var clock = HybridClock(last: HybridTime(milliseconds: 1_763_600_000_000, counter: 0, node: "6fa3c1e2"))
        let limit = UInt64(now.advanced(by: HybridClock.aheadMax).milliseconds)
        var stamps: [HybridTime] = []
        for line in bytes.split(separator: 10) {
            let text = line.asText
            if let stamp = HybridTime(text) {
                try claim(HybridTime(stamp.description) == stamp, "\(text) became \(stamp)")
                stamps.append(stamp)
                let before = clock.last
                clock.observe(stamp, now: now)
                try claim(!(clock.last < before), "the clock went back by \(text)")
                let next = clock.tick(now: now)
                try claim(before < next && clock.last == next, "two stamps alike after \(text)")
                try claim(next.milliseconds <= limit + 1, "\(text) dragged the clock to \(next)")
                try claim(stamp.milliseconds > limit || stamp < next || stamp.milliseconds == next.milliseconds, "\(next) is not after \(text)")
            }
            if let time = RFC3339.timestamp(text) {
                try claim(RFC3339.timestamp(RFC3339.text(time)) == time, "\(text) became \(RFC3339.text(time))")
            }
            if let date = HTTPDate.timestamp(text), date.milliseconds >= 0 {
                try claim(HTTPDate.timestamp(HTTPDate.text(date))?.milliseconds == date.milliseconds / 1_000 * 1_000, "\(text) became \(HTTPDate.text(date))")
            }
            if let wait = HubHeaders.retryAfter(text, sentAt: now) {
                try claim(wait >= .zero && wait <= .seconds(3_155_760_000), "a wait of \(wait)")
            }
            if let rate = RateLimit(text) {
                try claim(rate.reset <= .seconds(3_600) && (rate.pause ?? .zero) <= .seconds(3_600), "a pause of \(rate.reset)")
            }
            if let day = UTCDay(text) { try claim(UTCDay(day.text) == day, "\(text) became \(day.text)") }
            if let window = TimeWindow(text) { try claim(TimeWindow(text) == window, "\(text) is two windows") }
        }
        let lower = stamps.filter { $0.node == $0.node.lowercased() }
        let byText = lower.sorted { $0.description.utf8.lexicographicallyPrecedes($1.description.utf8) }
        try claim(byText == lower.sorted(), "stamps sort in two ways")
    }
}
