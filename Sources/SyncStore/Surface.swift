package import SyncCore

// The operations, in the shape they will keep; each moves to a file of its own as it is built.

extension Store {
    /// T1: accepts mutations. Invariant: outbox rows, view, status, counters, clock and journal change together.
    /// - Parameter isAtomic: One server group; all or none.
    /// - Throws: `.refused` with the problem for the app, and nothing was changed.
    package func enqueue(
        _ mutations: [NewMutation], isAtomic: Bool = false, by requester: Requester, appKey: AppKey? = nil, at now: Moment
    ) throws(StoreError) -> [Enqueued] { unbuilt() }

    /// The lines of a bulk enqueue: one transaction, but each line stands or is refused alone.
    package func enqueueEach(
        _ mutations: [NewMutation], by requester: Requester, at now: Moment
    ) throws(StoreError) -> [Result<Enqueued, StoreError>] { unbuilt() }

    /// Any command of the engine; what cannot be done becomes `.failed` and changes nothing.
    package func perform(_ command: StoreCommand, at now: Moment) -> StoreAnswer { unbuilt() }

    package func memory() throws(StoreError) -> EngineMemory { unbuilt() }

    /// Takes back what was never sent, with all of its atomic list and all that built upon it.
    package func cancel(_ key: MutationKey, at now: Moment) throws(StoreError) -> MutationState { unbuilt() }

    /// `rejected`, `held`: a new mutation with a new key that supersedes the old. `failed`: the same again, key and payload
    /// as they were.
    package func retry(
        _ key: MutationKey, fix: JSONObject? = nil, by requester: Requester, at now: Moment
    ) throws(StoreError) -> Enqueued { unbuilt() }

    /// Gives up a rejected, failed, held or conflicted mutation.
    package func discard(_ key: MutationKey, reason: String, uid: UInt32, at now: Moment) throws(StoreError) { unbuilt() }

    /// Adds an event of another part of the agent to the journal.
    package func note(type: String, json: String, at now: Moment) throws(StoreError) { unbuilt() }

    package var reads: StoreReads { unbuilt() }

    /// Counts everything again and returns each disagreement; empty when all is well.
    package func verify() throws(StoreError) -> [String] { unbuilt() }

    /// Joins the following operations into one transaction, until ``commit()``.
    package func begin(at now: Moment) throws(StoreError) { unbuilt() }
    package func commit() throws(StoreError) { unbuilt() }
    package func rollback() { unbuilt() }

    /// Marks the database as closed in good order, moves the WAL into it and closes the file.
    package func close(at now: Moment) throws(StoreError) { unbuilt() }
}

/// Reads, on the writing connection or on one of their own.
package struct StoreReads {
    package func mutation(_ key: MutationKey, at now: Moment) throws(StoreError) -> MutationSnapshot? { unbuilt() }
    package func history(of key: MutationKey) throws(StoreError) -> [MutationHistory] { unbuilt() }
    package func mutations(_ query: MutationQuery, at now: Moment) throws(StoreError) -> [MutationSnapshot] { unbuilt() }
    package func record(_ name: RecordName) throws(StoreError) -> RecordSnapshot? { unbuilt() }
    package func records(_ query: RecordQuery) throws(StoreError) -> RecordPage { unbuilt() }
    package func entities() throws(StoreError) -> [EntityOverview] { unbuilt() }
    package func journal(after: Int64, limit: Int, filter: JournalFilter) throws(StoreError) -> JournalPage { unbuilt() }
    package func facts(at now: Moment) throws(StoreError) -> StoreFacts { unbuilt() }
    /// SQLite's own check of the whole file; what it complains about, or nothing.
    package func check() throws(StoreError) -> [String] { unbuilt() }
}

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
