package import NIOCore

/// Runs actors and tasks on one event loop, so that they share its thread with the sockets it serves.
///
/// **Reason.** The default executor brings threads of its own, and libdispatch's timer that wakes the process once a second. With
/// everything on the loop an idle process sleeps in one `epoll_wait`, and an actor can be entered from a channel handler without a hop:
///
/// ```swift
/// actor Agent {
///     nonisolated let executor: LoopExecutor
///     nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
/// }
/// agent.assumeIsolated { $0.enqueue(…) }      // on the loop: sound, checked, and costs no task
/// Task(executorPreference: executor) { … }    // nonisolated code runs on the loop, too
/// ```
package final class LoopExecutor: SerialExecutor, TaskExecutor {
    package let loop: any EventLoop

    package init(_ loop: any EventLoop) {
        self.loop = loop
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute {
            job.runSynchronously(isolatedTo: self.asUnownedSerialExecutor(), taskExecutor: self.asUnownedTaskExecutor())
        }
    }

    package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(complexEquality: self)
    }

    package func isSameExclusiveExecutionContext(other: LoopExecutor) -> Bool {
        loop === other.loop
    }

    /// Allows `assumeIsolated` on the loop's thread, also outside a job, and on no other thread. This is sound because jobs on the loop run
    /// one after another.
    package func checkIsolated() {
        loop.preconditionInEventLoop()
    }

    package func isIsolatingCurrentContext() -> Bool? {
        loop.inEventLoop
    }

    /// Calls `action` on the loop after `delay` of monotonic time (which stands still while the machine is suspended).
    /// Keep the timer only to cancel it.
    @discardableResult
    package func schedule(after delay: Duration, _ action: @escaping @Sendable () -> Void) -> LoopTimer {
        LoopTimer(scheduled: loop.scheduleTask(in: TimeAmount(delay), action))
    }
}

/// A call that is due on the loop.
package struct LoopTimer: Sendable {
    fileprivate let scheduled: Scheduled<Void>

    /// Cancels the call, unless it was made already or is being made now. May be called from any thread.
    package func cancel() {
        scheduled.cancel()
    }
}
