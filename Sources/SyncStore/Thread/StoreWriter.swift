package import SyncCore
import SyncThreads
import Synchronization

/// The thread that owns the store.
///
/// **Group commit without a timer.** While a commit is being written, work collects; afterwards, all of it is done in one transaction and
/// committed together. A lone producer gets a commit of its own at once, 64 of them share one. Completions are called after the commit,
/// those of a group in one call of `deliver`.
///
/// **Relaxed work** is done at once in a transaction that is left open, and answered before the commit. It is on the medium within a
/// second, or with the next work that is not relaxed. The thread wakes up by itself only while such a transaction is open, and once after a
/// quiet time to release memory.
package final class StoreWriter: @unchecked Sendable {
    package typealias Deliver = @Sendable ([@Sendable () -> Void]) -> Void

    package enum Incident: Sendable {
        /// A commit failed and its outcome is unknown. The store was opened again; `survived` says whether the group is in it.
        case commitFailed(StoreError, survived: Bool, relaxedLost: Int)
        /// The medium failed to read. The store was opened again in the state of the last commit.
        case readFailed(StoreError, relaxedLost: Int)
        /// The error happened again, or the store could not be opened again. Everything is refused, and opening is retried every half
        /// minute.
        case unusable(StoreError)
        /// The database could be opened again, and work continues.
        case usableAgain(StoreOpening)
        /// The files were removed while they were in use. Their content was written to new ones: nothing is lost, and work continues.
        case restored(StoreError)
        /// The thread has ended more mutations that depended on a refused one, without a request.
        case wentOn
        /// Only a new database helps, and that is made at a start: exit and restart.
        case fatal(StoreError)
    }

    /// Time after which relaxed work is on the medium.
    package static let relaxedDelay: Duration = .seconds(1)

    /// Time after which a database that could not be used is opened again (PROTOCOL C2).
    package static let retryAfter: Duration = .seconds(30)

    /// Time without work after which the memory of a connection is released.
    package static let quietAfter: Duration = .seconds(10)

    private let time: any TimeSource
    private let retryAfter: Duration
    private let quietAfter: Duration
    private let deliver: Deliver
    private let incident: @Sendable (Incident) -> Void
    private let open: @Sendable (Moment) throws(StoreError) -> Store
    private let thread = StoreThread([Job](), name: "store writer")
    private let measuredCommits = Mutex(DurationHistogram())
    private let measuredJobs = Mutex(StoreJobTimes())
    /// Start of the present job, nanoseconds of `CLOCK_MONOTONIC`; 0 while the thread waits for work.
    private let busySince = Atomic<Int64>(0)

    package init(
        time: any TimeSource, retryAfter: Duration = StoreWriter.retryAfter, quietAfter: Duration = StoreWriter.quietAfter,
        deliver: @escaping Deliver, incident: @escaping @Sendable (Incident) -> Void,
        open: @escaping @Sendable (Moment) throws(StoreError) -> Store
    ) {
        self.time = time
        self.retryAfter = retryAfter
        self.quietAfter = quietAfter
        self.deliver = deliver
        self.incident = incident
        self.open = open
    }

    /// Opens the store on its thread, and waits for that. After a failure it may be started again, in any of the three ways.
    package func start() throws(StoreError) -> StoreOpening {
        let opened = Promise<Result<StoreOpening, StoreError>>()
        try thread.start { [self] in
            let loop = makeLoop()
            do throws(StoreError) {
                opened.fulfil(.success(try loop.begin()))
                loop.run(thread)
            } catch {
                opened.fulfil(.failure(error))
            }
        }
        let result = opened.wait()
        // The thread has nothing more to do; the next attempt makes a new one.
        if case .failure = result { thread.join() }
        return try result.get()
    }

    private func makeLoop() -> StoreLoop {
        StoreLoop(
            open: open, time: time, retryAfter: retryAfter, quietAfter: quietAfter, deliver: deliver, incident: incident,
            measured: { [self] duration in measuredCommits.withLock { $0.add(duration) } },
            isDoing: { [self] isJob, work in
                let began = MonotonicTime.now()
                busySince.store(began, ordering: .relaxed)
                work()
                busySince.store(0, ordering: .relaxed)
                guard isJob else { return }
                let duration = Duration.nanoseconds(MonotonicTime.now() - began)
                measuredJobs.withLock { $0.add(duration) }
            })
    }

    /// Durations of single jobs since the start, without the commit. Other work waits for this long.
    package var jobTimes: StoreJobTimes { measuredJobs.withLock { $0 } }

    /// Time that the thread has spent on the present job or commit; `nil` while it has none.
    package var heldFor: Duration? {
        let began = busySince.load(ordering: .relaxed)
        return began == 0 ? nil : .nanoseconds(max(0, MonotonicTime.now() - began))
    }

    /// Durations of commits since the start, including the wait for the medium.
    package var commitTimes: DurationHistogram { measuredCommits.withLock { $0 } }

    /// Refuses all work with this error until the database can be opened.
    package func startResting(after error: StoreError) throws(StoreError) {
        try thread.start { [self] in
            let loop = makeLoop()
            loop.beginResting(after: error)
            loop.run(thread)
        }
    }

    /// Refuses all work with this error: the database may only be inspected.
    package func startRefusing(with error: StoreError) throws(StoreError) {
        try thread.start { [self] in
            while case .value(let jobs) = thread.wait(
                until: nil,
                { (box: inout [Job]) -> [Job]? in
                    if box.isEmpty { return nil }
                    defer { box.removeAll() }
                    return box
                })
            {
                deliver(jobs.map { job in { job.refuse(error) } })
            }
        }
    }

    package func enqueue(
        _ mutations: [NewMutation], isAtomic: Bool = false, by requester: Requester, appKey: AppKey? = nil,
        completion: @escaping @Sendable (Result<[Enqueued], StoreError>) -> Void
    ) {
        let size = mutations.reduce(0) { $0 + $1.size }
        submit(rows: mutations.count, bytes: size, completion) { store, now throws(StoreError) in
            let made = try store.enqueue(mutations, isAtomic: isAtomic, by: requester, appKey: appKey, at: now)
            let early = made.count { $0.durability == .relaxed && !$0.isRepeat }
            return (made, needsFlash: made.contains { $0.durability == .flash }, relaxed: early)
        }
    }

    package func perform(_ command: StoreCommand, completion: @escaping @Sendable (StoreAnswer) -> Void) {
        run { store, now throws(StoreError) in
            try store.answer(command, at: now)
        } completion: { result in
            switch result {
            case .success(let answer): completion(answer)
            case .failure(let error): completion(.failed(error.description))
            }
        }
    }

    /// Runs any other work on the store; it is durable when `completion` is called.
    ///
    /// - Parameters:
    ///   - rows: Approximate number of rows that it writes; together with `bytes` it limits the size of a commit.
    package func run<Value: Sendable>(
        rows: Int = 1, bytes: Int = 0, _ work: @escaping @Sendable (Store, Moment) throws(StoreError) -> Value,
        completion: @escaping @Sendable (Result<Value, StoreError>) -> Void
    ) {
        submit(rows: rows, bytes: bytes, completion) { store, now throws(StoreError) in
            (try work(store, now), needsFlash: true, relaxed: 0)
        }
    }

    private func submit<Value: Sendable>(
        rows: Int, bytes: Int, _ completion: @escaping @Sendable (Result<Value, StoreError>) -> Void,
        _ work: @escaping @Sendable (Store, Moment) throws(StoreError) -> (Value, needsFlash: Bool, relaxed: Int)
    ) {
        let job = Job(rows: rows, bytes: bytes) { store, now in
            let result: Result<Value, StoreError>
            var needsFlash = false
            var relaxed = 0
            var damage: StoreError?
            var failedRead: StoreError?
            do throws(StoreError) {
                let (value, flash, early) = try work(store, now)
                (needsFlash, relaxed) = (flash, early)
                result = .success(value)
            } catch {
                result = .failure(error)
                if error.code == .corrupt || error.code == .notADatabase { damage = error }
                if error.isFailedRead { failedRead = error }
            }
            return Done(needsFlash: needsFlash, relaxed: relaxed, damage: damage, failedRead: failedRead) { failure in
                // A refusal stays a refusal, whatever happened to the others of the group.
                if let failure, case .success = result { return completion(.failure(failure)) }
                completion(result)
            }
        } refuse: { error in
            completion(.failure(error))
        }
        if thread.change({ $0.append(job) }) == nil {
            deliver([{ job.refuse(StoreError(.closed, doing: "use the store")) }])
        }
    }

    /// Reports a failed read of another part: the database is opened again, with the checks of a start.
    package func reopen(after error: StoreError) {
        // If the thread refuses the job, the database is in doubt already.
        _ = thread.change { jobs in
            jobs.append(
                Job(rows: 0, bytes: 0) { _, _ in
                    Done(needsFlash: false, failedRead: error) { _ in }
                } refuse: { _ in
                })
        }
    }

    /// Finishes the queued work, closes the store cleanly and ends the thread.
    package func close() throws(StoreError) {
        thread.close()
    }
}

