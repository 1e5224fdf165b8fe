import NIOCore

/// Stands between the socket and TLS: sees that the client says something before there is a request, and can close without
/// TLS's own ceremony, which waits for the peer.
final class ConnectionEdge: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private weak var connection: HTTPConnection?
    private var context: ChannelHandlerContext?

    init(_ connection: HTTPConnection) {
        self.connection = connection
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        context.fireChannelRead(data)
        // What TLS has made of it, if anything, came through before.
        connection?.noteWaiting()
    }

    func close() {
        context?.close(mode: .all, promise: nil)
    }
}
