package import SyncCore

/// Makes one reload of many wishes. A reload reads and checks all files on the loop that answers apps, so a flood of SIGHUP must
/// not become a flood of reloads: one runs at a time, at most one waits, and it begins at least ``spacing`` after the last one
/// ended. A wish that comes while one runs gets a reload of its own, because the files may have changed since that one read them.
package struct ReloadPace: Sendable {
    package static let spacing: Duration = .seconds(1)

    private var isPlanned = false
    /// When the last one began, and then when it ended.
    private var lastAt: Instant?

    package init() {}

    /// - Returns: When to begin a reload, counted from now; `nil` when one that has not begun will do.
    package mutating func request(at now: Instant) -> Duration? {
        if isPlanned { return nil }
        isPlanned = true
        guard let lastAt else { return .zero }
        return max(.zero, now.duration(to: lastAt.advanced(by: Self.spacing)))
    }

    /// Call before the files are read.
    package mutating func begin(at now: Instant) {
        isPlanned = false
        lastAt = now
    }

    package mutating func end(at now: Instant) {
        lastAt = now
    }
}
