package import Glibc

/// A state behind a lock, whose changes threads can wait for. A waiting thread has no other wake-ups, so it costs nothing.
///
/// Timed waits use monotonic time, because the wall clock steps when the network comes. It is inlinable, so that a user in another module
/// gets code for its own type of state.
package final class Waitable<State>: @unchecked Sendable {
    // Invariant: `state` is touched only with the mutex held. Neither the mutex nor the condition may move, so they live on the heap.
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline let condition: UnsafeMutablePointer<pthread_cond_t>
    @usableFromInline var state: State

    @inlinable
    package init(_ state: State) {
        self.state = state
        mutex = .allocate(capacity: 1)
        condition = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    @inlinable
    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    /// Reads or changes the state. The change wakes the waiting threads, unless `waking` is `false` or it throws.
    @inlinable
    package func change<Value, Failure: Error>(
        waking: Bool = true, _ change: (inout State) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let value = try locked(change)
        // The signal comes after the unlock, or a thread would wake up only to wait for the mutex.
        if waking { pthread_cond_broadcast(condition) }
        return value
    }

    @inlinable
    func locked<Value, Failure: Error>(_ body: (inout State) throws(Failure) -> Value) throws(Failure) -> Value {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&state)
    }

    /// Waits until `take` returns a value. It is called once at the beginning and after each change, with the lock held.
    @inlinable
    package func wait<Value>(_ take: (inout State) -> Value?) -> Value {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let value = take(&state) { return value }
            pthread_cond_wait(condition, mutex)
        }
    }

    /// The same until a point in time.
    ///
    /// - Parameter deadline: Nanoseconds of `CLOCK_MONOTONIC` (``MonotonicTime``); `nil` means none.
    /// - Returns: `nil` when the deadline has passed.
    @inlinable
    package func wait<Value>(until deadline: Int64?, _ take: (inout State) -> Value?) -> Value? {
        guard let deadline else { return wait(take) }
        var end = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let value = take(&state) { return value }
            if pthread_cond_timedwait(condition, mutex, &end) == ETIMEDOUT { return take(&state) }
        }
    }
}

/// The clock of timed waits. It does not step with the wall clock.
package enum MonotonicTime {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    package static func now() -> Int64 {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
    }
}
