import Glibc
import Synchronization

/// A thread for calls that block, so that none of Swift's own threads waits in one.
///
/// It performs one call after another, in their order. It ends when this object is gone and its last call has returned.
final class SocketThread: Sendable {
    private let queue: Queue

    /// Bytes of the stack. The calls are shallow: sockets, and the reader of HTTP.
    private static let stackBytes = 256 << 10

    /// - Throws: `unreachable` if the system gives no thread.
    init() throws(EdgeSyncError) {
        queue = Queue()
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setstacksize(&attributes, Self.stackBytes)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        // Signals are for the threads of the app.
        var (all, before) = (sigset_t(), sigset_t())
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(queue)
        let result = pthread_create(
            &thread, &attributes,
            { argument in
                guard let argument else { return nil }
                Unmanaged<Queue>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            }, argument.toOpaque())
        guard result == 0 else {
            argument.release()
            throw .unreachable("the system gives no thread for a connection: \(String(cString: strerror(result)))")
        }
    }

    deinit {
        queue.end()
    }

    /// Performs a call on the thread, and waits for its result without holding another thread.
    func run<Value: Sendable>(
        _ call: @escaping @Sendable () throws(EdgeSyncError) -> Value
    ) async -> Result<Value, EdgeSyncError> {
        await withCheckedContinuation { continuation in
            queue.add {
                do throws(EdgeSyncError) { continuation.resume(returning: .success(try call())) } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
    }
}

/// Calls that wait for their thread.
private final class Queue: @unchecked Sendable {
    private struct State {
        var calls: [@Sendable () -> Void] = []
        var hasEnded = false
    }

    private let state = Mutex(State())
    // Never moved or copied, as sem_init(3) demands, and counts the calls and the end.
    private let count: UnsafeMutablePointer<sem_t>

    init() {
        count = .allocate(capacity: 1)
        sem_init(count, 0, 0)
    }

    deinit {
        sem_destroy(count)
        count.deallocate()
    }

    func add(_ call: @escaping @Sendable () -> Void) {
        state.withLock { $0.calls.append(call) }
        sem_post(count)
    }

    func end() {
        state.withLock { $0.hasEnded = true }
        sem_post(count)
    }

    func run() {
        while true {
            while sem_wait(count) != 0 {}
            let (call, hasEnded) = state.withLock { ($0.calls.isEmpty ? nil : $0.calls.removeFirst(), $0.hasEnded) }
            if let call { call() } else if hasEnded { return }
        }
    }
}
