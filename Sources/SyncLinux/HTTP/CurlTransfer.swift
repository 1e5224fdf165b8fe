import CSyncLinux
import Glibc
import SyncCore

/// One request in progress: curl's handle for it, the data of its callbacks, and the result at the end.
///
/// Made and used only on the thread of ``CurlLoop``, which keeps it alive while curl points to it.
final class CurlTransfer {
    let id: UInt64
    let easy: UnsafeMutableRawPointer
    /// Socket of the connection, once there is one and it is TCP.
    private(set) var socket: Int32?
    /// Time for which the kept connection had been idle; `nil` for a new one, or for one that another transfer used too.
    private var idle: Duration?

    private let request: HTTPRequest
    private let place: TransferPlace
    private let ledger: SocketLedger
    private let finish: (Result<HTTPResponse, TransportError>) -> Void
    private var reader: AnswerReader
    private var clock: TransferClock
    /// The reason why the agent, and not curl, ended the transfer.
    private var refusal: (code: TransportError.Code, detail: String)?

    private let memory: CurlTransferMemory
    private var upload: Upload
    private var tcp: SocketLedger.Bytes?
    private var acknowledged: UInt64 = 0
    private var isReleased = false
    /// The rate; `nil` for a transfer without one.
    private let gate: RateGate?
    /// Counters of the connection up to which its bytes were charged to the rate.
    private var limited = csl_tcp_counts()
    /// Directions in which curl pauses until the rate has room.
    private var paused: Int32 = 0

    /// The part of the request that is left to send.
    private struct Upload {
        /// Bytes of the body; `nil` when only its source knows the size.
        let size: Int?
        /// Bytes from the source that curl has not read yet: a source may give more than was requested.
        var piece: ArraySlice<UInt8> = []
        var isSourceEmpty = false
        /// Bytes that the source has given.
        var given = 0
        var sent: Int64 = 0
    }

    init(
        _ order: CurlLoop.Order, share: UnsafeMutableRawPointer, ledger: SocketLedger, gate: RateGate?, idleAge: Duration, now: Instant,
        finish: @escaping (Result<HTTPResponse, TransportError>) -> Void
    ) throws(TransportError) {
        let request = order.request
        let doing = "prepare \(request.method.rawValue)"
        do throws(Refusal) {
            place = try TransferPlace(url: request.url, socketPath: request.socketPath, proxy: request.proxy)
        } catch {
            throw TransportError(.malformed, doing: doing, detail: error.words)
        }
        let credentials = try place.proxy.flatMap { proxy throws(TransportError) in try Self.credentials(for: proxy) }
        guard let easy = curl_easy_init() else {
            throw TransportError(.broken, doing: doing, detail: "no memory for a transfer")
        }
        id = order.id
        self.easy = easy
        self.request = request
        self.ledger = ledger
        self.gate = gate
        self.finish = finish
        reader = AnswerReader(
            limits: .init(bodyBytes: request.maxResponseBytes, inflateRatio: request.maxInflateRatio),
            acceptsGzip: request.acceptsGzip, isHead: request.method == .head, sink: order.sink)
        clock = TransferClock(request.deadlines, now: now)
        switch request.body {
        case .none:
            upload = Upload(size: 0)
            memory = CurlTransferMemory(body: [], host: place.certificateName)
        case .bytes(let bytes):
            upload = Upload(size: bytes.count)
            memory = CurlTransferMemory(body: bytes, host: place.certificateName)
        case .pieces:
            upload = Upload(size: nil)
            memory = CurlTransferMemory(body: [], host: place.certificateName)
        case .sized(let count, _):
            upload = Upload(size: count)
            memory = CurlTransferMemory(body: [], host: place.certificateName)
        }

        do throws(Refusal) {
            try configure(
                easy, request, place, memory, credentials: credentials, share: share, idleAge: idleAge, chunk: gate?.chunk,
                context: Unmanaged.passUnretained(self).toOpaque(),
                ledger: Unmanaged.passUnretained(ledger).toOpaque())
        } catch {
            throw TransportError(.malformed, doing: doing, detail: error.words)
        }
    }

