import Synchronization

/// Writes marks one after the other, from any thread, and drops those that a newer one has replaced.
final class MarkWriter: Sendable {
    private let waiting = Mutex<HubMark?>(nil)
    private let writing = Mutex<Void>(())

    /// - Returns: `true` when the caller must write it; `false` when a planned write will include it.
    func offer(_ mark: HubMark) -> Bool {
        waiting.withLock { waiting in
            defer { waiting = mark }
            return waiting == nil
        }
    }

    func write(_ remember: (HubMark) -> Void) {
        writing.withLock { _ in
            // Read inside the lock of the writer, so that an older mark never replaces a newer one.
            guard
                let mark = waiting.withLock({ waiting in
                    defer { waiting = nil }
                    return waiting
                })
            else { return }
            remember(mark)
        }
    }
}
