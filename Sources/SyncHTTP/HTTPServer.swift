package import NIOCore
import NIOPosix

/// An HTTP/1.1 server: the agent's on its Unix socket, the hub's on TCP.
///
/// It owns the framing, the limits and the connections; an ``HTTPHandler`` owns the meaning. It makes no thread and no
/// task of its own, and while nothing happens it causes no wake-up (an idle connection costs one when its time is over).
package final class HTTPServer: Sendable {
    /// Where the server can be reached.
    package enum Address: Sendable, Hashable {
        case unix(path: String)
        case tcp(host: String, port: Int)
    }

    /// As bound: with the port that the kernel chose if that was left to it.
    package let address: Address

    /// Binds and listens. Connections are spread over the loops of `group`.
    ///
    /// - Throws: ``HTTPServerError``. Nothing is left behind then.
    package static func start(
        _ configuration: HTTPServerConfiguration, on group: any EventLoopGroup, handler: any HTTPHandler
    ) async throws(HTTPServerError) -> HTTPServer { fatalError() }

    /// Stops accepting, removes the socket file if it still is ours, closes idle connections, lets running exchanges end
    /// (their answers carry `Connection: close`), and cuts off what still runs after `grace`.
    ///
    /// Returns when the last connection is closed. Only the first call has an effect; the others wait with it.
    package func stop(within grace: Duration) async {}

    /// Open connections, for status and metrics.
    package var connectionCount: Int { 0 }
    init() { fatalError() }
}
