import CSyncLinux

/// Whether the system has threads to give.
package enum SpareThreads {
    /// Makes so many threads at once, and ends them.
    ///
    /// - Throws: `.exhausted` when they are not to be had (`TasksMax=` of the unit, RLIMIT_NPROC, memory).
    package static func check(_ count: Int) throws(LinuxError) {
        let end = try Mailbox<Void>()
        var threads: [OwnThread] = []
        // All of them wait for the same end, which none of them takes.
        defer {
            end.post(())
            for thread in threads { thread.join() }
        }
        for _ in 0..<count {
            threads.append(try OwnThread(name: "spare") { while csl_wait_readable(end.descriptor, -1, -1) & 1 == 0 {} })
        }
    }
}
