import NIOCore
import SyncCore
import SyncHTTP
import SyncStore

// The ways back to the agent's loop. The loop is the agent's executor, so each of them enters the agent without a hop.
extension Agent {
    /// Does work on the thread that writes the database, and passes its result to the agent.
    func fromStore<Value: Sendable>(
        _ work: @escaping @Sendable (Store, Moment) throws(StoreError) -> Value,
        then: @escaping @Sendable (isolated Agent, Result<Value, StoreError>) -> Void
    ) {
        store.run(work) { [self] result in assumeIsolated { then($0, result) } }
    }

    /// Does the work of a call on the thread that writes the database. A failure is the answer of the call.
    func fromStore<Value: Sendable>(
        for call: LocalCall, _ work: @escaping @Sendable (Store, Moment) throws(StoreError) -> Value,
        then: @escaping @Sendable (isolated Agent, Value) -> Void
    ) {
        store.run(work) { [self] result in assumeIsolated { $0.goOn(call, result, then) } }
    }

    /// Does work on the thread that writes the database, where nothing depends on the result.
    func tellStore(_ work: @escaping @Sendable (Store, Moment) throws(StoreError) -> Void) {
        store.run(work) { _ in }
    }

    /// Reads on the reader's thread, and passes the result to the agent.
    func fromReader<Value: Sendable>(
        _ work: @escaping @Sendable (StoreReads, Moment) throws(StoreError) -> Value,
        then: @escaping @Sendable (isolated Agent, Result<Value, StoreError>) -> Void
    ) {
        reader.read(work) { [self] result in assumeIsolated { then($0, result) } }
    }

    /// Reads for a call on the reader's thread. A failure is the answer of the call.
    ///
    /// - Parameter isLong: The read may scan everything; short reads do not wait for it.
    func fromReader<Value: Sendable>(
        for call: LocalCall, isLong: Bool = false, _ work: @escaping @Sendable (StoreReads, Moment) throws(StoreError) -> Value,
        then: @escaping @Sendable (isolated Agent, Value) -> Void
    ) {
        reader.read(isLong: isLong, work) { [self] result in assumeIsolated { $0.goOn(call, result, then) } }
    }

    /// Goes on with the result of work for a call. A failure is the answer of the call.
    func goOn<Value>(
        _ call: LocalCall, _ result: Result<Value, StoreError>, _ then: (isolated Agent, Value) -> Void
    ) {
        switch result {
        case .success(let value): then(self, value)
        case .failure(let error): refuse(call, error)
        }
    }

    /// Does work that waits for the disk on the files' thread, and passes its value to the agent.
    ///
    /// - Precondition: Files are accepted.
    func fromFiles<Value: Sendable>(
        _ work: @escaping @Sendable () -> Value, then: @escaping @Sendable (isolated Agent, Value) -> Void
    ) {
        blobs.thread.run { [self] in
            let value = work()
            onLoop { then($0, value) }
        }
    }

    /// Enters the agent on its loop. May be called on any thread.
    nonisolated func onLoop(_ action: @escaping @Sendable (isolated Agent) -> Void) {
        executor.loop.execute { self.assumeIsolated { action($0) } }
    }

    /// Enters the agent after a delay, if it still exists then. Keep the timer only to cancel it.
    @discardableResult
    func schedule(after delay: Duration, _ action: @escaping @Sendable (isolated Agent) -> Void) -> LoopTimer {
        executor.schedule(after: delay) { [weak self] in self?.assumeIsolated { action($0) } }
    }
}
