package import NIOCore

/// The place where a server listens.
package enum HTTPEndpoint: Sendable {
    /// A Unix socket that the server creates, and removes when it stops.
    ///
    /// The file is created with no more than the owner's part of `mode`, then given to `group` (`nil`: unchanged), then opened to the whole
    /// of `mode`, so that it is never accessible to more users than wanted. An existing file at `path` is replaced only if it is a socket
    /// of the same user without a listener.
    case unix(path: String, mode: UInt16 = 0o660, group: UInt32? = nil)
    /// A TCP address: an IPv4 or IPv6 literal (without brackets) or a name. Port 0 lets the kernel choose.
    case tcp(host: String, port: Int)
    /// A listening stream socket that another process made for this one; see ``HTTPEndpoint/activated(environment:processID:)``. The server
    /// does not remove its file.
    case inherited(descriptor: Int32)
}

/// Everything that a server needs besides its handler.
package struct HTTPServerConfiguration: Sendable {
    package var endpoint: HTTPEndpoint
    package var limits = HTTPServerLimits()

    /// Makes the body of an error answer, an RFC 9457 document, which is sent as `application/problem+json`. Called for the server's own
    /// refusals and for those of the handler. Must not block.
    package var problemBody: @Sendable (HTTPProblem) -> [UInt8]
    /// Header fields of each answer that the server itself gives.
    package var problemHeaders: [(String, String)] = []

    /// Called for each refusal that the server made by itself (never for the handler's), for counting. At most one call per request or
    /// connection, on the loop. Must not block.
    package var refused: @Sendable (HTTPProblem, HTTPPeer) -> Void = { _, _ in }

    /// Called for each connection that is closed to make room for another one, with its peer. Must not block.
    package var closedForRoom: @Sendable (HTTPPeer) -> Void = { _ in }

    /// Puts TLS in front, by adding handlers to the new channel's pipeline. Called before anything else is added, on the channel's loop. A
    /// throw closes the connection.
    package var configureTLS: (@Sendable (any Channel) throws -> Void)?

    /// The name of the owner of the client's certificate. Asked once, when the connection's first request has come.
    package var tlsSubject: (@Sendable (any Channel) -> String?)?

    package init(endpoint: HTTPEndpoint, problemBody: @escaping @Sendable (HTTPProblem) -> [UInt8]) {
        self.endpoint = endpoint
        self.problemBody = problemBody
    }
}
