import CSyncLinux
import SyncThreads

/// A check that the system has threads left.
package enum SpareThreads {
    /// Makes this number of threads at once, and ends them.
    ///
    /// - Throws: `.exhausted` when they are not available (`TasksMax=` of the unit, RLIMIT_NPROC, memory).
    package static func check(_ count: Int) throws(LinuxError) {
        let end = try Mailbox<Void>()
        var threads: [OwnThread] = []
        // All threads wait for the same message, which none of them removes.
        defer {
            end.post(())
            for thread in threads { thread.join() }
        }
        for _ in 0..<count {
            threads.append(try OwnThread.start("spare") { while csl_wait_readable(end.descriptor, -1, -1) & 1 == 0 {} })
        }
    }
}