    deinit {
        releaseHandle()
    }

    /// Credentials of the proxy, read anew for each request because they may be replaced meanwhile.
    private static func credentials(for proxy: HTTPProxy) throws(TransportError) -> (user: String, password: String)? {
        let secrets = SecretFiles.ofThisProcess()
        guard let file = proxy.credentialsFile ?? secrets.credential(HTTPProxy.credentialName) else { return nil }
        do throws(LinuxError) {
            return try secrets.readCredentials(file)
        } catch {
            throw TransportError(.credentials, doing: "ask the proxy \(proxy.url.authority)", detail: "\(error)")
        }
    }

    static func of(_ easy: UnsafeMutableRawPointer) -> CurlTransfer? {
        var context: UnsafeMutableRawPointer?
        guard csl_easy_get_pointer(easy, CURLINFO_PRIVATE, &context) == CURLE_OK, let context else { return nil }
        return of(context: context)
    }

    fileprivate static func of(context: UnsafeMutableRawPointer) -> CurlTransfer {
        Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
    }

    // MARK: - Time

    var nextDeadline: Instant? { clock.next }
    /// Time at which the last byte moved.
    var moved: Instant { clock.moved }

    /// Checks the progress since the last call.
    ///
    /// - Returns: A sentence when a deadline has passed.
    func passedDeadline(now: Instant) -> String? {
        noteUpload(now: now)
        guard let first = clock.passed(now: now) else { return nil }
        // The kernel is asked before the decision: data that curl has handed over may still be on its way over a slow link.
        if first.limit != .total { noteAcknowledged(now: now) }
        guard let passed = clock.passed(now: now) else { return nil }
        switch passed.limit {
        case .firstByte: return "no byte of the answer within \(passed.length)"
        case .idle: return "no byte in either direction for \(passed.length)"
        case .total: return "not done within \(passed.length)"
        }
    }

    private func noteUpload(now: Instant) {
        guard clock.step == .sending else { return }
        let sent = offset(CURLINFO_SIZE_UPLOAD_T)
        let isAll = upload.size.map { sent >= Int64($0) } ?? (upload.isSourceEmpty && upload.piece.isEmpty)
        guard sent != upload.sent || isAll else { return }
        upload.sent = sent
        clock.sent(isAll: isAll, now: now)
    }

    private func noteAcknowledged(now: Instant) {
        var counts = csl_tcp_counts()
        guard clock.step == .sending || clock.step == .waiting, let socket, csl_tcp_counts(socket, &counts) else { return }
        // An acknowledgement of nothing new is the peer's answer to a probe of its closed window and no progress.
        guard counts.acknowledged != acknowledged else { return }
        acknowledged = counts.acknowledged
        clock.acknowledged(at: now.advanced(by: .milliseconds(-Int64(counts.since_last_ack_ms))))
    }

    // MARK: - Rate

    /// Charges the bytes that moved since the last call to the link's rate.
    func takeFromRate(now: Instant) {
        guard let gate, let socket else { return }
        var counts = csl_tcp_counts()
        guard csl_tcp_counts(socket, &counts) else { return }
        let moved = SocketLedger.Bytes(from: limited, to: counts)
        limited = counts
        gate.limiter.moved(
            up: Int(clamping: moved.up &+ moved.headersUp), down: Int(clamping: moved.down &+ moved.headersDown), now: now)
    }

    var isPaused: Bool { paused != 0 }

    /// Charges the bytes that moved to the rate, and pauses reading when the rate is used up. It does not pause before the head of an
    /// answer is whole: curl joins the lines that it holds back.
    func holdToRate(now: Instant) {
        guard let gate, clock.step != .connecting else { return }
        takeFromRate(now: now)
        guard !gate.limiter.isOpenDown, reader.isHeadWhole, paused & CURLPAUSE_RECV == 0 else { return }
        pause(paused | CURLPAUSE_RECV)
    }

