import CSyncLinux
import SyncCore

/// Sets every option of one transfer.
///
/// - Parameters:
///   - credentials: For the proxy.
///   - chunk: Bytes to move before ``RateGate`` is asked again; `nil`: the request has no rate.
///   - context: The transfer, for the callbacks.
///   - ledger: Outlives every connection, unlike the transfer.
/// - Throws: A sentence when the request cannot be sent as it is.
func configure(
    _ easy: UnsafeMutableRawPointer, _ request: HTTPRequest, _ place: TransferPlace, _ memory: CurlTransferMemory,
    credentials: (user: String, password: String)?, share: UnsafeMutableRawPointer,
    idleAge: Duration, chunk: Int?, context: UnsafeMutableRawPointer, ledger: UnsafeMutableRawPointer
) throws(Refusal) {
    var options = CurlOptions(easy: easy)
    options.set(CURLOPT_PRIVATE, to: context)
    options.set(CURLOPT_ERRORBUFFER, to: UnsafeMutableRawPointer(memory.errorBuffer))
    options.set(CURLOPT_SHARE, to: share)

    options.set(CURLOPT_URL, to: request.url)
    options.set(CURLOPT_PROTOCOLS_STR, to: "http,https")
    // Record ids may be "." or "..", which curl would take for steps in a path.
    options.set(CURLOPT_PATH_AS_IS, to: 1)
    options.set(CURLOPT_FOLLOWLOCATION, to: 0)
    options.setProxy(place.proxy, credentials)
    options.set(CURLOPT_HTTP_VERSION, to: CURL_HTTP_VERSION_2TLS)
    // What is encoded is decoded by us, within limits.
    options.set(CURLOPT_HTTP_CONTENT_DECODING, to: 0)

    // No signals for timeouts: this is not the only thread.
    options.set(CURLOPT_NOSIGNAL, to: 1)
    // Without it, ending a transfer waits until getaddrinfo returns, and with it every other transfer; the resolver's
    // thread is left to end alone instead.
    options.set(CURLOPT_QUICK_EXIT, to: 1)
    // Zero would mean curl's five minutes.
    options.set(CURLOPT_CONNECTTIMEOUT_MS, to: Int(max(1, min(request.deadlines.connect.milliseconds, Int64(Int32.max)))))
    options.set(CURLOPT_MAXAGE_CONN, to: Int(max(1, min(idleAge.milliseconds / 1_000, Int64(Int32.max)))))
    // A name that another link or a portal resolved is not to be kept; the system's resolver knows better when to forget.
    options.set(CURLOPT_DNS_CACHE_TIMEOUT, to: 0)
    if !request.keepsConnection {
        options.set(CURLOPT_FRESH_CONNECT, to: 1)
        options.set(CURLOPT_FORBID_REUSE, to: 1)
    }
    if let path = request.socketPath { options.set(CURLOPT_UNIX_SOCKET_PATH, to: path) }
    // "if!" says that it is the name of an interface, never of a host.
    if let interface = request.interface { options.set(CURLOPT_INTERFACE, to: "if!" + interface) }

    if let chunk {
        options.set(CURLOPT_BUFFERSIZE, to: chunk)
        options.set(CURLOPT_UPLOAD_BUFFERSIZE, to: 16 << 10)
        // What HTTP/2 has under way cannot stand still without the connection's other streams.
        options.set(CURLOPT_HTTP_VERSION, to: CURL_HTTP_VERSION_1_1)
    }

    if let signature = request.signature { options.sign(signature) }
    if place.isTLS { options.setTLS(request.tls ?? TLSIdentity(), memory) }
    try options.setHead(request, memory)
    options.setBody(request, memory)
    options.setCallbacks(context: context, ledger: ledger)
    if options.failure != CURLE_OK {
        throw .malformed("curl does not take the request: \(String(cString: curl_easy_strerror(options.failure)))")
    }
}

private struct CurlOptions {
    let easy: UnsafeMutableRawPointer
    /// Of the first option that was refused.
    private(set) var failure = CURLE_OK

