package import SyncCore

/// The last facts about files, disk and kernel, which cost some system calls.
package struct SystemFacts: Sendable {
    /// Age from which on they are collected again for the status.
    private static let age: Duration = .seconds(600)

    /// `nil` as long as none were collected.
    package private(set) var last: DoctorFacts.System?
    private var collectedAt: Instant?

    package init() {}

    /// - Returns: `true` when they must be collected again.
    package func isOld(at now: Instant) -> Bool {
        collectedAt.map { $0.duration(to: now) > Self.age } ?? true
    }

    /// Records that they are being collected.
    package mutating func begin(at now: Instant) {
        collectedAt = now
    }

    /// - Parameter found: `nil` when they could not be collected; the last ones stay.
    package mutating func collected(_ found: DoctorFacts.System?) {
        if let found { last = found }
    }
}
