import NIOCore

/// The handler between the socket and TLS. It detects the client's first bytes before there is a request, keeps excess handshakes from TLS,
/// and can close without TLS's closing exchange, which waits for the peer.
final class ConnectionEdge: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private weak var connection: HTTPConnection?
    private var context: ChannelHandlerContext?
    /// Asked with the first byte; `nil` after it has returned `true`.
    private var mayBegin: (() -> Bool)?

    init(_ connection: HTTPConnection, mayBegin: @escaping () -> Bool) {
        self.connection = connection
        self.mayBegin = mayBegin
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if let mayBegin {
            guard mayBegin() else { return close() }
            self.mayBegin = nil
        }
        context.fireChannelRead(data)
        // TLS has already passed on the bytes, if it decoded any.
        connection?.reportWaiting()
    }

    func close() {
        context?.close(mode: .all, promise: nil)
    }
}