    init(easy: UnsafeMutableRawPointer) {
        self.easy = easy
    }

    mutating func setTLS(_ identity: TLSIdentity, _ memory: CurlTransferMemory) {
        set(CURLOPT_SSLVERSION, to: CURL_SSLVERSION_TLSv1_2)
        set(CURLOPT_SSL_VERIFYPEER, to: 1)
        set(CURLOPT_SSL_VERIFYHOST, to: 2)
        if let file = identity.caFile {
            set(CURLOPT_CAINFO, to: file)
            // The distribution's directory of authorities is searched besides the file unless it is taken away: whoever
            // names an authority means this one alone.
            note(csl_easy_set_text(easy, CURLOPT_CAPATH, nil))
            // Read at each new connection, so that a replaced file counts. (The system's own, ten times larger, curl keeps.)
            set(CURLOPT_CA_CACHE_TIMEOUT, to: 0)
        }
        if let file = identity.clientCertificateFile { set(CURLOPT_SSLCERT, to: file) }
        if let file = identity.clientKeyFile { set(CURLOPT_SSLKEY, to: file) }
        if let pin = identity.publicKeyPin { set(CURLOPT_PINNEDPUBLICKEY, to: pin) }
        note(csl_easy_watch_tls(easy, memory.tlsWatch))
    }

