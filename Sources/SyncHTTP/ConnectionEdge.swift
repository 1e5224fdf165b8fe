import NIOCore

/// Stands between the socket and TLS: sees that the client says something before there is a request, keeps what is one handshake
/// too many away from TLS, and can close without TLS's own ceremony, which waits for the peer.
final class ConnectionEdge: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private weak var connection: HTTPConnection?
    private var context: ChannelHandlerContext?
    /// Asked with the first byte; `nil` once it has said yes.
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
        // What TLS has made of it, if anything, came through before.
        connection?.noteWaiting()
    }

    func close() {
        context?.close(mode: .all, promise: nil)
    }
}
