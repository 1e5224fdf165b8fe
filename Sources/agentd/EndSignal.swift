import Glibc
import SyncHTTP
import Synchronization

/// Blocks one thread until another thread signals.
final class EndSignal: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>
    private var hasFired = false

    init() {
        mutex = .allocate(capacity: 1)
        condition = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        // A step of the wall clock must not make a thread wait for years.
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    var isFired: Bool {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return hasFired
    }

    func fire() {
        pthread_mutex_lock(mutex)
        hasFired = true
        pthread_cond_broadcast(condition)
        pthread_mutex_unlock(mutex)
    }

    func wait() {
        pthread_mutex_lock(mutex)
        while !hasFired { pthread_cond_wait(condition, mutex) }
        pthread_mutex_unlock(mutex)
    }

    /// - Returns: `true` when the signal came within the time.
    func wait(atMost patience: Duration) -> Bool {
        var end = timespec()
        clock_gettime(CLOCK_MONOTONIC, &end)
        let (seconds, attoseconds) = patience.components
        end.tv_sec += Int(seconds)
        end.tv_nsec += Int(attoseconds / 1_000_000_000)
        if end.tv_nsec >= 1_000_000_000 {
            end.tv_sec += 1
            end.tv_nsec -= 1_000_000_000
        }
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while !hasFired { if pthread_cond_timedwait(condition, mutex, &end) == ETIMEDOUT { break } }
        return hasFired
    }
}

// The main thread does not belong to the runtime, so it may block.
extension LoopExecutor {
    /// Runs async work on this loop, and waits for its end.
    func wait<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) throws -> Value {
        let answer = Mutex<Result<Value, any Error>?>(nil)
        let done = EndSignal()
        Task(executorPreference: self) {
            do {
                let value = try await work()
                answer.withLock { $0 = .success(value) }
            } catch {
                answer.withLock { $0 = .failure(error) }
            }
            done.fire()
        }
        done.wait()
        guard let result = answer.withLock({ $0 }) else { preconditionFailure("the work ended without a result") }
        return try result.get()
    }

    func wait(_ work: @escaping @Sendable () async -> Void) {
        let done = EndSignal()
        Task(executorPreference: self) {
            await work()
            done.fire()
        }
        done.wait()
    }
}
