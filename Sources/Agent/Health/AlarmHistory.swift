package import LocalAPI
package import SyncCore

/// Past events of the data, or of this device's identity. They are kept over restarts until they are acknowledged. A person who looks a
/// week later learns that a database went back in time, although everything has recovered since.
package struct AlarmHistory: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        package var code: AlarmCode
        package var detail: String
        package var at: Timestamp
    }

    /// The newest event of each code, in the order in which the codes were first reported.
    package private(set) var entries: [Entry] = []

    package init() {}

    /// - Returns: `true` when the event is of a kind that is kept.
    package mutating func record(_ code: AlarmCode, _ detail: String, at now: Timestamp) -> Bool {
        guard code.isEvent else { return false }
        let entry = Entry(code: code, detail: detail, at: now)
        if let index = entries.firstIndex(where: { $0.code == code }) { entries[index] = entry } else { entries.append(entry) }
        return true
    }

    /// - Parameter code: Code to acknowledge; `nil`: all.
    /// - Returns: The codes that are no longer shown.
    package mutating func acknowledge(_ code: AlarmCode?) -> [AlarmCode] {
        let gone = entries.filter { code == nil || $0.code == code }.map(\.code)
        entries.removeAll { gone.contains($0.code) }
        return gone
    }

    /// Adds the events of earlier runs, unless they were reported again since.
    package mutating func add(_ earlier: AlarmHistory) {
        let known = Set(entries.map(\.code))
        entries = earlier.entries.filter { !known.contains($0.code) } + entries
    }

    // MARK: Stored form

    package var text: String {
        JSON.array(entries.map { ["code": .string($0.code.rawValue), "detail": .string($0.detail), "at": .int($0.at.milliseconds)] }).json
    }

    /// - Returns: `nil` when the text is not in the format of ``text``.
    package init?(text: String) {
        // `try?`: the caller reports the damage.
        guard let items = (try? JSONReader.read(text))?.array else { return nil }
        for item in items {
            guard let code = item.object?["code"]?.text.flatMap({ AlarmCode(rawValue: $0) }), code.isEvent, let at = item.object?["at"]?.int
            else {
                continue
            }
            entries.append(Entry(code: code, detail: item.object?["detail"]?.text ?? "", at: Timestamp(milliseconds: at)))
        }
    }
}
