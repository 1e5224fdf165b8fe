package import SyncCore

// The operations, in the shape they will keep; each moves to a file of its own as it is built.

func unbuilt(_ function: String = #function) -> Never { preconditionFailure("\(function) is not built yet") }

/// The thread that owns the store.
///
/// Work that arrives while a commit is on its way to the medium gathers and is committed together; there is no timer.
/// Completions are called after the commit, all of a group in one call of `deliver`.
package final class StoreWriter: @unchecked Sendable {
    package typealias Deliver = @Sendable ([@Sendable () -> Void]) -> Void

    package enum Incident: Sendable {
        /// A commit failed and its outcome is unknown. The store was opened again; `survived` tells whether the group is in it.
        case commitFailed(StoreError, survived: Bool, relaxedLost: Int)
        /// It happened again, or the store could not be opened again. Nothing works any more: exit and restart.
        case fatal(StoreError)
    }

    package init(
        time: any TimeSource, deliver: @escaping Deliver, incident: @escaping @Sendable (Incident) -> Void,
        open: @escaping @Sendable (Moment) throws(StoreError) -> Store
    ) { unbuilt() }

    /// Opens the store on its thread.
    package func start() throws(StoreError) -> StoreOpening { unbuilt() }

    package func enqueue(
        _ mutations: [NewMutation], isAtomic: Bool = false, by requester: Requester, appKey: AppKey? = nil,
        completion: @escaping @Sendable (Result<[Enqueued], StoreError>) -> Void
    ) { unbuilt() }

    package func enqueueEach(
        _ mutations: [NewMutation], by requester: Requester,
        completion: @escaping @Sendable (Result<[Result<Enqueued, StoreError>], StoreError>) -> Void
    ) { unbuilt() }

    package func perform(_ command: StoreCommand, completion: @escaping @Sendable (StoreAnswer) -> Void) { unbuilt() }

    /// Any other work on the store, durable when `completion` is called.
    package func run<Value: Sendable>(
        _ work: @escaping @Sendable (Store, Moment) throws(StoreError) -> Value,
        completion: @escaping @Sendable (Result<Value, StoreError>) -> Void
    ) { unbuilt() }

    /// Finishes what was handed in, closes the store in good order and ends the thread.
    package func close() throws(StoreError) { unbuilt() }
}

/// Reads on a connection and a thread of their own, each at most 2 s. Never checkpoints.
package final class StoreReader: @unchecked Sendable {
    package init(path: String, bootID: String, time: any TimeSource, deliver: @escaping StoreWriter.Deliver) { unbuilt() }

    package func read<Value: Sendable>(
        _ work: @escaping @Sendable (StoreReads, Moment) throws(StoreError) -> Value,
        completion: @escaping @Sendable (Result<Value, StoreError>) -> Void
    ) { unbuilt() }

    package func close() { unbuilt() }
}
