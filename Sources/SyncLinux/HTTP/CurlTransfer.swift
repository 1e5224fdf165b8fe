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
    var socket: Int32?
    /// Time for which the kept connection had been idle; `nil` for a new one, or for one that another transfer used too.
    var idle: Duration?

    let request: HTTPRequest
    let place: TransferPlace
    /// `true` when the proxy is shown a user name and a password.
    let hasProxyCredentials: Bool
    let ledger: SocketLedger
    let finish: (Result<HTTPResponse, TransportError>) -> Void
    var reader: AnswerReader
    /// ``HTTPRequest/bodyBegan`` until it was called.
    var bodyBegan: (@Sendable () -> Void)?
    var clock: TransferClock
    /// The reason why the agent, and not curl, ended the transfer.
    var refusal: (code: TransportError.Code, detail: String)?

    let memory: CurlTransferMemory
    var upload: Upload
    var tcp: SocketLedger.Bytes?
    var acknowledged: UInt64 = 0
    private var isReleased = false
    /// The rate; `nil` for a transfer without one.
    let gate: RateGate?
    /// Counters of the connection up to which its bytes were charged to the rate.
    var limited = csl_tcp_counts()
    /// Directions in which curl pauses until the rate has room.
    var paused: Int32 = 0

    /// `true` in the second attempt, which tries every address, whatever was known of it, with all of the time that is left.
    var triesEveryAddress = false
    /// `true` when an address was left out.
    var hasLeftOut = false
    /// Number of addresses that were tried, and the number of those that were cut short.
    var tried = 0, cut = 0

    /// The part of the request that is left to send.
    struct Upload {
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
        hasProxyCredentials = credentials != nil
        guard let easy = curl_easy_init() else {
            throw TransportError(.broken, doing: doing, detail: "no memory for a transfer")
        }
        id = order.id
        self.easy = easy
        self.request = request
        self.ledger = ledger
        self.gate = gate
        self.finish = finish
        bodyBegan = request.bodyBegan
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

    static func of(context: UnsafeMutableRawPointer) -> CurlTransfer {
        Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
    }

    // MARK: - The handle

    func releaseHandle() {
        guard !isReleased else { return }
        isReleased = true
        curl_easy_cleanup(easy)
    }

    /// A fact of the transfer; 0 when curl does not know it.
    func long(_ info: CURLINFO) -> Int {
        var value = 0
        return csl_easy_get_long(easy, info, &value) == CURLE_OK ? value : 0
    }

    func offset(_ info: CURLINFO) -> Int64 {
        var value: curl_off_t = 0
        return csl_easy_get_offset(easy, info, &value) == CURLE_OK ? Int64(value) : 0
    }

    /// Ends the transfer on behalf of the agent.
    ///
    /// - Returns: `false`, the answer of a callback that gives up.
    func refuse(_ code: TransportError.Code, _ detail: String) -> Bool {
        refusal = (code, detail)
        return false
    }
}
