import Glibc
package import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// An HTTP/1.1 server: the agent's on its Unix socket, the hub's on TCP.
///
/// It owns the framing, the limits and the connections; an ``HTTPHandler`` owns the meaning. It creates no thread and no task of its own,
/// and causes no wake-up while idle (except one per connection when its idle time is over).
package final class HTTPServer: Sendable {
    /// The address of the server.
    package enum Address: Sendable, Hashable, CustomStringConvertible {
        case unix(path: String)
        case tcp(host: String, port: Int)

        /// Such as `/run/agentd/agent.sock`, `127.0.0.1:8080` or `[::1]:8080`.
        package var description: String {
            switch self {
            case .unix(let path): path
            case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
            }
        }
    }

    /// The bound address, with the port that the kernel chose if it was left open.
    package let address: Address

    let door: Mutex<Door>
    let context: ServerContext
    let group: any EventLoopGroup

    /// The listener; another one after ``listenAgain(mode:group:)``.
    struct Door: Sendable {
        var listener: any Channel
        /// The file that this server must remove; `nil` for TCP and for an inherited socket.
        var file: UnixListener?
        var inherited = InheritedFile.unknown
    }

    /// Connections that the kernel completes before the server accepts them. It limits the number to `net.core.somaxconn`, which has the
    /// same default. On a Unix socket a further caller is refused, and mostly gives up.
    static let backlog = 4_096
    static let remoteBacklog = 1_024
    /// Receive buffer of a TCP connection, bytes. A fixed size does not grow by itself. It limits the bytes that a client can make the
    /// server hold while it does not read: the kernel's part and, when the client closes its side, the server's part.
    private static let receiveBuffer = 256 << 10

    /// Binds and listens. Connections are spread over the loops of `group`.
    ///
    /// - Throws: ``HTTPServerError``. Nothing is left behind then.
    package static func start(
        _ configuration: HTTPServerConfiguration, on group: any EventLoopGroup, handler: any HTTPHandler
    ) async throws(HTTPServerError) -> HTTPServer {
        let context = ServerContext(configuration: configuration, handler: handler)
        let loops = group
        let bootstrap = bootstrap(context, on: loops)

        switch configuration.endpoint {
        case .unix(let path, let mode, let group):
            let file = try UnixListener(path: path, mode: mode, group: group)
            do {
                let channel = try await bootstrap.withBoundSocket(file.descriptor).get()
                widen(file.descriptor)
                return HTTPServer(.unix(path: path), Door(listener: channel, file: file), context, loops)
            } catch {
                file.removeFile()
                throw HTTPServerError(.system, doing: "listen on \(path)", detail: "\(error)")
            }
        case .inherited(let descriptor):
            try HTTPEndpoint.checkListening(descriptor)
            do {
                let channel = try await bootstrap.withBoundSocket(descriptor).get()
                widen(descriptor)
                let address = Address(of: channel)
                return HTTPServer(address, Door(listener: channel, inherited: InheritedFile(of: address)), context, loops)
            } catch {
                throw HTTPServerError(.system, doing: "take over descriptor \(descriptor)", detail: "\(error)")
            }
        case .tcp(let host, let port):
            let doing = "listen on \(host):\(port)"
            do {
                let channel =
                    try await bootstrap
                    .serverChannelOption(.backlog, value: Int32(remoteBacklog))
                    .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                    // Connections inherit it, with the matching window scale.
                    .serverChannelOption(.socketOption(.so_rcvbuf), value: .init(receiveBuffer))
                    .bind(host: host, port: port).get()
                return HTTPServer(Address(of: channel), Door(listener: channel), context, loops)
            } catch let error as IOError where error.errnoCode == EADDRINUSE {
                throw HTTPServerError(.addressInUse, doing: doing, detail: "another process listens there")
            } catch let error as IOError {
                let next = error.errnoCode == EADDRNOTAVAIL ? "; the addresses of this machine: ip -brief address" : ""
                throw HTTPServerError(.system, doing: doing, detail: String(cString: strerror(error.errnoCode)) + next)
            } catch let error as SocketAddressError.UnknownHost {
                throw HTTPServerError(.unresolved, doing: doing, detail: error.errorDescription)
            } catch {
                throw HTTPServerError(.system, doing: doing, detail: "\(error)")
            }
        }
    }

    /// Enlarges the queue of an inherited socket, on which NIO always listens with 128. A failed call leaves it so.
    static func widen(_ descriptor: Int32) {
        _ = Glibc.listen(descriptor, Int32(backlog))
    }

    /// Creates listeners whose connections belong to `context`.
    static func bootstrap(_ context: ServerContext, on group: any EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: Int32(backlog))
            .serverChannelInitializer { channel in
                // Without free descriptors accepting would be repeated without pause; this limits it to once per second.
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(AcceptBackoffHandler())
                }
            }
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try context.accept(channel) }
            }
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            // One read, then the connection decides about the next.
            .childChannelOption(.maxMessagesPerRead, value: 1)
    }

    /// Serves one channel that the caller has made, without a listener: for bytes that are fed by hand.
    package static func serve(
        _ channel: any Channel, _ configuration: HTTPServerConfiguration, handler: any HTTPHandler
    ) throws {
        try ServerContext(configuration: configuration, handler: handler).accept(channel)
    }

    private init(_ address: Address, _ door: Door, _ context: ServerContext, _ group: any EventLoopGroup) {
        self.address = address
        self.door = Mutex(door)
        self.context = context
        self.group = group
    }

    /// Stops accepting, removes the socket file if it is still this server's, and closes idle connections. Running exchanges may end (their
    /// answers carry `Connection: close`); those that still run after `grace` are cut off.
    ///
    /// Returns when the last connection is closed. Further calls wait with the first.
    package func stop(within grace: Duration) async {
        // Set before the door is read: its maker closes a door that is made from now on.
        context.isStopping.store(true, ordering: .sequentiallyConsistent)
        let (listener, file) = door.withLock { ($0.listener, $0.file) }
        let loop = listener.eventLoop
        // First the name, then the socket: in between, a client is refused instead of waiting in an unserved queue.
        file?.removeFile()
        // It fails if it is closed already, which is the wanted state.
        try? await listener.close().get()

        let empty = loop.makePromise(of: Void.self)
        for connection in context.registry.stop(whenEmpty: empty) {
            connection.onLoop { $0.closeIfIdle() }
        }
        let cut = loop.scheduleTask(in: TimeAmount(grace)) { [registry = context.registry] in
            for connection in registry.all { connection.onLoop { $0.close() } }
        }
        // The promise only ever succeeds.
        try? await empty.futureResult.get()
        cut.cancel()
    }

    /// Number of open connections for status and metrics, without those that are being refused.
    package var connectionCount: Int { context.registry.count }
    package var counts: HTTPServerCounts { context.registry.counts }
}

