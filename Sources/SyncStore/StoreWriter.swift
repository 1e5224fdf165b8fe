package import SyncCore
import Synchronization

/// The thread that owns the store.
///
/// **Group commit without a timer.** While a commit is on its way to the medium, work gathers; when it is there, all of it is
/// done in one transaction and committed together. A lone producer gets a commit of its own at once, 64 of them share one.
/// Completions are called after the commit, those of a group in one call of `deliver`.
///
/// **Relaxed work** is done at once in a transaction that is left open, and answered before it is committed. It is on the
/// medium within a second, or with the next work that is not relaxed. Only while such a transaction is open does the thread
/// wake up by itself, and once when nothing has come for a while, to give back memory.
package final class StoreWriter: @unchecked Sendable {
    package typealias Deliver = @Sendable ([@Sendable () -> Void]) -> Void

    package enum Incident: Sendable {
        /// A commit failed and its outcome is unknown. The store was opened again; `survived` tells whether the group is in it.
        case commitFailed(StoreError, survived: Bool, relaxedLost: Int)
        /// The medium did not give what was to be read. The store was opened again and is as it was after the last commit.
        case readFailed(StoreError, relaxedLost: Int)
        /// It happened again, or the store could not be opened again. Everything is refused, and the database tried again
        /// every half minute.
        case unusable(StoreError)
        /// It could be opened: all goes on.
        case usableAgain(StoreOpening)
        /// Its files were removed while they were in use. What they held was written anew: nothing is lost, and all goes on.
        case restored(StoreError)
        /// More of what falls with a refused change has fallen, without anybody having asked for it now.
        case wentOn
        /// Only another database helps, and that is made at a start: exit and restart.
        case fatal(StoreError)
    }

    /// Relaxed work is on the medium after this.
    package static let relaxedDelay: Duration = .seconds(1)

    /// A database that could not be used is tried again after this (PROTOCOL C2).
    package static let retryAfter: Duration = .seconds(30)

    /// Memory that a connection keeps for the next work is given back when there was none for this long.
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
    /// When the thread began what it is doing, nanoseconds of `CLOCK_MONOTONIC`; 0 while it waits for work.
    private let busySince = Atomic<Int64>(0)

    package init(
        time: any TimeSource, retryAfter: Duration = StoreWriter.retryAfter, quietAfter: Duration = StoreWriter.quietAfter,
        deliver: @escaping Deliver, incident: @escaping @Sendable (Incident) -> Void, open: @escaping @Sendable (Moment) throws(StoreError) -> Store
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
        let opened = Mutex<Result<StoreOpening, StoreError>?>(nil)
        let answer = StoreThread(false, name: "store writer")
        try thread.start { [self] in
            let loop = makeLoop()
            do throws(StoreError) {
                let opening = try loop.begin()
                opened.withLock { $0 = .success(opening) }
                _ = answer.change { $0 = true }
                loop.run(thread)
            } catch {
                opened.withLock { $0 = .failure(error) }
                _ = answer.change { $0 = true }
            }
        }
        _ = answer.wait(until: nil) { $0 ? true : nil }
        guard let result = opened.withLock({ $0 }) else { preconditionFailure("the store thread said nothing") }
        // The thread has nothing more to do; the next attempt makes one of its own.
        if case .failure = result { thread.join() }
        return try result.get()
    }

    private func makeLoop() -> StoreLoop {
        StoreLoop(
            open: open, time: time, retryAfter: retryAfter, quietAfter: quietAfter, deliver: deliver, incident: incident,
            measured: { [self] duration in measuredCommits.withLock { $0.add(duration) } },
            isDoing: { [self] isJob, work in
                let began = StoreThread<[Job]>.monotonicNow()
                busySince.store(began, ordering: .relaxed)
                work()
                busySince.store(0, ordering: .relaxed)
                guard isJob else { return }
                let duration = Duration.nanoseconds(StoreThread<[Job]>.monotonicNow() - began)
                measuredJobs.withLock { $0.add(duration) }
            })
    }

    /// How long single jobs took since the start, the commit not included. Whatever else wants the store waits that long.
    package var jobTimes: StoreJobTimes { measuredJobs.withLock { $0 } }

    /// How long the thread has been at the same job or commit; `nil` while it has nothing to do.
    package var heldFor: Duration? {
        let began = busySince.load(ordering: .relaxed)
        return began == 0 ? nil : .nanoseconds(max(0, StoreThread<[Job]>.monotonicNow() - began))
    }

    /// How long commits took since the start, the wait for the medium included.
    package var commitTimes: DurationHistogram { measuredCommits.withLock { $0 } }

    /// Refuses all work with this error until the database can be opened.
    package func startResting(after error: StoreError) throws(StoreError) {
        try thread.start { [self] in
            let loop = makeLoop()
            loop.beginResting(after: error)
            loop.run(thread)
        }
    }

    /// Refuses all work with this error: the database may be looked at, and nothing else.
    package func startRefusing(with error: StoreError) throws(StoreError) {
        try thread.start { [self] in
            while case .value(let jobs) = thread.wait(until: nil, { (box: inout [Job]) -> [Job]? in
                if box.isEmpty { return nil }
                defer { box.removeAll() }
                return box
            }) {
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

    /// Any other work on the store, durable when `completion` is called.
    ///
    /// - Parameters:
    ///   - rows: About how many rows it writes; with `bytes` it bounds what one commit holds.
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
                // What was refused stays refused, whatever became of the others of the group.
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

    /// Somebody else did not get what was to be read: the database is opened again, which reads what a start reads.
    package func doubt(_ error: StoreError) {
        // Refused or too late, it is in doubt already.
        _ = thread.change { jobs in
            jobs.append(Job(rows: 0, bytes: 0) { _, _ in Done(needsFlash: false, failedRead: error) { _ in } } refuse: { _ in })
        }
    }

    /// Finishes what was handed in, closes the store in good order and ends the thread.
    package func close() throws(StoreError) {
        thread.close()
    }
}

/// Work for the thread.
struct Job: Sendable {
    var rows: Int
    var bytes: Int
    /// Does it, inside the open transaction.
    var run: @Sendable (Store, Moment) -> Done
    /// Answers without having done it.
    var refuse: @Sendable (StoreError) -> Void
}

struct Done: Sendable {
    var needsFlash: Bool
    /// New mutations that may be answered before they are on the medium.
    var relaxed = 0
    /// The database contradicts itself.
    var damage: StoreError?
    /// The medium did not give what was to be read.
    var failedRead: StoreError?
    /// Tells whoever asked. With an error nothing of it was kept, or it is not known whether it was.
    var finish: @Sendable (StoreError?) -> Void
}

/// How long the jobs of the store's thread took.
package struct StoreJobTimes: Hashable, Sendable {
    /// A job is to take no longer than this on the slowest hardware that is supported. What may be larger is done in slices.
    package static let bound: Duration = .seconds(5)

    package private(set) var times = DurationHistogram()
    package private(set) var longest: Duration = .zero
    /// Jobs that took longer than ``bound``.
    package private(set) var overBound = 0

    package init() {}

    package mutating func add(_ duration: Duration) {
        times.add(duration)
        longest = max(longest, duration)
        if duration > Self.bound { overBound += 1 }
    }
}
