package import SyncCore

/// The room on the disk of the state folder, as far as the free bytes of its file system do not tell it.
///
/// The rest of a quota, or of the largest file size, cannot be queried. It is used up when the disk is full although its file system has
/// room.
package struct DiskSpace: Hashable, Sendable {
    /// Interval between measurements while work arrives.
    private static let measureInterval: Duration = .seconds(1)
    /// Time without a full disk after which reserved space is taken again under a quota.
    private static let ballastAfterQuota: Duration = .seconds(300)

    /// A quota was met, and no mutation was accepted since then.
    package private(set) var isQuotaUsedUp = false
    private var measurement = Throttle(measureInterval)
    /// Time at which the disk was last full although its file system has room.
    private var quotaMetAt: Instant?

    package init() {}

    /// A measurement that is due.
    package struct Measurement: Hashable, Sendable {
        /// The reserved space may be restored. Under a quota, the store would only fill the space again that it has just freed.
        package var restoresBallast: Bool
    }

    /// - Returns: `nil` when the last measurement is new enough.
    package mutating func measure(at now: Instant) -> Measurement? {
        guard measurement.begin(at: now) else { return nil }
        return Measurement(restoresBallast: quotaMetAt.map { $0.duration(to: now) >= Self.ballastAfterQuota } ?? true)
    }

    /// Records that the disk was full just now; the last measurement is outdated.
    ///
    /// - Parameters:
    ///   - free: Free bytes of the file system; `nil`: not known.
    ///   - reserve: Free bytes that the store never uses, with twice its reserved space. With more than that free, a quota was met.
    package mutating func wasFull(free: Int64?, reserve: Int64, at now: Instant) {
        measurement.reset()
        guard let free, free >= reserve else { return }
        quotaMetAt = now
        isQuotaUsedUp = true
    }

    /// Records that the store has accepted a mutation.
    package mutating func accepted() {
        isQuotaUsedUp = false
    }
}
