/// What links, power and budgets are like, as those who watch them saw it last. The engine is told of every change and
/// decides about traffic by it (PROTOCOL F).
package struct Conditions: Hashable, Sendable {
    /// What links and probes say. `offline`, `captive` and `degraded` end all traffic; under every other the engine finds
    /// out by itself how the hub answers. `connecting` is no opinion: there is a link.
    package var reachability: Reachability
    /// The link that carries the sync; `nil`: none, or nobody watches.
    package var uplink: Uplink?
    package var power = PowerLevel.ample
    /// Day and month of the uplink, as far as they are limited.
    package var budgets: [Budget] = []
    /// When an unmetered link was last usable; see ``Situation/unmeteredSeenAt``.
    package var unmeteredSeenAt: Timestamp?
    /// When the oldest waiting mutation of normal priority was enqueued.
    package var oldestNormalAt: Timestamp?
    /// An app follows the events.
    package var isActive = false
    /// Whether the configured time windows are open, and when they open next.
    package var isWindowOpen = true
    package var windowOpensAt: Timestamp?

    package init(reachability: Reachability = .connecting, uplink: Uplink? = nil) {
        self.reachability = reachability
        self.uplink = uplink
    }

    /// There is a link, it costs nothing, and nothing else is known.
    package static let plain = Conditions()
    package static let offline = Conditions(reachability: .offline)

    package var hasLink: Bool { reachability != .offline }

    /// Somebody else says that the hub is not to be had over this link.
    var isBlocked: Bool { reachability == .captive || reachability == .degraded }
}
