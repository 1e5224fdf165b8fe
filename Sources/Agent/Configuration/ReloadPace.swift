package import SyncCore

/// Combines requests for a reload. A reload reads and checks all files on the loop that answers apps, so a flood of SIGHUP must not become
/// a flood of reloads. One runs at a time, at most one waits, and it begins at least ``spacing`` after the last one ended. A request during
/// a reload gets a reload of its own, because the files may have changed since they were read.
package struct ReloadPace: Sendable {
    package static let spacing: Duration = .seconds(1)

    private var isPlanned = false
    /// Start of the last reload, and later its end.
    private var lastAt: Instant?

    package init() {}

    /// - Returns: Delay until the reload; `nil` when a planned one serves the request.
    package mutating func request(at now: Instant) -> Duration? {
        if isPlanned { return nil }
        isPlanned = true
        guard let lastAt else { return .zero }
        return max(.zero, now.duration(to: lastAt.advanced(by: Self.spacing)))
    }

    /// Begins a reload. Call it before the files are read.
    package mutating func begin(at now: Instant) {
        isPlanned = false
        lastAt = now
    }

    package mutating func end(at now: Instant) {
        lastAt = now
    }
}
