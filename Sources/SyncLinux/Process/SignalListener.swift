import CSyncLinux
import Glibc
import SyncThreads

/// Handles some signals on a separate thread. Only one object may exist in a process: all handlers write to one pipe.
final class SignalListener: Sendable {
    private let numbers: [Int32]
    private let thread: OwnThread
    private let writer: Int32

    /// - Parameter onSignal: Called on the thread with the signal's number, one after another. Equal signals that come faster than they are
    ///   handled are reported once.
    init(_ numbers: [Int32], _ onSignal: @escaping @Sendable (Int32) -> Void) throws(LinuxError) {
        var ends: [Int32] = [-1, -1]
        let result = csl_signal_pipe(&ends)
        guard result == 0 else {
            throw LinuxError(Errno(number: result).code, doing: "make a pipe for signals", errno: result)
        }
        let (reader, writer) = (ends[0], ends[1])
        // The handlers are set before the thread starts, because the thread unblocks the signals.
        for number in numbers {
            let result = csl_catch_signal(number, writer)
            // Only an invalid signal number or a bad address fails, and both would be a bug of the agent.
            precondition(result == 0, "sigaction: \(Errno(number: result))")
        }
        do throws(LinuxError) {
            thread = try OwnThread.start("signals") { Self.listen(to: reader, numbers, onSignal) }
        } catch {
            for number in numbers { _ = csl_release_signal(number) }
            // The writing end stays open, as in ``close()``.
            Glibc.close(reader)
            throw error
        }
        self.numbers = numbers
        self.writer = writer
    }

    /// The action of a signal after the listener has closed.
    enum Aftermath {
        /// The default action, which for most of them is the end of the process.
        case standard
        case nothing
    }

    /// Waits for the thread; a running call of the closure ends first.
    func close(_ aftermath: Aftermath) {
        for number in numbers { _ = aftermath == .standard ? csl_release_signal(number) : csl_pass_over_signal(number) }
        var end: UInt8 = 0
        _ = write(writer, &end, 1)
        thread.join()
        // The writing end stays open for good: a handler that is running at this moment on another thread must not write into the file that
        // would get the number next.
    }

    private static func listen(to reader: Int32, _ numbers: [Int32], _ onSignal: @Sendable (Int32) -> Void) {
        // The parent may have left its signals blocked (one that spawns from a dedicated thread does), and then no thread here would
        // receive one. This thread unblocks them, whatever was inherited.
        var ours = sigset_t()
        sigemptyset(&ours)
        for number in numbers { sigaddset(&ours, number) }
        pthread_sigmask(SIG_UNBLOCK, &ours, nil)
        var bytes = [UInt8](repeating: 0, count: 256)
        var isOver = false
        while !isOver {
            let count = read(reader, &bytes, bytes.count)
            if count < 0, errno == EINTR { continue }
            isOver = count <= 0 || bytes.prefix(count).contains(0)
            let caught = csl_take_signals()
            for number in numbers where caught & 1 << UInt64(number) != 0 { onSignal(number) }
        }
        Glibc.close(reader)
    }
}

/// Signals for a program that draws on the whole terminal.
package final class TerminalSignals: Sendable {
    package enum Signal: Sendable, Hashable {
        /// The program must end now. The number is the signal, which the shell reports.
        case end(Int32)
        case resized
        /// The program must give the terminal back for a while (Ctrl-Z), or use it again.
        case suspended, resumed
    }

    private let listener: SignalListener

    package init(_ onSignal: @escaping @Sendable (Signal) -> Void) throws(LinuxError) {
        listener = try SignalListener([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT]) { number in
            switch number {
            case SIGWINCH: onSignal(.resized)
            case SIGTSTP: onSignal(.suspended)
            case SIGCONT: onSignal(.resumed)
            default: onSignal(.end(number))
            }
        }
    }

    package func close() {
        listener.close(.standard)
    }

    /// Ends the process by that signal with its default action, as if it had no handler.
    package static func die(by number: Int32) -> Never {
        signal(number, SIG_DFL)
        var one = sigset_t()
        sigemptyset(&one)
        sigaddset(&one, number)
        pthread_sigmask(SIG_UNBLOCK, &one, nil)
        kill(getpid(), number)
        _exit(128 + number)
    }
}
