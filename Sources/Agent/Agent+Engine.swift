import Logging
import NIOCore
import SyncCore
import SyncHTTP
import SyncStore

// Events in, effects out.
extension Agent {
    /// Opens the traffic: asks the store what it remembers and starts the engine with it.
    package func start() {
        store.run { store, now throws(StoreError) in
            let facts = try store.reads.facts(at: now)
            return EngineStart(
                memory: try store.memory(), replica: facts.replica, maxSentSeq: facts.maxSentSeq, ackedSeq: facts.ackedSeq,
                waiting: facts.waitingPriorities, conditions: .plain)
        } completion: { [self] result in
            assumeIsolated { agent in
                switch result {
                case .success(let start): agent.handle(.started(start))
                case .failure(let error): agent.log.critical("the store does not answer", metadata: ["error": "\(error)"])
                }
            }
        }
    }

    func handle(_ event: SyncEvent) {
        guard !hasStopped else { return }
        perform(engine.handle(event, at: environment.time.now()))
    }

    /// Effects are performed in the order decided. Those of a store command or a call come back as events later; the engine
    /// never has two of them under way.
    private func perform(_ effects: [SyncEffect]) {
        for effect in effects {
            switch effect {
            case .report(let report): note(report)
            case .wake(let at): plan(at)
            case .send(let request): send(request)
            case .probe(let id): probe(id)
            case .store(let command): ask(command)
            }
        }
    }

    func stopEngine() {
        hasStopped = true
        wake?.cancel()
        call?.cancel()
    }

    private func plan(_ at: Instant) {
        wake?.cancel()
        let delay = max(.zero, environment.time.now().instant.duration(to: at))
        wake = executor.schedule(after: delay) { [weak self] in
            self?.assumeIsolated { $0.handle(.timer) }
        }
    }

    private func send(_ request: HubCall) {
        let sent = environment.time.now().instant
        let (hub, replica) = (hub, engine.replica)
        call = Task(executorPreference: executor) { [weak self] in
            let result = await hub.send(request, replica: replica)
            await self?.handle(.answered(request.id, result, sent: sent))
        }
    }

    private func probe(_ id: UInt64) {
        let hub = hub
        let nonce = String(UInt64.random(in: .min ... .max, using: &nonces), radix: 36)
        call = Task(executorPreference: executor) { [weak self] in
            let isGood = await hub.probe(nonce: nonce)
            await self?.handle(.probed(id, isGood: isGood))
        }
    }

    private func ask(_ command: StoreCommand) {
        store.perform(command) { [self] answer in
            assumeIsolated { $0.stored(answer) }
        }
    }

    private func stored(_ answer: StoreAnswer) {
        handle(.stored(answer))
        switch answer {
        case .resultsApplied, .pullApplied, .housekept:
            events.poke()
            serveMutationWaiters()
        case .batch, .streams, .done, .failed: break
        }
    }

    /// Tells the store how much room there is, at most once a second while work arrives: it refuses before the disk does.
    func measureSpace() {
        let now = environment.time.now().instant
        if let last = observed.spaceMeasuredAt, last.duration(to: now) < .seconds(1) { return }
        observed.spaceMeasuredAt = now
        let free = environment.freeBytes()
        store.run { store, _ throws(StoreError) in
            store.freeBytes = free
        } completion: { _ in }
    }

    /// Tells the engine about new work, once for all the enqueues that one commit brought.
    func noteEnqueued(_ priority: Priority) {
        if let noted = observed.enqueued {
            observed.enqueued = min(noted, priority)
            return
        }
        observed.enqueued = priority
        executor.loop.execute { [self] in
            assumeIsolated { agent in
                guard let priority = agent.observed.enqueued else { return }
                agent.observed.enqueued = nil
                agent.measureSpace()
                agent.handle(.enqueued(priority))
                agent.events.poke()
            }
        }
    }
}
