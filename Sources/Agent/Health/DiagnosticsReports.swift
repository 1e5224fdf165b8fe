package import SyncCore

/// The reports for the hub: when one is due (``DiagnosticsWatch``), and that only one is on its way.
package struct DiagnosticsReports: Hashable, Sendable {
    private var watch = DiagnosticsWatch()
    private var isSending = false

    package init() {}

    package mutating func handle(_ event: DiagnosticsWatch.Event, at now: Instant) {
        watch.handle(event, now: now)
    }

    /// - Parameter mayGo: The policy allows a report now.
    /// - Returns: `true` when a report must be made; it ends with ``gaveUp()`` or ``ended(isSent:at:)``.
    package mutating func begin(mayGo: Bool, at now: Instant) -> Bool {
        guard mayGo, !isSending, watch.isDue(at: now) else { return false }
        isSending = true
        return true
    }

    /// Ends a report that was not sent: it stays due.
    package mutating func gaveUp() {
        isSending = false
    }

    package mutating func ended(isSent: Bool, at now: Instant) {
        isSending = false
        watch.handle(isSent ? .sent : .failed, now: now)
    }
}
