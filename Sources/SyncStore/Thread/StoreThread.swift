import SyncThreads

/// A thread that sleeps until its box has content. It has no other wake-ups, so an idle one costs nothing.
final class StoreThread<Box>: Sendable {
    private struct State {
        var box: Box
        var isClosing = false
        var thread: OwnThread?
    }

    private let state: Waitable<State>
    private let name: String

    /// - Parameter name: Name of at most 15 bytes, which system tools show.
    init(_ box: Box, name: String) {
        state = Waitable(State(box: box))
        self.name = name
    }

    /// - Precondition: Not started yet.
    func start(_ body: @escaping @Sendable () -> Void) throws(StoreError) {
        do throws(ThreadError) {
            // Made with the lock held: the thread cannot close itself before it is stored.
            try state.change(waking: false) { state throws(ThreadError) in
                let thread = try OwnThread(name: name, body)
                // A thread that starts after the end was announced is not joined: it finds that and ends.
                if !state.isClosing { state.thread = thread }
            }
        } catch {
            throw StoreError(.outOfMemory, doing: "start a thread", detail: "errno \(error.errno)")
        }
    }

    /// Changes the box, and wakes the thread if `waking` is set.
    ///
    /// - Returns: `nil` when the thread was told to end before; nothing was changed then.
    func change<Value>(waking: Bool = true, _ change: (inout Box) -> Value) -> Value? {
        state.change(waking: waking) { state in state.isClosing ? nil : change(&state.box) }
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
        let found: Wait<Value>? = state.wait(until: deadline) { state in
            if let value = take(&state.box) { return .value(value) }
            return state.isClosing ? .closed : nil
        }
        return found ?? .timeOut
    }

    /// Lets the thread process the content of the box, and waits for its end.
    func close() {
        state.change { $0.isClosing = true }
        join()
    }

    /// Waits for the end of a thread that ends by itself, and frees its stack. Another one may be started then.
    func join() {
        let thread = state.change(waking: false) { state in
            defer { state.thread = nil }
            return state.thread
        }
        thread?.join()
    }
}
