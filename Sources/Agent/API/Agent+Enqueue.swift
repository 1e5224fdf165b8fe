import LocalAPI
import Logging
import SyncCore
import SyncHTTP
import SyncStore

// `POST /v1/mutations`: one mutation, or an atomic list.
extension Agent {
    /// A caller that waits until the hub has a mutation, or until the time is up.
    struct MutationWaiter {
        var enqueued: Enqueued
        var call: LocalCall
        /// Timer of the longest wait.
        var timer: LoopTimer

        func answer(_ state: MutationState) {
            timer.cancel()
            var enqueued = enqueued
            enqueued.state = state
            call.answer(EnqueueAnswer.waited(enqueued))
        }
    }

    func enqueue(_ call: LocalCall, wait: Duration?) throws(Problem) {
        let condition = call.exchange.request.header("If-Match")
        let body = try EnqueueBody.read(call.body).matching(header: condition)
        let appKey = try EnqueueBody.appKey(
            header: call.exchange.request.header("Idempotency-Key"), body: call.body, condition: condition)
        let schemas = try AppSchemas(call.exchange.request, loaded.configuration.rules)
        let (mutations, isAtomic) =
            switch body {
            case .one(let mutation): ([schemas.stamped(mutation)], false)
            case .atomic(let list): (list.map { schemas.stamped($0) }, true)
            }
        for mutation in mutations { try check(mutation, for: call) }
        // The free space is measured before the enqueue too: the first mutation after a quiet time may meet a disk that other programs have
        // filled.
        measureSpace()
        let began = environment.time.now().instant
        store.enqueue(mutations, isAtomic: isAtomic, by: call.peer.requester, appKey: appKey) { [self] result in
            assumeIsolated { agent in
                agent.goOn(call, result) { agent, enqueued in
                    agent.metrics.enqueued(in: began.duration(to: agent.environment.time.now().instant))
                    agent.answer(call, schemas.shown(enqueued, for: mutations), mutations, isAtomic: isAtomic, wait: wait)
                }
            }
        }
    }

    private func answer(
        _ call: LocalCall, _ enqueued: [Enqueued], _ mutations: [NewMutation], isAtomic: Bool, wait: Duration?
    ) {
        reportNewWork(mutations)
        if isAtomic { return call.answer(EnqueueAnswer.answer(atomic: enqueued)) }
        guard let first = enqueued.first else { preconditionFailure("an enqueue of one mutation brought no result") }
        guard let wait else { return call.answer(EnqueueAnswer.answer(first)) }
        hold(call, first, for: wait)
    }

    /// - Throws: 403 for an entity or a priority that the access rules do not allow. Violations of the entity's rules are reported by the
    ///   store, inside the transaction.
    func check(_ mutation: NewMutation, for call: LocalCall) throws(Problem) {
        try call.checkEntity(mutation.entity)
        guard let priority = mutation.priority, !call.peer.allows(priority) else { return }
        throw LocalProblem.forbidden.problem(
            "\(call.peer.app) may ask for priority \(call.peer.maxPriority.name) at most",
            errors: [Problem.Pointer("/priority", "must be \(call.peer.maxPriority.name) or less urgent")])
    }

    /// The same check with the problem as a value, for callers on the loop that are not part of the actor.
    nonisolated func problem(with mutation: NewMutation, for call: LocalCall) -> Problem? {
        assumeIsolated { agent in
            do throws(Problem) {
                try agent.check(mutation, for: call)
                return nil
            } catch {
                return error
            }
        }
    }

    func refuse(_ call: LocalCall, _ error: StoreError) {
        let problem = error.localProblem
        metrics.refused(problem.code)
        if problem.status >= 500 {
            log.error("refused a request", metadata: ["route": "\(call.route.name)", "code": "\(problem.code)", "error": "\(error)"])
        }
        if error.code == .diskFull { reportFullDisk() }
        call.refuse(problem)
    }

    // MARK: Waiting for the hub

    private func hold(_ call: LocalCall, _ enqueued: Enqueued, for wait: Duration) {
        let number = mutationWaiters.nextNumber()
        let timer = schedule(after: wait) { agent in
            guard let waiter = agent.mutationWaiters.leave(number, enqueued.key) else { return }
            waiter.call.answer(EnqueueAnswer.waited(waiter.enqueued))
        }
        mutationWaiters.add(number, MutationWaiter(enqueued: enqueued, call: call, timer: timer), for: enqueued.key)
        // The hub may have decided it already, if this is the repeat of an old key.
        serveMutationWaiters()
    }

    /// Answers the callers whose mutation is settled. Called after every commit that may have settled one.
    func serveMutationWaiters() {
        guard !mutationWaiters.isEmpty else { return }
        let keys = mutationWaiters.keys
        fromStore { store, now throws(StoreError) in
            var states: [MutationKey: MutationState] = [:]
            for key in keys { states[key] = try store.reads.mutation(key, at: now)?.presentState }
            return states
        } then: { agent, result in
            // A failed read is no verdict: the callers keep waiting, and their time runs out if it persists.
            guard case .success(let states) = result else { return }
            for (key, state) in states {
                for waiter in agent.mutationWaiters.reached(state, key) { waiter.answer(state) }
            }
        }
    }
}