/// Work for the thread.
struct Job: Sendable {
    var rows: Int
    var bytes: Int
    /// Does the work, inside the open transaction.
    var run: @Sendable (Store, Moment) -> Done
    /// Answers without doing the work.
    var refuse: @Sendable (StoreError) -> Void
}

struct Done: Sendable {
    var needsFlash: Bool
    /// Number of new mutations that may be answered before they are on the medium.
    var relaxed = 0
    /// The database contradicts itself.
    var damage: StoreError?
    /// The medium failed to read.
    var failedRead: StoreError?
    /// Answers the caller. With an error, nothing of the work was kept, or it is unknown whether it was.
    var finish: @Sendable (StoreError?) -> Void
}

/// Durations of the jobs of the store's thread.
package struct StoreJobTimes: Hashable, Sendable {
    /// Longest time that a job should take on the slowest supported hardware. Larger work is done in slices.
    package static let bound: Duration = .seconds(5)

    package private(set) var times = DurationHistogram()
    package private(set) var longest: Duration = .zero
    /// Number of jobs that took longer than ``bound``.
    package private(set) var overBound = 0

    package init() {}

    package mutating func add(_ duration: Duration) {
        times.add(duration)
        longest = max(longest, duration)
        if duration > Self.bound { overBound += 1 }
    }
}
