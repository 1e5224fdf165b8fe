import CSyncLinux
import Glibc
import SyncCore

/// What is known of connections that were kept open without use.
///
/// A NAT or a firewall in between forgets an idle connection without a word: what is sent on it afterwards is acknowledged by nobody,
/// and without a rule of its own each request on it would wait for the whole deadline of an answer. So the first request on a kept
/// connection has only ``patience`` until the kernel gives up on it; the request is repeated on a new one by whoever knows whether it
/// may be. From then on connections are kept for less long than this one had been idle.
package struct KeptConnections {
    /// Of the kernel, for what nobody acknowledges. An acknowledgement of any byte begins it anew, so a slow link is no reason.
    package static let patience: Duration = .seconds(5)
    /// Keeping them for less than this would be worth nothing.
    package static let ageMin: Duration = .seconds(5)

    /// A connection that was idle for longer is not used again.
    package private(set) var age: Duration
    private let ageMax: Duration

    package init(age: Duration) {
        (self.age, ageMax) = (age, age)
    }

    /// A request on a connection that had been idle for so long brought no byte of an answer.
    package mutating func died(afterIdle idle: Duration) {
        age = max(Self.ageMin, min(age, idle / 2))
    }

    /// Another link: what is in between is something else.
    package mutating func forget() {
        age = ageMax
    }

    /// - Parameter patience: `nil`: the kernel's own, some fifteen minutes.
    static func limit(_ socket: Int32, to patience: Duration?) {
        var milliseconds = UInt32(clamping: patience?.milliseconds ?? 0)
        // Where the kernel refuses, the deadlines of the request are left.
        _ = setsockopt(socket, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &milliseconds, socklen_t(MemoryLayout<UInt32>.size))
    }
}
