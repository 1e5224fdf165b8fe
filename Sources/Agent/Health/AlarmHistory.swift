package import SyncCore

/// What happened to the data, or to the identity of this device: kept until somebody has acknowledged it, over restarts. Whoever looks
/// a week later learns that a database went back in time, although all of it has healed since.
package struct AlarmHistory: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        package var code: String
        package var detail: String
        package var at: Timestamp
    }

    /// Events, which are over once they are told. Other alarms are conditions, and end with what they are about.
    package static let events: Set<String> = [
        "recovered_from_corruption", "lost_tail", "relaxed_lost", "identity_damaged", "replica_regressed", "epoch_changed", "cloned_device",
    ]

    /// The newest of each code, in the order in which they were told first.
    package private(set) var entries: [Entry] = []

    package init() {}

    /// - Returns: Whether it is of a kind that is kept.
    package mutating func note(_ code: String, _ detail: String, at now: Timestamp) -> Bool {
        guard Self.events.contains(code) else { return false }
        let entry = Entry(code: code, detail: detail, at: now)
        if let index = entries.firstIndex(where: { $0.code == code }) { entries[index] = entry } else { entries.append(entry) }
        return true
    }

    /// - Parameter code: `nil`: all.
    /// - Returns: The codes of what is told no more.
    package mutating func acknowledge(_ code: String?) -> [String] {
        let gone = entries.filter { code == nil || $0.code == code }.map(\.code)
        entries.removeAll { gone.contains($0.code) }
        return gone
    }

    /// What was told before this start, unless it was told again since.
    package mutating func add(_ earlier: AlarmHistory) {
        let known = Set(entries.map(\.code))
        entries = earlier.entries.filter { !known.contains($0.code) } + entries
    }

    // MARK: As it is kept

    package var text: String {
        JSON.array(entries.map { ["code": .string($0.code), "detail": .string($0.detail), "at": .int($0.at.milliseconds)] }).json
    }

    /// - Returns: `nil` when it is not what ``text`` writes.
    package init?(text: String) {
        // `try?`: the caller tells that it is damaged.
        guard let items = (try? JSONReader.read(text))?.array else { return nil }
        for item in items {
            guard let code = item.object?["code"]?.text, Self.events.contains(code), let at = item.object?["at"]?.int else { continue }
            entries.append(Entry(code: code, detail: item.object?["detail"]?.text ?? "", at: Timestamp(milliseconds: at)))
        }
    }
}
