import CSyncLinux
import Glibc
import SyncThreads

/// Reports that the wall clock was set to another time, or that the machine comes back from suspend. A plan made by a clock may then miss
/// its time. It has one thread, which sleeps until that happens.
package final class ClockMonitor: Sendable {
    private let mailbox: Mailbox<Void>
    private let thread: OwnThread

    /// - Parameter onStep: Called on the monitor's thread.
    /// - Throws: When the kernel gives no such timer.
    package init(onStep: @escaping @Sendable () -> Void) throws(LinuxError) {
        let timer = csl_clock_watch_open()
        guard timer >= 0 else { throw LinuxError(Errno(number: -timer).code, doing: "watch the clock", errno: -timer) }
        let mailbox: Mailbox<Void>
        do throws(LinuxError) {
            mailbox = try Mailbox<Void>()
            thread = try OwnThread.start("clock") { Self.run(timer, mailbox, onStep) }
        } catch {
            close(timer)
            throw error
        }
        self.mailbox = mailbox
    }

    deinit {
        mailbox.post(())
    }

    /// Waits for the thread: no call of `onStep` begins or runs after this.
    package func stop() {
        mailbox.post(())
        thread.join()
    }

    private static func run(_ timer: Int32, _ mailbox: Mailbox<Void>, _ onStep: @Sendable () -> Void) {
        defer { close(timer) }
        while true {
            let ready = csl_wait_readable(mailbox.descriptor, timer, -1)
            if !mailbox.take().isEmpty { return }
            if ready & 2 != 0, csl_clock_watch_take(timer) == 1 { onStep() }
        }
    }
}