    /// Resumes the directions in which the rate has room again.
    func goOn() {
        guard let gate, paused != 0 else { return }
        var left = paused
        if gate.limiter.isOpenUp { left &= ~CURLPAUSE_SEND }
        if gate.limiter.isOpenDown { left &= ~CURLPAUSE_RECV }
        if left != paused { pause(left) }
    }

    private func pause(_ directions: Int32) {
        paused = directions
        curl_easy_pause(easy, directions)
    }

    // MARK: - The end

    /// `true` when the status is 421: the peer of this connection does not answer for the requested server (RFC 9110, 15.5.20).
    var isMisdirected: Bool { reader.isHeadWhole && reader.status == 421 }

    /// Ends the transfer with the result of curl, good or not. The transfer is removed from curl already.
    func complete(_ code: CURLcode) {
        if code == CURLE_OK || reader.isStopped {
            // A connection that ends in the middle of a head is no error to curl, which knows no length to compare.
            guard reader.isHeadWhole else { return fail(.broken, doing: doing, detail: "closed in the answer's head") }
            do throws(Refusal) {
                try reader.finish()
                var response = HTTPResponse(
                    status: reader.status, headers: reader.headers, body: reader.body, traffic: traffic)
                response.certificateEndsAt = memory.certificateEndsAt
                releaseHandle()
                return finish(.success(response))
            } catch {
                return fail(error.code, doing: doing, detail: error.words)
            }
        }
        if let refusal { return fail(refusal.code, doing: doing, detail: refusal.detail) }
        if let detail = proxyRefusal { return fail(.unreachable, doing: doing, detail: detail) }
        let failure = CurlFailure(
            code: code, text: memory.errorText ?? String(cString: curl_easy_strerror(code)),
            verifyResult: long(CURLINFO_SSL_VERIFYRESULT), systemError: Int32(clamping: long(CURLINFO_OS_ERRNO)),
            isHeadBegun: reader.hasBegun, isNewConnection: long(CURLINFO_NUM_CONNECTS) > 0,
            askedForCertificate: memory.askedForCertificate,
            showsCertificate: request.tls?.clientCertificateFile != nil)
        // curl reports a path that is too long for a socket as a name that cannot be resolved.
        let transportCode = failure.transportCode
        let isPath = transportCode == .unresolved && place.isUnixSocket
        fail(isPath ? .unreachable : transportCode, doing: doing, detail: failure.detail)
    }

    /// The proxy's answer to `CONNECT`, when it was a refusal.
    private var proxyRefusal: String? {
        let status = long(CURLINFO_HTTP_CONNECTCODE)
        guard place.proxy != nil, status >= 300 else { return nil }
        return switch status {
        case 407: "the proxy wants a user name and a password that it knows (407)"
        case 401, 403, 405: "the proxy lets nothing through to there (\(status))"
        case 500...599: "the proxy cannot reach it (\(status))"
        default: "the proxy answers \(status)"
        }
    }

    func fail(_ code: TransportError.Code, doing: String, detail: String) {
        var error = TransportError(code, doing: doing, detail: detail, traffic: traffic)
        if reader.hasBegun { error.status = reader.status }
        releaseHandle()
        finish(.failure(error))
    }

    /// Present step of the transfer, for error messages.
    var doing: String {
        switch clock.step {
        case .connecting:
            if memory.isHandshakeBegun { return "TLS handshake with \(place.name)" }
            if let proxy = place.proxy?.url {
                if offset(CURLINFO_NAMELOOKUP_TIME_T) == 0 { return "resolve the proxy \(proxy.host)" }
                return "connect to \(place.name) through the proxy \(proxy.authority)"
            }
            if !place.isUnixSocket, offset(CURLINFO_NAMELOOKUP_TIME_T) == 0 { return "resolve \(place.host)" }
            return "connect to \(place.name)"
        case .sending: return "send the request to \(place.name)"
        case .waiting: return "wait for the answer of \(place.name)"
        case .receiving: return "receive the answer of \(place.name)"
        }
    }

