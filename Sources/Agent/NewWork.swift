package import SyncCore

/// New work that the engine does not know of yet: one report for all enqueues of one turn of the loop.
package struct NewWork: Hashable, Sendable {
    /// A report for the engine.
    package struct Report: Hashable, Sendable {
        /// The most urgent priority among the work.
        package var priority: Priority
        /// The earliest expiry among it; one that is too early costs only one check.
        package var expiry: Instant?
    }

    private var waiting: Report?

    package init() {}

    /// - Returns: `true` when a report must be planned, because none is.
    package mutating func add(_ priority: Priority, expiry: Instant?) -> Bool {
        guard let known = waiting else {
            waiting = Report(priority: priority, expiry: expiry)
            return true
        }
        waiting = Report(
            priority: min(known.priority, priority), expiry: [known.expiry, expiry].compactMap { $0 }.min())
        return false
    }

    /// - Returns: `nil` when there is nothing to report.
    package mutating func take() -> Report? {
        defer { waiting = nil }
        return waiting
    }
}
