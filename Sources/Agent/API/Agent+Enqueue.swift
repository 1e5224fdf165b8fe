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
        /// The version of the schema that the mutation names, and the versions of its app.
        var schema: Int?
        var schemas: AppSchemas
        /// Timer of the longest wait.
        var timer: LoopTimer

        func answer(_ settled: SettledMutation) {
            timer.cancel()
            var enqueued = enqueued
            enqueued.state = settled.state
            // Events have no record.
            if enqueued.record != nil { enqueued.record = settled.shown(to: self) }
            call.answer(EnqueueAnswer.waited(enqueued))
        }
    }

    /// A mutation that callers wait for no more.
    struct SettledMutation: Sendable {
        var state: MutationState
        /// The record as it is now; `nil` when it is not on this device any more.
        var record: RecordSnapshot?
        /// The version of its document.
        var stored: StoredSchema

        /// The record in the version of the caller's app. Where no steps lead there, it is as it was at the enqueue.
        fileprivate func shown(to waiter: MutationWaiter) -> RecordSnapshot? {
            guard let record else { return nil }
            return waiter.schemas.shown(record, stored, schema: waiter.schema) ?? waiter.enqueued.record
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
                    let shown = schemas.shown(enqueued, for: mutations)
                    agent.reportNewWork(mutations)
                    guard !isAtomic else { return call.answer(EnqueueAnswer.answer(atomic: shown)) }
                    guard let first = shown.first else { preconditionFailure("an enqueue of one mutation brought no result") }
                    guard let wait else { return call.answer(EnqueueAnswer.answer(first)) }
                    agent.hold(call, first, schemas, schema: mutations.first?.schema, for: wait)
                }
            }
        }
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

    private func hold(_ call: LocalCall, _ enqueued: Enqueued, _ schemas: AppSchemas, schema: Int?, for wait: Duration) {
        let number = mutationWaiters.nextNumber()
        let timer = schedule(after: wait) { agent in
            guard let waiter = agent.mutationWaiters.leave(number, enqueued.key) else { return }
            waiter.call.answer(EnqueueAnswer.waited(waiter.enqueued))
        }
        let waiter = MutationWaiter(enqueued: enqueued, call: call, schema: schema, schemas: schemas, timer: timer)
        mutationWaiters.add(number, waiter, for: enqueued.key)
        // The hub may have decided it already, if this is the repeat of an old key.
        serveMutationWaiters()
    }

    /// Answers the callers whose mutation is settled. Called after every commit that may have settled one.
    func serveMutationWaiters() {
        guard !mutationWaiters.isEmpty else { return }
        let keys = mutationWaiters.keys
        fromStore { store, now throws(StoreError) in
            var settled: [MutationKey: SettledMutation] = [:]
            for key in keys {
                guard let mutation = try store.reads.mutation(key, at: now), mutation.presentState.endsWait else { continue }
                settled[key] = SettledMutation(
                    state: mutation.presentState, record: try store.reads.record(mutation.record),
                    stored: try store.reads.documentSchema(of: mutation.record.entity))
            }
            return settled
        } then: { agent, result in
            // A failed read is no verdict: the callers keep waiting, and their time runs out if it persists.
            guard case .success(let settled) = result else { return }
            for (key, mutation) in settled {
                for waiter in agent.mutationWaiters.reached(mutation.state, key) { waiter.answer(mutation) }
            }
        }
    }
}
