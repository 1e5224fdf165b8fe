/// The share of this device, when its scopes at the hub change (PROTOCOL A1, `Sync-Scopes`). The hub's mark tells only that they changed. A
/// hello tells the scopes, and a pull brings what was gained and takes away what was lost.
struct ShareWatch: Hashable, Sendable {
    /// Longest delay of the cycle that follows a change of the scopes, so that the devices of a group do not all come at once.
    static let delayMax: Duration = .seconds(1)
    /// Shortest time between two such cycles: a hub whose mark changes with every answer must not keep the device busy.
    static let spacing: Duration = .seconds(10)

    /// The next cycle pulls, whatever the hub's head says.
    private(set) var isDue = false
    /// Time of the last cycle that a change of the scopes caused.
    private var askedAt: Instant?

    mutating func mustPull() {
        isDue = true
    }

    mutating func cyclePulls() {
        isDue = false
    }

    /// - Parameter soon: Time of the cycle if there was none for such a change lately.
    /// - Returns: Time of the cycle.
    mutating func plan(_ soon: Instant) -> Instant {
        let at = askedAt.map { max(soon, $0.advanced(by: Self.spacing)) } ?? soon
        askedAt = at
        return at
    }
}

extension SyncState {
    /// Compares the mark of an answer with the last one. Over a metered link the change waits for the next cycle.
    mutating func recordShare(_ mark: String) {
        guard durable.recordShareMark(mark) else { return }
        // Everything up to this head was read under other scopes.
        hub.forgetReadHead()
        if calls.kind == .hello, let cycle, cycle.scope != .push {
            self.cycle?.pullsShare = true
            return
        }
        share.mustPull()
        hub.requireHello()
        guard conditions.uplink?.isMetered != true else { return }
        let soon = now.instant.advanced(by: random.duration(from: .zero, to: ShareWatch.delayMax))
        trigger(.again(at: share.plan(soon)))
    }
}
