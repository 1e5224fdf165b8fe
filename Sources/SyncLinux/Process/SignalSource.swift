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

    private let listener: SignalListener

    /// Catches all three signals. At most one object of this type at a time: the handlers belong to the process.
    ///
    /// - Parameter onSignal: Called on the thread, one signal after another. Equal signals that come faster than they are
    ///   handled may be heard once.
    package init(_ onSignal: @escaping @Sendable (Signal) -> Void) throws(LinuxError) {
        listener = try SignalListener(Signal.allCases.map(\.number)) { number in
            if let signal = Signal.allCases.first(where: { $0.number == number }) { onSignal(signal) }
        }
    }

    /// Waits for the thread; a call of the closure in progress ends first. From then on the signals do nothing: a program closes this
    /// when it ends, and one more signal is not to change how (a service manager, or a person, that asks twice).
    package func close() {
        listener.close(.nothing)
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
