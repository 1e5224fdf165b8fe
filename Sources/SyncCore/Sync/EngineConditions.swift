/// The last known state of links, power and budgets. The engine is told of every change and decides about traffic by it (PROTOCOL F).
package struct Conditions: Hashable, Sendable {
    /// The result of links and probes. `offline`, `captive` and `degraded` end all traffic. Under every other value the engine finds out
    /// itself how the hub answers. `connecting` means only that there is a link.
    package var reachability: Reachability
    /// The link that carries the sync; `nil`: there is none, or links are not watched.
    package var uplink: Uplink?
    package var power = PowerLevel.ample
    /// Budgets of the uplink for the day and the month, as far as they are limited.
    package var budgets: [Budget] = []
    /// Time at which an unmetered link was last usable; see ``Situation/unmeteredSeenAt``.
    package var unmeteredSeenAt: Timestamp?
    /// Time at which the oldest waiting mutation of normal priority was enqueued.
    package var oldestNormalAt: Timestamp?
    /// An app reads the events.
    package var isActive = false
    /// The configured time windows are open. `windowOpensAt` is when they open next.
    package var isWindowOpen = true
    package var windowOpensAt: Timestamp?

    package init(reachability: Reachability = .connecting, uplink: Uplink? = nil) {
        self.reachability = reachability
        self.uplink = uplink
    }

    /// There is an unmetered link, and nothing else is known.
    package static let plain = Conditions()
    package static let offline = Conditions(reachability: .offline)

    package var hasLink: Bool { reachability != .offline }

    /// A probe has found that the hub cannot be reached over this link.
    var isBlocked: Bool { reachability == .captive || reachability == .degraded }
}
