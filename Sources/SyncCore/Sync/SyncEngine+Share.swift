// The share of this device, when its scopes at the hub change (PROTOCOL A1, `Sync-Scopes`). The hub's mark tells only that they changed. A
// hello tells the scopes, and a pull brings what was gained and takes away what was lost.
extension SyncEngine {
    /// Longest delay of the cycle that follows a change of the scopes, so that the devices of a group do not all come at once.
    static let shareDelay: Duration = .seconds(1)
    /// Shortest time between two such cycles: a hub whose mark changes with every answer must not keep the device busy.
    static let shareSpacing: Duration = .seconds(10)

    struct Share: Hashable, Sendable {
        /// The next cycle pulls, whatever the hub's head says.
        var isDue = false
        /// Time of the last cycle that a change of the scopes caused.
        var askedAt: Instant?
    }

    /// Compares the mark of an answer with the last one. Over a metered link the change waits for the next cycle.
    mutating func noteShare(_ mark: String, at moment: Moment) {
        guard durable.recordShareMark(mark) else { return }
        // What is known up to this head was read under other scopes.
        hub.forgetReadHead()
        if case .greeting? = cycle?.step, cycle?.scope != .push {
            cycle?.pullsShare = true
            return
        }
        share.isDue = true
        hub.requireHello()
        guard conditions.uplink?.isMetered != true else { return }
        let soon = moment.instant.advanced(by: random.duration(from: .zero, to: Self.shareDelay))
        let at = share.askedAt.map { max(soon, $0.advanced(by: Self.shareSpacing)) } ?? soon
        share.askedAt = at
        pressure.wish(.again(at: at), at: moment.instant)
    }
}
