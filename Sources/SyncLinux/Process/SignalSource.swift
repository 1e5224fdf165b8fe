import CSyncLinux
import Glibc

/// Handles `SIGTERM`, `SIGINT` and `SIGHUP` on a separate thread.
///
/// The handler writes one byte to a pipe and the thread reads it. `signalfd` and `sigwait` would need the signals blocked in every thread
/// of the process, also in threads that were started earlier. A handler works in whichever thread the signal arrives.
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

    private let listener: SignalListener

    /// Catches all three signals. At most one object of this type may exist at a time, because the handlers belong to the process.
    ///
    /// - Parameter onSignal: Called on the thread, one signal after another. Equal signals that come faster than they are handled may be
    ///   reported once.
    package init(_ onSignal: @escaping @Sendable (Signal) -> Void) throws(LinuxError) {
        listener = try SignalListener(Signal.allCases.map(\.number)) { number in
            if let signal = Signal.allCases.first(where: { $0.number == number }) { onSignal(signal) }
        }
    }

    /// Waits for the thread; a running call of the closure ends first. From then on the signals do nothing. A program calls this when it
    /// ends, and a further signal (a service manager, or a person, that asks twice) must not change how it ends.
    package func close() {
        listener.close(.nothing)
    }
}

/// Turns two signals into error codes of the calls: a write to a closed socket gives `EPIPE`, and a write beyond the file size limit gives
/// `EFBIG`. Call it first in a program.
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
