import CSyncLinux
import Glibc
import SyncCore

/// Knowledge about connections that were kept open without use.
///
/// A NAT or a firewall in between forgets an idle connection without notice, and data sent on it later is never acknowledged. Without a
/// rule for this case, each request on it would wait for the whole deadline of an answer. Therefore the first request on a kept connection
/// has only ``patience`` until the kernel gives up on it, and the caller repeats it on a new connection if that is safe. From then on,
/// connections are kept for at most half of that connection's idle time.
package struct KeptConnections {
    /// Limit of the kernel for data that is not acknowledged. An acknowledgement of any byte starts it again, so a slow link does not reach
    /// it.
    package static let patience: Duration = .seconds(5)
    /// Lower limit of the age; keeping connections for less would be worth nothing.
    package static let ageMin: Duration = .seconds(5)

    /// Age limit: a connection that was idle for longer is not used again.
    package private(set) var age: Duration
    private let ageMax: Duration

    package init(age: Duration) {
        (self.age, ageMax) = (age, age)
    }

    /// Records that a request on a connection with this idle time brought no byte of an answer.
    package mutating func died(afterIdle idle: Duration) {
        age = max(Self.ageMin, min(age, idle / 2))
    }

    /// Forgets what was learned, because another link has other devices in between.
    package mutating func forget() {
        age = ageMax
    }

    /// - Parameter patience: The limit; `nil` for the kernel's default of some fifteen minutes.
    static func limit(_ socket: Int32, to patience: Duration?) {
        var milliseconds = UInt32(clamping: patience?.milliseconds ?? 0)
        // Where the kernel refuses, the deadlines of the request remain.
        _ = setsockopt(socket, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &milliseconds, socklen_t(MemoryLayout<UInt32>.size))
    }
}