    private func releaseHandle() {
        guard !isReleased else { return }
        isReleased = true
        curl_easy_cleanup(easy)
    }

    // MARK: - Traffic

    func moved(_ bytes: SocketLedger.Bytes) {
        tcp = (tcp ?? SocketLedger.Bytes()) + bytes
    }

    private var traffic: Traffic {
        var traffic = Traffic()
        if let tcp {
            traffic.add(tcp)
        } else {
            // There is no TCP (a Unix socket), so the sizes that HTTP itself sent are used. curl sends a body in memory together with the
            // head when it is below 64 KiB, and then counts it into the request (libcurl 7.88, Curl_buffer_send).
            var isOneWrite = upload.size.map { $0 < 64 << 10 } ?? false
            if case .sized = self.request.body { isOneWrite = false }
            let request = Int64(long(CURLINFO_REQUEST_SIZE))
            traffic.up = Int(clamping: isOneWrite ? request : request + offset(CURLINFO_SIZE_UPLOAD_T))
            traffic.down = Int(clamping: Int64(long(CURLINFO_HEADER_SIZE)) + offset(CURLINFO_SIZE_DOWNLOAD_T))
        }
        traffic.newConnection = long(CURLINFO_NUM_CONNECTS) > 0
        let sent = offset(CURLINFO_PRETRANSFER_TIME_T), answered = offset(CURLINFO_STARTTRANSFER_TIME_T)
        if reader.hasBegun, answered >= sent { traffic.roundTrip = .microseconds(answered - sent) }
        return traffic
    }

    private func long(_ info: CURLINFO) -> Int {
        var value = 0
        return csl_easy_get_long(easy, info, &value) == CURLE_OK ? value : 0
    }

    private func offset(_ info: CURLINFO) -> Int64 {
        var value: curl_off_t = 0
        return csl_easy_get_offset(easy, info, &value) == CURLE_OK ? Int64(value) : 0
    }

    // MARK: - Callbacks of curl

    /// `true` in the second attempt, which tries every address, whatever was known of it, with all of the time that is left.
    private(set) var triesEveryAddress = false
    /// `true` when an address was left out.
    private var hasLeftOut = false
    /// Number of addresses that were tried, and the number of those that were cut short.
    private var tried = 0, cut = 0

    /// Decides on a second attempt with all addresses. It is worth making when no address that was tried has answered, and another was left
    /// out or cut short. (Where the time was over before every address had its turn, the next request gets further, because it leaves the
    /// silent ones out.)
    ///
    /// - Returns: `false` when there is nothing more to try.
    func tryEveryAddress(after code: CURLcode) -> Bool {
        guard hasLeftOut || cut > 0, !triesEveryAddress, clock.step == .connecting, code == CURLE_COULDNT_CONNECT else { return false }
        guard tried == cut else {
            // A machine is there and refuses connections now. The addresses that were left out need not be better, so each gets its turn in
            // a later request.
            ledger.addresses.giveTurn(of: place.peer, now: SystemClocks.instant())
            return false
        }
        triesEveryAddress = true
        return true
    }

    /// Records that a connection was given up in favour of another address.
    func cutShort() { cut += 1 }

    /// - Returns: `false` when this address is left out.
    fileprivate func allows(_ address: UnsafePointer<curl_sockaddr>) -> Bool {
        guard let text = text(of: address) else { return true }
        let isAllowed = ledger.addresses.allows(text, of: place.peer, now: SystemClocks.instant())
        guard !isAllowed, !triesEveryAddress else { return true }
        (hasLeftOut, ledger.hasLeftOut) = (true, true)
        return false
    }

    fileprivate func opened(_ socket: Int32, to address: UnsafePointer<curl_sockaddr>) {
        ledger.opened(socket, by: self)
        tried += 1
        if let text = text(of: address) {
            ledger.addresses.began(socket, to: text, of: place.peer, now: SystemClocks.instant())
        }
        gate?.limit(socket)
    }

