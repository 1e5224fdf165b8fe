/// What may be sent at this moment: the policy's verdicts in the shape in which a cycle uses them. It is asked for anew
/// before every batch and every page, so that a change of the verdict stops the traffic within one of them.
package struct Allowance: Hashable, Sendable {
    /// The least urgent priority that may be pushed; `nil`: none may.
    package var push: Priority?
    /// Payload bytes of one batch.
    package var batchBytes: Int
    /// A larger mutation waits.
    package var sizes = MutationSizes()
    /// What a pull may ask for; `nil`: there is none.
    package var pull: PullTerms?
    /// Why the first thing that may not go may not; `nil` when everything may.
    package var deferral: Deferral?
    /// The earliest wall time at which a deferral ends by itself.
    package var changesAt: Timestamp?

    package init(in situation: Situation, now: Timestamp) {
        // Every event of the engine asks several times, and nearly always nothing objects.
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
                note(why, now)
                continue
            }
            guard isOpen else { continue }
            push = priority
            sizes[priority] = Policy.largestRequest(traffic, in: situation)
        }
        pull = Policy.pullTerms(in: situation, now: now)
        if pull == nil, case .defer(let why) = Policy.decide(.pull, in: situation, now: now) { note(why, now) }
        // Who may send the most sets the size of a batch: what comes after the urgent work fits into its own rest or waits.
        if let push { batchBytes = min(batchBytes, sizes.largest(downTo: push) ?? batchBytes) }
    }

    private mutating func note(_ why: Deferral, _ now: Timestamp) {
        deferral = deferral ?? why
        guard let until = why.until, until > now else { return }
        changesAt = min(changesAt ?? until, until)
    }

    /// No limits but the protocol's.
    package init(pullInterval: Duration) {
        push = .bulk
        batchBytes = Limits.batchBytesMax
        pull = PullTerms(entities: .all, interval: pullInterval)
    }

    package var isNothing: Bool { push == nil && pull == nil }

    package func allows(_ priority: Priority) -> Bool { push.map { priority <= $0 } ?? false }

    /// Whether something may go that could not under `other`.
    package func isWider(than other: Allowance) -> Bool {
        let least = push?.rawValue ?? -1, before = other.push?.rawValue ?? -1
        if least > before { return true }
        guard let pull else { return false }
        guard let old = other.pull else { return true }
        return pull.entities == .all && old.entities == .critical
    }
}

extension Situation {
    /// No row of the table has anything to object to; a short cut, and nothing that is decided here.
    package var isUnrestricted: Bool {
        reachability == .online && pause == nil && retryAt == nil && !isBreakerOpen && isWindowOpen && budgets.isEmpty
            && power < .low && !(uplink?.isMetered ?? false) && !(uplink?.isRoaming ?? false)
    }
}
