package import LocalAPI
package import SyncCore

/// The present alarms, and the past events that no person has acknowledged. The list of all alarms is ``AlarmCode``.
package struct Alarms: Hashable, Sendable {
    /// The present alarms by code, with the newest sentence of each.
    package private(set) var present: [AlarmCode: String] = [:]
    private var history = AlarmHistory()

    package init() {}

    /// The sentence of a present alarm; `nil` when it is not raised.
    package subscript(code: AlarmCode) -> String? { present[code] }

    /// Past events, in the order in which their codes were first reported.
    package var past: [AlarmHistory.Entry] { history.entries.filter { present[$0.code] == nil } }

    /// The past events in the form that is stored.
    package var text: String { history.text }

    /// - Returns: `true` when ``text`` has changed and must be stored.
    package mutating func raise(_ code: AlarmCode, _ detail: String, at now: Timestamp) -> Bool {
        present[code] = detail
        return history.record(code, detail, at: now)
    }

    /// Shows the alarm, without an event.
    package mutating func show(_ code: AlarmCode, _ detail: String) {
        present[code] = detail
    }

    /// Ends a present alarm. An event stays in the past ones.
    ///
    /// - Returns: `true` when it was raised.
    @discardableResult
    package mutating func end(_ code: AlarmCode) -> Bool {
        present.removeValue(forKey: code) != nil
    }

    /// - Parameter code: Code to acknowledge; `nil`: all.
    /// - Returns: The codes that are no longer shown among the past events.
    package mutating func acknowledge(_ code: AlarmCode?) -> [AlarmCode] {
        let gone = history.acknowledge(code)
        // An event has no present state to keep, with one exception.
        for code in gone where code != .clonedDevice { present[code] = nil }
        return gone
    }

    /// Adds the events of earlier runs.
    ///
    /// - Returns: `true` when there is anything to store.
    package mutating func add(_ earlier: AlarmHistory) -> Bool {
        history.add(earlier)
        return !history.entries.isEmpty
    }
}
