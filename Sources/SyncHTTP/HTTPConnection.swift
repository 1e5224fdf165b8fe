import NIOCore
import NIOHTTP1
import Synchronization

/// One connection: bytes in, requests to the handler one at a time, answers out.
///
/// Its position in the channel's pipeline lets it decide which bytes the parser sees, and when:
///
///     socket (TLS) -> HTTPConnection -> NIO's request decoder -> DecodedParts -> back to the HTTPConnection
///
/// **One step at a time.** Bytes come in through `channelRead` and wait in `held`. ``pump()`` gives the decoder a piece
/// (``RequestFraming``), and the decoder's events are recorded (`decoded…`). They are acted upon only after the decoder has returned, so it
/// is never re-entered. Bytes are passed on only while ``wantsBytes`` is `true`. While bytes are held, nothing is read from the socket, and
/// the kernel slows the client down. At most one read (64 KiB) can pile up, except for a client that has closed its side: NIO then reads
/// all bytes in the kernel, which the receive buffer limits.
///
/// **Threads.** Everything belongs to the channel's loop except the atomics and constants, which is the reason for `@unchecked Sendable`.
/// ``HTTPExchange`` comes in through ``onLoop(_:)`` with the number of its request, so that late calls are recognised.
final class HTTPConnection: ChannelDuplexHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The destination of the next bytes.
    enum Input {
        /// Before or within a head.
        case head
        /// Within a body; ``bodyUse`` determines its use.
        case body
        /// The request is complete, its answer is not: no further bytes are wanted.
        case complete
        /// No further request is answered. Input is discarded until the client closes its side.
        case draining
        case closed
    }

    /// State of the answer to the current request.
    enum Answer {
        /// There is no request.
        case none
        case pending
        case streaming(AnswerFraming)
        case done
    }

    enum BodyUse {
        case collect(limit: Int, then: (HTTPExchange, [UInt8]) -> Void)
        case stream(limit: Int)
        /// Answered already; this number of further bytes is tolerated to keep the connection.
        case discard(left: Int)
        /// The handler has not decided yet. Nothing is read.
        case undecided
    }

    /// The rest of a body that is read only to keep the connection.
    static let discardLimit = 64 << 10
    /// Bytes of answers that may wait here before no further request is begun and streams must wait. NIO's own mark for an unwritable
    /// channel is the same.
    static let answerBacklog = 64 << 10

    let loop: any EventLoop
    let server: ServerContext
    /// Not `nil`: this connection is one too many and gets only this answer.
    let refusal: HTTPProblem?

    private let currentExchange = Atomic<UInt64>(0)
    private let bytesOnTheWay = Atomic(0)
    let bytesInChannel = Atomic(0)
    private let waitingState = Atomic<UInt64>(WaitingState(.idle, since: .now()).rawValue)

    // Everything from here on belongs to the loop.
    var peer: HTTPPeer
    private(set) var context: ChannelHandlerContext?
    var input = Input.head { didSet { descriptors.isWanted = mayBeginHead } }
    var answer = Answer.none { didSet { publishExchange() } }

    // Bytes that have come and were not given to the decoder.
    var held = ByteBuffer()
    private(set) var isPumping = false
    /// Between `channelRead` and `channelReadComplete`, where the flush is.
    private(set) var isReading = false
    /// The channel's last report; asking it costs more, and pumping asks with every piece.
    private var isWritable = true
    /// The channel requested a read that is held back.
    var readIsDue = false
    /// The client has closed its side; its earlier bytes may still be in `held`.
    var inputHasEnded = false

    // The decoder's events of one piece.
    var decodedHead: HTTPRequestHead?
    var decodedEnd = false
    var decoderError: (any Error)?

    // The current request.
    var framing = RequestFraming()
    var number: UInt64 = 0
    /// The answer has no body, also when the request is refused before there is a ``request``.
    var isHead = false
    var request: RequestHead?
    var facts: RequestFacts?
    var keepsConnection = true
    var continueIsDue = false
    var bodyUse = BodyUse.discard(left: 0)
    /// Collected bytes, or bytes that ``HTTPExchange/readBody(_:)`` has not fetched yet.
    var body: [UInt8] = []
    var bodyCount = 0
    var bodyPace: BodyPace?
    var bodyHasEnded = false
    var bodyFailure: HTTPExchange.BodyFailure?
    var bodyReader: (@Sendable (HTTPExchange.BodyPart) -> Void)?
    /// See ``HTTPExchange/standBy()``.
    var isStandingBy = false
    var closeActions: [@Sendable () -> Void] = []
    var writableActions: [@Sendable () -> Void] = []

    /// The caller is authenticated. Always so on a Unix socket, where the kernel vouches for it.
    private(set) var isKnown: Bool
    /// The handler in front of TLS, if there is TLS.
    var edge: ConnectionEdge?

    // The answer's bytes.
    var out = ByteBuffer()
    var flushIsDue = false

    var deadlines = Deadlines()

    /// Descriptors that came with the bytes (``DescriptorPeek``).
    let descriptors = DescriptorBox()
    /// `true` when the next bytes may belong to a head.
    private var mayBeginHead: Bool {
        switch input {
        case .head, .complete: true
        case .body, .draining, .closed: false
        }
    }

    init(server: ServerContext, loop: any EventLoop, peer: HTTPPeer, refusal: HTTPProblem?) {
        self.server = server
        self.loop = loop
        self.peer = peer
        self.refusal = refusal
        isKnown = if case .remote = peer { false } else { true }
    }

    // MARK: From any thread

    /// The server stops: running exchanges may end, and no new one begins.
    var isStopping: Bool { server.isStopping.load(ordering: .relaxed) }

    /// The time since when the client has been waited for.
    var waiting: WaitingState { WaitingState(rawValue: waitingState.load(ordering: .relaxed)) }

    /// The number of the exchange that can still reach its client; 0 for none.
    var openExchange: UInt64 { currentExchange.load(ordering: .acquiring) }

    /// See ``HTTPExchange/unsentBytes``.
    var unsentBytes: Int {
        if loop.inEventLoop { bytesInChannel.store(out.readableBytes + channelBacklog, ordering: .relaxed) }
        return bytesOnTheWay.load(ordering: .relaxed) + bytesInChannel.load(ordering: .relaxed)
    }

    /// Counts bytes on their way to the loop, until ``write(_:_:)`` receives them.
    func willWrite(_ count: Int) {
        bytesOnTheWay.add(count, ordering: .relaxed)
    }

    func didWrite(_ count: Int) {
        bytesOnTheWay.subtract(count, ordering: .relaxed)
    }

    func onLoop(_ action: @escaping @Sendable (HTTPConnection) -> Void) {
        if loop.inEventLoop {
            action(self)
        } else {
            loop.execute { action(self) }
        }
    }

    private func publishExchange() {
        switch answer {
        case .pending, .streaming: currentExchange.store(number, ordering: .releasing)
        case .none, .done: currentExchange.store(0, ordering: .releasing)
        }
    }

    // MARK: From the channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        // Also called for a channel that never became active.
        tearDown()
        server.registry.remove(self)
    }

    func channelActive(context: ChannelHandlerContext) {
        if let refusal {
            refuseConnection(refusal)
        } else {
            setReadDeadline(after: server.limits.firstHeadTime ?? server.limits.headTime)
        }
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        tearDown()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .draining = input { return }
        var bytes = unwrapInboundIn(data)
        if held.readableBytes == 0 {
            held = bytes
        } else {
            held.writeBuffer(&bytes)
        }
        isReading = true
        pump()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isReading = false
        flush()
        context.fireChannelReadComplete()
    }

    func read(context: ChannelHandlerContext) {
        // Held bytes mean that the client is ahead of this server.
        if held.readableBytes > 0 {
            readIsDue = true
        } else {
            context.read()
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case let event as ChannelEvent where event == .inputClosed:
            // Not passed on: the decoder would treat it as the end of everything, with bytes still held.
            inputHasEnded = true
            pump()
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        bytesInChannel.store(channelBacklog, ordering: .relaxed)
        isWritable = context.channel.isWritable
        if isWritable {
            runWritableActions()
            pump()
        }
        context.fireChannelWritabilityChanged()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // An error of the socket or of TLS: the client cannot be told.
        close()
    }

    // MARK: Bytes in

    /// `true` when received bytes wait that were not examined.
    var holdsBytes: Bool { held.readableBytes > 0 }

    /// `true` when a part of a head has come.
    private var isWithinHead: Bool {
        if case .head = input { framing.overhead > 0 } else { false }
    }

    /// `true` when the next byte may be examined.
    private var wantsBytes: Bool {
        switch input {
        case .head: canAnswerMore
        case .body:
            switch bodyUse {
            case .collect, .discard: true
            case .undecided: false
            case .stream: bodyReader != nil && bodyFailure == nil
            }
        case .complete: false
        case .draining, .closed: false
        }
    }

    /// A client that sends requests without reading answers must not make the server hold these.
    private var canAnswerMore: Bool {
        out.readableBytes < Self.answerBacklog && isWritable && context != nil
    }

    /// Does all that is possible with the available bytes, then updates reading, deadlines and the flush.
    func pump() {
        guard !isPumping else { return }
        isPumping = true
        while held.readableBytes > 0, wantsBytes, let context {
            let length = framing.nextPiece(of: held, limit: server.limits.headBytes)
            guard length > 0 else {
                overheadPassedLimit()
                break
            }
            // The whole buffer is passed on without a slice, so that NIO can use its memory for the next read.
            let piece: ByteBuffer
            if length == held.readableBytes {
                piece = held
                held = ByteBuffer()
            } else if let slice = held.readSlice(length: length) {
                piece = slice
            } else {
                break
            }
            context.fireChannelRead(wrapInboundOut(piece))
            actOnDecoded()
            if out.readableBytes >= Self.answerBacklog { flush() }
        }
        isPumping = false
        finishPump()
    }

    /// Updates reading, deadlines and the flush after all available bytes were examined.
    private func finishPump() {
        if inputHasEnded, held.readableBytes == 0 { actOnEndOfInput() }
        reportWaiting()
        updateReadDeadline(isHolding: held.readableBytes > 0, wantsBytes: wantsBytes)
        descriptors.discardComing(unless: holdsBytes || isWithinHead)
        if held.readableBytes == 0, readIsDue {
            readIsDue = false
            context?.read()
        }
        if !isReading { flush() }
    }

    /// Reports the activity of this connection to the registry.
    func reportWaiting() {
        let kind: WaitingState.Kind
        switch input {
        case .head: kind = framing.overhead == 0 && held.readableBytes == 0 ? .idle : .receiving
        case .body: if case .undecided = bodyUse { kind = .receiving } else { kind = wantsBytes ? .receiving : .busy }
        case .complete: kind = isStandingBy ? .idle : .busy
        case .draining, .closed: kind = .receiving
        }
        waitingState.store(WaitingState(kind, since: .now()).rawValue, ordering: .relaxed)
    }

    /// The handler has authenticated the caller, or found it unknown. On a Unix socket the kernel identifies it.
    func mark(isKnown: Bool) {
        guard case .remote = peer, isKnown != self.isKnown else { return }
        self.isKnown = isKnown
        server.registry.mark(self, isKnown: isKnown)
    }

    var isClosed: Bool {
        if case .closed = input { true } else { false }
    }

    private func tearDown() {
        guard !isClosed else { return }
        input = .closed
        cancelDeadlines()
        held = ByteBuffer()
        out = ByteBuffer()
        endExchange(bodyFailure: .closed)
        bytesInChannel.store(0, ordering: .relaxed)
        descriptors.clear()
        context = nil
    }
}

/// Passes the decoder's events back to the connection.
final class DecodedParts: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    private let connection: HTTPConnection

    init(_ connection: HTTPConnection) {
        self.connection = connection
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        connection.decoded(unwrapInboundIn(data))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if connection.decoderError == nil { connection.decoderError = error }
    }
}
