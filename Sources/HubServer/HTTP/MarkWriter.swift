import Synchronization

/// Writes marks one after the other and drops those that a newer one has overtaken, whatever threads they come from.
final class MarkWriter: Sendable {
    private let waiting = Mutex<HubMark?>(nil)
    private let writing = Mutex<Void>(())

    /// - Returns: Whether somebody must write it: `false` when a write is on its way that will take it along.
    func offer(_ mark: HubMark) -> Bool {
        waiting.withLock { waiting in
            defer { waiting = mark }
            return waiting == nil
        }
    }

    func write(_ remember: (HubMark) -> Void) {
        writing.withLock { _ in
            // Taken inside the lock of the writer, so that an older mark never replaces a newer one.
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
