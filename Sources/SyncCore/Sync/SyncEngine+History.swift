// Handles a hub with another history than before: it was restored from a backup, or made anew (PROTOCOL A6). Mutations that it had accepted
// and forgot are offered again before anything else. Then all versions are marked as those of an older history, and everything is listed
// again. Only then the new history becomes ours. After a crash at any step, the process continues with the keys that were not asked yet.
extension SyncEngine {
    /// Returns whether our cursors and versions have no meaning in that history.
    func isOtherHistory(_ epoch: String) -> Bool {
        if ablations.contains(.epochIgnored) { return false }
        if cycle?.isHealing == true { return epoch != memory.healing?.epoch }
        return memory.epoch.map { $0 != epoch } ?? false
    }

    mutating func epochChanged(to epoch: String, at moment: Moment, _ effects: inout [SyncEffect]) {
        let known = memory.epoch ?? ""
        if durable.beginHealing(to: epoch), epoch != known {
            effects.append(.report(.epochChanged(from: known, to: epoch)))
        }
        // A second new history in one cycle has two possible causes. Two operators began a new history one after the other, which ends
        // soon. Or two hubs take turns at one address, and neither can be trusted.
        guard let cycle, !cycle.isHealing, cycle.healed < 2 else {
            let names = "(epoch \(Printable.text(known, max: 16)), now \(Printable.text(epoch, max: 16)))"
            return endInFailure(
                "the hub has another history with every answer \(names)", kind: .gone, retry: waitForOneHistory(), at: moment, &effects)
        }
        self.cycle?.isHealing = true
        self.cycle?.healed += 1
        hub.forgetHeads()
        loadSettled(at: moment, &effects)
    }

    /// Shortest delay before a hub with two new histories in one cycle is asked again.
    package static let historyWait: Duration = .seconds(10)

    /// No failure before: 10 s to 15 s, doubled with each failure; 6 and more: 10 min to 15 min.
    private mutating func waitForOneHistory() -> Duration {
        let whole = min(.seconds(900), Self.historyWait * 3 / 2 * (1 << min(memory.failures, 6)))
        return random.duration(from: whole * 2 / 3, to: whole)
    }

    // MARK: A hub that went back without notice

    /// Returns whether an answer shows that the hub is behind an earlier state of the same history: its database was replaced by an older
    /// copy. The receipt tells this to the hub itself; this check is for a hub that ignores receipts.
    ///
    /// Our calls are sequential, and an answer leaves after its commit, so no order of replicas of one database explains it.
    func hasForgotten(_ facts: HubHeaders, at moment: Moment) -> Bool {
        guard settings.dialect.fixedHistory == nil, let epoch = facts.epoch, epoch == memory.epoch, cycle?.isHealing == false,
            !ablations.contains(.proofIgnored)
        else { return false }
        if hub.mustHeal(at: moment.instant) { return true }
        guard let standing = memory.standing, standing.epoch == epoch else { return false }
        return standing.isAhead(of: facts, for: marks.id)
    }

    /// Asks the hub once more, with its receipt. If it stays behind, this database heals alone: it offers again what the hub does not know,
    /// and lists everything again. In between, a hub with contradicting answers is believed.
    ///
    /// - Returns: `false` when it is believed, and its answer counts.
    mutating func hubForgot(_ facts: HubHeaders, at moment: Moment, _ effects: inout [SyncEffect]) -> Bool {
        guard let epoch = memory.epoch else { return false }
        let said = memory.standing?.head ?? 0
        let asksAgain = cycle?.hasShownReceipt != true
        let heals = !asksAgain && !hub.hasHealedLately(at: moment.instant) && cycle?.healed == 0
        effects.append(.report(.hubWentBack(said: said, now: facts.head ?? 0, isHealing: heals)))
        if asksAgain {
            cycle?.hasShownReceipt = true
            greet(at: moment, &effects)
            return true
        }
        guard heals else {
            // Work continues meanwhile; mutations that this hub may lack are offered at the due time.
            durable.forgetStanding()
            hub.postponeHealing()
            return false
        }
        hub.recordHealing(at: moment.instant)
        epochChanged(to: epoch, at: moment, &effects)
        return true
    }

    /// The state of the hub by the latest answer, to be stored with its content; `nil` when it is known already.
    mutating func stand(at head: Int64) -> HubStanding? {
        guard settings.dialect.fixedHistory == nil, let facts = cycle?.facts, cycle?.isHealing == false else { return nil }
        return durable.recordStanding(at: head, facts, replica: marks.id)
    }

