import Glibc
import SyncCore
import SyncLinux

/// How results are shown to people here and now: the width of the terminal, the time, and the local zone.
struct View {
    let width = Environment.width
    /// Lists are tables on a terminal, and whole lines for whatever else reads them.
    let isTerminal = Environment.isTerminal(STDOUT_FILENO)
    let now = SystemClocks().now().wall

    /// Of the local time from UTC.
    var offset: Duration { Environment.offset(at: now) }
}
