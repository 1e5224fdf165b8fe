import Synchronization

/// A number of places for requests that run at the same time. A task waits for one until its deadline.
final class Places: Sendable {
    private struct Waiter {
        var ticket: Int
        var continuation: CheckedContinuation<EdgeSyncError?, Never>
        var timer: Task<Void, Never>
    }

    private struct State {
        var free: Int
        var nextTicket = 0
        /// In the order of their arrival.
        var waiting: [Waiter] = []
    }

    private let state: Mutex<State>

    init(_ count: Int) {
        state = Mutex(State(free: count))
    }

    /// Waits for a place. The caller gives it back with ``release()``.
    ///
    /// - Throws: `deadlinePassed` or `cancelled`. There is no place to give back then.
    func acquire(within time: Duration, _ environment: Environment) async throws(EdgeSyncError) {
        let ticket: Int? = state.withLock { state in
            if state.free > 0 {
                state.free -= 1
                return nil
            }
            state.nextTicket += 1
            return state.nextTicket
        }
        guard let ticket else { return }
        let error = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isFree = state.withLock { state in
                    if state.free > 0 {
                        state.free -= 1
                        return true
                    }
                    let timer = Task { [self] in
                        // The timer is cancelled when the place was given.
                        do { try await environment.sleep(time) } catch { return }
                        fail(ticket, .deadlinePassed("all \(Limits.connections) connections of this client were in use"))
                    }
                    state.waiting.append(Waiter(ticket: ticket, continuation: continuation, timer: timer))
                    return false
                }
                if isFree { continuation.resume(returning: nil) }
                // The handler below may have come before there was something to cancel.
                if Task.isCancelled { fail(ticket, .cancelled) }
            }
        } onCancel: {
            fail(ticket, .cancelled)
        }
        if let error { throw error }
    }

    func release() {
        let next: Waiter? = state.withLock { state in
            if !state.waiting.isEmpty { return state.waiting.removeFirst() }
            state.free += 1
            return nil
        }
        next?.timer.cancel()
        next?.continuation.resume(returning: nil)
    }

    private func fail(_ ticket: Int, _ error: EdgeSyncError) {
        let waiter = state.withLock { state in
            state.waiting.firstIndex { $0.ticket == ticket }.map { state.waiting.remove(at: $0) }
        }
        waiter?.timer.cancel()
        waiter?.continuation.resume(returning: error)
    }
}