    /// The address as text; `nil` when it is no Internet address.
    private func text(of address: UnsafePointer<curl_sockaddr>) -> String? {
        var room = [CChar](repeating: 0, count: 64)
        guard csl_address_text(address, &room, Int32(room.count)) else { return nil }
        return String(decoding: room.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Called when the connection stands and before the request is sent on it.
    fileprivate func isReadyToSend(
        local: UnsafePointer<CChar>, localPort: Int32, remote: UnsafePointer<CChar>, remotePort: Int32
    ) -> Bool {
        guard clock.step == .connecting else {
            // curl itself repeats a request when a kept connection turns out to be closed before an answer. The peer may have processed it
            // all the same, so only the caller, which knows the request, can decide on a retry.
            return refuse(.broken, "the connection was closed before an answer came; nothing is sent twice")
        }
        if let used = ledger.use(by: self, local: local, localPort: localPort, remote: remote, remotePort: remotePort) {
            let socket = used.socket
            self.socket = socket
            ledger.addresses.connected(socket)
            if long(CURLINFO_NUM_CONNECTS) == 0, used.idle > .zero {
                idle = used.idle
                KeptConnections.limit(socket, to: KeptConnections.patience)
            }
            var counts = csl_tcp_counts()
            if csl_tcp_counts(socket, &counts) { acknowledged = counts.acknowledged }
            // Earlier transfers moved the bytes that the kept connection has counted so far.
            if long(CURLINFO_NUM_CONNECTS) == 0 {
                limited = counts
                // The connection may have been opened under another rate, or under none.
                if let gate { gate.limit(socket) } else { RateGate.release(socket) }
            }
            guard !holdsStrayBytes(socket) else {
                return refuse(.broken, "the kept connection holds bytes that were not asked for")
            }
        }
        clock.connected(hasBody: upload.size != 0, now: SystemClocks.instant())
        return true
    }

    /// Bytes that wait on a kept connection before the request belong to an earlier answer, and would be read as the answer to this one.
    /// (With TLS they may be session tickets.)
    private func holdsStrayBytes(_ socket: Int32) -> Bool {
        guard !place.isTLS, long(CURLINFO_NUM_CONNECTS) == 0 else { return false }
        var byte: UInt8 = 0
        return recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) > 0
    }

    /// Idle time of the kept connection before this transfer, when no byte of an answer came on it; `nil` otherwise.
    var idleBeforeSilence: Duration? { reader.hasBegun ? nil : idle }

    fileprivate func take(header line: UnsafeRawBufferPointer) -> Bool {
        clock.received(now: SystemClocks.instant())
        if !reader.hasBegun, idle != nil, let socket { KeptConnections.limit(socket, to: nil) }
        do throws(Refusal) {
            try reader.take(line: line)
            return true
        } catch {
            return refuse(error.code, error.words)
        }
    }

    fileprivate func take(body bytes: UnsafeRawBufferPointer) -> Bool {
        clock.received(now: SystemClocks.instant())
        do throws(Refusal) {
            try reader.take(body: bytes)
            holdToRate(now: SystemClocks.instant())
            return !reader.isStopped
        } catch {
            return refuse(error.code, error.words)
        }
    }

    /// - Returns: Number of bytes that were put into `room`; 0 at the end; the code for a pause when there are none now; `nil` to give up.
    fileprivate func nextBytes(into room: UnsafeMutableRawBufferPointer) -> Int? {
        guard let gate else { return give(room) }
        takeFromRate(now: SystemClocks.instant())
        guard gate.limiter.isOpenUp else {
            paused |= CURLPAUSE_SEND
            return Int(CURL_READFUNC_PAUSE)
        }
        return give(UnsafeMutableRawBufferPointer(rebasing: room.prefix(gate.chunk)))
    }

    private func give(_ room: UnsafeMutableRawBufferPointer) -> Int? {
        let source: @Sendable (Int) -> [UInt8]?
        switch request.body {
        case .pieces(let next), .sized(_, let next): source = next
        case .bytes(let bytes):
            // Only a request with a rate comes here; curl has the other bodies in memory.
            let start = upload.given
            source = { start < bytes.count ? Array(bytes[start..<min(bytes.count, start.saturatingAdd($0))]) : nil }
        case .none: return 0
        }
        guard !upload.isSourceEmpty else { return 0 }
        if upload.piece.isEmpty {
            guard let piece = source(room.count) else {
                upload.isSourceEmpty = true
                guard upload.given >= upload.size ?? 0 else {
                    _ = refuse(.broken, "the source of the body ended after \(upload.given) bytes")
                    return nil
                }
                return 0
            }
            upload.given += piece.count
            // An empty piece would read as the end of the body, and make a part of it look whole.
            guard !piece.isEmpty else {
                _ = refuse(.broken, "the source of the body gave an empty piece")
                return nil
            }
            upload.piece = piece[...]
        }
        let part = upload.piece.prefix(room.count)
        room.copyBytes(from: part)
        upload.piece = upload.piece.dropFirst(part.count)
        return part.count
    }

    private func refuse(_ code: TransportError.Code, _ detail: String) -> Bool {
        refusal = (code, detail)
        return false
    }
}

/// curl's callbacks. The context is the transfer, except for the last callback, where it is the ledger.
enum CurlCallbacks {
    typealias Bytes = @convention(c) (UnsafeMutablePointer<CChar>?, Int, Int, UnsafeMutableRawPointer?) -> Int

