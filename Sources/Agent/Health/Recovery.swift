package import SyncCore

/// Something went wrong with the database or its disk, and is over: told for a while, and then no more.
///
/// What a person has to look at is an alarm of its own (`lost_tail`, `recovered_from_corruption`) and does not end here.
package struct Recovery: Hashable, Sendable {
    package enum Cause: Hashable, Sendable {
        /// Nothing was lost, and nothing is wrong with a disk that was full: it is over when there is room again.
        case fullDisk
        /// The disk failed or the database could not be used: it may be failing, which repeats.
        case disk
    }

    /// How long a failure of the disk is told after the last one.
    package static let remembered: Duration = .seconds(3_600)

    private let text: String
    private let cause: Cause
    private let at: Instant

    package init(_ text: String, _ cause: Cause, at: Instant) {
        self.text = text
        self.cause = cause
        self.at = at
    }

    /// - Parameter hasRoom: The disk takes work at this moment.
    /// - Returns: One sentence; `nil` once it is no news any more.
    package func told(at now: Instant, hasRoom: Bool) -> String? {
        switch cause {
        case .fullDisk: hasRoom ? nil : text
        case .disk: at.duration(to: now) < Self.remembered ? text : nil
        }
    }
}