extension HTTPServer.Address {
    fileprivate init(of channel: any Channel) {
        switch channel.localAddress {
        case .v4, .v6:
            self = .tcp(host: channel.localAddress?.ipAddress ?? "", port: channel.localAddress?.port ?? 0)
        case .unixDomainSocket, nil:
            self = .unix(path: channel.localAddress?.pathname ?? "")
        }
    }
}

/// The state that all connections of a server share.
final class ServerContext: Sendable {
    /// Once true, stays true.
    let isStopping = Atomic(false)
    let limits: HTTPServerLimits
    let handler: any HTTPHandler
    let registry: ConnectionRegistry
    let problemBody: @Sendable (HTTPProblem) -> [UInt8]
    let problemHeaders: [(String, String)]
    let refused: @Sendable (HTTPProblem, HTTPPeer) -> Void
    let tlsSubject: (@Sendable (any Channel) -> String?)?
    private let configureTLS: (@Sendable (any Channel) throws -> Void)?
    private let decoderLimits: NIOHTTPDecoderLimitConfiguration

    init(configuration: HTTPServerConfiguration, handler: any HTTPHandler) {
        limits = configuration.limits
        registry = ConnectionRegistry(limits: configuration.limits, closedForRoom: configuration.closedForRoom)
        problemBody = configuration.problemBody
        problemHeaders = configuration.problemHeaders
        refused = configuration.refused
        tlsSubject = configuration.tlsSubject
        configureTLS = configuration.configureTLS
        self.handler = handler
        var decoderLimits = NIOHTTPDecoderLimitConfiguration()
        decoderLimits.maxHeaderFieldCount = limits.headFields
        decoderLimits.maxHeaderFieldSize = limits.headBytes
        decoderLimits.maxHeaderListSize = limits.headBytes
        self.decoderLimits = decoderLimits
        // The first decoder creates its generic types. Two loops that create them at the same moment can crash the runtime (Swift 6.3,
        // without optimisation), so they are created before there is a connection.
        _ = makeDecoder()
    }

    private func makeDecoder() -> ByteToMessageHandler<HTTPRequestDecoder> {
        ByteToMessageHandler(HTTPRequestDecoder(limitConfiguration: decoderLimits))
    }

    /// Creates the connection for a new channel, on its loop. A throw closes the channel.
    func accept(_ channel: any Channel) throws {
        let peer = HTTPPeer(of: channel)
        let admitted = registry.admit(peer) {
            HTTPConnection(server: self, loop: channel.eventLoop, peer: peer, refusal: $0)
        }
        guard let connection = admitted else { throw ChannelError.ioOnClosedChannel }
        do {
            let pipeline = channel.pipeline.syncOperations
            if case .local = peer { try connection.takesDescriptors(of: channel) }
            if let configureTLS {
                let edge = ConnectionEdge(connection) { [registry, unowned connection] in
                    registry.beginHandshake(connection, at: .now())
                }
                connection.edge = edge
                try pipeline.addHandler(edge)
                try configureTLS(channel)
            }
            try pipeline.addHandlers([
                connection,
                makeDecoder(),
                DecodedParts(connection),
            ])
        } catch {
            registry.remove(connection)
            throw error
        }
    }
}
