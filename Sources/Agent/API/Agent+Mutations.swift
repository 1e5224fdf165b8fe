import LocalAPI
import Logging
import SyncCore
import SyncStore

// Requested changes to a mutation: cancel, retry, discard, undo.
extension Agent {
    func cancelMutation(_ call: LocalCall, _ key: MutationKey) {
        change(call, "cancel", key) { store, now throws(StoreError) in
            try store.cancel(key, at: now)
        } answer: { cancelled in
            ControlAnswer.cancelled(key, cancelled)
        }
    }

    func retryMutation(_ call: LocalCall, _ key: MutationKey) throws(Problem) {
        let body = try RetryBody.read(call.body)
        let requester = call.peer.requester
        change(call, "retry", key) { store, now throws(StoreError) in
            try store.retry(key, fix: body.data, without: body.without, cascades: body.cascades, by: requester, at: now)
        } answer: { enqueued in
            EnqueueAnswer.answer(enqueued)
        }
    }

    func discardMutation(_ call: LocalCall, _ key: MutationKey) throws(Problem) {
        let body = try DiscardBody.read(call.body)
        let uid = call.peer.uid
        change(call, "discard", key) { store, now throws(StoreError) in
            try store.discard(key, reason: body.reason, uid: uid, at: now)
            return MutationState.discarded
        } answer: { state in
            ControlAnswer.state(key, state)
        }
    }

    func undoMutation(_ call: LocalCall, _ key: MutationKey) throws(Problem) {
        let body = try UndoBody.read(call.body)
        let requester = call.peer.requester
        change(call, body.isTrial ? "undo (dry run)" : "undo", key) { store, now throws(StoreError) in
            try store.undo(key, isTrial: body.isTrial, by: requester, at: now)
        } answer: { undone in
            UndoReport.answer(undone.made, undone.undo, of: undone.record)
        }
    }

    private func change<Value: Sendable>(
        _ call: LocalCall, _ verb: String, _ key: MutationKey,
        _ body: @escaping @Sendable (Store, Moment) throws(StoreError) -> Value,
        answer: @escaping @Sendable (Value) -> LocalAnswer
    ) {
        let peer = call.peer
        fromStore(for: call) { store, now throws(StoreError) in
            guard let mutation = try store.reads.mutation(key, at: now), peer.allows(mutation.record.entity) else {
                throw .refused(LocalProblem.notFound("there is no mutation \(key)", list: "agentctl mutations list"))
            }
            // An app may change its own mutations, a caller with the role operate all.
            guard peer.allows(.operate) || mutation.app == peer.app else {
                throw .refused(LocalProblem.forbidden.problem("it belongs to \(mutation.app); this needs the role operate"))
            }
            return try body(store, now)
        } then: { agent, value in
            agent.log.notice("\(verb)", metadata: ["mutation": "\(key)", "uid": "\(peer.uid)"])
            call.answer(answer(value))
            agent.reportNewWork()
            agent.serveMutationWaiters()
        }
    }
}
