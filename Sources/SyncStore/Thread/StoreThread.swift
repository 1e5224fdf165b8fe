import CSQLite
import Glibc

/// A thread that sleeps until its box has content. It has no other wake-ups, so an idle one costs nothing.
///
/// Invariant: `box`, `isClosing` and `handle` are touched only with the mutex held.
final class StoreThread<Box>: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>
    private var box: Box
    private var isClosing = false
    private var handle: pthread_t?
    private let name: String

    /// - Parameter name: Name of at most 15 bytes, which system tools show.
    init(_ box: Box, name: String) {
        self.box = box
        self.name = name
        mutex = .allocate(capacity: 1)
        condition = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
        // Timed waits use monotonic time, because the wall clock steps when the network comes.
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
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

    /// - Precondition: Not started yet.
    func start(_ body: @escaping @Sendable () -> Void) throws(StoreError) {
        let start = Unmanaged.passRetained(ThreadStart(name, body))
        var everything = sigset_t(), before = sigset_t()
        sigfillset(&everything)
        // A thread inherits the signal mask of its creator, so signals are blocked in it from its first instruction on.
        pthread_sigmask(SIG_SETMASK, &everything, &before)
        var handle = pthread_t()
        // The thread cannot close itself before its handle is stored.
        pthread_mutex_lock(mutex)
        let result = pthread_create(
            &handle, nil,
            { context in
                guard let context else { return nil }
                let start = Unmanaged<ThreadStart>.fromOpaque(context).takeRetainedValue()
                csqlite_name_thread(start.name)
                start.body()
                return nil
            }, start.toOpaque())
        // A thread that starts after the end was announced is not joined: it finds that and ends.
        if result == 0 { if isClosing { pthread_detach(handle) } else { self.handle = handle } }
        pthread_mutex_unlock(mutex)
        pthread_sigmask(SIG_SETMASK, &before, nil)
        guard result == 0 else {
            start.release()
            throw StoreError(.outOfMemory, doing: "start a thread", detail: "errno \(result)")
        }
    }

    /// Changes the box, and wakes the thread if `waking` is set.
    ///
    /// - Returns: `nil` when the thread was told to end before; nothing was changed then.
    func change<Value>(waking: Bool = true, _ change: (inout Box) -> Value) -> Value? {
        pthread_mutex_lock(mutex)
        guard !isClosing else {
            pthread_mutex_unlock(mutex)
            return nil
        }
        let value = change(&box)
        pthread_mutex_unlock(mutex)
        // The signal comes after the unlock, or the thread would wake up only to wait for the mutex.
        if waking { pthread_cond_signal(condition) }
        return value
    }

    enum Wait<Value> {
        case value(Value)
        case timeOut
        case closed
    }

    /// Called by the thread itself. It waits until `take` returns a value, the deadline passes, or the end has come and nothing is left to
    /// take.
    ///
    /// - Parameter deadline: Nanoseconds of `CLOCK_MONOTONIC`; `nil` means none.
    func wait<Value>(until deadline: Int64?, _ take: (inout Box) -> Value?) -> Wait<Value> {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let value = take(&box) { return .value(value) }
            if isClosing { return .closed }
            guard let deadline else {
                pthread_cond_wait(condition, mutex)
                continue
            }
            var time = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
            if pthread_cond_timedwait(condition, mutex, &time) == ETIMEDOUT {
                if let value = take(&box) { return .value(value) }
                return .timeOut
            }
        }
    }

    /// Lets the thread process the content of the box, and waits for its end.
    func close() {
        pthread_mutex_lock(mutex)
        isClosing = true
        pthread_cond_broadcast(condition)
        pthread_mutex_unlock(mutex)
        join()
    }

    /// Waits for the end of a thread that ends by itself, and frees its stack. Another one may be started then.
    func join() {
        pthread_mutex_lock(mutex)
        let waited = handle
        handle = nil
        pthread_mutex_unlock(mutex)
        guard let waited else { return }
        // A thread cannot join itself.
        if pthread_equal(waited, pthread_self()) != 0 { pthread_detach(waited) } else { pthread_join(waited, nil) }
    }

    static func monotonicNow() -> Int64 {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
    }
}

private final class ThreadStart: Sendable {
    let name: String
    let body: @Sendable () -> Void

    init(_ name: String, _ body: @escaping @Sendable () -> Void) {
        self.name = name
        self.body = body
    }
}
