package import SyncCore

/// The history that a viewer of the agent shows: for the queue the last hours as stored by the agent, with the present values at the end,
/// and for the bytes the days of the ledger. For an agent without stored hours it begins with the watch.
package struct WatchHistory: Hashable, Sendable {
    package struct Sample: Hashable, Sendable {
        package var at: Timestamp
        /// Number of open mutations.
        package var open: Int64
    }

    /// Bytes of one day, up and down.
    package struct Day: Hashable, Sendable {
        package var name: String
        package var bytes: Int64

        package init(name: String, bytes: Int64) {
            self.name = name
            self.bytes = bytes
        }
    }

    /// Samples, oldest first.
    package private(set) var samples: [Sample] = []
    /// Days, oldest first, without a gap, today last.
    package private(set) var days: [Day] = []

    /// Largest number of samples, as many as the widest screen shows; at one every two seconds that is a quarter of an hour.
    package static let samplesMax = 512
    package static let daysShown: Int64 = 14

    package init() {}

    package mutating func see(_ document: StatusDocument, at now: Timestamp) {
        if let kept = document.outbox.history {
            let last = kept.open.count - 1
            samples = kept.open.enumerated().map { index, open in
                Sample(at: kept.until.advanced(by: .zero - kept.step * (last - index)), open: open)
            }
        }
        samples.append(Sample(at: now, open: document.outbox.open))
        if samples.count > Self.samplesMax { samples.removeFirst(samples.count - Self.samplesMax) }
        guard let usage = document.usage else { return }
        let today = Self.name(of: now)
        let bytes = usage.up.saturatingAdd(usage.down)
        if let last = days.indices.last, days[last].name == today {
            days[last].bytes = max(days[last].bytes, bytes)
        } else {
            days.append(Day(name: today, bytes: bytes))
            if days.count > Int(Self.daysShown) { days.removeFirst() }
        }
    }

    /// Adds the days of the ledger. Days without traffic are not in it, and are 0.
    package mutating func seed(_ ledger: LedgerAnswer, at now: Timestamp) {
        var sums: [String: Int64] = [:]
        for item in ledger.items {
            sums[item.period, default: 0] = sums[item.period, default: 0].saturatingAdd(item.up).saturatingAdd(item.down)
        }
        days = (0..<Self.daysShown).reversed().map { back in
            let name = Self.name(of: now.advanced(by: .seconds(-86_400 * back)))
            return Day(name: name, bytes: sums[name] ?? 0)
        }
    }

    /// Days are UTC days, as in the ledger.
    private static func name(of time: Timestamp) -> String { String(RFC3339.text(time).prefix(10)) }
}
