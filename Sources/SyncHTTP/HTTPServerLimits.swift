/// What one client, and all of them together, can cost a server. Every limit holds before the memory is spent.
///
/// The defaults are those of the local API (PROTOCOL.md B1). Tests make the times small; nothing here waits by itself.
package struct HTTPServerLimits: Sendable {
    /// Connections at one time. One more is answered 503 and closed; those that are open are not affected.
    package var connections = 64
    /// Connections at one time of one user of a Unix socket, by the uid at `connect`. One more is answered 503.
    package var connectionsPerUser = 8
    /// Connections at one time from one TCP address; `nil` leaves it to ``connections``. One more is answered 503.
    package var connectionsPerAddress: Int?

    /// Bytes of request line and header fields together, everything counted. More is answered 431. It also bounds what
    /// chunk extensions and trailers may add between two pieces of a body (400).
    package var headBytes = 16 << 10
    /// Header fields of a request, trailers included. More is answered 431.
    package var headFields = 64

    /// From the connection's start, or a later request's first byte, to the whole head; then 408, or nothing when not a
    /// byte came.
    package var headTime: Duration = .seconds(30)
    /// Between an answer and the next request's first byte; then the connection is closed without a word.
    package var idleTime: Duration = .seconds(75)
    /// The longest time without a byte of a body that is wanted; then 408. A handler that wants no more stops the
    /// clock.
    package var bodyIdleTime: Duration = .seconds(30)
    /// A client that takes nothing of what waits for it during this time is cut off. Looked at once per period, so that
    /// the cut comes after one to two periods.
    package var writeStallTime: Duration = .seconds(10)
    /// How long the rest of a refused request is read and thrown away so that its sender gets to see the answer:
    /// closing with unread bytes makes the kernel reset the connection and destroy the answer on its way.
    package var lingerTime: Duration = .seconds(2)

    package init() {}
}
