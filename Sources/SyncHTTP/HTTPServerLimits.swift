/// The cost that one client, and all of them together, can cause a server. Every limit holds before the memory is spent.
///
/// The defaults are those of the local API (PROTOCOL.md B1). Tests make the times small; nothing here waits by itself.
package struct HTTPServerLimits: Sendable {
    /// Largest number of connections. On a Unix socket, and on TCP when every open connection has a request in progress, one more is
    /// answered 503 and closed. Otherwise a TCP connection that has waited longest for its client is closed in its place
    /// (``ConnectionRegistry``).
    package var connections = 64
    /// Largest number of further connections that are being answered 503 at the same time. Beyond it they are closed without an answer.
    package var refusals: Int { min(connections, HTTPServerLimits.refusalsMax) }
    package static let refusalsMax = 1_000
    /// Largest number of connections of one user of a Unix socket, by the uid at `connect`. One more is answered 503.
    package var connectionsPerUser = 8
    /// Connections of a Unix socket beyond ``connections``, for users that have fewer than two open. Users whose long requests take all
    /// other places can therefore not keep out a short request of another user.
    package var connectionsKept = 0
    /// Connections of a Unix socket beyond ``connections`` and ``connectionsKept``, for uid 0.
    package var connectionsKeptForRoot = 0

    /// Largest number of TCP connections of strangers, that is unauthenticated clients (``HTTPAdmission/known(_:)``). For one more, one of
    /// them is closed. `nil` leaves it to ``connections``.
    package var strangers: Int?
    /// The same for the strangers of one IPv4 address, or of one IPv6 network of 64 bits. `nil`: no limit of its own.
    package var strangersPerAddress: Int?

    /// Number of TLS handshakes that one address may begin before its callers are authenticated.
    package struct HandshakeRate: Sendable, Hashable {
        package var atOnce: Int
        package var perSecond: Double

        package init(atOnce: Int, perSecond: Double) {
            (self.atOnce, self.perSecond) = (atOnce, perSecond)
        }
    }

    /// Beyond it a connection is closed with its first byte, before it costs anything (``HandshakeLimit``). `nil`: no limit.
    package var handshakesPerAddress: HandshakeRate?

    /// Bytes of request line and header fields together, including separators. More is answered 431. It also limits the bytes that chunk
    /// extensions and trailers may add between two pieces of a body (400).
    package var headBytes = 16 << 10
    /// Header fields of a request, trailers included. More is answered 431.
    package var headFields = 64

    /// From the connection's start, or a later request's first byte, to the complete head; then 408, or no answer when no byte came.
    package var headTime: Duration = .seconds(30)
    /// From the connection's start to the complete first head, including a TLS handshake; `nil`: ``headTime``.
    package var firstHeadTime: Duration?
    /// Between an answer and the next request's first byte; then the connection is closed without an answer.
    package var idleTime: Duration = .seconds(75)
    /// The same for an unauthenticated TCP client; `nil`: ``idleTime``.
    package var strangerIdleTime: Duration?
    /// The longest time without a byte of a wanted body; then 408. The time does not run while the handler does not read.
    package var bodyIdleTime: Duration = .seconds(30)
    /// The lowest speed of a body, bytes per second (``BodyPace``); then 408. `nil`: no such limit.
    package var bodyRate: Int?
    /// The time that a body may fall behind ``bodyRate``. A body of n bytes is complete within this and n / ``bodyRate`` seconds of waiting
    /// for its sender, or it is refused.
    package var bodyGrace: Duration = .seconds(60)
    /// A client that receives none of its waiting bytes during this time is cut off: its TCP acknowledges no byte, or it reads none from a
    /// Unix socket. Checked once per period, so that the cut comes after one to two periods.
    package var writeStallTime: Duration = .seconds(10)
    /// The time in which the rest of a refused request is read and discarded, so that its sender receives the answer: closing with unread
    /// bytes makes the kernel reset the connection and destroy the answer in transit.
    package var lingerTime: Duration = .seconds(2)

    package init() {}

    /// Number of connections of a Unix socket that may be open before one more is refused.
    ///
    /// - Parameters:
    ///   - own: Number of open connections of the same user.
    ///   - isRoot: The user is root.
    package func localPlaces(own: Int, isRoot: Bool) -> Int {
        // One for a lasting connection, and one beside it.
        let keptPerUser = 2
        return connections + (own < keptPerUser || isRoot ? connectionsKept : 0) + (isRoot ? connectionsKeptForRoot : 0)
    }

    /// The limits of the local API: 64 places for all, 16 more for users that have fewer than two, 8 more for root.
    package static var localAPI: HTTPServerLimits {
        var limits = HTTPServerLimits()
        limits.connectionsKept = 16
        limits.connectionsKeptForRoot = 8
        return limits
    }
}
