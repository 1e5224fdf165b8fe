import CSyncLinux
import SyncCore

/// Sets every option of one transfer.
///
/// - Parameters:
///   - credentials: User name and password for the proxy.
///   - chunk: Bytes to move before ``RateGate`` is asked again; `nil` when the request has no rate.
///   - context: The transfer, for the callbacks.
///   - ledger: The ledger of the sockets. It outlives every connection, unlike the transfer.
/// - Throws: A sentence when the request cannot be sent in this form.
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
    // Record ids may be "." or "..", which curl would resolve as steps in a path.
    options.set(CURLOPT_PATH_AS_IS, to: 1)
    options.set(CURLOPT_FOLLOWLOCATION, to: 0)
    options.setProxy(place.proxy, credentials)
    options.set(CURLOPT_HTTP_VERSION, to: CURL_HTTP_VERSION_2TLS)
    // The agent decodes the content itself, within limits.
    options.set(CURLOPT_HTTP_CONTENT_DECODING, to: 0)

    // No signals for timeouts, because the process has further threads.
    options.set(CURLOPT_NOSIGNAL, to: 1)
    // Without this option, ending a transfer waits until getaddrinfo returns, and every other transfer waits with it. With it the
    // resolver's thread ends later by itself.
    options.set(CURLOPT_QUICK_EXIT, to: 1)
    // Zero would mean curl's default of five minutes.
    options.set(CURLOPT_CONNECTTIMEOUT_MS, to: Int(max(1, min(request.deadlines.connect.milliseconds, Int64(Int32.max)))))
    options.set(CURLOPT_MAXAGE_CONN, to: Int(max(1, min(idleAge.milliseconds / 1_000, Int64(Int32.max)))))
    // Names are not cached, because another link or a portal may have resolved them. The system's resolver knows better when to forget.
    options.set(CURLOPT_DNS_CACHE_TIMEOUT, to: 0)
    if !request.keepsConnection {
        options.set(CURLOPT_FRESH_CONNECT, to: 1)
        options.set(CURLOPT_FORBID_REUSE, to: 1)
    }
    if let path = request.socketPath { options.set(CURLOPT_UNIX_SOCKET_PATH, to: path) }
    // "if!" marks the text as the name of an interface and never of a host.
    if let interface = request.interface { options.set(CURLOPT_INTERFACE, to: "if!" + interface) }

    if let chunk {
        options.set(CURLOPT_BUFFERSIZE, to: chunk)
        options.set(CURLOPT_UPLOAD_BUFFERSIZE, to: 16 << 10)
        // An HTTP/2 stream cannot pause without pausing the other streams of its connection.
        options.set(CURLOPT_HTTP_VERSION, to: CURL_HTTP_VERSION_1_1)
    }

    if let signature = request.signature { options.sign(signature) }
    if place.isTLS { options.setTLS(request.tls ?? TLSIdentity(), memory) }
    try options.setHead(request, memory)
    options.setBody(request, memory)
    options.setCallbacks(context: context, ledger: ledger)
    if options.failure != CURLE_OK {
        throw .malformed("curl refuses the request: \(String(cString: curl_easy_strerror(options.failure)))")
    }
}

