import NIOCore
import Synchronization

/// One request and its answer, for the handler.
///
/// The answer is either whole (``respond(status:headers:body:closes:)``, ``refuse(_:)``) or streamed (``begin(status:headers:length:)``,
/// ``write(_:)``…, ``end()``), now or later, from any thread: a call from another thread hops to the loop once. Calls of one exchange
/// belong to one thread or actor at a time, or their order is undefined.
///
/// - Completing an exchange twice is a programming error and stops the process.
/// - After the client left, or the server itself ended the exchange (body too large, timeout, stop), all calls do nothing.
/// - An exchange that is dropped without an answer is answered 500, or cut off when its answer had begun.
package final class HTTPExchange: Sendable {
    package let request: RequestHead

    private let connection: HTTPConnection
    /// Number of the request on its connection, which ignores calls for any but the current one.
    private let number: UInt64
    private let isCompleted = Atomic(false)

    init(request: RequestHead, connection: HTTPConnection, number: UInt64) {
        self.request = request
        self.connection = connection
        self.number = number
    }

    deinit {
        guard !isCompleted.load(ordering: .relaxed) else { return }
        connection.onLoop { [number] in $0.abandon(number) }
    }

    // MARK: The whole answer at once

    /// Answers. `Content-Length` is added, `Connection` belongs to the server. A `HEAD` request gets the head only.
    ///
    /// Control characters in field values are sent as spaces, so that no value can begin another field.
    ///
    /// - Parameter closes: The connection ends with this answer.
    package func respond(status: Int, headers: [(String, String)] = [], body: [UInt8] = [], closes: Bool = false) {
        complete()
        // The answer is mostly made on the loop: no closure is needed to get there.
        guard !connection.loop.inEventLoop else {
            return connection.respond(number, status: status, headers: headers, body: body, closes: closes)
        }
        connection.onLoop { [number] in $0.respond(number, status: status, headers: headers, body: body, closes: closes) }
    }

    /// Answers with a problem document.
    package func refuse(_ problem: HTTPProblem) {
        complete()
        connection.onLoop { [number] in $0.refuse(number, problem) }
    }

    // MARK: A streamed answer

    /// Sends the head. With `length`, exactly that many bytes must follow; without, the body is chunked (HTTP/1.1) or
    /// ends with the connection (HTTP/1.0).
    package func begin(status: Int, headers: [(String, String)] = [], length: Int? = nil) {
        connection.onLoop { [number] in $0.begin(number, status: status, headers: headers, length: length) }
    }

    /// Sends a piece of the body. Pieces written in one turn of the loop leave together.
    ///
    /// Nothing limits the bytes that wait here for a slow client: check ``unsentBytes`` or wait with ``whenWritable(_:)``.
    package func write(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        connection.willWrite(bytes.count)
        connection.onLoop { [number] in $0.write(number, bytes) }
    }

    /// Ends the answer.
    package func end() {
        complete()
        connection.onLoop { [number] in $0.end(number) }
    }

    /// Cuts the connection, so that the client notices that the answer is incomplete.
    package func abort() {
        complete()
        connection.onLoop { [number] in $0.abort(number) }
    }

    // MARK: The client's side

    /// The answer comes late, and may never come: until then the connection counts as idle. It may be closed to make room for others, and
    /// it ends when the client closes its side.
    package func standBy() {
        connection.onLoop { [number] in $0.standBy(number) }
    }

    /// `true` while an answer can still reach the client.
    package var isOpen: Bool { connection.openExchange == number }

    /// Bytes written and not yet accepted by the kernel. Exact on the loop; elsewhere as of the loop's last check, at most 64 KiB off.
    package var unsentBytes: Int { connection.unsentBytes }

    /// Calls `action` on the loop if the exchange is over before the handler completed it; soon, if that is already the case.
    package func onClose(_ action: @escaping @Sendable () -> Void) {
        connection.onLoop { [number] in $0.onClose(number, action) }
    }

    /// Calls `action` once on the loop, as soon as at most 64 KiB wait to be sent; also when the exchange is over.
    package func whenWritable(_ action: @escaping @Sendable () -> Void) {
        connection.onLoop { [number] in $0.whenWritable(number, action) }
    }

    // MARK: A streamed request body

    /// The deliveries of ``readBody(_:)``. Nothing comes after `end` or `failed`.
    package enum BodyPart: Sendable {
        /// Never empty; at most 64 KiB.
        case bytes([UInt8])
        case end
        case failed(BodyFailure)
    }

    package enum BodyFailure: Sendable, Hashable {
        /// The client left, or the exchange was completed.
        case closed
        /// The body exceeded the limit of the admission. The server answered 413 unless the answer had begun.
        case tooLarge
        /// Nothing came for ``HTTPServerLimits/bodyIdleTime``. The server answered 408 unless the answer had begun.
        case timedOut
        /// A bad chunk. The server answered 400 unless the answer had begun.
        case malformed
    }

    /// Requests the next piece of the body (``HTTPAdmission/stream(limit:takesDescriptor:then:)``): one call, one delivery, on the loop.
    ///
    /// Between a delivery and the next call nothing is read from the socket except bytes that were already on their way, so a slow consumer
    /// slows the client down. One call may be outstanding at a time. It may be made from within `deliver`.
    package func readBody(_ deliver: @escaping @Sendable (BodyPart) -> Void) {
        connection.onLoop { [number] in $0.readBody(number, deliver) }
    }

    // MARK: A descriptor

    /// The descriptor that the client attached to the head of this request (`SCM_RIGHTS`); `.none` at a second call and after the end of
    /// the request. The caller must close it with ``closeDescriptor``. On the loop only.
    package func takeDescriptor() -> AttachedDescriptor {
        isOpen ? connection.descriptors.take() : .none
    }

    package static let closeDescriptor: @Sendable (Int32) -> Void = { DescriptorBox.close($0) }

    private func complete() {
        precondition(!isCompleted.exchange(true, ordering: .relaxed), "an exchange was completed twice")
    }
}
