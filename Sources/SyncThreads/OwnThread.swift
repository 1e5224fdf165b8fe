import CSyncThreads
import Glibc
import Synchronization

/// A thread for calls that block: curl's loop, the store, the wait for signals.
///
/// It has a name in `/proc/self/task/*/comm`. All signals are blocked in it, so that the handlers run elsewhere and a write to a closed
/// socket gives `EPIPE` instead of `SIGPIPE`.
package final class OwnThread: Sendable {
    private let handle: pthread_t
    private let joined = Mutex(false)

    /// - Parameter name: Name of at most 15 bytes; the kernel cuts the rest.
    /// - Throws: The error of the system, which has no thread left.
    package init(name: String, _ body: @escaping @Sendable () -> Void) throws(ThreadError) {
        let start = Unmanaged.passRetained(Start(name: name, body: body))
        var everything = sigset_t(), before = sigset_t()
        sigfillset(&everything)
        // A thread inherits the mask of its creator, so it starts with all signals blocked.
        pthread_sigmask(SIG_SETMASK, &everything, &before)
        var handle = pthread_t()
        let result = pthread_create(
            &handle, nil,
            { context in
                guard let context else { return nil }
                let start = Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
                csth_name_thread(start.name)
                start.body()
                return nil
            }, start.toOpaque())
        pthread_sigmask(SIG_SETMASK, &before, nil)
        guard result == 0 else {
            start.release()
            throw ThreadError(errno: result)
        }
        self.handle = handle
    }

    /// Waits until the body has returned; later calls return at once. A call on the thread itself, which cannot wait for its own end, does
    /// nothing.
    package func join() {
        guard pthread_equal(handle, pthread_self()) == 0 else { return }
        joined.withLock { joined in
            if !joined { pthread_join(handle, nil) }
            joined = true
        }
    }

    deinit {
        // No other thread can join it any more.
        if !joined.withLock({ $0 }) { pthread_detach(handle) }
    }

    private final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void

        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }
}

/// The reason why the system made no thread (pthread_create(3)).
package struct ThreadError: Error, Hashable, Sendable {
    package let errno: Int32
}
