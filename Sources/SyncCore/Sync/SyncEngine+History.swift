// The hub has another history than before: it was restored from a backup, or made anew (PROTOCOL A6). What it had accepted
// and forgot is offered to it again before anything else; then all versions are those of an older history, and everything
// is listed afresh. Only then the new history is ours. A crash at any step begins again with what was not asked yet.
extension SyncEngine {
    /// Whether cursors and versions of ours mean nothing there.
    func isOtherHistory(_ epoch: String) -> Bool {
        if ablations.contains(.epochIgnored) { return false }
        if cycle?.isHealing == true { return epoch != memory.healing?.epoch }
        return memory.epoch.map { $0 != epoch } ?? false
    }

    mutating func epochChanged(to epoch: String, at moment: Moment, _ effects: inout [SyncEffect]) {
        let known = memory.epoch ?? ""
        if memory.healing?.epoch != epoch {
            effects.append(.report(.epochChanged(from: known, to: epoch)))
            memory.healing = EngineMemory.Healing(epoch: epoch)
        }
        // Once more in one cycle: two hubs take turns at one address, and neither can be trusted with anything.
        guard let cycle, !cycle.isHealing, cycle.healed < 2 else {
            let names = "(epoch \(Printable.text(known, max: 16)), now \(Printable.text(epoch, max: 16)))"
            // Two replicas may have been started with a new history each, and agree a moment later: so it is tried again soon,
            // and less and less often while they do not.
            let retry = settings.backoff.delay(afterFailures: memory.failures + 1, using: &random)
            return endInFailure("the hub has another history with every answer \(names)", kind: .gone, retry: retry, at: moment, &effects)
        }
        self.cycle?.isHealing = true
        self.cycle?.healed += 1
        (knownHead, seenHead) = (nil, nil)
        loadSettled(at: moment, &effects)
    }

    private mutating func loadSettled(at moment: Moment, _ effects: inout [SyncEffect]) {
        guard !isHalted(at: moment), limits(at: moment) != nil else { return halt(at: moment, &effects) }
        if isOverBudget(at: moment) || hasNoRequestsLeft { return healLater(at: moment, &effects) }
        advance(to: .loadingSettled)
        effects.append(.store(.loadSettled(after: memory.healing?.askedSeq ?? 0)))
    }

    mutating func ask(about keys: [MutationKey], upTo seq: Int64, at moment: Moment, _ effects: inout [SyncEffect]) {
        var keys = keys
        // An existing backend cannot be asked what it knows: what it has accepted, it has.
        if settings.isRest { keys = [] }
        if ablations.contains(.requeueSkipped) { keys = [] }
        if ablations.contains(.requeueAboveHighest) {
            keys.removeAll { UUIDv7.carried(in: $0.text).map { $0 <= hubSeq } ?? false }
        }
        guard !keys.isEmpty else { return forgetHistory(&effects) }
        send(.known, KnownMessages.request(keys), at: moment, &effects) { .asking(keys, upTo: seq, call: $0) }
    }

    mutating func told(
        _ body: [UInt8], about keys: [MutationKey], upTo seq: Int64, at moment: Moment, _ effects: inout [SyncEffect]
    ) throws(ReplyError) {
        let unknown = Set(try KnownMessages.readResponse(body)).intersection(keys)
        guard !unknown.isEmpty else { return asked(upTo: seq, at: moment, &effects) }
        advance(to: .requeuing(upTo: seq))
        effects.append(.store(.requeue(keys.filter(unknown.contains))))
    }

    mutating func requeued(_ count: Int, upTo seq: Int64, at moment: Moment, _ effects: inout [SyncEffect]) {
        memory.healing?.requeued += count
        asked(upTo: seq, at: moment, &effects)
    }

    private mutating func asked(upTo seq: Int64, at moment: Moment, _ effects: inout [SyncEffect]) {
        memory.healing?.askedSeq = seq
        loadSettled(at: moment, &effects)
    }

    private mutating func healLater(at moment: Moment, _ effects: inout [SyncEffect]) {
        cycle?.outcome.error = "the hub has another history; it is being asked what it still knows"
        timer.wish(.again(at: max(moment.instant, quietUntil ?? moment.instant)), now: moment.instant)
        saveOrFinish(at: moment, &effects)
    }

    mutating func forgetHistory(_ effects: inout [SyncEffect]) {
        advance(to: .forgettingHistory)
        effects.append(.store(.forgetHistory))
    }

    /// Everything is as in a database that knows nothing of the new history yet, so it may be called ours.
    mutating func adoptHistory(_ effects: inout [SyncEffect]) {
        guard let healing = memory.healing else { return }
        effects.append(.report(.historyAdopted(epoch: healing.epoch, requeued: healing.requeued)))
        memory.epoch = healing.epoch
        memory.healing = nil
        cycle?.isHealing = false
        greetedAt = nil
        advance(to: .adoptingHistory)
        saveMemory(&effects)
    }

    /// The first hub ever. Its name is on flash before anything that it says is: what it accepts must not be taken for the
    /// word of another hub that comes after it.
    mutating func learnHistory(_ epoch: String, _ effects: inout [SyncEffect]) {
        memory.epoch = epoch
        advance(to: .adoptingHistory)
        saveMemory(&effects)
    }

    mutating func historyAdopted(_ answer: StoreAnswer, at moment: Moment, _ effects: inout [SyncEffect]) {
        saved(answer)
        if case .failed(let text) = answer {
            if remembered.epoch == nil { (memory.epoch, greetedAt) = (nil, nil) }
            return endInFailure("the store could not: \(text)", retry: .seconds(30), at: moment, &effects)
        }
        // What was in flight, and what is again, goes before any page of the new listing.
        loadInFlight(at: moment, &effects)
    }
}
