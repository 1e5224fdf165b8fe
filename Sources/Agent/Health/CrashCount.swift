package import SyncCore

/// Number of crashes in a row, stored in the state folder as `starts`, so that a fault in the synced data cannot stop the agent from
/// serving apps. After five crashes it starts in *safe mode*, with the sync paused for ten minutes.
///
/// A run that ends on request, or lasts for ten minutes, resets the count. So does another boot: a power cut is no fault.
package struct CrashCount: Hashable, Sendable {
    /// Number of crashes in a row that causes safe mode.
    package static let limit = 5
    /// Run time from which on a crash does not count, and duration of the pause in safe mode.
    package static let window: Duration = .seconds(600)

    package private(set) var boot: String
    /// Boot time of the start that was counted last.
    package private(set) var startedAt: Instant
    /// Number of consecutive crashed runs before this one.
    package private(set) var deaths: Int

    /// Computes the count of a run that begins now, from the record of the previous run.
    package init(after last: CrashCount?, boot: String, at now: Instant) {
        let isNext = last.map { $0.boot == boot && $0.startedAt <= now && $0.startedAt.duration(to: now) < Self.window } ?? false
        self.boot = boot
        startedAt = now
        deaths = isNext ? (last?.deaths ?? 0).saturatingAdd(1) : 0
    }

    package var isSafeMode: Bool { deaths >= Self.limit }

    // MARK: File

    /// Reads the record: `boot startedAt(ns) deaths`, one line.
    package init?(text: String) {
        let parts = text.split(separator: "\n", maxSplits: 1).first?.split(separator: " ") ?? []
        guard parts.count == 3, let nanoseconds = Int64(parts[1]), let deaths = Int(parts[2]), nanoseconds >= 0, deaths >= 0
        else { return nil }
        boot = String(parts[0])
        startedAt = Instant(nanoseconds: nanoseconds)
        self.deaths = deaths
    }

    package var text: String { "\(boot) \(startedAt.nanoseconds) \(deaths)\n" }
}
