import CSyncLinux
import Glibc
import Synchronization

/// Runs asynchronous work to its end on the calling thread, so that the process needs no thread of the default executor.
///
/// The one task is made and awaited right here. Its continuations may be resumed on the transport's thread. They queue their job, and the
/// calling thread, which sleeps on a semaphore meanwhile, runs it.
package enum CallingThread {
    package static func run<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Value {
        let queue = JobQueue()
        let result = ResultBox<Value>()
        Task(executorPreference: queue) {
            result.set(await body())
        }
        while true {
            if let value = result.value { return value }
            queue.runNext()
        }
    }

    /// Blocks the thread, because this process has no other work meanwhile.
    package static func pause(_ duration: Duration) {
        var wanted = timespec(
            tv_sec: Int(max(0, duration.components.seconds)),
            tv_nsec: Int(max(0, duration.components.attoseconds / 1_000_000_000)))
        var left = timespec()
        while nanosleep(&wanted, &left) != 0, errno == EINTR { wanted = left }
    }
}

private final class ResultBox<Value: Sendable>: Sendable {
    private let stored = Mutex<Value?>(nil)

    var value: Value? { stored.withLock { $0 } }

    func set(_ value: Value) {
        stored.withLock { $0 = value }
    }
}

/// Jobs in the order in which they came, run one by one by the caller of ``runNext()``.
private final class JobQueue: TaskExecutor, @unchecked Sendable {
    private let jobs = Mutex<[UnownedJob]>([])
    // A semaphore must not move, so it lives on the heap. All its calls may come from any thread.
    private let waiting: UnsafeMutablePointer<sem_t>

    init() {
        waiting = .allocate(capacity: 1)
        let result = sem_init(waiting, 0, 0)
        precondition(result == 0, "a semaphore that starts at 0 can be made")
    }

    deinit {
        sem_destroy(waiting)
        waiting.deallocate()
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        sem_post(waiting)
    }

    /// Waits for a job and runs it.
    func runNext() {
        while sem_wait(waiting) != 0 {
            precondition(errno == EINTR, "sem_wait on a valid semaphore fails only when a signal interrupts it")
        }
        let job = jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
        job?.runSynchronously(on: asUnownedTaskExecutor())
    }
}
