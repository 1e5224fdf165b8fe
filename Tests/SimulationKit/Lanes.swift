import Glibc
import SyncThreads
import Synchronization

/// Numbers handed out one after the other to a few threads, which work on them side by side.
///
/// Uses own threads instead of tasks, because histories are long and never wait, and the test runner's tasks may share one thread. The
/// assignment of numbers to threads changes no result, because histories are independent.
enum Lanes {
    /// Number of processors, from 2 to 16. Each lane holds a few databases in memory.
    static let available = max(2, min(16, sysconf(Int32(_SC_NPROCESSORS_ONLN))))

    /// Calls `body` with each number, until all are done or a call returns `false`. Calls under way then still finish.
    ///
    /// - Parameter body: Returns `true` to go on.
    static func run(_ numbers: Range<UInt64>, lanes: Int, _ body: @escaping @Sendable (UInt64) -> Bool) {
        let work = Work(numbers, body)
        // Without another thread, this thread does all of it.
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
