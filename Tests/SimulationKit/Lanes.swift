import Glibc
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
        var threads: [pthread_t] = []
        for _ in 1..<max(1, lanes) {
            let context = Unmanaged.passRetained(work)
            var thread = pthread_t()
            let start: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
                if let context { Unmanaged<Work>.fromOpaque(context).takeRetainedValue().run() }
                return nil
            }
            // Without another thread this one does all of it.
            if pthread_create(&thread, nil, start, context.toOpaque()) == 0 { threads.append(thread) } else { context.release() }
        }
        work.run()
        for thread in threads { pthread_join(thread, nil) }
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
