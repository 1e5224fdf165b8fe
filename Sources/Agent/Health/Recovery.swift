package import SyncCore

/// A past fault of the database or its disk, which is shown for a while.
///
/// Faults that need a person have alarms of their own (`lost_tail`, `recovered_from_corruption`) and do not end here.
package struct Recovery: Hashable, Sendable {
    package enum Cause: Hashable, Sendable {
        /// The disk was full; no data was lost and the disk is intact. It is over when there is room again.
        case fullDisk
        /// The disk failed or the database could not be used: the disk may be failing, which repeats.
        case disk
    }

    /// Time for which a failure of the disk is shown after the last one.
    package static let remembered: Duration = .seconds(3_600)

    private let text: String
    private let cause: Cause
    private let at: Instant

    package init(_ text: String, _ cause: Cause, at: Instant) {
        self.text = text
        self.cause = cause
        self.at = at
    }

    /// - Parameter hasRoom: The disk accepts work now.
    /// - Returns: One sentence; `nil` once it is no longer relevant.
    package func told(at now: Instant, hasRoom: Bool) -> String? {
        switch cause {
        case .fullDisk: hasRoom ? nil : text
        case .disk: at.duration(to: now) < Self.remembered ? text : nil
        }
    }
}
