package import SyncCore

/// How often the agent has died in a row, kept in the state folder as `starts`, so that a fault in what it syncs cannot
/// keep it from serving the apps: after five deaths it starts in *safe mode*, with the sync paused for ten minutes.
///
/// A run that ends as asked, or lasts for ten minutes, starts the count anew. So does another boot: a power cut is no fault.
package struct CrashCount: Hashable, Sendable {
    /// Deaths in a row that make safe mode.
    package static let limit = 5
    /// What lasts so long does not die in a loop; and how long safe mode holds the sync back.
    package static let window: Duration = .seconds(600)

    package private(set) var boot: String
    /// Boot time of the start that was counted last.
    package private(set) var startedAt: Instant
    /// Runs before this one that died, one after the other.
    package private(set) var deaths: Int

    /// The count of a run that begins now, from what the run before left.
    package init(after last: CrashCount?, boot: String, at now: Instant) {
        let isNext = last.map { $0.boot == boot && $0.startedAt <= now && $0.startedAt.duration(to: now) < Self.window } ?? false
        self.boot = boot
        startedAt = now
        deaths = isNext ? (last?.deaths ?? 0).saturatingAdd(1) : 0
    }

    package var isSafeMode: Bool { deaths >= Self.limit }

    // MARK: File

    /// `boot startedAt(ns) deaths`, one line.
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
