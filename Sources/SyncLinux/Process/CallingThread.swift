// `timespec` belongs to whichever of the two C modules the compiler loads first.
import CSyncLinux
import Glibc
import SyncThreads
import Synchronization

/// Runs asynchronous work to its end on the calling thread, so that the process needs no thread of the default executor.
///
/// The one task is made and awaited right here. Its continuations may be resumed on the transport's thread. They queue their job, and the
/// calling thread, which sleeps meanwhile, runs it.
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
private final class JobQueue: TaskExecutor {
    private let jobs = Waitable<[UnownedJob]>([])

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.change { $0.append(job) }
    }

    /// Waits for a job and runs it.
    func runNext() {
        let job = jobs.wait { $0.isEmpty ? nil : $0.removeFirst() }
        job.runSynchronously(on: asUnownedTaskExecutor())
    }
}
