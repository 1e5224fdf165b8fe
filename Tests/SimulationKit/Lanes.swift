import Glibc
import SyncThreads
import Synchronization

/// Numbers handed out one after the other to a few threads, which work on them side by side.
///
/// Threads of our own instead of tasks: histories are long and never wait, and the test runner's tasks may share one thread.
/// Which thread takes which number changes nothing, because no history knows of another.
enum Lanes {
    /// As many as there are processors; each lane has a few databases in memory.
    static let available = max(2, min(16, sysconf(Int32(_SC_NPROCESSORS_ONLN))))

    /// Calls `body` with each number until all are through, or until it says that it is enough; then the calls under way
    /// still come to their end.
    ///
    /// - Parameter body: Returns whether to go on.
    static func run(_ numbers: Range<UInt64>, lanes: Int, _ body: @escaping @Sendable (UInt64) -> Bool) {
        let work = Work(numbers, body)
        // Without another thread this one does all of it.
        let threads = (1..<max(1, lanes)).compactMap { try? OwnThread(name: "lane \($0)") { work.run() } }
        work.run()
        for thread in threads { thread.join() }
    }

    private final class Work: Sendable {
        private let rest: Mutex<Range<UInt64>>
        private let body: @Sendable (UInt64) -> Bool

        init(_ numbers: Range<UInt64>, _ body: @escaping @Sendable (UInt64) -> Bool) {
            rest = Mutex(numbers)
            self.body = body
        }

        func run() {
            while let number = rest.withLock({ $0.popFirst() }) {
                guard body(number) else { return rest.withLock { $0 = $0.upperBound..<$0.upperBound } }
            }
        }
    }
}
