import Glibc

/// SIGHUP of a process that reloads on it. Its default action ends the process, so the signal is blocked from the first instruction on. It
/// stays blocked in every thread except the one of ``SignalSource``, which handles it once it runs.
package enum HangUp {
    /// Blocks the signal for the calling thread and all threads that it starts.
    package static func block() {
        change(SIG_BLOCK)
    }

    /// Unblocks the signal for a program that runs in the foreground and ends with its terminal.
    package static func unblock() {
        change(SIG_UNBLOCK)
    }

    private static func change(_ how: Int32) {
        var one = sigset_t()
        sigemptyset(&one)
        sigaddset(&one, SIGHUP)
        // The call fails only for a wrong `how`.
        pthread_sigmask(how, &one, nil)
    }
}
