/// What one client, and all of them together, can cost a server. Every limit holds before the memory is spent.
///
/// The defaults are those of the local API (PROTOCOL.md B1). Tests make the times small; nothing here waits by itself.
package struct HTTPServerLimits: Sendable {
    /// Connections at one time. On a Unix socket, and on TCP where every open connection has a request under way, one more is
    /// answered 503 and closed. Otherwise a TCP connection that has waited longest for its client is closed in its place
    /// (``ConnectionRegistry``).
    package var connections = 64
    /// Connections at one time of one user of a Unix socket, by the uid at `connect`. One more is answered 503.
    package var connectionsPerUser = 8
    /// Connections of a Unix socket beyond ``connections``, for users that have fewer than two open: users whose long requests
    /// take all other places cannot keep a short request of another user out.
    package var connectionsKept = 0
    /// Connections of a Unix socket beyond ``connections`` and ``connectionsKept``, for uid 0.
    package var connectionsKeptForRoot = 0

    /// TCP connections at one time of strangers: those that have not shown yet who they are (``HTTPAdmission/known(_:)``).
    /// For one more, one of them is closed. `nil` leaves it to ``connections``.
    package var strangers: Int?
    /// The same for the strangers of one IPv4 address, or of one IPv6 network of 64 bits. `nil`: no limit of its own.
    package var strangersPerAddress: Int?

    /// How many TLS handshakes one address may begin before its callers have shown who they are.
    package struct HandshakeRate: Sendable, Hashable {
        package var atOnce: Int
        package var perSecond: Double

        package init(atOnce: Int, perSecond: Double) {
            (self.atOnce, self.perSecond) = (atOnce, perSecond)
        }
    }

    /// Beyond it a connection is closed with its first byte, before that costs anything (``HandshakeLimit``). `nil`: no limit.
    package var handshakesPerAddress: HandshakeRate?

    /// Bytes of request line and header fields together, everything counted. More is answered 431. It also bounds what
    /// chunk extensions and trailers may add between two pieces of a body (400).
    package var headBytes = 16 << 10
    /// Header fields of a request, trailers included. More is answered 431.
    package var headFields = 64

    /// From the connection's start, or a later request's first byte, to the whole head; then 408, or nothing when not a
    /// byte came.
    package var headTime: Duration = .seconds(30)
    /// From the connection's start to the whole first head, a TLS handshake included; `nil`: ``headTime``.
    package var firstHeadTime: Duration?
    /// Between an answer and the next request's first byte; then the connection is closed without a word.
    package var idleTime: Duration = .seconds(75)
    /// The same for a TCP client that has not shown who it is; `nil`: ``idleTime``.
    package var strangerIdleTime: Duration?
    /// The longest time without a byte of a body that is wanted; then 408. A handler that wants no more stops the
    /// clock.
    package var bodyIdleTime: Duration = .seconds(30)
    /// The least that a body must bring, bytes per second (``BodyPace``); then 408. `nil`: no such limit.
    package var bodyRate: Int?
    /// How far a body may fall behind ``bodyRate``. A body of n bytes is whole within this and n / ``bodyRate`` seconds of
    /// waiting for its sender, or it is refused.
    package var bodyGrace: Duration = .seconds(60)
    /// A client that takes nothing of what waits for it during this time is cut off: whose TCP acknowledges no byte, or who reads
    /// none from a Unix socket. Looked at once per period, so that the cut comes after one to two periods.
    package var writeStallTime: Duration = .seconds(10)
    /// How long the rest of a refused request is read and thrown away so that its sender gets to see the answer:
    /// closing with unread bytes makes the kernel reset the connection and destroy the answer on its way.
    package var lingerTime: Duration = .seconds(2)

    package init() {}

    /// Connections of a Unix socket that may be open before one more is refused.
    ///
    /// - Parameters:
    ///   - own: Those of the same user.
    ///   - isRoot: The user is root.
    package func localPlaces(own: Int, isRoot: Bool) -> Int {
        // One for what lasts, and one beside it.
        let keptPerUser = 2
        return connections + (own < keptPerUser || isRoot ? connectionsKept : 0) + (isRoot ? connectionsKeptForRoot : 0)
    }

    /// Of the local API: 64 places for all, 16 more for users that have fewer than two, 8 more for root.
    package static var localAPI: HTTPServerLimits {
        var limits = HTTPServerLimits()
        limits.connectionsKept = 16
        limits.connectionsKeptForRoot = 8
        return limits
    }
}