    mutating func setProxy(_ proxy: HTTPProxy?, _ credentials: (user: String, password: String)?) {
        // Empty texts also switch off what the environment says.
        set(CURLOPT_NOPROXY, to: "")
        set(CURLOPT_PROXY, to: proxy.map { "http://" + $0.url.authority } ?? "")
        guard proxy != nil else { return }
        // The head of its answer is none of the server's.
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, to: 1)
        guard let credentials else { return }
        // Without waiting for the proxy's question, which would cost a round trip at each connection.
        set(CURLOPT_PROXYAUTH, to: Self.basic)
        set(CURLOPT_PROXYUSERNAME, to: credentials.user)
        set(CURLOPT_PROXYPASSWORD, to: credentials.password)
    }

    mutating func sign(_ signature: RequestSignature) {
        set(CURLOPT_AWS_SIGV4, to: "aws:amz:\(signature.region):\(signature.service)")
        set(CURLOPT_USERNAME, to: signature.keyID)
        set(CURLOPT_PASSWORD, to: signature.secret)
        // Above 1 MiB curl asks first whether to send the body; who does not know the question must not cost a second each time.
        set(CURLOPT_EXPECT_100_TIMEOUT_MS, to: 200)
    }

    mutating func setHead(_ request: HTTPRequest, _ memory: CurlTransferMemory) throws(Refusal) {
        // A name without a value takes away a field that curl adds by itself. But libcurl 7.88 signs even what it does not
        // send then, and no server comes to the same signature: signed requests carry what curl adds.
        var lines: [String] = []
        if request.signature == nil {
            lines.append("Expect:")
            if request.headers["Accept"] == nil { lines.append("Accept:") }
            if request.headers["Content-Type"] == nil { lines.append("Content-Type:") }
        }
        if request.acceptsGzip { lines.append("Accept-Encoding: gzip") }
        for field in request.headers.fields {
            guard !field.name.isEmpty, field.name.utf8.allSatisfy(HTTPSyntax.isTokenByte),
                field.value.utf8.allSatisfy(HTTPSyntax.isValueByte)
            else { throw .malformed("the header field \(HTTPSyntax.shown([field.name])) has bytes that none may have") }
            // Lengths and codings follow from the request; a second opinion would only be wrong.
            if Self.own.contains(where: { asciiCaseEqual($0, field.name) }) { continue }
            let isBlank = field.value.utf8.allSatisfy { $0 == 32 || $0 == 9 }
            lines.append(isBlank ? "\(field.name);" : "\(field.name): \(field.value)")
        }
        for line in lines where !memory.add(header: line) { failure = CURLE_OUT_OF_MEMORY }
        note(csl_easy_set_list(easy, CURLOPT_HTTPHEADER, memory.headers))
    }

    mutating func setBody(_ request: HTTPRequest, _ memory: CurlTransferMemory) {
        var natural: HTTPRequest.Method
        switch request.body {
        case .pieces:
            // Of unknown size, so that curl sends chunks (or the frames of HTTP/2).
            set(CURLOPT_UPLOAD, to: 1)
            note(csl_easy_set_offset(easy, CURLOPT_INFILESIZE_LARGE, -1))
            natural = .put
        case .sized(let count, _):
            set(CURLOPT_UPLOAD, to: 1)
            note(csl_easy_set_offset(easy, CURLOPT_INFILESIZE_LARGE, curl_off_t(count)))
            natural = .put
        case .bytes(let bytes) where request.bytesPerSecond != nil && !bytes.isEmpty:
            // By the callback, which can hold it back.
            set(CURLOPT_POST, to: 1)
            note(csl_easy_set_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(bytes.count)))
            natural = .post
        case .bytes(let bytes):
            setPost(size: bytes.count, memory)
            natural = .post
        case .none where [.post, .put, .patch].contains(request.method):
            // These announce that they have no body: "Content-Length: 0".
            setPost(size: 0, memory)
            natural = .post
        case .none where request.method == .head:
            set(CURLOPT_NOBODY, to: 1)
            natural = .head
        case .none:
            set(CURLOPT_HTTPGET, to: 1)
            natural = .get
        }
        if request.method != natural { set(CURLOPT_CUSTOMREQUEST, to: request.method.rawValue) }
    }

    private mutating func setPost(size: Int, _ memory: CurlTransferMemory) {
        set(CURLOPT_POST, to: 1)
        note(csl_easy_set_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(size)))
        // In memory rather than by callback: head and body then leave in one packet.
        set(CURLOPT_POSTFIELDS, to: memory.body.baseAddress)
    }

    mutating func setCallbacks(context: UnsafeMutableRawPointer, ledger: UnsafeMutableRawPointer) {
        note(csl_easy_set_header_callback(easy, CurlCallbacks.header))
        set(CURLOPT_HEADERDATA, to: context)
        note(csl_easy_set_write_callback(easy, CurlCallbacks.body))
        set(CURLOPT_WRITEDATA, to: context)
        note(csl_easy_set_read_callback(easy, CurlCallbacks.read))
        set(CURLOPT_READDATA, to: context)
        note(csl_easy_set_ready_callback(easy, CurlCallbacks.ready))
        set(CURLOPT_PREREQDATA, to: context)
        note(csl_easy_set_open_socket_callback(easy, CurlCallbacks.openSocket))
        set(CURLOPT_OPENSOCKETDATA, to: context)
        note(csl_easy_set_close_socket_callback(easy, CurlCallbacks.closeSocket))
        set(CURLOPT_CLOSESOCKETDATA, to: ledger)
    }

    mutating func set(_ option: CURLoption, to value: Int) {
        note(csl_easy_set_long(easy, option, value))
    }

    mutating func set(_ option: CURLoption, toOffset value: Int) {
        note(csl_easy_set_offset(easy, option, curl_off_t(value)))
    }

    mutating func set(_ option: CURLoption, to text: String) {
        // curl would end it at a NUL and mean another file or place.
        note(text.utf8.contains(0) ? CURLE_BAD_FUNCTION_ARGUMENT : csl_easy_set_text(easy, option, text))
    }

    mutating func set(_ option: CURLoption, to pointer: UnsafeMutableRawPointer?) {
        note(csl_easy_set_pointer(easy, option, pointer))
    }

    private mutating func note(_ code: CURLcode) {
        if failure == CURLE_OK { failure = code }
    }

    /// `CURLAUTH_BASIC`, a macro that Swift does not see.
    private static let basic = 1
    private static let own = ["Content-Length", "Transfer-Encoding", "Accept-Encoding", "Expect"]
}
