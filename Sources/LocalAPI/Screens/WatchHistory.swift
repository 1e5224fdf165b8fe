package import SyncCore

/// What a viewer shows of an agent over time: of the queue the last hours as the agent kept them, with what is seen now at their end,
/// and of the bytes what the ledger knows. An agent that keeps no hours is shown since somebody began to look.
package struct WatchHistory: Hashable, Sendable {
    package struct Sample: Hashable, Sendable {
        package var at: Timestamp
        /// Open mutations.
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

    /// Oldest first.
    package private(set) var samples: [Sample] = []
    /// Oldest first, without a gap, today last.
    package private(set) var days: [Day] = []

    /// As many as the widest screen shows; at one every two seconds that is a quarter of an hour.
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

    /// Takes over what the ledger knows. Days on which nothing moved are not in it, and are 0.
    package mutating func seed(_ ledger: LedgerAnswer, at now: Timestamp) {
        var sums: [String: Int64] = [:]
        for item in ledger.items { sums[item.period, default: 0] = sums[item.period, default: 0].saturatingAdd(item.up).saturatingAdd(item.down) }
        days = (0..<Self.daysShown).reversed().map { back in
            let name = Self.name(of: now.advanced(by: .seconds(-86_400 * back)))
            return Day(name: name, bytes: sums[name] ?? 0)
        }
    }

    /// Days are those of UTC, as in the ledger.
    private static func name(of time: Timestamp) -> String { String(RFC3339.text(time).prefix(10)) }
}
