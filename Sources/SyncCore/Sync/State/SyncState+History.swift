// The history of the hub and of this database, as answers show it (PROTOCOL A6).
extension SyncState {
    /// Returns whether our cursors and versions have no meaning in that history.
    func isOtherHistory(_ epoch: String) -> Bool {
        if ablations.contains(.epochIgnored) { return false }
        if cycle?.isHealing == true { return epoch != memory.healing?.epoch }
        return memory.epoch.map { $0 != epoch } ?? false
    }

    /// - Returns: The highest `seq` that the hub has seen, when this database remembers less.
    func regression(_ seen: Int64?) -> Int64? {
        guard let seen, seen > marks.maxSentSeq, !ablations.contains(.regressionIgnored) else { return nil }
        return seen
    }

    /// Returns whether an answer shows that the hub is behind an earlier state of the same history: its database was replaced by an older
    /// copy. The receipt tells this to the hub itself; this check is for a hub that ignores receipts.
    ///
    /// Our calls are sequential, and an answer leaves after its commit, so no order of replicas of one database explains it. Only the
    /// answer to a pull that waited may be overtaken.
    func hasForgotten(_ facts: HubHeaders) -> Bool {
        guard settings.dialect.fixedHistory == nil, let epoch = facts.epoch, epoch == memory.epoch, cycle?.isHealing == false,
            !calls.isOvertaken, !ablations.contains(.proofIgnored)
        else { return false }
        if hub.mustHeal(at: now.instant) { return true }
        guard let standing = memory.standing, standing.epoch == epoch else { return false }
        return standing.isAhead(of: facts, for: marks.id)
    }

    /// Asks the hub once more, with its receipt. If it stays behind, this database heals alone: it offers again what the hub does not know,
    /// and lists everything again. In between, a hub with contradicting answers is believed.
    ///
    /// - Returns: `nil` when it is believed, and its answer counts.
    mutating func hubForgot(_ facts: HubHeaders) -> NextPhase? {
        guard let epoch = memory.epoch else { return nil }
        let said = memory.standing?.head ?? 0
        let asksAgain = cycle?.hasShownReceipt != true
        let heals = !asksAgain && !hub.hasHealedLately(at: now.instant) && cycle?.healed == 0
        report(.hubWentBack(said: said, now: facts.head ?? 0, isHealing: heals))
        if asksAgain {
            cycle?.hasShownReceipt = true
            return .greet
        }
        guard heals else {
            // Work continues meanwhile; mutations that this hub may lack are offered at the due time.
            durable.forgetStanding()
            hub.postponeHealing()
            return nil
        }
        hub.recordHealing(at: now.instant)
        return .heal(to: epoch)
    }

    /// The state of the hub by the latest answer, to be stored with its content; `nil` when it is known already.
    mutating func stand(at head: Int64) -> HubStanding? {
        guard settings.dialect.fixedHistory == nil, let cycle, !cycle.isHealing else { return nil }
        return durable.recordStanding(at: head, cycle.facts, replica: marks.id)
    }
}
