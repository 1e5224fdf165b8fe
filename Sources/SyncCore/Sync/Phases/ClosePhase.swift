/// Ends a cycle: housekeeping, if it is due, and the memory, if that is worth an fsync.
package struct ClosePhase: Hashable, Sendable {
    private enum Step: Hashable, Sendable { case housekeeping, remembering }

    private var step = Step.remembering

    /// Runs housekeeping as the last step of a cycle.
    mutating func keepHouse(_ state: inout SyncState) -> NextPhase {
        guard state.house.isDueAfterCycle(at: state.now.instant) else { return succeed(&state) }
        step = .housekeeping
        state.house.begin(at: state.now.instant)
        state.ask(.housekeep)
        return .wait
    }

    /// Saves the memory, or ends the cycle at once.
    mutating func save(_ state: inout SyncState) -> NextPhase {
        guard state.durable.isWorthSaving else { return Self.finish(&state) }
        step = .remembering
        state.saveMemory()
        return .wait
    }

    mutating func handle(_ answer: StoreAnswer, _ state: inout SyncState) -> NextPhase {
        switch step {
        case .housekeeping:
            guard case .housekept(let more, let expiry) = answer else { return state.fail(answer) }
            state.house.ended(more: more, expiry: expiry, at: state.now.instant)
            return succeed(&state)
        case .remembering:
            // A full disk or a damaged page: nothing was changed, so the cycle just ends; the store reports it in status.
            state.durable.recordSaved(answer)
            return Self.finish(&state)
        }
    }

    private mutating func succeed(_ state: inout SyncState) -> NextPhase {
        // An entity that could not be read does not hold back the others, but must be visible.
        let held = state.readings.held
        state.durable.recordSuccess(at: state.now.wall, error: state.cycle?.outcome.error ?? (held.isEmpty ? nil : held.sentence))
        // A whole cycle without a call brings no news, but the hub's answer to the probe is valid.
        state.endTrial()
        state.pressure.recordSuccess(at: state.now)
        state.durable.holdUntil(state.pressure.retryAt)
        if state.cycle?.outcome.error == nil, held.isEmpty { state.news.cycleSucceeded() }
        return save(&state)
    }

    private static func finish(_ state: inout SyncState) -> NextPhase {
        guard var outcome = state.cycle?.outcome, let began = state.cycle?.began else { return .done }
        outcome.duration = began.duration(to: state.now.instant)
        state.planHeldStreams()
        state.cycle = nil
        state.trigger(.pullDue)
        state.report(.cycleEnded(outcome))
        return .done
    }
}
