/// Handles a hub with another history than before: it was restored from a backup, or made anew (PROTOCOL A6). Mutations that it had
/// accepted and forgot are offered again before anything else. Then all versions are marked as those of an older history, and everything is
/// listed again. Only then the new history becomes ours. After a crash at any step, the process continues with the keys that were not asked
/// yet.
package struct HealPhase: Hashable, Sendable {
    private enum Step: Hashable, Sendable {
        case loadingSettled
        case asking([MutationKey], upTo: Int64, call: UInt64)
        case requeuing(upTo: Int64)
        case forgettingHistory
    }

    private var step = Step.loadingSettled

    var call: UInt64? { if case .asking(_, _, let call) = step { call } else { nil } }

    mutating func begin(_ epoch: String, _ state: inout SyncState) -> NextPhase {
        let known = state.memory.epoch ?? ""
        if state.durable.beginHealing(to: epoch), epoch != known { state.report(.epochChanged(from: known, to: epoch)) }
        // A second new history in one cycle has two possible causes. Two operators began a new history one after the other, which ends
        // soon. Or two hubs take turns at one address, and neither can be trusted.
        guard let cycle = state.cycle, !cycle.isHealing, cycle.healed < 2 else {
            let names = "(epoch \(Printable.text(known, max: 16)), now \(Printable.text(epoch, max: 16)))"
            return Self.wait("the hub has another history with every answer \(names)", &state)
        }
        state.cycle?.isHealing = true
        state.cycle?.healed += 1
        state.hub.forgetHeads()
        return load(&state)
    }

    /// Ends the cycle until the hub keeps to one history.
    private static func wait(_ detail: String, _ state: inout SyncState) -> NextPhase {
        let retry = SyncEngine.waitForOneHistory(failures: state.memory.failures, using: &state.random)
        return state.fail(detail, kind: .gone, retry: retry)
    }

    private mutating func load(_ state: inout SyncState) -> NextPhase {
        guard !state.isHalted, state.limits != nil else { return state.halt() }
        if state.isOverBudget || state.pressure.hasNoRequestsLeft {
            state.cycle?.outcome.error = "the hub has another history; it is being asked which mutations it still has"
            state.trigger(.again(at: state.pressure.nextRequestAt(state.now.instant)))
            return .close
        }
        step = .loadingSettled
        state.ask(.loadSettled(after: state.memory.healing?.askedSeq ?? 0))
        return .wait
    }

    mutating func handle(_ answer: StoreAnswer, _ state: inout SyncState) -> NextPhase {
        switch step {
        case .loadingSettled:
            guard case .settled(let keys, let seq) = answer else { return state.fail(answer) }
            return ask(about: keys, upTo: seq, &state)
        case .requeuing(let seq):
            guard case .requeued(let count) = answer else { return state.fail(answer) }
            state.durable.recordRequeued(count)
            return asked(upTo: seq, &state)
        case .forgettingHistory:
            guard case .historyForgotten(let more) = answer else { return state.fail(answer) }
            return more ? forgetHistory(&state) : .adoptHistory
        case .asking: return state.fail(answer)
        }
    }

    private mutating func ask(about keys: [MutationKey], upTo seq: Int64, _ state: inout SyncState) -> NextPhase {
        var keys = keys
        // A server that cannot be asked counts as one that knows all accepted mutations.
        if !state.settings.dialect.tellsKnown { keys = [] }
        if state.ablations.contains(.requeueSkipped) { keys = [] }
        if state.ablations.contains(.requeueAboveHighest) {
            let highest = state.hub.deviceSeq
            keys.removeAll { UUIDv7.carried(in: $0.text).map { $0 <= highest } ?? false }
        }
        guard !keys.isEmpty else { return forgetHistory(&state) }
        guard let call = state.send(.known, CallContent(body: KnownMessages.request(keys))) else { return state.halt() }
        step = .asking(keys, upTo: seq, call: call)
        return .wait
    }

    mutating func handle(_ unknown: [MutationKey], _ state: inout SyncState) -> NextPhase {
        guard case .asking(let keys, let seq, _) = step, let facts = state.cycle?.facts else { return .wait }
        let unknown = Set(unknown).intersection(keys)
        // An older copy of the hub may take its place at any time, and may know fewer mutations.
        let before = state.memory.healing?.standing
        state.durable.recordHealing(facts, replica: state.marks.id)
        if let before, before.isAhead(of: facts, for: state.marks.id), !state.ablations.contains(.proofIgnored) {
            return askFromTheStart(&state)
        }
        guard !unknown.isEmpty else { return asked(upTo: seq, &state) }
        step = .requeuing(upTo: seq)
        state.ask(.requeue(keys.filter(unknown.contains)))
        return .wait
    }

    private mutating func askFromTheStart(_ state: inout SyncState) -> NextPhase {
        state.durable.recordAsked(upTo: 0)
        // Two hubs that take turns at one address would be asked without end.
        guard let healed = state.cycle?.healed, healed < 2 else {
            return Self.wait("the hub lost mutations again while it was asked", &state)
        }
        state.cycle?.healed += 1
        return load(&state)
    }

    private mutating func asked(upTo seq: Int64, _ state: inout SyncState) -> NextPhase {
        state.durable.recordAsked(upTo: seq)
        return load(&state)
    }

    private mutating func forgetHistory(_ state: inout SyncState) -> NextPhase {
        step = .forgettingHistory
        state.ask(.forgetHistory)
        return .wait
    }
}

extension SyncEngine {
    /// Shortest delay before a hub with two new histories in one cycle is asked again.
    package static let historyWait: Duration = .seconds(10)

    /// No failure before: 10 s to 15 s, doubled with each failure; 6 and more: 10 min to 15 min.
    static func waitForOneHistory(failures: Int, using random: inout SeededRandom) -> Duration {
        let whole = min(.seconds(900), historyWait * 3 / 2 * (1 << min(failures, 6)))
        return random.duration(from: whole * 2 / 3, to: whole)
    }
}
