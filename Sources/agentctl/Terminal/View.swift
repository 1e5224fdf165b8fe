import Glibc
import SyncCore
import SyncLinux

/// The present view of results for people: the width of the terminal, the time, and the local zone.
struct View {
    let width = Environment.width
    /// On a terminal, lists are tables; other readers get whole lines.
    let isTerminal = Environment.isTerminal(STDOUT_FILENO)
    let now = SystemClocks().now().wall

    /// Offset of local time from UTC.
    var offset: Duration { Environment.offset(at: now) }
}
