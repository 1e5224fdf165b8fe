/// The sender of a request. Never derived from a header.
package enum HTTPPeer: Sendable, Hashable {
    /// The other end of a Unix socket.
    case local(LocalPeer)
    /// The other end of a TCP connection. `tlsSubject` is the result of ``HTTPServerConfiguration/tlsSubject`` for the client's
    /// certificate, `nil` without one.
    case remote(address: String, port: Int, tlsSubject: String?)
    /// The kernel did not identify the peer. Give it no permissions.
    case unknown
}

/// Credentials of a process as the kernel knew them when it connected (unix(7), `SO_PEERCRED` and `SO_PEERGROUPS`).
///
/// A user outside our user namespace appears as uid 65534.
package struct LocalPeer: Sendable, Hashable {
    package var uid: UInt32
    package var gid: UInt32
    /// Supplementary groups. Usually contains ``gid``, but need not.
    package var groups: [UInt32]
    /// The process id may belong to another process by now: good for a log line, not for a decision.
    package var pid: Int32
}
