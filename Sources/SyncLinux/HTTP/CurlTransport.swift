package import SyncCore
import SyncThreads
import Synchronization

/// HTTP by libcurl: HTTP/1.1 and 2, TLS by OpenSSL, TCP and Unix sockets.
///
/// One thread owns all objects of curl (``CurlLoop``). A caller posts its request there and waits; the answer comes back through a
/// continuation. Without transfers the thread sleeps in `poll` without a timeout.
///
/// Kept connections and TLS sessions belong to the object, so callers share them by sharing the object. Only the proxy of the request is
/// used. Environment variables are not read, because the program's environment need not fit the links of its requests.
package final class CurlTransport: HTTPTransport, WaitingTransport {
    private let loop: CurlLoop
    private let lastID = Atomic<UInt64>(0)

    /// - Parameters:
    ///   - name: Name of the thread, up to 15 bytes.
    ///   - idleConnections: Number of connections that are kept open for later requests, over all places together.
    ///   - idleAge: A kept connection that has not been used for this long is not used again. It should be shorter than the idle limits of
    ///     the servers and address translators on the way, so that no request goes into a connection that is gone.
    /// - Throws: `.exhausted` when there is no thread or no memory for it.
    package init(
        name: String = "curl", idleConnections: Int = 4, idleAge: Duration = .seconds(60)
    ) throws(LinuxError) {
        loop = try CurlLoop(name: name, idleConnections: idleConnections, idleAge: idleAge)
    }

    deinit {
        loop.close()
    }

    /// Rounds of the transport's loop since its start. It measures the cost of the loop while nothing moves.
    package var rounds: Int { loop.rounds.load(ordering: .relaxed) }

    package func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
        try await run(request, .whole)
    }

    /// - Parameters:
    ///   - onHead: Called on the transport's thread before the first piece, and not called when no acceptable head came.
    ///   - onBody: Called on the transport's thread, which serves all other transfers too, so it must not block. It returns `false` to
    ///     stop. `maxResponseBytes` counts for a stream as a whole; pass `Int.max` for one that has no end.
    package func stream(
        _ request: HTTPRequest, onHead: @escaping @Sendable (_ status: Int, _ headers: HTTPHeaders) -> Void,
        onBody: @escaping @Sendable ([UInt8]) -> Bool
    ) async throws(TransportError) -> HTTPResponse {
        try await run(request, .pieces(onHead: onHead, onBody: onBody))
    }

    /// Sends a request and blocks until its answer. Call it only on a dedicated thread, never on one of the runtime's or of a socket loop.
    package func exchange(_ request: HTTPRequest) throws(TransportError) -> HTTPResponse {
        let order = CurlLoop.Order(
            id: lastID.wrappingAdd(1, ordering: .relaxed).newValue, request: request, sink: .whole,
            cancellation: CurlLoop.Cancellation())
        let answer = Promise<Result<HTTPResponse, TransportError>>()
        loop.start(order) { answer.fulfil($0) }
        return try answer.wait().get()
    }

    /// Closes the connections that no transfer uses, because after a change of links they lead nowhere. Active transfers go on. It returns
    /// at once. (Resolved names are never kept.)
    package func closeIdleConnections() {
        loop.post(.closeIdleConnections)
    }

    /// Bytes that the connections moved since the last call after their transfers had ended: acknowledgements, TLS tickets and farewells,
    /// the closing itself. A caller that counts the bytes of a link adds them, at the latest before another link takes over.
    package func takeLeftover() -> Traffic {
        var traffic = Traffic()
        traffic.add(
            loop.ledger.leftover.withLock { bytes in
                defer { bytes = SocketLedger.Bytes() }
                return bytes
            })
        return traffic
    }

    /// Ends every transfer with `.cancelled`, closes all connections and waits for the thread. Later requests end with `.cancelled` at
    /// once; a second call does nothing.
    package func close() {
        loop.close()
    }

    private func run(
        _ request: HTTPRequest, _ sink: AnswerReader.Sink
    ) async throws(TransportError) -> HTTPResponse {
        let order = CurlLoop.Order(
            id: lastID.wrappingAdd(1, ordering: .relaxed).newValue, request: request, sink: sink,
            cancellation: CurlLoop.Cancellation())
        let result: Result<HTTPResponse, TransportError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                loop.start(order) { continuation.resume(returning: $0) }
            }
        } onCancel: {
            // The flag comes first: when this message overtakes the order, the thread still sees that the order is void.
            order.cancellation.request()
            loop.post(.cancel(order.id))
        }
        return try result.get()
    }
}
