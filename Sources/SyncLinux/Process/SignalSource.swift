import CSyncLinux
import Glibc

/// Hears `SIGTERM`, `SIGINT` and `SIGHUP` on a thread of its own.
///
/// The handler writes one byte to a pipe and the thread reads it. `signalfd` and `sigwait` would need the signals blocked in
/// every thread of the process, also in those that were started before us; a handler works whoever receives the signal.
package final class SignalSource: Sendable {
    package enum Signal: Sendable, Hashable, CaseIterable {
        case terminate, interrupt, hangUp

        var number: Int32 {
            switch self {
            case .terminate: SIGTERM
            case .interrupt: SIGINT
            case .hangUp: SIGHUP
            }
        }
    }

    private let thread: OwnThread
    private let writer: Int32

    /// Catches all three signals. At most one object of this type at a time: the handlers belong to the process.
    ///
    /// - Parameter onSignal: Called on the thread, one signal after another. Equal signals that come faster than they are
    ///   handled may be heard once.
    package init(_ onSignal: @escaping @Sendable (Signal) -> Void) throws(LinuxError) {
        var ends: [Int32] = [-1, -1]
        let result = csl_signal_pipe(&ends)
        guard result == 0 else {
            throw LinuxError(Errno(number: result).code, doing: "make a pipe for signals", errno: result)
        }
        let (reader, writer) = (ends[0], ends[1])
        do throws(LinuxError) {
            thread = try OwnThread(name: "signals") { Self.listen(to: reader, onSignal) }
        } catch {
            Glibc.close(reader)
            Glibc.close(writer)
            throw error
        }
        self.writer = writer
        for signal in Signal.allCases {
            let result = csl_catch_signal(signal.number, writer)
            // Only an invalid signal number or a bad address fails, and both would be ours.
            precondition(result == 0, "sigaction: \(Errno(number: result))")
        }
    }

    /// Puts the default actions back and waits for the thread; a call of the closure in progress ends first.
    package func close() {
        for signal in Signal.allCases { _ = csl_release_signal(signal.number) }
        var end: UInt8 = 0
        _ = write(writer, &end, 1)
        thread.join()
        // The writing end stays open for good: a handler that is running at this moment on another thread must not write
        // into whatever would get the number next.
    }

    private static func listen(to reader: Int32, _ onSignal: @Sendable (Signal) -> Void) {
        // Whoever started this process may have left its signals blocked (a parent that spawns from a thread of its own): then
        // nobody here would ever get one. This thread takes them, whatever was inherited.
        var ours = sigset_t()
        sigemptyset(&ours)
        for signal in Signal.allCases { sigaddset(&ours, signal.number) }
        pthread_sigmask(SIG_UNBLOCK, &ours, nil)
        var byte: UInt8 = 0
        while true {
            let count = read(reader, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1, byte != 0 else { break }
            if let signal = Signal.allCases.first(where: { $0.number == Int32(byte) }) { onSignal(signal) }
        }
        Glibc.close(reader)
    }
}

/// Turns two signals into the error codes that we handle where they happen: a write to a closed socket gives `EPIPE`, and a
/// write beyond the file size limit `EFBIG`. Call it first thing in a program.
package func ignoreDeadlySignals() {
    signal(SIGPIPE, SIG_IGN)
    signal(SIGXFSZ, SIG_IGN)
}

/// Keeps the process's memory, with its tokens and keys, out of core dumps and away from other processes of the same user
/// (`PR_SET_DUMPABLE` 0, core size limit 0).
package func hardenProcess() throws(LinuxError) {
    let result = csl_harden_process()
    guard result == 0 else {
        throw LinuxError(Errno(number: result).code, doing: "switch off core dumps", errno: result)
    }
}
