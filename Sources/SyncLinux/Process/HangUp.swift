import Glibc

/// SIGHUP of a process that reloads by it. Its default action ends the process, so it is blocked from the first instruction on
/// and stays so in every thread but the one of ``SignalSource``, which takes it when it is there.
package enum HangUp {
    /// For the calling thread and all that it starts.
    package static func block() {
        change(SIG_BLOCK)
    }

    /// For what runs in the foreground and ends with its terminal.
    package static func unblock() {
        change(SIG_UNBLOCK)
    }

    private static func change(_ how: Int32) {
        var one = sigset_t()
        sigemptyset(&one)
        sigaddset(&one, SIGHUP)
        // It fails for a wrong `how` only.
        pthread_sigmask(how, &one, nil)
    }
}