    private mutating func loadSettled(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard !isHalted(at: moment), limits(at: moment) != nil else { return halt(at: moment, &effects) }
        if isOverBudget(at: moment) || pressure.hasNoRequestsLeft { return healLater(at: moment, &effects) }
        advance(to: .loadingSettled)
        effects.append(.store(.loadSettled(after: memory.healing?.askedSeq ?? 0)))
    }

    mutating func ask(about keys: [MutationKey], upTo seq: Int64, at moment: Moment, _ effects: inout [SyncEffect]) {
        var keys = keys
        // Of a server that cannot be asked, accepted mutations count as known.
        if !settings.dialect.tellsKnown { keys = [] }
        if ablations.contains(.requeueSkipped) { keys = [] }
        if ablations.contains(.requeueAboveHighest) {
            keys.removeAll { UUIDv7.carried(in: $0.text).map { $0 <= hub.deviceSeq } ?? false }
        }
        guard !keys.isEmpty else { return forgetHistory(&effects) }
        send(.known, CallContent(body: KnownMessages.request(keys)), at: moment, &effects) { .asking(keys, upTo: seq, call: $0) }
    }

    mutating func told(
        _ unknown: [MutationKey], about keys: [MutationKey], upTo seq: Int64, at moment: Moment, _ effects: inout [SyncEffect]
    ) {
        let unknown = Set(unknown).intersection(keys)
        // An older copy of the hub may take its place at any time, and may know fewer mutations.
        let before = memory.healing?.standing
        if let facts = cycle?.facts { durable.recordHealing(facts, replica: marks.id) }
        if let before, let facts = cycle?.facts, before.isAhead(of: facts, for: marks.id), !ablations.contains(.proofIgnored) {
            return askFromTheStart(at: moment, &effects)
        }
        guard !unknown.isEmpty else { return asked(upTo: seq, at: moment, &effects) }
        advance(to: .requeuing(upTo: seq))
        effects.append(.store(.requeue(keys.filter(unknown.contains))))
    }

    private mutating func askFromTheStart(at moment: Moment, _ effects: inout [SyncEffect]) {
        durable.recordAsked(upTo: 0)
        // Two hubs that take turns at one address would be asked without end.
        guard let healed = cycle?.healed, healed < 2 else {
            return endInFailure(
                "the hub forgets what it knew while it is asked", kind: .gone, retry: waitForOneHistory(), at: moment, &effects)
        }
        cycle?.healed += 1
        loadSettled(at: moment, &effects)
    }

    mutating func requeued(_ count: Int, upTo seq: Int64, at moment: Moment, _ effects: inout [SyncEffect]) {
        durable.recordRequeued(count)
        asked(upTo: seq, at: moment, &effects)
    }

    private mutating func asked(upTo seq: Int64, at moment: Moment, _ effects: inout [SyncEffect]) {
        durable.recordAsked(upTo: seq)
        loadSettled(at: moment, &effects)
    }

    private mutating func healLater(at moment: Moment, _ effects: inout [SyncEffect]) {
        cycle?.outcome.error = "the hub has another history; it is being asked what it still knows"
        pressure.wish(.again(at: pressure.nextRequestAt(moment.instant)), at: moment.instant)
        saveOrFinish(at: moment, &effects)
    }

    mutating func forgetHistory(_ effects: inout [SyncEffect]) {
        advance(to: .forgettingHistory)
        effects.append(.store(.forgetHistory))
    }

    /// The database now looks like one without knowledge of the new history, so that can become ours.
    mutating func adoptHistory(_ effects: inout [SyncEffect]) {
        guard let healing = memory.healing else { return }
        effects.append(.report(.historyAdopted(epoch: healing.epoch, requeued: healing.requeued)))
        durable.adopt(healing, withStanding: !ablations.contains(.proofIgnored))
        cycle?.isHealing = false
        hub.requireHello()
        advance(to: .adoptingHistory)
        saveMemory(&effects)
    }

    /// Records the first history ever. It is on flash before any other answer of that hub: mutations that it accepts must not count as
    /// accepted by a later hub.
    mutating func learnHistory(_ epoch: String, _ effects: inout [SyncEffect]) {
        durable.learnHistory(epoch)
        advance(to: .adoptingHistory)
        saveMemory(&effects)
    }

    mutating func historyAdopted(_ answer: StoreAnswer, at moment: Moment, _ effects: inout [SyncEffect]) {
        durable.recordSaved(answer)
        if case .failed(let text) = answer {
            if durable.forgetUnsavedHistory() { hub.requireHello() }
            return endInFailure("the store could not: \(text)", retry: .seconds(30), at: moment, &effects)
        }
        // Mutations in flight, old ones and those offered again, are settled before any page of the new listing.
        loadInFlight(at: moment, &effects)
    }
}
