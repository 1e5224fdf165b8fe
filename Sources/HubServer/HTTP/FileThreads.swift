import NIOCore
import Synchronization

/// The threads that write and read files; they may wait for a disk or a network.
final class FileThreads: Sendable {
    private let loops: [any EventLoop]
    private let turns = Atomic(0)

    init(_ loops: [any EventLoop]) {
        self.loops = loops
    }

    /// The next thread in turn.
    func next() -> any EventLoop {
        loops[turns.wrappingAdd(1, ordering: .relaxed).oldValue % loops.count]
    }
}
