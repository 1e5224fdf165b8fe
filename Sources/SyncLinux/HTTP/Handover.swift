import Glibc
import SyncCore
import Synchronization

/// Carries one answer from curl's thread to the thread that waits for it.
///
/// `@unchecked Sendable`: the semaphore is made for several threads, and the answer is behind a lock.
final class Handover: @unchecked Sendable {
    private let answer = Mutex<Result<HTTPResponse, TransportError>?>(nil)
    // A semaphore must not move, so it lives on the heap.
    private let isThere = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    init() {
        precondition(sem_init(isThere, 0, 0) == 0, "a semaphore that starts at 0 can be made")
    }

    deinit {
        sem_destroy(isThere)
        isThere.deallocate()
    }

    func put(_ value: Result<HTTPResponse, TransportError>) {
        answer.withLock { $0 = value }
        sem_post(isThere)
    }

    func take() -> Result<HTTPResponse, TransportError> {
        while sem_wait(isThere) != 0 {
            precondition(errno == EINTR, "sem_wait on a valid semaphore fails only when a signal interrupts it")
        }
        guard let value = answer.withLock({ $0 }) else { preconditionFailure("woken without an answer") }
        return value
    }
}