    static let header: Bytes = { bytes, size, count, context in
        guard let context else { return 0 }
        let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
        return CurlTransfer.of(context: context).take(header: line) ? line.count : 0
    }

    static let body: Bytes = { bytes, size, count, context in
        guard let context else { return 0 }
        let piece = UnsafeRawBufferPointer(start: bytes, count: size * count)
        return CurlTransfer.of(context: context).take(body: piece) ? piece.count : 0
    }

    static let read: Bytes = { bytes, size, count, context in
        guard let context else { return Int(CURL_READFUNC_ABORT) }
        let room = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
        return CurlTransfer.of(context: context).nextBytes(into: room) ?? Int(CURL_READFUNC_ABORT)
    }

    static let ready:
        @convention(c) (
            UnsafeMutableRawPointer?, UnsafeMutablePointer<CChar>?, UnsafeMutablePointer<CChar>?, Int32, Int32
        ) -> Int32 = { context, remote, local, remotePort, localPort in
            guard let context, let remote, let local else { return CURL_PREREQFUNC_ABORT }
            let isReady = CurlTransfer.of(context: context).isReadyToSend(
                local: local, localPort: localPort, remote: remote, remotePort: remotePort)
            return isReady ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
        }

    static let openSocket:
        @convention(c) (
            UnsafeMutableRawPointer?, curlsocktype, UnsafeMutablePointer<curl_sockaddr>?
        ) -> curl_socket_t = { context, _, address in
            guard let context, let address, CurlTransfer.of(context: context).allows(address) else { return CURL_SOCKET_BAD }
            let kind = address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
            let socket = Glibc.socket(address.pointee.family, kind, address.pointee.protocol)
            if socket >= 0 {
                csl_end_without_rest(socket)
                CurlTransfer.of(context: context).opened(socket, to: address)
            }
            return socket
        }

    static let closeSocket: @convention(c) (UnsafeMutableRawPointer?, curl_socket_t) -> Int32 = { context, socket in
        if let context { Unmanaged<SocketLedger>.fromOpaque(context).takeUnretainedValue().closing(socket) }
        // The agent closes a connection when an answer is complete or a transfer was given up. Data that still waits in the kernel would
        // only cost volume again when the link is back.
        csl_close_without_rest(socket)
        return close(socket)
    }
}

extension Refusal {
    fileprivate var code: TransportError.Code {
        switch self {
        case .tooLarge: .tooLarge
        case .malformed: .malformed
        }
    }

    fileprivate var words: String {
        switch self {
        case .tooLarge(let words), .malformed(let words): words
        }
    }
}