private struct CurlOptions {
    let easy: UnsafeMutableRawPointer
    /// Code of the first option that was refused.
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
            // The distribution's directory of authorities is searched besides the file unless it is removed here. A configured authority is
            // meant as the only one.
            check(csl_easy_set_text(easy, CURLOPT_CAPATH, nil))
            // The file is read at each new connection, so that a replaced file counts. (curl caches the system's file, which is ten times
            // larger.)
            set(CURLOPT_CA_CACHE_TIMEOUT, to: 0)
        }
        if let file = identity.clientCertificateFile { set(CURLOPT_SSLCERT, to: file) }
        if let file = identity.clientKeyFile { set(CURLOPT_SSLKEY, to: file) }
        if let pin = identity.publicKeyPin { set(CURLOPT_PINNEDPUBLICKEY, to: pin) }
        check(csl_easy_watch_tls(easy, memory.tlsWatch))
    }

    mutating func setProxy(_ proxy: HTTPProxy?, _ credentials: (user: String, password: String)?) {
        // Empty texts also override the environment variables.
        set(CURLOPT_NOPROXY, to: "")
        set(CURLOPT_PROXY, to: proxy.map { "http://" + $0.url.authority } ?? "")
        guard proxy != nil else { return }
        // The head of the proxy's answer is not part of the server's answer.
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, to: 1)
        guard let credentials else { return }
        // The credentials are sent at once. Waiting for the proxy's challenge would cost a round trip at each connection.
        set(CURLOPT_PROXYAUTH, to: Self.basic)
        set(CURLOPT_PROXYUSERNAME, to: credentials.user)
        set(CURLOPT_PROXYPASSWORD, to: credentials.password)
    }

    mutating func sign(_ signature: RequestSignature) {
        set(CURLOPT_AWS_SIGV4, to: "aws:amz:\(signature.region):\(signature.service)")
        set(CURLOPT_USERNAME, to: signature.keyID)
        set(CURLOPT_PASSWORD, to: signature.secret)
        // Above 1 MiB curl first asks with `Expect: 100-continue`. A server that does not know the question must not cost a second each
        // time.
        set(CURLOPT_EXPECT_100_TIMEOUT_MS, to: 200)
    }

    mutating func setHead(_ request: HTTPRequest, _ memory: CurlTransferMemory) throws(Refusal) {
        // A name without a value removes a field that curl adds by itself. But libcurl 7.88 then signs even the fields that it does not
        // send, and no server computes the same signature. Signed requests therefore carry curl's fields.
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
            // Lengths and codings follow from the request, so a field of the caller could only contradict them.
            if Self.own.contains(where: { asciiCaseEqual($0, field.name) }) { continue }
            let isBlank = field.value.utf8.allSatisfy { $0 == 32 || $0 == 9 }
            lines.append(isBlank ? "\(field.name);" : "\(field.name): \(field.value)")
        }
        for line in lines where !memory.add(header: line) { failure = CURLE_OUT_OF_MEMORY }
        check(csl_easy_set_list(easy, CURLOPT_HTTPHEADER, memory.headers))
    }

    mutating func setBody(_ request: HTTPRequest, _ memory: CurlTransferMemory) {
        var natural: HTTPRequest.Method
        switch request.body {
        case .pieces:
            // The size is unknown, so that curl sends chunks (or the frames of HTTP/2).
            set(CURLOPT_UPLOAD, to: 1)
            check(csl_easy_set_offset(easy, CURLOPT_INFILESIZE_LARGE, -1))
            natural = .put
        case .sized(let count, _):
            set(CURLOPT_UPLOAD, to: 1)
            check(csl_easy_set_offset(easy, CURLOPT_INFILESIZE_LARGE, curl_off_t(count)))
            natural = .put
        case .bytes(let bytes) where request.bytesPerSecond != nil && !bytes.isEmpty:
            // The callback provides the body, because it can hold it back.
            set(CURLOPT_POST, to: 1)
            check(csl_easy_set_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(bytes.count)))
            natural = .post
        case .bytes(let bytes):
            setPost(size: bytes.count, memory)
            natural = .post
        case .none where [.post, .put, .patch].contains(request.method):
            // These methods announce that they have no body: "Content-Length: 0".
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
        check(csl_easy_set_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(size)))
        // The body is in memory instead of coming by callback, so that head and body leave in one packet.
        set(CURLOPT_POSTFIELDS, to: memory.body.baseAddress)
    }

    mutating func setCallbacks(context: UnsafeMutableRawPointer, ledger: UnsafeMutableRawPointer) {
        check(csl_easy_set_header_callback(easy, CurlCallbacks.header))
        set(CURLOPT_HEADERDATA, to: context)
        check(csl_easy_set_write_callback(easy, CurlCallbacks.body))
        set(CURLOPT_WRITEDATA, to: context)
        check(csl_easy_set_read_callback(easy, CurlCallbacks.read))
        set(CURLOPT_READDATA, to: context)
        check(csl_easy_set_ready_callback(easy, CurlCallbacks.ready))
        set(CURLOPT_PREREQDATA, to: context)
        check(csl_easy_set_open_socket_callback(easy, CurlCallbacks.openSocket))
        set(CURLOPT_OPENSOCKETDATA, to: context)
        check(csl_easy_set_close_socket_callback(easy, CurlCallbacks.closeSocket))
        set(CURLOPT_CLOSESOCKETDATA, to: ledger)
    }

    mutating func set(_ option: CURLoption, to value: Int) {
        check(csl_easy_set_long(easy, option, value))
    }

    mutating func set(_ option: CURLoption, toOffset value: Int) {
        check(csl_easy_set_offset(easy, option, curl_off_t(value)))
    }

    mutating func set(_ option: CURLoption, to text: String) {
        // curl would end the text at a NUL and use another file or place.
        check(text.utf8.contains(0) ? CURLE_BAD_FUNCTION_ARGUMENT : csl_easy_set_text(easy, option, text))
    }

    mutating func set(_ option: CURLoption, to pointer: UnsafeMutableRawPointer?) {
        check(csl_easy_set_pointer(easy, option, pointer))
    }

    /// Keeps the first failure.
    private mutating func check(_ code: CURLcode) {
        if failure == CURLE_OK { failure = code }
    }

    /// `CURLAUTH_BASIC`, a macro that Swift does not see.
    private static let basic = 1
    private static let own = ["Content-Length", "Transfer-Encoding", "Accept-Encoding", "Expect"]
}
