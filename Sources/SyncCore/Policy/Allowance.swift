/// The policy's present verdicts in the form that a cycle uses. They are computed again before every batch and every page, so that a change
/// stops the traffic within one of them.
package struct Allowance: Hashable, Sendable {
    /// The least urgent priority that may be pushed; `nil`: none.
    package var push: Priority?
    /// Largest payload of one batch, bytes.
    package var batchBytes: Int
    /// Largest sizes; a larger mutation waits.
    package var sizes = MutationSizes()
    /// The terms of a pull; `nil`: no pull is allowed.
    package var pull: PullTerms?
    /// The reason of the first deferral; `nil` when everything is allowed.
    package var deferral: Deferral?
    /// The earliest wall time at which a deferral ends by itself.
    package var changesAt: Timestamp?

    package init(in situation: Situation, now: Timestamp) {
        // Every event of the engine asks several times, and nearly always there is no objection.
        if situation.isUnrestricted {
            self = Allowance(pullInterval: situation.freePullInterval)
            return
        }
        batchBytes = situation.uplink?.isMetered ?? false ? Limits.batchBytesMetered : Limits.batchBytesMax
        var isOpen = true
        for priority in [Priority.critical, .normal, .bulk] {
            let traffic = TrafficClass(priority)
            if case .defer(let why) = Policy.decide(traffic, in: situation, now: now) {
                isOpen = false
                recordDeferral(why, now)
                continue
            }
            guard isOpen else { continue }
            push = priority
            sizes[priority] = Policy.largestRequest(traffic, in: situation)
        }
        pull = Policy.pullTerms(in: situation, now: now)
        if pull == nil, case .defer(let why) = Policy.decide(.pull, in: situation, now: now) { recordDeferral(why, now) }
        // The priority with the largest allowance sets the size of a batch: less urgent work fits into its own rest or waits.
        if let push { batchBytes = min(batchBytes, sizes.largest(downTo: push) ?? batchBytes) }
    }

    private mutating func recordDeferral(_ why: Deferral, _ now: Timestamp) {
        deferral = deferral ?? why
        guard let until = why.until, until > now else { return }
        changesAt = min(changesAt ?? until, until)
    }

    /// An allowance with no limits except the protocol's.
    package init(pullInterval: Duration) {
        push = .bulk
        batchBytes = Limits.batchBytesMax
        pull = PullTerms(entities: .all, interval: pullInterval)
    }

    package var isNothing: Bool { push == nil && pull == nil }

    package func allows(_ priority: Priority) -> Bool { push.map { priority <= $0 } ?? false }

    /// Returns whether it allows traffic that `other` did not allow.
    package func isWider(than other: Allowance) -> Bool {
        let least = push?.rawValue ?? -1, before = other.push?.rawValue ?? -1
        if least > before { return true }
        guard let pull else { return false }
        guard let old = other.pull else { return true }
        return pull.entities == .all && old.entities == .critical
    }
}

extension Situation {
    /// `true` when no row of the table has an objection. It is a shortcut that decides nothing.
    package var isUnrestricted: Bool {
        reachability == .online && pause == nil && retryAt == nil && !isBreakerOpen && isWindowOpen && budgets.isEmpty
            && power < .low && !(uplink?.isMetered ?? false) && !(uplink?.isRoaming ?? false)
    }
}
